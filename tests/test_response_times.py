"""Crossings of distributions are found where they are, and not in noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import lognorm

from aqmlab.metrics import response_times
from aqmlab.metrics.response_times import Floats, crossings, grid_over, sentence, shares

GRID = np.geomspace(0.01, 100.0, 400)


def curves(median: float, sigma: float, noise: float = 0.0, seed: int = 0) -> Floats:
    """Distribution functions of five replications that agree but for `noise`."""
    exact = lognorm.cdf(GRID, sigma, scale=median)
    return exact + np.random.default_rng(seed).normal(0.0, noise, (5, 1))


def test_a_crossing_is_where_the_functions_are_equal() -> None:
    # Quicker at first and slower in the end: the medians are equal where both are one half.
    (found,) = crossings(curves(1.0, 2.0), curves(1.0, 1.0), GRID)
    assert found.at_s == pytest.approx(1.0, rel=1e-3)
    assert found.low_s < 1.0 < found.high_s
    assert found.first_is_quicker_before


def test_the_other_way_round_the_other_one_is_quicker() -> None:
    (found,) = crossings(curves(1.0, 1.0), curves(1.0, 2.0), GRID)
    assert not found.first_is_quicker_before
    assert sentence(found, "red", "pie").startswith(
        "pie is better for fast transfers, red for slow transfers"
    )


def test_noise_of_equal_distributions_is_no_crossing() -> None:
    ours, theirs = curves(1.0, 1.0, 0.01, seed=1), curves(1.0, 1.0, 0.01, seed=2)
    assert crossings(ours, theirs, GRID) == []


def test_differences_too_small_to_matter_are_no_crossing() -> None:
    ours, theirs = curves(1.0, 1.02), curves(1.0, 1.0)
    assert crossings(ours, theirs, GRID) == []
    assert len(crossings(ours, theirs, GRID, least=0.001)) == 1


def test_an_order_that_never_turns_has_no_crossing() -> None:
    assert crossings(curves(1.0, 1.0), curves(2.0, 1.0), GRID) == []


def test_every_turn_is_found() -> None:
    bumps = 0.05 * np.sin(np.linspace(0.0, 3 * np.pi, GRID.size))
    base = np.tile(np.linspace(0.2, 0.8, GRID.size), (2, 1))
    found = crossings(base + bumps, base, GRID)
    at = [GRID[0] * (GRID[-1] / GRID[0]) ** part for part in (1 / 3, 2 / 3)]
    assert [one.at_s for one in found] == pytest.approx(at, rel=1e-3)
    assert [one.first_is_quicker_before for one in found] == [True, False]


def test_the_grid_spans_all_times() -> None:
    times = np.array([0.2, 3.0, 40.0])
    grid = grid_over(times)
    assert shares([times], grid)[0, [0, -1]].tolist() == [0.0, 1.0]
    assert grid.size == response_times.POINTS
