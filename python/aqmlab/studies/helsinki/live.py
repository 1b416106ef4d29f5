"""The study `helsinki`, live: the kernel's TCP of this machine through our queues, in real time.

Question: does what the study finds hold for the real thing? Each replication stands beside two others whose
flows start at the same moments: a simulated one, and one that was recorded on the Linux 6.1 kernel, with the
kernel's own HTB, FIFO and RED, in virtual time.

Claims, rules, measures and bands are those of the study; only the system `linux-6` can be had live.
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
"""Where replications are from."""


def _begun(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
    """Starts the flows of a replication when those of the recorded one did; each flow is a workload."""
    workloads, case = table["traffic"], "burst"
    if "initial" in workloads:
        initial = workloads["initial"] | {"flows": 1}
        workloads, case = {"first": initial, "second": initial, "third": workloads["third"]}, "third"
    begun = recorded.starts(case, {"system": "linux-6", **labels}, seed)
    traffic = {
        name: {**workload, "start": f"{begun[name]:.6f}s", "stagger": "0s"}
        for name, workload in workloads.items()
    }
    return table | {"traffic": traffic}


def _twice(model: Experiment, axes: Mapping[str, Any], *, seeds: int, quick: int) -> list[Experiment]:
    """An experiment of the study along other axes, live and simulated. A replication may take 60 s: the
    longest that was recorded took 38 s. The kernel's queues count the 14 bytes of the line's header."""
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
            of_seed=_begun,
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

# Sources: in the place of the simulated runs, which the rules are written for


def _live(results: ExperimentResults) -> ExperimentResults:
    return {third.name: results[third_live.name], burst.name: results[burst_live.name]}


def _recorded(results: ExperimentResults) -> ExperimentResults:
    """The recorded replications that were made live, too."""
    found = {}
    for name, made in _live(results).items():
        there = {(*row.labels.values(), row.seed) for row in made.rows}
        known = recorded.results()[name.split("-")[0]].at(system="linux-6")
        rows = (row for row in known.rows if (*row.labels.values(), row.seed) in there)
        found[name] = Results.of_rows(rows, made.axes)
    return found


SOURCES: Mapping[str, beside.Source] = {LIVE: _live, SIMULATED: beside.ours, RECORDED: _recorded}
"""What finds the runs of each source in all of them, in the form that rules and figures take."""

COMPARED = beside.Comparison(
    third=third,
    burst=burst,
    pairs={
        f"{first} | {second}": ({}, SOURCES[first], SOURCES[second])
        for first, second in ((LIVE, RECORDED), (LIVE, SIMULATED), (SIMULATED, RECORDED))
    },
    sources=SOURCES,
    caption="Means and 95 % intervals, at the same starts. Live: the kernel's TCP of this machine through "
    "our queues; simulated: our TCP through the same; recorded: TCP, HTB and queues of Linux 6.1.",
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
        "Least, lower quartile, median, upper quartile and most of the replications.",
    ),
    Figure(
        "lock-out",
        "The third flow, live and simulated: what it sends, loses and hears",
        beside.sequences(
            {
                f"{source}: Tail Drop, bytes, {start} s": (experiment, {"start": start})
                for source, experiment in ((LIVE, traces_live), (SIMULATED, traces))
                for start in (2, 5)
            }
        ),
        "Time-sequence graphs of the first replication. Live it is the kernel's TCP, as the router sees it.",
    ),
    *COMPARED.tables,
    paper=helsinki.STUDY.paper,
    question="Does what is simulated of a slow last hop hold with the kernel's own TCP in real time, and on "
    "the recorded kernel, at the same starts?",
    readings=(
        *readings(LIVE, "-live", {}, runs=_live),
        *readings(SIMULATED, "-sim", {}, runs=beside.ours),
        *readings(RECORDED, "-rec", {}, runs=_recorded, leaves_out=helsinki.NOT_OF_THE_KERNEL),
    ),
    checks=helsinki.unfinished(third_live, third, burst_live, burst),
)
