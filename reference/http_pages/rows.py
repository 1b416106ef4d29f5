"""The record: its cells, its rows and its medians. The module needs neither a network nor HTTP libraries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import record_file

MTU = 1500
MOST_WAIT = 0.05
"""Largest share of a page's time during which a program may wait for a processor: half of the 10 % within
which aqmlab's pages are compared with the record."""
LEAST_BUFFER = 20
"""Least buffer in packets: twice the initial window of 10 (RFC 6928)."""

PROTOCOLS = {"1.1": "HTTP/1.1", "2": "HTTP/2", "3-cubic": "HTTP/3, CUBIC", "3-reno": "HTTP/3, NewReno"}
"""Titles of the protocols. The congestion control of HTTP/1.1 and HTTP/2 is the kernel's CUBIC."""
PAGES = ((1, 100_000), (12, 20_000), (40, 30_000))
"""Number of objects and bytes of each object."""
RATES = (2, 10, 20)
"""In Mb/s."""
ROUND_TRIPS = (20, 50, 100)
"""In milliseconds."""
QUEUES = ("drop-tail", "fq-codel")

COLUMNS = (
    *("protocol", "rate_mbps", "rtt_ms", "queue", "buffer_packets", "objects", "object_bytes", "repetition"),
    *("page_s", "connected_first_s", "connected_last_s", "first_byte_s"),
    *("object_p10_s", "object_p50_s", "object_p90_s"),
    *("down_bytes", "up_bytes", "down_packets", "up_packets", "dropped", "up_dropped", "retransmitted"),
    *("client_cpu_s", "server_cpu_s", "client_wait_s", "server_wait_s", "late_p99_us", "valid", "objects_s"),
)
TEXT = ("protocol", "queue", "objects_s")
WHOLE = ("objects", "object_bytes", "repetition", "valid")


@dataclass(frozen=True)
class Cell:
    """A link with a queue."""

    rate_mbps: float
    rtt_ms: float
    queue: str

    @property
    def buffer_packets(self) -> int | None:
        """The limit of Drop Tail: a bandwidth-delay product, at least `LEAST_BUFFER`. Other queues have their
        default limits (`None`)."""
        if self.queue != "drop-tail":
            return None
        return max(LEAST_BUFFER, math.ceil(self.rate_mbps * 1e3 * self.rtt_ms / 8 / MTU))


CELLS = tuple(Cell(rate, rtt, queue) for rate in RATES for rtt in ROUND_TRIPS for queue in QUEUES)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile with linear interpolation between the order statistics (R's type 7)."""
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (rank - below) * (ordered[above] - ordered[below])


def per_page(pages: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """The counts of each page's connections: `flows` are the rows of a run's table of flows.

    The client opens its connections page by page, and flows are numbered in the order in which they are
    opened. Therefore, the order of the flows' numbers is the order of the pages in the client's output.
    """
    waiting = sorted(flows, key=lambda flow: flow["flow"])
    expected = sum(page["connections"] for page in pages)
    if len(waiting) != expected:
        raise ValueError(f"the client opened {expected} connections, and the router saw {len(waiting)}")
    counts = []
    at = 0
    for page in pages:
        own = waiting[at : at + page["connections"]]
        at += page["connections"]
        counts.append(
            {name: sum(flow[name] or 0 for flow in own) for name in ("packets_dropped", "retransmitted")}
        )
    return counts


def was_undisturbed(page: Mapping[str, Any]) -> bool:
    """Whether neither program waited too long for a processor that other programs used."""
    waited: float = max(page["client_wait_s"], page["server_wait_s"])
    return bool(waited <= MOST_WAIT * max(page["done_s"]))


def row(
    page: Mapping[str, Any],
    *,
    cell: Cell | None,
    repetition: int,
    down: Mapping[str, int] | None = None,
    up: Mapping[str, int] | None = None,
    late_p99_us: float = math.nan,
    valid: bool = True,
) -> dict[str, Any]:
    """A row of the record: a line of the client's output, the counts of its connections in both directions,
    and the lateness of the run. A page without a link has no cell and no counts."""
    done = page["done_s"]
    return {
        "protocol": page["protocol"],
        "rate_mbps": cell.rate_mbps if cell else None,
        "rtt_ms": cell.rtt_ms if cell else None,
        "queue": cell.queue if cell else None,
        "buffer_packets": cell.buffer_packets if cell else None,
        "objects": page["objects"],
        "object_bytes": page["object_bytes"],
        "repetition": repetition,
        "page_s": round(max(done), 6),
        "connected_first_s": round(min(page["connected_s"]), 6),
        "connected_last_s": round(max(page["connected_s"]), 6),
        "first_byte_s": round(min(page["first_byte_s"]), 6),
        "object_p10_s": round(quantile(done, 0.1), 6),
        "object_p50_s": round(quantile(done, 0.5), 6),
        "object_p90_s": round(quantile(done, 0.9), 6),
        "down_bytes": page["down_bytes"],
        "up_bytes": page["up_bytes"],
        "down_packets": page["down_packets"],
        "up_packets": page["up_packets"],
        "dropped": down["packets_dropped"] if down else None,
        "up_dropped": up["packets_dropped"] if up else None,
        "retransmitted": down["retransmitted"] if down and not page["protocol"].startswith("3") else None,
        "client_cpu_s": round(page["client_cpu_s"], 6),
        "server_cpu_s": round(page["server_cpu_s"], 6),
        "client_wait_s": round(page["client_wait_s"], 6),
        "server_wait_s": round(page["server_wait_s"], 6),
        "late_p99_us": None if math.isnan(late_p99_us) else round(late_p99_us, 1),
        "valid": int(valid),
        "objects_s": " ".join(f"{value:.4f}" for value in done),
    }


def write(path: Path, rows: Iterable[Mapping[str, Any]], origin: Iterable[str]) -> None:
    """Writes a compressed table, headed by lines that state its origin."""
    record_file.write(path, COLUMNS, rows, origin)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a table: numbers, texts, and `None` for an empty field."""
    return record_file.read(path, value_of)


def value_of(column: str, text: str) -> str | int | float | None:
    """The value of a field."""
    if not text:
        return None
    if column in TEXT:
        return text
    return int(text) if column in WHOLE else float(text)


Key = tuple[Any, ...]
KEY = ("protocol", "rate_mbps", "rtt_ms", "queue", "objects", "object_bytes")


def medians(rows: Iterable[Mapping[str, Any]], column: str = "page_s") -> dict[Key, float]:
    """The median of a column over the valid repetitions of each condition, by the columns of `KEY`."""
    values: dict[Key, list[float]] = {}
    for one in rows:
        if one["valid"] and one[column] is not None:
            values.setdefault(tuple(one[name] for name in KEY), []).append(float(one[column]))
    return {key: median(some) for key, some in values.items()}


def table(rows: Sequence[Mapping[str, Any]], column: str = "page_s") -> str:
    """The medians as a Markdown table: a line for each link, queue and page, a column for each protocol."""
    found = medians(rows, column)
    protocols = [name for name in PROTOCOLS if any(key[0] == name for key in found)]
    titles = " | ".join(PROTOCOLS[name] for name in protocols)
    lines = [
        f"| Mb/s | RTT (ms) | Queue | Page | {titles} |",
        "| --- " * (4 + len(protocols)) + "|",
    ]
    conditions = {key[1:] for key in found}
    for rate, rtt, queue, objects, size in sorted(
        conditions, key=lambda one: tuple(part or 0 for part in one)
    ):
        cells = [found.get((name, rate, rtt, queue, objects, size)) for name in protocols]
        link = " | ".join("-" if one is None else f"{one:g}" for one in (rate, rtt))
        texts = " | ".join("" if one is None else f"{one:.3f}" for one in cells)
        lines.append(f"| {link} | {queue or '-'} | {objects} x {size // 1000} kB | {texts} |")
    return "\n".join(lines)
