"""The marks (ECN) of a flow's packets: the queue that marked each packet, and what the sender did.

A marked packet arrives, so a mark delays no data, and a mark has no cost in the sense of `losses.py`. The
price of a mark is the smaller window after the sender's response. The table `senders` contains this window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from aqmlab.explain.packets import Acknowledgements, AffectedPacket, Direction, Packet, Row
from aqmlab.explain.sender import Reaction

if TYPE_CHECKING:
    import polars as pl

PROBABILITIES = ("probability", "prob")
"""The gauges that contain the probability of a discipline. `prob` is the name in the kernel."""


@dataclass(frozen=True, kw_only=True)
class Mark(AffectedPacket):
    """A marked packet of a flow."""

    arrived_s: float
    """Time at which the packet arrived at the queue."""
    length_packets: int | None
    """Number of queued packets after this arrival, including the packet."""
    average: float | None
    """The discipline's average queue length after this arrival; `None` if the discipline has no average."""
    probability: float | None
    """The discipline's probability at the last sample before this arrival; `None` if the discipline does not
    report a probability."""
    received_s: float | None
    """Time at which the packet arrived at its destination; `None` if another queue dropped the packet."""
    echo_s: float | None = None
    """Time at which the sender received the acknowledgement of the packet; `None` if unknown."""
    window_before: float | None = None
    """Congestion window before this acknowledgement, in segments."""
    window_after: float | None = None
    """Congestion window after this acknowledgement, in segments."""
    window_next: float | None = None
    """Congestion window one smoothed round-trip time later, in segments; `None` if the flow ended before."""
    response_s: float | None = None
    """Time of the sender's response to the mark, which may precede the acknowledgement of the packet, because
    a sender responds at most once per round trip; `None` if the sender did not respond."""

    @property
    def waited_s(self) -> float:
        """The time that the packet spent in the queue."""
        return self.time_s - self.arrived_s

    @property
    def waited_ms(self) -> float:
        """The time that the packet spent in the queue, in milliseconds."""
        return 1000 * self.waited_s

    def to_dict(self) -> dict[str, Any]:
        """Returns the mark for JSON."""
        return {**asdict(self), "waited_s": self.waited_s}


def marks(direction: Direction, gauges: pl.DataFrame) -> list[Mark]:
    """Returns the marked packets of a direction in chronological order. `gauges` is the table of the run."""
    marked = [packet for packet in direction.packets if packet.marking is not None]
    samples = {link: _samples(gauges, link) for link in {one.marking.link for one in marked if one.marking}}
    found = [_mark(packet, direction, samples) for packet in marked if packet.carries]
    return sorted(found, key=lambda mark: mark.time_s)


Samples = tuple[list[float], list[float]]
"""Times and values of a gauge."""


def _samples(gauges: pl.DataFrame, link: str) -> Samples:
    """Returns the samples of the probability of a link's discipline."""
    import polars as pl

    words = gauges.with_columns(pl.col("link", "name").cast(pl.String))
    rows = words.filter((pl.col("link") == link) & pl.col("name").is_in(PROBABILITIES))
    return rows["time_s"].to_list(), rows["value"].to_list()


def _mark(packet: Packet, direction: Direction, samples: dict[str, Samples]) -> Mark:
    marking = packet.marking
    assert marking is not None
    times, values = samples[marking.link]
    at = bisect_left(times, marking.arrived_s)
    return Mark(
        **direction.properties(packet),
        time_s=marking.left_s,
        link=marking.link,
        arrived_s=marking.arrived_s,
        length_packets=marking.length_packets,
        average=marking.average,
        probability=values[at - 1] if at else None,
        received_s=packet.received_s,
    )


def with_responses(
    marks: Sequence[Mark], senders: pl.DataFrame, rows: Sequence[Row], reactions: Sequence[Reaction]
) -> list[Mark]:
    """Returns the marks of a flow, of which those of the forward direction have the sender's response.
    `senders` contains the rows of the flow, `rows` its events, and `reactions` the sender's reactions."""
    times, states = senders["time_s"].to_list(), senders["state"].to_list()
    windows = senders["cwnd_segments"].to_list()
    round_trips = senders["srtt_s"].to_list()
    acknowledgements = Acknowledgements(rows)

    def answered(mark: Mark) -> Mark:
        echo_s = None
        if not mark.backward and mark.received_s is not None:
            echo_s = acknowledgements.first(mark.first_byte, mark.received_s)
        if echo_s is None or not times:
            return mark
        before, after = bisect_left(times, echo_s), bisect_right(times, echo_s)
        later_s = echo_s + (round_trips[after - 1] or 0.0) if after else None
        later = bisect_right(times, later_s) if later_s is not None else 0
        return replace(
            mark,
            echo_s=echo_s,
            window_before=windows[before - 1] if before else None,
            window_after=windows[after - 1] if after else None,
            window_next=windows[later - 1] if 0 < later < len(times) else None,
            response_s=_response(
                mark, echo_s, reactions, repairs=after > 0 and states[after - 1] == "RECOVERY"
            ),
        )

    return [answered(mark) for mark in marks]


def _response(mark: Mark, echo_s: float, reactions: Sequence[Reaction], *, repairs: bool) -> float | None:
    """Returns the time of the reaction that responds to a mark: the reaction to the packet's acknowledgement
    or, if the sender has reduced the window since it sent the packet or `repairs` losses, the last reduction
    (RFC 3168, section 6.1.2)."""
    reduced = [
        one.time_s
        for one in reactions
        if one.kind in ("mark", "fast retransmit", "time-out") and one.time_s <= echo_s
    ]
    return reduced[-1] if reduced and (repairs or reduced[-1] >= mark.sent_s) else None
