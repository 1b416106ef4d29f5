"""How many seeds a study takes: more of them at the points where a verdict hangs on too few.

There are looks at fixed numbers of seeds, each twice the last one. At each look all claims are judged by
intervals of so high a level that those of all looks hold together with 95 % (Bonferroni; see `precision`).
Points of which an undecided part of a claim is computed get more seeds at the next look, unless its interval
is narrower than what the rule calls equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from aqmlab import stats
from aqmlab.experiment import Counts
from aqmlab.publication import Study
from aqmlab.rule import AnyRule, Several
from aqmlab.runs import Results
from aqmlab.sweep import Value
from aqmlab.variable import points_used

LOOKS = 4
"""The most looks: a point has at most eight times as many seeds as at the first."""

GROWTH = 2

Points = set[tuple[str, tuple[Value, ...]]]


def level(looks: int) -> float:
    """The level of each interval where there are so many looks at the runs."""
    return stats.simultaneous_level(stats.LEVEL, looks)


def wanting(study: Study, results: Results, looks: int) -> Points:
    """The points of which more seeds would help to decide."""
    found: Points = set()
    for claim in study.claims:
        for reading in study.readings_of(claim):
            if reading.runs is None:
                # A claim that cannot be judged gets no seeds: its verdict tells why.
                with suppress(Exception):
                    found |= _wanting(claim.rule.at(reading.labels), results, level(looks))
    return found


def _wanting(rule: AnyRule, results: Results, level: float) -> Points:
    if rule.judge(results, level).verdict != "undecided":
        return set()
    if isinstance(rule, Several):
        of_parts = rule.level_of_parts(results, level)
        return set().union(*(_wanting(one, results, of_parts) for one in rule.rules))
    found: Points = set()
    for labels in rule.estimate.points(results):
        interval = rule.estimate.interval(results, labels, level)
        equal = interval.decided and interval.half_width <= rule.estimate.equal_within
        if stats.verdict(interval, rule.band) == "undecided" and not equal:
            for variable in rule.estimate.of:
                found |= points_used(variable, results, labels)
    return found


def more(
    study: Study, counts: Counts, points: Iterable[tuple[str, tuple[Value, ...]]]
) -> dict[tuple[str, tuple[Value, ...]], int]:
    """Twice as many seeds for some points, as far as their experiment allows."""
    by_name = {one.name: one for one in study.experiments}
    grown = dict(counts)
    for point in points:
        experiment = by_name[point[0]]
        before = counts.get(point, experiment.seeds)
        grown[point] = min(GROWTH * before, max(experiment.most_seeds, experiment.seeds))
    return grown
