"""Constraints on the scores of a queue, such as `calls >= 4`, `downloads >= 90%` or `bufferbloat >= B`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aqmlab import stats
from aqmlab._support.names import hint
from aqmlab.advice.uses import Score
from aqmlab.metrics import bufferbloat

_FORM = re.compile(r"\s*([\w.=-]+?)\s*(<=|>=)\s*(?:([0-9]*\.?[0-9]+)\s*(%?)|([A-Za-z]\+?))\s*")

EXAMPLE = "'calls >= 4' or 'downloads >= 90%'"
GRADE = "grade"
"""Last part of the name of the measure that letters limit."""


@dataclass(frozen=True, kw_only=True)
class Constraint:
    """A limit of the mean of a score."""

    score: Score
    limit: float
    """The limit in the unit of the score or, if `is_relative`, as a multiple of today's score."""
    at_least: bool
    """Whether the score must be at least the limit. If false, the score must be at most the limit."""
    is_relative: bool
    text: str
    """The constraint as the person wrote it, or in aqmlab's words."""

    @property
    def key(self) -> str:
        """The text and the measure, which identify the constraint."""
        return f"{self.text} [{self.score.measure}]"

    @property
    def band(self) -> stats.Band:
        """The band of `excess`."""
        return stats.at_least(0.0) if self.at_least else stats.at_most(0.0)

    @property
    def holds_today(self) -> bool:
        """Whether today's queue satisfies the constraint, whatever its score is."""
        return self.is_relative and (self.limit <= 1 if self.at_least else self.limit >= 1)

    def excess(self, ours: Sequence[float], today: Sequence[float]) -> list[float]:
        """Returns the differences between the values of a score and the limit. The two sequences are paired
        by seed."""
        if self.is_relative:
            return [value - self.limit * base for value, base in zip(ours, today, strict=True)]
        return [value - self.limit for value in ours]


def _match(text: str) -> re.Match[str]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(
            f"--subject-to: must be NAME >= NUMBER or NAME <= NUMBER, such as {EXAMPLE}, or 'bufferbloat >= "
            f"B' (got {text!r})"
        )
    return match


def name_and_sign(text: str) -> tuple[str, str]:
    """Returns the name of the use or measure that a constraint limits, and `<=` or `>=` for the values of the
    measure. Raises `ValueError` for another form."""
    match = _match(text)
    return match[1], "<=" if match[5] else match[2]


def _rank(text: str, match: re.Match[str], chosen: Sequence[Score]) -> int:
    """Returns the limit of a constraint whose limit is a grade. Raises `ValueError` for a score without
    grades, for an unknown grade, and for `<=`, because the best grade has the smallest number."""
    for score in chosen:
        if score.measure.rpartition(".")[2] != GRADE:
            raise ValueError(
                f"--subject-to: the limit of `{match[1]}` must be a number, because only the grade of "
                f"bufferbloat has letters (got {text!r})"
            )
    letter = match[5].upper()
    if letter not in bufferbloat.GRADES:
        raise ValueError(
            f"--subject-to: no grade is named `{match[5]}`; available: {', '.join(bufferbloat.GRADES)}"
        )
    if match[2] == "<=":
        raise ValueError(
            f"--subject-to: write '{match[1]} >= {letter}' for the grade {letter} or better (got {text!r})"
        )
    return bufferbloat.GRADES.index(letter)


def parsed(text: str, scores: Sequence[Score]) -> list[Constraint]:
    """Returns the constraints of `NAME >= NUMBER` or `NAME <= NUMBER`: one for each score of a use, or one
    for a measure. A number with `%` is relative to today's queue. The limit of a grade of bufferbloat may be
    a letter, such as `bufferbloat >= B` for B or better.

    Raises `ValueError` for another form, and for a name that is neither a use nor a measure of the scores."""
    match = _match(text)
    name = match[1]
    chosen = [score for score in scores if name in score.names]
    if not chosen:
        known = [*dict.fromkeys(score.use for score in scores), *(score.measure for score in scores)]
        raise ValueError(f"--subject-to: no score is named `{name}`: {hint(name, known)}")
    if match[3] is None:
        limit = float(_rank(text, match, chosen))
    elif match[4]:
        limit = float(match[3]) / 100
    else:
        limit = float(match[3])
    return [
        Constraint(
            score=score,
            limit=limit,
            at_least=name_and_sign(text)[1] == ">=",
            is_relative=bool(match[4]),
            text=" ".join(text.split()),
        )
        for score in chosen
    ]


def no_worse(score: Score, tolerance: float) -> Constraint:
    """Returns the constraint that a score is not worse than today's by more than the relative `tolerance`."""
    more = score.more_is_better
    return Constraint(
        score=score,
        limit=1 - tolerance if more else 1 + tolerance,
        at_least=more,
        is_relative=True,
        text=f"{score.use} not worse than today by more than {100 * tolerance:g} %",
    )
