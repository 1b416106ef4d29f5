"""Stopping rules, which determine the number of replications of each point of a sweep."""

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

BLOCK_POINTS = 64
"""Number of points in a block. The scenarios of a block are kept in memory, and the block's runs are executed
seed by seed."""


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """A stopping rule: a point has enough replications when the intervals of these measures have the required
    width."""

    rule: Precision
    measures: Sequence[str]
    baseline: Mapping[str, Value] = field(default_factory=dict)
    """Labels that, together with the other labels of a point, select the baseline point. With a baseline, the
    paired difference from the baseline must have an interval of the required width, and a `relative`
    half-width is relative to the baseline's mean."""

    def __post_init__(self) -> None:
        if self.rule.level != stats.LEVEL:
            raise ValueError(
                f"precision.level: must be {stats.LEVEL}, the confidence level of all intervals (got "
                f"{self.rule.level})"
            )


@dataclass(frozen=True, kw_only=True)
class StoppingState:
    """The current and the required number of replications of a point."""

    wanted: int
    """Required number of replications, which equals the current number if the point is complete."""
    have: int
    exhausted: bool = False
    """Whether the point has the maximum number of replications although its intervals are wider than
    required."""


def stopping_states(
    points: Sequence[Point],
    digests: Sequence[str],
    store: Store,
    measures: Sequence[Measure],
    replications: int,
    stopping: Stopping | None,
) -> list[StoppingState]:
    """The stopping state of each point.

    The precision rule is evaluated at its looks in order. Each look uses only the first replications, so that
    additional runs in the store do not change the result.
    """
    if stopping is None:
        return [StoppingState(wanted=replications, have=replications)] * len(points)
    values = _values(points, digests, store, measures, stopping)
    indices = {_named(point.labels): index for index, point in enumerate(points)}
    found: list[StoppingState] = []
    partners: dict[int, int] = {}
    for index, point in enumerate(points):
        partner = indices.get(_named({**point.labels, **stopping.baseline})) if stopping.baseline else None
        theirs = None if partner is None else values[partner]
        state = _state(stopping, values[index], theirs, itself=partner == index)
        found.append(state)
        if partner is not None:
            partners[partner] = max(partners.get(partner, 0), state.wanted)
    return [replace(one, wanted=max(one.wanted, partners.get(index, 0))) for index, one in enumerate(found)]


def _named(labels: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(labels.items()))


Values = Mapping[str, Mapping[int, float]]
"""Values of the first replications, by measure and seed, with NaN where a run has no value."""


def _values(
    points: Sequence[Point],
    digests: Sequence[str],
    store: Store,
    measures: Sequence[Measure],
    stopping: Stopping,
) -> list[Values]:
    keys = {one.name: one.key for one in measures if one.name in stopping.measures}
    found: list[Values] = []
    for first in range(0, len(points), BLOCK_POINTS):
        block = range(first, min(first + BLOCK_POINTS, len(points)))
        stored = store.runs_of([digests[index] for index in block])
        for index in block:
            first_seed = points[index].first_seed
            records: dict[int, RunRecord] = {}
            for seed in range(first_seed, first_seed + stopping.rule.most):
                record = stored.get((digests[index], seed))
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


def _state(stopping: Stopping, ours: Values, theirs: Values | None, *, itself: bool) -> StoppingState:
    """Evaluates the rule at its looks in order, until the number of values is sufficient or no further values
    exist."""
    rule = stopping.rule.for_measures(len(ours))
    counts = [ours, theirs] if theirs is not None else [ours]
    have = min(len(values) for one in counts for values in one.values())
    if itself:
        return StoppingState(wanted=rule.least, have=have)
    for count in rule.looks():
        if count > have:
            return StoppingState(wanted=count, have=have)
        looks = [_look(rule, name, ours, theirs, count) for name in ours]
        if all(look.enough for look in looks):
            return StoppingState(wanted=count, have=have)
    return StoppingState(wanted=rule.most, have=have, exhausted=True)


def _look(rule: Precision, name: str, ours: Values, theirs: Values | None, count: int) -> Look:
    if theirs is None:
        return rule.judge(list(ours[name].values())[:count])
    values, base = (several[:count] for several in by_seed(ours[name], theirs[name]))
    if rule.relative is not None:
        mean = abs(stats.mean_interval(base).value)
        if math.isnan(mean):
            return rule.judge([math.nan] * count)
        # If the baseline's mean is 0, only an interval without width is narrow enough.
        rule = replace(rule, relative=None, absolute=max(rule.relative * mean, math.ulp(0.0)))
    return rule.judge([a - b for a, b in zip(values, base, strict=True)])
