"""The dip test against the R package `diptest`, and what is estimated of values with several modes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aqmlab import stats
from aqmlab.stats import Interval, modality

CALM = [0.61, 0.63, 0.58, 0.66, 0.60, 0.64, 0.59]
COLLAPSED = [2.59, 2.71, 3.02]
APART = [1.0, 1.1, 1.25, 1.3, 5.0, 5.1, 5.2, 5.4]


@pytest.mark.parametrize(
    ("values", "dip"),
    [
        (CALM + COLLAPSED, 0.12266949152542372),
        ([773.0, 99.0, 2617.0, 128.0, 829.0], 0.1840228245363766),
        ([2.0**power for power in range(10)], 0.05),
        (APART, 0.22560975609756095),
    ],
)
def test_the_dip_is_that_of_the_r_package(values: list[float], dip: float) -> None:
    """Numbers of `diptest` 0.77, which computes them by the published algorithm (AS 217)."""
    assert modality.dip(values) == pytest.approx(dip, abs=1e-12)


@pytest.mark.parametrize("count", [5, 10, 25, 40])
def test_uniform_values_are_said_to_have_several_modes_as_often_as_promised(count: int) -> None:
    draw = np.random.default_rng(count)
    several = sum(not modality.has_one_mode(draw.random(count).tolist()) for _ in range(2000))
    # Three standard deviations of a count of 2000 at 5 %.
    assert several / 2000 == pytest.approx(modality.SIGNIFICANCE, abs=0.0146)


def test_runs_of_which_half_collapse_have_several_modes_and_skewed_ones_have_not() -> None:
    draw = np.random.default_rng(1)
    found = {"collapse": 0, "skewed": 0}
    for _ in range(200):
        collapses = draw.random(40) < 1 / 2
        values = np.where(collapses, draw.normal(2.6, 0.3, 40), draw.normal(0.6, 0.05, 40))
        found["collapse"] += not modality.has_one_mode(values.tolist())
        found["skewed"] += not modality.has_one_mode(draw.lognormal(0.0, 1.0, 40).tolist())
    assert found["collapse"] >= 190
    assert found["skewed"] <= 4


def test_few_values_and_counts_are_not_tested() -> None:
    assert modality.has_one_mode([1.0, 1.1, 9.0, 9.1])
    assert modality.has_one_mode([3.0] * 10 + [4.0] * 10)
    assert not modality.has_one_mode(APART)


def test_of_one_mode_the_interval_is_students() -> None:
    values, others = [10.0, 12.0, 9.0, 11.0, 13.5, math.nan], [9.0, 12.0, 8.0, 9.5, 12.5, 1.0]
    assert modality.mean(values) == stats.mean_interval(values)
    assert modality.paired_ratio(values, others) == stats.paired_ratio(values, others)
    assert modality.paired_difference(values, others) == stats.paired_difference(values, others)
    assert modality.unpaired_ratio(values, others) == stats.unpaired_ratio(values, others)


def test_of_several_modes_it_is_that_of_the_median() -> None:
    """Of eight values the first and the last are the ends, at the level 1 - 2 / 2**8."""
    level = 0.99
    expected = Interval(value=1.3, low=1.0, high=5.4, count=8, level=level, median=True)
    assert modality.mean(APART, level) == expected
    ones = [1.0] * 8
    assert modality.paired_ratio(APART, ones, level) == expected
    assert modality.paired_difference(APART, [0.0] * 8, level).median
    found = modality.unpaired_ratio(APART, [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.75], 0.98)
    assert (found.low, found.high, found.median) == (1.0 / 2.75, 5.4 / 2.0, True)
    assert "median over replications" in stats.judge("x", expected, stats.below(6)).measured


def test_a_median_of_too_few_values_decides_nothing() -> None:
    five = [1.0, 1.01, 9.0, 9.02, 9.01]
    assert not modality.has_one_mode(five)
    found = modality.mean(five)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert stats.verdict(found, stats.below(100)) == "undecided"


def test_ratios_of_pairs_without_a_divisor_are_infinite_and_of_nothing_are_left_out() -> None:
    ours = [*APART, 2.0, 0.0]
    found = modality.paired_ratio(ours, [1.0] * 8 + [0.0, 0.0])
    assert found.count == 9
    assert found.median


def test_the_interval_of_a_median_covers_where_students_of_the_mean_does_not() -> None:
    """One run in twelve collapses. Few samples of twenty hold two such runs, and Student's interval of the
    others says that the mean is certain."""
    draw = np.random.default_rng(7)
    true_mean, true_median = 0.6 * 11 / 12 + 3.0 / 12, 0.0
    calm = draw.normal(0.6, 0.05, 400_000)
    everything = np.where(draw.random(400_000) < 1 / 12, draw.normal(3.0, 0.3, 400_000), calm)
    true_median = float(np.median(everything))
    covered = {"mean": 0, "median": 0}
    for _ in range(500):
        values = draw.choice(everything, 20).tolist()
        student, exact = stats.mean_interval(values), modality.median(values)
        covered["mean"] += student.low <= true_mean <= student.high
        covered["median"] += exact.low <= true_median <= exact.high
    assert covered["mean"] / 500 < 0.9
    assert covered["median"] / 500 >= 0.93


def test_critical_values_lie_between_those_of_the_table() -> None:
    numbers = sorted(modality.CRITICAL)
    low, high = modality.critical(numbers[-2]), modality.critical(numbers[-1])
    assert low < modality.critical(numbers[-1] - 1) < high == modality.critical(10 * numbers[-1])
