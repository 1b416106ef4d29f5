"""Converts texts such as `10Mbps` to numbers, either in a required unit or in a common unit for the axis of a
chart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aqmlab import _core

SPREAD = 10
"""Minimum ratio of the largest to the smallest positive number for a logarithmic axis."""

_PREFIXES = {
    "bps": ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")),
    "B": ((1e6, "MB"), (1e3, "kB")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
}


def numbers_of(labels: Sequence[object]) -> tuple[list[float], str] | None:
    """Returns the labels as numbers in their base unit, and the unit. Returns `None` unless all labels are
    finite numbers with a common unit."""
    found = [_number(label) for label in labels]
    known = [one for one in found if one is not None]
    units = {unit for _, unit in known}
    if len(known) < len(found) or len(units) != 1:
        return None
    return [number for number, _ in known], units.pop()


def _number(label: object) -> tuple[float, str] | None:
    if isinstance(label, bool):
        return None
    if isinstance(label, int | float):
        return (float(label), "") if math.isfinite(label) else None
    try:
        return _core.quantity(label) if isinstance(label, str) else None
    except _core.ScenarioError:
        return None


def readable(numbers: Sequence[float], unit: str) -> tuple[list[float], str]:
    """Converts the numbers to a readable unit and returns the numbers and the unit. The unit is the largest
    unit in which the largest number is at least 1."""
    most = max(map(abs, numbers), default=0.0)
    for size, name in _PREFIXES.get(unit, ()):
        if most >= size:
            return [number / size for number in numbers], name
    return list(numbers), unit


def spread(numbers: Sequence[float]) -> bool:
    """Returns whether the numbers need a logarithmic axis."""
    return bool(numbers) and min(numbers) > 0 and max(numbers) >= SPREAD * min(numbers)


def value_of(text: str, unit: str, expected: str, *, positive: bool = False) -> float:
    """Returns the value of a quantity in the base unit `unit`. Raises `ValueError` if the text is not a
    quantity in this unit, or if a positive quantity is required and this one is not; `expected` describes
    valid values."""
    try:
        value, base = _core.quantity(text)
    except _core.ScenarioError:
        value, base = 0.0, ""
    if base != unit or (positive and value <= 0):
        raise ValueError(f"must be a {expected} (got {text})")
    return value
