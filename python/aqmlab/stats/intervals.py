"""Computes confidence intervals from replications.

Replications differ only in the seed, and two queues with the same seed receive the same arrivals (common
random numbers). Differences and ratios are therefore estimated from pairs of runs with the same seed, which
requires far fewer runs than a comparison of two independent means (Law, "Simulation Modeling and Analysis",
chapter 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

LEVEL = 0.95


def decimals(half_width: float) -> int:
    """Returns the number of decimal places for a number with this uncertainty. With this number of places,
    two digits of the uncertainty are shown.

    The result is between 0 and 6, and 3 for a number without uncertainty.
    """
    if not half_width > 0 or math.isinf(half_width):
        return 3
    return min(max(1 - math.floor(math.log10(half_width)), 0), 6)


def plus_minus(mean: float, half_width: float) -> str:
    """Returns a mean ± half its interval's width as text with the appropriate number of digits, or only the
    mean if there is no interval."""
    if not half_width > 0:
        said = f"{mean:.0f}" if mean.is_integer() else f"{mean:.4g}"
        return said if math.isnan(half_width) else f"{said} ± 0"
    places = decimals(half_width)
    return f"{round(mean, places) + 0.0:.{places}f} ± {half_width:.{places}f}"  # Adding 0.0 turns -0 into 0.


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its confidence interval. Both ends are NaN if there are fewer than two values."""

    value: float
    low: float
    high: float
    count: int
    level: float = LEVEL
    median: bool = False
    """Whether the estimate is the median over replications and not the mean (`aqmlab.stats.modality`)."""

    @property
    def decided(self) -> bool:
        """Whether the interval exists."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        if not self.decided:
            return f"{self.value:.4g} (no interval from {self.count})"
        if math.isinf(self.half_width):
            distances = [abs(self.value - end) for end in (self.low, self.high)]
            places = decimals(min(distances))
        else:
            places = decimals(self.half_width)
        numbers = (self.value, self.low, self.high)
        value, low, high = (f"{number:.{places}f}".replace("inf", "∞") for number in numbers)
        return f"{value} [{low}, {high}]"


@lru_cache(maxsize=256)
def t_quantile(level: float, freedom: float) -> float:
    """Returns the two-sided quantile of Student's t, for example 2.262 for 95 % and 9 degrees of freedom."""
    # `scipy.stats` calls this function. Calling the function directly avoids loading `scipy.stats`, which
    # takes time.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the Student-t interval of the mean of independent replications. NaN values are omitted."""
    kept = [value for value in values if not math.isnan(value)]
    return _interval(kept, level)


def paired_difference(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of the mean of `ours - theirs`, paired by replication."""
    return _interval([a - b for a, b in pairs(ours, theirs)], level)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of mean(ours) / mean(theirs), paired by replication.

    The estimate is the classical ratio estimate with its linearised variance (Cochran, "Sampling Techniques",
    section 6.3). In contrast to a mean of ratios, this estimate also exists if `theirs` is zero in a single
    replication. If no value is negative, the interval does not extend below zero.
    """
    both = pairs(ours, theirs)
    residuals = ratio_residuals(both)
    if not residuals:
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=len(both), level=level)
    ratio = sum(a for a, _ in both) / sum(b for _, b in both)
    half = _interval(residuals, level).half_width
    low = ratio - half
    if low < 0 and all(a >= 0 and b >= 0 for a, b in both):
        low = 0.0
    return Interval(value=ratio, low=low, high=ratio + half, count=len(both), level=level)


def ratio_residuals(both: Sequence[tuple[float, float]]) -> list[float]:
    """Returns the residual of each pair from the ratio of the means, divided by the mean divisor. The
    interval of the ratio is computed from these residuals. The result is empty if there is no ratio."""
    divisor = sum(b for _, b in both)
    if not both or divisor == 0:
        return []
    ratio = sum(a for a, _ in both) / divisor
    return [(a - ratio * b) * len(both) / divisor for a, b in both]


def welch(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of the difference of two means of independent replications (Welch 1947)."""
    a = [value for value in ours if not math.isnan(value)]
    b = [value for value in theirs if not math.isnan(value)]
    count = min(len(a), len(b))
    if count == 0:
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=0, level=level)
    value = math.fsum(a) / len(a) - math.fsum(b) / len(b)
    if count < 2:
        return Interval(value=value, low=math.nan, high=math.nan, count=count, level=level)
    var_a, var_b = _variance(a) / len(a), _variance(b) / len(b)
    total = var_a + var_b
    if total == 0:
        return Interval(value=value, low=value, high=value, count=count, level=level)
    freedom = total**2 / (var_a**2 / (len(a) - 1) + var_b**2 / (len(b) - 1))
    half = t_quantile(level, freedom) * math.sqrt(total)
    return Interval(value=value, low=value - half, high=value + half, count=count, level=level)


def unpaired_ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of mean(ours) / mean(theirs) for positive means of independent replications.

    The interval is computed for the logarithm of the ratio. The variance of the logarithm is the sum of the
    squared relative errors of the means, and Welch's degrees of freedom are used (Rice, "Mathematical
    Statistics and Data Analysis", section 4.6). Therefore, neither end of the interval is below zero. NaN
    values are omitted.
    """
    kept = [[value for value in values if not math.isnan(value)] for values in (ours, theirs)]
    count = min(len(values) for values in kept)
    means = [math.fsum(values) / len(values) if values else math.nan for values in kept]
    if not all(mean > 0 for mean in means):
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=count, level=level)
    value = means[0] / means[1]
    if count < 2:
        return Interval(value=value, low=math.nan, high=math.nan, count=count, level=level)
    errors = [_variance(one) / len(one) / mean**2 for one, mean in zip(kept, means, strict=True)]
    if sum(errors) == 0:
        return Interval(value=value, low=value, high=value, count=count, level=level)
    parts = [error**2 / (len(one) - 1) for error, one in zip(errors, kept, strict=True)]
    half = t_quantile(level, sum(errors) ** 2 / sum(parts)) * math.sqrt(sum(errors))
    low, high = value * math.exp(-half), value * math.exp(half)
    return Interval(value=value, low=low, high=high, count=count, level=level)


RESAMPLES = 1000


def bootstrap(statistic: Callable[[Any], Any], count: int, level: float = LEVEL) -> Interval:
    """Returns the bootstrap percentile interval of a statistic that is not a mean (Efron, Tibshirani, "An
    Introduction to the Bootstrap", 1993, chapter 13).

    The argument of `statistic` is an array of replication indices (less than `count`), with a row for each
    resample. `statistic` returns a value for each row. Every call uses the same resamples.
    """
    import numpy as np

    value = float(statistic(np.arange(count)[np.newaxis, :])[0]) if count else math.nan
    if count < 2 or math.isnan(value):
        return Interval(value=value, low=math.nan, high=math.nan, count=count, level=level)
    picked = np.random.default_rng(1).integers(count, size=(RESAMPLES, count))
    tails = [(1 - level) / 2, (1 + level) / 2]
    # Quantiles are not interpolated, because a ratio may be infinite.
    low, high = (float(end) for end in np.quantile(statistic(picked), tails, method="inverted_cdf"))
    return Interval(value=value, low=low, high=high, count=count, level=level)


def ellipse(points: Sequence[tuple[float, float]], corners: int = 60) -> list[tuple[str, float, float]]:
    """Returns the median of points in two dimensions, and a closed contour. The contour is at one standard
    deviation of the normal distribution that fits the points best. The result has one `centre` entry and
    several `contour` entries, each with x and y. Points with a NaN are omitted. If there are fewer than three
    points, there is no contour."""
    import numpy as np

    kept = np.array([one for one in points if not any(map(math.isnan, one))], dtype=np.float64).reshape(-1, 2)
    if not kept.size:
        return []
    centre = np.median(kept, axis=0)
    found = [("centre", float(centre[0]), float(centre[1]))]
    if len(kept) < 3:
        return found
    lengths, axes = np.linalg.eigh(np.cov(kept, rowvar=False, ddof=0))
    turn = np.linspace(0.0, 2.0 * math.pi, corners + 1)
    circle = np.array([np.cos(turn), np.sin(turn)])
    contour = centre[:, None] + axes @ (np.sqrt(np.maximum(lengths, 0.0))[:, None] * circle)
    return [*found, *(("contour", float(x), float(y)) for x, y in contour.T)]


def inverse(interval: Interval, over: float = 1.0) -> Interval:
    """Returns the interval of `over` divided by a positive number. The upper end is infinite if the divisor's
    interval contains zero."""
    high = over / interval.low if not interval.low <= 0 else math.inf
    return replace(interval, value=over / interval.value, low=over / interval.high, high=high)


def through_origin(x: Sequence[float], y: Sequence[float]) -> float:
    """Returns the slope of the least-squares line through the origin."""
    return math.fsum(a * b for a, b in zip(x, y, strict=True)) / math.fsum(a * a for a in x)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Returns the slope of the least-squares line, or NaN for fewer than two distinct values of x."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if not (math.isnan(a) or math.isnan(b))]
    if len({a for a, _ in points}) < 2:
        return math.nan
    mean_x = math.fsum(a for a, _ in points) / len(points)
    mean_y = math.fsum(b for _, b in points) / len(points)
    above_line = math.fsum((a - mean_x) * (b - mean_y) for a, b in points)
    return above_line / math.fsum((a - mean_x) ** 2 for a, _ in points)


def simultaneous_level(level: float, count: int) -> float:
    """Returns the confidence level that each of `count` intervals needs, so that all intervals jointly
    contain their true values with at least the probability `level`.

    The confidence level follows from Bonferroni's inequality, which is valid for any dependence between the
    intervals. (Šidák's `level ** (1 / count)` requires independence, and would reduce the width by less than
    1 %.)
    """
    if count < 1:
        raise ValueError(f"count: the number of judged intervals must be 1 or more (got {count})")
    return 1 - (1 - level) / count


def pairs(ours: Sequence[float], theirs: Sequence[float]) -> list[tuple[float, float]]:
    """Returns the pairs in which both values exist. Raises `ValueError` if the two sides have different
    lengths."""
    if len(ours) != len(theirs):
        raise ValueError(f"pairs: both sides must have equal length (got {len(ours)} and {len(theirs)})")
    return [(a, b) for a, b in zip(ours, theirs, strict=True) if not (math.isnan(a) or math.isnan(b))]


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _interval(values: Sequence[float], level: float) -> Interval:
    count = len(values)
    if count == 0:
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=0, level=level)
    mean = math.fsum(values) / count
    if count < 2:
        return Interval(value=mean, low=math.nan, high=math.nan, count=count, level=level)
    half = t_quantile(level, count - 1) * math.sqrt(_variance(values) / count)
    return Interval(value=mean, low=mean - half, high=mean + half, count=count, level=level)
