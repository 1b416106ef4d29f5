"""How many seeds a study takes: more of them at the points where a verdict hangs on too few.

There are looks at fixed numbers of seeds, each twice the last one. At each look all claims are judged by
intervals of so high a level that those of all looks hold together with 95 % (`aqmlab.stats.looks`).
Points of which an undecided part of a claim is computed get more seeds at the next look, unless its interval
is as narrow as the rule asks. Variants have the same looks, with at most as many seeds at a point as the main
verdict has there in the end, and get more only for claims whose main verdict is decided: there alone they
could reverse one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from aqmlab import stats
from aqmlab.results.labels import PointName
from aqmlab.results.rule import AnyRule, Combined
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import points_used
from aqmlab.study.experiment import Counts, Experiment
from aqmlab.study.publication import Claim, Reading, Study

LOOKS = 4
"""The most looks: a point has at most eight times as many seeds as at the first."""

GROWTH = 2

Points = set[PointName]


def looks(study: Study) -> int:
    """How often a full study looks at its runs: once if some are live, or if no point may get more seeds."""
    can_grow = any(most(one) > one.seeds for one in study.experiments)
    return LOOKS if can_grow and not any(one.live for one in study.experiments) else 1


def level(looks: int) -> float:
    """The level of each interval where there are so many looks at the runs."""
    return stats.look_level(looks)


def wanting(claims: Iterable[tuple[Claim, Reading]], results: ExperimentResults, looks: int) -> Points:
    """The points of which more seeds would help to decide claims, each for a reading."""
    found: Points = set()
    for claim, reading in claims:
        if reading.runs is None:
            # A claim that cannot be judged gets no seeds: its verdict tells why.
            with suppress(Exception):
                found |= _wanting(claim.rule.at(reading.labels), results, level(looks))
    return found


def _wanting(rule: AnyRule, results: ExperimentResults, level: float) -> Points:
    found = rule.judge(results, level)
    if found.verdict != "undecided":
        return set()
    if isinstance(rule, Combined) and not rule.every:
        of_parts = rule.level_of_parts(results, level)
        return set().union(*(_wanting(one, results, of_parts) for one in rule.rules))
    failing = stats.level_of_parts(level, len(found.parts))
    return set().union(*(_of_parts(one, results, level, failing) for one in _parts(rule)))


def _parts(rule: AnyRule) -> Iterator[AnyRule]:
    """The rules that a rule is made of, all of which shall hold."""
    if isinstance(rule, Combined) and rule.every:
        for one in rule.rules:
            yield from _parts(one)
    else:
        yield rule


def _of_parts(rule: AnyRule, results: ExperimentResults, level: float, failing: float) -> Points:
    """The points of a part that is undecided, or that fails, but not by so high a level that all do."""
    if isinstance(rule, Combined):
        return _wanting(rule, results, level)
    found: Points = set()
    for labels in rule.estimate.points(results):
        interval, stricter = (rule.estimate.interval(results, labels, one) for one in (level, failing))
        verdicts = {stats.verdict(one, rule.band) for one in (interval, stricter)}
        if "undecided" in verdicts and "holds" not in verdicts and not rule.estimate.is_known(interval):
            for variable in rule.estimate.of:
                found |= points_used(variable, results, labels)
    return found


def more(
    study: Study, counts: Counts, points: Iterable[PointName], limits: Counts | None = None
) -> dict[PointName, int]:
    """Twice as many seeds for some points, as far as their experiment allows, or up to `limits`: a point
    without one gets none."""
    by_name = {one.name: one for one in study.experiments}
    grown = dict(counts)
    for point in points:
        experiment = by_name[point[0]]
        limit = most(experiment) if limits is None else limits.get(point, experiment.seeds)
        grown[point] = max(min(GROWTH * counts.get(point, experiment.seeds), limit), experiment.seeds)
    return grown


def most(experiment: Experiment) -> int:
    """The most seeds that a point of an experiment may get."""
    largest = int(experiment.seeds * GROWTH ** (LOOKS - 1))
    return min(largest, max(experiment.most_seeds, experiment.seeds))
