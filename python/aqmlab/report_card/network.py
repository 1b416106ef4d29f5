"""The network of report cards: one link in each direction between servers and clients.

RFC 7928, section 3, describes a dumbbell whose bottleneck has either the same rate in both directions or, in
the reverse direction, one tenth of the rate. Initially, the queues in both directions are Drop Tail queues
with room for the bandwidth-delay product of the longest round-trip time. `queues.py` replaces these
queues."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aqmlab.sweep import Changes

Table = dict[str, Any]

RATE_MBPS = 10.0
ROUND_TRIP_MS = 100.0
PACKET = 1500
"""Size of a full packet in bytes, including all headers."""
WARM_UP_S = 10.0
DURATION_S = 60.0

DROP_TAIL = "drop-tail"
"""The queue with which RFC 7928, section 1.1, compares other queues."""

DOWN, UP = "down", "up"
"""Names of the links. Data are sent over the link `down`, unless a scenario sends data over the link `up`."""

HOST_MS = 0.5
"""One-way delay of an access link, in milliseconds."""

LINES = Changes({"symmetric": {}, "asymmetric": {f"links.{UP}.rate": "1Mbps"}})
"""The symmetric link, and a link on which the rate in the reverse direction is one tenth of the forward
rate."""


def room_of(rate_mbps: float = RATE_MBPS, round_trip_ms: float = ROUND_TRIP_MS) -> int:
    """Returns the bandwidth-delay product in full packets, rounded up."""
    return math.ceil(rate_mbps * 1e3 * round_trip_ms / 8 / PACKET)


def scenario(
    traffic: Mapping[str, Table],
    *,
    rate_mbps: float = RATE_MBPS,
    round_trip_ms: float = ROUND_TRIP_MS,
    longest_ms: float | None = None,
    products: float = 1.0,
    duration_s: float = DURATION_S,
    warm_up_s: float = WARM_UP_S,
    packets: tuple[str, ...] = (DOWN,),
) -> Table:
    """Returns a scenario with one link in each direction. By default, data are sent over the link `down`.

    Round-trip times do not include queueing delay. `longest_ms` is the longest round-trip time if a flow has
    an extra delay. The queues have room for `products` bandwidth-delay products. The run records, for each
    packet on the links in `packets`, whether and when the packet was sent or dropped."""
    packets_of_room = max(1, math.ceil(products * room_of(rate_mbps, longest_ms or round_trip_ms)))
    room = {"kind": DROP_TAIL, "limit": f"{packets_of_room}p"}
    link = {"rate": f"{rate_mbps:g}Mbps", "delay": f"{round_trip_ms / 2 - 2 * HOST_MS:g}ms", "queue": room}
    return {
        "duration": f"{duration_s:g}s",
        "warm_up": f"{warm_up_s:g}s",
        "links": {
            DOWN: {"from": "servers", "to": "clients", **link},
            UP: {"from": "clients", "to": "servers", **link},
        },
        "access": {"rate": "1Gbps", "delay": f"{HOST_MS:g}ms"},
        "tcp": {"profile": "linux-6", "congestion_control": {"kind": "reno"}},
        "traffic": {name: {"from": "servers", "to": "clients", **table} for name, table in traffic.items()},
        "record": {"drops": False, "queue_every": "0s", "packets": list(packets)},
    }


def going_up(table: Mapping[str, Any]) -> Table:
    """Returns the traffic with its direction reversed, so that data are sent over the link `up`."""
    return {**table, "from": "clients", "to": "servers"}
