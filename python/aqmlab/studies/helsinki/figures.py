"""The figures of the study `helsinki`, ours and the kernel's side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, seeds_of, series
from aqmlab.run_charts.time_sequence import time_sequence
from aqmlab.studies.helsinki import measures, recorded
from aqmlab.studies.helsinki.experiments import (
    DATAGRAMS,
    ONE_CLASS,
    QUEUES,
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
from aqmlab.study.charts import Draws, line
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Figure
from aqmlab.study.query import Query, elsewhere, stacked

# Against the start

THIRD = "Start of the third flow (s)"
UDP = "Start of the UDP flow (s)"

_CLASSES = {
    f"{queue}{apart}": {"service": service, "queue": queue}
    for service, apart in ((ONE_CLASS, ""), (TWO_CLASSES, " + DS"))
    for queue in (TAIL_DROP, RED)
}

_KERNEL = " (Linux 6.1)"
_HOLLOW = {f"{name}{_KERNEL}": name for name in (*QUEUES, *measures.TIMES, *_CLASSES)}
"""The kernel's lines, and ours whose colours they have."""

_against_start = partial(line, x="start", by="line", beside=_HOLLOW)


def _beside_kernel(lines: Mapping[str, Variable]) -> Query:
    """A line for each variable, and one for what was recorded of it."""
    theirs = {f"{name}{_KERNEL}": elsewhere(one, recorded.in_place) for name, one in lines.items()}
    return stacked("line", {**lines, **theirs})


def _by_queue(measure: Measure) -> Query:
    return _beside_kernel({name: third[measure].at(**at) for name, at in QUEUES.items()})


def _by_flow(flows: Mapping[str, Measure], system: str) -> Query:
    of_queues = {
        queue: _beside_kernel({flow: third[one].at(system=system, **at) for flow, one in flows.items()})
        for queue, at in QUEUES.items()
    }
    return stacked("queue", of_queues)


def _of_third(asked: Query, panel: str, y_label: str, most: float) -> Draws:
    return _against_start(asked, panel=panel, x_label=THIRD, y_label=y_label, y_limits=(0.0, most))


def _of_udp(variable: Variable, y_label: str, y_limits: tuple[float, float] | None = None) -> Draws:
    lines = _beside_kernel({name: variable.at(**at) for name, at in _CLASSES.items()})
    return _against_start(
        lines.told(unit=lambda unit: f"limit in {unit}"),
        panel=("system", "unit"),
        x_label=UDP,
        y_label=y_label,
        y_limits=y_limits,
    )


# Boxes

Sources = Mapping[str, Callable[[ExperimentResults], ExperimentResults]]
"""Where replications are from, by what it is called."""


def boxes(elapsed: Variable, sources: Sources, beside: Mapping[str, str]) -> Draws:
    """Elapsed times of the third flow over replications, from some sources, at the starts of our runs."""

    def draw(results: ExperimentResults) -> Chart:
        rows = []
        for (queue, at), (source, runs) in itertools.product(QUEUES.items(), sources.items()):
            variable, found = elapsed.at(**at), runs(results)
            for start in variable.values_of("start", results):
                values = series(variable, found, {"start": start}, seeds_of([variable], found))
                known = [value for value in values if not math.isnan(value)]
                if known:
                    numbers = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist()
                    rows.append((queue, source, f"{start:g}", *numbers))
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


# Sequences against the time


def sequences(panels: Mapping[str, tuple[Experiment, Labels]], **options: Any) -> Draws:
    """Time-sequence graphs of the flows of single runs, a panel each."""

    def draw(results: ExperimentResults) -> Chart:
        charts = []
        for title, (experiment, labels) in panels.items():
            for row in results[experiment.name].rows_at(**labels):
                packets = pl.DataFrame(row[measures.PACKETS], schema_overrides={"link": pl.String})
                charts.append(time_sequence(packets, row[measures.FLOW], name=title))
        return replace(charts[0], table=pl.concat([one.table for one in charts]), **options)

    return draw


_MEAN = "Means and 95 % intervals; diamonds are the Linux 6.1 kernel's"
_LIKE = ", beside linux-2.4 with SACK recovery by counting, beside linux-6 with Reno."

FIGURES = (
    *(
        Figure(
            id=title.split()[0].lower(),
            title=f"{title} of the third flow",
            caption=_MEAN + _LIKE,
            chart=_of_third(_by_queue(measure), "system", f"{title} (s)", most),
        )
        for title, measure, most in (
            ("Elapsed time", measures.ELAPSED, 35.0),
            ("Handshake", measures.HANDSHAKE, 5.0),
        )
    ),
    *(
        Figure(
            id=f"boxes-{system}",
            title=f"Elapsed time of the third flow over replications, {system}",
            caption="Least, lower quartile, median, upper quartile and most of the replications; the "
            "kernel's, where it was run, hollow.",
            chart=boxes(
                third[measures.ELAPSED].at(system=system),
                {"aqmlab": lambda results: results, "Linux 6.1 kernel": recorded.in_place},
                {"Linux 6.1 kernel": "aqmlab"},
            ),
        )
        for system in SYSTEMS
    ),
    *(
        Figure(
            id=f"{id}-{system}",
            title=f"{title} of the three flows, {system}",
            caption=f"{_MEAN}.",
            chart=_of_third(_by_flow(flows, system), "queue", y_label, most),
        )
        for id, title, flows, y_label, most in (
            ("flows", "Elapsed times", measures.TIMES, "Elapsed time (s)", 45.0),
            ("retransmitted", "Retransmitted packets", measures.SENT_AGAIN, "Retransmitted packets", 30.0),
        )
        for system in SYSTEMS
    ),
    *(
        Figure(id=id, title=title, caption=f"{caption}. DS: two classes.", chart=chart)
        for id, title, caption, chart in (
            (
                "datagrams",
                f"Datagrams received of {DATAGRAMS} in five seconds",
                _MEAN,
                _of_udp(burst[measures.DATAGRAMS], "Datagrams received", (50.0, 300.0)),
            ),
            (
                "tcp-beside-udp",
                "Elapsed time of the TCP flow beside five seconds of UDP",
                _MEAN,
                _of_udp(burst[measures.TCP_TIME], "Elapsed time (s)", (22.0, 32.0)),
            ),
            (
                "fairness",
                "Jain's index of TCP and UDP while both are active",
                "Of the bytes that the bottleneck took from each. Means and 95 % intervals",
                _of_udp(burst[measures.FAIRNESS], "Jain's index", (0.45, 1.02)),
            ),
            (
                "throughout-tcp",
                "Elapsed time of the TCP flow, UDP until it is done",
                "Means and 95 % intervals",
                _of_udp(throughout[measures.TCP_TIME], "Elapsed time (s)"),
            ),
            (
                "throughout-udp",
                "Datagrams that arrive while the TCP flow lasts",
                "As a share of those sent. Means and 95 % intervals",
                _of_udp(throughout[measures.UDP_ARRIVED], "Share of datagrams", (0.0, 1.05)),
            ),
        )
    ),
    Figure(
        id="lock-out",
        title="The third flow: what it sends, loses and hears",
        caption="linux-2.4, first replication, by queue and start: time-sequence graphs.",
        chart=sequences(
            {
                f"{queue}, {start} s": (traces, {**QUEUES[queue], "start": start})
                for queue, start in (
                    ("Tail Drop, bytes", 2),
                    ("Tail Drop, bytes", 5),
                    ("Tail Drop, packets", 4),
                    ("RED", 4),
                )
            }
        ),
    ),
    Figure(
        id="burst-examples",
        title="A TCP flow beside UDP that starts at different moments",
        caption="linux-2.4, one class, Tail Drop with a limit in bytes, first replication; what both "
        "flows get is in the table of example runs.",
        chart=sequences(
            {f"UDP from {start} s": (burst_traces, {"start": start}) for start in (2, 7, 16)},
            panel_guides={f"UDP from {start} s": {"UDP": float(start)} for start in (2, 7, 16)},
        ),
    ),
)
