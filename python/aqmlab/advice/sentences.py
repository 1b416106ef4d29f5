"""Descriptions of an advice in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from aqmlab._support.words import capital, joined
from aqmlab.advice.candidates import TODAY
from aqmlab.advice.choice import GOODPUT, Advice, Assessment, Relation
from aqmlab.advice.uses import Score
from aqmlab.stats import Interval, plus_minus

TODAYS = "today's queue"


def sentences(advice: Advice) -> list[str]:
    """Returns the description of an advice: the choice with its evidence, the rivals, the price, and the
    candidates that violate a constraint."""
    return [*_choice(advice), *_rivals(advice), *_price(advice), *_refused(advice)]


def _choice(advice: Advice) -> Iterator[str]:
    score = advice.objective
    if advice.outcome == "impossible":
        yield "No queue satisfies the constraints, so there is nothing to recommend."
        return
    assert advice.best is not None
    best, today = advice.of(advice.best), advice.of(TODAY)
    tolerance = f"by more than {100 * advice.tolerance:g} % of today's value"
    if advice.outcome == "keep":
        for number, one in enumerate(advice.scores_of_uses):
            begin = "Keep today's queue: no" if number == 0 else "No"
            yield f"{begin} candidate improves {_titled(one)} {tolerance} ({_mean(today, one)})."
        return
    for one in advice.unimproved:
        yield f"No candidate improves {_titled(one)} {tolerance} ({_mean(today, one)})."
    if advice.outcome == "change":
        yield f"Use {best.name}. {_changed(today, best, score)}"
        gain = _shown(best.gains[score.measure], score.unit)
        yield f"The improvement is {gain}, with simultaneous 95 % intervals."
        return
    yield "The runs do not decide which queue is best: the intervals overlap, or a constraint is undecided."
    if best is today:
        yield "Among the queues that no constraint excludes, today's queue has the best mean."
    else:
        yield f"Among the queues that no constraint excludes, {best.name} has the best mean. " + _changed(
            today, best, score
        )
    yield "More runs (--most) or longer runs may decide the question."


def _changed(today: Assessment, best: Assessment, score: Score) -> str:
    """Returns a sentence about the change of a score."""
    return f"{capital(_titled(score))} changes from {_mean(today, score)} to {_mean(best, score)}."


def _titled(score: Score) -> str:
    return f"the measure {score.measure} ({score.title})"


def _rivals(advice: Advice) -> Iterator[str]:
    if advice.outcome in ("keep", "impossible") or advice.best is None:
        return
    name = _named(advice.of(advice.best))
    groups: dict[Relation, list[str]] = {}
    for rival, found in advice.rivals.items():
        groups.setdefault(found, []).append(TODAYS if rival == TODAY else rival)
    if equal := groups.get("equal"):
        yield (
            f"{_beginning(equal)} {_is(equal)} as good as {name}, within {100 * advice.tolerance:g} "
            "% of today's value."
        )
    if undecided := groups.get("undecided"):
        yield f"The runs do not decide between {name} and {joined(undecided)}."


def _price(advice: Advice) -> Iterator[str]:
    if advice.outcome != "change" or advice.best is None:
        return
    best, today = advice.of(advice.best), advice.of(TODAY)
    for score in advice.scores:
        if score is advice.objective:
            continue
        yield _changed(today, best, score)
    ours, theirs = best.means[GOODPUT], today.means[GOODPUT]
    yield f"The goodput of all workloads changes from {_shown(theirs, 'Mbps')} to {_shown(ours, 'Mbps')}."


def _refused(advice: Advice) -> Iterator[str]:
    for verdict, words in (("fails", "violate"), ("undecided", "may violate")):
        for constraint in advice.constraints:
            key = constraint.key
            names = [_named(one) for one in advice.assessments if one.verdicts.get(key) == verdict]
            if names:
                verb = words if len(names) > 1 or words.startswith("may") else f"{words}s"
                yield f"{_beginning(names)} {verb} the constraint `{constraint.text}`."


def _mean(one: Assessment, score: Score) -> str:
    return _shown(one.means[score.measure], score.unit)


def _shown(interval: Interval, unit: str) -> str:
    return f"{plus_minus(interval.value, interval.half_width)}{' ' + unit if unit else ''}"


def _named(one: Assessment) -> str:
    return TODAYS if one.name == TODAY else one.name


def _beginning(names: list[str]) -> str:
    """Returns names at the beginning of a sentence. The names of queues remain unchanged."""
    text = joined(names)
    return capital(text) if names[0] == TODAYS else text


def _is(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"


def rows(advice: Advice) -> Iterator[list[str]]:
    """Yields a row of text for each candidate: its name, its scores, the goodput, the verdict on the
    constraints, and the number of runs."""
    for one in advice.assessments:
        cells = [_shown(one.means[score.measure], "") for score in advice.scores]
        verdict = one.admissible if advice.constraints else "-"
        yield [one.name, *cells, _shown(one.means[GOODPUT], ""), verdict, str(one.seeds)]
