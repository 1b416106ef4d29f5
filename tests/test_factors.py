"""Values between two ends, written as scenarios write them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aqmlab import _core
from aqmlab.tuning.factors import Factor, check

SHARES = (0.0, 0.25, 1 / 3, 0.5, 0.99, 1.0)


@pytest.mark.parametrize(
    ("factor", "written"),
    [
        (Factor.between("f", "30p", "120p"), ["30p", "52p", "60p", "75p", "120p", "120p"]),
        (Factor.between("f", 1, 3), [1, 1, 2, 2, 3, 3]),
        (Factor.between("f", 0.0, 1.0), [0.0, 0.25, 0.3333, 0.5, 0.99, 1.0]),
        (
            Factor.between("f", "1ms", "100ms", "log"),
            ["1ms", "3.162ms", "4.642ms", "10ms", "95.5ms", "100ms"],
        ),
        (Factor.between("f", 1e-6, 1e-2, "log"), [1e-6, 1e-5, 2.154e-5, 1e-4, 9.12e-3, 1e-2]),
    ],
)
def test_values_run_from_end_to_end_rounded_and_with_their_unit(factor: Factor, written: list[Any]) -> None:
    found = [factor.at(share) for share in SHARES]
    assert found == written
    assert all(type(one) is type(other) for one, other in zip(found, written, strict=True))


def test_whole_numbers_are_equally_likely_the_ends_too() -> None:
    factor = Factor.between("f", "1p", "4p")
    found = [factor.at((place + 0.5) / 400) for place in range(400)]
    assert [found.count(f"{number}p") for number in (1, 2, 3, 4)] == [100] * 4


@pytest.mark.parametrize("unit", ["ms", "Mbps", "s"])
def test_the_core_reads_what_is_written(unit: str) -> None:
    base = _core.quantity(f"1{unit}")
    factor = Factor(path="f", low=0.00005, high=30.0, scale="log", unit=unit)
    for share in SHARES:
        value, name = _core.quantity(str(factor.at(share)))
        assert name == base[1]
        assert value / base[0] == pytest.approx(0.00005 * 6e5**share, rel=2e-3)


def test_rounding_loses_less_than_a_ten_thousandth_of_the_range() -> None:
    narrow = Factor.between("f", 1000.0, 1001.0)
    assert narrow.at(0.12345) == pytest.approx(1000.12345, abs=5e-5)
    ratio = Factor.between("f", 1000.0, 1001.0, "log")
    assert ratio.at(0.5) == pytest.approx(math.sqrt(1000.0 * 1001.0), abs=5e-5)


def test_numbers_beyond_the_ends_are_the_ends() -> None:
    assert Factor.between("f", "1p", "4p").written(7.2) == "4p"
    assert Factor.between("f", -1.0, 1.0).written(-1.1) == -1.0
    assert str(Factor.between("f", -1.0, 1.0).written(-1e-9)) == "0.0"


@pytest.mark.parametrize(
    ("low", "high", "scale", "told"),
    [
        (2.0, 1.0, "linear", "low must be less than high"),
        (0.0, math.inf, "linear", "inf is not a number"),
        (0.0, 1.0, "log", "low must be greater than 0"),
        (0.0, 1.0, "cubic", "linear or log"),
        ("1ms", "1s", "linear", "the same unit"),
        ("1.5p", "3p", "linear", "must be whole numbers"),
        ("many", "3p", "linear", "'many' is not a number"),
        ("1.2.3ms", "3ms", "linear", "'1.2.3ms' is not a number"),
        (False, True, "linear", "False is not a number"),
    ],
)
def test_a_range_that_cannot_be_is_refused_with_its_path(low: Any, high: Any, scale: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"queue.max_th: .*{told}"):
        Factor.between("queue.max_th", low, high, scale)


def test_factors_are_at_least_one_and_at_paths_of_their_own() -> None:
    one = Factor.between("a", 0.0, 1.0)
    with pytest.raises(ValueError, match="at least one"):
        check([])
    with pytest.raises(ValueError, match="a occurs more than once"):
        check([one, one])
