"""Measures of video calls, by hand and from runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import aqmlab as al
from aqmlab import measures
from aqmlab.measures import View
from aqmlab.metrics.video_calls import VideoCalls, freeze_threshold_s
from aqmlab.scenario.catalog import members
from aqmlab.sweep import Sweep

ROOT = Path(__file__).parent.parent


def calls(active: list[float], rates: list[float]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "time_s": active,
            "flow": [0] * len(active),
            "traffic": ["call"] * len(active),
            "packets_sent": [100 if rate else 0 for rate in rates],
            "received_bps": rates,
            "target_bps": [2 * rate for rate in rates],
        }
    )


def frames(rendered: list[float | None], freezes: dict[int, float]) -> pl.DataFrame:
    """Ten frames per second that are rendered 50 ms later, or not at all."""
    return pl.DataFrame(
        {
            "time_s": [0.1 * number for number in range(len(rendered))],
            "flow": [0] * len(rendered),
            "traffic": ["call"] * len(rendered),
            "delay_s": rendered,
            "freeze_s": [freezes.get(number, 0.0) for number in range(len(rendered))],
        },
        schema_overrides={"delay_s": pl.Float64},
    )


def seen(rendered: list[float | None], freezes: dict[int, float] | None = None) -> VideoCalls:
    tables = {
        "calls": calls([float(second) for second in range(10)], [1e6] * 10),
        "frames": frames(rendered, freezes or {}),
    }
    return VideoCalls.of(tables, "call", (0.0, 10.0), 10.0)


def test_rates_are_means_over_active_seconds() -> None:
    tables = {"calls": calls([0, 1, 2, 3], [1e6, 3e6, 0, 5e6]), "frames": frames([0.05], {})}
    found = VideoCalls.of(tables, "call", (1.0, 4.0), 10.0)
    assert (found.received_bps(), found.target_bps()) == (4e6, 8e6)


def test_freezes_are_counted_per_minute_of_a_direction() -> None:
    found = seen([0.05] * 100, {30: 0.5, 60: 1.5})
    assert found.freezes_per_minute() == 12
    assert found.frozen_share() == pytest.approx(0.2)
    assert found.rendered_share() == 1
    assert found.frame_delay_s(0.95) == pytest.approx(0.05)


def test_a_freeze_that_does_not_end_is_counted() -> None:
    found = seen([0.05] * 50 + [None] * 50)
    assert found.freezes_per_minute() == 6
    # The last frame is rendered at 4.95 s.
    assert found.frozen_share() == pytest.approx(0.505)
    assert found.rendered_share() == 0.5


def test_a_direction_without_frames_is_frozen_and_one_without_packets_has_no_values() -> None:
    assert seen([None] * 100).frozen_share() == 1
    tables = {"calls": calls([0.0], [0.0]), "frames": frames([], {})}
    found = VideoCalls.of(tables, "call", (0.0, 1.0), 10.0)
    assert [found.received_bps(), found.freezes_per_minute(), found.frozen_share()] == [None] * 3
    assert [found.rendered_share(), found.frame_delay_s(0.5)] == [None, None]


def test_the_threshold_of_a_freeze() -> None:
    assert freeze_threshold_s(30) == pytest.approx(1 / 30 + 0.15)
    assert freeze_threshold_s(5) == pytest.approx(0.6)


def scenario(control: str, rate: str) -> al.Scenario:
    table = {
        "duration": "30s",
        "warm_up": "10s",
        "bottleneck": {
            "rate": "2Mbps",
            "delay": "20ms",
            "queue": {"kind": "drop-tail", "limit": "50p"},
        },
        "traffic": {
            "call": {
                "kind": "video-call",
                "both_ways": False,
                "max_rate": rate,
                "control": {"kind": control, **({"rate": rate} if control == "fixed" else {})},
            }
        },
    }
    return al.Scenario.from_dict(table, name="call")


def test_the_tables_of_a_call_are_those_of_the_catalogue() -> None:
    tables = scenario("gcc", "3Mbps").run(seed=1).tables
    for name in ("calls", "frames"):
        (described,) = (one for one in members("tables") if one.name == name)
        assert tables[name].columns == [row["name"] for row in described.parameters]


def test_sweeps_store_the_tables_of_calls_if_there_are_calls() -> None:
    axes = {"bottleneck.delay": ("10ms",)}
    measure = "bottleneck.utilisation"
    sweep = Sweep(scenario("gcc", "3Mbps"), axes=axes, measures=[measure], tables=["tables"])
    assert {"tables/calls", "tables/frames"} <= {one.name for one in sweep.wanted}
    hello = al.Scenario.load(ROOT / "scenarios/hello.toml")
    with pytest.raises(ValueError, match="no table is named `calls`"):
        Sweep(hello, axes=axes, measures=[measure], tables=["calls"])


def values(one: al.Scenario) -> dict[str, float]:
    view = View(one.run(seed=1))
    return {each.name: each.of(view) for each in measures.named(one, ["call.*"])}


def test_an_adaptive_call_fits_into_the_link_and_a_fixed_rate_above_the_link_freezes() -> None:
    adaptive = values(scenario("gcc", "3Mbps"))
    assert 1.2 < adaptive["call.rate"] < 2.0
    assert adaptive["call.frozen"] < 1 and adaptive["call.rendered"] > 99
    assert adaptive["call.p95-frame-delay"] < 250
    fixed = values(scenario("fixed", "3Mbps"))
    assert fixed["call.target-rate"] == pytest.approx(3)
    assert fixed["call.frozen"] > 20 and fixed["call.rendered"] < 60
