"""Reads the packets of captures: pcap and pcapng, with Ethernet, Linux cooked, loopback and raw IP frames.

Only the headers of IPv4, IPv6 and TCP are read. Sources: the draft of pcapng (draft-ietf-opsawg-pcapng), the
pcap format (draft-ietf-opsawg-pcap), RFC 791, RFC 8200, RFC 9293, RFC 7323.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from aqmlab.links.content import LinkFileError

PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""Byte order and nanoseconds per unit of time, by the first bytes of a pcap file."""

PCAPNG_MAGIC = b"\n\r\r\n"

MOST_CAPTURED = 262_144
"""Maximum number of captured bytes of a packet: MAXIMUM_SNAPLEN of libpcap."""

MOST_BLOCK = 16 * 2**20
"""Maximum length of a pcapng block; libpcap accepts 16 MiB."""

TCP = 6
SYN, ACK = 0x02, 0x10

_ETHERNET, _LOOPBACK, _COOKED, _COOKED_2, _RAW = 1, 0, 113, 276, (12, 14, 101, 228, 229)
_IPV4, _IPV6 = 0x0800, 0x86DD


class Packet(NamedTuple):
    """An IP packet."""

    nanos: int
    """Time in nanoseconds since 1970."""
    interface: int
    length: int
    """Length of the packet on the wire, with the IP header, in bytes."""
    source: bytes
    destination: bytes
    protocol: int
    segment: Segment | None
    """The TCP header, if the packet has one and the capture contains it."""


@dataclass(frozen=True)
class Segment:
    """A TCP header."""

    ports: tuple[int, int]
    sequence: int
    acknowledgement: int
    flags: int
    payload: int
    """Number of bytes of payload."""
    stamps: tuple[int, int] | None
    """The option with timestamps: own time and echoed time."""


def is_capture(head: bytes) -> bool:
    """Returns whether the first bytes of a file are those of a capture."""
    return head[:4] in PCAP_MAGICS or head[:4] == PCAPNG_MAGIC


def packets(file: BinaryIO) -> Iterator[Packet]:
    """Yields the IP packets of a capture. Other packets are skipped. If the capture ends within a packet,
    the packet is ignored. Raises `LinkFileError` if the capture is damaged."""
    magic = file.read(4)
    if magic == PCAPNG_MAGIC:
        frames = _pcapng(file)
    elif magic in PCAP_MAGICS:
        frames = _pcap(file, *PCAP_MAGICS[magic])
    else:
        raise LinkFileError("is not a capture: must begin with the magic number of pcap or pcapng")
    for nanos, interface, link_type, original, frame in frames:
        found = _ip(link_type, frame)
        if found is None:
            continue
        data, link_header = found
        packet = _packet(nanos, interface, max(original - link_header, 0), data)
        if packet is not None:
            yield packet


Frame = tuple[int, int, int, int, bytes]
"""Time in nanoseconds, interface, link type, length on the wire and captured bytes."""


def _pcap(file: BinaryIO, order: str, unit: int) -> Iterator[Frame]:
    header = file.read(20)
    if len(header) < 20:
        return
    link_type = struct.unpack(order + "I", header[16:])[0] & 0x0FFFFFFF
    for number in range(1, 2**62):
        head = file.read(16)
        if len(head) < 16:
            return
        seconds, fraction, captured, original = struct.unpack(order + "IIII", head)
        if captured > MOST_CAPTURED:
            raise LinkFileError(
                f"packet {number}: its captured length must be at most {MOST_CAPTURED} bytes (got "
                f"{captured}): the file is damaged from here on"
            )
        frame = file.read(captured)
        if len(frame) < captured:
            return
        yield seconds * 10**9 + fraction * unit, 0, link_type, original, frame


def _pcapng(file: BinaryIO) -> Iterator[Frame]:
    order = "<"
    interfaces: list[tuple[int, int]] = []
    kind_bytes = PCAPNG_MAGIC
    for number in range(1, 2**62):
        if number > 1:
            kind_bytes = file.read(4)
        head = file.read(4)
        if len(kind_bytes) < 4 or len(head) < 4:
            return
        if kind_bytes == PCAPNG_MAGIC:
            order_bytes = file.read(4)
            if order_bytes not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                raise LinkFileError(f"block {number}: has no valid byte-order magic of a pcapng section")
            order = "<" if order_bytes[0] == 0x4D else ">"
            interfaces = []
        length = struct.unpack(order + "I", head)[0]
        read = 12 if kind_bytes == PCAPNG_MAGIC else 8
        if length % 4 or not 12 <= length <= MOST_BLOCK:
            raise LinkFileError(
                f"block {number}: its length must be a multiple of 4 from 12 to {MOST_BLOCK} bytes (got "
                f"{length})"
            )
        body = file.read(length - read)
        if len(body) < length - read:
            return
        kind = struct.unpack(order + "I", kind_bytes)[0]
        if kind == 1 and len(body) >= 12:
            link_type = struct.unpack_from(order + "H", body)[0]
            interfaces.append((link_type, _units(body[8:-4], order)))
        elif kind == 6 and len(body) >= 24:
            interface, high, low, captured, original = struct.unpack_from(order + "5I", body)
            if interface >= len(interfaces):
                raise LinkFileError(
                    f"block {number}: names the interface {interface}, which is not described"
                )
            link_type, units = interfaces[interface]
            nanos = (high << 32 | low) * 10**9 // units
            yield nanos, interface, link_type, original, body[20 : 20 + min(captured, len(body) - 24)]


def _units(options: bytes, order: str) -> int:
    """Returns the number of units of time per second: the option if_tsresol, by default microseconds."""
    place = 0
    while place + 4 <= len(options):
        code, length = struct.unpack_from(order + "HH", options, place)
        if code == 9 and length == 1 and place + 5 <= len(options):
            value = options[place + 4]
            base = 2 if value & 0x80 else 10
            units: int = base ** min(value & 0x7F, 30 if base == 10 else 0x7F)
            return units
        place += 4 + (length + 3) // 4 * 4
    return 10**6


def _ip(link_type: int, frame: bytes) -> tuple[bytes, int] | None:
    """Returns the IP packet of a frame, and the length of the link header; `None` if the frame has no IP
    packet."""
    if link_type in _RAW:
        return frame, 0
    if link_type == _LOOPBACK:
        return frame[4:], 4
    if link_type == _ETHERNET:
        place, header = 12, 14
    elif link_type == _COOKED:
        place, header = 14, 16
    elif link_type == _COOKED_2:
        place, header = 0, 20
    else:
        return None
    while frame[place : place + 2] in (b"\x81\x00", b"\x88\xa8"):
        place, header = place + 4, header + 4
    kind = int.from_bytes(frame[place : place + 2], "big")
    return (frame[header:], header) if kind in (_IPV4, _IPV6) else None


def _packet(nanos: int, interface: int, length: int, data: bytes) -> Packet | None:
    version = data[0] >> 4 if data else 0
    if version == 4 and len(data) >= 20:
        header = 4 * (data[0] & 0x0F)
        total = int.from_bytes(data[2:4], "big") or length
        is_first = not int.from_bytes(data[6:8], "big") & 0x1FFF
        source, destination, protocol = data[12:16], data[16:20], data[9]
    elif version == 6 and len(data) >= 40:
        # Extension headers are rare: packets that have them count, but their TCP headers are not read.
        header, is_first = 40, True
        total = 40 + int.from_bytes(data[4:6], "big")
        source, destination, protocol = data[8:24], data[24:40], data[6]
    else:
        return None
    segment = _segment(data, header, total) if protocol == TCP and is_first else None
    # With segmentation offload, the length in the header may be 0 or wrong, and the link's length is right.
    return Packet(nanos, interface, max(total, length), source, destination, protocol, segment)


def _segment(data: bytes, begin: int, total: int) -> Segment | None:
    if len(data) < begin + 20 or begin < 20:
        return None
    source, destination, sequence, acknowledgement, offset, flags = struct.unpack_from(">HHIIBB", data, begin)
    header = 4 * (offset >> 4)
    payload = max(total - begin - header, 0)
    options = data[begin + 20 : begin + header]
    ports = (source, destination)
    return Segment(ports, sequence, acknowledgement, flags, payload, _stamps(options))


def _stamps(options: bytes) -> tuple[int, int] | None:
    place = 0
    while place < len(options):
        kind = options[place]
        if kind == 1:
            place += 1
            continue
        if kind == 0 or place + 2 > len(options):
            return None
        length = options[place + 1]
        if kind == 8 and length == 10 and place + 10 <= len(options):
            own, echoed = struct.unpack_from(">II", options, place + 2)
            return own, echoed
        if length < 2:
            return None
        place += length
    return None
