"""Fibre to the home.

The rate of a passive optical network is shared, and the operator's router shapes each customer to the rate
of the contract. Grants of the upstream channel are not modelled.
"""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Link, Side, constant_rate
from aqmlab.links.buffer import Buffer

USUAL = Buffer(seconds=0.1)

CONTRACT = (
    "Rate of the contract, taken as a rate of IP packets: aqmlab's choice, because operators count "
    "differently. An error of 18 bytes per packet is 1.2 %."
)


def _link(side: Side) -> Link:
    source = "aqmlab knows no published size, and 100 ms are aqmlab's choice"
    return constant_rate(side, USUAL, source, CONTRACT)


ACCESS = Access(
    name="fibre",
    summary="Fibre to the home (GPON, XGS-PON, Ethernet).",
    usual_rates=("500Mbps", "100Mbps"),
    usual_rtt="10ms",
    comment="Fibre to the home. The requests and grants of a passive optical network are not modelled.",
    link=_link,
)
