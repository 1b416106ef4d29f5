"""Geostationary satellites: a long round trip. Source: RFC 2488, section 2."""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Link, Side, constant_rate
from aqmlab.links.buffer import Buffer


def _link(side: Side) -> Link:
    usual = Buffer(seconds=side.rtt_s)
    source = "the product of rate and round trip, the rule for a single TCP connection, is aqmlab's choice"
    return constant_rate(side, usual, source)


ACCESS = Access(
    name="satellite",
    summary="Geostationary satellite: a round trip of about 600 ms.",
    usual_rates=("20Mbps", "3Mbps"),
    usual_rtt="600ms",
    comment="Geostationary satellite: the signal alone takes up to 558 ms for a round trip (RFC 2488, "
    "section 2). Proxies that split TCP connections, and the assignment of capacity, are not modelled.",
    link=_link,
)
