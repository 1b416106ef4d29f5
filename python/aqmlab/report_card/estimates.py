"""The number and the interval that stand for the replications of a scenario.

These are the mean and Student's interval, unless the replications fall into groups, calm runs and collapsed
ones. The mean of such runs is a number that no run shows, so the median with its exact interval stands in
place of the mean. The exact interval of eight replications reaches from the least to the largest value.

Replications fall into groups if one of two things is so:

- The dip test finds several modes (`aqmlab.stats.modality`). Of eight replications the test finds a group of
  three or four, and misses a group of one or two.
- A value is more than twice its next smaller one: a step by a factor above `STEP`. This is a rule for the
  smaller groups, and has no level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from aqmlab import stats
from aqmlab.report_card.values import DIGITS
from aqmlab.stats import Interval, modality

STEP = 2.0
"""Above this ratio of neighbours in the order of size, values fall into groups."""


def mean(values: Sequence[float]) -> Interval:
    """The mean of replications, or their median if they fall into groups."""
    in_groups = _steps(values) or not modality.has_one_mode(_unrounded(values))
    return modality.median(values) if in_groups else stats.mean_interval(values)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The ratio of the means of pairs, or the median of the ratios of pairs if those fall into groups."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b]
    if len(ratios) == len(ours) and _steps(ratios):
        return modality.median(ratios)
    return modality.paired_ratio(ours, theirs)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The mean of the differences of pairs, or their median if they fall into groups."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    return modality.median(differences) if _steps(differences) else modality.mean(differences)


def _steps(values: Sequence[float]) -> bool:
    """Whether one of several positive values is more than `STEP` times the next smaller one."""
    ordered = sorted(values)
    return bool(ordered) and ordered[0] > 0 and any(b > STEP * a for a, b in pairwise(ordered))


def _unrounded(values: Sequence[float]) -> list[float]:
    """Values with those that rounding to `DIGITS` made equal set apart evenly within the last digit, as the
    dip test leaves out samples with equal values. Zeros stay as they are, and so does a sample whose
    values are all equal."""
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
