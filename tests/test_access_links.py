"""Access links: Wi-Fi beside published results, cellular traces, framing, and input that is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import aqmlab as al

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

from wifi_airtime import compare

ROOT = Path(__file__).resolve().parent.parent

STATIONS = {"near": {"rate": "144.4Mbps", "match": {"traffic": ["near"]}}, "far": {"rate": "7.2Mbps"}}


def scenario(**bottleneck: Any) -> al.Scenario:
    link = {"rate": "10Mbps", "delay": "10ms", "queue": {"kind": "drop-tail"}, **bottleneck}
    return al.Scenario.from_dict(
        {
            "duration": "5s",
            "warm_up": "1s",
            "bottleneck": link,
            "access": {"rate": "1Gbps"},
            "traffic": {"near": {"kind": "ftp"}, "far": {"kind": "ftp"}},
        }
    )


def wifi(**more: Any) -> dict[str, Any]:
    return {"kind": "wifi", "stations": STATIONS, "default": "far", **more}


def test_the_model_agrees_with_the_values_that_inet_publishes() -> None:
    rows = [row for row in compare.compare() if row.source == "inet"]
    assert len(rows) == 6
    assert [row for row in rows if not row.agrees and row.quantity != "slow"] == []
    slow = [row for row in rows if row.quantity == "slow" and row.scheduler == "airtime"]
    assert [abs(row.difference) < 0.2 for row in slow] == [True]


def test_airtime_fairness_changes_the_rates_in_the_direction_that_ath9k_reports() -> None:
    rates = {
        (row.scheduler, row.quantity): (row.published, row.simulated)
        for row in compare.compare()
        if row.source == "ath9k"
    }
    for quantity in ("fast1", "fast2", "slow"):
        turns, airtime = rates["round-robin", quantity], rates["airtime", quantity]
        rises = [after > before for before, after in zip(turns, airtime, strict=True)]
        assert rises in ([True, True], [False, False]), quantity


def test_one_queue_has_the_anomaly_and_airtime_fairness_removes_it() -> None:
    def throughput(scheduler: str, queue: dict[str, Any]) -> dict[str, float]:
        queue = wifi(scheduler=scheduler, queue=queue)
        classes = scenario(rate="144.4Mbps", queue=queue).run(seed=1).tables["classes"].to_dicts()
        return {row["class"]: row["throughput_bps"] / 1e6 for row in classes}

    anomaly = throughput("fifo", {"kind": "drop-tail", "limit": "1000p"})
    fair = throughput("airtime", {"kind": "fq-codel"})
    assert anomaly["near"] < 2 * anomaly["far"]
    assert fair["near"] > 5 * fair["far"]
    assert 2 < fair["far"] < 3.6


def test_framing_lowers_the_rate_of_packets() -> None:
    def utilisation(**framing: Any) -> float:
        link = scenario(framing=framing) if framing else scenario()
        flood = {"kind": "udp", "rate": "20Mbps", "sizes": {"kind": "constant", "value": "1500B"}}
        link = link.with_({"traffic": {"flood": flood}})
        return link.run(seed=1).tables["links"].to_dicts()[0]["utilisation"]

    assert utilisation() == pytest.approx(1, rel=1e-3)
    assert utilisation(linklayer="atm", overhead=40) == pytest.approx(1500 / (33 * 53), rel=1e-3)
    assert utilisation(linklayer="ptm") == pytest.approx(1500 / 1524, rel=1e-3)


def test_short_transfers_depend_on_the_light_trace() -> None:
    both = al.Scenario.load(ROOT / "scenarios/cellular.toml")
    # The mean base delay of the light trace is 33 ms.
    heavy = both.with_(
        {"bottleneck.opportunities": {"file": "cellular-heavy.trace"}, "bottleneck.delay": "38ms"}
    )

    def mean_time(one: al.Scenario) -> float:
        times = [row["duration_s"] for row in one.run(seed=1).tables["transfers"].to_dicts()]
        return sum(times) / len(times)

    assert 1.1 < mean_time(both) / mean_time(heavy) < 2


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (
            {"queue": wifi(), "rate_steps": [{"at": "1s", "rate": "5Mbps"}]},
            "bottleneck.queue.kind: determines how long transmissions take",
        ),
        ({"queue": wifi(), "framing": {"linklayer": "atm"}}, "bottleneck.queue.kind: determines how long"),
        ({"queue": wifi(default="nobody")}, "bottleneck.queue.default: no station is named `nobody`"),
        (
            {"queue": wifi(stations={"a": {"rate": "1Mbps", "match": {"traffic": ["none"]}}}, default="a")},
            "bottleneck.queue.stations.a.match.traffic",
        ),
        (
            {"queue": {"kind": "htb", "classes": {"a": {"rate": "1Mbps", "queue": wifi()}}}},
            "classes.a.queue.kind",
        ),
        ({"framing": {"linklayer": "sonet"}}, "bottleneck.framing.linklayer"),
        (
            {"framing": {"linklayer": "atm", "overhead": 9999}},
            "bottleneck.framing.overhead: must be from -2047",
        ),
        ({"opportunities": {"light": "missing.trace"}}, "missing.trace"),
    ],
)
def test_invalid_links_are_refused_with_the_path_of_the_value(link: dict[str, Any], message: str) -> None:
    with pytest.raises(al.ScenarioError) as refused:
        scenario(**link).run(seed=1)
    assert message in str(refused.value)
