"""The entries of a HAR file without private contents.

An entry contains sizes, times, numbers and words of closed lists only. Addresses are compared while the file
is read, and are replaced by numbers of hosts, connections and entries. Nothing else of the file is kept: no
address, no cookie, no header, no query and no content.

The format is HAR 1.2 (J. Odvarko, 2012) with the additional fields of Chrome (`_initiator`, `_priority`,
`_transferSize`, `_fromCache`, `_resourceType`, `_connectionId`) and of chrome-har (`_initiator` is an
address, `_initialPriority`), which sitespeed.io and WebPageTest write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from aqmlab.pages.har_json import CURE, MOST_MS, HarError, Node, load, version_of

MOST_SIZE = 1e9
"""Maximum size of a page in bytes. A larger size is assumed to be a mistake; aqmlab's choice."""

MOST_ENTRIES = 10_000
"""Maximum number of objects of a page, as in the workload `recorded-page`."""

DEFAULT_REQUEST = 400
"""Size of a request in bytes, if a HAR file contains neither the size nor the headers; aqmlab's choice."""

KINDS: Mapping[str, str] = {
    "document": "document",
    "stylesheet": "style",
    "script": "script",
    "image": "image",
    "font": "font",
    "media": "media",
    "xhr": "data",
    "fetch": "data",
    "eventsource": "data",
    "ping": "data",
    "beacon": "data",
    "preflight": "data",
    "manifest": "other",
    "texttrack": "other",
}
"""Kinds of objects by Chrome's `_resourceType`."""

MIME_KINDS: Mapping[str, str] = {
    "text/html": "document",
    "application/xhtml": "document",
    "text/css": "style",
    "javascript": "script",
    "ecmascript": "script",
    "image/": "image",
    "font": "font",
    "video/": "media",
    "audio/": "media",
    "json": "data",
}
"""Kinds of objects by a part of the media type, for HAR files without `_resourceType`."""

URGENCIES: Mapping[str, int] = {
    "veryhigh": 0,
    "highest": 0,
    "high": 1,
    "medium": 2,
    "low": 3,
    "lowest": 4,
    "verylow": 4,
}
"""Urgency (RFC 9218) of each priority of Chrome, as Chrome sends the urgency to servers."""

_VERSIONS = {"h2": "2", "http/2": "2", "http/2.0": "2", "h3": "3", "http/3": "3", "http/3.0": "3"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A request and its response. Times are in seconds from the start of the page."""

    kind: str
    host: int
    """Number of the host, counted from 0."""
    connection: int | None
    """Number of the connection, counted from 0; `None` if unknown."""
    version: str
    """Version of HTTP: 1.1, 2 or 3."""
    start_s: float
    blocked_s: float
    dns_s: float
    connect_s: float | None
    """Duration of the handshakes of TCP and TLS; `None` if the connection was open."""
    ssl_s: float | None
    """Part of `connect_s` that is the handshake of TLS."""
    send_s: float
    wait_s: float
    receive_s: float
    request_bytes: int
    response_bytes: int
    urgency: int | None
    """Urgency from 0 to 7; `None` if unknown."""
    initiator: int | None = None
    """Position of the entry that caused this entry; `None` if unknown."""

    @property
    def requested_s(self) -> float:
        """The time at which the client begins to send the request."""
        return self.start_s + self.blocked_s + self.dns_s + (self.connect_s or 0.0)

    @property
    def first_byte_s(self) -> float:
        """The arrival time of the first byte of the response."""
        return self.requested_s + self.send_s + self.wait_s

    @property
    def end_s(self) -> float:
        """The arrival time of the last byte of the response."""
        return self.first_byte_s + self.receive_s


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The entries of a page in the order of their starts."""

    entries: tuple[Entry, ...]
    load_event_s: float | None
    """Time of the load event; `None` if unknown."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Number of entries that were skipped, by reason."""


def read(path: Path, page: int = 1) -> Recording:
    """Reads the entries of a page; pages are counted from 1. Raises `HarError`, whose message contains the
    file and the place, but no value of the file."""
    root = load(path)
    try:
        return _recording(root, page)
    except HarError as error:
        text = str(error).removeprefix(": ")
        raise HarError(f"{path}: {text}") from None


def _recording(root: Node, page: int) -> Recording:
    if not isinstance(root.value, dict) or "log" not in root.value:
        raise HarError(f"must be a HAR file, which contains a table `log`: {CURE}")
    log = root.get("log")
    version_of(log)
    pages = [] if log.get("pages").missing else list(log.get("pages").items())
    count = max(1, len(pages))
    if not 1 <= page <= count:
        raise HarError(f"--page: must be between 1 and {count}, the number of pages in the file (got {page})")
    chosen = pages[page - 1] if pages else None
    name = chosen.get("id").value if chosen else None
    nodes, skipped = [], dict[str, int]()
    for node in log.get("entries").items():
        of = node.get("pageref").value
        if chosen is not None and of != name and not (of is None and count == 1):
            continue
        reason = _reason_to_skip(node)
        if reason is None:
            nodes.append(node)
        else:
            skipped[reason] = skipped.get(reason, 0) + 1
    if not nodes:
        raise HarError("log.entries: contains no requests of the page over HTTP: record the page again")
    if len(nodes) > MOST_ENTRIES:
        raise HarError(
            f"log.entries: must contain at most {MOST_ENTRIES} requests of a page (got {len(nodes)})"
        )
    starts = [node.get("startedDateTime").date() for node in nodes]
    order = sorted(range(len(nodes)), key=lambda index: starts[index])
    zero = starts[order[0]]
    entries = _Entries()
    for index in order:
        entries.add(nodes[index], (starts[index] - zero).total_seconds())
    if sum(one.response_bytes for one in entries.found) > MOST_SIZE:
        raise HarError(
            f"log.entries: the sizes of the responses must add up to at most {MOST_SIZE:.0f} bytes"
        )
    load_event = None if chosen is None else _load_event_s(chosen, zero)
    return Recording(entries=tuple(entries.found), load_event_s=load_event, skipped=skipped)


def _load_event_s(page: Node, zero: datetime) -> float | None:
    """Returns the time of the load event of a page, relative to the first request."""
    timings = page.get("pageTimings")
    event = None if timings.missing else timings.get("onLoad").number(MOST_MS)
    if event is None:
        return None
    return event / 1000 + (page.get("startedDateTime").date() - zero).total_seconds()


def _reason_to_skip(node: Node) -> str | None:
    """Returns the reason why an entry is not a transfer over the network; `None` if the entry is a
    transfer."""
    url = node.get("request").get("url").text()
    scheme = url.partition(":")[0].lower()
    if scheme in ("ws", "wss") or node.get("_resourceType").word() == "websocket":
        return "WebSockets"
    if scheme not in ("http", "https"):
        return "addresses without a server"
    if node.get("_fromCache").value:
        return "objects from a cache"
    status = node.get("response").get("status").number(999)
    if not status or node.get("response").get("_error").value:
        return "requests without a response"
    return None


class _Entries:
    """Converts entries in order. Addresses are kept only while the file is read."""

    def __init__(self) -> None:
        self.found: list[Entry] = []
        self._hosts: dict[Any, int] = {}
        self._connections: dict[Any, int] = {}
        self._by_url: dict[str, int] = {}
        self._redirects: dict[str, int] = {}

    def add(self, node: Node, start_s: float) -> None:
        """Adds an entry that starts at `start_s`, relative to the first entry."""
        request, response, timings = (node.get(name) for name in ("request", "response", "timings"))
        url = request.get("url").text()
        host = _host(request.get("url"))
        times = {
            name: timings.get(name).number(MOST_MS)
            for name in ("blocked", "dns", "connect", "ssl", "send", "wait", "receive")
        }
        seconds = {name: (value or 0.0) / 1000 for name, value in times.items()}
        connect, ssl = times["connect"], times["ssl"]
        entry = Entry(
            kind=_kind(node),
            host=self._hosts.setdefault(host, len(self._hosts)),
            connection=self._connection(node),
            version=_version(response, request),
            start_s=start_s,
            blocked_s=seconds["blocked"],
            dns_s=seconds["dns"],
            connect_s=None if not connect else connect / 1000,
            ssl_s=None if not connect or not ssl else min(ssl, connect) / 1000,
            send_s=seconds["send"],
            wait_s=seconds["wait"],
            receive_s=seconds["receive"],
            request_bytes=_request_bytes(request),
            response_bytes=_response_bytes(response),
            urgency=URGENCIES.get(node.get("_priority").word() or node.get("_initialPriority").word()),
            initiator=self._initiator(node, url),
        )
        if 1000 * entry.end_s > MOST_MS:
            node.fail("must end within one hour of the first request of the page", got=False)
        position = len(self.found)
        self.found.append(entry)
        self._by_url[url.partition("#")[0]] = position
        target = response.get("redirectURL").value
        if isinstance(target, str) and target:
            self._redirects[_joined(url, target)] = position

    def _connection(self, node: Node) -> int | None:
        name = node.get("_connectionId").value
        if name is None:
            name = node.get("connection").value
        # Other types than strings and numbers are not keys of a dictionary.
        if not isinstance(name, str | int) or name == "":
            return None
        return self._connections.setdefault(str(name), len(self._connections))

    def _initiator(self, node: Node, url: str) -> int | None:
        """Returns the earlier entry that caused this entry: a redirection, or the initiator."""
        url = url.partition("#")[0]
        if url in self._redirects:
            return self._redirects[url]
        initiator = node.get("_initiator")
        if isinstance(initiator.value, str):
            found = initiator.value
        elif isinstance(initiator.value, dict):
            found = initiator.value.get("url") or _top_frame(initiator.value.get("stack"))
        else:
            found = None
        return self._by_url.get(found.partition("#")[0]) if isinstance(found, str) else None


def _joined(url: str, target: str) -> str:
    try:
        return urljoin(url, target).partition("#")[0]
    except ValueError:
        return target


MOST_STACKS = 100
"""Maximum number of asynchronous calls in a stack that are searched for a script."""


def _top_frame(stack: Any) -> Any:
    """Returns the address of the script in the top frame of a stack."""
    for _ in range(MOST_STACKS):
        if not isinstance(stack, dict):
            return None
        frames = stack.get("callFrames")
        for frame in frames if isinstance(frames, list) else ():
            if isinstance(frame, dict) and frame.get("url"):
                return frame["url"]
        stack = stack.get("parent")
    return None


def _host(url: Node) -> tuple[str, str, int | None]:
    """Returns the origin of an address."""
    try:
        parts = urlsplit(url.text())
        if parts.hostname:
            return parts.scheme.lower(), parts.hostname, parts.port
    except ValueError as error:
        if isinstance(error, HarError):
            raise
    url.fail("must be an absolute address", got=False)


def _kind(node: Node) -> str:
    kind = KINDS.get(node.get("_resourceType").word())
    if kind is not None:
        return kind
    content = node.get("response").get("content")
    media = "" if content.missing else content.get("mimeType").word()
    return next((kind for part, kind in MIME_KINDS.items() if part in media), "other")


def _version(response: Node, request: Node) -> str:
    names = [one.get("httpVersion").word() for one in (response, request)]
    return next((_VERSIONS[name] for name in names if name in _VERSIONS), "1.1")


def _request_bytes(request: Node) -> int:
    """Returns the size of a request. If the file does not contain the size, the lengths of the headers are
    added."""
    head = request.get("headersSize").number(MOST_SIZE)
    body = request.get("bodySize").number(MOST_SIZE) or 0.0
    if head is None:
        headers = request.get("headers").value
        pairs = [one for one in headers if isinstance(one, dict)] if isinstance(headers, list) else []
        lengths = [len(str(one.get("name", ""))) + len(str(one.get("value", ""))) + 4 for one in pairs]
        head = sum(lengths) + len(request.get("url").text()) if lengths else DEFAULT_REQUEST
    return max(1, int(head + body))


def _response_bytes(response: Node) -> int:
    """Returns the number of bytes of a response on the wire, with headers if the file contains their size."""
    wire = response.get("_transferSize").number(MOST_SIZE)
    if wire is None:
        head, body = (response.get(name).number(MOST_SIZE) for name in ("headersSize", "bodySize"))
        wire = head + body if head is not None and body is not None else None
    if wire is None:
        content = response.get("content")
        if content.missing:
            return 1
        size = content.get("size").number(MOST_SIZE) or 0.0
        wire = size - (content.get("compression").number(MOST_SIZE) or 0.0)
    return max(1, int(wire))
