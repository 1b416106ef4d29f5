"""Estimates a line from a capture that was taken at home.

- The rate of a direction is the highest number of bits in a second: received IP packets for the download, and
  acknowledged payload (with its headers) for TCP uploads, because a capture at home sees uploaded packets
  before they wait in the modem's buffer.
- Round-trip times are measured passively, as by pping (K. Nichols): from a TCP timestamp that a host at home
sends to
  its first echo, or from data to its acknowledgement if the data was not retransmitted (Karn's algorithm).
- The round-trip time without load is the shortest one. The times under load are those in seconds in which a
direction
  carried at least `LOADED_RATE` of its highest rate.
"""

from __future__ import annotations

import ipaddress
import itertools
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import BinaryIO

from aqmlab.links.content import Content, LinkFileError, shown
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import HALF, NOTHING, PAYLOAD_TO_IP, Measured, Way
from aqmlab.links.packet_file import ACK, SYN, Packet, Segment, is_capture, packets
from aqmlab.links.quantiles import LOADED_SHARE, quantile

MOST_PACKETS = 2_000_000
"""Maximum number of packets that are read, which takes about 10 s. aqmlab's choice."""

FIRST = 1000
"""Number of packets from which the side of the home is guessed."""

MOST_PENDING = 20_000
"""Maximum number of segments and timestamps that wait for their answers; the oldest are forgotten first."""

LOADED_RATE = 0.8
"""A second counts as loaded if a direction carried at least this share of its highest rate. aqmlab's
choice."""

BUSY_RATE = 0.5
"""A second counts as busy if a direction carried at least this share of its highest rate. aqmlab's choice."""

LEAST_SAMPLES = 5
"""Minimum number of round-trip times under load."""

_SECOND = 10**9
_HALF = 2**31


def _read(content: Content, options: Options) -> Measured:
    lines = _Lines()
    notes: list[str] = []
    with content.open() as file:
        source = itertools.islice(_before_damage(file, notes), MOST_PACKETS)
        first = list(itertools.islice(source, FIRST))
        if not first:
            raise LinkFileError("contains no IP packets")
        home = _Home(first, options.home)
        notes += home.notes
        for packet in itertools.chain(first, source):
            if home.uses(packet):
                lines.add(packet, home)
    if home.is_split:
        lines.rtts.clear()
    if lines.count == MOST_PACKETS:
        notes.append(f"only the first {MOST_PACKETS} packets are used")
    if not lines.bits[0] and not lines.bits[1]:
        raise LinkFileError(
            f"contains no packets between {home.name} and the Internet: name a host at home with --home "
            "ADDRESS"
        )
    notes.append(
        "the rates are those of the busiest seconds: the line's rate is higher if the line was never full"
    )
    idle = min((rtt for _, rtt in lines.rtts), default=None)
    if idle is None:
        notes.append("the capture contains no TCP connection whose round-trip time can be measured")
    up, down = lines.ways(notes)
    return Measured(
        source=f"capture of {lines.count} packets",
        up=up,
        down=down,
        idle_rtt_s=idle,
        notes=notes,
    )


def _before_damage(file: BinaryIO, notes: list[str]) -> Iterator[Packet]:
    """Yields the packets before the place at which a compressed file is damaged or ends. A capture that was
    interrupted is useful up to this place."""
    try:
        yield from packets(file)
    except (EOFError, zlib.error, OSError):
        notes.append("the compressed file is truncated or damaged: the packets before the damage are used")


class _Home:
    """Decides which addresses are at home, and which interface is used."""

    def __init__(self, first: list[Packet], address: str | None) -> None:
        counts = Counter(packet.interface for packet in first)
        main = counts.most_common(1)[0][0]
        ends = {(packet.source, packet.destination) for packet in first if packet.interface == main}
        self.notes: list[str] = []
        self._interface = None
        both_ways = any((b, a) in ends for a, b in ends)
        self.is_split = len(counts) > 1 and not both_ways
        if self.is_split:
            self.notes.append(
                "each interface has the packets of one direction, as in captures of simulated links: "
                "round-trip times cannot be measured"
            )
        if len(counts) > 1 and both_ways:
            self._interface = main
            self.notes.append(
                f"the capture has several interfaces: only interface {main}, which has the most packets, is "
                "used, because the same packet may be on several interfaces"
            )
        self._private = False
        if address is not None:
            try:
                self._address = ipaddress.ip_address(address).packed
            except ValueError:
                raise ValueError(f"--home: must be an IP address (got {shown(address)})") from None
            self.name = address
            return
        pairs = [(packet.source, packet.destination) for packet in first]
        self._private = any(_is_private(a) != _is_private(b) for a, b in pairs)
        if self._private:
            self.name = "private addresses"
            return
        self._address = Counter(itertools.chain.from_iterable(pairs)).most_common(1)[0][0]
        # Of two ends that exchange packets with each other only, the end that opens connections is at home.
        opened = Counter(p.source for p in first if p.segment and p.segment.flags & (SYN | ACK) == SYN)
        if opened:
            self._address = opened.most_common(1)[0][0]
        self.name = str(ipaddress.ip_address(self._address))
        self.notes.append(
            "the host that opens connections is assumed to be at home: --home ADDRESS selects another host"
        )

    def uses(self, packet: Packet) -> bool:
        """Returns whether the interface of a packet is used. If the interface with the most packets has
        packets of one direction only, as in captures of aqmlab, all interfaces are used."""
        return self._interface is None or packet.interface == self._interface

    def contains(self, address: bytes) -> bool:
        return _is_private(address) if self._private else address == self._address


def _is_private(address: bytes) -> bool:
    """Whether an address is private (RFC 1918, RFC 4193) or shared by carriers (RFC 6598)."""
    if len(address) == 4:
        a, b = address[0], address[1]
        return (
            a == 10 or (a == 172 and 16 <= b < 32) or (a == 192 and b == 168) or (a == 100 and 64 <= b < 128)
        )
    return address[0] & 0xFE == 0xFC or address[:2] == b"\xfe\x80"


class _Lines:
    """Sums of both directions (0: up, 1: down) and round-trip times."""

    def __init__(self) -> None:
        self.count = 0
        self.bits: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self.rtts: list[tuple[int, float]] = []
        self._acknowledged: OrderedDict[object, int] = OrderedDict()
        self._sent: OrderedDict[object, int | None] = OrderedDict()

    def add(self, packet: Packet, home: _Home) -> None:
        self.count += 1
        from_home, to_home = home.contains(packet.source), home.contains(packet.destination)
        if from_home == to_home:
            return
        second = packet.nanos // _SECOND
        segment = packet.segment
        if to_home:
            self.bits[1][second] += 8 * packet.length
            if segment is not None:
                self._answer(packet, segment, second)
        elif segment is None:
            self.bits[0][second] += 8 * packet.length
        else:
            self._send(packet, segment)

    def _send(self, packet: Packet, segment: Segment) -> None:
        flow = (packet.source, packet.destination, segment.ports)
        length = segment.payload + bool(segment.flags & SYN)
        if length:
            self._remember((flow, "data", (segment.sequence + length) % 2**32), packet.nanos, repeated=None)
        if segment.stamps is not None:
            # Only the first packet with a timestamp counts.
            key = (flow, "stamp", segment.stamps[0])
            if key not in self._sent:
                self._remember(key, packet.nanos, repeated=packet.nanos)

    def _remember(self, key: object, nanos: int, repeated: int | None) -> None:
        self._sent[key] = repeated if key in self._sent else nanos
        if len(self._sent) > MOST_PENDING:
            self._sent.popitem(last=False)

    def _answer(self, packet: Packet, segment: Segment, second: int) -> None:
        flow = (packet.destination, packet.source, segment.ports[::-1])
        if segment.flags & ACK:
            self._acknowledge(flow, segment.acknowledgement, second)
            self._sample((flow, "data", segment.acknowledgement), packet.nanos)
        if segment.stamps is not None:
            self._sample((flow, "stamp", segment.stamps[1]), packet.nanos)

    def _sample(self, key: object, nanos: int) -> None:
        sent = self._sent.pop(key, None)
        if sent is not None and nanos > sent:
            self.rtts.append((nanos // _SECOND, (nanos - sent) / 1e9))

    def _acknowledge(self, flow: object, number: int, second: int) -> None:
        before = self._acknowledged.get(flow)
        self._acknowledged[flow] = number
        if before is None:
            if len(self._acknowledged) > MOST_PENDING:
                self._acknowledged.popitem(last=False)
            return
        progress = (number - before) % 2**32
        if progress < _HALF:
            self.bits[0][second] += round(8 * PAYLOAD_TO_IP * progress)
        else:
            self._acknowledged[flow] = before

    def ways(self, notes: list[str]) -> Iterator[Way]:
        """Yields the measurements of the upload and of the download."""
        most = [max(bits.values(), default=0) for bits in self.bits]
        busy = [
            {second for second, value in bits.items() if value >= LOADED_RATE * top}
            for bits, top in zip(self.bits, most, strict=True)
        ]
        for own, top in enumerate(most):
            other = busy[1 - own]
            # A direction that only carries acknowledgements is not under load.
            if most[1 - own] > 10 * top:
                notes.append(f"the {('upload', 'download')[own]} was hardly used, so its rate is unknown")
                yield NOTHING
                continue
            if 10 * most[1 - own] < top:
                other = set()
            alone = [rtt for second, rtt in self.rtts if second in busy[own] and second not in other]
            both = [rtt for second, rtt in self.rtts if second in busy[own] and second in other]
            loaded, share = None, 1.0
            if len(alone) >= LEAST_SAMPLES:
                loaded = quantile(alone, LOADED_SHARE)
            elif len(both) >= LEAST_SAMPLES:
                loaded, share = quantile(both, LOADED_SHARE), HALF
            full = [value for value in self.bits[own].values() if value >= BUSY_RATE * top]
            rate = quantile(full, 0.5) if top else None
            yield Way(rate_bps=rate, is_payload=False, loaded_rtt_s=loaded, share=share)


FORMAT = Format(
    name="capture",
    summary="Capture (pcap, pcapng) taken at home: highest rates and round-trip times of TCP connections.",
    recognises=lambda content: is_capture(content.head),
    read=_read,
)
