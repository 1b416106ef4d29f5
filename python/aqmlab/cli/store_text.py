"""Output of the commands `aqmlab store`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab.measures import Measure
from aqmlab.store.record import RunRecord

_NUMBERS = (int, float, type(None))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yields the lines of a table with a header. Numbers are right-aligned."""
    texts = [[_cell(value) for value in row] for row in rows]
    indices = range(len(columns))
    numeric = [bool(rows) and all(type(row[index]) in _NUMBERS for row in rows) for index in indices]
    widths = [max(len(columns[index]), *(len(row[index]) for row in texts), 0) for index in indices]
    for row in [list(columns), *texts]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def amount(count: int, one: str, many: str) -> str:
    """Returns a count followed by the noun in the singular or plural."""
    return f"{count} {one if count == 1 else many}"


def octets(count: int) -> str:
    """Returns a number of bytes as text with a suitable decimal unit."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def sweeps(found: pl.DataFrame) -> Iterator[str]:
    """Yields the table of the sweeps that `store_tables.sweeps` returns."""
    columns = ["name", "sweep", "points", "runs", "failed", "finished"]
    yield from table(columns, found.select(columns).rows())


def run(record: RunRecord, measures: Mapping[str, Measure]) -> Iterator[str]:
    """Yields lines that describe a run and its values. `measures` (by key) provides the unit and the number
    of digits of each value."""
    cost = "" if record.cpu_s is None else f", {record.cpu_s:.3g} CPU s"
    version = f", aqmlab {record.version}" if record.version else ""
    yield f"seed {record.seed}: {record.status}{cost}{version}"
    if record.error is not None:
        yield f"  {record.error}"
    width = max((len(key) for key in record.values), default=0)
    for key, value in record.values.items():
        yield f"  {key:<{width}}  {_value(value, measures.get(key))}"
    for key, entry in record.frames.items():
        yield f"  table {key}: {octets(entry['bytes'])} in {entry['file']}"


def _value(value: Any, measure: Measure | None) -> str:
    if not isinstance(value, int | float | str | None):
        return "structured value, which --json prints"
    if measure is None or value is None:
        return _cell(value)
    shown = f"{value:.{measure.digits}g}" if isinstance(value, float) else _cell(value)
    return f"{shown} {measure.unit}".rstrip()


def finite(value: Any) -> Any:
    """Returns the value for JSON, with `None` instead of NaN and infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
