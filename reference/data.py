"""The reference data: recorded ns-2 runs, as compressed CSV beside this file."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from functools import lru_cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
NS2 = HERE / "ns2"
SCENARIOS = HERE.parent / "scenarios" / "reference"


@lru_cache(maxsize=16)
def rows(name: str) -> list[dict[str, str]]:
    """The rows of `ns2/NAME.csv.gz` by column; lines that begin with `#` are skipped."""
    with gzip.open(NS2 / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@lru_cache(maxsize=1)
def _generator() -> ModuleType:
    path = NS2 / "scripts" / "gen_web.py"
    spec = importlib.util.spec_from_file_location("gen_web", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=64)
def schedule(load: float, seed: int) -> str:
    """The Web objects that the reference met at `load` with `seed`: a start and a size on each line."""
    return "".join(f"{start:.6f} {size}\n" for start, size, _ in objects(load, seed))


def objects(load: float, seed: int) -> list[tuple[float, int, int]]:
    """The same objects as start, size in bytes and number of packets."""
    made: list[tuple[float, int, int]] = _generator().schedule(load, seed)
    return made
