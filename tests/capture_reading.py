"""Another reading of captures than the core's, and what a queue makes of them: for tests to compare with.

Plain struct unpacking, packet by packet, of just what the captures of the tests hold: pcap and pcapng,
Ethernet and Linux cooked frames, VLAN tags, IPv4, IPv6 with fragments.
"""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

ETHERNET, COOKED, COOKED_2 = 1, 113, 276
ETHER_TYPE_AT = {ETHERNET: (12, 14), COOKED: (14, 16), COOKED_2: (0, 20)}
IPV4, IPV6, TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8)
FRAGMENT, OPTIONS = 44, 0
WITH_PORTS = (6, 17)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A packet: nanoseconds since the first one, bytes it had, and its flow, None if it is not IP."""

    nanos: int
    bytes: int
    flow: Hashable


def packets(path: Path) -> list[Seen]:
    """All of them; where the clock steps back, a packet comes when the one before did."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    found = list(_pcapng(data) if data[:4] == b"\n\r\r\n" else _pcap(data))
    times = list(accumulate((one[0] for one in found), max))
    return [
        Seen(nanos=at - times[0], bytes=size, flow=_flow(link, frame))
        for at, (_, size, link, frame) in zip(times, found, strict=True)
    ]


def _pcap(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    order = "<" if data[0] != 0xA1 else ">"
    unit = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[struct.unpack_from(order + "I", data)[0]]
    link, place = struct.unpack_from(order + "I", data, 20)[0], 24
    while place < len(data):
        seconds, rest, captured, size = struct.unpack_from(order + "IIII", data, place)
        yield seconds * 10**9 + rest * unit, size, link, data[place + 16 : place + 16 + captured]
        place += 16 + captured


def _pcapng(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    place, order = 0, "<"
    interfaces: list[tuple[int, int]] = []
    while place < len(data):
        if data[place : place + 4] == b"\n\r\r\n":
            order = "<" if data[place + 8] == 0x4D else ">"
            interfaces = []
        kind, length = struct.unpack_from(order + "II", data, place)
        if kind == 1:
            link = struct.unpack_from(order + "H", data, place + 8)[0]
            interfaces.append((link, _units(data[place + 16 : place + length - 4], order)))
        elif kind == 6:
            interface, high, low, captured, size = struct.unpack_from(order + "5I", data, place + 8)
            link, units = interfaces[interface]
            nanos = (high << 32 | low) * 10**9 // units
            yield nanos, size, link, data[place + 28 : place + 28 + captured]
        place += length


def _units(options: bytes, order: str) -> int:
    """Units of time in a second."""
    place = 0
    while place + 4 <= len(options):
        code, size = struct.unpack_from(order + "HH", options, place)
        if code == 9:
            power = options[place + 4]
            return int(2 ** (power & 0x7F) if power & 0x80 else 10**power)
        place += 4 + (size + 3) // 4 * 4
    return 10**6


def _flow(link: int, frame: bytes) -> Hashable:
    at, begin = ETHER_TYPE_AT[link]
    kind = struct.unpack_from(">H", frame, at)[0]
    while kind in TAGS:
        kind, begin = struct.unpack_from(">H", frame, begin + 2)[0], begin + 4
    if kind == IPV4:
        protocol, hosts = frame[begin + 9], frame[begin + 12 : begin + 20]
        is_fragment = struct.unpack_from(">H", frame, begin + 6)[0] & 0x3FFF
        begin += (frame[begin] & 0xF) * 4
    elif kind == IPV6:
        protocol, hosts, is_fragment = frame[begin + 6], frame[begin + 8 : begin + 40], 0
        begin += 40
        while protocol in (OPTIONS, FRAGMENT):
            if protocol == FRAGMENT:
                is_fragment, size = 1, 8
            else:
                size = frame[begin + 1] * 8 + 8
            protocol, begin = frame[begin], begin + size
    else:
        return None
    ports = frame[begin : begin + 4] if protocol in WITH_PORTS and not is_fragment else b""
    return hosts, protocol, ports


def parted(seen: list[Seen], idle_s: float) -> list[Seen]:
    """The same with flows that are numbered, where silence of more than `idle_s` parts one from the next."""
    latest: dict[Hashable, tuple[int, int]] = {}
    found, count = [], 0
    for one in seen:
        number, last = latest.get(one.flow, (-1, one.nanos))
        if number < 0 or one.nanos - last > idle_s * 1e9:
            number, count = count, count + 1
        latest[one.flow] = (number, one.nanos)
        found.append(replace(one, flow=number))
    return found


def mean_in_progress(seen: list[Seen], idle_s: float) -> float:
    """Flows from their first packet to their last on average, but for the first and the last `idle_s`."""
    begin, end = idle_s * 1e9, seen[-1].nanos - idle_s * 1e9
    ends: dict[Hashable, tuple[int, int]] = {}
    for one in seen:
        ends[one.flow] = (ends.get(one.flow, (one.nanos, 0))[0], one.nanos)
    within = sum(max(0.0, min(last, end) - max(first, begin)) for first, last in ends.values())
    return within / (end - begin)


def active_flows(seen: list[Seen], bits_per_second: float) -> tuple[float, int]:
    """The mean and the most flows with a packet that waits for a line, first come, first served."""
    changes: list[tuple[float, int, Hashable]] = []
    free, end = 0.0, seen[-1].nanos
    for one in seen:
        start = max(float(one.nanos), free)
        free = start + one.bytes * 8e9 / bits_per_second
        if start > one.nanos:
            changes += [(one.nanos, 1, one.flow), (min(start, end), -1, one.flow)]
    waiting: Counter[Hashable] = Counter()
    before, area, most = 0.0, 0.0, 0
    for at, change, flow in sorted(changes, key=lambda one: one[:2]):
        area += len(waiting) * (at - before)
        before, waiting[flow] = at, waiting[flow] + change
        if not waiting[flow]:
            del waiting[flow]
        most = max(most, len(waiting))
    return area / end, most
