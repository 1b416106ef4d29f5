"""Fibre to the home.

The rate of a passive optical network is shared, and the operator's router shapes each customer to the rate
of the contract. Grants of the upstream channel are not modelled.
"""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Entry, Link, Side, drop_tail, rate_text, shapers
from aqmlab.links.access.plain import RATE
from aqmlab.links.buffer import Buffer

USUAL = Buffer(seconds=0.1)

CONTRACT = (
    "Rate of the contract, taken as a rate of IP packets: aqmlab's choice, because operators count "
    "differently. An error of 18 bytes per packet is 1.2 %."
)


def _link(side: Side) -> Link:
    source = "aqmlab knows no published size, and 100 ms are aqmlab's choice"
    queue, comment = drop_tail(side, side.bps, USUAL, source)
    rate = Entry(
        key="rate",
        value=rate_text(side.bps),
        comment=RATE[True] if side.is_ip else CONTRACT,
    )
    return Link(entries=[rate], queue=queue, queue_comment=comment, alternatives=shapers(side.bps))


ACCESS = Access(
    name="fibre",
    summary="Fibre to the home (GPON, XGS-PON, Ethernet).",
    usual_rates=("500Mbps", "100Mbps"),
    usual_rtt="10ms",
    comment="Fibre to the home. The requests and grants of a passive optical network are not modelled.",
    link=_link,
)
