"""Judges the candidates by the law of verdict, and chooses the best one.

All comparisons are paired by seed, and their intervals are simultaneous: with the probability `stats.LEVEL`,
all of them contain the true values, regardless of the number of looks at which the precision was examined.
The first score that any candidate improves is optimised. A candidate is admissible if all constraints hold.
The tolerance is a relative difference that does not matter to the person.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from aqmlab import stats
from aqmlab.advice.candidates import TODAY
from aqmlab.advice.constraints import Constraint
from aqmlab.advice.uses import Score
from aqmlab.results.pairs import by_seed
from aqmlab.stats import Interval, Verdict

if TYPE_CHECKING:
    from aqmlab.results.table import Results

GOODPUT = "line-goodput"
"""Name of the measure of the goodput of all workloads."""

Outcome = Literal["change", "keep", "undecided", "impossible"]
"""`change`: a candidate is better than today's queue. `keep`: no candidate is better by more than the
tolerance. `undecided`: the intervals allow both. `impossible`: no candidate satisfies the constraints."""

Relation = Literal["better", "equal", "undecided", "worse"]
"""The first candidate of a pair compared with the second."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The results of one candidate."""

    name: str
    means: Mapping[str, Interval]
    """The mean of each score and of the goodput, by the name of the measure."""
    gains: Mapping[str, Interval]
    """The improvement of each score over today's queue, in the unit of the score; positive is better. Empty
    for today's queue."""
    verdicts: Mapping[str, Verdict]
    """The verdict on each constraint, by the text of the constraint and the measure."""
    seeds: int
    """Number of runs."""

    @property
    def admissible(self) -> Verdict:
        """`holds` if all constraints hold, and `fails` if a constraint fails."""
        found = set(self.verdicts.values())
        return "fails" if "fails" in found else "undecided" if "undecided" in found else "holds"

    def to_dict(self) -> dict[str, Any]:
        """Returns the results for JSON."""
        return {
            "queue": self.name,
            "runs": self.seeds,
            "admissible": self.admissible,
            "constraints": dict(self.verdicts),
            "means": {name: plain(found) for name, found in self.means.items()},
            "gains": {name: plain(found) for name, found in self.gains.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The choice of a queue, and the evidence."""

    scores: tuple[Score, ...]
    """The scores of the uses in the order of their importance, and then those that only constraints limit."""
    scores_of_uses: tuple[Score, ...]
    """The scores of the uses."""
    objective: Score
    """The score that decides: the first score of a use that a candidate improves by more than the tolerance
    or that the runs do not decide; the first score if there is no such score."""
    unimproved: tuple[Score, ...]
    """The scores of uses before the objective, which no candidate improves by more than the tolerance."""
    constraints: tuple[Constraint, ...]
    tolerance: float
    assessments: tuple[Assessment, ...]
    """The candidates in the given order; the first one is today's queue."""
    outcome: Outcome
    best: str | None
    """The chosen candidate for `change`, `TODAY` for `keep`, and for `undecided` the candidate with the
    best mean among those for which no constraint fails."""
    rivals: Mapping[str, Relation]
    """How the best candidate compares with each other candidate that may be admissible, in the objective."""
    level: float
    """Confidence level of all intervals together."""

    def of(self, name: str) -> Assessment:
        """Returns the results of a candidate."""
        return next(one for one in self.assessments if one.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Returns the advice for JSON."""
        return {
            "outcome": self.outcome,
            "best": self.best,
            "optimised": self.objective.measure,
            "tolerance": self.tolerance,
            "level": self.level,
            "rivals": dict(self.rivals),
            "constraints": [{"text": one.text, "measure": one.score.measure} for one in self.constraints],
            "scores": [
                {
                    "use": one.use,
                    "traffic": one.traffic,
                    "measure": one.measure,
                    "title": one.title,
                    "unit": one.unit,
                    "more_is_better": one.more_is_better,
                }
                for one in self.scores
            ],
            "queues": [one.to_dict() for one in self.assessments],
        }


def plain(interval: Interval) -> dict[str, float | None]:
    """Returns an interval for JSON, with `None` for ends that are not finite."""
    ends = {"mean": interval.value, "low": interval.low, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in ends.items()}


def judge(
    results: Results,
    scores: Sequence[Score],
    constraints: Sequence[Constraint],
    tolerance: float,
    uses: int,
    level: float = stats.LEVEL,
) -> Advice:
    """Chooses among the values of the axis `queue`, the first of which is `TODAY`. The first `uses` scores
    are those of uses. All intervals together have the confidence level `level`."""
    values = Values(results, scores)
    level = level_of_each(results, scores, constraints, uses, level)
    assessments = [assess(values, name, scores, constraints, level) for name in values.names]
    choices = [(score, *_choose(values, assessments, score, tolerance, level)) for score in scores[:uses]]
    deciding = next((at for at, choice in enumerate(choices) if choice[-1] != "keep"), 0)
    objective, best, rivals, outcome = choices[deciding]
    return Advice(
        scores=tuple(scores),
        scores_of_uses=tuple(scores[:uses]),
        objective=objective,
        unimproved=tuple(scores[:deciding]),
        constraints=tuple(constraints),
        tolerance=tolerance,
        assessments=tuple(assessments),
        outcome=outcome,
        best=best,
        rivals=rivals,
        level=stats.LEVEL,
    )


def level_of_each(
    results: Results, scores: Sequence[Score], constraints: Sequence[Constraint], uses: int, level: float
) -> float:
    """Returns the confidence level of each interval, so that all intervals together have the confidence level
    `level`."""
    others = max(1, len(results.axes["queue"]) - 1)
    # For each candidate but today's: a comparison of each score and of each constraint with today's queue,
    # and a comparison of each score of a use with the best candidate.
    return stats.look_level(results.looks, others * (len(scores) + len(constraints) + uses), level)


class Values:
    """The values of scores and of the goodput by candidate, in the order of common seeds."""

    def __init__(self, results: Results, scores: Sequence[Score]) -> None:
        self.names = [str(name) for name in results.axes["queue"]]
        self.measures = [*dict.fromkeys(one.measure for one in scores), GOODPUT]
        self._results = results

    def of(self, name: str, measure: str) -> dict[int, float]:
        """Returns the values of a measure by seed, with NaN for missing values."""
        point = (name,)
        seeds = sorted(self._results.seeds_at(point))
        return dict(zip(seeds, self._results.numbers(measure, point, seeds), strict=True))

    def paired(self, name: str, other: str, measure: str) -> tuple[list[float], list[float]]:
        """Returns the values of two candidates for their common seeds."""
        return by_seed(self.of(name, measure), self.of(other, measure))


def assess(
    values: Values, name: str, scores: Sequence[Score], constraints: Sequence[Constraint], level: float
) -> Assessment:
    """Returns the results of a candidate."""
    verdicts: dict[str, Verdict] = {}
    for one in constraints:
        if name == TODAY and one.holds_today:
            verdicts[one.key] = "holds"
            continue
        excess = one.excess(*values.paired(name, TODAY, one.score.measure))
        found = stats.verdict(stats.mean_interval(excess, level), one.band)
        verdicts[one.key] = found
    gains = (
        {} if name == TODAY else {one.measure: gain_over(values, name, TODAY, one, level) for one in scores}
    )
    return Assessment(
        name=name,
        means={
            measure: stats.mean_interval(list(values.of(name, measure).values()), level)
            for measure in values.measures
        },
        gains=gains,
        verdicts=verdicts,
        seeds=len(values.of(name, scores[0].measure)),
    )


def gain_over(values: Values, name: str, other: str, score: Score, level: float) -> Interval:
    """Returns by how much a candidate is better than another candidate."""
    ours, theirs = values.paired(name, other, score.measure)
    if score.more_is_better:
        return stats.paired_difference(ours, theirs, level)
    return stats.paired_difference(theirs, ours, level)


def relation(gain: Interval, margin: float) -> Relation:
    """Returns the relation that an interval of a gain shows. Differences up to `margin` do not matter."""
    if not gain.decided:
        return "undecided"
    if -margin <= gain.low and gain.high <= margin:
        return "equal"
    if stats.verdict(gain, stats.above(0.0)) == "holds":
        return "better"
    return "worse" if stats.verdict(gain, stats.below(0.0)) == "holds" else "undecided"


def _choose(
    values: Values, assessments: Sequence[Assessment], score: Score, tolerance: float, level: float
) -> tuple[str | None, dict[str, Relation], Outcome]:
    possible = [one for one in assessments if one.admissible != "fails"]
    if not possible:
        return None, {}, "impossible"
    sign = 1 if score.more_is_better else -1

    def rank(one: Assessment) -> float:
        mean = one.means[score.measure].value
        return -math.inf if math.isnan(mean) else sign * mean

    sure = [one for one in possible if one.admissible == "holds"]
    first = max(possible, key=rank)
    today = assessments[0]
    margin = tolerance * abs(today.means[score.measure].value)

    def rivals(winner: Assessment) -> dict[str, Relation]:
        gains = {
            one.name: gain_over(values, winner.name, one.name, score, level)
            for one in possible
            if one is not winner
        }
        return {name: relation(gain, margin) for name, gain in gains.items()}

    if not sure:
        return first.name, rivals(first), "undecided"
    best = max(sure, key=rank)
    # No candidate that may be admissible is better than today's queue by more than the margin.
    gains = [one.gains[score.measure] for one in possible if one.gains]
    if today.admissible == "holds" and all(gain.decided and gain.high <= margin for gain in gains):
        return TODAY, {}, "keep"
    if best is not today:
        gain = best.gains[score.measure]
        over = relation(gain, margin) if today.admissible != "fails" else "better"
        if over == "better":
            return best.name, rivals(best), "change"
    return first.name, rivals(first), "undecided"
