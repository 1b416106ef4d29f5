"""Compares instruction counts of three short workloads and of each queue discipline with a record.

Timings on a busy machine do not show differences of a few per cent. callgrind does: its counts are the same
on every machine of one architecture with the same compiler and C library. The record is
`instruction_counts.json`, with the versions of the tools on which the counts depend.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import callgrind
import disciplines
from program import Program
from workloads import WORKLOADS, scenario

RECORD = Path(__file__).with_suffix(".json")
COUNTS = "instructions_per_packet"
ALONE = "disciplines"
TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class Change:
    """Instructions per packet of a workload or discipline, recorded and now."""

    workload: str
    before: float | None
    now: float

    @property
    def relative(self) -> float:
        """The relative increase."""
        return self.now / self.before - 1 if self.before else 0.0

    @property
    def grew(self) -> bool:
        """Whether the increase exceeds the tolerance."""
        return self.relative > TOLERANCE

    @property
    def unchanged(self) -> bool:
        """Whether the count is on record and within the tolerance."""
        return self.before is not None and abs(self.relative) <= TOLERANCE

    @property
    def verdict(self) -> str:
        """The text for the table."""
        if self.before is None:
            return "not on record: add it with --accept"
        if self.unchanged:
            return "unchanged"
        return "MORE" if self.grew else "less: record it with --accept"


def tools() -> dict[str, str]:
    """The tools on which the counts depend."""
    rustc = _first_line(["rustc", "--version"])
    libc = " ".join(part for part in platform.libc_ver() if part)
    return {"rustc": rustc, "libc": libc, "valgrind": _first_line(["valgrind", "--version"])}


def _first_line(command: list[str]) -> str:
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def count(program: Program) -> dict[str, float]:
    """Instructions per packet, by workload."""
    if not shutil.which("valgrind"):
        raise SystemExit("counting instructions needs valgrind, which is not installed")
    found = {}
    for workload in WORKLOADS:
        short = scenario(workload.name, workload.counted_s)
        file = program.write(f"short-{workload.name}", short)
        ran = callgrind.run(["./events", file], program.folder)
        found[workload.name] = round(ran.instructions / ran.packets, 1)
    return found


def changes_between(recorded: Mapping[str, float], now: Mapping[str, float]) -> list[Change]:
    """The change of each count."""
    return [Change(workload=name, before=recorded.get(name), now=value) for name, value in now.items()]


def check(program: Program, *, accept: bool) -> int:
    """Counts and prints a table; returns 1 if a count exceeds the tolerance and `accept` is false."""
    kept: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    mine = kept.get(platform.machine(), {"tools": {}, COUNTS: {}})
    here, now = tools(), count(program)
    alone = disciplines.by_kind(disciplines.measure(program.folder))
    changes = changes_between(mine[COUNTS], now)
    named = disciplines.named
    of_disciplines = changes_between(named(mine.get(ALONE, {})), named(alone))
    changes += [one for one in of_disciplines if not one.unchanged]
    print_table(changes, mine["tools"], here)
    print(f"{sum(one.unchanged for one in of_disciplines)} counts of disciplines are unchanged")
    if accept:
        kept[platform.machine()] = {"tools": here, COUNTS: now, ALONE: alone}
        RECORD.write_text(record_text(kept) + "\n", encoding="utf-8")
        return 0
    return int(any(one.grew for one in changes))


def record_text(kept: Mapping[str, Any]) -> str:
    """The text of a record, with each list of numbers on one line."""
    text = json.dumps(kept, indent=2, sort_keys=True)
    return re.sub(r"\[[\s\d.,]+\]", lambda numbers: re.sub(r"\s+", "", numbers[0]).replace(",", ", "), text)


def print_table(changes: Sequence[Change], then: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Prints a row for each count, and a line for each tool whose version differs from the record."""
    print(f"{'instructions per packet':<40}{'on record':>12}{'now':>12}{'change':>9}")
    for one in changes:
        before = "-" if one.before is None else f"{one.before:,.1f}"
        print(f"{one.workload:<40}{before:>12}{one.now:>12,.1f}{one.relative:>+9.1%}  {one.verdict}")
    for name, version in here.items():
        if then and then.get(name) != version:
            print(f"Recorded with {name} {then.get(name)!r}, now {version!r}: this may explain differences.")
