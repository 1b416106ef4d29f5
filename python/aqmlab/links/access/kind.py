"""What a kind of access declares, and the tables of a scenario that a kind returns.

A new kind is one module with an `Access`, and one line in `aqmlab.links.access`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqmlab.links.buffer import Buffer
from aqmlab.links.measured import Direction

Table = dict[str, Any]

SHAPED_SHARE = 0.95
"""Share of the line's rate to which the alternative queues of a scenario shape the traffic, so that the
queue is in the home router and not in the modem. aqmlab's choice; guides to SQM recommend 80 % to 95 %."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """What is known about one direction of a line."""

    direction: Direction
    bps: float
    """Rate in bit/s."""
    is_ip: bool
    """Whether the rate counts IP packets, because it was measured. Otherwise, the rate is the rate of the
    contract or of the modem's status page."""
    rtt_s: float
    buffer: Buffer | None = None
    """The buffer, if the user knows it or a file shows it."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A key of a table, with a comment that states the source of the value."""

    key: str
    value: Any
    comment: str


@dataclass(frozen=True, kw_only=True)
class Link:
    """The parts of the table `[bottleneck]` or `[bottleneck.reverse]` that depend on the kind of access."""

    entries: Sequence[Entry]
    """The keys except `delay` and `queue`."""
    queue: Table
    """The queue as it is today."""
    queue_comment: str
    alternatives: Mapping[str, Table] = field(default_factory=dict)
    """Other queues for the upload direction, by name; empty if the rate of the line varies, so that a shaper
    with a constant rate would be useless."""
    alternatives_comment: str = (
        "shapers in the home router at 95 % of the rate, so that the queue is in the router"
    )
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of files, by the ending of the file's name, such as `down.trace`."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """A kind of access."""

    name: str
    summary: str
    usual_rates: tuple[str, str]
    """Rates down and up that `aqmlab live shell --profile` uses: aqmlab's choice."""
    usual_rtt: str
    """Round-trip time that `aqmlab link new` suggests: aqmlab's choice unless `comment` names a source."""
    comment: str
    """Comment at the beginning of the scenario: the parts of the line that are modelled."""
    link: Callable[[Side], Link]


def rate_text(bps: float) -> str:
    """Returns a rate as the value of a parameter, rounded to six significant digits."""
    for factor, unit in ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")):
        if bps >= factor:
            return f"{bps / factor:.6g}{unit}"
    return f"{round(bps)}bps"


def drop_tail(side: Side, bps: float, usual: Buffer, source: str) -> tuple[Table, str]:
    """Returns a Drop Tail queue with the known buffer or with the usual one, and its comment. `bps` is the
    rate at which the buffer empties, and `source` names the source of the usual size."""
    buffer = side.buffer or usual
    origin = "known or measured" if side.buffer else f"assumed: {source}"
    time = "" if buffer.seconds else f", which is {8e3 * buffer.bytes_at(bps) / bps:.4g} ms at this rate"
    comment = f"Buffer of {buffer}{time} ({origin})."
    return {"kind": "drop-tail", "limit": buffer.limit_at(bps)}, comment


RATE = {False: "Rate of IP packets, as given.", True: "Measured rate, in bits of IP packets."}
"""Comment at the rate of a link without framing, by whether the rate was measured."""


def constant_rate(side: Side, usual: Buffer, source: str, given: str = RATE[False]) -> Link:
    """Returns a link with the rate of a side, a Drop Tail queue and shapers. `usual` is the usual buffer,
    `source` names the source of its size, and `given` is the comment at a rate that was not measured."""
    queue, comment = drop_tail(side, side.bps, usual, source)
    rate = Entry(key="rate", value=rate_text(side.bps), comment=RATE[True] if side.is_ip else given)
    return Link(entries=[rate], queue=queue, queue_comment=comment, alternatives=shapers(side.bps))


def shapers(bps: float) -> dict[str, Table]:
    """Returns shapers of `SHAPED_SHARE` of a rate: HTB with FQ-CoDel, and CAKE."""
    rate = rate_text(SHAPED_SHARE * bps)
    return {
        "sqm-fq-codel": {"kind": "htb", "classes": {"line": {"rate": rate, "queue": {"kind": "fq-codel"}}}},
        "sqm-cake": {"kind": "cake", "bandwidth": rate},
    }
