"""Counts the instructions of a program with callgrind, in total and by source file."""

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
    """The result of callgrind for one run."""

    instructions: int
    packets: int
    by_file: dict[str, int]
    """Instructions by source file of this repository. Inlined functions count for the file that defines them.
    All other instructions are `std` (Rust's library) or `other` (the C library, other crates)."""


def run(command: Sequence[str | Path], folder: Path, *, only: str = "") -> Counted:
    """Runs a program in a folder. With `only`, counts instructions only inside functions that match this
    pattern. The environment is always the same, because its size shifts the stack."""
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
            by_file = self_cost_by_file(lines)
    return Counted(int(found.group(1)), counted(done.stdout)[0], by_file)


def self_cost_by_file(lines: Iterable[str]) -> dict[str, int]:
    """Self cost by file, from a profile in callgrind's format.

    "Callgrind Format Specification": `fl=`, `fi=` and `fe=` name the file of the costs that follow, with a
    number at first use and by the number alone afterwards. The line after `calls=` is the inclusive cost of a
    call, which is also in the costs of the called function.
    """
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    file, skip = OTHER, False
    for line in lines:
        named = re.match(r"c?f[lie]=\((\d+)\)(?: (.*))?", line)
        if named:
            name = names.setdefault(named[1], source_of(named[2] or ""))
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


def source_of(path: str) -> str:
    """The path of a repository file, starting with its crate; for other files, the name of their library."""
    own = re.search(r"crates/(aqm-\w+)/src/(.+)", path)
    if own:
        return f"{own[1]}/{own[2]}"
    return STANDARD_LIBRARY if "/library/" in path else OTHER
