"""LTE: rates that vary in both directions, and long queues for each user.

The delivery opportunities are those of `aqmlab link generate`, a synthetic model after K. Winstein et al.
2013 (see `aqmlab.traces.link_trace`). A recorded trace describes a real cell better.
"""

from __future__ import annotations

import math

from aqmlab.links.access.kind import Access, Entry, Link, Side, Table
from aqmlab.links.buffer import Buffer
from aqmlab.links.measured import Direction
from aqmlab.traces import link_trace

USUAL = Buffer(packets=500)
USUAL_SOURCE = "500 packets are aqmlab's choice, as in scenarios/phone.toml"

DURATION_S = 60
"""Duration of the traces, which repeat."""

MOST_BPS = 24e6
"""Highest mean rate of the generator. Beyond this rate, each opportunity delivers several packets."""

SEEDS = {Direction.DOWNLOAD: 1, Direction.UPLOAD: 2}


def _link(side: Side) -> Link:
    packets = math.ceil(side.bps / MOST_BPS)
    ending = f"{'down' if side.direction is Direction.DOWNLOAD else 'up'}.trace"
    times = list(link_trace.opportunities(side.bps / packets, DURATION_S, SEEDS[side.direction]))
    if not times:
        raise ValueError(f"rate: is too low for the model of {side.direction}s in LTE (got {side.bps:g} bps)")
    value: Table = {"file": ending}
    if packets > 1:
        value["bytes"] = f"{1504 * packets}B"
    buffer = side.buffer or USUAL
    known = "known or measured" if side.buffer else f"assumed: {USUAL_SOURCE}"
    return Link(
        entries=[
            Entry(
                key="opportunities",
                value=value,
                comment=f"Synthetic delivery opportunities with a mean rate of about {side.bps / 1e6:.4g} "
                f"Mbps, like those of `aqmlab link generate --seed {SEEDS[side.direction]}` (model after "
                "Winstein et al. 2013).",
            )
        ],
        queue={"kind": "drop-tail", "limit": buffer.limit_at(side.bps)},
        queue_comment=f"Buffer of {buffer} ({known}).",
        files={ending: "".join(f"{time}\n" for time in times)},
    )


ACCESS = Access(
    name="lte",
    summary="LTE: rates that vary in both directions (synthetic), and long queues.",
    usual_rates=("20Mbps", "5Mbps"),
    usual_rtt="50ms",
    comment="LTE, with a synthetic model of the varying rates. Scheduling grants and retransmissions are "
    "not modelled.",
    link=_link,
)
