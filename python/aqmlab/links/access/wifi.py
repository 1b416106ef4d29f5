"""Wi-Fi with one station: bursts of packets, each of which costs a fixed time of the medium.

Source: T. Høiland-Jørgensen et al., "Ending the "
"Anomaly", USENIX ATC 2017 (arXiv 1703.00064), section 2.2.1: in front of
each aggregate, the sender waits for DIFS and a backoff of 68 us on average, and afterwards for SIFS and the
block acknowledgement.
"""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Entry, Link, Side, drop_tail, rate_text
from aqmlab.links.buffer import Buffer

GAP_US = 34 + 68 + 32 + 16 + 32
"""DIFS, mean backoff (15/2 slots of 9 us), preamble of the burst, SIFS, and block acknowledgement at 24
Mb/s, in microseconds (IEEE 802.11-2016, OFDM at 5 GHz)."""

PACKETS = 64
"""Maximum number of packets in a burst: the window of a block acknowledgement of IEEE 802.11n."""

USUAL = Buffer(packets=1000)


def _link(side: Side) -> Link:
    queue, comment = drop_tail(
        side, side.bps, USUAL, "1000 packets, the queue of a Linux interface (txqueuelen)"
    )
    return Link(
        entries=[
            Entry(key="rate", value=rate_text(side.bps), comment="Physical rate of the station, as given."),
            Entry(
                key="aggregation",
                value={"packets": PACKETS, "max_wait": "0s", "gap": f"{GAP_US}us"},
                comment=f"Bursts of the packets that are waiting, at most {PACKETS} (block acknowledgement "
                "of IEEE 802.11n). Each burst costs DIFS, a mean backoff, a preamble, SIFS and a block "
                "acknowledgement (Høiland-Jørgensen et al. 2017).",
            ),
        ],
        queue=queue,
        queue_comment=comment,
    )


ACCESS = Access(
    name="wifi",
    summary="Wi-Fi with one station: bursts of packets with a fixed cost of the medium.",
    usual_rtt="10ms",
    comment="Wi-Fi with one station, as the bottleneck. Both directions have their own medium, although "
    "real stations share one; retransmissions and rate control are not modelled.",
    link=_link,
)
