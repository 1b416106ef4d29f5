"""aioquic as a guest: the server sends a file of 1 MB to the client, and reports its congestion window.

    aqmlab guest check --path PATH.toml python examples/path/aioquic_guest.py

The configuration of the server is a JSON table with the keys `size` (bytes of the file) and `control` (`reno`
or `cubic`). Requires aioquic and cryptography (`pip install aqmlab[http]`).

aioquic draws its random numbers from `os.urandom`, which this program replaces by a seeded generator. The
keys of TLS remain random, but all messages that depend on the keys have constant lengths, because the
certificate has an Ed25519 key. Therefore, the times and lengths of all datagrams depend only on the seed.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import ssl
import struct
import sys
from collections.abc import Iterator

from aioquic.buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived
from aioquic.quic.packet import pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NEVER = 2**64 - 1
START, RUN, STOP = 1, 2, 3
STARTED, ANSWER, STOPPED, ERROR = 129, 130, 131, 255
PEER = ("peer", 4433)
"""The address of each end as seen by the other end. The path does not use addresses."""


class Guest:
    """One end of a QUIC connection."""

    def __init__(self, is_client: bool, seed: int, config: dict[str, object]) -> None:
        generator = random.Random(seed)
        os.urandom = generator.randbytes
        self.is_client, self.size = is_client, int(str(config.get("size", 1_000_000)))
        self.configuration = QuicConfiguration(
            is_client=is_client,
            alpn_protocols=["file"],
            verify_mode=ssl.CERT_NONE,
            congestion_control_algorithm=str(config.get("control", "reno")),
        )
        self.connection: QuicConnection | None = None
        if is_client:
            self.connection = QuicConnection(configuration=self.configuration)
            self.connection.connect(PEER, now=0.0)
        else:
            key = Ed25519PrivateKey.from_private_bytes(generator.randbytes(32))
            start = datetime.datetime(2020, 1, 1)
            name = x509.Name([])
            builder = x509.CertificateBuilder(
                name, name, key.public_key(), 1, start, start.replace(year=2099)
            )
            self.configuration.certificate = builder.sign(key, None)
            self.configuration.private_key = key

    def run(self, now: int, datagrams: list[bytes]) -> tuple[list[bytes], int, list[tuple[str, float]]]:
        """Returns the datagrams to send, the time of the next wake-up, and events."""
        for data in datagrams:
            if self.connection is None:
                header = pull_quic_header(Buffer(data=data), host_cid_length=8)
                self.connection = QuicConnection(
                    configuration=self.configuration,
                    original_destination_connection_id=header.destination_cid,
                )
            self.connection.receive_datagram(data, PEER, now=now / 1e9)
        if self.connection is None:
            return [], NEVER, []
        timer = self.connection.get_timer()
        if timer is not None and timer <= now / 1e9:
            self.connection.handle_timer(now=now / 1e9)
        events = list(self._events())
        out = [data for data, _ in self.connection.datagrams_to_send(now=now / 1e9)]
        timer = self.connection.get_timer()
        # A timer that is earlier by a rounding error expires one nanosecond later.
        return out, NEVER if timer is None else max(now + 1, round(timer * 1e9)), events

    def _events(self) -> Iterator[tuple[str, float]]:
        connection = self.connection
        assert connection is not None
        while (event := connection.next_event()) is not None:
            if isinstance(event, HandshakeCompleted) and not self.is_client:
                stream = connection.get_next_available_stream_id()
                connection.send_stream_data(stream, bytes(self.size), end_stream=True)
            elif isinstance(event, StreamDataReceived):
                yield "received_bytes", float(len(event.data))
                if event.end_stream:
                    connection.close()
        if not self.is_client:
            yield "cwnd_bytes", float(connection._loss.congestion_window)


def read_datagrams(body: bytes) -> list[bytes]:
    """Returns the contents of the datagrams of a request to run."""
    (count,) = struct.unpack_from("<I", body, 9)
    at, found = 13, []
    for _ in range(count):
        (length,) = struct.unpack_from("<H", body, at + 5)
        at += 7 + length
        found.append(body[at - length : at])
    return found


def answer(now: int, out: list[bytes], wake: int, events: list[tuple[str, float]]) -> bytes:
    """Returns the body of an answer to a request to run."""
    parts = [struct.pack("<BQQI", ANSWER, now, wake, len(out))]
    parts += [struct.pack("<IBH", 0, 0, len(data)) + data for data in out]
    parts.append(struct.pack("<I", len(events)))
    parts += [bytes([len(name)]) + name.encode() + struct.pack("<d", value) for name, value in events]
    return b"".join(parts)


def main() -> None:
    guest: Guest | None = None
    while prefix := sys.stdin.buffer.read(4):
        body = sys.stdin.buffer.read(int.from_bytes(prefix, "little"))
        if body[0] == START:
            _version, end, seed = struct.unpack_from("<HBQ", body, 1)
            guest = Guest(end == 0, seed, json.loads(body[12:]))
            reply = struct.pack("<BQ", STARTED, 0 if end == 0 else NEVER)
        elif body[0] == RUN and guest is not None:
            (now,) = struct.unpack_from("<Q", body, 1)
            reply = answer(now, *guest.run(now, read_datagrams(body)))
        else:
            reply = bytes([STOPPED])
        sys.stdout.buffer.write(len(reply).to_bytes(4, "little") + reply)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
