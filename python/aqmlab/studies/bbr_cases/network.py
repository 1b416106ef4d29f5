"""The networks and the traffic of the test cases: a base set-up and its changes for each case.

The base set-up is aqmlab's choice, because the draft does not specify the rate, delay and buffer: a link of
50 Mb/s, a round-trip time of 40 ms without queueing, a tail-drop buffer of two bandwidth-delay products, and
one sender that always has data to send.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from aqmlab.scenario import Scenario, changed

FLOW = "flow"
"""Workload of the BBR sender."""

LINK_BPS = 50e6
RTT_S = 0.04
BDP_BYTES = LINK_BPS * RTT_S / 8
STEP_S = 8.0
"""Time at which the link's rate changes."""
TOKEN_BPS = 25e6
"""Rate of the policer: half of the link rate."""
SLOW_BPS = 64e3
"""Rate of the link whose bandwidth-delay product is less than a packet."""
PAYLOAD_SHARE = 1448 / 1500
"""Payload of a packet, relative to its length: BBR measures payload, and the link transmits packets."""

SENDER = {
    "profile": "linux-6",
    "congestion_control": {"kind": "bbr3", "profile": "draft"},
    # BBR keeps its window while the application is idle.
    "cwnd": {"idle_restart": "off"},
}


def drop_tail(size_bytes: float) -> dict[str, Any]:
    """A tail-drop buffer."""
    return {"kind": "drop-tail", "limit": f"{size_bytes:.0f}B"}


BASE: dict[str, Any] = {
    "duration": "20s",
    "warm_up": "0s",
    "bottleneck": {"rate": "50Mbps", "delay": "19800us", "queue": drop_tail(2 * BDP_BYTES)},
    "access": {"rate": "10Gbps", "delay": "100us"},
    "tcp": SENDER,
    "traffic": {FLOW: {"kind": "ftp", "flows": 1, "stagger": "0s"}},
    "record": {"senders": [FLOW], "histories": [FLOW], "queue_every": "0s"},
}


def base(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The base set-up with changes at dotted paths."""
    return changed(BASE, changes or {})


def responses(rate: str, segment: str, buffer: str) -> dict[str, Any]:
    """An application that limits the rate: responses of equal size over one connection, each requested after
    the previous response has arrived. Once the client's buffer has filled, responses are requested at a rate
    of at most `rate`."""
    return {
        "kind": "video",
        "viewers": 1,
        "ladder": [rate],
        "segment": segment,
        "buffer": buffer,
        "start_up": segment,
        "resume": segment,
    }


def limited(**changes: Any) -> dict[str, Any]:
    """An application that sends 125 kB every 100 ms, which is 10 Mb/s on a link of 50 Mb/s."""
    return base({f"traffic.{FLOW}": responses("10Mbps", "100ms", "200ms"), **changes})


def loss(probability: float) -> dict[str, Any]:
    """Random loss on the link."""
    return {"bottleneck.loss": {"probability": probability}}


def rate_step(at_s: float, rate: str) -> dict[str, Any]:
    """A change of the link's rate."""
    return {"bottleneck.rate_steps": [{"at": f"{at_s:.6f}s", "rate": rate}]}


NORMAL = base()
LIMITED = limited()
LIMITED_LOSS = limited(**loss(0.1), duration="30s")
SLOWER_IN_DRAIN = base({**rate_step(0.59, "45Mbps"), "duration": "3s"})
HALF_IN_DRAIN = base({**rate_step(0.59, "22500kbps"), "duration": "3s"})
SLOWER_IN_DOWN = base({"duration": "9s"})
IDLE = base({f"traffic.{FLOW}": responses("8Mbps", "8s", "16s"), "duration": "36s"})
AGGREGATED = base(
    {
        "bottleneck.reverse": {
            "rate": "50Mbps",
            "delay": "19800us",
            "queue": drop_tail(2 * BDP_BYTES),
            "aggregation": {"packets": 64, "max_wait": "20ms"},
        },
        "duration": "12s",
    }
)
SUB_PACKET = base(
    {
        "bottleneck.rate": f"{SLOW_BPS / 1e3:g}kbps",
        "bottleneck.delay": "300us",
        # Two bandwidth-delay products are 16 bytes; the buffer has room for ten packets.
        "bottleneck.queue": drop_tail(15_000),
        "host": {"jitter": "100us"},
        "duration": "60s",
    }
)
TEN_TIMES = base({"bottleneck.rate": "10Mbps", **rate_step(STEP_S, "100Mbps"), "duration": "13s"})
TEN_TIMES_WITH_LOSS = changed(TEN_TIMES, {"bottleneck.queue": drop_tail(50_000), "duration": "16s"})
"""A buffer of one bandwidth-delay product of the slow link, so that Startup's losses set
`inflight_longterm`."""
TENTH = base({"bottleneck.rate": "100Mbps", **rate_step(STEP_S, "10Mbps"), "duration": "24s"})
POLICED = base(
    {
        "bottleneck.queue": {
            "kind": "policer",
            "rate": f"{TOKEN_BPS / 1e6:g}Mbps",
            "burst": f"{BDP_BYTES:.0f}B",
            "queue": drop_tail(2 * BDP_BYTES),
        },
        "duration": "30s",
    }
)
REORDERED = base({"bottleneck.reordering": {"probability": 0.0003, "delay": "60ms"}, "duration": "20s"})
DELAYED = base(
    {
        "bottleneck.delay_steps": [{"at": "1.5s", "delay": "519800us"}, {"at": "1.51s", "delay": "19800us"}],
        "duration": "5s",
    }
)
LONG_PATH = base(
    {
        "bottleneck.delay": "499800us",
        "bottleneck.queue": drop_tail(2 * LINK_BPS / 8),
        "duration": "24s",
    }
)
LOSSY = base({**loss(0.03), "duration": "15s"})
PAUSED = base({"duration": "9s"})


@lru_cache(maxsize=64)
def entry(state: str, after_s: float, seed: int, traffic: str = "ftp") -> tuple[float, int]:
    """The time at which the base set-up first enters a state after `after_s`, and the payload sent up to
    then. A change of the link does not affect the run before the time of the change, so a change can be
    scheduled at the returned time."""
    table = base({"duration": "6s"})
    if traffic == "video":
        table = base({f"traffic.{FLOW}": responses("400Mbps", "1s", "2s"), "duration": "6s"})
    run = Scenario.from_dict(table, name=f"entry of {state}").run(seed=seed)
    rows = run.tables["senders"].select("time_s", "state").iter_rows()
    at = next(time for time, name in rows if str(name) == state and time > after_s)
    packets = run.tables["packets"].select("time_s", "event", "backward", "payload_bytes").iter_rows()
    sent = (
        size for time, event, backward, size in packets if str(event) == "send" and not backward and time < at
    )
    return at, sum(sent)


def slower_at_down(table: dict[str, Any], labels: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The rate falls by 10 % when the first UP ends."""
    return changed(table, rate_step(entry("PROBE_BW_DOWN", 1.0, seed)[0], "45Mbps"))


def pause_at_refill(table: dict[str, Any], labels: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The first response ends a tenth of a round trip after the first REFILL begins. The client then
    requests the second response, so that the sender has no data for one round trip."""
    _, sent = entry("PROBE_BW_REFILL", 1.0, seed, "video")
    size = sent + int(0.1 * RTT_S * LINK_BPS / 8)
    return changed(table, {f"traffic.{FLOW}": responses(f"{8 * size}bps", "1s", "60s")})
