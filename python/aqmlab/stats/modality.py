"""Tests whether replications have one mode, and estimates the results of replications with several modes.

Replications of a bistable system fall into groups: most runs are calm, and some runs collapse. The mean of
such runs is far from the value of every run, and Student's interval is too narrow if one group is rare.
Before a Student interval is computed, the values are therefore tested for several modes by the dip test
(Hartigan and Hartigan, "The dip test of unimodality", Annals of Statistics 13(1), 1985), at the same
significance level, 5 %, for all estimated numbers. If the test finds several modes, the median over
replications is used instead of the mean. The median's interval is computed from the binomial distribution and
is valid for any distribution of the values.

The dip of a sample is the largest distance between the sample's distribution function and the nearest
distribution with one mode. The critical values of the dip are those for the uniform distribution, which is
the most difficult to distinguish from a distribution with two modes. Samples of fewer than `LEAST` values are
not tested. Samples with equal values, such as counts, are not tested either, because the test is designed for
continuous values. The power of the test is limited. With 40 runs, the test always detects a group if half of
the runs collapse. If a third of the runs collapse, the test detects the group in nine of ten cases; if a
fifth collapse, in one of five cases. The test never detects a single collapsed run.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from aqmlab.stats import intervals as stats
from aqmlab.stats.intervals import LEVEL, Interval

SIGNIFICANCE = 0.05
"""Probability that the test finds several modes in values with a single mode. The probability is much lower
for bell-shaped distributions."""

CRITICAL: Mapping[int, float] = {
    5: 0.4168,
    6: 0.4036,
    7: 0.4227,
    8: 0.4351,
    9: 0.4394,
    10: 0.4414,
    12: 0.4496,
    15: 0.4587,
    20: 0.47,
    30: 0.4837,
    40: 0.491,
    60: 0.501,
    80: 0.5075,
}
"""The 95th percentile of the dip times the square root of the number of values, for uniformly distributed
values, by the number of values. Each percentile was computed from 100 000 samples. `tests/test_modality.py`
repeats some of these computations."""

LEAST = 5


def mean(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns Student's interval of the mean, or the interval of the median if the values have several
    modes."""
    kept = _known(values)
    return stats.mean_interval(kept, level) if has_one_mode(kept) else median(kept, level)


def paired_difference(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of the mean difference of pairs, or of the median difference if the differences
    have several modes."""
    return mean([a - b for a, b in stats.pairs(ours, theirs)], level)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of the ratio of the means of pairs (`stats.paired_ratio`), or of the median of the
    pairs' ratios if the residuals of the ratio have several modes."""
    pairs = stats.pairs(ours, theirs)
    if has_one_mode(stats.ratio_residuals(pairs)):
        return stats.paired_ratio(ours, theirs, level)
    ratios = [a / b if b else math.copysign(math.inf, a) for a, b in pairs if a or b]
    return median(ratios, level)


def unpaired_ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the interval of the ratio of two positive means of unpaired values (`stats.unpaired_ratio`), or
    of two medians if the values of either sample have several modes."""
    samples = _known(ours), _known(theirs)
    if all(map(has_one_mode, samples)):
        return stats.unpaired_ratio(*samples, level)
    first, second = (median(one, stats.simultaneous_level(level, 2)) for one in samples)
    if not (first.decided and second.decided and first.low > 0 and second.low > 0):
        return stats.unpaired_ratio((), (), level)
    return Interval(
        value=first.value / second.value,
        low=first.low / second.high,
        high=first.high / second.low,
        count=min(first.count, second.count),
        level=level,
        median=True,
    )


def median(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the median of independent values with its exact interval (`quantiles.quantile_interval`)."""
    from aqmlab.stats.quantiles import quantile_interval

    return replace(quantile_interval(values, 0.5, level), median=True)


def has_one_mode(values: Sequence[float]) -> bool:
    """Returns whether the dip test does not reject the hypothesis that the values have one mode."""
    return _has_one_mode(tuple(values))


@lru_cache(maxsize=4096)
def _has_one_mode(values: tuple[float, ...]) -> bool:
    count = len(values)
    if count < LEAST or len(set(values)) < count or not all(map(math.isfinite, values)):
        return True
    return dip(values) * math.sqrt(count) <= critical(count)


def critical(count: int) -> float:
    """Returns the critical value of the dip times the square root of the number of values."""
    numbers = sorted(CRITICAL)
    index = bisect_left(numbers, count)
    if index == len(numbers):
        return CRITICAL[numbers[-1]]
    above = numbers[index]
    below = numbers[max(index - 1, 0)]
    part = (count - below) / (above - below) if above > below else 0.0
    return CRITICAL[below] + part * (CRITICAL[above] - CRITICAL[below])


def dip(values: Sequence[float]) -> float:
    """Returns the dip: the largest distance between the distribution function of distinct values and the
    nearest function that is convex up to some point and concave after this point.

    Initially, the modal interval is the whole range. Each step computes the greatest convex minorant and the
    least concave majorant of the function within this interval. The points at which the minorant and the
    majorant are farthest apart are the bounds of the new modal interval. The dip is at least the distance
    between the function and the two curves outside the new modal interval.
    """
    x = sorted(values)
    low, high = 0, len(x) - 1
    twice = 1.0
    """Twice the dip, as a number of values."""
    while high > low:
        minorant, majorant = _hull(x, low, high, 1), _hull(x, low, high, -1)
        distance, left, right = max(_distances(x, minorant, majorant))
        if distance <= twice:
            break
        outside = [
            *_deviations(x, [knot for knot in minorant if knot <= left], 1),
            *_deviations(x, [knot for knot in majorant if knot >= right], -1),
        ]
        twice = max(twice, *outside)
        if (left, right) == (low, high):
            break
        low, high = left, right
    return twice / (2 * len(x))


def _hull(x: Sequence[float], low: int, high: int, sign: int) -> list[int]:
    """Returns the knots of the greatest convex minorant (sign 1) or the least concave majorant (sign -1) of
    the ranks."""
    knots: list[int] = []
    for index in range(low, high + 1):
        while len(knots) > 1 and sign * _turn(x, knots[-2], knots[-1], index) <= 0:
            knots.pop()
        knots.append(index)
    return knots


def _turn(x: Sequence[float], a: int, b: int, c: int) -> float:
    """Returns a positive number if the line from a via b to c turns left."""
    return (x[b] - x[a]) * (c - a) - (x[c] - x[a]) * (b - a)


def _rank(x: Sequence[float], knots: Sequence[int], at: int) -> float:
    """Returns the rank of a value, interpolated on the lines between knots."""
    index = min(bisect_right(knots, at), len(knots) - 1)
    a, b = knots[index - 1], knots[index]
    return a + (b - a) * (x[at] - x[a]) / (x[b] - x[a])


def _distances(
    x: Sequence[float], minorant: Sequence[int], majorant: Sequence[int]
) -> Iterator[tuple[float, int, int]]:
    """Yields, for each knot, the distance between the two curves at this knot, with the neighbouring knots:
    the knot of the minorant to the left and the knot of the majorant to the right. The minorant counts the
    values below a point; the majorant also counts the values that equal the point."""
    for knot in majorant:
        left = minorant[bisect_right(minorant, knot) - 1]
        yield knot + 1 - _rank(x, minorant, knot), left, knot
    for knot in minorant:
        right = majorant[bisect_left(majorant, knot)]
        yield _rank(x, majorant, knot) + 1 - knot, knot, right


def _deviations(x: Sequence[float], knots: Sequence[int], sign: int) -> Iterator[float]:
    """Yields, for each value, the distance between the distribution function and the lines between knots. The
    distance is measured on the side of the function's step that is farther from the lines."""
    for at in range(knots[0], knots[-1] + 1) if len(knots) > 1 else ():
        yield 1 + sign * (at - _rank(x, knots, at))


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]
