"""The network of report cards: one line each way between servers and clients.

RFC 7928, section 3: a dumbbell whose line is the same both ways, or ten times slower on the way back. The
queues of both ways are Drop Tail with room for the bandwidth-delay product of the longest round trip, until
`queues.py` puts another queue in their place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aqmlab.sweep import Changes

Table = dict[str, Any]

RATE_MBPS = 10.0
ROUND_TRIP_MS = 100.0
PACKET = 1500
"""Bytes of a full packet, all headers included."""
WARM_UP_S = 10.0
DURATION_S = 60.0

DROP_TAIL = "drop-tail"
"""The queue that RFC 7928, section 1.1, compares others with."""

DOWN, UP = "down", "up"
"""The links: data go down, except for the data that a scenario sends up."""

HOST_MS = 0.5
"""The delay of an access line."""

LINES = Changes({"symmetric": {}, "asymmetric": {f"links.{UP}.rate": "1Mbps"}})
"""The line, and one whose way back is ten times slower."""


def room_of(rate_mbps: float = RATE_MBPS, round_trip_ms: float = ROUND_TRIP_MS) -> int:
    """The bandwidth-delay product in full packets, rounded up."""
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
    """A line and its traffic, which goes down unless the traffic says otherwise.

    Round trips are those without queues; `longest_ms` is the round trip of the flow farthest away, if that
    flow has a delay of its own. The queues have room for so many bandwidth-delay `products`. The run records
    the fate of each packet at the links `packets`."""
    packets_of_room = max(1, math.ceil(products * room_of(rate_mbps, longest_ms or round_trip_ms)))
    room = {"kind": DROP_TAIL, "limit": f"{packets_of_room}p"}
    line = {"rate": f"{rate_mbps:g}Mbps", "delay": f"{round_trip_ms / 2 - 2 * HOST_MS:g}ms", "queue": room}
    return {
        "duration": f"{duration_s:g}s",
        "warm_up": f"{warm_up_s:g}s",
        "links": {
            DOWN: {"from": "servers", "to": "clients", **line},
            UP: {"from": "clients", "to": "servers", **line},
        },
        "access": {"rate": "1Gbps", "delay": f"{HOST_MS:g}ms"},
        "tcp": {"profile": "linux-6", "congestion_control": {"kind": "reno"}},
        "traffic": {name: {"from": "servers", "to": "clients", **table} for name, table in traffic.items()},
        "record": {"drops": False, "queue_every": "0s", "packets": list(packets)},
    }


def going_up(table: Mapping[str, Any]) -> Table:
    """Traffic whose data go up."""
    return {**table, "from": "clients", "to": "servers"}
