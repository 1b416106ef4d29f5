"""The printed output of `aqmlab link`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aqmlab._support.toml_writer import inline
from aqmlab.links.access.kind import rate_text
from aqmlab.links.buffer import Buffer
from aqmlab.links.measured import Direction, Measured
from aqmlab.links.rate_steps import decimal


def lines(measured: Measured) -> Iterator[str]:
    """Yields lines that describe a measured line."""
    for direction in Direction:
        way = measured.way(direction)
        if way.is_empty:
            continue
        parts = []
        if way.ip_bps is not None:
            payload = (
                f" ({way.rate_bps / 1e6:.4g} Mbps of payload)" if way.is_payload and way.rate_bps else ""
            )
            parts.append(f"{way.ip_bps / 1e6:.4g} Mbps{payload}")
        if way.opportunities is not None:
            parts.append(f"{len(way.opportunities)} delivery opportunities")
        if way.loaded_rtt_s is not None:
            parts.append(f"round trip under load {1e3 * way.loaded_rtt_s:.4g} ms")
        seconds = measured.buffer_s(direction)
        if seconds is not None:
            size = f", {Buffer(seconds=seconds).bytes_at(way.ip_bps) / 1e3:.4g} kB" if way.ip_bps else ""
            parts.append(f"buffer of at least {1e3 * seconds:.4g} ms{size}")
        yield f"{direction}: {', '.join(parts) or 'no rate'}"
    if measured.idle_rtt_s is not None:
        yield f"round trip without load: {1e3 * measured.idle_rtt_s:.4g} ms"


def fragment(measured: Measured, file: Path, link: str) -> str:
    """Returns the tables of a scenario that describe a measured line."""
    parts = []
    for direction, table_name in zip(Direction, (link, f"{link}.reverse"), strict=True):
        way = measured.way(direction)
        if way.opportunities is not None:
            parts.append(f"[{link}]\nopportunities = {{ file = {inline(str(file))} }}")
            continue
        if way.ip_bps is None:
            continue
        rows = [f"[{table_name}]", f'rate = "{rate_text(way.ip_bps)}"']
        if measured.idle_rtt_s is not None:
            rows.append(f'delay = "{decimal(measured.idle_rtt_s / 2)}s"')
        seconds = measured.buffer_s(direction)
        if seconds is not None:
            limit = Buffer(seconds=seconds).limit_at(way.ip_bps)
            rows.append(f'queue = {{ kind = "drop-tail", limit = "{limit}" }}')
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def table(measured: Measured) -> dict[str, Any]:
    """Returns a measured line as a JSON value."""
    found: dict[str, Any] = {"source": measured.source, "idle_rtt_s": measured.idle_rtt_s}
    for direction in Direction:
        way = measured.way(direction)
        found[str(direction)] = (
            None
            if way.is_empty
            else {
                "ip_bps": way.ip_bps,
                "payload_bps": way.rate_bps if way.is_payload else None,
                "loaded_rtt_s": way.loaded_rtt_s,
                "buffer_s": measured.buffer_s(direction),
            }
        )
    return {**found, "notes": list(measured.notes)}
