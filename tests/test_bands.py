"""The largest value of a curve: its interval covers the true one as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aqmlab import stats
from aqmlab.stats import bands
from aqmlab.study import seeds as study_seeds

PLACES = np.linspace(0.0, 1.0, 60)
LEVEL = study_seeds.level(study_seeds.LOOKS)
TRUE_LARGEST = 0.012
TRIALS = 400


def curves(
    draw: np.random.Generator, mean: np.ndarray, count: int, spread: float, length: float
) -> np.ndarray:
    """Replications of a curve with normal noise that is smooth over a length of the grid."""
    distance = PLACES[:, np.newaxis] - PLACES
    root = np.linalg.cholesky(np.exp(-((distance / length) ** 2) / 2) + 1e-9 * np.eye(PLACES.size))
    return mean + spread * draw.standard_normal((count, PLACES.size)) @ root.T


SHAPES = {
    "one hill": TRUE_LARGEST * np.exp(-(((PLACES - 0.5) / 0.15) ** 2)),
    "everywhere": np.full(PLACES.size, TRUE_LARGEST),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [5, 10, 20])
def test_a_lag_above_the_limit_is_declared_nowhere_as_seldom_as_promised(count: int, shape: str) -> None:
    """A true largest lag of 0.012 against *below 0.01*: each end of an interval of 98.75 % may be wrong in
    0.6 % of cases. Leave-one-out alone is wrong in several per cent, which the last line shows."""
    draw = np.random.default_rng(count)
    promised = (1 - LEVEL) / 2
    # What chance adds to a promise that is kept to the letter: three standard deviations of the count.
    most = TRIALS * promised + 3 * math.sqrt(TRIALS * promised)
    wrong = {"holds": 0, "fails": 0, "leave-one-out": 0}
    for trial in range(TRIALS):
        spread, length = (0.01, 0.02)[trial % 2], (0.05, 0.2)[trial // 2 % 2]
        found = curves(draw, SHAPES[shape], count, spread, length)
        interval = bands.largest(found, LEVEL)
        wrong["holds"] += interval.high < TRUE_LARGEST
        wrong["fails"] += interval.low > TRUE_LARGEST
        others = bands.chosen_by_others(found, lambda rest: int(rest.mean(axis=0).argmax()), LEVEL)
        wrong["leave-one-out"] += others.high < TRUE_LARGEST
    assert wrong["holds"] <= most
    assert wrong["fails"] <= most
    assert wrong["leave-one-out"] > most


def test_of_a_grid_with_one_place_the_interval_is_students() -> None:
    values = np.array([[0.1], [0.3], [0.2], [0.6], [0.4]])
    found, expected = bands.largest(values), stats.mean_interval(values[:, 0].tolist())
    assert found.value == pytest.approx(expected.value)
    assert found.half_width == pytest.approx(expected.half_width, rel=0.05)


def test_two_equal_systems_are_apart_by_more_than_nothing() -> None:
    found = bands.largest(curves(np.random.default_rng(2), np.zeros(PLACES.size), 10, 0.01, 0.1))
    assert found.low < 0 < found.value < found.high


def test_curves_that_do_not_vary_have_a_point_for_an_interval() -> None:
    found = bands.largest(np.tile(SHAPES["one hill"], (5, 1)))
    assert found.low == pytest.approx(found.value) == found.high


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_replications_give_no_interval(count: int) -> None:
    assert not bands.largest(np.zeros((count, 3))).decided
