"""The runs of the study `helsinki`, live: the study's own scenarios at the starts that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aqmlab.experiment import Experiment, Form
from aqmlab.measure import Measure
from aqmlab.runs import Labels, Results, Row, Runs
from aqmlab.studies.helsinki import experiments, measures, recorded
from aqmlab.studies.helsinki.experiments import (
    BYTES,
    KERNEL,
    QUEUE,
    SERVICE,
    TAIL_DROP,
    THREE_FLOWS,
    UNIT,
    WITH_BURST,
    remembering,
    starts,
)
from aqmlab.sweep import Changes

SYSTEM = "linux-6"

LIVE, SIMULATED, RECORDED = "live", "simulated", "recorded"
"""Where replications are from."""

DURATION = "60s"
"""The longest a replication may take; the longest that was recorded took 38 s."""

ETHERNET = 14
"""Bytes of each packet that are the header of the line, which the kernel's queues count."""

# Experiments: those of the study, with flows that start when those of a recorded replication did


def _begun_as(case: str) -> Callable[[dict[str, Any], Labels, int], dict[str, Any]]:
    """Starts the flows of a replication when those of the recorded one did; each flow is a workload."""

    def of_seed(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
        workloads = table["traffic"]
        if "initial" in workloads:
            initial = workloads["initial"] | {"flows": 1}
            workloads = {"first": initial, "second": initial, "third": workloads["third"]}
        begun = recorded.starts(case, {"system": SYSTEM, **labels}, seed)
        traffic = {
            name: {**workload, "start": f"{begun[name]:.6f}s", "stagger": "0s"}
            for name, workload in workloads.items()
        }
        return table | {"traffic": traffic}

    return of_seed


def _twice(
    name: str,
    title: str,
    scenario: dict[str, Any],
    axes: Mapping[str, Any],
    measured: Sequence[Measure],
    seeds: int,
    quick: int,
    case: str,
) -> tuple[Experiment, Experiment]:
    """An experiment, live and simulated."""
    host = scenario["host"] | {"link_header": f"{ETHERNET}B"}
    live, simulated = (
        Experiment(
            name=f"{name}-{source}",
            title=title,
            scenario=scenario | {"duration": DURATION, "host": host, "tcp": KERNEL},
            axes=axes,
            measures=measured,
            seeds=seeds,
            quick=Form(seeds=quick),
            live=source == LIVE,
            of_seed=_begun_as(case),
        )
        for source in (LIVE, SIMULATED)
    )
    return live, simulated


third_live, third = _twice(
    "third",
    experiments.third.title,
    THREE_FLOWS,
    {"unit": UNIT, "queue": QUEUE, "traffic.third.start": starts(0, 2, 5, 5.5)},
    experiments.third.measures,
    seeds=20,
    quick=6,
    case="third",
)

burst_live, burst = _twice(
    "burst",
    experiments.burst.title,
    WITH_BURST,
    {"service": SERVICE, "unit": UNIT, "queue": QUEUE, "traffic.voice.start": starts(0, 2, 7, 18)},
    experiments.burst.measures,
    seeds=10,
    quick=4,
    case="burst",
)

traces_live, traces = _twice(
    "traces",
    experiments.traces.title,
    remembering(THREE_FLOWS, "third"),
    {
        "unit": Changes({BYTES: UNIT[BYTES]}),
        "queue": Changes({TAIL_DROP: QUEUE[TAIL_DROP]}),
        "traffic.third.start": starts(2, 5),
    },
    measures.HISTORY,
    seeds=1,
    quick=1,
    case="third",
)

# Sources: in the place of the simulated runs, which the rules are written for


def _live(results: Results) -> Results:
    return {third.name: results[third_live.name], burst.name: results[burst_live.name]}


def _recorded(results: Results) -> Results:
    """The recorded replications that were made live, too."""
    found = recorded.results()
    return {name: _as_live(found[name.split("-")[0]], runs) for name, runs in _live(results).items()}


def _as_live(recorded: Runs, made: Runs) -> Runs:
    rows = []
    for row in recorded.rows:
        labels = {label: row.labels[label] for label in made.axes}
        at = made.by_point.get(tuple(labels.values()), {})
        if row.labels["system"] == SYSTEM and row.seed in at:
            rows.append(Row(labels=labels, seed=row.seed, values=row.values))
    return Runs(rows=tuple(rows), axes=made.axes)


SOURCES: Mapping[str, Callable[[Results], Results]] = {
    LIVE: _live,
    SIMULATED: lambda results: results,
    RECORDED: _recorded,
}
"""What finds the runs of each source in all of them, in the form that rules and figures take."""
