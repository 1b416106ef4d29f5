"""Batch means against a series of known mean and memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aqmlab import stats
from aqmlab.stats.batch_means import batch_means, neighbour_correlation

SERIES = 400


def autoregressive(memory: float, length: int, seed: int) -> npt.NDArray[Any]:
    """Steady series of mean 0 and variance 1, in rows: each value is `memory` times the last, and noise."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0.0, 1.0, (length, SERIES)) * math.sqrt(1 - memory**2)
    values = np.empty_like(noise)
    values[0] = rng.normal(0.0, 1.0, SERIES)
    for at in range(1, length):
        values[at] = memory * values[at - 1] + noise[at]
    return values.T


def test_batch_means_cover_the_mean_of_a_correlated_series_and_its_single_values_do_not() -> None:
    series = autoregressive(0.8, 4000, 1)
    found = [batch_means(one) for one in series]
    covers = np.mean([one.interval.low <= 0.0 <= one.interval.high for one in found])
    single = [stats.mean_interval(one.tolist()) for one in series[:100]]
    naive = np.mean([one.low <= 0.0 <= one.high for one in single])
    assert 0.91 <= covers <= 0.98
    assert naive < 0.7
    assert np.mean([one.warning is not None for one in found]) < 0.15


def test_the_width_is_that_of_the_known_variance() -> None:
    memory, length = 0.8, 4000
    found = [batch_means(one).interval.half_width for one in autoregressive(memory, length, 2)]
    # The variance of the mean of a long series is (1 + memory) / (1 - memory) / length.
    expected = stats.t_quantile(0.95, 19) * math.sqrt((1 + memory) / (1 - memory) / length)
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_a_series_that_is_short_against_its_memory_is_told() -> None:
    found = [batch_means(one) for one in autoregressive(0.99, 400, 3)]
    warned = [one for one in found if one.warning is not None]
    assert len(warned) > 0.9 * SERIES
    assert "too short" in str(warned[0].warning)
    assert warned[0].correlation > 0.35


def test_batches_are_cut_from_the_end_and_averaged() -> None:
    series = [100.0, *np.repeat(np.arange(10.0), 3)]
    found = batch_means(series, batches=10)
    assert (found.batch_length, found.interval.count) == (3, 10)
    assert found.interval == stats.mean_interval(list(range(10)))


def test_fewer_than_two_values_for_each_batch_give_no_interval() -> None:
    found = batch_means(np.arange(39.0))
    assert not found.interval.decided
    assert found.interval.value == 19.0
    assert found.warning == "too short for batch means: 39 values for 20 batches"
    assert math.isnan(batch_means([]).interval.value)


def test_von_neumanns_ratio_sees_the_correlation_of_neighbours() -> None:
    # Steps of 1 and of -1 between values about 0: squares of differences 4 + 4 + 4, of values 4.
    assert neighbour_correlation(np.array([1.0, -1.0, 1.0, -1.0])) == pytest.approx(-0.5)
    assert neighbour_correlation(np.array([3.0, 3.0, 3.0])) == 0.0
    assert batch_means([5.0] * 100).warning is None


@pytest.mark.parametrize(
    ("series", "batches", "told"),
    [
        ([1.0] * 100, 9, "batches: must be 10 or more"),
        ([1.0, math.nan] * 50, None, "NaN"),
        ([math.inf] * 100, None, "infinite"),
    ],
)
def test_what_has_no_batch_means_is_refused(series: list[float], batches: int | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        batch_means(series, batches)
