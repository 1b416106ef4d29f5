"""aqmlab's runs of the recorded pages. The module needs neither a network nor HTTP libraries.

The sizes of requests, responses and frames are those of the recorded programs
(`docs/background/http-pages.md`). No setting is fitted to the recorded times. Differences that remain:
aqmlab's TLS handshake has 517 B and 3000 B, and the recorded one 255 B and 696 B; aqmlab's QUIC handshake has
one packet in each direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import aqmlab as al
from http_pages.rows import Cell

TLS_RECORD = 16_384
"""Maximum payload of a TLS record (RFC 8446, section 5.1) and of a DATA frame, in bytes."""
RECORD_OVERHEAD = 22
"""Header and authentication tag of a TLS record, in bytes."""

PACER_GAIN = 2.0
"""Pacing rate in windows per smoothed round-trip time. aqmlab has no setting that equals aioquic's pacer.
The pacer computes one window per round-trip time, but releases a packet at each event if any time has passed
since the last packet (`QuicPacketPacer.update_after_send` sets an incomplete bucket to zero). In a flow of
acknowledgements, one packet is therefore released by the timer and one by the acknowledgement."""


def scenario(cell: Cell, protocol: str, objects: int, size: int, gain: float = PACER_GAIN) -> al.Scenario:
    """The scenario in which one user fetches one page. `gain` is the pacing rate of QUIC in windows per
    smoothed round-trip time."""
    http = protocol.split("-")[0]
    body, request = _sizes(http, size)
    queue: dict[str, Any] = {"kind": cell.queue}
    if cell.buffer_packets is not None:
        queue["limit"] = f"{cell.buffer_packets}p"
    page: dict[str, Any] = {
        "kind": "sessions",
        "users": 1,
        "think_time": {"kind": "constant", "value": "100ms"},
        "think_from": "page-end",
        "stop": "150ms",
        "request": f"{request}B",
        "objects": {"kind": "constant", "value": objects},
        "object_gap": {"kind": "constant", "value": "0s"},
        "sizes": {"kind": "constant", "value": f"{body}B"},
        "http": http,
        "tls": True,
        "tcp": _quic(protocol, gain) if http == "3" else {"profile": "linux-6"},
    }
    if http != "1.1":
        page["priority"] = "round-robin" if http == "3" else "in-order"
    line = {"rate": f"{cell.rate_mbps:g}Mbps", "delay": f"{cell.rtt_ms / 2:g}ms"}
    back = {**line, "queue": {"kind": "drop-tail", "limit": "225p"}}
    table = {
        "duration": "20s",
        "bottleneck": {**line, "queue": queue, "reverse": back},
        "access": {"rate": "10Gbps", "delay": "0s"},
        # The recorded hosts do not delay packets by random times.
        "host": {"jitter": "0s"},
        "traffic": {"page": page},
    }
    return al.Scenario.from_dict(table, name=f"page over {protocol}")


def _sizes(http: str, size: int) -> tuple[int, int]:
    """The bytes of a response and of a request, with the headers of HTTP and TLS."""
    records = math.ceil(size / TLS_RECORD)
    match http:
        case "1.1":
            return size + 165 + RECORD_OVERHEAD * (1 + records), 166
        case "2":
            # A HEADERS frame, DATA frames with a header of 9 B in two records each, and an empty DATA frame.
            return size + 15 + 9 * (records + 1) + RECORD_OVERHEAD * (2 + 2 * records), 36
        case _:
            return size + 17, 59


def _quic(protocol: str, gain: float) -> dict[str, Any]:
    """aioquic: packets of 1200 B, an acknowledgement after 1 ms, a paced initial window of 12,000 B."""
    return {
        "profile": "quic",
        "congestion_control": {"kind": protocol.split("-")[1], "slow_start_exit": "none"},
        "connection": {"mss": "1165B", "header": "63B"},
        "cwnd": {"growth_when_limited": "grows"},
        "pacing": {"slow_start_ratio": gain, "avoidance_ratio": gain, "unpaced_segments": 2},
        "receiver": {"ack_every": 1000, "delayed_ack_timer": "1ms"},
    }


def page_time(run: al.Run) -> float:
    """The time of the page in seconds; infinite if the page is incomplete."""
    time: float | None = run.tables["pages"]["duration_s"][0]
    return math.inf if time is None else time


def host_time(floor: Sequence[Mapping[str, Any]], protocol: str) -> float:
    """The time in seconds that the programs need until the first byte over the loopback interface, where the
    network takes no time. aqmlab's hosts need none."""
    times = [row["first_byte_s"] for row in floor if row["protocol"] == protocol and row["objects"] == 1]
    return float(median(times))
