"""A calibration finds the rate that offers a load, keeps it, and refuses what cannot be calibrated."""

from __future__ import annotations

from pathlib import Path

import pytest

import aqmlab as al
from aqmlab.comparison.calibrate import AROUND, calibrate
from aqmlab.store import Store

TWO_WAY = {
    "duration": "30s",
    "warm_up": "5s",
    "access": {"rate": "1Gbps", "delay": "10us"},
    "links": {
        name: {"from": start, "to": end, "rate": "2Mbps", "delay": "1ms", "queue": {"kind": "drop-tail"}}
        for name, start, end in (("rightward", "left", "right"), ("leftward", "right", "left"))
    },
    "traffic": {
        name: {
            "kind": "packmime",
            "connections_per_second": 10,
            "maximum": "20kB",
            "from": start,
            "to": end,
        }
        for name, start, end in (("to-right", "left", "right"), ("to-left", "right", "left"))
    },
}


@pytest.fixture
def scenario() -> al.Scenario:
    return al.Scenario.from_dict(TWO_WAY)


def test_the_rate_found_offers_the_load(scenario: al.Scenario) -> None:
    found = calibrate(scenario, 0.5, replications=3)
    assert found.paths == (
        "traffic.to-left.connections_per_second",
        "traffic.to-right.connections_per_second",
    )
    assert found.low < found.rate < found.high
    # Half of the line is little enough for the real line to carry all of it.
    used = []
    for seed in (11, 12, 13, 14):
        links = scenario.with_(found.settings).run(seed).summary["links"]
        used += [links[name]["utilisation"] for name in ("leftward", "rightward")]
    assert sum(used) / len(used) == pytest.approx(0.5, abs=0.06)


def test_the_points_lie_near_a_line_through_the_origin(scenario: al.Scenario) -> None:
    found = calibrate(scenario, 0.5, replications=3)
    assert [rate / found.points[1][0] for rate, _ in found.points] == pytest.approx(AROUND)
    for rate, load in found.points:
        assert load / rate == pytest.approx(found.load / found.rate, rel=0.1)


def test_what_is_known_is_not_measured_again(scenario: al.Scenario, tmp_path: Path) -> None:
    def calibrated(load: float) -> tuple[float, int]:
        with Store(tmp_path / "store") as store:
            before = store.runs().height
            found = calibrate(scenario, load, replications=2, store=store)
            return found.rate, store.runs().height - before

    rate, measured = calibrated(0.4)
    assert measured == 1 + len(AROUND) * 2
    assert calibrated(0.4) == (rate, 0)
    # The first guess is measured for any load.
    assert calibrated(0.3)[1] == len(AROUND) * 2


def test_links_can_be_chosen(scenario: al.Scenario) -> None:
    one_way = scenario.with_({"traffic.to-left": None})
    data = calibrate(one_way, 0.5, links=["rightward"], replications=2)
    both = calibrate(one_way, 0.5, replications=2)
    assert data.rate < both.rate < 2.1 * data.rate


def test_what_cannot_be_calibrated_is_refused(scenario: al.Scenario, small: Path) -> None:
    with pytest.raises(ValueError, match="load: must be greater than 0"):
        calibrate(scenario, 0.0)
    with pytest.raises(ValueError, match="replications: must be at least 2"):
        calibrate(scenario, 0.5, replications=1)
    with pytest.raises(ValueError, match="no managed link is named `up`; available:"):
        calibrate(scenario, 0.5, links=["up"])
    with pytest.raises(ValueError, match="no workload is of the kind packmime"):
        calibrate(al.Scenario.load(small), 0.5)
    idle = scenario.with_({f"traffic.{name}.connections_per_second": 0.1 for name in TWO_WAY["traffic"]})
    with pytest.raises(
        ValueError, match=r"to-left\.connections_per_second: no data arrived at a rate of 0\.1"
    ):
        calibrate(idle.with_({"duration": "2s", "warm_up": "1s"}), 0.5)
    with pytest.raises(ValueError, match=r"traffic\.to-left\.kind: must be a number greater than zero"):
        calibrate(scenario, 0.5, paths=["traffic.to-left.kind"])
