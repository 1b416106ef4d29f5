"""A link about which only rates and buffers are known."""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Link, Side, constant_rate
from aqmlab.links.buffer import Buffer

USUAL = Buffer(seconds=0.1)


def _link(side: Side) -> Link:
    return constant_rate(side, USUAL, "100 ms are aqmlab's choice")


ACCESS = Access(
    name="plain",
    summary="Any other link: constant rates, and a buffer that drops packets when it is full.",
    usual_rates=("20Mbps", "5Mbps"),
    usual_rtt="20ms",
    comment="A link with constant rates and nothing else.",
    link=_link,
)
