"""The server: `GET /<n>/<bytes>` returns this number of bytes, over HTTP/1.1, HTTP/2 and HTTP/3.

    python -m http_pages.server CERTIFICATE KEY SOCKET

Hypercorn serves HTTP/1.1 and HTTP/2 on TCP port 443. aioquic serves HTTP/3 on the UDP ports of `QUIC_PORTS`,
one for each congestion control. Hypercorn's own HTTP/3 is not used: it discards datagrams that arrive while
ten others wait. A connection to the Unix socket SOCKET returns the server's `processor` times.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent
from hypercorn.asyncio import serve as serve_tcp
from hypercorn.config import Config

TCP_PORT = 443
QUIC_PORTS = {"cubic": 4431, "reno": 4432}
"""UDP port of each congestion control of aioquic."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def size_of(path: str) -> int | None:
    """The number of bytes that a path asks for; `None` for any other path."""
    found = re.fullmatch(r"/\d+/(\d+)", path)
    return int(found[1]) if found else None


def response(path: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body."""
    size = size_of(path)
    status, body = (404, b"") if size is None else (200, bytes(size))
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    return status, headers, body


async def application(
    scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Any]], send: Send
) -> None:
    """The ASGI application that Hypercorn runs."""
    if scope["type"] == "lifespan":
        while True:
            event = (await receive())["type"]
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
    status, headers, body = response(scope["path"])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Http3(QuicConnectionProtocol):  # type: ignore[misc]
    """The server's end of an HTTP/3 connection."""

    http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answers each request when its headers arrive. aioquic transmits after the events of a datagram."""
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for found in self.http.handle_event(event):
            if isinstance(found, HeadersReceived):
                fields = dict(found.headers)
                status, headers, body = response(fields[b":path"].decode("ascii"))
                head = [(b":status", b"%d" % status), (b"server", b"aioquic"), *headers]
                self.http.send_headers(found.stream_id, head)
                self.http.send_data(found.stream_id, body, end_stream=True)


def processor() -> tuple[float, float]:
    """The processor time that this process has used, and the time during which its thread was ready but
    waited for a processor (`/proc/self/schedstat`), in seconds."""
    waited = Path("/proc/self/schedstat").read_text().split()[1]
    return time.process_time(), int(waited) / 1e9


async def report(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Writes the server's processor time and waiting time."""
    writer.write(b"%.6f %.6f\n" % processor())
    await writer.drain()
    writer.close()


async def main(certificate: str, key: str, socket: str) -> None:
    """Serves until the program is killed."""
    Path(socket).unlink(missing_ok=True)
    await asyncio.start_unix_server(report, socket)
    for control, port in QUIC_PORTS.items():
        quic = QuicConfiguration(
            is_client=False, alpn_protocols=H3_ALPN, congestion_control_algorithm=control
        )
        quic.load_cert_chain(certificate, key)
        await serve("0.0.0.0", port, configuration=quic, create_protocol=Http3)
    config = Config()
    config.bind = [f"0.0.0.0:{TCP_PORT}"]
    config.certfile, config.keyfile = certificate, key
    config.errorlog = None
    await serve_tcp(application, config)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
