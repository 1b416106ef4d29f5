"""Compares distributions of response times by their quantiles, and by the points at which the distribution
functions cross.

If the distribution functions of two systems cross, neither system is better for all transfers: one system is
better for fast transfers, and the other system is better for slow transfers. The crossing separates fast and
slow transfers. Web traffic is compared in this way in M. C. Weigle, K. Jeffay, F. D. Smith, "Quantifying the
Effects of Recent Protocol Improvements to Standards-Track TCP: Impact on Web Performance", MASCOTS 2003.

A response time is the time from the first SYN of a completed transfer to the last byte of the response.
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
"""The compared quantiles, by name."""

LEAST = 0.005
"""Smallest difference between two shares that counts as a difference: half a percentage point (aqmlab's
choice)."""

POINTS = 400
"""Number of times at which the distribution functions are compared and plotted."""

BODY = 0.9
"""Share of transfers that the chart with a linear axis shows. The chart of the tail shows the remaining
transfers."""


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A crossing of two distribution functions.

    At `at_s`, the means of the two functions are equal. Up to `low_s`, it is certain which of the two
    functions is larger. From `high_s` on, it is certain that the other function is larger.
    """

    at_s: float
    low_s: float
    high_s: float
    first_is_quicker_before: bool
    """Whether the share of completed transfers before the crossing is larger for the first system."""


def grid_over(times: Floats) -> Floats:
    """Returns times (s) that cover the range of `times` and are evenly spaced on a logarithmic scale."""
    return np.geomspace(max(float(times.min()) * 0.9, 1e-6), float(times.max()), POINTS)


def shares(times: Sequence[Floats], grid: Floats) -> Floats:
    """Returns the distribution functions at `grid`, with a row for each replication."""
    return np.array([metrics.cdf(one, grid) for one in times]).reshape(len(times), grid.size)


def crossings(
    first: Floats, second: Floats, grid: Floats, *, least: float = LEAST, level: float = LEVEL
) -> list[Crossing]:
    """Returns the crossings of two systems' distribution functions.

    `first` and `second` have a row for each replication (paired by seed) and a column for each value of
    `grid` (s). The larger function at a point is certain if two conditions hold: the means differ by `least`
    or more, and the interval of the difference with confidence `level` excludes zero (Student's t, paired).
    With one replication, only the first condition applies. A crossing lies between two neighbouring ranges if
    it is certain that one function is larger in the first range, and that the other function is larger in the
    second range. Therefore, noise in nearly equal curves does not count as a crossing.
    """
    differences = first - second
    mean = differences.mean(axis=0)
    count = differences.shape[0]
    half = np.zeros_like(mean)
    if count > 1:
        half = t_quantile(level, count - 1) * differences.std(axis=0, ddof=1) / math.sqrt(count)
    certain = (np.abs(mean) >= least) & (np.abs(mean) > half)
    points = np.flatnonzero(certain)
    found = []
    for left, right in pairwise(points):
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
    """Returns all quantiles of each workload's response times after the warm-up, as name, unit and value."""
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
    """Returns a chart of distribution functions with a linear time axis, which ends at the 90th percentile of
    the slowest curve.

    `curves` has the columns `time_s`, `share`, `by` and `panel`. `guides` contains labels and times (s).
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
    """Returns a chart of the share of transfers that take longer than each time, on logarithmic axes. The
    arguments are those of `chart_of_body`."""
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
    """Returns a sentence that describes a crossing."""
    quick, slow = (first, second) if crossing.first_is_quicker_before else (second, first)
    return (
        f"{quick} is better for fast transfers, {slow} for slow transfers: their distributions cross at "
        f"{time_text(crossing.at_s)} (between {time_text(crossing.low_s)} and {time_text(crossing.high_s)})"
    )


def zero_between(x: Floats, y: Any) -> float:
    """Returns the first zero of a curve whose ends have opposite signs. The zero is interpolated in the
    logarithm of `x`."""
    index = int(np.flatnonzero(np.sign(y[1:]) != np.sign(y[0]))[0])
    part = y[index] / (y[index] - y[index + 1])
    return float(x[index] * (x[index + 1] / x[index]) ** part)


def time_text(seconds: float) -> str:
    """Returns a time as text in seconds or milliseconds, with three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
