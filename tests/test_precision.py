"""Stopping by precision: its looks, its intervals at their edges, and how often they cover the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aqmlab import stats
from aqmlab.stats.precision import Look, Precision

SEQUENCES = 3000


def stopped(precision: Precision, values: list[float]) -> Look:
    """The last look of somebody who replicates as long as he is told to."""
    look = precision.judge([])
    while look.next_count is not None:
        look = precision.judge(values[: look.next_count])
    return look


def naive_cover(samples: npt.NDArray[Any], truth: float, precision: Precision) -> float:
    """How often an interval of 95 % covers the truth, looked at as often and not corrected."""
    running = np.ones(len(samples), dtype=bool)
    covers = np.zeros(len(samples), dtype=bool)
    for count in precision.looks():
        mean = samples[:, :count].mean(axis=1)
        half = stats.t_quantile(0.95, count - 1) * samples[:, :count].std(axis=1, ddof=1) / math.sqrt(count)
        limit = precision.absolute if precision.absolute is not None else 0.3 * np.abs(mean)
        stop = running & ((half <= limit) | (count == precision.most))
        covers[stop] = (np.abs(mean - truth) <= half)[stop]
        running &= ~stop
    return float(covers.mean())


@pytest.mark.parametrize(
    ("draw", "precision"),
    [
        (lambda rng, size: rng.normal(1.0, 0.45, size), Precision(absolute=0.2)),
        (lambda rng, size: rng.exponential(1.0, size), Precision(relative=0.3)),
    ],
    ids=["normal", "exponential"],
)
def test_the_interval_it_stops_with_covers_the_truth_where_an_uncorrected_one_does_not(
    draw: Callable[[np.random.Generator, tuple[int, int]], npt.NDArray[Any]], precision: Precision
) -> None:
    samples = draw(np.random.default_rng(17), (SEQUENCES, precision.most))
    looks = [stopped(precision, values) for values in samples.tolist()]
    covers = np.mean([look.interval.low <= 1.0 <= look.interval.high for look in looks])
    # Four standard deviations of the share of so many sequences below the level, were it exact.
    least = 0.95 - 4 * math.sqrt(0.95 * 0.05 / SEQUENCES)
    assert covers >= 0.95
    assert naive_cover(samples, 1.0, precision) < least


def test_it_stops_soon_where_values_differ_little_and_later_where_they_differ_much() -> None:
    rng = np.random.default_rng(5)
    precision = Precision(relative=0.05)
    counts = [
        stopped(precision, rng.normal(100.0, spread, precision.most).tolist()).replications
        for spread in (0.5, 5.0, 15.0)
    ]
    assert counts[0] == precision.least
    assert counts[0] < counts[1] < counts[2] < precision.most


def test_looks_grow_geometrically_from_the_least_to_the_most() -> None:
    assert Precision(absolute=1).looks() == (5, 8, 12, 18, 27, 41, 62, 93, 140, 200)
    assert Precision(absolute=1, least=3, most=3).looks() == (3,)
    slow = Precision(absolute=1, least=2, most=9, growth=1.01).looks()
    assert all(late > early for early, late in pairwise(slow))


def test_a_single_look_has_the_interval_of_the_textbook() -> None:
    values = [10.0, 12.0, 9.0, 11.0, 13.0]
    found = Precision(absolute=2.0, least=5, most=5).judge(values)
    assert found.interval == stats.mean_interval(values)
    assert (found.enough, found.exhausted, found.next_count) == (True, False, None)


def test_every_look_at_every_number_gets_an_equal_part_of_the_error() -> None:
    assert stats.look_level(1) == stats.LEVEL
    assert stats.look_level(4) == pytest.approx(1 - 0.05 / 4)
    assert stats.look_level(4, 5, 0.9) == pytest.approx(1 - 0.1 / 20)
    with pytest.raises(ValueError, match="looks: must be 1 or more"):
        stats.look_level(0)


def test_the_error_is_shared_by_looks_and_by_measures() -> None:
    values = [10.0, 12.0, 9.0, 11.0, 13.0]
    one = Precision(relative=0.01, most=8)
    assert one.look_level == pytest.approx(0.975)
    assert one.for_measures(5).look_level == pytest.approx(0.995)
    found = one.for_measures(5).judge(values).interval
    expected = stats.mean_interval(values, one.for_measures(5).look_level)
    assert (found.low, found.high) == (expected.low, expected.high)
    assert found.level == 0.95


def test_relative_and_absolute_precision_ask_for_the_same_where_the_mean_says_so() -> None:
    values = [-10.0, -12.0, -9.0, -11.0, -13.0]
    half = Precision(absolute=1, most=5).judge(values).interval.half_width
    for share, enough in ((0.999, False), (1.001, True)):
        assert Precision(absolute=half * share, most=5).judge(values).enough is enough
        assert Precision(relative=half / 11 * share, most=5).judge(values).enough is enough


def test_more_values_than_a_look_provides_for_change_nothing() -> None:
    precision = Precision(absolute=0.5)
    values = np.random.default_rng(2).normal(0, 1, 300).tolist()
    assert precision.judge(values[:11]) == precision.judge(values[:8])
    assert precision.judge(values) == precision.judge(values[:200])


def test_too_few_replications_ask_for_the_first_look() -> None:
    found = Precision(absolute=1).judge([1.0, 1.0])
    assert (found.enough, found.next_count, found.replications) == (False, 5, 0)
    assert not found.interval.decided


def test_the_most_replications_without_precision_are_the_end() -> None:
    found = Precision(absolute=0.1, most=8).judge([0.0, 1.0] * 4)
    assert (found.enough, found.exhausted, found.next_count) == (False, True, None)
    assert found.interval.decided


def test_values_that_do_not_exist_are_counted_and_never_enough() -> None:
    precision = Precision(absolute=1, most=12)
    some = precision.judge([5.0, math.nan, 5.0, 5.0, 5.0])
    assert (some.enough, some.missing, some.next_count) == (False, 1, 8)
    later = precision.judge([5.0, math.nan, 5.0, 5.0, 5.0, math.nan, 5.0, 5.0])
    assert (later.enough, later.missing, later.interval.value) == (True, 2, 5.0)
    none = precision.judge([math.nan] * 12)
    assert (none.enough, none.exhausted, none.missing) == (False, True, 12)


def test_an_infinite_value_is_never_enough() -> None:
    for values in ([math.inf] * 5, [math.inf, -math.inf, 1.0, 2.0, 3.0]):
        found = Precision(relative=0.5).judge(values)
        assert (found.enough, found.next_count) == (False, 8)
        assert not found.interval.decided


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "either relative or absolute"),
        ({"relative": 0.1, "absolute": 1.0}, "either relative or absolute"),
        ({"relative": 0.0}, "relative must be greater than 0 .got 0.0"),
        ({"absolute": math.nan}, "absolute must be greater than 0 .got nan"),
        ({"absolute": 1.0, "level": 95}, "level must be .* .got 95"),
        ({"absolute": 1.0, "least": 1}, "least must be .* .got 1"),
        ({"absolute": 1.0, "most": 4}, "most must not be less than least, which is 5 .got 4"),
        ({"absolute": 1.0, "growth": 1.0}, "growth must be .* .got 1.0"),
        ({"absolute": 1.0, "measures": 0}, "measures must be .* .got 0"),
    ],
)
def test_a_precision_that_cannot_be_is_refused_with_its_field(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Precision(**given)
