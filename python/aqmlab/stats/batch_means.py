"""Computes the mean of one long series of dependent values, with its interval.

If a run is too long to be replicated, its series of values is divided into batches. If the batches are long
compared with the memory of the series, the batch means are nearly independent and normal, and can be treated
like replications (Law, "Simulation Modeling and Analysis", section 9.5.3). Using more than thirty batches has
hardly any benefit, and if there are fewer batches, each batch is longer (Schmeiser, "Batch size effects in
the analysis of simulation output", Operations Research 30(3), 1982).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aqmlab.stats.intervals import LEVEL, Interval, mean_interval

BATCHES = 20
"""Default number of batches, in the middle of Schmeiser's recommendation of ten to thirty."""

LEAST_BATCHES = 10
"""Minimum number of batches. With fewer batches, a correlation could not be detected."""

DOUBT = 1.645
"""If the lag-1 correlation exceeds this number of standard deviations, a warning states that the batches may
not be independent (5 %, one-sided)."""


@dataclass(frozen=True, kw_only=True)
class BatchMeans:
    """The interval of the mean of a series, computed from `interval.count` batches of `batch_length` values
    each.

    `correlation` is the correlation of neighbouring batch means, 1 - V / 2 with von Neumann's ratio V.
    `warning` is a sentence if the correlation or the length of the series indicates that the interval is too
    narrow.
    """

    interval: Interval
    batch_length: int
    correlation: float
    warning: str | None


def batch_means(
    series: Sequence[float] | npt.NDArray[np.float64], batches: int | None = None, level: float = LEVEL
) -> BatchMeans:
    """Returns the mean of a series of evenly spaced values with its interval, computed from `batches`
    (default 20) non-overlapping batches.

    Remove the warm-up first (`metrics.mser5`). If the number of values is not a multiple of the number of
    batches, the surplus values are omitted at the beginning of the series. With fewer than two values per
    batch, the result has a warning instead of an interval. Raises `ValueError` for values that are not
    finite, and for fewer than ten batches.
    """
    values = np.asarray(series, dtype=np.float64)
    count = BATCHES if batches is None else batches
    if count < LEAST_BATCHES:
        raise ValueError(f"batches: must be {LEAST_BATCHES} or more (got {count})")
    if not np.isfinite(values).all():
        raise ValueError("series: must not contain NaN or infinite values")
    length = values.size // count
    if length < 2:
        mean = float(values.mean()) if values.size else math.nan
        return BatchMeans(
            interval=Interval(value=mean, low=math.nan, high=math.nan, count=0, level=level),
            batch_length=length,
            correlation=math.nan,
            warning=f"too short for batch means: {values.size} values for {count} batches",
        )
    means = values[values.size - length * count :].reshape(count, length).mean(axis=1)
    correlation = neighbour_correlation(means)
    return BatchMeans(
        interval=mean_interval(means.tolist(), level),
        batch_length=length,
        correlation=correlation,
        warning=_warning(correlation, count),
    )


def neighbour_correlation(values: npt.NDArray[np.float64]) -> float:
    """Returns the correlation of neighbouring values, 1 - V / 2 with von Neumann's ratio V, or 0 if all
    values are equal.

    For n independent normal values, the distribution of the correlation is nearly normal with mean 0 and
    variance (n - 2) / (n² - 1) (J. von Neumann, "Distribution of the ratio of the mean square successive
    difference to the variance", Annals of Mathematical Statistics 12(4), 1941; for batches: Fishman,
    "Grouping observations in digital simulation", Management Science 24(5), 1978).
    """
    squares = float(((values - values.mean()) ** 2).sum())
    steps = float((np.diff(values) ** 2).sum())
    return 1 - steps / squares / 2 if squares > 0 else 0.0


def limit(count: int) -> float:
    """Returns the largest correlation of neighbouring batches that does not cause a warning, for `count`
    batches."""
    return DOUBT * math.sqrt((count - 2) / (count**2 - 1))


def _warning(correlation: float, count: int) -> str | None:
    most = limit(count)
    if correlation <= most:
        return None
    return (
        f"too short for batch means: neighbouring batches are correlated ({correlation:.2f}; independent "
        f"batches: at most {most:.2f}), so that the interval is too narrow"
    )
