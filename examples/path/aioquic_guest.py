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
from collections.abc import Iterator

from aioquic.buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived
from aioquic.quic.packet import pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from echo_guest import NEVER, serve

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

    def run(
        self, now: int, datagrams: list[tuple[int, int, bytes]]
    ) -> tuple[list[tuple[int, int, bytes]], int, list[tuple[str, float]]]:
        """Returns the datagrams to send, the time of the next wake-up, and events."""
        for _flow, _ecn, data in datagrams:
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
        out = [(0, 0, data) for data, _ in self.connection.datagrams_to_send(now=now / 1e9)]
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


def start(end: int, seed: int, config: str) -> tuple[Guest, int]:
    """Returns the guest, and the time of its first wake-up."""
    return Guest(end == 0, seed, json.loads(config)), 0 if end == 0 else NEVER


if __name__ == "__main__":
    serve(start)
