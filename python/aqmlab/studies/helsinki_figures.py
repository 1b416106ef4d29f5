"""The figures and tables of the study `helsinki`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from aqmlab import stats
from aqmlab.grid import Labels, Results, Runs
from aqmlab.plot import Chart
from aqmlab.publication import Figure, Table
from aqmlab.studies import helsinki_kernel as kernel
from aqmlab.studies.helsinki_runs import (
    DATAGRAMS,
    QUEUES,
    SYSTEMS,
    TAILS,
    TRACED,
    TRACED_BURSTS,
)
from aqmlab.studies.shared import Measure, estimates, shown
from aqmlab.time_sequence import time_sequence

NAMES = {"tail": "Tail Drop, bytes", "ptail": "Tail Drop, packets", "red": "RED"}
UNITS = {"tail": "limit in bytes", "ptail": "limit in packets"}
_KERNEL = " (kernel)"

Line = tuple[str, Labels]
"""A line of a chart: its name, and which runs it is of."""


# Lines, with the kernel's means beside them


def lines_of(named: Iterable[tuple[str, Runs]], metric: str, x: str) -> pl.DataFrame:
    """Means and intervals against a start, a line for each of the runs that have the measure."""
    rows = [
        (name, float(at), stats.mean_interval(runs.where(**{x: at}).values(metric)))
        for name, runs in named
        for at in runs.axis(x)
        if any(metric in row.values for row in runs.rows)
    ]
    return estimates(rows, by="line", x=x)


def _lines(results: Results, sweep: str, metric: str, lines: Sequence[Line], x: str) -> pl.DataFrame:
    """Means and intervals of some lines, and then the kernel's where it was run."""
    named = [
        (name + told, found[sweep].where(**labels))
        for told, found in (("", results), (_KERNEL, kernel.results()))
        if sweep in found
        for name, labels in lines
    ]
    return lines_of(named, metric, x)


def _beside(names: Iterable[str]) -> dict[str, str]:
    return {name + _KERNEL: name for name in names}


def start_label(sweep: str) -> str:
    """The label of the start that a case is told by."""
    return "third_s" if sweep == "third" else "udp_s"


def _against(
    sweep: str, metric: str, said: tuple[str, str], panels: Sequence[tuple[str, Sequence[Line]]], **more: Any
) -> Callable[[Results], Chart]:
    """A measure against a start, with panels that each have lines of the same names."""
    x = start_label(sweep)

    def chart(results: Results) -> Chart:
        frames = [
            _lines(results, sweep, metric, lines, x).with_columns(pl.lit(panel).alias("panel"))
            for panel, lines in panels
        ]
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x=x,
            y="value",
            by="line",
            panel="panel",
            beside=_beside(name for name, _ in panels[0][1]),
            x_label=said[0],
            y_label=said[1],
            **more,
        )

    return chart


THIRD = "Start of the third flow (s)"
UDP = "Start of the UDP flow (s)"

_BY_SYSTEM = [
    (system, [(NAMES[queue], {"system": system, "queue": queue}) for queue in QUEUES]) for system in SYSTEMS
]

_BY_UNIT = [
    (
        f"{system}, {UNITS[tail]}",
        [
            (
                f"{name}{' + DS' if classes == 2 else ''}",
                {"system": system, "queue": queue, "classes": classes},
            )
            for classes in (1, 2)
            for name, queue in (("Tail Drop", tail), ("RED", "red"))
        ],
    )
    for system in SYSTEMS
    for tail in TAILS
]

FLOWS = {"fastest initial flow": "fastest", "slowest initial flow": "slowest", "third flow": "third"}


def _of_flows(system: str, metric: str, y_label: str, **more: Any) -> Callable[[Results], Chart]:
    """A measure of the three flows, a panel for each queue."""

    def chart(results: Results) -> Chart:
        frames = []
        for queue in QUEUES:
            at = {"system": system, "queue": queue}
            parts = [
                _lines(results, "third", metric_of(metric, flow), [(name, at)], "third_s")
                for name, flow in FLOWS.items()
            ]
            frames.append(pl.concat(parts).with_columns(pl.lit(NAMES[queue]).alias("panel")))
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x="third_s",
            y="value",
            by="line",
            panel="panel",
            beside=_beside(FLOWS),
            x_label=THIRD,
            y_label=y_label,
            **more,
        )

    return chart


def metric_of(metric: str, flow: str) -> str:
    """The name of a measure of one of the three flows."""
    if metric == "retransmitted":
        return f"retransmitted_{flow}"
    return "elapsed_s" if flow == "third" else f"{flow}_s"


# Boxes


def five_numbers(values: Sequence[float]) -> tuple[float, ...]:
    """Least, lower quartile, median, upper quartile and most."""
    known = [value for value in values if not math.isnan(value)]
    return (
        tuple(float(one) for one in np.quantile(known, [0, 0.25, 0.5, 0.75, 1])) if known else (math.nan,) * 5
    )


_OURS_AND_THE_KERNELS = ("aqmlab", "Linux 6.1 kernel")


def _boxes(system: str) -> Callable[[Results], Chart]:
    ours, theirs = _OURS_AND_THE_KERNELS

    def chart(results: Results) -> Chart:
        return boxes({ours: results, theirs: kernel.results()}, system, beside={theirs: ours})

    return chart


def boxes(sources: Mapping[str, Results], system: str, *, beside: Mapping[str, str]) -> Chart:
    """Elapsed times of the third flow over replications, from some sources, at the starts of the first."""
    rows = []
    for queue in QUEUES:
        found = [(name, one["third"].where(system=system, queue=queue)) for name, one in sources.items()]
        for name, runs in found:
            for start in found[0][1].axis("third_s"):
                values = runs.where(third_s=start).values("elapsed_s")
                if values:
                    rows.append((NAMES[queue], name, f"{start:g}", *five_numbers(values)))
    schema = ["queue", "from", "third_s", "least", "q25", "median", "q75", "most"]
    return Chart(
        kind="boxes",
        table=pl.DataFrame(rows, schema=schema, orient="row"),
        x="third_s",
        y="median",
        by="from",
        panel="queue",
        beside=beside,
        x_label=THIRD,
        y_label="Elapsed time of the third flow (s)",
        y_limits=(0.0, 45.0),
    )


# Tables beside the kernel

Measures = Sequence[Measure]

THIRD_MEASURES: Measures = (
    ("third (s)", "elapsed_s", 1, 1.0),
    ("handshake (s)", "handshake_s", 2, 1.0),
    ("fastest (s)", "fastest_s", 1, 1.0),
    ("slowest (s)", "slowest_s", 1, 1.0),
    ("sent again, fastest", "retransmitted_fastest", 1, 1.0),
    ("slowest", "retransmitted_slowest", 1, 1.0),
    ("third", "retransmitted_third", 1, 1.0),
)

BURST_MEASURES: Measures = (("datagrams received", "datagrams", 1, 1.0), ("TCP elapsed (s)", "tcp_s", 2, 1.0))

WHILE_ACTIVE: Measures = (
    ("third dropped (%)", "third_dropped", 1, 100.0),
    ("others dropped (%)", "others_dropped", 1, 100.0),
    ("third's bytes (%)", "third_bytes", 1, 100.0),
    ("lost again", "lost_again", 2, 1.0),
    ("SYNs lost", "syns_lost", 2, 1.0),
)

CASES = (("third", "first", THIRD_MEASURES), ("burst", "second", BURST_MEASURES))
"""What stands beside the kernel's: by sweep, which case it is, and the measures."""


def _agreement(results: Results) -> pl.DataFrame:
    """How many means agree with the kernel's, by case, measure and system."""
    return agreement({system: (results, kernel.results(), system) for system in SYSTEMS})


def agreement(columns: Mapping[str, tuple[Results, Results, str]]) -> pl.DataFrame:
    """How many means agree, by case and measure; a column is of two sources, and of a system."""
    rows = []
    for sweep, said, measures in CASES:
        for name, metric, _, _ in measures:
            cells = []
            for first, second, system in columns.values():
                found = [
                    kernel.agree(ours.values(metric), theirs.values(metric))
                    for labels, ours, theirs in _both(first[sweep], second[sweep])
                    if labels["system"] == system
                ]
                cells.append(f"{sum(found)} of {len(found)}")
            rows.append((said, name, *cells))
    return pl.DataFrame(rows, schema=["case", "measure", *columns], orient="row")


def _both(ours: Runs, theirs: Runs) -> list[tuple[dict[str, Any], Runs, Runs]]:
    """Our runs and theirs in every condition that both were made in, in their order."""
    pairs = [(labels, ours.where(**labels), theirs.where(**labels)) for labels in _conditions(theirs)]
    return [pair for pair in pairs if pair[1].rows]


def _conditions(runs: Runs) -> list[dict[str, Any]]:
    return [dict(labels) for labels in {tuple(row.labels.items()): None for row in runs.rows}]


def _beside_kernel(sweep: str, measures: Measures) -> Callable[[Results], pl.DataFrame]:
    return lambda results: means_beside(results[sweep], kernel.results()[sweep], measures)


def means_beside(ours: Runs, theirs: Runs, measures: Measures) -> pl.DataFrame:
    """Means of both in every condition, with a sign that says whether they agree."""
    rows = []
    for labels, mine, its in _both(ours, theirs):
        cells = [_cell(mine, its, measure) for measure in measures]
        rows.append((*(_named(one) for one in labels.values()), *cells))
    names = {"third_s": "start (s)", "udp_s": "start (s)"}
    schema = [names.get(name, name) for name in _conditions(theirs)[0]]
    return pl.DataFrame(rows, schema=[*schema, *(name for name, *_ in measures)], orient="row")


def _cell(ours: Runs, theirs: Runs, measure: Measure) -> str:
    _, metric, digits, scale = measure
    agrees = kernel.agree(ours.values(metric), theirs.values(metric))
    told = (shown(runs, metric, digits, scale) for runs in (ours, theirs))
    return f"{' | '.join(told)} {'=' if agrees else '≠'}"


def _named(label: str | float) -> str:
    """A label as tables print it."""
    return NAMES.get(label, label) if isinstance(label, str) else f"{label:g}"


def _case_table(sweep: str, measures: Measures) -> Callable[[Results], pl.DataFrame]:
    """Means of measures that the kernel's replications do not have."""

    def table(results: Results) -> pl.DataFrame:
        runs = results[sweep]
        keys = list(dict.fromkeys(tuple(row.labels.items()) for row in runs.rows))
        rows = []
        for key in keys:
            ours = runs.where(**dict(key))
            rows.append(
                (
                    *(_named(value) for _, value in key),
                    *(shown(ours, metric, digits, scale) for _, metric, digits, scale in measures),
                )
            )
        names = {"third_s": "start (s)", "udp_s": "start (s)"}
        schema = [names.get(name, name) for name, _ in keys[0]]
        return pl.DataFrame(rows, schema=[*schema, *(name for name, *_ in measures)], orient="row")

    return table


def _kernel_lock_out(_: Results) -> pl.DataFrame:
    rows = [
        (NAMES[queue], f"{start:g}", *(f"{100 * share:.1f}" for share in shares))
        for (queue, start), shares in kernel.LOCK_OUT.items()
    ]
    schema = ["queue", "start (s)", "third dropped (%)", "others dropped (%)", "third's bytes (%)"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _boxes_table(results: Results) -> pl.DataFrame:
    return boxes_table(
        dict(zip(_OURS_AND_THE_KERNELS, (results, kernel.results()), strict=True)), tuple(SYSTEMS)
    )


def boxes_table(sources: Mapping[str, Results], systems: Sequence[str]) -> pl.DataFrame:
    """What boxes are drawn from, of some sources, at the starts of the first."""
    rows = []
    for system in systems:
        for queue in QUEUES:
            found = [one["third"].where(system=system, queue=queue) for one in sources.values()]
            for start in found[0].axis("third_s"):
                cells = [_five(runs.where(third_s=start)) for runs in found]
                rows.append((system, NAMES[queue], f"{start:g}", *cells))
    return pl.DataFrame(rows, schema=["system", "queue", "start (s)", *sources], orient="row")


def _five(runs: Runs) -> str | None:
    values = runs.values("elapsed_s")
    return "  ".join(f"{one:.1f}" for one in five_numbers(values)) if values else None


_PRINTED_BURSTS = ((24.5, 127), (23.7, 224), (25.5, 181))


def _examples_table(results: Results) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = [
        ("printed in the talk", None, f"{tcp:g}", str(count)) for tcp, count in _PRINTED_BURSTS
    ]
    for row in results["burst-traces"].rows:
        rows.append(
            (
                NAMES["ptail"],
                f"{row.labels['udp_s']:g}",
                f"{row.values['elapsed_s']:.1f}",
                f"{row.values['datagrams']:.0f}",
            )
        )
    schema = ["queue", "UDP starts (s)", "TCP elapsed (s)", "datagrams received"]
    return pl.DataFrame(rows, schema=schema, orient="row")


# Sequences against the time


Panel = tuple[str, Labels]
"""A panel of single runs: its title, and which run it is of."""


def traces(
    sweep: str, panels: Sequence[Panel], guides: Mapping[str, Mapping[str, float]]
) -> Callable[[Results], Chart]:
    """Time-sequence graphs of some flows, a panel each."""

    def chart(results: Results) -> Chart:
        charts = []
        for title, labels in panels:
            for row in results[sweep].where(**labels).rows:
                packets = pl.DataFrame(row.values["columns"], schema_overrides={"link": pl.String})
                charts.append(time_sequence(packets, row.values["flow"], name=title))
        return replace(charts[0], table=pl.concat([one.table for one in charts]), panel_guides=guides)

    return chart


def _trace_figures() -> tuple[Figure, ...]:
    third = [(f"{NAMES[queue]}, {start:g} s", {"plot": (queue, start)}) for queue, start in TRACED]
    burst = [(f"UDP from {start:g} s", {"udp_s": start}) for start in TRACED_BURSTS]
    marks = {title: {"UDP": labels["udp_s"]} for title, labels in burst}
    return (
        Figure(
            id="lock-out",
            title="The third flow: what it sends, loses and hears",
            caption="linux-2.4, first replication, by queue and start: time-sequence graphs.",
            chart=traces("traces", third, {}),
        ),
        Figure(
            id="burst-examples",
            title="A TCP flow beside UDP that starts at different moments",
            caption="linux-2.4, one class, Tail Drop with a limit in packets, first replication; what both "
            "flows get is in the table of example runs.",
            chart=traces("burst-traces", burst, marks),
        ),
    )


_MEAN = "Means and 95 % intervals of 20 replications; diamonds are the Linux 6.1 kernel's"
_LIKE = ", beside linux-2.4 with SACK recovery by counting, beside linux-6 with Reno."

FIGURES = (
    Figure(
        id="elapsed",
        title="Elapsed time of the third flow",
        caption=_MEAN + _LIKE,
        chart=_against("third", "elapsed_s", (THIRD, "Elapsed time (s)"), _BY_SYSTEM, y_limits=(0.0, 35.0)),
    ),
    Figure(
        id="handshake",
        title="Handshake of the third flow",
        caption=_MEAN + _LIKE,
        chart=_against("third", "handshake_s", (THIRD, "Handshake (s)"), _BY_SYSTEM, y_limits=(0.0, 5.0)),
    ),
    *(
        Figure(
            id=f"boxes-{system}",
            title=f"Elapsed time of the third flow over replications, {system}",
            caption="Least, lower quartile, median, upper quartile and most of 20 replications; the "
            "kernel's, where it was run, hollow.",
            chart=_boxes(system),
        )
        for system in SYSTEMS
    ),
    *(
        Figure(
            id=f"flows-{system}",
            title=f"Elapsed times of the three flows, {system}",
            caption=f"{_MEAN}.",
            chart=_of_flows(system, "elapsed", "Elapsed time (s)", y_limits=(0.0, 45.0)),
        )
        for system in SYSTEMS
    ),
    *(
        Figure(
            id=f"retransmitted-{system}",
            title=f"Retransmitted packets of the three flows, {system}",
            caption=f"{_MEAN}.",
            chart=_of_flows(system, "retransmitted", "Retransmitted packets", y_limits=(0.0, 30.0)),
        )
        for system in SYSTEMS
    ),
    Figure(
        id="datagrams",
        title="Datagrams received of 250 in five seconds",
        caption=f"{_MEAN}. DS: two classes.",
        chart=_against("burst", "datagrams", (UDP, "Datagrams received"), _BY_UNIT, y_limits=(50.0, 300.0)),
    ),
    Figure(
        id="tcp-beside-udp",
        title="Elapsed time of the TCP flow beside five seconds of UDP",
        caption=f"{_MEAN}. DS: two classes.",
        chart=_against("burst", "tcp_s", (UDP, "Elapsed time (s)"), _BY_UNIT, y_limits=(22.0, 32.0)),
    ),
    Figure(
        id="fairness",
        title="Jain's index of TCP and UDP while both are active",
        caption="Of the bytes that the bottleneck took from each. Means and 95 % intervals. DS: two classes.",
        chart=_against("burst", "jain", (UDP, "Jain's index"), _BY_UNIT, y_limits=(0.45, 1.02)),
    ),
    Figure(
        id="throughout-tcp",
        title="Elapsed time of the TCP flow, UDP until it is done",
        caption="Means and 95 % intervals. DS: two classes.",
        chart=_against("throughout", "tcp_s", (UDP, "Elapsed time (s)"), _BY_UNIT),
    ),
    Figure(
        id="throughout-udp",
        title="Datagrams that arrive while the TCP flow lasts",
        caption="As a share of those sent. Means and 95 % intervals. DS: two classes.",
        chart=_against(
            "throughout", "udp_arrived", (UDP, "Share of datagrams"), _BY_UNIT, y_limits=(0.0, 1.05)
        ),
    ),
    *_trace_figures(),
)

TABLES = (
    Table(
        id="agreement",
        title="How many means agree with the kernel's",
        caption="Within 10 %, or with intervals that overlap; of all conditions that the kernel was run in.",
        table=_agreement,
    ),
    Table(
        id="third-beside-kernel",
        title="First test case beside the kernel",
        caption="Ours | the kernel's, means ± half of the 95 % interval; = within 10 % or intervals that "
        "overlap. Times from SYN to last acknowledgement, packets sent again.",
        table=_beside_kernel("third", THIRD_MEASURES),
    ),
    Table(
        id="burst-beside-kernel",
        title="Second test case beside the kernel",
        caption="Ours | the kernel's, as above; UDP for five seconds, 250 datagrams. The kernel's linux-2.4 "
        "has an initial time-out of 1 s here.",
        table=_beside_kernel("burst", BURST_MEASURES),
    ),
    Table(
        id="boxes",
        title="Elapsed time of the third flow over replications",
        caption="Least, quartiles and most, in seconds.",
        table=_boxes_table,
    ),
    Table(
        id="while-active",
        title="What happens to the third flow while it is active",
        caption="Shares of the data that came to the bottleneck, in percent; retransmissions lost again, "
        "SYNs lost and time-outs are numbers per run. Jain's index is of size over time.",
        table=_case_table(
            "third",
            (
                *WHILE_ACTIVE,
                ("time-outs", "third_timeouts", 2, 1.0),
                ("Jain's index", "jain", 3, 1.0),
            ),
        ),
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
        table=_case_table(
            "burst",
            (
                ("datagrams received", "datagrams", 1, 1.0),
                ("TCP elapsed (s)", "tcp_s", 2, 1.0),
                ("sent again", "retransmitted", 1, 1.0),
                ("UDP's bytes (%)", "udp_share", 1, 100.0),
                ("Jain's index", "jain", 3, 1.0),
            ),
        ),
    ),
    Table(
        id="throughout",
        title="UDP until the TCP flow is done",
        caption="While both are active.",
        table=_case_table(
            "throughout",
            (
                ("TCP elapsed (s)", "tcp_s", 1, 1.0),
                ("datagrams that arrive (%)", "udp_arrived", 1, 100.0),
                ("UDP's bytes (%)", "udp_share", 1, 100.0),
                ("Jain's index", "jain", 3, 1.0),
            ),
        ),
    ),
    Table(
        id="examples",
        title="Example runs of one class, linux-2.4",
        caption=f"Of {DATAGRAMS} datagrams sent; the talk shows three runs that differ in the start of UDP "
        "only.",
        table=_examples_table,
    ),
)
