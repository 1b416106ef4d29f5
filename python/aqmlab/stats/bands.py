"""Estimates the largest value of a curve over replications, for example the largest amount by which one
system is worse than another at any point.

The result of each replication is a curve, such as the difference of two distribution functions over a grid of
times. The quantity of interest is the largest value of the true mean curve. The point at which the curve is
largest is not known beforehand. Two kinds of claims need different estimates:

*Nowhere more than* a limit (`largest`): a band around the mean curve contains the true curve at all points
simultaneously, so the largest value of the band's upper edge is an upper bound on the largest true value. The
width of the band is a quantile of the largest deviation over the grid, divided by Student's denominator. The
quantile is computed by the bootstrap with normal multipliers over replications (Chernozhukov, Chetverikov,
Kato, "Gaussian approximations and multiplier bootstrap for maxima of sums of high-dimensional random
vectors", Annals of Statistics 41(6), 2013). For a grid of one point, the band is Student's t interval.

*Somewhere more than* a limit (`chosen_by_others`): each replication is evaluated at the point that all other
replications select. The expected mean of these values never exceeds the largest true value. Therefore, the
interval of this mean can show that the limit is exceeded, but must not be used to show that the limit is not
exceeded.
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
"""Number of bootstrap resamples. Ten of the resamples are above the 99.9 % quantile."""


def largest(curves: Floats, level: float = LEVEL) -> Interval:
    """Returns the interval of the largest value of the true mean curve. `curves` has a row for each
    replication and a column for each point.

    The value is the maximum of the mean curve of all replications. This maximum is biased upwards by less
    than half the interval's width: for equal systems, the maximum is above zero.
    """
    count = len(curves)
    if count == 0 or curves.shape[1] == 0:
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=count, level=level)
    value = float(curves.mean(axis=0).max())
    half = _deviation(curves, level) if count > 1 else math.nan
    return Interval(value=value, low=value - half, high=value + half, count=count, level=level)


def chosen_by_others(curves: Floats, pick: Callable[[Floats], int], level: float = LEVEL) -> Interval:
    """Returns the interval of the mean of all replications' values. Each replication is evaluated at the
    point that is selected from all other replications.

    If each replication selected its own point, the result would be biased: for equal systems, the largest of
    many values is above zero.
    """
    if len(curves) < 2:
        return mean_interval([], level)
    columns = [pick(np.delete(curves, row, axis=0)) for row in range(len(curves))]
    return mean_interval([float(curves[row, column]) for row, column in enumerate(columns)], level)


def _deviation(curves: Floats, level: float) -> float:
    """Returns the maximum distance, on either side, between the mean curve and the true curve, valid for all
    points simultaneously."""
    count = len(curves)
    largest_of_each = (_multipliers(count) @ (curves - curves.mean(axis=0))).max(axis=1)
    return max(float(np.quantile(largest_of_each, (1 + level) / 2)), 0.0)


@lru_cache(maxsize=64)
def _multipliers(count: int) -> Floats:
    """Returns an array with a row for each resample and a normal number for each replication. The numbers are
    divided by Student's denominator, and scaled so that the weighted sum of the replications' deviations has
    the variance of the mean."""
    draw = np.random.default_rng(1)
    normal = draw.standard_normal((RESAMPLES, count))
    denominator = np.sqrt(draw.chisquare(count - 1, (RESAMPLES, 1)) / (count - 1))
    return np.asarray(normal / denominator / math.sqrt(count * (count - 1)))
