"""Instructions of a program, counted by callgrind, and where in the source they are."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from samples import counted

STANDARD_LIBRARY = "std"
OTHER = "other"


@dataclass(frozen=True)
class Counted:
    """What callgrind counted of one run."""

    instructions: int
    packets: int
    by_file: dict[str, int]
    """Instructions by file of this repository, inlined functions where they are written; the rest is `std`
    (Rust's library) and `other` (the C library, other crates)."""


def run(command: Sequence[str | Path], folder: Path, *, only: str = "") -> Counted:
    """Runs a program in a folder; counts only what functions of this pattern do, if there is one. The
    environment is the same everywhere, for its size moves the stack."""
    part = [f"--toggle-collect={only}"] if only else []
    with tempfile.NamedTemporaryFile(suffix=".callgrind") as out:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", *part, *map(str, command)],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode or found is None:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-500:]}{done.stderr[-500:]}")
        with open(out.name, encoding="utf-8") as lines:
            by_file = of_files(lines)
    return Counted(int(found.group(1)), counted(done.stdout)[0], by_file)


def of_files(lines: Iterable[str]) -> dict[str, int]:
    """Self cost by file, of a profile as callgrind writes it.

    "Callgrind Format Specification": `fl=`, `fi=` and `fe=` name the file of the costs that follow, with a
    number the first time and by the number alone after that; the line after `calls=` is the cost of a call,
    which its callee has as well.
    """
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    file, skip = OTHER, False
    for line in lines:
        named = re.match(r"c?f[lie]=\((\d+)\)(?: (.*))?", line)
        if named:
            name = names.setdefault(named[1], place(named[2] or ""))
            if not line.startswith("c"):
                file = name
        elif line.startswith("calls="):
            skip = True
        elif line[0] in "+-*0123456789":
            parts = line.split()
            if not skip and len(parts) > 1:
                costs[file] += int(parts[1])
            skip = False
    return dict(costs.most_common())


def place(path: str) -> str:
    """A file of the repository from its crate on, or which library it belongs to."""
    ours = re.search(r"crates/(aqm-\w+)/src/(.+)", path)
    if ours:
        return f"{ours[1]}/{ours[2]}"
    return STANDARD_LIBRARY if "/library/" in path else OTHER
