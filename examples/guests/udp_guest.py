"""Runs a guest over a real UDP socket, with the clock of the system.

    python udp_guest.py server PORT [OPTION...] -- COMMAND...
    python udp_guest.py client HOST:PORT [OPTION...] -- COMMAND...

COMMAND is a program that follows the contract for guests (docs/guides/guests.md), for example `aqmlab-guests
serve quinn`. Time 0 of the guest is the start of this program. A datagram is delivered to the guest at the
time at which this program reads the datagram from the socket. A server exchanges datagrams with the host from
which the first datagram arrived. If the guest exits or reports an error, this program ends with status 1.

    --config TEXT      configuration of the guest, usually a JSON table
    --seed NUMBER      seed of the guest; the default is 1
    --events LABEL     print a line for each event of the guest: label, time in seconds, name and value
    --received BYTES   end when the guest has reported that the application has received this number of bytes

This program needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import errno
import math
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from ctypes import CDLL

NEVER = 2**64 - 1
START, RUN, STOP = 1, 2, 3
STARTED, ANSWER, STOPPED, ERROR = 129, 130, 131, 255
VERSION = 1

IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
"""Linux, uapi/linux/in.h: forbids the fragmentation of packets, as QUIC requires (RFC 9000, section 14)."""

PR_SET_TIMERSLACK = 29
"""prctl(2). The default slack wakes up a program up to 50 us after its time."""

LONGEST = 65_507
BUFFER_BYTES = 1 << 22
"""Size of the socket's buffers, of which Linux grants at most `net.core.rmem_max` and `wmem_max`."""

Datagram = tuple[int, int, bytes]
"""Flow, ECN bits and contents."""


class Program:
    """A guest in a program of its own."""

    def __init__(self, command: list[str], end: int, seed: int, config: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        start = struct.pack("<BHBQ", START, VERSION, end, seed) + config.encode()
        (self.wake,) = struct.unpack_from("<Q", self._answer(start, STARTED), 1)

    def run(self, now: int, datagrams: list[Datagram]) -> tuple[list[Datagram], list[tuple[str, float]]]:
        """Returns the datagrams to send and the events, and sets `wake`."""
        parts = [struct.pack("<BQI", RUN, now, len(datagrams))]
        parts += [struct.pack("<IBH", flow, ecn, len(data)) + data for flow, ecn, data in datagrams]
        body = self._answer(b"".join(parts), ANSWER)
        answered, self.wake, count = struct.unpack_from("<QQI", body, 1)
        if answered != now:
            raise RuntimeError(f"the guest answers at {answered} ns a request of {now} ns")
        at, out = 21, []
        for _ in range(count):
            flow, ecn, length = struct.unpack_from("<IBH", body, at)
            at += 7 + length
            out.append((flow, ecn, body[at - length : at]))
        (count,) = struct.unpack_from("<I", body, at)
        at, events = at + 4, []
        for _ in range(count):
            name = body[at + 1 : at + 1 + body[at]].decode()
            at += 9 + body[at]
            events.append((name, struct.unpack_from("<d", body, at - 8)[0]))
        return out, events

    def stop(self) -> None:
        self._answer(bytes([STOP]), STOPPED)
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _answer(self, request: bytes, kind: int) -> bytes:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):  # The answer of a guest that has exited is empty.
            self._process.stdin.write(len(request).to_bytes(4, "little") + request)
            self._process.stdin.flush()
        length = int.from_bytes(self._process.stdout.read(4), "little")
        body = self._process.stdout.read(length)
        if not body or len(body) < length:
            raise RuntimeError("the guest has exited")
        if body[0] == ERROR:
            raise RuntimeError(f"the guest reports: {body[1:].decode(errors='replace')}")
        if body[0] != kind:
            raise RuntimeError(f"the guest answers a frame of kind {body[0]} instead of {kind}")
        return body


class Socket:
    """A UDP socket that sends and receives the ECN bits of the IP header."""

    def __init__(self, port: int, peer: tuple[str, int] | None) -> None:
        self.peer = peer
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._socket.bind(("0.0.0.0", port))
        self._ecn = 0

    def wait(self, timeout_s: float | None) -> None:
        select.select([self._socket], [], [], timeout_s)

    def receive(self) -> list[Datagram]:
        """Returns the datagrams that have arrived. Datagrams of other hosts than the peer are ignored."""
        found: list[Datagram] = []
        while True:
            try:
                data, control, _, sender = self._socket.recvmsg(LONGEST, 64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            except ConnectionRefusedError:  # ICMP reports that the peer's port is closed.
                continue
            self.peer = self.peer or sender
            if sender == self.peer and data:
                tos = next((value[0] for _, kind, value in control if kind == socket.IP_TOS), 0)
                found.append((0, tos & 3, data))

    def send(self, ecn: int, data: bytes) -> None:
        """Sends a datagram. The datagram is lost if the datagram is longer than the MTU allows, or if the
        buffer of the socket is full."""
        if ecn != self._ecn:
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ecn)
            self._ecn = ecn
        assert self.peer is not None, "a server sends only after the first datagram has arrived"
        try:
            self._socket.sendto(data, socket.MSG_DONTWAIT, self.peer)
        except (BlockingIOError, ConnectionRefusedError):
            pass
        except OSError as error:
            if error.errno not in (errno.EMSGSIZE, errno.ENOBUFS):
                raise


def bridge(program: Program, link: Socket, *, label: str, until_bytes: float) -> None:
    """Exchanges datagrams between the program and the socket, until the application has received
    `until_bytes` or a signal arrives."""
    begun, last, received = time.monotonic_ns(), -1, 0.0
    while received < until_bytes:
        timeout_s = None
        if program.wake != NEVER:
            timeout_s = max(0, program.wake - (time.monotonic_ns() - begun)) / 1e9
        link.wait(timeout_s)
        arrived = link.receive()
        # A clock may return the same time twice, and the requests of a guest have different times.
        now = max(last + 1, time.monotonic_ns() - begun)
        if not arrived and now < program.wake:
            continue
        last = now
        out, events = program.run(now, arrived)
        for _flow, ecn, data in out:
            link.send(ecn, data)
        for name, value in events:
            received += value if name == "received_bytes" else 0
            if label:
                print(f"{label} {now / 1e9:.9f} {name} {value:.9g}", flush=True)
    print(f"{received:.0f} bytes received in {last / 1e9:.6f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        usage="udp_guest.py {server PORT|client HOST:PORT} [OPTION...] -- COMMAND..."
    )
    parser.add_argument("end", choices=("server", "client"))
    parser.add_argument("address")
    parser.add_argument("--config", default="{}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", default="")
    parser.add_argument("--received", type=float, default=math.inf)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    host, _, port = given.address.rpartition(":")
    if not port.isdigit() or (given.end == "client") != bool(host):
        form = "PORT" if given.end == "server" else "HOST:PORT"
        parser.error(f"the address of a {given.end} must be {form} (got {given.address})")
    with suppress(AttributeError, OSError):  # prctl is a function of Linux.
        CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    server = given.end == "server"
    try:
        program = Program(given.command, int(server), given.seed, given.config)
        # A client may start when the socket of its server is bound.
        link = Socket(int(port), None) if server else Socket(0, (socket.gethostbyname(host), int(port)))
        with suppress(KeyboardInterrupt):
            bridge(program, link, label=given.events, until_bytes=given.received)
        program.stop()
    except RuntimeError as error:
        sys.exit(f"udp_guest.py: {error}")


if __name__ == "__main__":
    main()
