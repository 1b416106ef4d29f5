"""The losses of a flow, and the time that each loss cost.

The cost of a loss is the time by which the loss delayed the delivery of the packet's first byte to the
receiving program. TCP delivers bytes in order. Without the loss, the byte would have been delivered when the
packet arrived and all earlier bytes had been delivered, whichever is later. With the loss, the byte is
delivered when the next transmission of the byte arrives and all earlier bytes have been delivered. The cost
is the difference between these two times. If the next transmission is lost, too, its expected arrival takes
the place of its arrival, so that the costs of all losses of a byte add up to the delay of the byte.

The time at which a dropped packet would have arrived is estimated: its one-way delay is interpolated between
the delays of the nearest packets of the flow that arrived. All other times are recorded. Earlier bytes are
delivered when they were delivered in the run, so no wait counts twice, and a loss costs nothing if the byte
had to wait for earlier bytes anyway. The cost does not include later effects of a loss: the smaller window,
and the capacity that a retransmission uses.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from aqmlab.explain.packets import AffectedPacket, Direction, Packet

Repair = Literal["fast retransmit", "time-out", "probe", "retransmission"]


@dataclass(frozen=True, kw_only=True)
class Loss(AffectedPacket):
    """A dropped packet of a connection."""

    reason: str
    window: int | None
    """The sender's window in segments, if the packet contained it."""
    average: float | None
    probability: float | None
    count: int | None
    draw: float | None
    sent_again_s: float | None
    """Time of the next transmission of the first byte; `None` if there is none."""
    repair: Repair | None
    """Event that triggered the next transmission; `None` if there is none."""
    expected_s: float | None
    """Estimated time at which the packet would have arrived."""
    delivered_s: float | None
    """Time at which the first byte was delivered in order; `None` if it was not delivered."""
    cost_s: float | None
    """Delay that the loss caused; `None` if the byte was not delivered, or if the packet carried no data."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the loss for JSON."""
        return asdict(self)


def losses(direction: Direction) -> list[Loss]:
    """Returns the losses of a direction in chronological order of the drops. The repairs are
    `retransmission`."""
    found = [
        _loss(direction, index)
        for index, packet in enumerate(direction.packets)
        if packet.dropped_s is not None and packet.carries
    ]
    return sorted(found, key=lambda loss: loss.time_s)


def _loss(direction: Direction, index: int) -> Loss:
    packet = direction.packets[index]
    following = _next(direction, index)
    later = None if following is None else direction.packets[following]
    details = packet.drop or {}
    delivered = direction.delivered_s(packet.begin + 1)
    assert packet.dropped_s is not None
    return Loss(
        **direction.properties(packet),
        time_s=packet.dropped_s,
        link=packet.link or "",
        reason=str(details.get("reason", "")),
        window=details.get("window"),
        average=details.get("average"),
        probability=details.get("probability"),
        count=details.get("count"),
        draw=details.get("draw"),
        sent_again_s=None if later is None else later.sent_s,
        repair=None if later is None else "retransmission",
        expected_s=direction.expected_arrival_s(index),
        delivered_s=delivered,
        cost_s=_cost(direction, index, following),
    )


def _next(direction: Direction, index: int) -> int | None:
    """Returns the index of the next transmission of the first byte of a packet."""
    byte = direction.packets[index].begin
    for number in range(index + 1, len(direction.packets)):
        other = direction.packets[number]
        if other.begin <= byte < other.end:
            return number
    return None


def _cost(direction: Direction, index: int, following: int | None) -> float | None:
    packet = direction.packets[index]
    earlier = direction.delivered_s(packet.begin)
    expected = direction.expected_arrival_s(index)
    if earlier is None or expected is None:
        return None
    first = min(
        (one.received_s for one in _transmissions(direction, packet.begin) if one.received_s is not None),
        default=None,
    )
    if first is not None and first <= expected:
        return 0.0  # Another transmission of the byte arrives earlier, so the lost packet was not needed.
    if following is None:
        return None
    other = direction.packets[following]
    arrival = direction.expected_arrival_s(following) if other.received_s is None else other.received_s
    if arrival is None or (other.received_s is None and other.dropped_s is None):
        return None
    return max(0.0, max(arrival, earlier) - max(expected, earlier))


def _transmissions(direction: Direction, byte: int) -> list[Packet]:
    return [one for one in direction.packets if one.begin <= byte < one.end]
