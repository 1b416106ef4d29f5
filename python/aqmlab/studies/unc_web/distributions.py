"""Distributions of response times held against each other, seed by seed, and drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from aqmlab import stats
from aqmlab.charts.chart import Chart
from aqmlab.metrics import Floats, response_times
from aqmlab.results.labels import Value
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, all_at
from aqmlab.stats import Interval, bands, modality
from aqmlab.studies.shared import frame
from aqmlab.studies.unc_web.measures import CDF, GRID
from aqmlab.studies.unc_web.network import PLOTTED, TCPS, UNITS, adaptive_red, drop_tail
from aqmlab.study import Figure, Table, difference, line, scaled, stacked, statistic
from aqmlab.study.charts import Draws
from aqmlab.study.query import Shown, means

Values = Sequence[Sequence[Any]]
"""Of some variables the values of all seeds: a distribution each, or `None`."""

LEAST = 0.01
"""A difference of two distribution functions that counts: one response in a hundred."""


cdf: dict[str, Variable] = {
    "Drop Tail": drop_tail[CDF],
    "ARED": adaptive_red[CDF].at(queue="ARED"),
    "ARED+ECN": adaptive_red[CDF].at(queue="ARED+ECN"),
}
"""The distributions of response times, by queue."""

PAIRINGS = (("ARED", "Drop Tail"), ("ARED+ECN", "ARED"), ("ARED+ECN", "Drop Tail"))
"""The talk's pairings of queues, the challenger first."""


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> Floats:
    """How much larger a share of the one's responses than of the other's has arrived: a row for each seed
    that has both, a column for each value of the grid."""
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return np.array([np.subtract(a, b) for a, b in both]).reshape(len(both), GRID.size)


def quick(difference: Floats) -> int:
    """The index in the grid where the one leads most, on average."""
    return int(difference.mean(axis=0).argmax()) if difference.size else 0


def slow(difference: Floats) -> int:
    """The index beyond it where the other leads most, on average."""
    first = quick(difference)
    return first + int(difference.mean(axis=0)[first:].argmin()) if difference.size else 0


def certain_crossings(
    ours: Sequence[Any], theirs: Sequence[Any], *, level: float = stats.LEVEL
) -> list[response_times.Crossing]:
    """Where the two cross, each by at least a response in a hundred, with certainty of this level."""
    difference = differences(ours, theirs)
    return response_times.crossings(difference, np.zeros_like(difference), GRID, least=LEAST, level=level)


def crossing_times(difference: Floats) -> list[float]:
    """When the two cross between `quick` and `slow`, seed by seed; NaN of a seed where they do not."""
    between = slice(quick(difference), slow(difference) + 1)
    return [
        response_times.zero_between(GRID[between], one) if one[0] > 0 > one[-1] else math.nan
        for one in difference[:, between]
    ]


def apart(*curves: Sequence[float]) -> float:
    """The largest distance of any two distribution functions."""
    return max(float(np.abs(np.subtract(*two)).max()) for two in itertools.combinations(curves, 2))


# What `statistic` takes


def leads(values: Values, level: float) -> Interval:
    """By how much the first is ahead at the time that the other seeds choose: for *somewhere more than*."""
    return bands.chosen_by_others(differences(*values), quick, level)


def lags(values: Values, level: float) -> Interval:
    """By how much the first is behind where it is so most: for *nowhere more than*."""
    ours, theirs = values
    return bands.largest(differences(theirs, ours), level)


def lags_beyond(values: Values, level: float) -> Interval:
    """By how much the first is behind beyond where it is ahead, at the time that the other seeds choose: for
    *somewhere more than*."""
    ours, theirs = values
    return bands.chosen_by_others(differences(theirs, ours), lambda others: slow(-others), level)


def crosses(values: Values, level: float) -> Interval:
    """How often they cross with certainty of this level: a count, whose interval is a point."""
    ours, theirs = values
    count = float(len(certain_crossings(ours, theirs, level=level)))
    return Interval(value=count, low=count, high=count, count=len(differences(*values)), level=level)


def later(values: Values, level: float) -> Interval:
    """When the first crosses the last over when the second does, of the seeds that all have."""
    known = [seed for seed in zip(*values, strict=True) if all(one is not None for one in seed)]
    first, second, base = ([seed[system] for seed in known] for system in range(3))
    return modality.paired_ratio(
        crossing_times(differences(first, base)), crossing_times(differences(second, base)), level
    )


# Figures, and the table of crossings

_TIMES = [float(at) for at in GRID]


def _queues(**labels: Value) -> dict[str, Variable]:
    """The distributions under a TCP, by queue, and what Adaptive RED counts in."""
    return dict(zip(cdf, all_at(tuple(cdf.values()), labels), strict=True))


def _curves(several: Mapping[str, Variable]) -> dict[str, Variable]:
    """Distributions time by time."""
    return {name: one.unrolled("time_s", _TIMES) for name, one in several.items()}


_panel = "{} % load".format
_crossing = partial(statistic, "certain crossings", crosses)


def _over_time(by: str, several: Mapping[str, Shown], **options: Any) -> Draws:
    x: dict[str, Any] = {"x_label": "response time (s)", "log_x": True, "x_limits": (0.005, 50.0)}
    return line(stacked(by, several).relabelled(load=_panel), x="time_s", by=by, panel="load", **x, **options)


def _all_loads(unit: Value, tcp: Value) -> Figure:
    curves = _curves(_queues(unit=unit, tcp=tcp))
    chart = _over_time("queue", curves, kind="cdf", y_label="share of requests done", intervals=False)
    title = f"Response times at all loads: {tcp}, ARED in {unit}, means over the seeds"
    return Figure(f"all-loads-{unit}-{tcp}".lower(), title, chart)


def _differences(unit: Value) -> Figure:
    curves = _curves(_queues(unit=unit, tcp="Reno"))
    points = {queue: scaled(one.among(load=PLOTTED), 100, "%") for queue, one in curves.items()}
    pairs = {f"{ours} less {theirs}": difference(points[ours], points[theirs]) for ours, theirs in PAIRINGS}
    label = "difference in the share\nof requests done (points)"
    chart = _over_time("pairing", pairs, kind="curve", y_label=label, levels={"": 0.0})
    return Figure(f"difference-{unit}", f"Who is ahead when: above zero the first, ARED in {unit}", chart)


def _two(two: Mapping[str, Variable], how: Callable[..., Chart], y_label: str, **options: Any) -> Draws:
    """Two distributions at the talk's loads, with the points where they cross."""
    plotted = {name: one.among(load=PLOTTED) for name, one in two.items()}
    drawn, pair = stacked("queue", _curves(plotted)).relabelled(load=_panel), _crossing(*plotted.values())

    def draw(results: ExperimentResults) -> Chart:
        curves = means(drawn, results, "load", "queue", "time_s").rename({"value": "share"})
        crossings = {}
        for at in pair.points(results):
            times = [one.at_s for one in certain_crossings(*pair.samples(results, at))]
            crossings[_panel(at["load"])] = {response_times.time_text(time): time for time in times}
        chart = how(curves.drop("low", "high"), "queue", "load", "a request", {})
        return replace(chart, y_label=y_label, panel_guides=crossings, **options)

    return draw


def _pair(id: str, title: str, two: Mapping[str, Variable]) -> tuple[Figure, Figure]:
    body = _two(two, response_times.chart_of_body, "Share of requests done")
    limits = {"x_limits": (0.1, _TIMES[-1]), "y_limits": (1e-4, 1.0)}
    tail = _two(two, response_times.chart_of_tail, "Share of requests that take longer", **limits)
    dotted = "A dotted line marks where they cross by at least a response in a hundred on either side."
    return (
        Figure(id, f"Response times: {title}", body, f"As far as nine in ten requests need. {dotted}"),
        Figure(f"{id}-tail", f"The slow ones: {title}", tail),
    )


def _pairings(unit: Value) -> Iterator[Figure]:
    of = _queues(unit=unit, tcp="Reno")
    for letter, (ours, theirs) in zip("cde", PAIRINGS, strict=True):
        title = f"{theirs} and {ours}, Reno, ARED in {unit}"
        yield from _pair(f"{letter}-{unit}", title, {queue: of[queue] for queue in (theirs, ours)})


def _crossings(results: ExperimentResults) -> pl.DataFrame:
    rows = []
    for ours, theirs in PAIRINGS:
        pair = _crossing(cdf[ours], cdf[theirs])
        for at in pair.points(results):
            order = _order(pair.samples(results, at), ours, theirs)
            rows.append((f"{at['load']} %", at["tcp"], at["unit"], f"{ours} and {theirs}", *order))
    return frame(rows, "load", "TCP", "ARED in", "pairing", "crossings", "who is ahead")


def _order(values: Values, ours: str, theirs: str) -> tuple[int, str]:
    """How often two distributions cross, and in words how they lie."""
    if found := certain_crossings(*values):
        return len(found), "; ".join(response_times.sentence(one, ours, theirs) for one in found)
    mean = differences(*values).mean(axis=0)
    most, ahead = max((float(mean.max()), ours), (-float(mean.min()), theirs))
    if most < LEAST:
        return 0, "nowhere apart by a response in a hundred"
    return 0, f"{ahead}, by up to {100 * most:.1f} in a hundred"


DISTRIBUTIONS: tuple[Figure | Table, ...] = (
    *_pair("b", "Drop Tail, Reno and SACK", {str(tcp): cdf["Drop Tail"].at(tcp=tcp) for tcp in TCPS}),
    *(figure for unit in UNITS for figure in _pairings(unit)),
    *map(_differences, UNITS),
    *(_all_loads(unit, tcp) for unit in UNITS for tcp in TCPS),
    Table("crossings", "Where distributions cross by a response in a hundred, surely", _crossings, ""),
)
