"""Intervals against scipy and numbers worked out by hand; verdicts at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aqmlab import stats
from aqmlab.stats import Band, Interval

OURS = [10.0, 12.0, 9.0, 11.0, 13.0]
THEIRS = [9.0, 12.0, 8.0, 9.0, 12.0]


def interval(low: float, high: float) -> Interval:
    return Interval(value=(low + high) / 2, low=low, high=high, count=10)


def test_the_mean_interval_is_the_one_of_the_textbook() -> None:
    found = stats.mean_interval(OURS)
    # Mean 11, variance 2.5, t(0.975, 4) = 2.776445: half width 2.776445 sqrt(2.5 / 5).
    assert found.value == 11.0
    assert found.half_width == pytest.approx(1.963243, abs=1e-6)


def test_the_mean_interval_agrees_with_scipy() -> None:
    from scipy import stats as reference

    low, high = reference.ttest_1samp(OURS, 0.0).confidence_interval(0.95)
    found = stats.mean_interval(OURS)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_the_paired_difference_agrees_with_scipy() -> None:
    from scipy import stats as reference

    low, high = reference.ttest_rel(OURS, THEIRS).confidence_interval(0.95)
    found = stats.paired_difference(OURS, THEIRS)
    assert found.value == pytest.approx(1.0)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_welch_agrees_with_scipy_on_samples_of_unequal_length() -> None:
    from scipy import stats as reference

    low, high = reference.ttest_ind(OURS, THEIRS[:3], equal_var=False).confidence_interval(0.95)
    found = stats.welch(OURS, THEIRS[:3])
    assert (found.low, found.high) == pytest.approx((low, high))


def test_pairing_is_worth_it_where_pairs_move_together() -> None:
    paired, apart = stats.paired_difference(OURS, THEIRS), stats.welch(OURS, THEIRS)
    assert paired.half_width < apart.half_width / 2


def test_the_paired_ratio_is_the_ratio_of_means_with_the_spread_of_its_residuals() -> None:
    found = stats.paired_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 4.0])
    # Ratio 12/7; residuals (a - 12/7 b) / (7/3) are 6/49, 12/49, -18/49: variance 252/2401.
    assert found.value == pytest.approx(12 / 7)
    assert found.half_width == pytest.approx(4.302653 * math.sqrt(252 / 2401 / 3), rel=1e-6)


def test_a_constant_ratio_has_no_spread_and_a_zero_in_one_replication_does_no_harm() -> None:
    same = stats.paired_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (same.low, same.high) == pytest.approx((2.0, 2.0))
    assert stats.paired_ratio([0.0, 1.0, 2.0], [0.0, 2.0, 4.0]).value == pytest.approx(0.5)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_paired_ratio_covers_the_truth_as_often_as_it_says(seed: int) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(600):
        common = rng.gamma(20.0, 0.1, 10)
        found = stats.paired_ratio(
            (0.8 * common + rng.normal(0, 0.05, 10)).tolist(), (common + rng.normal(0, 0.05, 10)).tolist()
        )
        hits += found.low <= 0.8 <= found.high
    assert 0.92 <= hits / 600 <= 0.98


@pytest.mark.parametrize(("count", "spread", "least"), [(4, 0.2, 0.975), (4, 0.5, 0.96), (4, 1.0, 0.91)])
def test_at_the_level_of_full_runs_the_paired_ratio_of_skewed_values_covers_with_few_replications(
    count: int, spread: float, least: float
) -> None:
    """Log-normal values that nothing pairs: the hardest case. Where they spread as much as their mean, the
    interval is too short, which the pages say."""
    draw = np.random.default_rng(5)
    level = stats.simultaneous_level(stats.LEVEL, 4)
    covered = 0
    for _ in range(1000):
        ours, theirs = draw.lognormal(0.0, spread, (2, count)).tolist()
        found = stats.paired_ratio(ours, theirs, level)
        covered += found.low <= 1.0 <= found.high
    assert least <= covered / 1000 <= 1.0


def test_the_unpaired_ratio_covers_the_truth_and_has_no_end_below_zero() -> None:
    draw = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        ours, theirs = draw.lognormal(0.0, 0.5, 6), draw.lognormal(1.0, 0.5, 9)
        found = stats.unpaired_ratio(ours.tolist(), theirs.tolist())
        assert 0 < found.low < found.value < found.high
        covered += found.low <= math.exp(-1.0) <= found.high
    assert covered / 400 == pytest.approx(0.95, abs=0.03)
    assert stats.unpaired_ratio([1.0, 9.0, math.nan], [0.1, 12.0]).low > 0
    assert not stats.unpaired_ratio([1.0, 2.0], [0.0, 0.0]).decided
    assert stats.unpaired_ratio([2.0, 2.0], [1.0, 1.0]).high == 2.0


def test_missing_values_leave_their_pair_out() -> None:
    found = stats.paired_difference([*OURS, math.nan, 5.0], [*THEIRS, 1.0, math.nan])
    assert found == stats.paired_difference(OURS, THEIRS)
    assert stats.mean_interval([*OURS, math.nan]).count == 5


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, 1.0]])
def test_too_few_replications_give_no_interval_and_no_verdict(values: list[float]) -> None:
    found = stats.mean_interval(values)
    assert not found.decided
    assert stats.verdict(found, stats.below(1e9)) == "undecided"
    assert not stats.paired_ratio(values, values).decided
    assert not stats.welch(values, OURS).decided


def test_a_ratio_to_nothing_is_undecided() -> None:
    assert stats.verdict(stats.paired_ratio([1.0, 2.0], [0.0, 0.0]), stats.below(1)) == "undecided"


def test_pairs_of_unequal_length_are_an_error() -> None:
    with pytest.raises(ValueError, match="5 and 4"):
        stats.paired_difference(OURS, THEIRS[:4])


@pytest.mark.parametrize(
    ("low", "high", "band", "verdict"),
    [
        (0.8, 0.9, stats.below(1), "holds"),
        (0.8, 1.0, stats.below(1), "undecided"),
        (1.0, 1.2, stats.below(1), "fails"),
        (1.0, 1.0, stats.below(1), "fails"),
        (0.9, 1.0, stats.at_most(1), "holds"),
        (1.01, 1.2, stats.at_most(1), "fails"),
        (0.1, 0.2, stats.above(0), "holds"),
        (-0.1, 0.2, stats.above(0), "undecided"),
        (-0.2, 0.0, stats.above(0), "fails"),
        (0.98, 1.5, stats.at_least(0.98), "holds"),
        (0.90, 0.99, stats.within(0.90, 0.99), "holds"),
        (0.89, 0.95, stats.within(0.90, 0.99), "undecided"),
        (0.80, 0.89, stats.within(0.90, 0.99), "fails"),
        (1.00, 1.10, stats.within(0.90, 0.99), "fails"),
        (0.80, 1.10, stats.within(0.90, 0.99), "undecided"),
    ],
)
def test_verdicts_follow_the_rule(low: float, high: float, band: Band, verdict: str) -> None:
    assert stats.verdict(interval(low, high), band) == verdict


def test_a_claim_in_parts_holds_only_if_all_parts_hold() -> None:
    good = stats.judge("a", interval(0.8, 0.9), stats.below(1))
    open_ = stats.judge("b", interval(0.8, 1.1), stats.below(1))
    bad = stats.judge("c", interval(1.1, 1.2), stats.below(1))
    assert stats.together(good, good).verdict == "holds"
    assert stats.together(good, open_).verdict == "undecided"
    worst = stats.together(good, open_, bad)
    assert (worst.verdict, worst.low, worst.parts) == ("fails", 1.1, (good, open_, bad))


def test_a_claim_that_something_is_so_somewhere_holds_if_it_is_so_once() -> None:
    good = stats.judge("a", interval(0.8, 0.9), stats.below(1))
    open_ = stats.judge("b", interval(0.8, 1.1), stats.below(1))
    bad = stats.judge("c", interval(1.1, 1.2), stats.below(1))
    assert stats.either(bad, bad).verdict == "fails"
    assert stats.either(bad, open_).verdict == "undecided"
    best = stats.either(bad, open_, good)
    assert (best.verdict, best.low, best.parts) == ("holds", 0.8, (bad, open_, good))
    assert best.measured == f"{good.measured} (the best of 3)"


def test_a_number_is_told_with_two_digits_of_its_uncertainty() -> None:
    assert str(interval(690.0, 760.0)) == "725 [690, 760]"
    assert str(interval(0.07641, 0.07799)) == "0.07720 [0.07641, 0.07799]"
    assert str(interval(2.0, 2.0)) == "2.000 [2.000, 2.000]"


def test_an_end_without_bound_is_shown() -> None:
    open_ = Interval(value=4.29, low=1.48, high=math.inf, count=10)
    assert str(open_) == "4.3 [1.5, ∞]"
    assert stats.verdict(open_, stats.above(1)) == "holds"
    assert stats.verdict(open_, stats.below(1)) == "fails"
    assert stats.verdict(open_, stats.at_most(0.5)) == "fails"
    assert str(Interval(value=math.inf, low=6.5, high=math.inf, count=10)) == "∞ [6.500, ∞]"
    nothing = Interval(value=4.29, low=math.nan, high=math.nan, count=1)
    assert stats.verdict(nothing, stats.at_most(0.5)) == "undecided"


def test_evidence_says_what_was_measured_and_claimed() -> None:
    said = stats.judge("ratio", interval(0.8, 0.9), stats.within(0.7, 1.0)).measured
    assert said == "ratio: 0.850 [0.800, 0.900], claimed in [0.7, 1]"


def test_the_slope_is_that_of_least_squares() -> None:
    assert stats.slope([1.0, 2.0, 4.0], [3.0, 5.0, 9.0]) == pytest.approx(2.0)
    assert stats.slope([0.0, 1.0, 2.0], [0.0, 3.0, 3.0]) == pytest.approx(1.5)
    assert math.isnan(stats.slope([1.0, 1.0], [2.0, 3.0]))


def test_the_inverse_of_an_interval_turns_it_round() -> None:
    found = stats.inverse(interval(2.0, 4.0), 8.0)
    assert (found.low, found.value, found.high) == (2.0, pytest.approx(8 / 3), 4.0)
    assert stats.inverse(interval(-1.0, 4.0)).high == math.inf
    assert math.isnan(stats.inverse(Interval(value=2.0, low=math.nan, high=math.nan, count=1)).high)


def test_a_line_through_the_origin_is_the_nearest_to_the_points() -> None:
    assert stats.through_origin([1.0, 2.0], [3.0, 6.0]) == pytest.approx(3.0)
    assert stats.through_origin([1.0, 2.0], [1.0, 0.0]) == pytest.approx(0.2)


def test_a_bootstrap_of_the_mean_is_near_its_t_interval_and_always_the_same() -> None:
    values = np.random.default_rng(5).normal(10, 2, size=40)

    def mean(picked: np.ndarray) -> np.ndarray:
        return values[picked].mean(axis=-1)

    found, again = stats.bootstrap(mean, 40), stats.bootstrap(mean, 40)
    expected = stats.mean_interval(values.tolist())
    assert found == again
    assert found.value == pytest.approx(expected.value)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.15)


def test_a_bootstrap_of_one_replication_has_no_interval() -> None:
    found = stats.bootstrap(lambda picked: np.full(len(picked), 3.0), 1)
    assert found.value == 3.0
    assert not found.decided


def test_intervals_at_the_simultaneous_level_hold_together_as_often_as_asked() -> None:
    assert stats.simultaneous_level(0.95, 1) == 0.95
    assert stats.simultaneous_level(0.95, 20) == pytest.approx(0.9975)
    values = np.random.default_rng(3).normal(0, 1, (1000, 20, 10))
    half = (
        stats.t_quantile(stats.simultaneous_level(0.95, 20), 9) * values.std(axis=2, ddof=1) / math.sqrt(10)
    )
    together = (np.abs(values.mean(axis=2)) <= half).all(axis=1).mean()
    assert 0.93 <= together <= 0.975


def test_a_level_for_no_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="count: the number of judged intervals must be 1 or more"):
        stats.simultaneous_level(0.95, 0)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (-0.02, 0.03, "equivalent"),
        (-0.02, 0.04, "compatible"),
        (-0.1, 0.1, "compatible"),
        (0.03, 0.1, "compatible"),
        (0.031, 0.1, "miss"),
        (math.nan, math.nan, "compatible"),
    ],
)
def test_a_difference_is_equivalent_only_if_its_whole_interval_is_in_the_band(
    low: float, high: float, word: str
) -> None:
    assert stats.agreement(interval(low, high), stats.within(-0.03, 0.03)) == word
