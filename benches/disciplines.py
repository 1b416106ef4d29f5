"""Instructions per packet of each queue discipline by itself, with 1, 100 and 10,000 flows.

The program `disciplines` of the crate aqm-queue sends packets through one kind, 5 % faster than its link, so
that there is a standing queue and the algorithm must act. It counts the instructions of enqueueing a packet
and dequeueing the next one, divided by the number of arrivals.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aqmlab as al
import callgrind
from program import build_bench
from simulators import Count

PROGRAM = "disciplines"
FLOWS = (1, 100, 10_000)
BASE = "drop-tail"
TARGET_RATIO = 3
"""Target: at most this many times the instructions per packet of Drop Tail with one flow."""

COUNTED = "*counted_*"
"""Pattern of the functions whose instructions are counted."""


def measure(folder: Path) -> list[Count]:
    """Counts every registered kind, in a separate folder."""
    build_bench("aqm-queue", PROGRAM, folder)
    found = []
    for kind in kinds():
        for flows in FLOWS:
            ran = callgrind.run([f"./{PROGRAM}", kind, str(flows)], folder, only=COUNTED)
            found.append(
                Count(
                    case=case(flows),
                    subject=kind,
                    seconds=0.0,
                    instructions=ran.instructions,
                    packets=ran.packets,
                    by_file={},
                )
            )
    return found


def kinds() -> list[str]:
    """The queue kinds of the registry, in its order."""
    return [entry.name for entry in al.catalog() if entry.family.name == "queues"]


def case(flows: int) -> str:
    """The case name of a count with this number of flows."""
    return f"{flows} flows"


def by_kind(counts: Iterable[Count]) -> dict[str, list[float]]:
    """Instructions per packet, by kind and number of flows; ignores counts of other parts."""
    found: dict[str, list[float]] = {}
    order = [case(flows) for flows in FLOWS]
    for one in sorted((one for one in counts if one.case in order), key=lambda one: order.index(one.case)):
        found.setdefault(one.subject, []).append(round(one.per_packet, 1))
    return found


def recorded(path: Path, key: str) -> dict[str, list[float]]:
    """Recorded instructions per packet, by kind: those of this architecture, or else of the first one."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    counts = kept.get(platform.machine(), next(iter(kept.values()))).get(key, {})
    return {kind: counts[kind] for kind in kinds() if kind in counts}


def named(counts: Mapping[str, Iterable[float]]) -> dict[str, float]:
    """Instructions per packet with one name for each kind and number of flows."""
    return {
        f"{kind}, {case(flows)}": value
        for kind, values in counts.items()
        for flows, value in zip(FLOWS, values, strict=True)
    }


def print_table(counts: Mapping[str, list[float]]) -> None:
    """Prints a row for each kind: instructions, and the ratio to Drop Tail with one flow."""
    base = counts[BASE][0]
    print("instructions per arriving packet, and the ratio to drop-tail with one flow")
    print(f"{'':<24}{'1 flow':>12}{'times':>8}{'100 flows':>12}{'10,000 flows':>14}  (target {TARGET_RATIO})")
    for kind, (one, some, many) in counts.items():
        print(f"{kind:<24}{one:>12,.0f}{one / base:>8.2f}{some / base:>12.2f}{many / base:>14.2f}")
