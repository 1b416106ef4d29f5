"""Determines the number of replications: replications are added until an interval is narrow enough.

It is not valid to add replications until a 95 % interval is narrow and then to report this interval. This
rule tends to stop when the spread is small by chance, so that the interval misses the true value too often
(Law and Kelton, "Confidence intervals for steady-state simulations, II: a survey of sequential procedures",
Management Science 28(5), 1982). The error vanishes asymptotically as the required precision increases (Chow
and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", Annals of
Mathematical Statistics 36(2), 1965; Glynn and Whitt, "The asymptotic validity of sequential stopping rules
for stochastic simulations", Annals of Applied Probability 2(1), 1992), but real experiments are finite.

aqmlab therefore increases the number of replications geometrically, so that there are few looks at the data,
and divides the allowed error equally among the looks (`aqmlab.stats.looks`). The looks are evenly spaced in
the logarithm of the number of replications, so the spending function is linear in this logarithm. The
reported interval contains the true value with at least the required probability, regardless of the reason for
stopping: the precision of the interval, the precision of another measure, or an interruption. With ten looks,
the cost is either an interval that is 40 % wider than with a fixed number of replications, or twice the
number of replications.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aqmlab.stats.intervals import LEVEL, Interval, mean_interval
from aqmlab.stats.looks import look_level


@dataclass(frozen=True, kw_only=True)
class Look:
    """The state of a measure at one look.

    `missing` is the number of replications that have no value. The interval is computed from the other
    replications, with the `level` of the interval that is finally reported. `next_count` is the number of
    replications at the next look. `next_count` is `None` at the last look: if the precision is `enough`, or
    if the maximum number of replications is `exhausted`.
    """

    interval: Interval
    replications: int
    missing: int
    enough: bool
    exhausted: bool
    next_count: int | None


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The required precision of the interval of a mean, and the limits of the number of replications.

    Exactly one of `relative` (to the absolute value of the mean: 0.05 is 5 %) and `absolute` (in the
    measure's unit) sets the required half-width. The first look is made after `least` replications, and the
    last look after `most` replications. From look to look, the number of replications is multiplied by
    `growth`. If values are normal, the intervals of `measures` measures at all looks jointly contain the true
    values with at least the probability `level`. Averages over long runs are nearly normal.

    If all values at the first look are equal (five values by default), no replications are added, because the
    interval of equal values is a point. For a measure that counts rare events, increase `least`.
    """

    relative: float | None = None
    absolute: float | None = None
    level: float = LEVEL
    least: int = 5
    most: int = 200
    growth: float = 1.5
    measures: int = 1

    def __post_init__(self) -> None:
        if (self.relative is None) == (self.absolute is None):
            raise ValueError("precision: must set the half-width, as either relative or absolute")
        for name in ("relative", "absolute"):
            half_width = getattr(self, name)
            if half_width is not None and not 0 < half_width < math.inf:
                raise ValueError(f"precision: {name} must be greater than 0 (got {half_width})")
        if not 0 < self.level < 1:
            raise ValueError(f"precision: level must be between 0 and 1, such as 0.95 (got {self.level})")
        if self.least < 2:
            raise ValueError(
                f"precision: least must be 2 or more, because an interval needs two values (got {self.least})"
            )
        if self.most < self.least:
            raise ValueError(
                f"precision: most must not be less than least, which is {self.least} (got {self.most})"
            )
        if not 1 < self.growth < math.inf:
            raise ValueError(f"precision: growth must be greater than 1, such as 1.5 (got {self.growth})")
        if self.measures < 1:
            raise ValueError(f"precision: measures must be 1 or more (got {self.measures})")

    def looks(self) -> tuple[int, ...]:
        """The numbers of replications at all looks."""
        counts = [self.least]
        while counts[-1] < self.most:
            counts.append(min(math.ceil(self.growth * counts[-1]), self.most))
        return tuple(counts)

    def for_measures(self, count: int) -> Precision:
        """Returns this precision for `count` measures that are reported together."""
        return replace(self, measures=count)

    @property
    def look_level(self) -> float:
        """The confidence level of Student's interval at one look."""
        return look_level(len(self.looks()), self.measures, self.level)

    def judge(self, values: Sequence[float]) -> Look:
        """Judges whether the number of replications is sufficient. `values` has one value for each
        replication, in the order of seeds.

        Only the longest prefix of `values` whose length is the number of replications at a look is used, so
        that the result does not depend on additional replications. With fewer than `least` values, there is
        no interval. A missing value is NaN; it counts as a replication but is not used for the interval. The
        number of replications is never sufficient if fewer than `least` values exist, or if a value is
        infinite.
        """
        counts = self.looks()
        count = max((count for count in counts if count <= len(values)), default=0)
        kept = [value for value in values[:count] if not math.isnan(value)]
        finite = not any(math.isinf(value) for value in kept)
        interval = _no_interval(len(kept))
        if kept and finite:
            interval = mean_interval(kept, self.look_level)
        enough = len(kept) >= self.least and interval.decided and self._narrow(interval)
        next_count = None if enough else next((more for more in counts if more > count), None)
        return Look(
            interval=replace(interval, level=self.level),
            replications=count,
            missing=count - len(kept),
            enough=enough,
            exhausted=not enough and next_count is None,
            next_count=next_count,
        )

    def _narrow(self, interval: Interval) -> bool:
        if self.absolute is not None:
            return interval.half_width <= self.absolute
        return self.relative is not None and interval.half_width <= self.relative * abs(interval.value)


def _no_interval(count: int) -> Interval:
    return Interval(value=math.nan, low=math.nan, high=math.nan, count=count)
