"""How many replications are enough: stopping when an interval is as narrow as asked.

Replicating until an interval of 95 % is narrow and then reporting it is not valid: the rule stops by
preference where chance made the spread small, and the interval misses the truth more often than it says (Law
and Kelton, "Confidence intervals for steady-state simulations, II: a survey of sequential procedures",
Management Science 28(5), 1982). Asymptotically, for ever higher precision, the fault vanishes (Chow and
Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", Annals of
Mathematical Statistics 36(2), 1965; Glynn and Whitt, "The asymptotic validity of sequential stopping rules
for stochastic simulations", Annals of Applied Probability 2(1), 1992), but nobody replicates for ever.

Here the number of replications grows geometrically, so that there are few looks, and the error that is
allowed is spent over them in equal parts (`aqmlab.stats.looks`): as the looks are evenly spaced in the
logarithm of their number, that is a spending function linear in it. The interval that is reported holds with
at least the level asked, whatever made it stop: its own precision, that of another measure, or somebody's
patience. The price, with ten looks, is an interval wider by two fifths than that of a number of replications
chosen beforehand, or twice as many replications.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aqmlab.stats.intervals import LEVEL, Interval, mean_interval
from aqmlab.stats.looks import look_level


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the values of a measure say at one look.

    `missing` of the `replications` looked at have no value; the interval is of the others, and its `level` is
    the one promised for the number that is reported in the end. `next_count` is the number of replications to
    have at the next look, and `None` when it is over: there is precision `enough`, or the most replications
    are `exhausted` without it.
    """

    interval: Interval
    replications: int
    missing: int
    enough: bool
    exhausted: bool
    next_count: int | None


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How narrow the interval of a mean must be, and what may be spent on it.

    Exactly one of `relative` (to the size of the mean: 0.05 is 5 % of it) and `absolute` (in the measure's
    unit) is the half-width asked. There are `least` replications at the first look and `most` at the last;
    from look to look their number grows by the factor `growth`. The intervals of `measures` measures, at all
    looks, hold together with at least the probability `level` if values are normal, as averages over long
    runs nearly are.

    Five equal values end it, as their interval is a point: ask for more replications at `least` where a
    measure counts what is rare.
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
            raise ValueError("precision: give either relative or absolute, the half-width asked")
        for name in ("relative", "absolute"):
            asked = getattr(self, name)
            if asked is not None and not 0 < asked < math.inf:
                raise ValueError(f"precision: {name} = {asked} must be above 0")
        if not 0 < self.level < 1:
            raise ValueError(f"precision: level = {self.level} must be between 0 and 1, such as 0.95")
        if self.least < 2:
            raise ValueError(f"precision: least = {self.least} must be 2 or more: one run has no interval")
        if self.most < self.least:
            raise ValueError(f"precision: most = {self.most} must not be below least, {self.least}")
        if not 1 < self.growth < math.inf:
            raise ValueError(f"precision: growth = {self.growth} must be above 1, such as 1.5")
        if self.measures < 1:
            raise ValueError(f"precision: measures = {self.measures} must be 1 or more")

    def looks(self) -> tuple[int, ...]:
        """The numbers of replications at which the values are looked at."""
        counts = [self.least]
        while counts[-1] < self.most:
            counts.append(min(math.ceil(self.growth * counts[-1]), self.most))
        return tuple(counts)

    def for_measures(self, count: int) -> Precision:
        """The same precision, asked of `count` measures that are reported together."""
        return replace(self, measures=count)

    @property
    def look_level(self) -> float:
        """The level of Student's interval at one look."""
        return look_level(len(self.looks()), self.measures, self.level)

    def judge(self, values: Sequence[float]) -> Look:
        """Whether the values, one for each replication in the order of seeds, are enough.

        Looked at is the longest beginning of `values` that the looks provide for, so that the answer does not
        depend on how many more replications happen to be there; with fewer than `least` there is no interval.
        A value that does not exist is NaN in its place. It takes up a replication and has no part in the
        interval, and with fewer than `least` values that do exist, or an infinite one, there is never enough.
        """
        counts = self.looks()
        count = max((count for count in counts if count <= len(values)), default=0)
        kept = [value for value in values[:count] if not math.isnan(value)]
        finite = not any(math.isinf(value) for value in kept)
        interval = _no_interval(len(kept))
        if kept and finite:
            interval = mean_interval(kept, self.look_level)
        enough = len(kept) >= self.least and interval.decided and self._narrow(interval)
        later = None if enough else next((more for more in counts if more > count), None)
        return Look(
            interval=replace(interval, level=self.level),
            replications=count,
            missing=count - len(kept),
            enough=enough,
            exhausted=not enough and later is None,
            next_count=later,
        )

    def _narrow(self, interval: Interval) -> bool:
        if self.absolute is not None:
            return interval.half_width <= self.absolute
        return self.relative is not None and interval.half_width <= self.relative * abs(interval.value)


def _no_interval(count: int) -> Interval:
    return Interval(value=math.nan, low=math.nan, high=math.nan, count=count)
