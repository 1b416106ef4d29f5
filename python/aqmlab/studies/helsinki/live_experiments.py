"""The runs of the study `helsinki`, live: the study's own scenarios at the starts that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults, Results
from aqmlab.studies.helsinki import experiments, recorded
from aqmlab.studies.helsinki.experiments import BYTES, KERNEL, QUEUE, SERVICE, TAIL_DROP, UNIT, only, starts
from aqmlab.study.experiment import Experiment, Form

SYSTEM = "linux-6"

LIVE, SIMULATED, RECORDED = "live", "simulated", "recorded"
"""Where replications are from."""

DURATION = "60s"
"""The longest a replication may take; the longest that was recorded took 38 s."""

ETHERNET = 14
"""Bytes of each packet that are the header of the line, which the kernel's queues count."""

# Experiments: those of the study, with flows that start when those of a recorded replication did


def _begun(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
    """Starts the flows of a replication when those of the recorded one did; each flow is a workload."""
    workloads, case = table["traffic"], "burst"
    if "initial" in workloads:
        initial = workloads["initial"] | {"flows": 1}
        workloads, case = {"first": initial, "second": initial, "third": workloads["third"]}, "third"
    begun = recorded.starts(case, {"system": SYSTEM, **labels}, seed)
    traffic = {
        name: {**workload, "start": f"{begun[name]:.6f}s", "stagger": "0s"}
        for name, workload in workloads.items()
    }
    return table | {"traffic": traffic}


def _twice(
    model: Experiment, axes: Mapping[str, Any], *, seeds: int, quick: int
) -> tuple[Experiment, Experiment]:
    """An experiment of the study along other axes, live and simulated."""
    host = {**model.given["host"], "link_header": f"{ETHERNET}B"}
    live, simulated = (
        Experiment(
            name=f"{model.name}-{source}",
            title=model.title,
            scenario={**model.given, "duration": DURATION, "host": host, "tcp": KERNEL},
            axes=axes,
            measures=model.measures,
            seeds=seeds,
            quick=Form(seeds=quick),
            live=source == LIVE,
            of_seed=_begun,
        )
        for source in (LIVE, SIMULATED)
    )
    return live, simulated


third_live, third = _twice(
    experiments.third,
    {"unit": UNIT, "queue": QUEUE, "traffic.third.start": starts(0, 2, 5, 5.5)},
    seeds=20,
    quick=6,
)
burst_live, burst = _twice(
    experiments.burst,
    {"service": SERVICE, "unit": UNIT, "queue": QUEUE, "traffic.voice.start": starts(0, 2, 7, 18)},
    seeds=10,
    quick=4,
)
traces_live, traces = _twice(
    experiments.traces,
    {"unit": only(UNIT, BYTES), "queue": only(QUEUE, TAIL_DROP), "traffic.third.start": starts(2, 5)},
    seeds=1,
    quick=1,
)

# Sources: in the place of the simulated runs, which the rules are written for


def _live(results: ExperimentResults) -> ExperimentResults:
    return {third.name: results[third_live.name], burst.name: results[burst_live.name]}


def _recorded(results: ExperimentResults) -> ExperimentResults:
    """The recorded replications that were made live, too."""
    known = recorded.results()
    return {name: _as_made(known[name.split("-")[0]], made) for name, made in _live(results).items()}


def _as_made(known: Results, made: Results) -> Results:
    rows = []
    for row in known.rows_at(system=SYSTEM):
        labels = {label: row.labels[label] for label in made.axes}
        if row.seed in made.by_point.get(tuple(labels.values()), {}):
            rows.append(replace(row, labels=labels))
    return Results.of_rows(rows=tuple(rows), axes=made.axes)


SOURCES: Mapping[str, Callable[[ExperimentResults], ExperimentResults]] = {
    LIVE: _live,
    SIMULATED: lambda results: results,
    RECORDED: _recorded,
}
"""What finds the runs of each source in all of them, in the form that rules and figures take."""
