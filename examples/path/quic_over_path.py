"""Transfers a file from an aioquic server to an aioquic client over a path with CoDel, in virtual time.

Requires aioquic and cryptography (`pip install aqmlab[http]`). The random numbers of aioquic and of TLS are
not seeded, so that runs differ slightly.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator

from aioquic.buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived
from aioquic.quic.packet import pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

import aqmlab as al

HEADERS = 28
"""Bytes of the IPv4 and UDP headers of a datagram."""

ADDRESS = ("peer", 4433)
"""The address of each end as seen by the other end. The path does not use addresses."""

SIZE = 2_000_000
"""Bytes of the file."""

PATH = {
    "forward": [{"rate": "20Mbps", "delay": "15ms", "queue": {"kind": "drop-tail"}}],
    "reverse": [
        {"name": "dsl", "rate": "10Mbps", "delay": "15ms", "queue": {"kind": "codel"}},
        {"rate": "100Mbps", "delay": "5ms", "queue": {"kind": "drop-tail"}},
    ],
}
"""The client sends in the forward direction, and the server sends in the reverse direction."""


def certificate() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    start = datetime.datetime(2020, 1, 1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start.replace(year=2099))
    return builder.sign(key, SHA256()), key


def client() -> QuicConnection:
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["file"], verify_mode=ssl.CERT_NONE)
    connection = QuicConnection(configuration=configuration)
    connection.connect(ADDRESS, now=0.0)
    return connection


def server(first: bytes) -> QuicConnection:
    """Returns a server that accepts the connection of the client's first datagram."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["file"])
    configuration.certificate, configuration.private_key = certificate()
    header = pull_quic_header(Buffer(data=first), host_cid_length=8)
    return QuicConnection(
        configuration=configuration, original_destination_connection_id=header.destination_cid
    )


def events(connection: QuicConnection) -> Iterator[object]:
    while (event := connection.next_event()) is not None:
        yield event


def main() -> None:
    path = al.Path(PATH, seed=1)
    flow = path.open_flow()
    ends: dict[str, QuicConnection] = {"client": client()}
    directions = {"client": "forward", "server": "reverse"}
    contents: dict[int, bytes] = {}
    now, received, sent, drops = 0, 0, 0, 0
    while received < SIZE:
        for end, connection in ends.items():
            for data, _ in connection.datagrams_to_send(now=now / 1e9):
                number = path.send(flow, directions[end], len(data) + HEADERS, now)
                contents[number], sent = data, sent + 1
        while (outcome := path.poll(now)) is not None:
            data = contents.pop(outcome.id)
            if isinstance(outcome, al.Dropped):
                drops += 1
                continue
            end = "server" if outcome.direction == "forward" else "client"
            if end not in ends:
                ends[end] = server(data)
            ends[end].receive_datagram(data, ADDRESS, now=now / 1e9)
        for end, connection in ends.items():
            if (timer := connection.get_timer()) is not None and timer <= now / 1e9:
                connection.handle_timer(now=now / 1e9)
            for event in events(connection):
                if end == "server" and isinstance(event, HandshakeCompleted):
                    stream = connection.get_next_available_stream_id()
                    connection.send_stream_data(stream, bytes(SIZE), end_stream=True)
                elif isinstance(event, StreamDataReceived):
                    received += len(event.data)
        timers = [al.Path.nanoseconds(timer) for end in ends.values() if (timer := end.get_timer())]
        # A timer that is earlier by a rounding error expires one nanosecond later.
        now = max(now + 1, min(timers + [due for due in [path.next_due()] if due is not None]))
    print(f"{received} bytes in {now / 1e9:.3f} s: {received * 8 / now * 1e3:.2f} Mb/s")
    print(f"{sent} datagrams, {drops} dropped")
    for link in path.links():
        print(link["name"], link["drops"])


if __name__ == "__main__":
    main()
