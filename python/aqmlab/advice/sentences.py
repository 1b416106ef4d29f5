"""Descriptions of an advice in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aqmlab._support.words import capital, joined
from aqmlab.advice.candidates import TODAY
from aqmlab.advice.choice import GOODPUT, Advice, Assessment, Relation
from aqmlab.advice.commands import BOTTLENECK, DIRECTIONS
from aqmlab.advice.constraints import Constraint
from aqmlab.advice.links import LinkChoice, Queues, Recommendation
from aqmlab.advice.uses import Score
from aqmlab.stats import Interval, plus_minus

TODAYS = "today's queue"
MORE_RUNS = "More runs (--most) or longer runs may decide the question."

RELATIONS = {"better": "better", "equal": "as good", "undecided": "undecided", "worse": "worse"}
"""The words for relations in tables."""


def sentences(advice: Advice) -> list[str]:
    """Returns the description of an advice: the choice with its evidence, the rivals, the price, and the
    candidates that violate a constraint."""
    refused = _refused(advice.assessments, advice.constraints)
    return [*_choice(advice), *_rivals(advice), *_price(advice), *refused]


def of_first_step(found: Recommendation) -> list[str]:
    """Returns the description of the comparison of the queues at all links together."""
    same = found.same
    refused = _refused(same.assessments, same.constraints)
    if same.best is None:
        return ["No queue at all links satisfies the constraints.", *refused]
    best, today = same.of(same.best), same.of(TODAY)
    match same.outcome:
        case "change":
            first = f"At all links together, {best.name} is the best queue."
        case "keep":
            first = "At all links together, no candidate is better than today's queues."
        case _:
            first = (
                "The runs do not decide which queue is the best at all links together; "
                f"{_named(best)} has the best mean."
            )
    changed = [] if best is today else [_changed(today, best, same.objective)]
    return [first, *changed, *_rivals(same), *refused]


def of_link(one: LinkChoice, found: Recommendation) -> list[str]:
    """Returns the description of the choice at a link."""
    same, place = found.same, place_of(one.link, found)
    within = f"within {100 * same.tolerance:g} % of today's value"
    base = _of(one.base)
    lines = []
    if one.outcome == "any":
        lines.append(
            f"At {place}, the queue does not matter: all queues are as good as {base}, {within}. Today's "
            "queue can stay."
        )
        return lines
    if one.outcome == "other":
        how = one.comparisons[one.best]
        lines.append(
            f"At {place}, {_of(one.best)} is better than {base}: the measure {how.score.measure} improves by "
            f"{_shown(how.gain, how.score.unit)}."
        )
    elif one.outcome == "today":
        lines.append(f"At {place}, today's queue is as good as {base}, {within}, and can stay.")
    elif one.is_undecided:
        lines.append(f"At {place}, the runs do not show a better queue than {base}.")
    else:
        lines.append(f"At {place}, no other queue is better than {base}.")
    groups = {
        relation: [_of(name) for name in one.related(relation) if name != one.best]
        for relation in ("better", "equal", "worse", "undecided")
    }
    if better := groups["better"]:
        lines.append(f"{_beginning(better)} {_is(better)} also better than {base}.")
    if one.outcome != "other":
        if equal := groups["equal"]:
            lines.append(f"{_beginning(equal)} {_is(equal)} as good as {base}, {within}.")
            new = {assessment.name for assessment in one.assessments} - {TODAY, one.base}
            if one.base != TODAY and new == set(equal):
                lines.append("Which of the new queues this link gets does not matter.")
        if worse := groups["worse"]:
            lines.append(f"{_beginning(worse)} {_is(worse)} worse.")
    if undecided := groups["undecided"]:
        lines.append(
            f"The runs do not decide whether {joined(undecided)} {_is(undecided)} better or worse "
            f"than {base}."
        )
    return [*lines, *_refused(one.assessments, same.constraints)]


def of_recommendation(found: Recommendation) -> list[str]:
    """Returns the description of the recommended queues of several links."""
    final, links = found.final, list(found.queues)
    lines = []
    several = "both directions" if set(links) == set(DIRECTIONS) else "all links"
    if found.rejected is not None:
        lines.append(
            f"The runs do not show that {_phrase(found.rejected, found)} together are as good as "
            f"{label_of(found.base)} at all links."
        )
    if final.outcome == "impossible":
        lines.append("No tried combination satisfies the constraints, so there is nothing to recommend.")
    elif final.best == TODAY and final.outcome == "undecided":
        lines.append("The runs do not decide whether another queue is better than today's queues.")
        lines.append(MORE_RUNS)
    elif final.best == TODAY:
        lines += _choice(final)
    else:
        best, today = final.assessments[1], final.of(TODAY)
        best = replace(best, name=_phrase(found.queues, found))
        if final.outcome == "undecided":
            lines.append(f"The runs do not decide whether to use {best.name}.")
            lines.append(_changed(today, best, final.objective))
            lines.append(MORE_RUNS)
        else:
            if found.common is not None:
                lines.append(f"The same queue serves {several}: {found.common}.")
            elif len(changed := [link for link in links if found.queues[link] != TODAY]) < len(links):
                lines.append(f"Only {joined([place_of(one, found) for one in changed])} needs another queue.")
            else:
                lines.append("The links need different queues.")
            named = replace(final, assessments=(today, best), best=best.name)
            lines += [*_choice(named), *_price(named)]
    return [*lines, *_tried(found)]


def _tried(found: Recommendation) -> Iterator[str]:
    if found.tried == found.possible:
        yield f"All {found.possible} combinations of the queues were tried."
        return
    base = label_of(found.base)
    yield (
        f"Tried: {found.tried} of the {found.possible} combinations of the queues: each queue at all links, "
        f"and each queue at one link beside {base} at the other{'s' if len(found.base) > 2 else ''}. The "
        f"other {found.possible - found.tried} combinations were not tried."
    )


def label_of(base: Queues) -> str:
    """Returns the name of the queue that all links have."""
    return _of(next(iter(base.values())))


def place_of(link: str, found: Recommendation) -> str:
    """Returns a link with its direction, if the links are the two directions of a dumbbell."""
    if set(found.queues) != set(DIRECTIONS):
        return link
    return f"{link} ({'download' if link == BOTTLENECK else 'upload'})"


def _phrase(queues: Queues, found: Recommendation) -> str:
    """Returns the queues with their links, for example `cake at bottleneck-back (upload)`."""
    if len(set(queues.values())) == 1:
        return next(iter(queues.values()))
    changed = [f"{name} at {place_of(link, found)}" for link, name in queues.items() if name != TODAY]
    kept = [place_of(link, found) for link, name in queues.items() if name == TODAY]
    return joined([*changed, *([f"today's queue at {joined(kept)}"] if kept else [])])


def _of(name: str) -> str:
    return TODAYS if name == TODAY else name


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
    yield MORE_RUNS


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


def _refused(assessments: Sequence[Assessment], constraints: Sequence[Constraint]) -> Iterator[str]:
    for verdict, words in (("fails", "violate"), ("undecided", "may violate")):
        for constraint in constraints:
            key = constraint.key
            names = [_named(one) for one in assessments if one.verdicts.get(key) == verdict]
            if names:
                verb = words if len(names) > 1 or words.startswith("may") else f"{words}s"
                yield f"{_beginning(names)} {verb} the constraint `{constraint.text}`."


def _mean(one: Assessment, score: Score) -> str:
    return _shown(one.means[score.measure], score.unit)


def _shown(interval: Interval, unit: str) -> str:
    return f"{plus_minus(interval.value, interval.half_width)}{' ' + unit if unit else ''}"


def _named(one: Assessment) -> str:
    return _of(one.name)


def _beginning(names: list[str]) -> str:
    """Returns names at the beginning of a sentence. The names of queues remain unchanged."""
    text = joined(names)
    return capital(text) if names[0] == TODAYS else text


def _is(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"


def rows(advice: Advice, assessments: Sequence[Assessment] | None = None) -> Iterator[list[str]]:
    """Yields a row of text for each candidate: its name, its scores, the goodput, the verdict on the
    constraints, and the number of runs."""
    for one in advice.assessments if assessments is None else assessments:
        cells = [_shown(one.means[score.measure], "") for score in advice.scores]
        verdict = one.admissible if advice.constraints else "-"
        yield [one.name, *cells, _shown(one.means[GOODPUT], ""), verdict, str(one.seeds)]


def rows_of_link(one: LinkChoice, found: Recommendation) -> Iterator[list[str]]:
    """Yields the rows of `rows` for the candidates at a link, each with the comparison with the queue of the
    first step."""
    for assessment, cells in zip(one.assessments, rows(found.same, one.assessments), strict=True):
        name = assessment.name
        relation = "-" if name == one.base else RELATIONS[one.comparisons[name].relation]
        yield [*cells[:-1], relation, cells[-1]]
