"""Determines the warm-up of each point of a sweep by MSER-5, from one pilot run without warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aqmlab.campaign import Executor, Task, execute, settled
from aqmlab.measures import Measure, View

if TYPE_CHECKING:
    from aqmlab.store import Store
    from aqmlab.sweep.point import Point
    from aqmlab.sweep.sweep import Sweep


def _settled_s(view: View) -> float | None:
    """Returns the time (s) until the queues and the number of open transfers are steady, by MSER-5, or `None`
    if they do not become steady within the run."""
    import numpy as np
    import polars as pl

    from aqmlab import metrics

    _, end_s = view.window
    step_s = end_s / WARM_UP_SAMPLES
    series = []
    queue = view.run.tables["queue"]
    for link in queue["link"].unique(maintain_order=True):
        ours = queue.filter(pl.col("link") == link).sort("time_s")
        series.append(ours["length_packets"].to_numpy().astype(np.float64))
    transfers = view.run.tables["transfers"]
    if transfers.height >= metrics.LEAST_TRANSFERS:
        series.append(metrics.active_series(transfers, step_s, end_s).astype(np.float64))
    cuts = [metrics.mser5(one) for one in series]
    if any(cut is None for cut in cuts):
        return None
    return max((cut * step_s for cut in cuts if cut is not None), default=0.0)


class NoWarmUpError(ValueError):
    """The exception that is raised if the warm-up of points is unknown and runs are not allowed."""


def all_stored(tasks: Sequence[Task], store: Store) -> bool:
    """Returns whether the store contains these runs."""
    kept = store.runs_of([task.scenario.digest for task in tasks])
    return all(settled(kept.get(task.run), task.keys, retry=True) for task in tasks)


WARM_UP_SAMPLES = 400
"""Number of samples of a queue in a pilot run. MSER-5 groups the samples into 80 batches of 5."""

WARM_UP = Measure(name="mser-5", title="warm-up by MSER-5", unit="s", compute=_settled_s)


def pilots(sweep: Sweep, points: Sequence[Point]) -> list[Task]:
    """Returns the pilot runs, which are one run of each point without warm-up."""
    from aqmlab.metrics import seconds

    tasks = []
    for point in points:
        scenario = sweep.scenario_of(point)
        every = seconds(scenario.effective["duration"]) / WARM_UP_SAMPLES
        pilot = scenario.with_({"warm_up": "0s", "record.queue_every": f"{every * 1e3:.6g}ms"})
        name = f"{sweep.name}, warm-up of point {point.number}"
        tasks.append(Task(scenario=pilot, seed=point.first_seed, measures=(WARM_UP,), name=name))
    return tasks


def warm_ups(
    points: Sequence[Point], tasks: Sequence[Task], store: Store, executor: Executor, label: str | None
) -> dict[int, str]:
    """Executes the pilot runs `tasks` and returns the warm-up of each point, by the point's number. Raises
    `ValueError` if a run does not become steady."""
    bar_label = f"{label}: warm-up" if label else None
    execute(tasks, store, executor=executor, label=bar_label, total=len(tasks), retry=True, fail_fast=True)
    kept = store.runs_of([task.scenario.digest for task in tasks])
    found = {}
    for point, task in zip(points, tasks, strict=True):
        settled_s = kept[task.run].values[WARM_UP.key]
        if settled_s is None:
            raise ValueError(
                f"warm_up: according to MSER-5, the run of point {point.number} ({point.description}) does "
                "not reach a steady state: increase the duration, or set warm_up in the scenario"
            )
        found[point.number] = f"{math.ceil(settled_s * 1000):d}ms"
    return found
