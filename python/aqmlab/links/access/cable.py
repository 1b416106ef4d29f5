"""Cable modems: DOCSIS 3.1 with DOCSIS-PIE in the upload direction, and DOCSIS 3.0 with an unmanaged buffer.

Sources: RFC 8034 (DOCSIS-PIE is required on DOCSIS 3.1 modems), tc-cake(8) (`docsis`: 18 bytes of overhead),
G. White, "Right-sizing cable modem buffers for maximum application performance", NCTA Technical Papers 2011.
The requests and grants of the upload channel are not modelled.
"""

from __future__ import annotations

from aqmlab.links.access.kind import RATE, Access, Entry, Link, Side, drop_tail, rate_text, shapers
from aqmlab.links.buffer import PACKET_BYTES, Buffer
from aqmlab.links.measured import Direction

OVERHEAD = 18
"""Bytes of Ethernet header and checksum, which DOCSIS counts for the rate of the contract."""

USUAL = Buffer(seconds=0.1)
USUAL_SOURCE = "100 ms, the default target buffer of DOCSIS 3.1 for the upload direction"

EXCESS = 10
"""Buffers of DOCSIS 3.0 modems in multiples of the bandwidth-delay product."""
LEAST_EXCESS_RTT_S = 0.02
"""Round-trip time for which the excess is computed at least. aqmlab's choice: one modem serves all
servers."""


def _rate(side: Side) -> tuple[float, Entry]:
    if side.is_ip:
        return side.bps, Entry(key="rate", value=rate_text(side.bps), comment=RATE[True])
    bps = side.bps * PACKET_BYTES / (PACKET_BYTES + OVERHEAD)
    comment = (
        f"Rate of IP packets of {PACKET_BYTES} bytes at a rate of {rate_text(side.bps)}. DOCSIS counts "
        f"Ethernet frames, which are {OVERHEAD} bytes longer (tc-cake(8), docsis)."
    )
    return bps, Entry(key="rate", value=rate_text(bps), comment=comment)


def _link(side: Side) -> Link:
    bps, rate = _rate(side)
    if side.direction is Direction.DOWNLOAD or side.buffer is not None:
        queue, comment = drop_tail(
            side, bps, USUAL, f"{USUAL_SOURCE}; the download buffer is aqmlab's choice"
        )
    else:
        queue = {"kind": "docsis-pie", "limit": USUAL.limit_at(bps)}
        comment = (
            "DOCSIS 3.1 modems must use DOCSIS-PIE in the upload direction (RFC 8034). Buffer: "
            f"{USUAL_SOURCE}."
        )
    return Link(entries=[rate], queue=queue, queue_comment=comment, alternatives=shapers(bps))


def _link_3_0(side: Side) -> Link:
    bps, rate = _rate(side)
    if side.direction is Direction.DOWNLOAD:
        usual, source = USUAL, "100 ms are aqmlab's choice"
    else:
        rtt = max(side.rtt_s, LEAST_EXCESS_RTT_S)
        usual = Buffer(seconds=EXCESS * rtt)
        source = (
            f"modems had an order of magnitude more than TCP needs (White 2011), here {EXCESS} times the "
            f"product of rate and {1e3 * rtt:g} ms"
        )
    queue, comment = drop_tail(side, bps, usual, source)
    return Link(entries=[rate], queue=queue, queue_comment=comment, alternatives=shapers(bps))


ACCESS = Access(
    name="cable",
    summary="Cable modem of DOCSIS 3.1, which manages its upload queue with DOCSIS-PIE.",
    usual_rates=("100Mbps", "10Mbps"),
    usual_rtt="20ms",
    comment="Cable modem of DOCSIS 3.1. The requests and grants of the upload channel are not modelled.",
    link=_link,
)

ACCESS_3_0 = Access(
    name="cable-3.0",
    summary="Cable modem of DOCSIS 3.0, with a large unmanaged upload buffer.",
    usual_rates=("50Mbps", "5Mbps"),
    usual_rtt="20ms",
    comment="Cable modem of DOCSIS 3.0. The requests and grants of the upload channel are not modelled.",
    link=_link_3_0,
)
