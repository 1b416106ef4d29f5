"""The live form of the study `helsinki`: the TCP of this machine's kernel sends through aqmlab's queues in
real time.

Question: do the results of the study hold in reality? Each live replication is compared with two other
replications whose flows start at the same times: a simulated replication, and one that was recorded on the
Linux 6.1 kernel, with the kernel's own HTB, FIFO and RED, in virtual time.

Claims, rules, measures and bands are those of the study. Only the system `linux-6` is available live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults, Results
from aqmlab.studies import helsinki
from aqmlab.studies.helsinki import beside, measures, recorded
from aqmlab.studies.helsinki.testbed import KERNEL, ONLY_TAIL_DROP, QUEUE, SERVICE, UNIT, readings, starts
from aqmlab.study import Experiment, Figure, Form, Study

LIVE, SIMULATED, RECORDED = "live", "simulated", "recorded"
"""Sources of replications."""


def _with_recorded_starts(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
    """Starts the flows of a replication at the times of the recorded replication; each flow is a workload."""
    workloads, case = table["traffic"], "burst"
    if "initial" in workloads:
        initial = workloads["initial"] | {"flows": 1}
        workloads, case = {"first": initial, "second": initial, "third": workloads["third"]}, "third"
    start_times = recorded.starts(case, {"system": "linux-6", **labels}, seed)
    traffic = {
        name: {**workload, "start": f"{start_times[name]:.6f}s", "stagger": "0s"}
        for name, workload in workloads.items()
    }
    return table | {"traffic": traffic}


def _twice(model: Experiment, axes: Mapping[str, Any], *, seeds: int, quick: int) -> list[Experiment]:
    """An experiment of the study with different axes, run both live and in simulation. A replication may take
    60 s; the longest recorded replication took 38 s. The kernel's queues include the 14 bytes of the
    link-layer header."""
    host = {**model.given["host"], "link_header": "14B"}
    return [
        Experiment(
            f"{model.name}-{source}",
            model.title,
            {**model.given, "duration": "60s", "host": host, "tcp": KERNEL},
            axes,
            model.measures,
            seeds=seeds,
            quick=Form(seeds=quick),
            live=source == LIVE,
            of_seed=_with_recorded_starts,
        )
        for source in (LIVE, SIMULATED)
    ]


_AXES = {"unit": UNIT, "queue": QUEUE}

third_live, third = _twice(
    helsinki.third, {**_AXES, "traffic.third.start": starts(0, 2, 5, 5.5)}, seeds=20, quick=6
)
burst_live, burst = _twice(
    helsinki.burst,
    {"service": SERVICE, **_AXES, "traffic.voice.start": starts(0, 2, 7, 18)},
    seeds=10,
    quick=4,
)
traces_live, traces = _twice(
    helsinki.traces, {**ONLY_TAIL_DROP, "traffic.third.start": starts(2, 5)}, seeds=1, quick=1
)

# Sources, which replace the simulated runs for which the rules are written


def _live(results: ExperimentResults) -> ExperimentResults:
    return {third.name: results[third_live.name], burst.name: results[burst_live.name]}


def _recorded(results: ExperimentResults) -> ExperimentResults:
    """The recorded replications that were also run live."""
    found = {}
    for name, runs_of_source in _live(results).items():
        available = {(*row.labels.values(), row.seed) for row in runs_of_source.rows}
        known = recorded.results()[name.split("-")[0]].at(system="linux-6")
        rows = (row for row in known.rows if (*row.labels.values(), row.seed) in available)
        found[name] = Results.of_rows(rows, runs_of_source.axes)
    return found


SOURCES: Mapping[str, beside.Source] = {LIVE: _live, SIMULATED: beside.ours, RECORDED: _recorded}
"""Functions that select the runs of each source, in the form that rules and figures need."""

COMPARED = beside.Comparison(
    third=third,
    burst=burst,
    pairs={
        f"{first} | {second}": ({}, SOURCES[first], SOURCES[second])
        for first, second in ((LIVE, RECORDED), (LIVE, SIMULATED), (SIMULATED, RECORDED))
    },
    sources=SOURCES,
    caption="Means and 95 % intervals, at the same starts. Live: the kernel's TCP of this machine through "
    "aqmlab's queues; simulated: aqmlab's TCP through the same; recorded: TCP, HTB and queues of Linux 6.1.",
)

STUDY = Study.of(
    "helsinki",
    helsinki.STUDY.title,
    *(third_live, burst_live, traces_live, third, burst, traces),
    *helsinki.claims_of_third(third, ("boxes-linux-6",)),
    *helsinki.claims_of_burst(burst),
    *COMPARED.figures,
    Figure(
        "boxes-linux-6",
        "Elapsed time of the third flow over replications",
        beside.elapsed_boxes(third[measures.ELAPSED], SOURCES, {RECORDED: RECORDED}),
        "Minimum, lower quartile, median, upper quartile and maximum of the replications.",
    ),
    Figure(
        "lock-out",
        "The third flow, live and simulated: packets sent, packets lost and acknowledgements",
        beside.sequences(
            {
                f"{source}: Tail Drop, bytes, {start} s": (experiment, {"start": start})
                for source, experiment in ((LIVE, traces_live), (SIMULATED, traces))
                for start in (2, 5)
            }
        ),
        "Time-sequence graphs of the first replication. Live shows the kernel's TCP as seen by the router.",
    ),
    *COMPARED.tables,
    paper=helsinki.STUDY.paper,
    question="Do the simulated results for a slow last hop hold with the kernel's own TCP in real time, and "
    "on the recorded kernel, at the same starts?",
    readings=(
        *readings(LIVE, "-live", {}, runs=_live),
        *readings(SIMULATED, "-sim", {}, runs=beside.ours),
        *readings(RECORDED, "-rec", {}, runs=_recorded, leaves_out=helsinki.NOT_OF_THE_KERNEL),
    ),
    checks=helsinki.unfinished(third_live, third, burst_live, burst),
)
