"""Steps before and behind a queue, in closed loop."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import aqmlab as al

BASE: dict[str, Any] = {
    "duration": "30s",
    "warm_up": "10s",
    "bottleneck": {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "drop-tail", "limit": "100p"}},
    "traffic": {"ftp": {"kind": "ftp", "flows": 2}},
}


def ran(changes: dict[str, Any]) -> al.Run:
    """A run with these changes."""
    return al.Scenario.from_dict(BASE).with_(changes).run()


def goodput(run: al.Run) -> float:
    return float(run.summary["flows"]["ftp"]["goodput_bps"])


def reasons(run: al.Run, link: str) -> set[str]:
    dropped = run.tables["drops"].filter(pl.col("link") == link)
    return set(dropped["reason"].cast(pl.String).unique())


@pytest.mark.parametrize("mode", ["conservative", "aggressive"])
def test_where_acknowledgements_wait_in_line_a_filter_lets_more_data_through(mode: str) -> None:
    fifo = {"kind": "drop-tail", "limit": "100p"}
    back = {"rate": "100kbps", "queue": fifo}
    plain = ran({"bottleneck.reverse": back})
    filtered = ran(
        {"bottleneck.reverse": {**back, "queue": {"kind": "ack-filter", "mode": mode, "queue": fifo}}}
    )
    waiting = [float(run.links["mean_queue_packets"][1]) for run in (plain, filtered)]
    assert waiting[0] > 50 and waiting[1] < 2, "what waits is what is needed"
    assert goodput(filtered) > 1.05 * goodput(plain)
    assert "ack-filter" in reasons(filtered, "bottleneck-back") - reasons(plain, "bottleneck-back")


def test_a_policer_lets_no_more_through_than_its_rate() -> None:
    run = ran({"bottleneck.queue": {"kind": "policer", "rate": "3Mbps", "queue": {"kind": "drop-tail"}}})
    sent = run.links["departed_bytes"][0] * 8 / 20
    assert 1.5e6 < sent <= 3e6 * 1.01
    assert reasons(run, "bottleneck") == {"policed"}


def test_marks_from_a_threshold_on_keep_a_queue_short_and_drop_nothing() -> None:
    queue = {"kind": "ce-threshold", "threshold": "5ms", "queue": {"kind": "drop-tail", "limit": "100p"}}
    ecn = {"tcp.ecn.mode": "on"}
    plain, marked = ran(ecn), ran({"bottleneck.queue": queue} | ecn)
    assert marked.links["drops"][0] == 0 and marked.links["marks"][0] > 20
    assert marked.links["mean_queue_delay_s"][0] < 0.3 * plain.links["mean_queue_delay_s"][0]


def test_behind_a_size_table_a_shaper_keeps_to_the_rate_of_cells() -> None:
    shaper = {"kind": "htb", "classes": {"all": {"rate": "2Mbps", "queue": {"kind": "drop-tail"}}}}
    table = {"kind": "stab", "overhead": 40, "linklayer": "atm", "queue": shaper}
    plain, cells = (ran({"bottleneck.queue": queue}) for queue in (shaper, table))
    sent = [run.links["departed_bytes"][0] * 8 / 20 for run in (plain, cells)]
    # A packet of 974 bytes and the overhead takes 22 cells of 53 bytes.
    assert sent[0] == pytest.approx(2e6, rel=0.01)
    assert sent[1] == pytest.approx(2e6 * 974 / (22 * 53), rel=0.01)
