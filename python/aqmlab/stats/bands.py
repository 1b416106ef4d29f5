"""The largest value of a curve over replications: how far one system is behind another at the worst point.

Each replication yields a curve, such as the difference of two distribution functions over a grid of times.
The quantity of interest is the largest value of the true mean curve, at a point that is not known beforehand.
Two kinds of claims need two estimates:

*Nowhere more than* a limit (`largest`): a band around the mean curve contains the true curve at all points
simultaneously, so the largest value of its upper edge is an upper bound of the largest true value. The width
of the band is a quantile of the largest deviation over the grid, by the bootstrap with normal multipliers
over replications (Chernozhukov, Chetverikov, Kato, "Gaussian approximations and multiplier bootstrap for
maxima of sums of high-dimensional random vectors", Annals of Statistics 41(6), 2013), divided by Student's
denominator. For a grid of one point the band is Student's t interval.

*Somewhere more than* a limit (`chosen_by_others`): each replication is evaluated at the point that all other
replications select. The expected mean of these values never exceeds the largest true value, so their interval
can show that the limit is exceeded, but must not be used to show that the limit is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from aqmlab.stats.intervals import LEVEL, Interval, mean_interval

Floats = npt.NDArray[np.float64]

RESAMPLES = 10_000
"""Number of bootstrap resamples; ten of them are above the 99.9 % quantile."""


def largest(curves: Floats, level: float = LEVEL) -> Interval:
    """Interval of the largest value of the true mean curve. `curves` has a row for each replication and a
    column for each point.

    The value is the maximum of the mean curve of all replications, which is biased upwards by less than half
    the interval's width: for equal systems it is above zero.
    """
    count = len(curves)
    if count == 0 or curves.shape[1] == 0:
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=count, level=level)
    value = float(curves.mean(axis=0).max())
    half = _deviation(curves, level) if count > 1 else math.nan
    return Interval(value=value, low=value - half, high=value + half, count=count, level=level)


def chosen_by_others(curves: Floats, pick: Callable[[Floats], int], level: float = LEVEL) -> Interval:
    """Interval of the mean of each replication's value at the point selected from all other replications.

    If a replication selected the point itself, the largest of many values would be above zero for equal
    systems.
    """
    if len(curves) < 2:
        return mean_interval([], level)
    columns = [pick(np.delete(curves, row, axis=0)) for row in range(len(curves))]
    return mean_interval([float(curves[row, column]) for row, column in enumerate(columns)], level)


def _deviation(curves: Floats, level: float) -> float:
    """The distance of the mean curve from the true curve on either side, for all points simultaneously."""
    count = len(curves)
    largest_of_each = (_multipliers(count) @ (curves - curves.mean(axis=0))).max(axis=1)
    return max(float(np.quantile(largest_of_each, (1 + level) / 2)), 0.0)


@lru_cache(maxsize=64)
def _multipliers(count: int) -> Floats:
    """A row for each resample: a normal number for each replication, divided by Student's denominator and
    scaled so that its sum over the replications' deviations has the variance of their mean."""
    draw = np.random.default_rng(1)
    normal = draw.standard_normal((RESAMPLES, count))
    denominator = np.sqrt(draw.chisquare(count - 1, (RESAMPLES, 1)) / (count - 1))
    return np.asarray(normal / denominator / math.sqrt(count * (count - 1)))
