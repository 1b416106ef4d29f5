"""The tables of the study `helsinki`, ours and the kernel's side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults, Results
from aqmlab.results.variable import Variable
from aqmlab.stats import Evidence, Interval
from aqmlab.studies.helsinki import measures, recorded
from aqmlab.studies.helsinki.claims import CLAIMS, NOT_OF_THE_KERNEL, OURS, THEIRS
from aqmlab.studies.helsinki.experiments import DATAGRAMS, QUEUES, burst, burst_traces, third, throughout
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Table
from aqmlab.study.query import Query, by_point, cell, in_order, label_of, law, scaled, stacked
from aqmlab.study.tables import Tabulates, crossed, listed


def _in_words(start: Any) -> str:
    return f"{start:g}"


_HEADS = {"start": "start (s)"}


def _axes(variable: Variable) -> list[str]:
    """What tells the conditions of a variable apart."""
    return [one for one in ("system", "service", "queue", "start") if one in ("queue", *variable.axes)]


def _conditions(variable: Variable) -> Query:
    of_queues = stacked("queue", {name: variable.at(**at) for name, at in QUEUES.items()})
    return of_queues.told(start=_in_words)


def by_condition(*variables: Variable) -> Tabulates:
    """Means of variables, a line for each condition."""
    columns = {label_of(one): _conditions(one) for one in variables}
    return listed(columns, *_axes(variables[0]), heads=_HEADS)


# Two sources side by side

Pair = tuple[
    Callable[[ExperimentResults], ExperimentResults], Callable[[ExperimentResults], ExperimentResults]
]
"""Where the runs are from whose means are compared."""

_SYSTEMS = {ours: f"{ours} | {theirs}" for theirs, ours in recorded.BESIDE.items()}


def _both(
    variable: Variable, pair: Pair, results: ExperimentResults
) -> Mapping[Any, tuple[Interval, Interval]]:
    """The means of two sources in the conditions in which both have some."""
    asked, axes = _conditions(variable), _axes(variable)
    if "system" in axes:
        asked = asked.told(system=_SYSTEMS)
    ours, theirs = (by_point(asked, runs(results), axes) for runs in pair)
    return {point: (ours[point], theirs[point]) for point in in_order(theirs) if point in ours}


def means_beside(pair: Pair, *variables: Variable) -> Tabulates:
    """Means of both, a line for each condition, with a sign that says whether they agree."""

    def told(ours: Interval, theirs: Interval) -> str:
        return f"{cell(ours)} | {cell(theirs)} {'=' if recorded.agree(ours, theirs) else '≠'}"

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        columns = {label_of(one): _both(one, pair, results) for one in variables}
        points = in_order(point for column in columns.values() for point in column)
        heads = [_HEADS.get(axis, axis) for axis in _axes(variables[0])]
        return pl.DataFrame(points, schema=heads, orient="row").with_columns(
            pl.Series(head, [told(*column[point]) if point in column else None for point in points])
            for head, column in columns.items()
        )

    return tabulate


def agreement(columns: Mapping[str, tuple[Pair, Labels]], *variables: Variable) -> Tabulates:
    """How many means agree, by variable; a column is of two sources, where some axes have these values."""

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        rows = []
        for one in variables:
            several = (_both(one.at(**at), pair, results).values() for pair, at in columns.values())
            agree = ([recorded.agree(*both) for both in found] for found in several)
            cells = (f"{sum(found)} of {len(found)}" for found in agree)
            rows.append((one.experiments[0].title, label_of(one), *cells))
        return pl.DataFrame(rows, schema=["case", "measure", *columns], orient="row")

    return tabulate


def recorded_of(third: Experiment, burst: Experiment) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """What the kernel's replications have, too, by case."""
    return (
        tuple(third[one] for one in measures.RECORDED_OF_THREE),
        tuple(burst[one] for one in measures.RECORDED_WITH_UDP),
    )


def while_active(third: Experiment) -> tuple[Variable, ...]:
    """What happens to the third flow, with shares in percent."""
    shares, others = measures.WHILE_ACTIVE[:3], measures.WHILE_ACTIVE[3:]
    return *(scaled(third[one], 100, "%") for one in shares), *(third[one] for one in others)


def _sharing(experiment: Experiment, *several: Measure) -> Tabulates:
    share = scaled(experiment[measures.UDP_SHARE], 100, "%")
    return by_condition(*(experiment[one] for one in several), share, experiment[measures.FAIRNESS])


# What is printed of single runs and of the kernel

_PARTS = ("third dropped (%)", "others dropped (%)", "third's bytes (%)")


def _kernels(queue: str, start: float, part: str) -> float:
    return recorded.LOCK_OUT[queue, start][_PARTS.index(part)]


def _examples(results: ExperimentResults) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = [
        ("printed in the talk", None, f"{tcp}", count)
        for tcp, count in ((24.5, 127), (23.7, 224), (25.5, 181))
    ]
    for row in results[burst_traces.name].rows:
        got = f"{row[measures.TRACED_TIME]:.1f}", row[measures.TRACED_DATAGRAMS]
        rows.append(("Tail Drop, bytes", _in_words(row.labels["start"]), *got))
    schema = ["queue", "UDP starts (s)", "TCP elapsed (s)", "datagrams received"]
    return pl.DataFrame(rows, schema=schema, orient="row")


# Claims


def _at_recorded_starts(results: ExperimentResults) -> ExperimentResults:
    """Our runs at the starts at which the kernel's were recorded, too."""
    found = {}
    for name, theirs in recorded.results().items():
        starts = tuple(start for start in results[name].axes["start"] if start in theirs.axes["start"])
        rows = tuple(row for row in results[name].rows if row.labels["start"] in starts)
        found[name] = Results.of_rows(rows=rows, axes={**results[name].axes, "start": starts})
    return found


def _claims_beside(results: ExperimentResults) -> pl.DataFrame:
    """The verdict of each claim that the recorded runs are judged by, on ours at their starts and on them."""

    def told(evidence: Evidence) -> str:
        return f"{evidence.verdict} {evidence.value:.2f}"

    both = _at_recorded_starts(results), recorded.results()
    rows = [
        (
            claim.id,
            *(
                " | ".join(told(claim.rule.at(reading.labels).judge(runs)) for runs in both)
                for reading in THEIRS
            ),
        )
        for claim in CLAIMS
        if claim.id not in NOT_OF_THE_KERNEL
    ]
    heads = [f"{ours.name} | {theirs.name}" for ours, theirs in zip(OURS, THEIRS, strict=True)]
    return pl.DataFrame(rows, schema=["claim", *heads], orient="row")


_WITH_THE_KERNEL: Pair = (lambda results: results, recorded.in_place)
_OF_THIRD, _OF_BURST = recorded_of(third, burst)

TABLES = (
    Table(
        id="agreement",
        title="How many means agree with the kernel's",
        caption="Within 10 %, or with intervals that overlap; of all conditions that the kernel was run in.",
        table=agreement(
            {both: (_WITH_THE_KERNEL, {"system": ours}) for ours, both in _SYSTEMS.items()},
            *_OF_THIRD,
            *_OF_BURST,
        ),
    ),
    Table(
        id="claims-beside-kernel",
        title="Claims at the recorded starts",
        caption="Ours | the kernel's, both at 0, 2, 5 and 5.5 s, and at 0, 2, 7 and 18 s of UDP: the "
        "verdict, and the number that decides. Elsewhere our claims are judged at all starts of the talk. "
        "Forms `d` are left out, since they were written when the kernel's runs were known.",
        table=_claims_beside,
    ),
    Table(
        id="third-beside-kernel",
        title="First test case beside the kernel",
        caption="Ours | the kernel's, means ± half of the 95 % interval; = within 10 % or intervals that "
        "overlap. Times from SYN to last acknowledgement, packets sent again. The buffers of 6.1 refuse what "
        "does not fit in, those of linux-2.4 go on until more than the limit waits.",
        table=means_beside(_WITH_THE_KERNEL, *_OF_THIRD),
    ),
    Table(
        id="burst-beside-kernel",
        title="Second test case beside the kernel",
        caption="Ours | the kernel's, as above; UDP for five seconds, 250 datagrams. The kernel's linux-2.4 "
        "has an initial time-out of 1 s here.",
        table=means_beside(_WITH_THE_KERNEL, *_OF_BURST),
    ),
    Table(
        id="while-active",
        title="What happens to the third flow while it is active",
        caption="Shares of the data that came to the bottleneck, in percent; retransmissions lost again, "
        "SYNs lost and time-outs are numbers per run. Jain's index is of size over time.",
        table=by_condition(*while_active(third)),
    ),
    Table(
        id="while-active-kernel",
        title="The same on the kernel beside linux-2.4",
        caption="Means of 20 replications.",
        table=crossed(
            law(_kernels, queue=tuple(QUEUES), start=(2, 5, 5.5), part=_PARTS).told(start=_in_words),
            rows=("queue", "start"),
            columns="part",
            heads=_HEADS,
            tell=lambda found: f"{found.value:.1f}",
        ),
    ),
    Table(
        id="burst-fairness",
        title="How TCP and UDP share the bottleneck, UDP for five seconds",
        caption="Bytes taken while both are active; SYNs apart, packets that TCP sent again.",
        table=_sharing(burst, *measures.RECORDED_WITH_UDP, measures.TCP_SENT_AGAIN),
    ),
    Table(
        id="throughout",
        title="UDP until the TCP flow is done",
        caption="While both are active.",
        table=_sharing(throughout, measures.TCP_TIME, measures.UDP_ARRIVED),
    ),
    Table(
        id="examples",
        title="Example runs of one class, linux-2.4",
        caption=f"Of {DATAGRAMS} datagrams sent; the talk shows three runs that differ in the start of UDP "
        "only. RI-11 to RI-13 compare them with means of 20 replications.",
        table=_examples,
    ),
)
