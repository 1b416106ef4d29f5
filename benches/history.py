"""The history of measurements: one file per step, with the machine, the versions and every run.

The first file, which has no `format`, has medians only.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aqmlab as al
from instruction_counts import tools
from samples import ROOT, Sample
from simulators import Count
from startup import Start
from store import Kept
from sweeps import Figure

HISTORY = Path(__file__).resolve().parent / "history"
FORMAT = 2


@dataclass(kw_only=True)
class Measured:
    """All results of one step."""

    samples: list[Sample] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    sweeps: list[Figure] = field(default_factory=list)

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            samples=self.samples + other.samples,
            counts=self.counts + other.counts,
            starts=self.starts + other.starts,
            kept=self.kept + other.kept,
            sweeps=self.sweeps + other.sweeps,
        )


def write(found: Measured, versions: Mapping[str, str], path: Path) -> None:
    """Writes the results with the machine and all versions; one line per run, for readable diffs."""
    whole = {
        "format": FORMAT,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M}Z",
        "machine": machine(),
        "versions": {"aqmlab": al.__version__, "commit": commit(), **tools(), **versions},
        **asdict(found),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = []
    for key, value in whole.items():
        rows = ",\n".join(f"    {json.dumps(row)}" for row in value) if isinstance(value, list) else ""
        parts.append(f"  {json.dumps(key)}: " + (f"[\n{rows}\n  ]" if rows else json.dumps(value)))
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read(path: Path) -> Measured:
    """The results in a file."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Measured(
        samples=[Sample(**one) for one in kept["samples"]],
        counts=[Count(**one) for one in kept["counts"]],
        starts=[Start(**one) for one in kept["starts"]],
        kept=[Kept(**one) for one in kept.get("kept", [])],  # Files older than the store benchmark have none.
        sweeps=[Figure(**one) for one in kept.get("sweeps", [])],
    )


def whole() -> list[Path]:
    """The files that contain every run, oldest first."""
    kept = {path: json.loads(path.read_text(encoding="utf-8")) for path in HISTORY.glob("*.json")}
    every = [path for path in kept if kept[path].get("format") == FORMAT]
    return sorted(every, key=lambda path: str(kept[path]["date"]))


def file_of(name: str) -> Path:
    """The file for a step that is recorded today."""
    return HISTORY / f"{datetime.now(UTC):%Y-%m-%d}-{name}.json"


def machine() -> dict[str, Any]:
    """The machine and its load."""
    return {
        "architecture": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def commit() -> str:
    """The last commit that changed the simulator, with `+` if there are uncommitted changes."""
    last = _git("log", "-1", "--format=%h", "--", "crates", "Cargo.lock")
    return last + ("+" if _git("status", "--porcelain", "--", "crates", "Cargo.lock") else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
