"""Distributions of response times held against each other: quantiles, and where the curves cross.

When two distribution functions cross, neither system is the better one: one serves the quick
transfers, the other spares the slow. Where they cross says for whom it is. That is how the Web is
compared in M. C. Weigle, K. Jeffay, F. D. Smith, "Quantifying the Effects of Recent Protocol
Improvements to Standards-Track TCP: Impact on Web Performance", MASCOTS 2003.

A response time is that of a completed transfer: from its first SYN to the last byte of the response.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aqmlab.metrics import tables as metrics
from aqmlab.stats import LEVEL, t_quantile

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart

Floats = npt.NDArray[np.float64]

QUANTILES: Mapping[str, float] = {
    "10th percentile": 0.1,
    "25th percentile": 0.25,
    "median": 0.5,
    "75th percentile": 0.75,
    "90th percentile": 0.9,
    "95th percentile": 0.95,
    "99th percentile": 0.99,
    "99.9th percentile": 0.999,
}
"""The quantiles that are compared, by name."""

LEAST = 0.005
"""A difference of two shares that matters: half a point. Smaller ones are no order. Ours."""

POINTS = 400
"""Points of time at which curves are compared and drawn."""

BODY = 0.9
"""The share of transfers that a linear axis has to show; the rest is for the chart of the tail."""


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Where one distribution function stops being the upper one.

    `at_s` is where the means of the two are equal. Up to `low_s` the order is certain, and from `high_s` on
    the opposite one is.
    """

    at_s: float
    low_s: float
    high_s: float
    first_is_quicker_before: bool
    """Whether the first one has the larger share of transfers done up to the crossing."""


def grid_over(times: Floats) -> Floats:
    """Points of time, evenly spaced in their logarithm, that span `times` (s)."""
    return np.geomspace(max(float(times.min()) * 0.9, 1e-6), float(times.max()), POINTS)


def shares(times: Sequence[Floats], grid: Floats) -> Floats:
    """The distribution functions over `grid`, a row for each replication."""
    return np.array([metrics.cdf(one, grid) for one in times]).reshape(len(times), grid.size)


def crossings(
    first: Floats, second: Floats, grid: Floats, *, least: float = LEAST, level: float = LEVEL
) -> list[Crossing]:
    """Where the distribution functions of two systems cross.

    `first` and `second` have a row for each replication (pairs: the same seed) and a column for each
    value of `grid` (s). The order at a point is certain if the means differ by `least` or more and the
    interval of the difference, of this level, excludes zero (Student's t, pair by pair; with one replication
    the first condition is all). A crossing lies between two neighbouring stretches of certain and opposite
    order, so that the noise of curves that lie on each other gives none.
    """
    differences = first - second
    mean = differences.mean(axis=0)
    count = differences.shape[0]
    half = np.zeros_like(mean)
    if count > 1:
        half = t_quantile(level, count - 1) * differences.std(axis=0, ddof=1) / math.sqrt(count)
    certain = (np.abs(mean) >= least) & (np.abs(mean) > half)
    places = np.flatnonzero(certain)
    found = []
    for left, right in pairwise(places):
        if mean[left] * mean[right] < 0:
            found.append(
                Crossing(
                    at_s=zero_between(grid[left : right + 1], mean[left : right + 1]),
                    low_s=float(grid[left]),
                    high_s=float(grid[right]),
                    first_is_quicker_before=bool(mean[left] > 0),
                )
            )
    return found


def quantities(transfers: pl.DataFrame, warm_up_s: float) -> list[tuple[str, str, float | None]]:
    """Every quantile of every workload's response times after warm-up: name, unit, value."""
    import polars as pl

    found: list[tuple[str, str, float | None]] = []
    for name in sorted(transfers["traffic"].cast(pl.String).unique().to_list()):
        ours = transfers.filter(pl.col("traffic") == name)
        times = metrics.completed_times(ours, warm_up_s)
        values = np.quantile(times, list(QUANTILES.values())) if times.size else [None] * len(QUANTILES)
        found += [
            (f"{name} response time, {quantile}", "ms", None if value is None else 1000 * float(value))
            for quantile, value in zip(QUANTILES, values, strict=True)
        ]
    return found


def chart_of_body(
    curves: pl.DataFrame, by: str, panel: str | None, what: str, guides: Mapping[str, float]
) -> Chart:
    """Distribution functions over a linear axis, as far as nine transfers in ten need.

    `curves` has the columns `time_s`, `share`, `by` and `panel`; `guides` are labelled moments (s).
    """
    import polars as pl

    from aqmlab.charts.chart import Chart

    def slowest(of: pl.DataFrame) -> float:
        return float(of.filter(pl.col("share") <= BODY)["time_s"].max() or 1.0)  # type: ignore[arg-type]

    panels = {} if panel is None else {str(name): of for (name,), of in curves.group_by(panel)}
    return Chart(
        kind="cdf",
        table=curves,
        x="time_s",
        y="share",
        by=by,
        panel=panel,
        x_label=f"Response time of {what} (s)",
        y_label="Share of completed transfers",
        x_limits=(0.0, slowest(curves)),
        panel_x_limits={name: (0.0, slowest(of)) for name, of in panels.items()},
        guides={label: at for label, at in guides.items() if at <= slowest(curves)},
    )


def chart_of_tail(
    curves: pl.DataFrame, by: str, panel: str | None, what: str, guides: Mapping[str, float]
) -> Chart:
    """What is left above each time, over logarithmic axes: the slow transfers. Arguments as above."""
    import polars as pl

    from aqmlab.charts.chart import Chart

    left = curves.with_columns((1.0 - pl.col("share")).alias("left")).drop("share")
    return Chart(
        kind="tail",
        table=left,
        x="time_s",
        y="left",
        by=by,
        panel=panel,
        x_label=f"Response time of {what} (s)",
        y_label="Share of transfers that take longer",
        log_x=True,
        log_y=True,
        guides=dict(guides),
    )


def sentence(crossing: Crossing, first: str, second: str) -> str:
    """A crossing in words."""
    quick, slow = (first, second) if crossing.first_is_quicker_before else (second, first)
    return (
        f"{quick} serves the quick transfers better, {slow} the slow ones: their distributions cross at "
        f"{time_text(crossing.at_s)} (between {time_text(crossing.low_s)} and {time_text(crossing.high_s)})"
    )


def zero_between(x: Floats, y: Any) -> float:
    """Where a curve whose ends have opposite signs is zero first, in the logarithm of `x`."""
    place = int(np.flatnonzero(np.sign(y[1:]) != np.sign(y[0]))[0])
    part = y[place] / (y[place] - y[place + 1])
    return float(x[place] * (x[place + 1] / x[place]) ** part)


def time_text(seconds: float) -> str:
    """A time in seconds or milliseconds, with three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
