"""The mean of one long series whose values depend on each other, with its interval.

Where a single run is so long that replicating it makes no sense, it is cut into batches that are long against
the memory of the series. Their means are then nearly independent and normal, and are treated as replications
are (Law, "Simulation Modeling and Analysis", section 9.5.3). More than thirty batches gain next to nothing,
and fewer make them longer (Schmeiser, "Batch size effects in the analysis of simulation output", Operations
Research 30(3), 1982).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aqmlab.stats.intervals import LEVEL, Interval, mean_interval

BATCHES = 20
"""Batches where nobody says how many: in the middle of what Schmeiser advises, ten to thirty."""

LEAST_BATCHES = 10
"""The fewest batches that may be asked for; with fewer, correlation could not be seen."""

DOUBT = 1.645
"""Standard deviations of lag-1 correlation above zero from which independence is doubted: 5 %, one-sided."""


@dataclass(frozen=True, kw_only=True)
class BatchMeans:
    """The interval of the mean of a series, from `interval.count` batches of `batch_length` values each.

    `correlation` is the one of neighbouring batch means, 1 - V / 2 with von Neumann's ratio V. `warning` is a
    sentence if it, or the length of the series, says that the interval is too narrow.
    """

    interval: Interval
    batch_length: int
    correlation: float
    warning: str | None


def batch_means(
    series: Sequence[float] | npt.NDArray[np.float64], batches: int | None = None, level: float = LEVEL
) -> BatchMeans:
    """The mean of a series of evenly spaced values, by `batches` (20) batches that do not overlap.

    Cut the warm-up off before (`metrics.mser5`). What does not fill the batches is left out at the beginning.
    With fewer than two values for each batch there is no interval, and a warning. Values that do not exist
    and fewer than ten batches are a `ValueError`.
    """
    values = np.asarray(series, dtype=np.float64)
    count = BATCHES if batches is None else batches
    if count < LEAST_BATCHES:
        raise ValueError(f"batches = {count} must be {LEAST_BATCHES} or more")
    if not np.isfinite(values).all():
        raise ValueError("series: a value is NaN or infinite; batch means need a number at each moment")
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
    """The correlation of neighbours as von Neumann's ratio V has it, 1 - V / 2; 0 for equal values.

    For n independent normal values it is nearly normal about 0 with the variance (n - 2) / (n² - 1) (J. von
    Neumann, "Distribution of the ratio of the mean square successive difference to the variance", Annals of
    Mathematical Statistics 12(4), 1941; for batches: Fishman, "Grouping observations in digital simulation",
    Management Science 24(5), 1978).
    """
    squares = float(((values - values.mean()) ** 2).sum())
    steps = float((np.diff(values) ** 2).sum())
    return 1 - steps / squares / 2 if squares > 0 else 0.0


def limit(count: int) -> float:
    """The correlation of neighbours among so many batches from which independence is doubted."""
    return DOUBT * math.sqrt((count - 2) / (count**2 - 1))


def _warning(correlation: float, count: int) -> str | None:
    most = limit(count)
    if correlation <= most:
        return None
    return (
        f"too short for batch means: neighbouring batches are correlated ({correlation:.2f}, at most "
        f"{most:.2f} is expected of independent ones), so that the interval is too narrow"
    )
