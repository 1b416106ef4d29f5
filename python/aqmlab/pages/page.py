"""A page: its objects with their sizes, dependencies and think times, and the table that scenarios read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

COLUMNS = (
    "object",
    "label",
    "host",
    "after",
    "event",
    "delay_ms",
    "request_bytes",
    "think_ms",
    "response_bytes",
    "urgency",
    "awaited_by",
    "extra_rtt_ms",
)
"""The columns of the table that the workload `recorded-page` reads."""

MOST_REQUEST = 1_000_000
"""Maximum size of a request in the table, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """The times of an object in the recording, in seconds from the start of the page, which includes the
    first handshake."""

    discovered_s: float
    requested_s: float
    """Time of the request or, if a connection was opened for the object, of the first packet of the
    handshake."""
    first_byte_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class PageObject:
    """An object of a page."""

    label: str
    """Kind, number and host, such as `script 3 (host 2)`."""
    host: int
    """Number of the host, counted from 1."""
    after: tuple[int, ...]
    """Numbers of the objects on which the object depends, counted from 1."""
    event: str
    """Event of these objects before which the client does not discover the object: `request`, `first-byte` or
    `end`."""
    delay_s: float
    """Time from the event (without parents, from the start of the page) to the discovery of the object."""
    request_bytes: int
    think_s: float
    """Time between the arrival of the request at the server and the start of the response."""
    response_bytes: int
    urgency: int
    """Urgency from 0 (most urgent) to 7 (RFC 9218)."""
    awaited_by: str
    """Event of the page that waits for the object: `render`, `load` or `nothing`."""
    recorded: Times


@dataclass(frozen=True, kw_only=True)
class Page:
    """A recorded page.

    `rtt_s` is the round-trip time of a link that fits the recording, and `least_rate_bps` a lower bound of
    the link's rate. `extra_rtt_s` contains the additional round-trip time of each host.
    """

    objects: tuple[PageObject, ...]
    extra_rtt_s: tuple[float, ...]
    http: str
    """Version of HTTP that carried most bytes: 1.1, 2 or 3."""
    tls: bool
    """Whether connections began with a TLS handshake."""
    rtt_s: float
    least_rate_bps: float
    load_event_s: float | None
    """Time of the browser's load event; `None` if unknown."""
    lead_s: float = 0.0
    """Time by which the browser opened the first connection before the request. Recorded times count from the
    opening."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def bytes(self) -> int:
        """Total size of the responses in bytes."""
        return sum(one.response_bytes for one in self.objects)

    @property
    def load_s(self) -> float:
        """Recorded time of the last byte of the last object for which the load event waits."""
        return max(one.recorded.end_s for one in self.objects if one.awaited_by != "nothing")

    @property
    def render_s(self) -> float | None:
        """Recorded time of the last byte of the last render-blocking object; `None` without such objects."""
        ends = [one.recorded.end_s for one in self.objects if one.awaited_by == "render"]
        return max(ends, default=None)

    def to_csv(self) -> str:
        """Returns the table of the page, which the workload `recorded-page` reads."""
        lines = [",".join(COLUMNS)]
        for number, one in enumerate(self.objects, start=1):
            extra = self.extra_rtt_s[one.host - 1]
            values = (
                number,
                one.label,
                one.host,
                " ".join(map(str, one.after)),
                one.event,
                _ms(one.delay_s),
                min(one.request_bytes, MOST_REQUEST),
                _ms(one.think_s),
                one.response_bytes,
                one.urgency,
                one.awaited_by,
                _ms(extra),
            )
            lines.append(",".join(map(str, values)))
        return "\n".join(lines) + "\n"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3f}".rstrip("0").rstrip(".")
