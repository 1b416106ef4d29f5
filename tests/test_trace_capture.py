"""Real captures, replayed: the packets of Python's own server and clients, as the kernel had them.

One was recorded by `recorded` below, over loopback on Linux 6.18, and lies beside; where this process may,
another is recorded now. Both are held against a replay of a few lines that knows nothing of ours.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import socket
import struct
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aqmlab import trace

COMMITTED = Path(__file__).parent / "captures" / "http-loopback.pcap.gz"
BODIES = (10_000, 200_000, 50_000)
FETCHES = 3 * BODIES
ETHERNET, KEPT, LONGEST = 14, 80, 65535
RATE_BPS = 1e9

SOL_PACKET, PACKET_STATISTICS = 263, 6
"""Of `linux/if_packet.h`: how many packets came, and how many were lost."""

Packets = list[tuple[int, int, bytes]]
"""Of each its time in ns, its length, and the addresses and ports that tell its flow."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that tells nobody what it serves."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


def recorded(folder: Path) -> Path:
    """A capture of files fetched from a server, several at once. Raises `OSError` if it may not be made."""
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    for size in BODIES:
        (folder / str(size)).write_bytes(bytes(size))
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    ports = struct.pack(">H", server.server_port)
    found: list[bytes] = []
    finished = threading.Event()

    def listen() -> None:
        while not finished.is_set():
            try:
                packet, (_, _, kind, *_) = raw.recvfrom(1 << 17)
            except TimeoutError:
                continue
            ours = ports in (packet[34:36], packet[36:38]) and packet[23] == socket.IPPROTO_TCP
            # Loopback shows each packet twice: as it goes, and as it comes.
            if ours and kind != socket.PACKET_OUTGOING:
                seconds, ns = divmod(time.time_ns(), 10**9)
                kept = packet[:KEPT]
                found.append(struct.pack("<IIII", seconds, ns, len(kept), len(packet)) + kept)

    def fetch(size: int) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{size}") as answer:
            return len(answer.read())

    with raw, server:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
        raw.bind(("lo", 0))
        raw.settimeout(0.1)
        threads = [threading.Thread(target=one) for one in (listen, server.serve_forever)]
        for thread in threads:
            thread.start()
        with ThreadPoolExecutor(3) as pool:
            assert tuple(pool.map(fetch, FETCHES)) == FETCHES
        server.shutdown()
        time.sleep(0.2)
        finished.set()
        for thread in threads:
            thread.join()
        _, lost = struct.unpack("<II", raw.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if lost:
        raise OSError(f"{lost} packets came faster than they were read")
    path = folder / "now.pcap"
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, KEPT, 1)
    path.write_bytes(head + b"".join(found))
    return path


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The committed capture, and one of now where raw sockets are allowed."""
    try:
        return [COMMITTED, recorded(tmp_path_factory.mktemp("served"))]
    except (OSError, AttributeError):
        return [COMMITTED]


def packets_of(path: Path) -> Packets:
    """The packets of a capture with times in nanoseconds."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    place, found = 24, []
    while place < len(data):
        seconds, ns, kept, length = struct.unpack_from("<IIII", data, place)
        packet = data[place + 16 : place + 16 + kept]
        found.append((seconds * 10**9 + ns, min(length, LONGEST), packet[26:38]))
        place += 16 + kept
    return found


def replayed(packets: Packets) -> tuple[float, int]:
    """Mean and largest number of flows with a packet that waits, behind one line that serves in order."""
    begin, end = packets[0][0], packets[-1][0]
    free, changes = 0.0, []
    for at, length, flow in packets:
        start = max(at - begin, free)
        free = start + length * 8e9 / RATE_BPS
        if start > at - begin:
            changes += [(at - begin, 1, flow), (start, -1, flow)]
    waiting: dict[bytes, int] = {}
    area, last, most = 0.0, 0.0, 0
    for now, change, flow in sorted(changes, key=lambda one: one[:2]):
        if now > end - begin:
            break
        area += sum(count > 0 for count in waiting.values()) * (now - last)
        waiting[flow] = waiting.get(flow, 0) + change
        last, most = now, max(most, sum(count > 0 for count in waiting.values()))
    area += sum(count > 0 for count in waiting.values()) * (end - begin - last)
    return area / (end - begin), most


def test_a_real_capture_has_the_packets_flows_and_bytes_that_were_served(captures: list[Path]) -> None:
    for path in captures:
        packets = packets_of(path)
        found = trace.active_flows(path, rate="1Gbps", queue="drop-tail").summary
        assert found["packets"] == len(packets)
        assert found["flows"] == len({flow for *_, flow in packets}) == 2 * len(FETCHES), "each way its own"
        assert found["bytes"] == sum(length for _, length, _ in packets)
        # Headers come on top, and on a busy machine what was sent twice.
        assert found["bytes"] > sum(FETCHES)


def test_active_flows_of_a_real_capture_are_those_of_a_slow_replay(captures: list[Path]) -> None:
    for path in captures:
        mean, most = replayed(packets_of(path))
        found = trace.active_flows(path, rate="1Gbps", queue="drop-tail").summary
        assert most >= 1, "flows met"
        assert found["mean_active"] == pytest.approx(mean, rel=1e-3, abs=1e-4)
        assert found["most_active"] == pytest.approx(most, abs=1)
        fair = trace.active_flows(path, rate="1Gbps", queue="drr").summary
        assert fair["sent"] + fair["waiting"] == fair["packets"] == found["packets"]
