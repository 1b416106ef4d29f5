"""The programs at both ends of the runs of `live.py`; they need only Python's standard library.

python live_ends.py send BYTES GAP_S SECONDS         sends datagrams with a timestamp, one every GAP_S
python live_ends.py flood BYTES SECONDS              sends datagrams as fast as possible
python live_ends.py receive HOST SILENCE_S FILE      writes the times sent and received (kernel timestamps)
python live_ends.py sink HOST SECONDS                receives datagrams and discards them

The receiver opens a TCP connection to the sender when it is ready, and keeps it open.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from pathlib import Path

PORT = 9
STAMP = struct.Struct("=q")
TIMESPEC = struct.Struct("=qq")
SO_TIMESTAMPNS = 35
"""socket(7), "asm-generic/socket.h": adds the time of receipt, in nanoseconds, to each datagram."""

UDP_SEGMENT = 103
"""udp(7)."""

MAX_SEGMENTS = 64
"""The most datagrams in one segmented send (`UDP_MAX_SEGMENTS`, before Linux 6.9)."""


def to_receiver() -> socket.socket:
    """Waits until a receiver connects; returns a UDP socket to it."""
    with socket.create_server(("", PORT)) as listener:
        _, (host, _) = listener.accept()
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind(("", PORT))
    sender.connect((host, PORT))
    return sender


def from_sender(host: str) -> tuple[socket.socket, socket.socket]:
    """A UDP socket for datagrams from `host`, and the TCP connection that reports readiness to it."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_000_000)
    receiver.bind(("", PORT))
    # The kernel finds a connected socket without a route lookup.
    receiver.connect((host, PORT))
    return receiver, socket.create_connection((host, PORT))


def send(size: int, gap_s: float, seconds: float) -> None:
    """Sends at fixed times; if late, sends at once until it has caught up."""
    sender = to_receiver()
    filling = bytes(size - STAMP.size)
    start = time.monotonic()
    for number in range(int(seconds / gap_s)):
        wait = start + number * gap_s - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        sender.send(STAMP.pack(time.time_ns()) + filling)


def flood(size: int, seconds: float) -> None:
    """Sends without pauses, with UDP segmentation: each call gives the kernel many datagrams of this size."""
    sender = to_receiver()
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
    filling, end = bytes(size * min(MAX_SEGMENTS, 60_000 // size)), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            sender.send(filling)
        except ConnectionRefusedError:
            return


def receive(host: str, silence_s: float, file: str) -> None:
    """Writes the times sent and received of each datagram, in nanoseconds, after `silence_s` without one."""
    receiver, _connection = from_sender(host)
    receiver.settimeout(silence_s)
    found = []
    while True:
        try:
            data, ancillary, *_ = receiver.recvmsg(2048, 64)
        except TimeoutError:
            break
        whole, nanos = TIMESPEC.unpack(ancillary[0][2][: TIMESPEC.size])
        found.append((STAMP.unpack_from(data)[0], whole * 1_000_000_000 + nanos))
    Path(file).write_text(json.dumps(found), encoding="utf-8")


def sink(host: str, seconds: float) -> None:
    """Receives datagrams and ignores them."""
    _sockets = from_sender(host)
    time.sleep(seconds)


def main(job: str, *arguments: str) -> None:
    """Runs the job that the first argument names."""
    if job == "send":
        send(int(arguments[0]), float(arguments[1]), float(arguments[2]))
    elif job == "flood":
        flood(int(arguments[0]), float(arguments[1]))
    elif job == "receive":
        receive(arguments[0], float(arguments[1]), arguments[2])
    elif job == "sink":
        sink(arguments[0], float(arguments[1]))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
