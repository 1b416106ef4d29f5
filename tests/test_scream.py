"""SCReAMv2 in the test cases of RFC 8867, and its response to the marks of L4S."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aqmlab as al
from aqmlab import measures
from aqmlab.measures import View

CASES = Path(__file__).parent.parent / "scenarios" / "rfc8867"
SCREAM: Mapping[str, Any] = {"control": {"kind": "scream"}}
L4S: Mapping[str, Any] = {"ecn": True, "codepoint": "ect1"}


def case(name: str, media: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> al.Scenario:
    """A test case with other settings of all media flows."""
    scenario = al.Scenario.load(CASES / f"{name}.toml")
    flows = [flow for flow in scenario.effective["traffic"] if flow.startswith("media")]
    settings = {f"traffic.{flow}.{key}": value for flow in flows for key, value in media.items()}
    return scenario.with_({**settings, **(changes or {})})


def rate(calls: pl.DataFrame, first_s: float, last_s: float) -> float:
    """The received rate of all flows in Mb/s."""
    rows = calls.filter((pl.col("time_s") >= first_s) & (pl.col("time_s") < last_s))
    return float(rows["received_bps"].sum()) / (last_s - first_s) / 1e6


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.toml")))
def test_every_test_case_runs_with_scream(name: str) -> None:
    run = case(name, SCREAM, {"duration": "40s"} if name in {"5-4", "5-5", "5-7"} else None).run(seed=1)
    calls = run.tables["calls"].filter(pl.col("packets_sent") > 0)
    assert (calls["target_bps"] > 0).all()
    received, sent = int(calls["packets_received"].sum()), int(calls["packets_sent"].sum())
    assert received > 0.95 * sent


def test_the_rate_follows_the_capacity() -> None:
    calls = case("5-1", SCREAM).run(seed=1).tables["calls"]
    # The capacity is 1, 2.5, 0.6 and 1 Mb/s, and the video has at most 1.5 Mb/s.
    phases = [(15, 40, 1.0), (50, 60, 1.5), (65, 80, 0.6), (90, 99, 1.0)]
    for first, last, capacity in phases:
        assert 0.6 * capacity < rate(calls, first, last) <= 1.05 * capacity, (first, last)


def test_the_marks_of_l4s_shorten_the_delay() -> None:
    dualpi2 = {"bottleneck.queue": {"kind": "dualpi2"}}
    scenarios = case("5-1", SCREAM), case("5-1", {**SCREAM, **L4S}, dualpi2)
    names = ["bottleneck.marks", "bottleneck.mean-queueing-delay"]
    (none, long), (some, short) = (
        [measure.of(View(one.run(seed=1))) for measure in measures.named(one, names)] for one in scenarios
    )
    assert none == 0 and some > 0
    assert short < long / 2, (short, long)


def test_scream_and_the_loss_rule_reject_invalid_values() -> None:
    with pytest.raises(al.ScenarioError, match=r"control\.target_delay"):
        case("5-1", {"control": {"kind": "scream", "target_delay": "0s"}})
    with pytest.raises(al.ScenarioError, match="loss_rule"):
        case("5-1", {"control": {"kind": "gcc", "loss_rule": "reno"}})
