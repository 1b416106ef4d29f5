"""Tuning against functions whose best point is known, within limits and without."""

from __future__ import annotations

import logging
import math
import sys
from typing import Any

import pytest

from aqmlab import stats
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.tune import Answer, Question, Tuner

FACTORS = [Factor.between("x", -5.0, 5.0), Factor.between("wait", "1ms", "100ms", "log")]


def bowl(question: Question) -> float:
    """Zero at x = 0 and a wait of 10 ms."""
    wait = float(str(question.values["wait"]).removesuffix("ms"))
    return float(question.values["x"]) ** 2 + math.log10(wait / 10) ** 2


def tuned(rounds: int, **given: Any) -> Tuner:
    tuner = Tuner(FACTORS, **given)
    for _ in range(rounds):
        question = tuner.ask()
        tuner.tell(question, bowl(question), {"x": float(question.values["x"])})
    return tuner


def best(tuner: Tuner) -> Answer:
    assert tuner.best is not None
    return tuner.best


def test_the_bottom_of_a_bowl_is_found() -> None:
    found = best(tuned(60))
    assert found.value < 0.1
    assert found.feasible
    assert str(found.question.values["wait"]).endswith("ms")


def test_within_a_limit_the_best_is_near_the_limit_and_never_beyond() -> None:
    tuner = tuned(80, limits={"x": stats.at_least(2.0)})
    found = best(tuner)
    assert found.question.values["x"] >= 2.0
    assert found.value == pytest.approx(4.0, abs=0.7)
    assert any(answer.value < 4.0 and not answer.feasible for answer in tuner.answers)
    late = tuner.answers[30:]
    assert sum(answer.feasible for answer in late) > len(late) / 2


def test_what_is_maximised_grows() -> None:
    tuner = Tuner([Factor.between("n", 1, 50)], goal="maximise")
    for _ in range(25):
        question = tuner.ask()
        tuner.tell(question, -((question.values["n"] - 40) ** 2))
    assert abs(best(tuner).question.values["n"] - 40) <= 3


def test_the_same_answers_give_the_same_questions() -> None:
    one, same, other = tuned(25), tuned(25), tuned(25, seed=2)
    assert one.answers == same.answers != other.answers
    assert one.ask() == same.ask()


def test_several_questions_at_once_differ_and_come_again() -> None:
    def batches() -> list[Question]:
        tuner, asked = Tuner(FACTORS), []
        for _ in range(6):
            questions = [tuner.ask() for _ in range(3)]
            for question in questions:
                tuner.tell(question, bowl(question))
            asked += questions
        return asked

    first = batches()
    assert first == batches()
    assert len({str(question.values) for question in first}) > 15


def test_an_answer_that_does_not_exist_is_never_the_best() -> None:
    tuner = Tuner(FACTORS, limits={"loss": stats.below(0.01)})
    assert tuner.best is None
    assert not tuner.tell(tuner.ask(), math.nan, {"loss": 0.0}).feasible
    assert not tuner.tell(tuner.ask(), 1.0, {"loss": math.nan}).feasible
    assert tuner.best is None
    assert tuner.tell(tuner.ask(), 1.0, {"loss": 0.005}).feasible
    assert best(tuner).value == 1.0
    assert len(tuner.answers) == 3


def test_a_strict_limit_is_not_kept_by_the_limit_itself() -> None:
    for band, kept in (
        (stats.below(0.01), False),
        (stats.at_most(0.01), True),
        (stats.within(0, 0.01), True),
    ):
        tuner = Tuner(FACTORS, limits={"loss": band})
        assert tuner.tell(tuner.ask(), 1.0, {"loss": 0.01}).feasible is kept


def test_answers_without_a_question_or_a_limited_measure_are_refused() -> None:
    tuner = Tuner(FACTORS, limits={"loss": stats.below(0.01)})
    question = tuner.ask()
    with pytest.raises(ValueError, match="loss has a limit, but no value was reported"):
        tuner.tell(question, 1.0)
    tuner.tell(question, 1.0, {"loss": 0.0})
    with pytest.raises(ValueError, match="question 0 is not pending"):
        tuner.tell(question, 1.0, {"loss": 0.0})
    with pytest.raises(ValueError, match="minimise or maximise"):
        Tuner(FACTORS, goal="better")  # type: ignore[arg-type]


def test_tuning_prints_nothing(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        tuned(12)
    assert capfd.readouterr() == ("", "")


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r'optuna is not installed: pip install "aqmlab\[tune\]"'):
        Tuner(FACTORS)
