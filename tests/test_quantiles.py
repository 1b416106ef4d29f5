"""Quantiles and bands: values worked out by hand, and how often they hold the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import ndtr, ndtri

from aqmlab import stats
from aqmlab.stats.quantiles import (
    dkw_band,
    pooled_band,
    pooled_quantile,
    pooled_quantile_difference,
    quantile_interval,
    tail_quantile,
)

LOUD = 0.5
"""Standard deviation of what a replication's values have in common; their own is 1."""


def clusters(rng: np.random.Generator, count: int, size: int = 60) -> list[npt.NDArray[Any]]:
    """Replications whose values depend on each other: normal about a mean of their own."""
    return list(rng.normal(0, 1, (count, size)) + rng.normal(0, LOUD, (count, 1)))


def normal(x: Any) -> npt.NDArray[Any]:
    """The distribution of one value of [`clusters`]."""
    return np.asarray(ndtr(np.asarray(x) / math.sqrt(1 + LOUD**2)))


def test_the_interval_of_a_quantile_has_values_of_the_sample_as_its_ends() -> None:
    found = quantile_interval([3.0, 1.0, 6.0, 2.0, 5.0, 4.0], 0.5)
    # Six values lie on one side of their median with the probability 2 / 64.
    assert (found.low, found.value, found.high, found.count) == (1.0, 3.0, 6.0, 6)
    assert quantile_interval(np.arange(36.0), 0.9).high == 35.0


def test_an_end_that_the_sample_is_too_small_for_is_infinite() -> None:
    median = quantile_interval([1.0, 2.0, 3.0, 4.0, 5.0], 0.5)
    assert (median.low, median.high) == (-math.inf, math.inf)
    assert stats.verdict(median, stats.below(10)) == "undecided"
    tail = quantile_interval(np.arange(35.0), 0.9)
    assert math.isfinite(tail.low)
    assert tail.high == math.inf


def test_the_interval_of_a_quantile_covers_it_at_least_as_often_as_it_says() -> None:
    samples = np.random.default_rng(4).exponential(1.0, (300, 40))
    found = [quantile_interval(one, 0.75) for one in samples]
    assert np.mean([one.low <= math.log(4) <= one.high for one in found]) >= 0.94


def test_missing_values_and_single_ones_have_no_part_in_quantiles() -> None:
    assert quantile_interval([*range(6), math.nan], 0.5) == quantile_interval(range(6), 0.5)
    assert not quantile_interval([1.0, math.nan], 0.5).decided
    assert math.isnan(quantile_interval([], 0.5).value)


def test_a_pooled_quantile_is_the_quantile_of_all_values_together() -> None:
    samples = clusters(np.random.default_rng(1), 7, 13)
    for q in (0.1, 0.5, 1 / 3, 0.9):
        expected = np.quantile(np.concatenate(samples), q, method="inverted_cdf")
        assert pooled_quantile(samples, q).value == expected
    assert pooled_quantile([*samples, np.zeros(0)], 0.5).count == 8


def test_pooled_quantiles_know_that_the_values_of_a_replication_depend_on_each_other() -> None:
    rng = np.random.default_rng(2)
    truth = float(ndtri(0.9)) * math.sqrt(1 + LOUD**2)
    hits = naive = 0
    for _ in range(100):
        samples = clusters(rng, 20)
        found = pooled_quantile(samples, 0.9)
        hits += found.low <= truth <= found.high
        alone = quantile_interval(np.concatenate(samples), 0.9)
        naive += alone.low <= truth <= alone.high
    assert hits >= 85
    assert naive < 75


def test_the_quantile_of_a_count_is_that_of_its_shares_and_its_ends_are_counts() -> None:
    always_two, seldom_nine = [1.0, 1.0, 1.0], [1.0, *[0.004] * 9]
    alike = tail_quantile([always_two] * 5, 0.999)
    assert (alike.low, alike.value, alike.high) == (2.0, 2.0, 2.0)
    mixed = tail_quantile([seldom_nine, *[always_two] * 3], 0.999)
    assert mixed.value == 2.0, "in a thousandth of all time, not in more"
    assert (mixed.low, mixed.high) == (2.0, 9.0)
    assert not tail_quantile([always_two], 0.999).decided


def test_the_interval_of_the_quantile_of_a_count_covers_it() -> None:
    draw = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        counts = draw.geometric(0.2, size=(20, 200)) - 1
        tails = [[float((one >= i).mean()) for i in range(int(one.max()) + 1)] for one in counts]
        found = tail_quantile(tails, 0.99)
        covered += found.low <= 20 <= found.high  # P(N >= 20) = 0.8^20 > 0.01 > 0.8^21
    assert covered / 200 > 0.9


def test_a_difference_of_quantiles_in_pairs_is_free_of_what_the_pairs_have_in_common() -> None:
    theirs = clusters(np.random.default_rng(3), 12)
    ours = [one - 0.25 for one in theirs]
    found = pooled_quantile_difference(ours, theirs, 0.5)
    assert (found.low, found.value, found.high) == pytest.approx((-0.25, -0.25, -0.25))
    assert pooled_quantile(theirs, 0.5).half_width > 0.1
    with pytest.raises(ValueError, match="11 and 12"):
        pooled_quantile_difference(ours[1:], theirs, 0.5)


def test_replications_without_any_value_have_no_quantile() -> None:
    assert not pooled_quantile([np.zeros(0)] * 3, 0.5).decided
    assert math.isnan(pooled_quantile([], 0.5).value)


def test_the_band_for_independent_values_has_massarts_width() -> None:
    band = dkw_band([4.0, 1.0, 2.0, 2.0, math.nan])
    half = math.sqrt(math.log(40) / 8)
    assert band["x"].to_list() == [1.0, 2.0, 4.0]
    assert band["share"].to_list() == [0.25, 0.75, 1.0]
    assert band["low"].to_list() == pytest.approx([0.0, 0.75 - half, 1 - half])
    assert band["high"].to_list() == pytest.approx([0.25 + half, 1.0, 1.0])


def test_the_band_for_independent_values_holds_the_whole_function() -> None:
    from scipy import stats as reference

    samples = np.random.default_rng(5).normal(0, 1, (400, 50))
    half = float(dkw_band(samples[0]).select("high", "share").row(20)[0]) - 21 / 50
    held = np.mean([reference.kstest(one, "norm").statistic <= half for one in samples])
    assert 0.94 <= held <= 0.99


def test_a_pooled_band_holds_the_whole_function_where_that_of_independent_values_does_not() -> None:
    rng = np.random.default_rng(6)
    grid = np.linspace(-3, 3, 61)
    hits = naive = 0
    for _ in range(100):
        samples = clusters(rng, 20)
        band = pooled_band(samples, grid=grid)
        truth = normal(grid)
        hits += bool((band["low"].to_numpy() <= truth).all() and (truth <= band["high"].to_numpy()).all())
        alone = dkw_band(np.concatenate(samples))
        naive += bool((np.abs(alone["share"].to_numpy() - normal(alone["x"])) <= _half(1200)).all())
    assert hits >= 85
    assert naive < 60


def _half(count: int) -> float:
    return math.sqrt(math.log(40) / 2 / count)


def test_a_pooled_band_stands_at_the_values_and_at_most_at_a_thousand() -> None:
    few = pooled_band([np.array([1.0, 2.0]), np.array([2.0, 3.0])])
    assert few["x"].to_list() == [1.0, 2.0, 3.0]
    assert few["share"].to_list() == [0.25, 0.75, 1.0]
    many = pooled_band(clusters(np.random.default_rng(7), 4, 1000))
    assert many.height <= 1000
    assert many["share"].is_sorted()


def test_one_replication_has_a_function_and_no_band() -> None:
    alone = pooled_band([np.array([1.0, 2.0])])
    assert alone["share"].to_list() == [0.5, 1.0]
    assert alone["low"].is_nan().all()
    assert pooled_band([]).height == 0
    assert dkw_band([]).height == 0


@pytest.mark.parametrize("q", [0.0, 1.0, 90.0, math.nan])
def test_a_quantile_that_is_no_share_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        quantile_interval([1.0, 2.0], q)
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        pooled_quantile([np.ones(2)], q)


def test_values_that_do_not_exist_are_refused_where_they_are_pooled() -> None:
    with pytest.raises(ValueError, match="NaN"):
        pooled_quantile([np.array([1.0, math.nan])], 0.5)
    with pytest.raises(ValueError, match="NaN"):
        pooled_band([np.array([1.0, math.nan])])
