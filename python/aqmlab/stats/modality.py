"""Whether replications have one mode, and what is estimated where they do not.

Replications of a bistable system fall into groups: most runs are calm, some collapse. Their mean is a number
that no run shows, and Student's interval of it is too short for a group that is rare. So the values of which
an interval of Student's would be made are tested for several modes first, by the dip test (Hartigan and
Hartigan, "The dip test of unimodality", Annals of Statistics 13(1), 1985), at the level of 5 % for all
numbers. Where the test finds several modes, the median over replications is estimated in place of the mean,
with the interval that the binomial distribution gives, whatever the distribution of the values.

The dip of a sample is its largest distance to the nearest distribution with one mode. Its critical values are
those of the uniform distribution, which is the hardest to tell from two modes. Fewer than `LEAST` values are
not tested, and neither are values of which two are equal, such as counts: the test is for continuous ones.
The test has its limits: of 40 runs it finds a half that collapses always, a third in nine cases of ten, a
fifth in one case of five, and a single run never.
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
"""How often values with one mode are said to have several; of bell-shaped ones far less often."""

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
"""The 95th percentile of the dip times the square root of the number of values, of uniform values: by number.
From 100 000 samples each; `tests/test_modality.py` draws some again."""

LEAST = 5


def mean(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Student's interval of the mean, or that of the median if the values have several modes."""
    kept = _known(values)
    return stats.mean_interval(kept, level) if has_one_mode(kept) else median(kept, level)


def paired_difference(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """The same of the differences of pairs."""
    return mean([a - b for a, b in stats.pairs(ours, theirs)], level)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """The ratio of the means of pairs (`stats.paired_ratio`), or the median of the ratios of pairs if what
    the interval of the former is made of has several modes."""
    pairs = stats.pairs(ours, theirs)
    if has_one_mode(stats.ratio_residuals(pairs)):
        return stats.paired_ratio(ours, theirs, level)
    ratios = [a / b if b else math.copysign(math.inf, a) for a, b in pairs if a or b]
    return median(ratios, level)


def unpaired_ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """The ratio of two means above zero that nothing pairs (`stats.unpaired_ratio`), or of two medians if the
    values of either have several modes."""
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
    """The median of independent values with its exact interval (`quantiles.quantile_interval`)."""
    from aqmlab.stats.quantiles import quantile_interval

    return replace(quantile_interval(values, 0.5, level), median=True)


def has_one_mode(values: Sequence[float]) -> bool:
    """Whether the dip test leaves it possible that values have one mode."""
    return _has_one_mode(tuple(values))


@lru_cache(maxsize=4096)
def _has_one_mode(values: tuple[float, ...]) -> bool:
    count = len(values)
    if count < LEAST or len(set(values)) < count or not all(map(math.isfinite, values)):
        return True
    return dip(values) * math.sqrt(count) <= critical(count)


def critical(count: int) -> float:
    """The critical value of the dip times the square root of the number of values."""
    numbers = sorted(CRITICAL)
    place = bisect_left(numbers, count)
    if place == len(numbers):
        return CRITICAL[numbers[-1]]
    above = numbers[place]
    below = numbers[max(place - 1, 0)]
    part = (count - below) / (above - below) if above > below else 0.0
    return CRITICAL[below] + part * (CRITICAL[above] - CRITICAL[below])


def dip(values: Sequence[float]) -> float:
    """The largest distance of the distribution function of different values to the nearest one that is convex
    up to some place and concave beyond it.

    The modal interval begins as the whole range. In each step the greatest convex minorant and the least
    concave majorant of the function within it are compared; where they are farthest apart is the new modal
    interval, and the dip is at least the distance of the function to the two outside of it.
    """
    x = sorted(values)
    low, high = 0, len(x) - 1
    twice = 1.0
    """Twice the dip, counted in values."""
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
    """The knots of the greatest convex minorant (sign 1) or least concave majorant (-1) of the ranks."""
    knots: list[int] = []
    for place in range(low, high + 1):
        while len(knots) > 1 and sign * _turn(x, knots[-2], knots[-1], place) <= 0:
            knots.pop()
        knots.append(place)
    return knots


def _turn(x: Sequence[float], a: int, b: int, c: int) -> float:
    """Above zero if the line from a to b and c turns left."""
    return (x[b] - x[a]) * (c - a) - (x[c] - x[a]) * (b - a)


def _rank(x: Sequence[float], knots: Sequence[int], at: int) -> float:
    """The rank of a value by the lines between knots."""
    place = min(bisect_right(knots, at), len(knots) - 1)
    a, b = knots[place - 1], knots[place]
    return a + (b - a) * (x[at] - x[a]) / (x[b] - x[a])


def _distances(
    x: Sequence[float], minorant: Sequence[int], majorant: Sequence[int]
) -> Iterator[tuple[float, int, int]]:
    """How far the two are apart at each knot, and the knots around it: of the minorant to the left, of the
    majorant to the right. The minorant counts the values below a place, the majorant that at it, too."""
    for knot in majorant:
        left = minorant[bisect_right(minorant, knot) - 1]
        yield knot + 1 - _rank(x, minorant, knot), left, knot
    for knot in minorant:
        right = majorant[bisect_left(majorant, knot)]
        yield _rank(x, majorant, knot) + 1 - knot, knot, right


def _deviations(x: Sequence[float], knots: Sequence[int], sign: int) -> Iterator[float]:
    """How far the distribution function is from the lines between knots, on its far side."""
    for at in range(knots[0], knots[-1] + 1) if len(knots) > 1 else ():
        yield 1 + sign * (at - _rank(x, knots, at))


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]
