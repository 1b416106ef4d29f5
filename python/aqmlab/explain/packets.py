"""The packets of a flow with their fates, reconstructed from the table `packets`.

Each direction of a TCP connection is analysed separately. The SYN precedes the data and has the sequence
number -1, and a FIN follows the data and counts as one byte.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
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

    @property
    def begin(self) -> int:
        """The first sequence number; -1 for a SYN."""
        return -1 if (self.flags or 0) & SYN else self.sequence_bytes

    @property
    def end(self) -> int:
        """The sequence number after the packet."""
        return self.sequence_bytes + self.payload_bytes + ((self.flags or 0) & FIN)


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

    @property
    def is_syn(self) -> bool:
        """Whether the packet is a SYN or a SYN-ACK."""
        return self.begin < 0

    @property
    def carries(self) -> bool:
        """Whether the packet occupies sequence numbers."""
        return self.end > self.begin


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


def rows_of(packets: pl.DataFrame, flow: int) -> list[Row]:
    """Returns the events at the ends of a flow and the drops of its packets, in chronological order."""
    import polars as pl

    events = packets.filter(pl.col("flow") == flow).with_columns(
        pl.col("event", "link", "ecn").cast(pl.String)
    )
    events = events.filter(pl.col("link").is_null() | (pl.col("event") == "drop"))
    return [Row(*row) for row in events.select(Row._fields).iter_rows()]


def directions(rows: list[Row], drops: list[dict[str, Any]]) -> tuple[Direction, Direction]:
    """Returns the forward and the backward direction of a flow. `drops` contains the flow's rows of the table
    `drops`, which has a row for each event `drop` of `rows`."""
    found = (Direction(backward=False), Direction(backward=True))
    in_network: tuple[dict[tuple[int, int], deque[Packet]], ...] = ({}, {})
    details: dict[tuple[float, str], deque[dict[str, Any]]] = {}
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
        elif row.event == "drop":
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
