"""The server: HTTP/2 over TLS with the three objects that a test of responsiveness needs. A client that
offers only HTTP/1.1, as mach does on the idle line, gets the small object.

    python -m rpm.server CERTIFICATE KEY

`GET /small` returns one byte, `GET /large` returns bytes without end, and `POST /upload` accepts any number
of bytes. The server follows the draft (section 6.1.1): a response does not wait in the server behind the data
of other responses. For this purpose, the server passes at most one DATA frame of the size of a packet to TLS
when the socket is writable, the streams take turns, and `TCP_NOTSENT_LOWAT` limits the data that wait in the
socket. One thread serves all connections.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import sys
from collections import deque

import h2.config
import h2.connection
import h2.events
import h2.settings

from rpm.links import NOT_SENT

PORT = 443
FRAME = 1378
"""Payload of a DATA frame in bytes. With the headers of HTTP/2 (9 B) and TLS (22 B), TCP with timestamps and
IP, a packet has 1461 B."""
WINDOW = 2**31 - 1
"""Windows of HTTP/2 for uploads, which TCP limits instead."""
ENDLESS = bytes(FRAME)
SMALL_OVER_HTTP1 = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n\0"


class Connection:
    """A connection: TLS in memory between the socket and HTTP/2."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self.arrived, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.arrived, self.leaving, server_side=True)
        self.http: h2.connection.H2Connection | None = None
        self.request = b""
        """The part of a request over HTTP/1.1 that has arrived."""
        self.out = b""
        self.streams: deque[tuple[int, int | None]] = deque()
        """Streams whose responses are incomplete, with the number of bytes left, in the order of their
        turns."""

    def on_readable(self) -> bool:
        """Processes arrived bytes. Returns whether the connection is still open."""
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        self.arrived.write(data)
        try:
            self.tls.do_handshake()
            uses_http2 = self.tls.selected_alpn_protocol() == "h2"
            if uses_http2 and self.http is None:
                self._begin()
            while plain := self.tls.read(65536):
                if uses_http2:
                    self._on_plain(plain)
                else:
                    self._on_plain_http1(plain)
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLError, h2.exceptions.ProtocolError):
            return False
        return self.flush()

    def _begin(self) -> None:
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.http.initiate_connection()
        self.http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW})
        self.http.increment_flow_control_window(WINDOW - 65535)

    def _on_plain_http1(self, plain: bytes) -> None:
        """Responds to a complete GET request over HTTP/1.1."""
        self.request += plain
        if self.request.endswith(b"\r\n\r\n"):
            self.request = b""
            self.tls.write(SMALL_OVER_HTTP1)

    def _on_plain(self, plain: bytes) -> None:
        assert self.http is not None
        for event in self.http.receive_data(plain):
            if isinstance(event, h2.events.RequestReceived):
                self._on_request(event.stream_id, dict(event.headers))
            elif isinstance(event, h2.events.DataReceived):
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self._on_end(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.streams = deque(one for one in self.streams if one[0] != event.stream_id)

    def _on_request(self, stream: int, headers: dict[bytes, bytes]) -> None:
        path, method = headers[b":path"], headers[b":method"]
        if method == b"POST":
            return
        self._respond(stream, None if path.startswith(b"/large") else 1)

    def _on_end(self, stream: int) -> None:
        """Responds to a complete upload. A GET request has been answered already."""
        assert self.http is not None
        if not self.http.streams[stream].state_machine.headers_sent:
            self._respond(stream, 1)

    def _respond(self, stream: int, size: int | None) -> None:
        assert self.http is not None
        headers = [
            (":status", "200"),
            ("content-type", "application/octet-stream"),
            ("cache-control", "no-store"),
        ]
        self.http.send_headers(stream, headers)
        self.streams.append((stream, size))

    def flush(self) -> bool:
        """Sends while the socket accepts data. Returns whether the connection is still open."""
        while True:
            if not self.out:
                self._next_frame()
                self.out = self.leaving.read()
            if not self.out:
                return True
            try:
                sent = self.sock.send(self.out)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self.out = self.out[sent:]

    def _next_frame(self) -> None:
        """Passes the waiting control frames, or else the next DATA frame, to TLS."""
        if self.http is None or self.leaving.pending:
            return
        control = self.http.data_to_send()
        if control:
            self.tls.write(control)
            return
        for _ in range(len(self.streams)):
            stream, left = self.streams.popleft()
            size = FRAME if left is None else min(left, FRAME)
            if self.http.local_flow_control_window(stream) < size:
                self.streams.append((stream, left))
                continue
            ends = left is not None and left == size
            self.http.send_data(stream, ENDLESS[:size], end_stream=ends)
            if not ends:
                self.streams.append((stream, None if left is None else left - size))
            self.tls.write(self.http.data_to_send())
            return

    @property
    def wants_to_write(self) -> bool:
        """Whether data wait for the socket."""
        return bool(self.out or self.streams)


def listener() -> socket.socket:
    """The listening socket. Its options hold for accepted sockets."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOT_SENT)
    sock.bind(("0.0.0.0", PORT))
    sock.listen(128)
    sock.setblocking(False)
    return sock


def main() -> None:
    """Serves until the process is ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.num_tickets = 0
    selector = selectors.DefaultSelector()
    selector.register(listener(), selectors.EVENT_READ)
    while True:
        for key, events in selector.select():
            connection: Connection | None = key.data
            if connection is None:
                sock, _ = key.fileobj.accept()  # type: ignore[union-attr]
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_READ, Connection(sock, context))
                continue
            is_open = True
            if events & selectors.EVENT_READ:
                is_open = connection.on_readable()
            if is_open and events & selectors.EVENT_WRITE:
                is_open = connection.flush()
            if not is_open:
                selector.unregister(connection.sock)
                connection.sock.close()
                continue
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_write else 0)
            if wanted != key.events:
                selector.modify(connection.sock, wanted, connection)


if __name__ == "__main__":
    main()
