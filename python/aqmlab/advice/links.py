"""The search for the queue of each link.

Links may need different queues: the download link of a line is often fast, and the upload link slow. To try
all combinations of N queues and L links needs N to the power of L points, each with many runs. Instead, a
coordinate search needs about N (L + 1) points: the first step compares the queues at all links together
(`choice.py`). The second step compares, at each link, all queues, while the other links have the best queue
of the first step. If several links get another queue in the second step, a third step compares the resulting
combination. The search misses a combination if each of its queues is good only beside the others.

Each step uses other seeds than the steps before, so that the choices of the earlier steps do not depend on
its runs, and gets an equal part of the allowed error (Bonferroni). Therefore, the intervals of all steps
jointly contain the true values with the probability `stats.LEVEL`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from aqmlab import stats
from aqmlab.advice import choice
from aqmlab.advice.candidates import TODAY
from aqmlab.advice.choice import Advice, Assessment, Outcome, Relation, Values
from aqmlab.advice.constraints import Constraint
from aqmlab.advice.uses import Score
from aqmlab.stats import Interval

if TYPE_CHECKING:
    from aqmlab.results.table import Results

STEPS = 3
"""Maximum number of steps of the search."""

LEVEL_OF_STEP = 1 - (1 - stats.LEVEL) / STEPS
"""Confidence level of all intervals of a step together."""

Queues = Mapping[str, str]
"""The name of the queue at each link."""

LinkOutcome = Literal["base", "other", "today", "any"]
"""The outcome at a link. `base`: the queue of the first step remains. `other`: another queue is better.
`today`: today's queue is as good, so the link keeps today's queue. `any`: all queues are equally good, so the
link keeps today's queue."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a queue compares with the queue of the first step at the same link."""

    relation: Relation
    score: Score
    """The first score of a use in which the queues are not equal; the first score if there is none."""
    gain: Interval
    """The improvement of this score; positive is better."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the comparison for JSON."""
        return {
            "relation": self.relation,
            "measure": self.score.measure,
            "gain": choice.plain(self.gain),
        }


@dataclass(frozen=True, kw_only=True)
class LinkChoice:
    """The choice of the queue of one link, while the other links have the queues of the first step."""

    link: str
    base: str
    """The queue of the first step."""
    assessments: tuple[Assessment, ...]
    """The candidates at this link in the given order; the first one is today's queue."""
    comparisons: Mapping[str, Comparison]
    """The comparison of each candidate with `base`, except `base` itself."""
    best: str
    outcome: LinkOutcome

    def related(self, relation: Relation) -> list[str]:
        """Returns the candidates that satisfy the constraints and have this relation to `base`."""
        return [
            one.name
            for one in self.assessments
            if one.name != self.base and one.admissible == "holds"
            if self.comparisons[one.name].relation == relation
        ]

    @property
    def is_undecided(self) -> bool:
        """Whether a candidate that was not chosen may be better than `base`."""
        return any(
            one.admissible != "fails" and self.comparisons[one.name].relation in ("better", "undecided")
            for one in self.assessments
            if one.name not in (self.base, self.best)
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the choice for JSON."""
        queues = [
            {
                **one.to_dict(),
                "comparison": None if one.name == self.base else self.comparisons[one.name].to_dict(),
            }
            for one in self.assessments
        ]
        return {"link": self.link, "outcome": self.outcome, "best": self.best, "queues": queues}


def label(queues: Queues) -> str:
    """Returns the name of a combination, for example `codel`, or `codel / cake` for two different queues."""
    names = list(queues.values())
    return names[0] if len(set(names)) == 1 else " / ".join(names)


def today(links: Sequence[str]) -> Queues:
    """Returns the combination of today's queues."""
    return dict.fromkeys(links, TODAY)


def neighbours(base: Queues, names: Sequence[str]) -> dict[str, Queues]:
    """Returns the combinations of the second step by label: today's queues, the combination `base`, and the
    combinations that differ from `base` at one link."""
    found = [today(list(base)), base]
    found += [{**base, link: name} for link in base for name in names]
    return {label(one): one for one in found}


def choices(
    results: Results,
    base: Queues,
    names: Sequence[str],
    scores: Sequence[Score],
    constraints: Sequence[Constraint],
    tolerance: float,
    uses: int,
) -> tuple[LinkChoice, ...]:
    """Chooses the queue of each link from the results of the second step. The arguments are those of
    `choice.judge`; the axis `queue` contains the labels of `neighbours`."""
    values = Values(results, scores)
    level = choice.level_of_each(results, scores, constraints, uses, LEVEL_OF_STEP)
    current = choice.assess(values, TODAY, scores, constraints, level)
    margins = {one.measure: tolerance * abs(current.means[one.measure].value) for one in scores}
    origin = choice.assess(values, label(base), scores, constraints, level)

    def at(link: str) -> LinkChoice:
        labels = {name: label({**base, link: name}) for name in names}
        found = [
            replace(choice.assess(values, labels[name], scores, constraints, level), name=name)
            for name in names
        ]
        comparisons = {
            name: _compared(values, labels[name], label(base), scores[:uses], margins, level)
            for name in names
            if name != base[link]
        }
        sure = [one.name for one in found if one.admissible == "holds" and one.name != base[link]]
        better = [
            name for name in sure if comparisons[name].relation == "better" or origin.admissible == "fails"
        ]
        equal = [name for name in sure if comparisons[name].relation == "equal"]
        outcome: LinkOutcome = "base"
        best = base[link]
        if better:
            outcome, best = "other", max(better, key=lambda name: comparisons[name].gain.value)
        elif origin.admissible == "holds" and len(equal) == len(comparisons):
            outcome, best = "any", TODAY
        elif TODAY in equal:
            outcome, best = "today", TODAY
        return LinkChoice(
            link=link,
            base=base[link],
            assessments=tuple(found),
            comparisons=comparisons,
            best=best,
            outcome=outcome,
        )

    return tuple(at(link) for link in base)


def without_return(found: Sequence[LinkChoice]) -> tuple[LinkChoice, ...]:
    """Returns the choices, of which one keeps the queue of the first step if all links would otherwise return
    to today's queues. The first step has shown that today's queues are worse at all links together. The link
    whose score would suffer most keeps the queue of the first step."""
    if {one.best for one in found} != {TODAY}:
        return tuple(found)
    kept = min(found, key=lambda one: one.comparisons[TODAY].gain.value)
    return tuple(replace(one, best=one.base, outcome="base") if one is kept else one for one in found)


def _compared(
    values: Values,
    name: str,
    other: str,
    scores: Sequence[Score],
    margins: Mapping[str, float],
    level: float,
) -> Comparison:
    """Compares two combinations in the first score in which they are not equal."""
    found = []
    for score in scores:
        gain = choice.gain_over(values, name, other, score, level)
        relation = choice.relation(gain, margins[score.measure])
        found.append(Comparison(relation=relation, score=score, gain=gain))
    return next((one for one in found if one.relation != "equal"), found[0])


def judged(
    results: Results,
    best: Queues,
    scores: Sequence[Score],
    constraints: Sequence[Constraint],
    tolerance: float,
    uses: int,
) -> Advice:
    """Compares a combination with today's queues. The advice contains these two assessments only."""
    values = Values(results, scores)
    level = choice.level_of_each(results, scores, constraints, uses, LEVEL_OF_STEP)
    current, found = (
        choice.assess(values, name, scores, constraints, level) for name in (TODAY, label(best))
    )
    margins = {one.measure: tolerance * abs(current.means[one.measure].value) for one in scores}
    over = _compared(values, label(best), TODAY, scores[:uses], margins, level)
    outcome: Outcome = "undecided"
    if found.admissible == "fails":
        outcome = "impossible"
    elif found.admissible == "holds" and (over.relation == "better" or current.admissible == "fails"):
        outcome = "change"
    return Advice(
        scores=tuple(scores),
        scores_of_uses=tuple(scores[:uses]),
        objective=over.score,
        unimproved=(),
        constraints=tuple(constraints),
        tolerance=tolerance,
        assessments=(current, found),
        outcome=outcome,
        best=label(best),
        rivals={},
        level=stats.LEVEL,
    )


def is_as_good(
    results: Results,
    combination: Queues,
    base: Queues,
    scores: Sequence[Score],
    constraints: Sequence[Constraint],
    tolerance: float,
    uses: int,
) -> bool:
    """Returns whether a combination satisfies the constraints and is at least as good as `base`, according to
    the results of the third step."""
    values = Values(results, scores)
    level = choice.level_of_each(results, scores, constraints, uses, LEVEL_OF_STEP)
    current = choice.assess(values, TODAY, scores, constraints, level)
    margins = {one.measure: tolerance * abs(current.means[one.measure].value) for one in scores}
    origin, found = (
        choice.assess(values, label(one), scores, constraints, level) for one in (base, combination)
    )
    over = _compared(values, label(combination), label(base), scores[:uses], margins, level)
    return found.admissible == "holds" and (
        over.relation in ("better", "equal") or origin.admissible == "fails"
    )


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The recommended queue of each link, and the evidence."""

    same: Advice
    """The comparison of the candidates at all links together."""
    links: tuple[LinkChoice, ...] = ()
    """The choice at each link; empty if the search ended after the first step."""
    queues: Queues
    """The recommended queues; today's queues if there is no recommendation."""
    final: Advice
    """The comparison of the recommended queues with today's queues."""
    tried: int
    """Number of tried combinations."""
    possible: int
    """Number of combinations of the candidates."""
    rejected: Queues | None = None
    """The combination that the third step rejected, if any."""

    @property
    def base(self) -> Queues:
        """The combination of the first step from which the second step started."""
        return {one.link: one.base for one in self.links}

    @property
    def common(self) -> str | None:
        """The recommended queue if all links get the same queue."""
        return next(iter(self.queues.values())) if len(set(self.queues.values())) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Returns the recommendation for JSON. `queues` contains the candidates at all links together, and
        `links` the candidates at each link."""
        return {
            **self.same.to_dict(),
            "outcome": self.final.outcome,
            "optimised": self.final.objective.measure,
            "best": self.common if self.final.outcome != "impossible" else None,
            "best_by_link": dict(self.queues),
            "recommended": [one.to_dict() for one in self.final.assessments] if self.links else [],
            "links": [one.to_dict() for one in self.links],
            "tried": self.tried,
            "possible": self.possible,
        }
