"""Comparison of distributions of response times, seed by seed, with figures and a table."""

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
"""Values of several variables for all seeds: a distribution each, or `None`."""

LEAST = 0.01
"""Smallest relevant difference of two distribution functions: one response in a hundred."""


cdf: dict[str, Variable] = {
    "Drop Tail": drop_tail[CDF],
    "ARED": adaptive_red[CDF].at(queue="ARED"),
    "ARED+ECN": adaptive_red[CDF].at(queue="ARED+ECN"),
}
"""The distributions of response times, by queue."""

PAIRINGS = (("ARED", "Drop Tail"), ("ARED+ECN", "ARED"), ("ARED+ECN", "Drop Tail"))
"""The talk's pairs of queues, the newer queue first."""


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> Floats:
    """The difference of the shares of responses that arrived, `ours` minus `theirs`, with a row for each seed
    that has both distributions and a column for each value of the grid."""
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return np.array([np.subtract(a, b) for a, b in both]).reshape(len(both), GRID.size)


def quick(difference: Floats) -> int:
    """The index in the grid at which the first queue's mean lead is largest."""
    return int(difference.mean(axis=0).argmax()) if difference.size else 0


def slow(difference: Floats) -> int:
    """The index after `quick` at which the second queue's mean lead is largest."""
    first = quick(difference)
    return first + int(difference.mean(axis=0)[first:].argmin()) if difference.size else 0


def certain_crossings(
    ours: Sequence[Any], theirs: Sequence[Any], *, level: float = stats.LEVEL
) -> list[response_times.Crossing]:
    """The certain crossings of both functions, each with a difference of at least one response in a hundred
    on either side, at this confidence level."""
    difference = differences(ours, theirs)
    return response_times.crossings(difference, np.zeros_like(difference), GRID, least=LEAST, level=level)


def crossing_times(difference: Floats) -> list[float]:
    """The time of the crossing between `quick` and `slow` for each seed; NaN for a seed without a
    crossing."""
    between = slice(quick(difference), slow(difference) + 1)
    return [
        response_times.zero_between(GRID[between], one) if one[0] > 0 > one[-1] else math.nan
        for one in difference[:, between]
    ]


def apart(*curves: Sequence[float]) -> float:
    """The largest distance between any two of the distribution functions."""
    return max(float(np.abs(np.subtract(*two)).max()) for two in itertools.combinations(curves, 2))


# Functions for `statistic`


def leads(values: Values, level: float) -> Interval:
    """The lead of the first queue at the time that the other seeds select, for claims of the kind *somewhere
    more than*."""
    return bands.chosen_by_others(differences(*values), quick, level)


def lags(values: Values, level: float) -> Interval:
    """The largest lag of the first queue, for claims of the kind *nowhere more than*."""
    ours, theirs = values
    return bands.largest(differences(theirs, ours), level)


def lags_beyond(values: Values, level: float) -> Interval:
    """The lag of the first queue after the time of its lead, at the time that the other seeds select, for
    claims of the kind *somewhere more than*."""
    ours, theirs = values
    return bands.chosen_by_others(differences(theirs, ours), lambda others: slow(-others), level)


def crosses(values: Values, level: float) -> Interval:
    """The number of crossings that are certain at this confidence level; the interval of this count is a
    point."""
    ours, theirs = values
    count = float(len(certain_crossings(ours, theirs, level=level)))
    return Interval(value=count, low=count, high=count, count=len(differences(*values)), level=level)


def later(values: Values, level: float) -> Interval:
    """The ratio of two crossing times: the crossing time of the first and the last queue, divided by the
    crossing time of the second and the last queue, for seeds that have all three distributions."""
    known = [seed for seed in zip(*values, strict=True) if all(one is not None for one in seed)]
    first, second, base = ([seed[system] for seed in known] for system in range(3))
    return modality.paired_ratio(
        crossing_times(differences(first, base)), crossing_times(differences(second, base)), level
    )


# Figures, and the table of crossings

_TIMES = [float(at) for at in GRID]


def _queues(**labels: Value) -> dict[str, Variable]:
    """The distributions under a TCP and unit of Adaptive RED, by queue."""
    return dict(zip(cdf, all_at(tuple(cdf.values()), labels), strict=True))


def _curves(several: Mapping[str, Variable]) -> dict[str, Variable]:
    """Distributions unrolled along the time."""
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
    return Figure(
        f"difference-{unit}", f"Lead of the first queue (positive) over time, ARED in {unit}", chart
    )


def _two(two: Mapping[str, Variable], how: Callable[..., Chart], y_label: str, **options: Any) -> Draws:
    """Two distributions at the talk's loads, with their crossings."""
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
    dotted = "Dotted lines mark crossings with a difference of at least 1 % of responses on either side."
    return (
        Figure(id, f"Response times: {title}", body, f"Up to the 90th percentile. {dotted}"),
        Figure(f"{id}-tail", f"Slow requests: {title}", tail),
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
    """The number of crossings of two distributions, and the order of the distributions as a sentence."""
    if found := certain_crossings(*values):
        return len(found), "; ".join(response_times.sentence(one, ours, theirs) for one in found)
    mean = differences(*values).mean(axis=0)
    most, ahead = max((float(mean.max()), ours), (-float(mean.min()), theirs))
    if most < LEAST:
        return 0, "difference below 1 % of responses everywhere"
    return 0, f"{ahead}, by up to {100 * most:.1f} % of responses"


DISTRIBUTIONS: tuple[Figure | Table, ...] = (
    *_pair("b", "Drop Tail, Reno and SACK", {str(tcp): cdf["Drop Tail"].at(tcp=tcp) for tcp in TCPS}),
    *(figure for unit in UNITS for figure in _pairings(unit)),
    *map(_differences, UNITS),
    *(_all_loads(unit, tcp) for unit in UNITS for tcp in TCPS),
    Table("crossings", "Certain crossings of distributions, by at least 1 % of responses", _crossings, ""),
)
