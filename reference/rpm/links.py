"""The record: its links, its rows and the comparison's means. The module needs neither a network nor HTTP
libraries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record_file

MTU = 1500
DIRECTIONS = ("download", "upload")
QUEUES = ("drop-tail", "fq-codel")
LINES = ((2, 40), (5, 20), (5, 80), (10, 40), (20, 20))
"""Rate in both directions (Mb/s) and round-trip time without queueing (ms)."""
NOT_SENT = 4096
"""Value of `TCP_NOTSENT_LOWAT` of both hosts in bytes. A socket accepts data while fewer bytes wait for TCP,
and is writable again when less than half of this number waits."""
LEAST_BUFFER = 50
"""Least buffer of Drop Tail in packets (aqmlab's choice: small buffers of home routers)."""

KEY = ("rate_mbps", "rtt_ms", "queue")
COLUMNS = (
    *("rate_mbps", "rtt_ms", "queue", "buffer_packets", "repetition"),
    *("idle_latency_ms", "jitter_ms"),
    *("download_rpm", "download_mbps", "download_latency_ms"),
    *("upload_rpm", "upload_mbps", "upload_latency_ms"),
    *("client_cpu_s", "late_p99_us", "valid"),
)


@dataclass(frozen=True)
class Cell:
    """A link with a queue for each direction."""

    rate_mbps: float
    rtt_ms: float
    queue: str

    @property
    def buffer_packets(self) -> int | None:
        """The limit of Drop Tail: two bandwidth-delay products, at least `LEAST_BUFFER`. Other queues have
        their default limits (`None`)."""
        if self.queue != "drop-tail":
            return None
        return max(LEAST_BUFFER, math.ceil(2 * self.rate_mbps * 1e3 * self.rtt_ms / 8 / MTU))

    @property
    def key(self) -> tuple[float, float, str]:
        """The values that identify the cell in a row."""
        return self.rate_mbps, self.rtt_ms, self.queue

    def bottleneck(self) -> dict[str, Any]:
        """The table `bottleneck` of a scenario, with the same queue in both directions."""
        queue: dict[str, Any] = {"kind": self.queue}
        if self.buffer_packets is not None:
            queue["limit"] = f"{self.buffer_packets}p"
        line = {"rate": f"{self.rate_mbps:g}Mbps", "delay": f"{self.rtt_ms / 2:g}ms", "queue": queue}
        return {**line, "reverse": line}


CELLS = tuple(Cell(rate, rtt, queue) for rate, rtt in LINES for queue in QUEUES)


def write(path: Path, found: Iterable[Mapping[str, Any]], origin: Iterable[str]) -> None:
    """Writes rows below lines that state their origin."""
    record_file.write(path, COLUMNS, ({name: row.get(name) for name in COLUMNS} for row in found), origin)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows. A number that is missing is `None`."""
    return record_file.read(path, _value)


def _value(name: str, text: str) -> Any:
    if name == "queue":
        return text
    return float(text) if text else None


def of_cell(rows: Sequence[Mapping[str, Any]], cell: Cell) -> list[Mapping[str, Any]]:
    """The rows of a cell."""
    return [row for row in rows if tuple(row[name] for name in KEY) == cell.key]
