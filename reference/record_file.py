"""Compressed CSV files of recorded runs. Lines at the beginning, which begin with `#`, state the origin."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], origin: Iterable[str]
) -> None:
    """Writes rows below the lines of the origin. `None` is an empty field. Equal rows produce equal files."""
    with gzip.GzipFile(path, "wb", mtime=0) as packed:
        packed.write("".join(f"# {line}\n" for line in origin).encode("utf-8"))
        packed.write((",".join(columns) + "\n").encode("utf-8"))
        for one in rows:
            values = ["" if one[name] is None else str(one[name]) for name in columns]
            packed.write((",".join(values) + "\n").encode("utf-8"))


def origin(path: Path) -> list[str]:
    """The lines that state the origin of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line[2:].rstrip("\n") for line in file if line.startswith("# ")]


def read(path: Path, value_of: Callable[[str, str], Any]) -> list[dict[str, Any]]:
    """The rows of a file. `value_of` returns the value of a field from its column and its text."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [{name: value_of(name, text) for name, text in row.items()} for row in rows]
