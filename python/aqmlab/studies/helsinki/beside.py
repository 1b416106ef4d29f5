"""Figures and tables that compare the two test cases of the study `helsinki` between several sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable
from aqmlab.run_charts.time_sequence import time_sequence
from aqmlab.studies.helsinki import measures as m
from aqmlab.studies.helsinki.testbed import ONE_CLASS, QUEUES, RED, TAIL_DROP, TWO_CLASSES
from aqmlab.study import Experiment, Figure, Table, boxes, line, listed, paired, recorded_in, scaled, stacked
from aqmlab.study.charts import Draws
from aqmlab.study.query import Query, label_of, query
from aqmlab.study.tables import Tabulates

Source = Callable[[ExperimentResults], ExperimentResults]
"""Function that selects the runs of a source from all runs."""

THIRD, UDP = "Start of the third flow (s)", "Start of the UDP flow (s)"
HEADS = {"start": "start (s)"}

CLASSES: Mapping[str, Labels] = {
    f"{queue}{apart}": {"service": service, "queue": queue}
    for service, apart in ((ONE_CLASS, ""), (TWO_CLASSES, " + DS"))
    for queue in (TAIL_DROP, RED)
}


def ours(results: ExperimentResults) -> ExperimentResults:
    """A study's own runs."""
    return results


in_words = "{:g}".format
"""Formats a starting time without unnecessary decimals."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Figures and tables of the two test cases in several systems."""

    third: Experiment
    burst: Experiment
    pairs: Mapping[str, tuple[Labels, Source, Source]]
    """Pairs of sources by name, with the labels at which their means are compared."""
    caption: str
    """Caption of the figures with lines."""
    sources: Mapping[str, Source] = field(default_factory=lambda: {"": ours})
    """Sources of the runs of each system; a single source if systems are an axis of the experiments."""
    marks: Mapping[str, Source] = field(default_factory=dict)
    """Sources that are plotted as marks in addition to the lines, by the suffix of the lines' names."""

    @property
    def systems(self) -> Sequence[Any]:
        """The systems that have separate figures."""
        return self.third.values("system") if "system" in self.third.labels else tuple(self.sources)

    def of(self, variable: Variable) -> Query:
        """A variable in each system."""
        if "system" in variable.axes:
            return query(variable)
        return stacked("system", {name: recorded_in(variable, find) for name, find in self.sources.items()})

    # Figures

    def figure(self, id: str, title: str, lines: Query, *panels: str, **options: Any) -> Figure:
        """A chart of lines against the starting time, with marks in the colours of the lines."""
        beside = {f"{name}{after}": name for after in self.marks for name in (*QUEUES, *m.TIMES, *CLASSES)}
        chart = line(lines, x="start", by="line", panel=panels, beside=beside, **options)
        return Figure(id, title, chart, self.caption)

    def lines(self, lines: Mapping[str, Variable]) -> Query:
        """A line and marks for each variable."""
        marks = {
            f"{name}{after}": recorded_in(one, find)
            for after, find in self.marks.items()
            for name, one in lines.items()
        }
        return stacked("line", {**{name: self.of(one) for name, one in lines.items()}, **marks})

    def beside_udp(self, id: str, title: str, variable: Variable, *y_limits: float) -> Figure:
        """A figure of the second case, with a line for each queue and number of classes."""
        lines = self.lines({name: variable.at(**at) for name, at in CLASSES.items()})
        lines = lines.relabelled(unit=lambda unit: f"limit in {unit}")
        figure = self.figure(id, title, lines, "system", "unit", x_label=UDP, y_limits=y_limits or None)
        return replace(figure, caption=f"{self.caption} DS: two classes.")

    @property
    def figures(self) -> Iterator[Figure]:
        """The figures of both cases."""
        for id, title, one, most in (
            ("elapsed", "Elapsed time of the third flow", m.ELAPSED, 35.0),
            ("handshake", "Handshake of the third flow", m.HANDSHAKE, 5.0),
        ):
            lines = self.lines({queue: self.third[one].at(**at) for queue, at in QUEUES.items()})
            yield self.figure(id, title, lines, "system", x_label=THIRD, y_limits=(0.0, most))
        for id, title, flows, y_label, most in (
            ("flows", "Elapsed times of the three flows", m.TIMES, "Elapsed time (s)", 45.0),
            ("retransmitted", "Packets sent again", m.SENT_AGAIN, "Packets sent again", 30.0),
        ):
            queues = {
                queue: self.lines({flow: self.third[one].at(**at) for flow, one in flows.items()})
                for queue, at in QUEUES.items()
            }
            options = {"x_label": THIRD, "y_label": y_label, "y_limits": (0.0, most)}
            for system in self.systems:
                lines = stacked("queue", queues).at(system=system)
                yield self.figure(f"{id}-{system}", f"{title}, {system}", lines, "queue", **options)
        for id, title, one, low, high in (
            ("datagrams", "Datagrams received of 250 in five seconds", m.DATAGRAMS, 50.0, 300.0),
            ("tcp-beside-udp", "The TCP flow beside five seconds of UDP", m.TCP_TIME, 22.0, 32.0),
            ("fairness", "Jain's index while TCP and UDP are active", m.FAIRNESS, 0.45, 1.02),
        ):
            yield self.beside_udp(id, title, self.burst[one], low, high)

    # Tables

    def by_condition(self, *variables: Variable) -> Tabulates:
        """Means of variables, with a row for each condition."""
        columns = {label_of(one): _conditions(one, self.of) for one in variables}
        first, *_ = columns.values()
        return listed(columns, *_axes(first), heads=HEADS)

    def sharing(self, experiment: Experiment, *several: Measure) -> Tabulates:
        """Means of the second case, with the shares of TCP and UDP at the bottleneck."""
        share = scaled(experiment[m.UDP_SHARE], 100, "%")
        return self.by_condition(*(experiment[one] for one in several), share, experiment[m.FAIRNESS])

    def means_beside(self, variables: Sequence[Variable]) -> Tabulates:
        """Means of the two sources of each pair, with a row for each condition."""

        def side(variable: Variable, number: int) -> Query:
            several = {
                name: _conditions(variable.at(**at), partial(recorded_in, runs=sources[number]))
                for name, (at, *sources) in self.pairs.items()
            }
            return stacked("system", several)

        columns = [(side(one, 0), side(one, 1)) for one in variables]
        return paired(columns, *_axes(columns[0][0]), heads=HEADS)

    def agreement(self, *cases: Sequence[Variable]) -> Tabulates:
        """The number of means of each pair that agree, by variable."""

        def tabulate(results: ExperimentResults) -> pl.DataFrame:
            rows = []
            for case in cases:
                frame = self.means_beside(case)(results)
                for head in map(label_of, case):
                    signs = (frame.filter(system=name)[head].drop_nulls() for name in self.pairs)
                    agree = (f"{found.str.ends_with('=').sum()} of {found.len()}" for found in signs)
                    rows.append((case[0].experiments[0].title, head, *agree))
            return pl.DataFrame(rows, ["case", "measure", *self.pairs], orient="row")

        return tabulate

    @property
    def tables(self) -> Iterator[Table]:
        """The tables of both cases."""
        third = tuple(self.third[one] for one in m.RECORDED_OF_THREE)
        burst = tuple(self.burst[one] for one in m.RECORDED_WITH_UDP)
        how = "=: within 10 % of the second mean, or with overlapping intervals."
        yield Table("agreement", "Number of means that agree", self.agreement(third, burst), how)
        yield Table("third-beside-kernel", "First test case", self.means_beside(third), how)
        yield Table("burst-beside-kernel", "Second test case", self.means_beside(burst), how)
        shares = (scaled(self.third[one], 100, "%") for one in m.SHARES)
        yield Table(
            "while-active",
            "The third flow while it is active",
            self.by_condition(*shares, *(self.third[one] for one in m.LOCK_OUT)),
            "Shares of the data that arrived at the bottleneck; lost retransmissions, lost SYNs and timeouts "
            "are numbers per run. Jain's index is that of size divided by time.",
        )


def _conditions(variable: Variable, of: Callable[[Variable], Query]) -> Query:
    """A variable in all conditions."""
    return stacked("queue", {name: of(variable.at(**at)) for name, at in QUEUES.items()}).relabelled(
        start=in_words
    )


def _axes(shown: Query) -> list[str]:
    """The axes that distinguish conditions."""
    return [one for one in ("system", "service", "queue", "start") if one in shown.axes]


def elapsed_boxes(elapsed: Variable, sources: Mapping[str, Source], beside: Mapping[str, str]) -> Draws:
    """Elapsed times of the third flow over replications, with a panel for each queue."""
    panels = {queue: elapsed.at(**at) for queue, at in QUEUES.items()}
    options = {"x_label": THIRD, "y_limits": (0.0, 45.0), "beside": beside}
    return boxes(panels, sources, x="start", panel="queue", **options)


def sequences(panels: Mapping[str, tuple[Experiment, Labels]], **options: Any) -> Draws:
    """Time-sequence graphs of the flows of single runs, with a panel for each run."""

    def draw(results: ExperimentResults) -> Chart:
        charts = []
        for title, (experiment, labels) in panels.items():
            for row in results[experiment.name].rows_at(**labels):
                packets = pl.DataFrame(row[m.PACKETS], schema_overrides={"link": pl.String})
                charts.append(time_sequence(packets, packets["flow"][0], name=title))
        return replace(charts[0], table=pl.concat([one.table for one in charts]), **options)

    return draw
