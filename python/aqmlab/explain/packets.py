"""The packets of a flow with their fates, reconstructed from the table `packets`.

Each direction of a TCP connection is analysed separately. The SYN precedes the data and has the sequence
number -1, and a FIN follows the data and counts as one byte.

The table has no event for a mark. At a link in `record.packets`, the row `enqueue` contains the codepoint
with which a packet arrived, and the row `start` contains the codepoint with which the packet left the queue.
A queue marked the packet if only the latter is `ce`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import polars as pl

FIN, SYN, ACK, ECE = 1, 2, 16, 64
"""Values of TCP flags in the column `flags`."""


class Row(NamedTuple):
    """A row of the table `packets`."""

    time_s: float
    event: str
    link: str | None
    backward: bool
    sequence_bytes: int
    payload_bytes: int
    size_bytes: int
    ack_bytes: int | None
    flags: int | None
    ecn: str
    length_packets: int | None = None
    average: float | None = None

    @property
    def begin(self) -> int:
        """The first sequence number; -1 for a SYN."""
        return -1 if (self.flags or 0) & SYN else self.sequence_bytes

    @property
    def end(self) -> int:
        """The sequence number after the packet."""
        return self.sequence_bytes + self.payload_bytes + ((self.flags or 0) & FIN)


class Marking(NamedTuple):
    """The passage of a packet through the queue that marked the packet."""

    link: str
    arrived_s: float
    left_s: float
    """Time at which the transmission of the packet began."""
    length_packets: int | None
    """Number of queued packets after the arrival, including the packet."""
    average: float | None
    """The discipline's average after the arrival; `None` if the discipline has no average."""


@dataclass(kw_only=True)
class Packet:
    """A packet that an end of the flow sent, with the packet's fate."""

    sent_s: float
    begin: int
    end: int
    size_bytes: int
    flags: int | None
    again: bool
    """Whether the packet is a retransmission."""
    received_s: float | None = None
    dropped_s: float | None = None
    link: str | None = None
    """Link of the queue that dropped the packet."""
    marked: bool = False
    """Whether the packet arrived with a mark."""
    drop: dict[str, Any] | None = None
    """The row of the table `drops`."""
    marking: Marking | None = None
    """How the packet got its mark; `None` if no link in `record.packets` marked the packet."""
    links: list[str] = field(default_factory=list)
    """The links in `record.packets` that the packet has left."""

    @property
    def is_syn(self) -> bool:
        """Whether the packet is a SYN or a SYN-ACK."""
        return self.begin < 0

    @property
    def payload_bytes(self) -> int:
        """Number of payload bytes."""
        return max(0, self.end - max(self.begin, 0) - ((self.flags or 0) & FIN))

    @property
    def carries(self) -> bool:
        """Whether the packet occupies sequence numbers."""
        return self.end > self.begin


@dataclass(frozen=True, kw_only=True)
class AffectedPacket:
    """A packet of a flow that a queue dropped or marked."""

    time_s: float
    """Time of the drop, or time at which the packet left the queue with the mark."""
    sent_s: float
    link: str
    """Link of the queue."""
    backward: bool
    """Whether the packet travelled from the receiver of the data to the sender, as requests do."""
    first_byte: int
    """Sequence number of the first byte; -1 for a SYN."""
    payload_bytes: int
    size_bytes: int
    is_syn: bool
    flags: int | None
    """TCP flags of the packet; `None` for QUIC and datagrams."""
    again: bool
    """Whether the packet was a retransmission."""


@dataclass(kw_only=True)
class Direction:
    """The packets that one end of a flow sent, in chronological order."""

    backward: bool
    packets: list[Packet] = field(default_factory=list)
    lost_acknowledgements: int = 0
    """Number of bare acknowledgements that queues dropped."""
    progress: list[tuple[int, float]] = field(default_factory=list)
    """The numbers of bytes that had arrived in order, ascending, with the times at which they were
    reached."""

    def properties(self, packet: Packet) -> dict[str, Any]:
        """Returns the fields of an `AffectedPacket` that do not depend on the queue."""
        return {
            "sent_s": packet.sent_s,
            "backward": self.backward,
            "first_byte": packet.begin,
            "payload_bytes": packet.payload_bytes,
            "size_bytes": packet.size_bytes,
            "is_syn": packet.is_syn,
            "flags": packet.flags,
            "again": packet.again,
        }

    def delivered_s(self, sequence: int) -> float | None:
        """Returns the time at which all bytes before `sequence` had arrived; minus infinity if there are no
        such bytes, and `None` if the bytes never arrived."""
        if sequence < 0:
            return float("-inf")
        at = bisect_left(self.progress, (sequence, float("-inf")))
        return self.progress[at][1] if at < len(self.progress) else None

    def expected_arrival_s(self, index: int) -> float | None:
        """Returns the time at which a dropped packet would have arrived. The delay of the packet is
        interpolated between the delays of the nearest packets, before and after, that arrived. Returns `None`
        if no packet of this direction arrived."""
        sent = self.packets[index].sent_s

        def delay(numbers: range) -> tuple[float, float] | None:
            for number in numbers:
                near = self.packets[number]
                if near.received_s is not None:
                    return near.sent_s, near.received_s - near.sent_s
            return None

        before = delay(range(index - 1, -1, -1))
        after = delay(range(index + 1, len(self.packets)))
        if before is None or after is None:
            known = before or after
            return None if known is None else sent + known[1]
        (from_s, first), (to_s, last) = before, after
        share = 0.5 if to_s <= from_s else (sent - from_s) / (to_s - from_s)
        return sent + first + share * (last - first)


class Acknowledgements:
    """The acknowledgements, with their SACK blocks, that arrived at the sender of the data."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = [row for row in rows if row.event in ("acknowledge", "sack")]
        self._times = [row.time_s for row in self._rows]

    def first(self, byte: int, after_s: float) -> float | None:
        """Returns the time of the first acknowledgement of a byte after `after_s`. The byte -1 is a SYN."""
        for row in self._rows[bisect_right(self._times, after_s) :]:
            begin = -1 if row.event == "acknowledge" else row.sequence_bytes
            if begin <= byte < row.sequence_bytes + row.payload_bytes:
                return row.time_s
        return None


def rows_of(packets: pl.DataFrame, flow: int) -> list[Row]:
    """Returns the events at the ends of a flow, the drops of its packets, and the passages of its packets
    through the queues of links in `record.packets`, in chronological order."""
    import polars as pl

    events = packets.filter(pl.col("flow") == flow).with_columns(
        pl.col("event", "link", "ecn").cast(pl.String)
    )
    at_queues = pl.col("event").is_in(["drop", "enqueue", "start"])
    events = events.filter(pl.col("link").is_null() | at_queues)
    return [Row(*row) for row in events.select(Row._fields).iter_rows()]


def directions(rows: list[Row], drops: list[dict[str, Any]]) -> tuple[Direction, Direction]:
    """Returns the forward and the backward direction of a flow. `drops` contains the flow's rows of the table
    `drops`, which has a row for each event `drop` of `rows`."""
    found = (Direction(backward=False), Direction(backward=True))
    in_network: tuple[dict[tuple[int, int], deque[Packet]], ...] = ({}, {})
    details: dict[tuple[float, str], deque[dict[str, Any]]] = {}
    queued: dict[tuple[str | None, bool, int, int], deque[Row]] = {}
    for one in drops:
        details.setdefault((one["time_s"], one["link"]), deque()).append(one)
    for row in rows:
        direction, travelling = found[row.backward], in_network[row.backward]
        key = (row.begin, row.end)
        if row.event in ("send", "retransmit"):
            packet = Packet(
                sent_s=row.time_s,
                begin=row.begin,
                end=row.end,
                size_bytes=row.size_bytes,
                flags=row.flags,
                again=row.event == "retransmit",
            )
            direction.packets.append(packet)
            travelling.setdefault(key, deque()).append(packet)
        elif row.event == "receive" and travelling.get(key):
            packet = travelling[key].popleft()
            packet.received_s, packet.marked = row.time_s, row.ecn == "ce"
        elif row.event == "enqueue":
            queued.setdefault((row.link, row.backward, *key), deque()).append(row)
        elif row.event == "start":
            if of_queue := queued.get((row.link, row.backward, *key)):
                _leave(travelling.get(key, ()), of_queue.popleft(), row)
        elif row.event == "drop":
            if of_queue := queued.get((row.link, row.backward, *key)):
                of_queue.pop()
            waiting = details.get((row.time_s, row.link or ""))
            detail = waiting.popleft() if waiting else None
            if not travelling.get(key):
                # The sending of a bare acknowledgement is not recorded, but its drop is.
                direction.lost_acknowledgements += 1
                continue
            # If two copies of the data are in the network, the earlier one has usually passed the queue.
            packet = travelling[key].pop()
            packet.dropped_s, packet.link, packet.drop = row.time_s, row.link, detail
    for direction in found:
        _mark_repeated(direction)
        direction.progress = _progress(direction.packets)
    return found


def _leave(copies: Iterable[Packet], arrived: Row, left: Row) -> None:
    """Records that a packet has left a queue. `copies` contains the transmissions of the packet's data that
    are in the network, the earliest first."""
    packet = next((one for one in copies if left.link not in one.links), None)
    if packet is None or left.link is None:
        return  # The sending of a bare acknowledgement is not recorded.
    packet.links.append(left.link)
    if left.ecn == "ce" != arrived.ecn:
        packet.marking = Marking(
            left.link, arrived.time_s, left.time_s, arrived.length_packets, arrived.average
        )


def _mark_repeated(direction: Direction) -> None:
    """Marks repeated SYNs as retransmissions, because the table records them as sent."""
    seen: set[int] = set()
    for packet in direction.packets:
        if packet.is_syn:
            packet.again = packet.again or packet.begin in seen
            seen.add(packet.begin)


def _progress(packets: list[Packet]) -> list[tuple[int, float]]:
    """Returns the numbers of bytes that had arrived in order, and the times at which they were reached."""
    arrived = sorted(
        (one for one in packets if one.received_s is not None), key=lambda one: one.received_s or 0.0
    )
    next_byte, waiting = -1, dict[int, int]()
    found = []
    for packet in arrived:
        waiting[packet.begin] = max(waiting.get(packet.begin, -1), packet.end)
        before = next_byte
        while usable := [begin for begin in waiting if begin <= next_byte]:
            next_byte = max([next_byte, *(waiting.pop(begin) for begin in usable)])
        if next_byte > before and packet.received_s is not None:
            found.append((next_byte, packet.received_s))
    return found
