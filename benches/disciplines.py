"""What a packet costs each queue discipline by itself: instructions, with a flow, a hundred, ten thousand.

The program `disciplines` of the crate aqm-queue lets packets through one kind, 5 % more than its line sends,
so that the queue stands and the algorithm must act. Counted is what happens while a packet joins and while
the next one is taken, and it is divided by the packets that arrive.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aqmlab as al
import callgrind
from program import built
from simulators import Count

PROGRAM = "disciplines"
FLOWS = (1, 100, 10_000)
BASE = "drop-tail"
WANTED = 3
"""Times what a packet of one flow costs Drop Tail, at most."""

COUNTED = "*counted_*"
"""The functions of the program that are counted."""


def measure(folder: Path) -> list[Count]:
    """Counts every kind that there is, in a folder of its own."""
    built("aqm-queue", PROGRAM, folder)
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
    """Those of the registry, in its order."""
    return [entry.name for entry in al.catalog() if entry.family.name == "queues"]


def case(flows: int) -> str:
    """What a count with so many flows is called."""
    return f"{flows} flows"


def by_kind(counts: Iterable[Count]) -> dict[str, list[float]]:
    """Instructions for a packet, by kind and number of flows, of those counts that are of this."""
    found: dict[str, list[float]] = {}
    order = [case(flows) for flows in FLOWS]
    for one in sorted((one for one in counts if one.case in order), key=lambda one: order.index(one.case)):
        found.setdefault(one.subject, []).append(round(one.per_packet, 1))
    return found


def recorded(path: Path, key: str) -> dict[str, list[float]]:
    """The same of a record, of the machines it knows this one or the first; kinds in their order."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    counts = kept.get(platform.machine(), next(iter(kept.values()))).get(key, {})
    return {kind: counts[kind] for kind in kinds() if kind in counts}


def named(counts: Mapping[str, Iterable[float]]) -> dict[str, float]:
    """The same by a name for each."""
    return {
        f"{kind}, {case(flows)}": value
        for kind, values in counts.items()
        for flows, value in zip(FLOWS, values, strict=True)
    }


def print_table(counts: Mapping[str, list[float]]) -> None:
    """A line for each kind: instructions, and all in times of Drop Tail with one flow."""
    base = counts[BASE][0]
    print("instructions for a packet that arrives at a queue, and in times of drop-tail with one flow")
    print(f"{'':<24}{'1 flow':>12}{'times':>8}{'100 flows':>12}{'10,000 flows':>14}  (wanted {WANTED})")
    for kind, (one, some, many) in counts.items():
        print(f"{kind:<24}{one:>12,.0f}{one / base:>8.2f}{some / base:>12.2f}{many / base:>14.2f}")
