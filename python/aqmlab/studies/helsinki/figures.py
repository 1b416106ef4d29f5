"""The figures and tables of the study `helsinki`, ours and the kernel's side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from aqmlab.experiment import Experiment
from aqmlab.measure import Measure
from aqmlab.plot import Chart
from aqmlab.publication import Figure, Table
from aqmlab.runs import Labels, Results, Runs
from aqmlab.stats import Evidence
from aqmlab.studies.helsinki import measures, recorded
from aqmlab.studies.helsinki.claims import CLAIMS, NOT_OF_THE_KERNEL, OURS, THEIRS
from aqmlab.studies.helsinki.experiments import (
    BYTES,
    DATAGRAMS,
    ONE_CLASS,
    PACKETS,
    RED,
    SYSTEMS,
    TAIL_DROP,
    TWO_CLASSES,
    burst,
    burst_traces,
    third,
    throughout,
    traces,
)
from aqmlab.study_charts import Draws
from aqmlab.study_query import interval_of, label_of, means, scaled, shown
from aqmlab.study_tables import Tabulates
from aqmlab.time_sequence import time_sequence
from aqmlab.variable import Experiment as Where
from aqmlab.variable import Measured, Variable, seeds_of, series

QUEUES: Mapping[str, Labels] = {
    "Tail Drop, bytes": {"queue": TAIL_DROP, "unit": BYTES},
    "Tail Drop, packets": {"queue": TAIL_DROP, "unit": PACKETS},
    "RED": {"queue": RED, "unit": BYTES},
}
"""Tail Drop with either unit; RED has none, and is the same run with either."""

Sources = Callable[[Results], Mapping[str, Results]]
"""Where runs are from, by what follows the name of a line."""

KERNEL = " (Linux 6.1)"


def beside_kernel(results: Results) -> Mapping[str, Results]:
    """Our runs, and the recorded ones."""
    return {"": results, KERNEL: recorded.results()}


# Against the start

Lines = Mapping[str, Variable]
"""What has no axis but the start, by the name of its line."""


def against_start(
    panels: Mapping[str, Lines],
    x_label: str,
    y_label: str,
    sources: Sources = beside_kernel,
    beside: str = KERNEL,
    **options: Any,
) -> Draws:
    """Means and intervals against a start, of all lines and sources that have the measure; hollow marks for
    the source `beside`."""

    def draw(results: Results) -> Chart:
        frames = [
            means(variable, found, "start").select(
                pl.lit(name + source).alias("line"),
                pl.col("start").cast(pl.Float64),
                *("value", "low", "high"),
                pl.lit(panel).alias("panel"),
            )
            for panel, lines in panels.items()
            for source, found in sources(results).items()
            for name, variable in lines.items()
            if variable.experiments[0].name in found
        ]
        names = dict.fromkeys(name for lines in panels.values() for name in lines)
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x="start",
            y="value",
            by="line",
            panel="panel",
            beside={name + beside: name or beside for name in names},
            x_label=x_label,
            y_label=y_label,
            **options,
        )

    return draw


THIRD = "Start of the third flow (s)"
UDP = "Start of the UDP flow (s)"


def _by_system(measure: Measure) -> Mapping[str, Lines]:
    return {
        system: {name: third[measure].at(system=system, **at) for name, at in QUEUES.items()}
        for system in SYSTEMS
    }


def _by_queue(several: Mapping[str, Measure], system: str) -> Mapping[str, Lines]:
    return {
        queue: {name: third[measure].at(system=system, **at) for name, measure in several.items()}
        for queue, at in QUEUES.items()
    }


def _by_unit(variable: Measured) -> Mapping[str, Lines]:
    return {
        f"{system}, limit in {unit}": {
            f"{queue}{' + DS' if service == TWO_CLASSES else ''}": variable.at(
                system=system, unit=unit, service=service, queue=queue
            )
            for service in (ONE_CLASS, TWO_CLASSES)
            for queue in (TAIL_DROP, RED)
        }
        for system in SYSTEMS
        for unit in (BYTES, PACKETS)
    }


# Boxes


def five_numbers(values: Sequence[float]) -> tuple[float, ...]:
    """Least, lower quartile, median, upper quartile and most."""
    return tuple(float(one) for one in np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))


def boxes(elapsed: Variable, sources: Sources, beside: Mapping[str, str]) -> Draws:
    """Elapsed times of the third flow over replications, from some sources, at the starts of our runs."""

    def draw(results: Results) -> Chart:
        rows = []
        for (queue, at), (source, runs) in itertools.product(QUEUES.items(), sources(results).items()):
            variable = elapsed.at(**at)
            for start in variable.values_of("start", results):
                values = series(variable, runs, {"start": start}, seeds_of([variable], runs))
                known = [value for value in values if not math.isnan(value)]
                if known:
                    rows.append((queue, source, f"{start:g}", *five_numbers(known)))
        schema = ["queue", "from", "start", "least", "q25", "median", "q75", "most"]
        return Chart(
            kind="boxes",
            table=pl.DataFrame(rows, schema=schema, orient="row"),
            x="start",
            y="median",
            by="from",
            panel="queue",
            beside=beside,
            x_label=THIRD,
            y_label="Elapsed time of the third flow (s)",
            y_limits=(0.0, 45.0),
        )

    return draw


def _beside_the_kernel(results: Results) -> Mapping[str, Results]:
    return {"aqmlab": results, "Linux 6.1 kernel": recorded.results()}


# Sequences against the time


def sequences(experiment: Experiment, panels: Mapping[str, Labels], **options: Any) -> Draws:
    """Time-sequence graphs of the flows of single runs, a panel each."""

    def draw(results: Results) -> Chart:
        charts = []
        for title, labels in panels.items():
            for row in results[experiment.name].where(**labels):
                packets = pl.DataFrame(row[measures.PACKETS], schema_overrides={"link": pl.String})
                charts.append(time_sequence(packets, row[measures.FLOW], name=title))
        return replace(charts[0], table=pl.concat([one.table for one in charts]), **options)

    return draw


def at_start(queue: str, start: float) -> tuple[str, Labels]:
    """A panel of a single run: its title, and which run it is of."""
    return f"{queue}, {start:g} s", {**QUEUES[queue], "start": start}


# Tables


def _conditions(experiment: Where, results: Results) -> Iterator[tuple[list[str], Labels]]:
    """Every condition that was run, as a table tells it, and its labels."""
    axes = results[experiment.name].axes
    outer = [label for label in ("system", "service") if label in axes]
    queues = {name: at for name, at in QUEUES.items() if all(at[label] in axes[label] for label in at)}
    for start_last in itertools.product(*(axes[label] for label in outer), queues, axes["start"]):
        *chosen, queue, start = start_last
        labels = {**dict(zip(outer, chosen, strict=True)), **queues[str(queue)], "start": start}
        yield [*map(str, chosen), str(queue), f"{start:g}"], labels


def _heads(experiment: Where) -> list[str]:
    return [*(label for label in ("system", "service") if label in experiment.labels), "queue", "start (s)"]


def by_condition(experiment: Experiment, variables: Sequence[Variable]) -> Tabulates:
    """Means of variables, a row for each condition."""

    def tabulate(results: Results) -> pl.DataFrame:
        rows = [
            [*told, *(shown(variable, results, labels) for variable in variables)]
            for told, labels in _conditions(experiment, results)
        ]
        heads = [*_heads(experiment), *map(label_of, variables)]
        return pl.DataFrame(rows, schema=heads, orient="row")

    return tabulate


Pair = tuple[Results, Results]
"""Two sources whose means are compared."""


def _both(experiment: Where, pair: Pair) -> Iterator[tuple[list[str], Labels]]:
    """The conditions in which both have runs."""
    ours, theirs = (one[experiment.name] for one in pair)
    for told, labels in _conditions(experiment, pair[1]):
        if ours.where(**labels) and theirs.where(**labels):
            yield told, labels


def _agree(variable: Variable, pair: Pair, labels: Labels) -> bool:
    ours, theirs = (interval_of(variable, one, labels) for one in pair)
    return recorded.agree(ours, theirs)


def means_beside(
    variables: Sequence[Variable], pair: Callable[[Results], Pair], beside: Mapping[str, str] | None = None
) -> Tabulates:
    """Means of both in every condition, with a sign that says whether they agree; `beside` tells the systems
    of the second source by those of the first."""
    experiment = variables[0].experiments[0]

    def tabulate(results: Results) -> pl.DataFrame:
        both = pair(results)
        rows = [
            [
                f"{told[0]} | {beside[told[0]]}" if beside else told[0],
                *told[1:],
                *(
                    f"{' | '.join(shown(variable, one, labels) for one in both)} "
                    f"{'=' if _agree(variable, both, labels) else '≠'}"
                    for variable in variables
                ),
            ]
            for told, labels in _both(experiment, both)
        ]
        heads = [*_heads(experiment), *map(label_of, variables)]
        return pl.DataFrame(rows, schema=heads, orient="row")

    return tabulate


def agreement(
    cases: Sequence[Variable], columns: Callable[[Results], Mapping[str, tuple[Pair, Labels]]]
) -> Tabulates:
    """How many means agree, by variable; a column is of two sources, and of some labels."""

    def tabulate(results: Results) -> pl.DataFrame:
        compared = columns(results)
        rows = []
        for variable in cases:
            (experiment,) = variable.experiments
            cells = []
            for pair, chosen in compared.values():
                found = [
                    _agree(variable, pair, labels)
                    for _, labels in _both(experiment, pair)
                    if chosen.items() <= labels.items()
                ]
                cells.append(f"{sum(found)} of {len(found)}")
            rows.append((experiment.title, label_of(variable), *cells))
        return pl.DataFrame(rows, schema=["case", "measure", *compared], orient="row")

    return tabulate


def recorded_of(third: Experiment, burst: Experiment) -> tuple[Measured, ...]:
    """What the kernel's replications have, too."""
    return (
        *(third[one] for one in measures.RECORDED_OF_THREE),
        *(burst[one] for one in measures.RECORDED_WITH_UDP),
    )


def while_active(third: Experiment) -> tuple[Variable, ...]:
    """What happens to the third flow, with shares in percent."""
    shares, others = measures.WHILE_ACTIVE[:3], measures.WHILE_ACTIVE[3:]
    return *(scaled(third[one], 100, "%") for one in shares), *(third[one] for one in others)


_THEIRS = {ours: theirs for theirs, ours in recorded.BESIDE.items()}


def _with_the_kernel(results: Results) -> Pair:
    return results, recorded.results()


def _at_recorded_starts(results: Results) -> Results:
    """Our runs at the starts at which the kernel's were recorded, too."""
    found = {}
    for name, theirs in recorded.results().items():
        starts = tuple(start for start in results[name].axes["start"] if start in theirs.axes["start"])
        rows = tuple(row for row in results[name].rows if row.labels["start"] in starts)
        found[name] = Runs(rows=rows, axes={**results[name].axes, "start": starts})
    return found


def _claims_beside(results: Results) -> pl.DataFrame:
    """The verdict of each claim that the recorded runs are judged by, on ours at their starts and on them."""
    ours, theirs = _at_recorded_starts(results), recorded.results()
    rows = []
    for claim in CLAIMS:
        if claim.id not in NOT_OF_THE_KERNEL:
            rules = [claim.rule.at(reading.labels) for reading in THEIRS]
            both = [(rule.judge(ours), rule.judge(theirs)) for rule in rules]
            rows.append((claim.id, *(" | ".join(map(_in_short, pair)) for pair in both)))
    heads = [f"{OURS[place].name} | {theirs.name}" for place, theirs in enumerate(THEIRS)]
    return pl.DataFrame(rows, schema=["claim", *heads], orient="row")


def _in_short(evidence: Evidence) -> str:
    return f"{evidence.verdict} {evidence.value:.2f}"


def _sharing(experiment: Experiment, *several: Measure) -> Tabulates:
    share = scaled(experiment[measures.UDP_SHARE], 100, "%")
    return by_condition(
        experiment, [*(experiment[one] for one in several), share, experiment[measures.FAIRNESS]]
    )


def _kernel_lock_out(_: Results) -> pl.DataFrame:
    names = {"tail": "Tail Drop, bytes", "ptail": "Tail Drop, packets", "red": "RED"}
    rows = [
        (names[queue], f"{start:g}", *(f"{100 * share:.1f}" for share in shares))
        for (queue, start), shares in recorded.LOCK_OUT.items()
    ]
    schema = ["queue", "start (s)", "third dropped (%)", "others dropped (%)", "third's bytes (%)"]
    return pl.DataFrame(rows, schema=schema, orient="row")


_PRINTED_BURSTS = ((24.5, 127), (23.7, 224), (25.5, 181))


def _examples(results: Results) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = [
        ("printed in the talk", None, f"{tcp:g}", str(count)) for tcp, count in _PRINTED_BURSTS
    ]
    rows += [
        (
            "Tail Drop, packets",
            f"{row.labels['start']:g}",
            f"{row[measures.TRACED_TIME]:.1f}",
            f"{row[measures.TRACED_DATAGRAMS]}",
        )
        for row in results[burst_traces.name].rows
    ]
    schema = ["queue", "UDP starts (s)", "TCP elapsed (s)", "datagrams received"]
    return pl.DataFrame(rows, schema=schema, orient="row")


_MEAN = "Means and 95 % intervals; diamonds are the Linux 6.1 kernel's"
_LIKE = ", beside linux-2.4 with SACK recovery by counting, beside linux-6 with Reno."
_DS = f"{_MEAN}. DS: two classes."

_TRACED_BURSTS = {f"UDP from {start:g} s": {"start": start} for start in (2, 7, 16)}

FIGURES = (
    Figure(
        id="elapsed",
        title="Elapsed time of the third flow",
        caption=_MEAN + _LIKE,
        chart=against_start(_by_system(measures.ELAPSED), THIRD, "Elapsed time (s)", y_limits=(0.0, 35.0)),
    ),
    Figure(
        id="handshake",
        title="Handshake of the third flow",
        caption=_MEAN + _LIKE,
        chart=against_start(_by_system(measures.HANDSHAKE), THIRD, "Handshake (s)", y_limits=(0.0, 5.0)),
    ),
    *(
        Figure(
            id=f"boxes-{system}",
            title=f"Elapsed time of the third flow over replications, {system}",
            caption="Least, lower quartile, median, upper quartile and most of the replications; the "
            "kernel's, where it was run, hollow.",
            chart=boxes(
                third[measures.ELAPSED].at(system=system), _beside_the_kernel, {"Linux 6.1 kernel": "aqmlab"}
            ),
        )
        for system in SYSTEMS
    ),
    *(
        Figure(
            id=f"flows-{system}",
            title=f"Elapsed times of the three flows, {system}",
            caption=f"{_MEAN}.",
            chart=against_start(
                _by_queue(measures.TIMES, system), THIRD, "Elapsed time (s)", y_limits=(0.0, 45.0)
            ),
        )
        for system in SYSTEMS
    ),
    *(
        Figure(
            id=f"retransmitted-{system}",
            title=f"Retransmitted packets of the three flows, {system}",
            caption=f"{_MEAN}.",
            chart=against_start(
                _by_queue(measures.SENT_AGAIN, system), THIRD, "Retransmitted packets", y_limits=(0.0, 30.0)
            ),
        )
        for system in SYSTEMS
    ),
    Figure(
        id="datagrams",
        title=f"Datagrams received of {DATAGRAMS} in five seconds",
        caption=_DS,
        chart=against_start(
            _by_unit(burst[measures.DATAGRAMS]), UDP, "Datagrams received", y_limits=(50.0, 300.0)
        ),
    ),
    Figure(
        id="tcp-beside-udp",
        title="Elapsed time of the TCP flow beside five seconds of UDP",
        caption=_DS,
        chart=against_start(
            _by_unit(burst[measures.TCP_TIME]), UDP, "Elapsed time (s)", y_limits=(22.0, 32.0)
        ),
    ),
    Figure(
        id="fairness",
        title="Jain's index of TCP and UDP while both are active",
        caption="Of the bytes that the bottleneck took from each. Means and 95 % intervals. DS: two classes.",
        chart=against_start(_by_unit(burst[measures.FAIRNESS]), UDP, "Jain's index", y_limits=(0.45, 1.02)),
    ),
    Figure(
        id="throughout-tcp",
        title="Elapsed time of the TCP flow, UDP until it is done",
        caption="Means and 95 % intervals. DS: two classes.",
        chart=against_start(_by_unit(throughout[measures.TCP_TIME]), UDP, "Elapsed time (s)"),
    ),
    Figure(
        id="throughout-udp",
        title="Datagrams that arrive while the TCP flow lasts",
        caption="As a share of those sent. Means and 95 % intervals. DS: two classes.",
        chart=against_start(
            _by_unit(throughout[measures.UDP_ARRIVED]), UDP, "Share of datagrams", y_limits=(0.0, 1.05)
        ),
    ),
    Figure(
        id="lock-out",
        title="The third flow: what it sends, loses and hears",
        caption="linux-2.4, first replication, by queue and start: time-sequence graphs.",
        chart=sequences(
            traces,
            dict(
                at_start(queue, start)
                for queue, start in (
                    ("Tail Drop, bytes", 2),
                    ("Tail Drop, bytes", 5),
                    ("Tail Drop, packets", 4),
                    ("RED", 4),
                )
            ),
        ),
    ),
    Figure(
        id="burst-examples",
        title="A TCP flow beside UDP that starts at different moments",
        caption="linux-2.4, one class, Tail Drop with a limit in packets, first replication; what both "
        "flows get is in the table of example runs.",
        chart=sequences(
            burst_traces,
            _TRACED_BURSTS,
            panel_guides={title: {"UDP": at["start"]} for title, at in _TRACED_BURSTS.items()},
        ),
    ),
)

TABLES = (
    Table(
        id="agreement",
        title="How many means agree with the kernel's",
        caption="Within 10 %, or with intervals that overlap; of all conditions that the kernel was run in.",
        table=agreement(
            recorded_of(third, burst),
            lambda results: {
                f"{ours} | {theirs}": (_with_the_kernel(results), {"system": ours})
                for ours, theirs in _THEIRS.items()
            },
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
        table=means_beside([third[one] for one in measures.RECORDED_OF_THREE], _with_the_kernel, _THEIRS),
    ),
    Table(
        id="burst-beside-kernel",
        title="Second test case beside the kernel",
        caption="Ours | the kernel's, as above; UDP for five seconds, 250 datagrams. The kernel's linux-2.4 "
        "has an initial time-out of 1 s here.",
        table=means_beside([burst[one] for one in measures.RECORDED_WITH_UDP], _with_the_kernel, _THEIRS),
    ),
    Table(
        id="while-active",
        title="What happens to the third flow while it is active",
        caption="Shares of the data that came to the bottleneck, in percent; retransmissions lost again, "
        "SYNs lost and time-outs are numbers per run. Jain's index is of size over time.",
        table=by_condition(third, while_active(third)),
    ),
    Table(
        id="while-active-kernel",
        title="The same on the kernel beside linux-2.4",
        caption="Means of 20 replications.",
        table=_kernel_lock_out,
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
        "only.",
        table=_examples,
    ),
)
