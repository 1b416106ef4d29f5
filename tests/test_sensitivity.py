"""Sensitivities against functions whose indices are known."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from aqmlab.tuning.factors import Factor
from aqmlab.tuning.sensitivity import Design

ANGLES = [Factor.between(name, -3.1416, 3.1416) for name in ("first", "second", "third")]


def ishigami(sample: dict[str, Any]) -> float:
    """The function of Ishigami and Homma (1990) with 7 and 0.1."""
    first, second, third = sample.values()
    return float(math.sin(first) + 7 * math.sin(second) ** 2 + 0.1 * third**4 * math.sin(first))


def test_sobol_finds_the_indices_of_ishigamis_function() -> None:
    design = Design(method="sobol", factors=ANGLES, count=512)
    samples = design.samples()
    assert len(samples) == design.size == 512 * 5
    found = design.indices([ishigami(sample) for sample in samples])
    assert found["factor"].to_list() == ["first", "second", "third"]
    assert found["S1"].to_list() == pytest.approx([0.3139, 0.4424, 0.0], abs=0.06)
    assert found["ST"].to_list() == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.06)
    assert (found["ST_conf"] < 0.15).all()


def test_morris_finds_the_slopes_of_a_plane_over_whole_ranges_and_on_any_scale() -> None:
    factors = [
        Factor.between("line", 0.0, 2.0),
        Factor.between("log", "1ms", "100ms", "log"),
        Factor.between("idle", "1p", "4p"),
    ]
    design = Design(method="morris", factors=factors, count=10, seed=4)
    samples = design.samples()
    assert len(samples) == design.size == 40
    outputs = [5 * one["line"] - 3 * math.log10(float(one["log"][:-2])) for one in samples]
    found = design.indices(outputs)
    assert found["mu"].to_list() == pytest.approx([10.0, -6.0, 0.0], abs=0.01)
    assert found["mu_star"].to_list() == pytest.approx([10.0, 6.0, 0.0], abs=0.01)
    assert (found["sigma"] < 0.01).all()


@pytest.mark.parametrize("method", ["sobol", "morris"])
def test_equal_designs_ask_for_the_same_and_answer_the_same(method: Any) -> None:
    one, same, other = (Design(method=method, factors=ANGLES, count=8, seed=seed) for seed in (0, 0, 1))
    assert one.samples() == same.samples() != other.samples()
    outputs = [ishigami(sample) for sample in one.samples()]
    assert one.indices(outputs).equals(same.indices(outputs))


def test_a_longer_design_begins_with_the_shorter_one() -> None:
    short, long = (Design(method="sobol", factors=ANGLES, count=count).samples() for count in (8, 16))
    assert long[: len(short)] == short


def test_outputs_that_do_not_exist_are_refused_and_counted() -> None:
    design = Design(method="morris", factors=ANGLES, count=2)
    with pytest.raises(ValueError, match="2 of 8 are missing"):
        design.indices([math.nan, math.inf, *([1.0] * 6)])
    with pytest.raises(ValueError, match=r"one output for each of the 8 samples \(got 7\)"):
        design.indices([1.0] * 7)


def test_outputs_without_any_variance_are_refused_by_sobol_and_of_no_effect_for_morris() -> None:
    with pytest.raises(ValueError, match="no variance"):
        Design(method="sobol", factors=ANGLES, count=2).indices([1.0] * 10)
    still = Design(method="morris", factors=ANGLES, count=2).indices([1.0] * 8)
    assert np.abs(still["mu_star"].to_numpy()).max() == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": "guess"}, "sobol or morris"),
        ({"count": 100}, "power of 2 for sobol, such as 64 or 128"),
        ({"count": 1}, "count: must be 2 or more"),
        ({"seed": -1}, "seed: must be 0 or more"),
        ({"factors": []}, "at least one"),
    ],
)
def test_a_design_that_cannot_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Design(**({"method": "sobol", "factors": ANGLES, "count": 8} | given))


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "SALib.sample.sobol", None)
    with pytest.raises(ValueError, match=r'SALib is not installed: pip install "aqmlab\[tune\]"'):
        Design(method="sobol", factors=ANGLES, count=8).samples()
