"""aqmlab's runs of the recorded links. The module needs neither a network nor HTTP libraries.

No setting is fitted to the record. The settings follow from the source of cf-mach 0.4.0
(`src/nq_rpm/mod.rs`), whose algorithm differs from the draft:

- mach opens a connection when a direction begins, after 1 s, and then every 2 s. aqmlab opens a connection
  when a direction begins and then every 2 s, so that each number of connections is reached one second later.
  `result.py` allows for this second.
- mach sends one probe at a time, foreign and self probes in turn.
- Neither program stops early, because no result counts as stable.
- mach enables Nagle's algorithm, and its HTTP library sends DATA frames of 16,384 B.
- The sizes of the TLS messages are those of the two programs, as read from a packet capture: a ClientHello
  with the key exchange X25519MLKEM768, and a self-signed certificate.
"""

from __future__ import annotations

from typing import Any

import aqmlab as al
from rpm.links import NOT_SENT, Cell

NEVER = 1e-9
"""Tolerance with which results are never stable, as with mach's `--std 0`."""


def scenario(cell: Cell) -> al.Scenario:
    """The scenario in which a test measures one link."""
    test: dict[str, Any] = {
        "kind": "responsiveness",
        "interval": "2s",
        "moving_average": 2,
        "limit": "14s",
        "tolerance": NEVER,
        "probing": "sequential",
        "client_hello": "1467B",
        "server_flight": "697B",
        "nagle": True,
        "upload_frame": "16384B",
        "send_buffer": f"{NOT_SENT}B",
        "tcp": {"profile": "linux-6"},
    }
    table = {
        "duration": "40s",
        "bottleneck": cell.bottleneck(),
        "access": {"rate": "10Gbps", "delay": "0s"},
        "traffic": {"test": test},
    }
    return al.Scenario.from_dict(table, name=f"{cell.rate_mbps:g} Mb/s, {cell.rtt_ms:g} ms, {cell.queue}")
