"""Determines the number of seeds in a study: points with undecided verdicts get more seeds.

A study examines its results at fixed numbers of seeds (looks). Each number is twice the previous number. At
each look, all claims are judged. The confidence level of the intervals is chosen so that the intervals of all
looks jointly contain the true values with a probability of 95 % (`aqmlab.stats.looks`). If a part of a claim
is undecided, the points from which this part is computed get more seeds at the next look, unless the interval
is already as narrow as the rule requires. Variants have the same looks. A point of a variant gets at most the
number of seeds that the main verdict finally uses at this point. A variant gets more seeds only for claims
whose main verdict is decided, because only these verdicts can be reversed.
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
"""Maximum number of looks. The maximum number of seeds of a point is therefore eight times the number at the
first look."""

GROWTH = 2

Points = set[PointName]


def looks(study: Study) -> int:
    """Returns the number of looks of a full study. The number is 1 if some runs are live, or if no point may
    get more seeds."""
    can_grow = any(most(one) > one.seeds for one in study.experiments)
    return LOOKS if can_grow and not any(one.live for one in study.experiments) else 1


def level(looks: int) -> float:
    """Returns the confidence level of each interval in a study with this number of looks."""
    return stats.look_level(looks)


def undecided_points(
    claims: Iterable[tuple[Claim, Reading]], results: ExperimentResults, looks: int
) -> Points:
    """Returns the points at which more seeds would help to decide claims. Each claim is given with its
    reading."""
    found: Points = set()
    for claim, reading in claims:
        if reading.runs is None:
            # If a claim cannot be judged, no seeds are added. The verdict states the reason.
            with suppress(Exception):
                found |= _undecided_points(claim.rule.at(reading.labels), results, level(looks))
    return found


def _undecided_points(rule: AnyRule, results: ExperimentResults, level: float) -> Points:
    found = rule.judge(results, level)
    if found.verdict != "undecided":
        return set()
    if isinstance(rule, Combined) and not rule.every:
        of_parts = rule.level_of_parts(results, level)
        return set().union(*(_undecided_points(one, results, of_parts) for one in rule.rules))
    failing = stats.level_of_parts(level, len(found.parts))
    return set().union(*(_of_parts(one, results, level, failing) for one in _parts(rule)))


def _parts(rule: AnyRule) -> Iterator[AnyRule]:
    """Returns the rules that must all hold for a rule to hold."""
    if isinstance(rule, Combined) and rule.every:
        for one in rule.rules:
            yield from _parts(one)
    else:
        yield rule


def _of_parts(rule: AnyRule, results: ExperimentResults, level: float, failing: float) -> Points:
    """Returns the points of a part that is undecided, or that fails with its own interval, but not at the
    confidence level for all parts together."""
    if isinstance(rule, Combined):
        return _undecided_points(rule, results, level)
    found: Points = set()
    for labels in rule.estimate.points(results):
        interval, stricter = (rule.estimate.interval(results, labels, one) for one in (level, failing))
        verdicts = {stats.verdict(one, rule.band) for one in (interval, stricter)}
        if "undecided" in verdicts and "holds" not in verdicts and not rule.estimate.is_known(interval):
            for variable in rule.estimate.of:
                found |= points_used(variable, results, labels)
    return found


def next_counts(
    study: Study, counts: Counts, points: Iterable[PointName], limits: Counts | None = None
) -> dict[PointName, int]:
    """Doubles the number of seeds of these points, up to the maximum of the point's experiment or up to
    `limits`. If `limits` is given, a point without a limit gets no more seeds."""
    by_name = {one.name: one for one in study.experiments}
    grown = dict(counts)
    for point in points:
        experiment = by_name[point[0]]
        limit = most(experiment) if limits is None else limits.get(point, experiment.seeds)
        grown[point] = max(min(GROWTH * counts.get(point, experiment.seeds), limit), experiment.seeds)
    return grown


def most(experiment: Experiment) -> int:
    """Returns the maximum number of seeds of a point of an experiment."""
    largest = int(experiment.seeds * GROWTH ** (LOOKS - 1))
    return min(largest, max(experiment.most_seeds, experiment.seeds))
