"""The record that each reader of a link file returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aqmlab.links.rate_steps import Recording

PAYLOAD_TO_IP = 1500 / 1448
"""Ratio of the rate of IP packets to the rate of TCP payload: packets of 1500 bytes contain 20 bytes of IPv4
header and 32 bytes of TCP header with timestamps (RFC 7323)."""

LEAST_BUFFER_S = 1e-3
"""Queueing delays below this value are not reported as a buffer, because ping programs report times with a
resolution of 0.1 ms to 1 ms. aqmlab's choice."""


class Direction(StrEnum):
    """A direction of a home line."""

    DOWNLOAD = "download"
    UPLOAD = "upload"


class RateKind(StrEnum):
    """The rate to import from a cake-autorate log."""

    SHAPER = "shaper"
    """The configured rate of the shaper."""
    ACHIEVED = "achieved"
    """The achieved rate."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """The measurements of one direction."""

    rate_bps: float | None = None
    """The highest sustained rate, in bits per second."""
    is_payload: bool = True
    """Whether the rate counts the payload of transfers only, and not the headers of their packets."""
    loaded_rtt_s: float | None = None
    """Round-trip time while this direction was under load, in seconds."""
    share: float = 1.0
    """Part of the increase of the round-trip time that is attributed to this direction: one half if both
    directions were under load at once, because the file does not show which queue packets waited in."""
    recording: Recording | None = None
    """Rates over time."""
    opportunities: Sequence[int] | None = None
    """Times of delivery opportunities in milliseconds, as in a Mahimahi trace."""

    @property
    def ip_bps(self) -> float | None:
        """The rate in bits of IP packets per second."""
        if self.rate_bps is None:
            return None
        return self.rate_bps * (PAYLOAD_TO_IP if self.is_payload else 1.0)

    @property
    def is_empty(self) -> bool:
        """Whether the file contains nothing about this direction."""
        return self == NOTHING


HALF = 0.5
"""The `share` of each direction if both directions were under load at once."""

NOTHING = Way()
"""A direction about which a file contains nothing."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A line as a file describes it. Values that the file does not contain are `None`."""

    source: str
    """Description of the file and of the program that wrote it."""
    down: Way = NOTHING
    up: Way = NOTHING
    idle_rtt_s: float | None = None
    """Round-trip time without load, in seconds."""
    notes: Sequence[str] = ()
    """Warnings: skipped parts of the file, and reasons to doubt a value."""

    def way(self, direction: Direction) -> Way:
        """Returns the measurements of one direction."""
        return self.down if direction is Direction.DOWNLOAD else self.up

    def buffer_s(self, direction: Direction, idle_rtt_s: float | None = None) -> float | None:
        """Returns the estimated maximum queueing delay of one direction, which is the increase of the
        round-trip time under load; `None` if the increase is unknown or too small to measure. `idle_rtt_s`
        is the round-trip time without load if the file does not contain this time."""
        way = self.way(direction)
        idle = idle_rtt_s if self.idle_rtt_s is None else self.idle_rtt_s
        if way.loaded_rtt_s is None or idle is None:
            return None
        found = way.share * (way.loaded_rtt_s - idle)
        return found if found >= LEAST_BUFFER_S else None
