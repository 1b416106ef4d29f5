"""The two test cases of the study `helsinki` in the runs of several sources, side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.runs import Results
from aqmlab.results.variable import Variable, seeds_of, series
from aqmlab.run_charts.time_sequence import time_sequence
from aqmlab.stats import Interval
from aqmlab.studies.helsinki import measures as m
from aqmlab.studies.helsinki.testbed import ONE_CLASS, QUEUES, RED, TAIL_DROP, TWO_CLASSES
from aqmlab.study import Experiment, Figure, Table, elsewhere, line, listed, scaled, stacked
from aqmlab.study.charts import Draws
from aqmlab.study.query import Asked, Query, by_point, cell, in_order, label_of, query

Source = Callable[[Results], Results]
"""What finds the runs of a source in all runs."""


def ours(results: Results) -> Results:
    """A study's own runs."""
    return results


THIRD, UDP = "Start of the third flow (s)", "Start of the UDP flow (s)"
HEADS = {"start": "start (s)"}

CLASSES: Mapping[str, Labels] = {
    f"{queue}{apart}": {"service": service, "queue": queue}
    for service, apart in ((ONE_CLASS, ""), (TWO_CLASSES, " + DS"))
    for queue in (TAIL_DROP, RED)
}


def in_words(start: Any) -> str:
    """A start without needless decimals."""
    return f"{start:g}"


AGREE = 0.1
"""How far apart two means may be that agree, as a share of the second."""


def agree(first: Interval, second: Interval) -> bool:
    """Whether two means are within 10 % of the second, or their intervals overlap."""
    near = abs(first.value - second.value) <= AGREE * abs(second.value)
    return near or (first.low <= second.high and second.low <= first.high)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared in figures and tables: the two cases, in several systems."""

    third: Experiment
    burst: Experiment
    pairs: Mapping[str, tuple[Labels, Source, Source]]
    """By name: where means are compared, and in the runs of which two sources."""
    caption: str
    """What its lines are."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Where the runs of each system are from, if systems are no axis of the experiments."""
    marks: Mapping[str, Source] = field(default_factory=dict)
    """Sources that are drawn as marks beside the lines, by what follows the names of their marks."""

    @property
    def systems(self) -> Sequence[Any]:
        """The systems that have figures of their own."""
        return tuple(self.sources) or self.third.values("system")

    def of(self, variable: Variable) -> Asked:
        """A variable in each system."""
        several = {name: elsewhere(variable, runs) for name, runs in self.sources.items()}
        return stacked("system", several) if several else variable

    def lines(self, lines: Mapping[str, Variable]) -> Query:
        """A line for each variable, and marks beside each."""
        marks = {
            f"{name}{after}": elsewhere(one, runs)
            for after, runs in self.marks.items()
            for name, one in lines.items()
        }
        return stacked("line", {**{name: self.of(one) for name, one in lines.items()}, **marks})

    def figure(self, id: str, title: str, lines: Query, *panels: str, **options: Any) -> Figure:
        """Lines against the start, and marks in the colours of the lines they belong to."""
        names = (*QUEUES, *m.TIMES, *CLASSES)
        beside = {f"{name}{after}": name for after in self.marks for name in names}
        chart = line(lines, x="start", by="line", panel=panels, beside=beside, **options)
        return Figure(id, title, chart, self.caption)

    def beside_udp(self, id: str, title: str, variable: Variable, *y_limits: float) -> Figure:
        """A figure of the second case, a line for each queue and number of classes."""
        lines = self.lines({name: variable.at(**at) for name, at in CLASSES.items()})
        lines = lines.told(unit=lambda unit: f"limit in {unit}")
        return self.figure(id, title, lines, "system", "unit", x_label=UDP, y_limits=y_limits or None)

    @property
    def figures(self) -> Iterator[Figure]:
        """Those of both cases."""
        of = self.third
        for id, title, one, most in (
            ("elapsed", "Elapsed time of the third flow", m.ELAPSED, 35.0),
            ("handshake", "Handshake of the third flow", m.HANDSHAKE, 5.0),
        ):
            lines = self.lines({queue: of[one].at(**at) for queue, at in QUEUES.items()})
            yield self.figure(id, title, lines, "system", x_label=THIRD, y_limits=(0.0, most))
        for id, title, flows, y_label, most in (
            ("flows", "Elapsed times of the three flows", m.TIMES, "Elapsed time (s)", 45.0),
            ("retransmitted", "Packets sent again", m.SENT_AGAIN, "Packets sent again", 30.0),
        ):
            queues = {
                queue: self.lines({flow: of[one].at(**at) for flow, one in flows.items()})
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

    def by_condition(self, *variables: Variable) -> Callable[[Results], pl.DataFrame]:
        """Means of variables, a row for each condition."""
        columns = {label_of(one): _conditions(one, self.of) for one in variables}
        axes = [one for one in _AXES if one in next(iter(columns.values())).axes]
        return listed(columns, *axes, heads=HEADS)

    def sharing(self, experiment: Experiment, *several: Measure) -> Callable[[Results], pl.DataFrame]:
        """Means of the second case, and how TCP and UDP share the bottleneck."""
        share = scaled(experiment[m.UDP_SHARE], 100, "%")
        return self.by_condition(*(experiment[one] for one in several), share, experiment[m.FAIRNESS])

    def means_beside(self, *variables: Variable) -> Callable[[Results], pl.DataFrame]:
        """Means of the two sources of each pair, a row for each condition, with a sign that says whether they
        agree."""

        def text(first: Interval, second: Interval) -> str:
            return f"{cell(first)} | {cell(second)} {'=' if agree(first, second) else '≠'}"

        def tabulate(results: Results) -> pl.DataFrame:
            columns = {
                label_of(one): {
                    (name, *point): text(*means)
                    for name, pair in self.pairs.items()
                    for point, means in _both(one, *pair, results).items()
                }
                for one in variables
            }
            points = in_order(point for column in columns.values() for point in column)
            axes = [one for one in _AXES if one in ("system", "queue", *variables[0].axes)]
            rows = [(*point, *(column.get(point) for column in columns.values())) for point in points]
            return pl.DataFrame(rows, [*(HEADS.get(one, one) for one in axes), *columns], orient="row")

        return tabulate

    def agreement(self, *variables: Variable) -> Callable[[Results], pl.DataFrame]:
        """How many means of each pair agree, by variable."""

        def tabulate(results: Results) -> pl.DataFrame:
            rows = []
            for one in variables:
                signs = (
                    [agree(*both) for both in _both(one, *pair, results).values()]
                    for pair in self.pairs.values()
                )
                cells = (f"{sum(found)} of {len(found)}" for found in signs)
                rows.append((one.experiments[0].title, label_of(one), *cells))
            return pl.DataFrame(rows, ["case", "measure", *self.pairs], orient="row")

        return tabulate

    @property
    def tables(self) -> Iterator[Table]:
        """Those of both cases."""
        third = tuple(self.third[one] for one in m.RECORDED_OF_THREE)
        burst = tuple(self.burst[one] for one in m.RECORDED_WITH_UDP)
        yield Table(
            "agreement",
            "How many means agree",
            self.agreement(*third, *burst),
            "Of all conditions that both were run in: within 10 %, or with intervals that overlap.",
        )
        how = "Means ± half of the 95 % interval; = within 10 % or intervals that overlap."
        yield Table("third-beside-kernel", "First test case", self.means_beside(*third), how)
        yield Table("burst-beside-kernel", "Second test case", self.means_beside(*burst), how)
        yield Table(
            "while-active",
            "What happens to the third flow while it is active",
            self.by_condition(
                *(scaled(self.third[one], 100, "%") for one in m.SHARES),
                *(self.third[one] for one in m.LOCK_OUT),
            ),
            "Shares of the data that came to the bottleneck, in percent; retransmissions lost again, SYNs "
            "lost and time-outs are numbers per run. Jain's index is of size over time.",
        )


_AXES = ("system", "service", "queue", "start")


def _conditions(variable: Variable, of: Callable[[Variable], Asked] = query) -> Query:
    """A variable in all conditions."""
    return stacked("queue", {name: of(variable.at(**at)) for name, at in QUEUES.items()}).told(start=in_words)


def _both(
    variable: Variable, at: Labels, first: Source, second: Source, results: Results
) -> Mapping[Any, tuple[Interval, Interval]]:
    """The means of two sources in the conditions in which both have some."""
    asked = _conditions(variable.at(**at))
    axes = [one for one in _AXES if one in asked.axes]
    ours, theirs = (by_point(asked, runs(results), axes) for runs in (first, second))
    return {point: (ours[point], theirs[point]) for point in in_order(theirs) if point in ours}


# Figures of replications and of single runs


def boxes(elapsed: Variable, sources: Mapping[str, Source], beside: Mapping[str, str]) -> Draws:
    """Elapsed times of the third flow over replications, from some sources, at the starts of our runs."""

    def draw(results: Results) -> Chart:
        rows = []
        for (queue, at), (source, runs) in itertools.product(QUEUES.items(), sources.items()):
            variable, found = elapsed.at(**at), runs(results)
            for start in variable.values_of("start", results):
                values = series(variable, found, {"start": start}, seeds_of([variable], found))
                known = [value for value in values if not math.isnan(value)]
                if known:
                    numbers = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist()
                    rows.append((queue, source, in_words(start), *numbers))
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
            y_label=label_of(elapsed),
            y_limits=(0.0, 45.0),
        )

    return draw


def sequences(panels: Mapping[str, tuple[Experiment, Labels]], **options: Any) -> Draws:
    """Time-sequence graphs of the flows of single runs, a panel each."""

    def draw(results: Results) -> Chart:
        charts = []
        for title, (experiment, labels) in panels.items():
            for row in results[experiment.name].where(**labels):
                packets = pl.DataFrame(row[m.PACKETS], schema_overrides={"link": pl.String})
                charts.append(time_sequence(packets, row[m.FLOW], name=title))
        return replace(charts[0], table=pl.concat([one.table for one in charts]), **options)

    return draw
