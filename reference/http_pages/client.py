"""The client: fetches pages over HTTP/1.1, HTTP/2 and HTTP/3, and writes a line of JSON for each page.

    python -m http_pages.client CERTIFICATE SOCKET OUT PAUSE HOST PAGE...

PAGE is `PROTOCOL:OBJECTSxBYTES`, for example `2:12x20000`; the protocols are those of `FETCH`. The first page
of each protocol is preceded by a page of one small object that is not recorded, so that no recorded page
contains the time of the first use of a library. After each page, the client closes its connections and pauses
for PAUSE seconds. SOCKET is the server's Unix socket. OUT is the file to write.

Times are in seconds since the client began to open its connections, that is, until the first SYN or Initial
packet is sent. An object is complete when the client's HTTP library has returned its last byte.
"""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import h11
from aioquic.asyncio import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import HandshakeCompleted, QuicEvent

from http_pages.server import QUIC_PORTS, TCP_PORT, processor

NAME = "server"
"""The name in the certificate."""
CONNECTIONS = 6
"""Connections of an HTTP/1.1 page: the limit of Chromium and Firefox for one host."""
STREAM_WINDOW = 6 * 1024 * 1024
CONNECTION_WINDOW = 15 * 1024 * 1024
"""HTTP/2 flow control windows in bytes, those of Chromium (`spdy_session.h`), which limit no page."""
FIRST_WINDOW = 65535
"""The connection's window before the client increases it (RFC 9113, section 6.9.2)."""
READ = 65536
REQUEST = (
    (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64) http-pages"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip, deflate, br"),
)
"""Header fields of each request."""


class Page:
    """The objects of a page while a client fetches them."""

    def __init__(self, objects: int, size: int) -> None:
        self.paths = [f"/{number}/{size}" for number in range(objects)]
        self.done_s: list[float | None] = [None] * objects
        self.first_byte_s: list[float | None] = [None] * objects
        self.bytes = [0] * objects
        self.connected_s: list[float] = []
        self.size = size
        self.start()

    def start(self) -> None:
        """Begins the page: the next step of the client opens its connections."""
        self.began = time.perf_counter()

    def seconds(self) -> float:
        """The time since the page began."""
        return time.perf_counter() - self.began

    def got(self, number: int, length: int) -> None:
        """Counts a part of an object's body."""
        if self.first_byte_s[number] is None:
            self.first_byte_s[number] = self.seconds()
        self.bytes[number] += length

    def finished(self, number: int) -> None:
        """Records that an object is complete."""
        if self.bytes[number] != self.size:
            raise RuntimeError(f"object {number} has {self.bytes[number]} bytes, not {self.size}")
        self.done_s[number] = self.seconds()


def tls(certificate: str, protocol: str) -> ssl.SSLContext:
    """TLS 1.3 with the server's certificate as the only authority."""
    context = ssl.create_default_context(cafile=certificate)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([protocol])
    return context


async def fetch_http1(page: Page, host: str, certificate: str) -> Callable[[], Awaitable[None]]:
    """Six connections are opened at once; each requests the next object when its previous one is complete."""
    waiting = deque(range(len(page.paths)))
    context = tls(certificate, "http/1.1")
    writers: list[asyncio.StreamWriter] = []
    page.start()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(host, TCP_PORT, ssl=context, server_hostname=NAME)
        writers.append(writer)
        page.connected_s.append(page.seconds())
        http = h11.Connection(h11.CLIENT)
        while waiting:
            number = waiting.popleft()
            head = [(b"host", NAME.encode()), *REQUEST]
            writer.write(http.send(h11.Request(method="GET", target=page.paths[number], headers=head)) or b"")
            writer.write(http.send(h11.EndOfMessage()) or b"")
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(await reader.read(READ))
                elif isinstance(event, h11.Data):
                    page.got(number, len(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    page.finished(number)
                    http.start_next_cycle()
                    break
                elif not isinstance(event, h11.Response):
                    raise RuntimeError(f"the server closed the connection of object {number}")

    await asyncio.gather(*(connection() for _ in range(min(CONNECTIONS, len(page.paths)))))
    return partial(close_tcp, writers)


async def fetch_http2(page: Page, host: str, certificate: str) -> Callable[[], Awaitable[None]]:
    """One connection; all requests are sent at once."""
    context = tls(certificate, "h2")
    page.start()
    reader, writer = await asyncio.open_connection(host, TCP_PORT, ssl=context, server_hostname=NAME)
    page.connected_s.append(page.seconds())
    http = h2.connection.H2Connection(config=h2.config.H2Configuration(header_encoding=None))
    http.local_settings = h2.settings.Settings(
        client=True,
        initial_values={
            h2.settings.SettingCodes.ENABLE_PUSH: 0,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 262144,
        },
    )
    http.initiate_connection()
    http.increment_flow_control_window(CONNECTION_WINDOW - FIRST_WINDOW)
    number_of = {}
    for number, path in enumerate(page.paths):
        stream = http.get_next_available_stream_id()
        number_of[stream] = number
        http.send_headers(stream, pseudo(path), end_stream=True)
    writer.write(http.data_to_send())
    left = len(page.paths)
    while left:
        received = await reader.read(READ)
        if not received:
            raise RuntimeError("the server closed the connection")
        for event in http.receive_data(received):
            if isinstance(event, h2.events.DataReceived):
                page.got(number_of[event.stream_id], len(event.data))
                http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                page.finished(number_of[event.stream_id])
                left -= 1
        writer.write(http.data_to_send())
    return partial(close_tcp, [writer])


def pseudo(path: str) -> list[tuple[bytes, bytes]]:
    """The header fields of an HTTP/2 or HTTP/3 request."""
    fields = (
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", NAME.encode()),
        (b":path", path.encode()),
    )
    return [*fields, *REQUEST]


class Http3(QuicConnectionProtocol):  # type: ignore[misc]
    """The client's end of an HTTP/3 connection, which requests all objects when the handshake is complete."""

    def __init__(self, quic: QuicConnection, page: Page) -> None:
        super().__init__(quic)
        self.page = page
        self.http = H3Connection(quic)
        self.number_of: dict[int, int] = {}
        self.left = len(page.paths)
        self.complete = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Sends the requests, and counts the bodies of the responses."""
        if isinstance(event, HandshakeCompleted):
            self.page.connected_s.append(self.page.seconds())
            for number, path in enumerate(self.page.paths):
                stream = self._quic.get_next_available_stream_id()
                self.number_of[stream] = number
                self.http.send_headers(stream, pseudo(path), end_stream=True)
        for found in self.http.handle_event(event):
            if isinstance(found, DataReceived):
                self.page.got(self.number_of[found.stream_id], len(found.data))
            if isinstance(found, DataReceived | HeadersReceived) and found.stream_ended:
                self.page.finished(self.number_of[found.stream_id])
                self.left -= 1
                if not self.left:
                    self.complete.set_result(None)


async def fetch_http3(control: str, page: Page, host: str, certificate: str) -> Callable[[], Awaitable[None]]:
    """One QUIC connection; all requests are sent at once."""
    quic = QuicConfiguration(
        is_client=True, alpn_protocols=H3_ALPN, server_name=NAME, congestion_control_algorithm=control
    )
    quic.load_verify_locations(certificate)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: Http3(QuicConnection(configuration=quic), page), local_addr=("0.0.0.0", 0)
    )
    page.start()
    protocol.connect((host, QUIC_PORTS[control]))
    await protocol.complete

    async def close() -> None:
        protocol.close()
        await asyncio.wait_for(protocol.wait_closed(), 10)
        transport.close()

    return close


async def close_tcp(writers: list[asyncio.StreamWriter]) -> None:
    """Closes connections."""
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


FETCH: Mapping[str, Callable[[Page, str, str], Awaitable[Callable[[], Awaitable[None]]]]] = {
    "1.1": fetch_http1,
    "2": fetch_http2,
    "3-cubic": partial(fetch_http3, "cubic"),
    "3-reno": partial(fetch_http3, "reno"),
}
"""Fetches a page; returns what closes its connections."""


def traffic() -> tuple[int, int, int, int]:
    """Bytes and packets received, and bytes and packets sent, by all network devices of this host."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    fields = [line.partition(":")[2].split() for line in lines]
    down_bytes, down, up_bytes, up = (sum(int(row[at]) for row in fields) for at in (0, 1, 8, 9))
    return down_bytes, down, up_bytes, up


async def of_server(socket: str) -> tuple[float, float]:
    """The processor time and the waiting time of the server, in seconds."""
    reader, writer = await asyncio.open_unix_connection(socket)
    used, waited = (await reader.read()).split()
    writer.close()
    return float(used), float(waited)


async def main(certificate: str, socket: str, out: str, pause: str, host: str, *pages: str) -> None:
    """Fetches the pages in their order."""
    warm: set[str] = set()
    with open(out, "w", encoding="utf-8") as file:
        for wanted in pages:
            protocol, _, shape = wanted.partition(":")
            objects, size = map(int, shape.split("x"))
            for recorded in (False, True) if protocol not in warm else (True,):
                row = await measured(
                    protocol, *((objects, size) if recorded else (1, 1000)), certificate, socket, host
                )
                file.write(json.dumps({"recorded": recorded, "protocol": protocol} | row) + "\n")
                file.flush()
                await asyncio.sleep(float(pause))
            warm.add(protocol)


async def measured(
    protocol: str, objects: int, size: int, certificate: str, socket: str, host: str
) -> dict[str, Any]:
    """Fetches a page once, and returns its times and its traffic until its last byte."""
    gc.collect()
    server, before, client = await of_server(socket), traffic(), processor()
    page = Page(objects, size)
    close = await FETCH[protocol](page, host, certificate)
    client_used, client_waited = (now - then for now, then in zip(processor(), client, strict=True))
    down_bytes, down, up_bytes, up = (now - earlier for now, earlier in zip(traffic(), before, strict=True))
    row = {
        "objects": objects,
        "object_bytes": size,
        "connections": len(page.connected_s),
        "connected_s": page.connected_s,
        "first_byte_s": page.first_byte_s,
        "done_s": page.done_s,
        "down_bytes": down_bytes,
        "down_packets": down,
        "up_bytes": up_bytes,
        "up_packets": up,
        "client_cpu_s": client_used,
        "client_wait_s": client_waited,
    }
    server_used, server_waited = (
        now - then for now, then in zip(await of_server(socket), server, strict=True)
    )
    row |= {"server_cpu_s": server_used, "server_wait_s": server_waited}
    await close()
    return row


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
