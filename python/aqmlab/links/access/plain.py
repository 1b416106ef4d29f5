"""A link about which only rates and buffers are known."""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Entry, Link, Side, drop_tail, rate_text, shapers
from aqmlab.links.buffer import Buffer

USUAL = Buffer(seconds=0.1)

RATE = {False: "Rate of IP packets, as given.", True: "Measured rate, in bits of IP packets."}
"""Comment at the rate, by whether the rate was measured."""


def _link(side: Side) -> Link:
    queue, comment = drop_tail(side, side.bps, USUAL, "100 ms are aqmlab's choice")
    rate = Entry(key="rate", value=rate_text(side.bps), comment=RATE[side.is_ip])
    return Link(entries=[rate], queue=queue, queue_comment=comment, alternatives=shapers(side.bps))


ACCESS = Access(
    name="plain",
    summary="Any other link: constant rates, and a buffer that drops packets when it is full.",
    usual_rates=("20Mbps", "5Mbps"),
    usual_rtt="20ms",
    comment="A link with constant rates and nothing else.",
    link=_link,
)
