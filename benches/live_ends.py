"""The programs between which `live.py` measures: they need nothing but Python.

python live_ends.py send BYTES GAP_S SECONDS         datagrams with the time of their sending, so often
python live_ends.py flood BYTES SECONDS              as many as go
python live_ends.py receive HOST SILENCE_S FILE      when each was sent, and came by the kernel's clock
python live_ends.py sink HOST SECONDS                a port where they may come

Who receives opens a connection as soon as it is ready, and keeps it open.
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
"""socket(7), "asm-generic/socket.h": when a datagram came, in nanoseconds, beside it."""

UDP_SEGMENT = 103
"""udp(7)."""

MANY = 64
"""The kernel takes no more than so many datagrams at a time (`UDP_MAX_SEGMENTS`, before Linux 6.9)."""


def to_receiver() -> socket.socket:
    """A socket for datagrams to whoever says that it is ready."""
    with socket.create_server(("", PORT)) as listener:
        _, (host, _) = listener.accept()
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind(("", PORT))
    sender.connect((host, PORT))
    return sender


def from_sender(host: str) -> tuple[socket.socket, socket.socket]:
    """A socket for datagrams from `host`, which is told so, and the connection that tells it."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_000_000)
    receiver.bind(("", PORT))
    # The kernel finds a socket that is connected without looking for a route.
    receiver.connect((host, PORT))
    return receiver, socket.create_connection((host, PORT))


def send(size: int, gap_s: float, seconds: float) -> None:
    """Sends at fixed instants, and makes up for those that were missed."""
    sender = to_receiver()
    filling = bytes(size - STAMP.size)
    begun = time.monotonic()
    for number in range(int(seconds / gap_s)):
        wait = begun + number * gap_s - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        sender.send(STAMP.pack(time.time_ns()) + filling)


def flood(size: int, seconds: float) -> None:
    """Sends without waiting, and many at a time, which the kernel makes datagrams of this size of."""
    sender = to_receiver()
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
    filling, end = bytes(size * min(MANY, 60_000 // size)), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            sender.send(filling)
        except ConnectionRefusedError:
            return


def receive(host: str, silence_s: float, file: str) -> None:
    """Writes when each datagram was sent and when it came, in nanoseconds, once none comes for so long."""
    receiver, _connection = from_sender(host)
    receiver.settimeout(silence_s)
    found = []
    while True:
        try:
            data, beside, *_ = receiver.recvmsg(2048, 64)
        except TimeoutError:
            break
        whole, nanos = TIMESPEC.unpack(beside[0][2][: TIMESPEC.size])
        found.append((STAMP.unpack_from(data)[0], whole * 1_000_000_000 + nanos))
    Path(file).write_text(json.dumps(found), encoding="utf-8")


def sink(host: str, seconds: float) -> None:
    """Takes what comes and does not look at it."""
    _sockets = from_sender(host)
    time.sleep(seconds)


def main(job: str, *given: str) -> None:
    """Does what the first argument says."""
    if job == "send":
        send(int(given[0]), float(given[1]), float(given[2]))
    elif job == "flood":
        flood(int(given[0]), float(given[1]))
    elif job == "receive":
        receive(given[0], float(given[1]), given[2])
    elif job == "sink":
        sink(given[0], float(given[1]))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
