"""The figures and tables of the study `helsinki`, live: a line, a box or a cell for each source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from aqmlab.grid import Results
from aqmlab.plot import Chart
from aqmlab.publication import Figure, Table
from aqmlab.studies import helsinki_figures as study
from aqmlab.studies.helsinki_figures import NAMES, THIRD, UDP, Measures, metric_of, start_label
from aqmlab.studies.helsinki_live_runs import (
    LIVE,
    RECORDED,
    SIMULATED,
    SOURCES,
    SYSTEM,
    TRACED,
    by_source,
    sweep_of,
)
from aqmlab.studies.helsinki_runs import QUEUES

_BESIDE = {RECORDED: RECORDED}
"""The recorded runs are hollow."""


def _of_sources(
    sweep: str, panels: Mapping[str, tuple[Mapping[str, Any], str]], said: tuple[str, str], **more: Any
) -> Callable[[Results], Chart]:
    """Measures against the start; a panel has its labels and its measure."""
    x = start_label(sweep)

    def chart(results: Results) -> Chart:
        found = by_source(results)
        frames = [
            study.lines_of(
                ((source, found[source][sweep].where(**labels)) for source in SOURCES), metric, x
            ).with_columns(pl.lit(panel).alias("panel"))
            for panel, (labels, metric) in panels.items()
        ]
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x=x,
            y="value",
            by="line",
            panel="panel",
            beside=_BESIDE,
            x_label=said[0],
            y_label=said[1],
            **more,
        )

    return chart


def _by_queue(metric: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    return {NAMES[queue]: ({"queue": queue}, metric) for queue in QUEUES}


def _by_flow(metric: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    return {
        f"{flow}, {NAMES[queue]}": ({"queue": queue}, metric_of(metric, short))
        for queue in QUEUES
        for flow, short in (("fastest", "fastest"), ("slowest", "slowest"), ("third", "third"))
    }


def _by_class(metric: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    return {
        f"{NAMES[queue]}{', two classes' if classes == 2 else ''}": (
            {"queue": queue, "classes": classes},
            metric,
        )
        for classes in (1, 2)
        for queue in QUEUES
    }


_MEANS = (
    "Live: the kernel's TCP of this machine through our queues; simulated: our TCP through the same; "
    "recorded, as diamonds: TCP, HTB and queues of the Linux 6.1 kernel. Same starts; means and "
    "95 % intervals"
)


def _boxes(results: Results) -> Chart:
    return study.boxes(by_source(results), SYSTEM, beside=_BESIDE)


def _trace_figure() -> Figure:
    panels = {
        source: [
            (f"{source}: {NAMES[queue]}, {start:g} s", {"plot": (queue, start)}) for queue, start in TRACED
        ]
        for source in (LIVE, SIMULATED)
    }
    drawn = {
        source: study.traces(sweep_of(source, "traces"), panels[source], {}) for source in (LIVE, SIMULATED)
    }

    def chart(results: Results) -> Chart:
        charts = [draw(results) for draw in drawn.values()]
        return replace(charts[0], table=pl.concat([one.table for one in charts]))

    return Figure(
        id="lock-out",
        title="The third flow, live and simulated: what it sends, loses and hears",
        caption="Single runs, by source, queue and start: time-sequence graphs of the first replication. "
        "Live it is the kernel's TCP, as the router sees its packets.",
        chart=chart,
    )


FIGURES = (
    Figure(
        id="elapsed",
        title="Elapsed time of the third flow",
        caption=f"{_MEANS}.",
        chart=_of_sources("third", _by_queue("elapsed_s"), (THIRD, "Elapsed time (s)"), y_limits=(0.0, 25.0)),
    ),
    Figure(
        id="handshake",
        title="Handshake of the third flow",
        caption=f"{_MEANS}.",
        chart=_of_sources("third", _by_queue("handshake_s"), (THIRD, "Handshake (s)"), y_limits=(0.0, 5.0)),
    ),
    Figure(
        id="boxes-third",
        title="Elapsed time of the third flow over replications",
        caption="Least, lower quartile, median, upper quartile and most of the replications: live, "
        "simulated, and, hollow, recorded.",
        chart=_boxes,
    ),
    Figure(
        id="flows",
        title="Elapsed times of the three flows",
        caption=f"{_MEANS}.",
        chart=_of_sources("third", _by_flow("elapsed"), (THIRD, "Elapsed time (s)"), y_limits=(0.0, 45.0)),
    ),
    Figure(
        id="retransmitted",
        title="Retransmitted packets of the three flows",
        caption=f"{_MEANS}.",
        chart=_of_sources(
            "third", _by_flow("retransmitted"), (THIRD, "Retransmitted packets"), y_limits=(0.0, 30.0)
        ),
    ),
    Figure(
        id="datagrams",
        title="Datagrams received of 250 in five seconds",
        caption=f"{_MEANS}.",
        chart=_of_sources(
            "burst", _by_class("datagrams"), (UDP, "Datagrams received"), y_limits=(50.0, 300.0)
        ),
    ),
    Figure(
        id="tcp-beside-udp",
        title="Elapsed time of the TCP flow beside five seconds of UDP",
        caption=f"{_MEANS}.",
        chart=_of_sources("burst", _by_class("tcp_s"), (UDP, "Elapsed time (s)"), y_limits=(22.0, 27.0)),
    ),
    _trace_figure(),
)

# Tables


def _agreement(results: Results) -> pl.DataFrame:
    found = by_source(results)
    pairs = ((LIVE, RECORDED), (LIVE, SIMULATED), (SIMULATED, RECORDED))
    return study.agreement({f"{a}, {b}": (found[a], found[b], SYSTEM) for a, b in pairs})


def _beside(sweep: str, source: str, measures: Measures) -> Callable[[Results], pl.DataFrame]:
    def table(results: Results) -> pl.DataFrame:
        found = by_source(results)
        return study.means_beside(found[LIVE][sweep], found[source][sweep], measures)

    return table


def _boxes_table(results: Results) -> pl.DataFrame:
    return study.boxes_table(by_source(results), (SYSTEM,))


_SIGNS = "= within 10 % or intervals that overlap"

TABLES = (
    Table(
        id="agreement",
        title="How many means agree",
        caption="Of all conditions: within 10 % of the second, or with intervals that overlap.",
        table=_agreement,
    ),
    *(
        Table(
            id=f"{sweep}-beside-{source}",
            title=f"{said.capitalize()} test case, live beside {source}",
            caption=f"Live | {source}, means ± half of the 95 % interval; {_SIGNS}.",
            table=_beside(sweep, source, measures),
        )
        for sweep, said, measures in study.CASES
        for source in (RECORDED, SIMULATED)
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
        caption=f"Live | simulated; {_SIGNS}. Shares of the data that came to the bottleneck, in percent; "
        "retransmissions lost again and SYNs lost are numbers per run.",
        table=_beside("third", SIMULATED, study.WHILE_ACTIVE),
    ),
)
