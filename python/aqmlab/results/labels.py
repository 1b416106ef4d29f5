"""Labels: the values of axes at a point of a sweep or an experiment."""

from __future__ import annotations

from collections.abc import Mapping

Value = str | int | float | bool

Labels = Mapping[str, Value]

PointName = tuple[str, tuple[Value, ...]]
"""A point of an experiment: its name, and the values of its labels."""


def said(values: Mapping[str, object]) -> str:
    """Labels, or values by path, in words."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())
