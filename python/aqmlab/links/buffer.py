"""The size of a buffer, as users know it: in bytes, in packets or as a time."""

from __future__ import annotations

from dataclasses import dataclass

from aqmlab import _core

PACKET_BYTES = 1500
"""Length of a full IP packet on Ethernet."""

LEAST_BYTES = 2 * PACKET_BYTES
"""Minimum size of a buffer: two full packets, so that a sender can have more than one packet in flight.
aqmlab's choice."""


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """The size of a buffer: exactly one of the three values is set."""

    size_bytes: int | None = None
    packets: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Buffer:
        """Parses a size such as `256kB`, `100p` or `200ms`. Raises `ValueError`."""
        try:
            value, unit = _core.quantity(text)
        except _core.ScenarioError:
            value, unit = 0.0, ""
        if value > 0 and unit == "s":
            return cls(seconds=value)
        if value >= 1 and unit == "B":
            return cls(size_bytes=round(value))
        if value >= 1 and unit == "p":
            return cls(packets=round(value))
        raise ValueError(f"must be a size of a buffer, such as 256kB, 100p or 200ms (got {text})")

    def bytes_at(self, bps: float) -> int:
        """Returns the size in bytes of a buffer in front of a link with this rate."""
        if self.size_bytes is not None:
            return self.size_bytes
        if self.packets is not None:
            return self.packets * PACKET_BYTES
        return round((self.seconds or 0.0) * bps / 8)

    def limit_at(self, bps: float) -> str:
        """Returns the parameter `limit` of a queue in front of a link with this rate."""
        if self.packets is not None:
            return f"{self.packets}p"
        return f"{max(self.bytes_at(bps), LEAST_BYTES)}B"

    def __str__(self) -> str:
        if self.packets is not None:
            return f"{self.packets} packets"
        if self.size_bytes is not None:
            return f"{self.size_bytes} bytes"
        return f"{1e3 * (self.seconds or 0.0):.4g} ms"
