"""The largest value of a curve over replications: how far a system is behind where it is furthest behind.

A replication gives a curve, such as the difference of two distribution functions over a grid of times. The
question is about the largest value of the true mean curve, and nobody knows beforehand at which place that
is. Two claims need two estimates:

*Nowhere more than* a limit (`largest`): a band around the mean curve contains the true curve at all places at
once, so the largest value of its upper edge bounds the largest true value. The width of the band is a
quantile of the largest deviation over the grid, by the bootstrap with normal multipliers over replications
(Chernozhukov, Chetverikov, Kato, "Gaussian approximations and multiplier bootstrap for maxima of sums of
high-dimensional random vectors", Annals of Statistics 41(6), 2013), divided by Student's denominator: of a
grid with one place the band is Student's t interval.

*Somewhere more than* a limit (`chosen_by_others`): each replication is judged at the place that all others
choose. The mean of these values is never above the largest true value, so their interval may show that the
limit is exceeded, and must not be used to show that it is not.
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
"""Resamples of the bootstrap: the quantile of 99.9 % still has ten of them above it."""


def largest(curves: Floats, level: float = LEVEL) -> Interval:
    """Interval of the largest value of the true mean curve; a row for each replication, a column for each
    place.

    The value is the largest of the mean curve of all replications, which is biased upwards by less than half
    the interval: of equal systems it is above zero.
    """
    count = len(curves)
    if count == 0 or curves.shape[1] == 0:
        return Interval(value=math.nan, low=math.nan, high=math.nan, count=count, level=level)
    value = float(curves.mean(axis=0).max())
    half = _deviation(curves, level) if count > 1 else math.nan
    return Interval(value=value, low=value - half, high=value + half, count=count, level=level)


def chosen_by_others(curves: Floats, pick: Callable[[Floats], int], level: float = LEVEL) -> Interval:
    """Interval of the mean of each replication's value at the place that is picked of all other replications.

    Where a replication picks for itself, the largest of many values is above zero though nothing differs.
    """
    if len(curves) < 2:
        return mean_interval([], level)
    places = [pick(np.delete(curves, row, axis=0)) for row in range(len(curves))]
    return mean_interval([float(curves[row, place]) for row, place in enumerate(places)], level)


def _deviation(curves: Floats, level: float) -> float:
    """How far the mean curve is from the true one on either side, at all places together."""
    count = len(curves)
    largest_of_each = (_multipliers(count) @ (curves - curves.mean(axis=0))).max(axis=1)
    return max(float(np.quantile(largest_of_each, (1 + level) / 2)), 0.0)


@lru_cache(maxsize=64)
def _multipliers(count: int) -> Floats:
    """A row for each resample: a normal number for each replication, over Student's denominator and so that
    the sum over deviations of replications has the variance of their mean."""
    draw = np.random.default_rng(1)
    normal = draw.standard_normal((RESAMPLES, count))
    denominator = np.sqrt(draw.chisquare(count - 1, (RESAMPLES, 1)) / (count - 1))
    return np.asarray(normal / denominator / math.sqrt(count * (count - 1)))
