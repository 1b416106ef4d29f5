"""Instructions of three short workloads, and of every queue discipline by itself, beside those on record.

A clock on a busy machine does not show a few per cent, callgrind does: it counts, and finds the same on every
machine of one architecture with the same compiler and C library. The counts are kept in
`instruction_counts.json`, with the tools that they depend on.
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
    """A workload's instructions for each packet of the bottleneck, or a discipline's, before and now."""

    workload: str
    before: float | None
    now: float

    @property
    def relative(self) -> float:
        """By what share it grew."""
        return self.now / self.before - 1 if self.before else 0.0

    @property
    def grew(self) -> bool:
        """Whether it takes more than is tolerated."""
        return self.relative > TOLERANCE

    @property
    def is_as_before(self) -> bool:
        """Whether there is nothing to do."""
        return self.before is not None and abs(self.relative) <= TOLERANCE

    @property
    def verdict(self) -> str:
        """What to make of it."""
        if self.before is None:
            return "not on record: put it there with --accept"
        if self.is_as_before:
            return "as before"
        return "MORE" if self.grew else "less: put it on record with --accept"


def tools() -> dict[str, str]:
    """What the counts depend on besides the code."""
    rustc = _first_line(["rustc", "--version"])
    libc = " ".join(part for part in platform.libc_ver() if part)
    return {"rustc": rustc, "libc": libc, "valgrind": _first_line(["valgrind", "--version"])}


def _first_line(command: list[str]) -> str:
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def count(program: Program) -> dict[str, float]:
    """Instructions for each packet, by workload."""
    if not shutil.which("valgrind"):
        raise SystemExit("instructions are counted by valgrind, which is not installed")
    found = {}
    for workload in WORKLOADS:
        short = scenario(workload.name, workload.counted_s)
        file = program.write(f"short-{workload.name}", short)
        ran = callgrind.run(["./events", file], program.folder)
        found[workload.name] = round(ran.instructions / ran.packets, 1)
    return found


def compared(recorded: Mapping[str, float], now: Mapping[str, float]) -> list[Change]:
    """Each workload's change."""
    return [Change(workload=name, before=recorded.get(name), now=value) for name, value in now.items()]


def check(program: Program, *, accept: bool) -> int:
    """Counts and prints a table; returns 1 if a workload takes more than on record and is not accepted."""
    kept: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    mine = kept.get(platform.machine(), {"tools": {}, COUNTS: {}})
    here, now = tools(), count(program)
    alone = disciplines.by_kind(disciplines.measure(program.folder))
    changes = compared(mine[COUNTS], now)
    named = disciplines.named
    of_disciplines = compared(named(mine.get(ALONE, {})), named(alone))
    changes += [one for one in of_disciplines if not one.is_as_before]
    print_table(changes, mine["tools"], here)
    print(f"{sum(one.is_as_before for one in of_disciplines)} counts of disciplines are as before")
    if accept:
        kept[platform.machine()] = {"tools": here, COUNTS: now, ALONE: alone}
        RECORD.write_text(written(kept) + "\n", encoding="utf-8")
        return 0
    return int(any(one.grew for one in changes))


def written(kept: Mapping[str, Any]) -> str:
    """A record as it is kept: numbers that belong together on one line."""
    text = json.dumps(kept, indent=2, sort_keys=True)
    return re.sub(r"\[[\s\d.,]+\]", lambda numbers: re.sub(r"\s+", "", numbers[0]).replace(",", ", "), text)


def print_table(changes: Sequence[Change], then: Mapping[str, str], here: Mapping[str, str]) -> None:
    """A line for each workload, and for each tool that is another than on record."""
    print(f"{'instructions per packet':<40}{'on record':>12}{'now':>12}{'change':>9}")
    for one in changes:
        before = "-" if one.before is None else f"{one.before:,.1f}"
        print(f"{one.workload:<40}{before:>12}{one.now:>12,.1f}{one.relative:>+9.1%}  {one.verdict}")
    for name, version in here.items():
        if then and then.get(name) != version:
            print(
                f"The record was made with {name} {then.get(name)!r}, this with {version!r}: that may be why."
            )
