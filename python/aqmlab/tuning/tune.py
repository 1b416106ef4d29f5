"""Searches for the best parameters within limits with Optuna's tree-structured Parzen estimator.

A [`Tuner`] proposes values to test (a question) and receives the result (an answer). An answer is the mean of
a measure over seeds, which are the same for all questions. Equal answers lead to equal questions, so that an
interrupted tuning is resumed by reporting the known answers again. The estimator is described in Bergstra and
others, "Algorithms for hyper-parameter optimization", NIPS 2011. Answers that exceed a limit rank after all
other answers, in the order of their distance from the limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aqmlab._support.extras import extra
from aqmlab.stats import Band
from aqmlab.tuning.factors import Factor, check

Goal = Literal["minimise", "maximise"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """Values to test, by path, in the syntax of scenarios."""

    number: int
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a question: the value of the measure (NaN if missing), and whether all limits were
    met."""

    question: Question
    value: float
    measured: Mapping[str, float]
    feasible: bool


class Tuner:
    """Searches for the values of `factors` that minimise or maximise a measure, within `limits` of other
    measures.

    `limits` contains bands by the name of the measure. Several questions can be pending at the same time. To
    reproduce the questions, report the answers in the same order and between the same questions.
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        *,
        goal: Goal = "minimise",
        limits: Mapping[str, Band] | None = None,
        seed: int = 1,
    ) -> None:
        if goal not in ("minimise", "maximise"):
            raise ValueError(f"goal: must be minimise or maximise (got {goal!r})")
        self._factors = check(factors)
        self._goal = goal
        self._limits = dict(limits or {})
        self._study = _study(goal, seed)
        self._open: dict[int, tuple[Question, Any]] = {}
        self._answers: list[Answer] = []

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers, in the order in which they were reported."""
        return tuple(self._answers)

    @property
    def best(self) -> Answer | None:
        """The best answer that meets all limits, or the first of several equally good answers. `None` if
        there is no such answer yet."""
        feasible = [answer for answer in self._answers if answer.feasible]
        sign = 1 if self._goal == "minimise" else -1
        return min(feasible, key=lambda answer: sign * answer.value, default=None)

    def ask(self) -> Question:
        """Returns the next values to test."""
        trial = self._study.ask()
        values = {factor.path: _suggested(trial, factor) for factor in self._factors}
        question = Question(number=trial.number, values=values)
        self._open[trial.number] = (question, trial)
        return question

    def tell(self, question: Question, value: float, measured: Mapping[str, float] | None = None) -> Answer:
        """Reports the answer to a question: the value of the goal's measure, and the values of the measures
        that have limits.

        If a value is not finite because runs failed, the tuner only records that the parameter values were
        tested.
        """
        known = dict(measured or {})
        lacking = sorted(self._limits.keys() - known.keys())
        if lacking:
            raise ValueError(
                f"question {question.number}: {lacking[0]} has a limit, but no value was reported"
            )
        if question.number not in self._open:
            raise ValueError(
                f"question {question.number} is not pending: either the question was never returned, or it "
                "has already been answered"
            )
        _, trial = self._open.pop(question.number)
        excesses = {name: beyond(known[name], band) for name, band in self._limits.items()}
        exists = all(map(math.isfinite, [value, *(known[name] for name in self._limits)]))
        if exists:
            for name, excess in excesses.items():
                trial.set_constraint(name, excess)
            self._study.tell(trial, value)
        else:
            self._study.tell(trial, state=extra("optuna.trial", "tune").TrialState.FAIL)
        kept = exists and all(excess <= 0 for excess in excesses.values())
        answer = Answer(question=question, value=value, measured=known, feasible=kept)
        self._answers.append(answer)
        return answer


def _study(goal: Goal, seed: int) -> Any:
    optuna = extra("optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(
        direction=goal.replace("ise", "ize"), sampler=optuna.samplers.TPESampler(seed=seed)
    )


def _suggested(trial: Any, factor: Factor) -> float | int | str:
    log = factor.scale == "log"
    if factor.integer:
        return factor.written(trial.suggest_int(factor.path, int(factor.low), int(factor.high), log=log))
    return factor.written(trial.suggest_float(factor.path, factor.low, factor.high, log=log))


def beyond(value: float, band: Band) -> float:
    """Returns the distance of a value from its band, as a share of the limit. The distance is positive
    outside the band.

    Distances are shares because Optuna adds the distances of several measures from their limits.
    """
    size = max((abs(end) for end in (band.low, band.high) if math.isfinite(end)), default=1.0) or 1.0
    excess = max(band.low - value, value - band.high) / size
    # A value that equals a strict limit violates the limit, but Optuna would accept a distance of zero.
    return math.ulp(0.0) if band.strict and excess == 0 else excess
