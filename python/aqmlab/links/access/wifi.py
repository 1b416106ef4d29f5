"""Wi-Fi with one station: the queue `wifi`, whose aggregates each cost a fixed time of the medium.

Source: T. Høiland-Jørgensen et al., "Ending the Anomaly", USENIX ATC 2017 (arXiv 1703.00064), and ath9k; see
`aqmlab show wifi`.
"""

from __future__ import annotations

from aqmlab.links.access.kind import Access, Entry, Link, Side, drop_tail, rate_text
from aqmlab.links.buffer import Buffer

USUAL = Buffer(packets=1000)


def _link(side: Side) -> Link:
    queue, comment = drop_tail(
        side, side.bps, USUAL, "1000 packets, the queue of a Linux interface (txqueuelen)"
    )
    rate = Entry(key="rate", value=rate_text(side.bps), comment="Physical rate of the station, as given.")
    return Link(
        entries=[rate],
        queue={"kind": "wifi", "scheduler": "fifo", "queue": queue},
        queue_comment=f"Aggregates of up to 32 packets; a driver with up to 123 packets (ath9k). {comment}",
        alternatives={"fq-codel": {"kind": "wifi", "scheduler": "airtime", "queue": {"kind": "fq-codel"}}},
        alternatives_comment="FQ-CoDel in the access point, as in Linux since 4.11",
    )


ACCESS = Access(
    name="wifi",
    summary="Wi-Fi with one station: aggregates of packets with a fixed cost of the medium.",
    usual_rates=("50Mbps", "50Mbps"),
    usual_rtt="10ms",
    comment="Wi-Fi with one station, as the bottleneck. Both directions have their own medium, although "
    "real stations share one; retransmissions and rate control are not modelled.",
    link=_link,
)
