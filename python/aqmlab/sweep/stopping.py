"""When a point of a sweep has enough replications."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aqmlab import stats
from aqmlab.measures import Measure
from aqmlab.results.labels import Value
from aqmlab.results.pairs import by_seed
from aqmlab.sweep.point import Point

if TYPE_CHECKING:
    from aqmlab.stats.precision import Look, Precision
    from aqmlab.store.store import RunRecord, Store

TOGETHER = 64
"""Of so many points the scenarios are at hand at once, and their runs are made seed by seed."""


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """How narrow the intervals of which measures must be before a point has enough replications."""

    rule: Precision
    measures: Sequence[str]
    baseline: Mapping[str, Value] = field(default_factory=dict)
    """Labels of another point, whose others are the same: what is to be narrow is the interval of the
    difference from it, seed by seed; a `relative` half-width is one of its mean."""

    def __post_init__(self) -> None:
        if self.rule.level != stats.LEVEL:
            raise ValueError(
                f"precision.level: must be {stats.LEVEL}, as that of all intervals, is {self.rule.level}"
            )


@dataclass(frozen=True, kw_only=True)
class Enough:
    """Whether a point has enough replications."""

    wanted: int
    """How many it is to have; as many as it has when nothing is left to be done."""
    have: int
    exhausted: bool = False
    """Whether it has as many as it may, and intervals are still wider than asked."""


def counted(
    points: Sequence[Point],
    digests: Sequence[str],
    store: Store,
    measures: Sequence[Measure],
    replications: int,
    stopping: Stopping | None,
) -> list[Enough]:
    """For each point how many replications it has and is to have.

    What precision asks for is judged at its looks, one after the other, on the first replications, so that
    the answer is the same whatever else the store holds.
    """
    if stopping is None:
        return [Enough(wanted=replications, have=replications)] * len(points)
    values = _values(points, digests, store, measures, stopping)
    places = {_named(point.labels): place for place, point in enumerate(points)}
    found: list[Enough] = []
    partners: dict[int, int] = {}
    for place, point in enumerate(points):
        partner = places.get(_named({**point.labels, **stopping.baseline})) if stopping.baseline else None
        theirs = None if partner is None else values[partner]
        enough = _enough(stopping, values[place], theirs, itself=partner == place)
        found.append(enough)
        if partner is not None:
            partners[partner] = max(partners.get(partner, 0), enough.wanted)
    return [replace(one, wanted=max(one.wanted, partners.get(place, 0))) for place, one in enumerate(found)]


def _named(labels: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(labels.items()))


Values = Mapping[str, Mapping[int, float]]
"""By measure, the values of the first replications by their seeds; NaN where a run has none."""


def _values(
    points: Sequence[Point],
    digests: Sequence[str],
    store: Store,
    measures: Sequence[Measure],
    stopping: Stopping,
) -> list[Values]:
    keys = {one.name: one.key for one in measures if one.name in stopping.measures}
    found: list[Values] = []
    for first in range(0, len(points), TOGETHER):
        block = range(first, min(first + TOGETHER, len(points)))
        kept = store.runs_of([digests[place] for place in block])
        for place in block:
            first_seed = points[place].first_seed
            records: dict[int, RunRecord] = {}
            for seed in range(first_seed, first_seed + stopping.rule.most):
                record = kept.get((digests[place], seed))
                if record is None:
                    break
                records[seed] = record
            found.append(
                {
                    name: {seed: _number(record.values.get(key)) for seed, record in records.items()}
                    for name, key in keys.items()
                }
            )
    return found


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _enough(stopping: Stopping, ours: Values, theirs: Values | None, *, itself: bool) -> Enough:
    """Judged at one look after the other, until the values are enough or no more are there."""
    rule = stopping.rule.for_measures(len(ours))
    counts = [ours, theirs] if theirs is not None else [ours]
    have = min(len(values) for one in counts for values in one.values())
    if itself:
        return Enough(wanted=rule.least, have=have)
    for count in rule.looks():
        if count > have:
            return Enough(wanted=count, have=have)
        looks = [_look(rule, name, ours, theirs, count) for name in ours]
        if all(look.enough for look in looks):
            return Enough(wanted=count, have=have)
    return Enough(wanted=rule.most, have=have, exhausted=True)


def _look(rule: Precision, name: str, ours: Values, theirs: Values | None, count: int) -> Look:
    if theirs is None:
        return rule.judge(list(ours[name].values())[:count])
    values, base = (several[:count] for several in by_seed(ours[name], theirs[name]))
    if rule.relative is not None:
        mean = abs(stats.mean_interval(base).value)
        if not mean > 0:
            return rule.judge([math.nan] * count)
        rule = replace(rule, relative=None, absolute=rule.relative * mean)
    return rule.judge([a - b for a, b in zip(values, base, strict=True)])
