"""Estimates of report cards: one number and its interval represent all replications of a scenario.

The number is the mean, with Student's interval, unless the replications fall into groups, for example into
calm and collapsed runs. The mean of such runs is far from the value of every run, so the median with its
exact interval is used instead of the mean. With eight replications, the exact interval extends from the
smallest to the largest value.

Replications fall into groups if at least one of two conditions holds:

- The dip test finds several modes (`aqmlab.stats.modality`). With eight replications, the test finds a group
  of three or four runs, and misses a group of one or two runs.
- A value exceeds the next smaller value by more than the factor `STEP`, which is 2. This rule also finds
  smaller groups, but has no significance level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from aqmlab import stats
from aqmlab.measures import with_unit
from aqmlab.results.rule import Estimate
from aqmlab.results.variable import Variable
from aqmlab.stats import LEVEL, Interval, modality

STEP = 2.0
"""Values fall into groups if a value exceeds the next smaller value by more than this factor."""

DIGITS = 4
"""Number of significant digits of a published value. The interval of a few runs does not justify more
digits."""


def mean_of(variable: Variable) -> Estimate:
    """Returns the mean of a variable, or its median if the replications fall into groups."""
    return Estimate(
        how="mean, or median of groups",
        of=(variable,),
        finds=lambda values, level: mean([one for one in values[0] if not math.isnan(one)], level),
        words=with_unit(variable.name, variable.unit),
    )


def ratio_of(ours: Variable, theirs: Variable, reference: str, floor: float = 0.0) -> Estimate:
    """Returns the ratio of a variable to the variable `over`, which is described by `reference`. Differences
    up to `floor`, in the unit of the variables, count as zero."""
    near = f", 1 where they differ by less than {floor:.3g} {ours.unit}" if floor else ""
    return Estimate(
        how=f"ratio, or median of groups, beyond {floor:.3g}",
        of=(ours, theirs),
        finds=lambda values, level: over(stats.pairs(values[0], values[1]), level, floor),
        words=f"{ours.name} over {reference}{near}",
    )


def over(pairs: Sequence[tuple[float, float]], level: float = LEVEL, floor: float = 0.0) -> Interval:
    """Returns the ratio of pairs. Differences up to `floor` count as zero. If all divisors are zero, the
    ratio is 1 or infinite, depending on the differences."""
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    divisor = math.fsum(theirs) / len(theirs) if theirs else math.nan
    if divisor == 0:
        found, seen = difference(ours, theirs, level), partial(_over_zero, floor=floor)
    else:
        found, seen = ratio(ours, theirs, level), partial(_beyond, floor=floor / divisor)
    return replace(found, value=seen(found.value), low=seen(found.low), high=seen(found.high))


def _beyond(value: float, floor: float) -> float:
    return 1.0 if abs(value - 1) <= floor else value


def _over_zero(value: float, floor: float) -> float:
    if math.isnan(value):
        return value
    return 1.0 if abs(value) <= floor else math.copysign(math.inf, value)


def mean(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the mean of replications, or their median if the replications fall into groups."""
    in_groups = _steps(values) or not modality.has_one_mode(_unrounded(values))
    return modality.median(values, level) if in_groups else stats.mean_interval(values, level)


def ratio(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the ratio of the means of pairs, or the median of the pairs' ratios if the ratios fall into
    groups."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b]
    if len(ratios) == len(ours) and _steps(ratios):
        return modality.median(ratios, level)
    return modality.paired_ratio(ours, theirs, level)


def difference(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Returns the mean of the differences of pairs, or their median if the differences fall into groups."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    return modality.median(differences, level) if _steps(differences) else modality.mean(differences, level)


def _steps(values: Sequence[float]) -> bool:
    """Returns whether one of several positive values exceeds the next smaller value by more than the factor
    `STEP`."""
    ordered = sorted(values)
    return bool(ordered) and ordered[0] > 0 and any(b > STEP * a for a, b in pairwise(ordered))


def _unrounded(values: Sequence[float]) -> list[float]:
    """Separates values that are equal only because they were rounded to `DIGITS` digits: the values are
    spaced evenly within the last digit. The separation is needed because the dip test does not test samples
    with equal values. Zeros, and samples in which all values are equal, are not changed."""
    count = Counter(values)
    if len(count) == 1:
        return list(values)
    before: Counter[float] = Counter()
    apart = []
    for value in values:
        digit = 10 ** (math.floor(math.log10(abs(value))) + 1 - DIGITS) if value else 0.0
        apart.append(value + digit * ((before[value] + 0.5) / count[value] - 0.5))
        before[value] += 1
    return apart
