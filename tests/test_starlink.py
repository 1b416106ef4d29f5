"""Synthetic Starlink links: their slots, their sizes beside the published ones, and runs on them."""

from __future__ import annotations

import itertools
import statistics
import tomllib

import pytest

import aqmlab as al
from aqmlab.traces import starlink

MEAN_BPS = 190e6


def slots(count: int = 400, seed: int = 1) -> starlink.Starlink:
    return starlink.link(MEAN_BPS, count * starlink.SLOT_S, seed)


def test_every_slot_begins_with_an_outage_and_has_one_rate_and_one_delay() -> None:
    link = slots()
    assert [time for time, _ in link.delays] == [15 * number for number in range(400)]
    assert [bps for _, bps in link.rates[::2]] == [0] * 400
    outages = [up - down for (down, _), (up, _) in zip(link.rates[::2], link.rates[1::2], strict=True)]
    assert min(outages) >= 0.030
    assert max(outages) <= 0.050


def test_rates_and_delays_have_the_published_sizes() -> None:
    link = slots()
    mbps = sorted(bps / 1e6 for _, bps in link.rates[1::2])
    assert 10 <= mbps[0] < 20 and 360 < mbps[-1] <= 370
    assert statistics.mean(mbps) == pytest.approx(190, rel=0.05)
    round_trips_ms = [2000 * delay for _, delay in link.delays]
    assert 25 <= min(round_trips_ms) < 28 and 55 < max(round_trips_ms) <= 60
    assert 33 <= statistics.median(round_trips_ms) <= 40
    # The worst change of the round-trip time is below the 50 ms that Huston measured.
    changes = [abs(one - other) for one, other in itertools.pairwise(round_trips_ms)]
    assert 15 < max(changes) < 50


def test_a_seed_produces_the_same_link_and_another_seed_another_link() -> None:
    assert slots(4, seed=7) == slots(4, seed=7) != slots(4, seed=8)
    assert len(starlink.link(MEAN_BPS, 1, 1).delays) == 1
    assert len(starlink.link(MEAN_BPS, 16, 1).delays) == 2


def test_a_run_has_the_delays_of_the_slots_and_the_spikes_of_the_outages() -> None:
    link = starlink.link(20e6, 60, 3)
    table = tomllib.loads(link.toml('"starlink.csv"'))
    table["bottleneck"]["queue"] = {"kind": "drop-tail", "limit": "1000p"}
    del table["bottleneck"]["loss"]
    probe = {"kind": "udp", "rate": "80kbps", "sizes": {"kind": "constant", "value": "100B"}}
    scenario = al.Scenario.from_dict(
        {**table, "duration": "60s", "traffic": {"probe": probe}, "record": {"packets": ["bottleneck"]}},
        files={"starlink.csv": link.csv()},
    )
    rows = scenario.run(seed=1).tables["packets"].to_dicts()
    sent, arrived = (
        {row["sequence_bytes"]: row["time_s"] for row in rows if row["event"] == event}
        for event in ("enqueue", "deliver")
    )
    for start, delay in link.delays:
        of_slot = [
            arrived[packet] - time
            for packet, time in sent.items()
            if start <= time < start + 14.9 and packet in arrived
        ]
        assert min(of_slot) == pytest.approx(delay, abs=1e-3)
        assert delay + 0.02 < max(of_slot) < delay + 0.051
