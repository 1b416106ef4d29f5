"""Labels, which are the values of axes at a point of a sweep or an experiment."""

from __future__ import annotations

from collections.abc import Mapping

Value = str | int | float | bool

Labels = Mapping[str, Value]

PointName = tuple[str, tuple[Value, ...]]
"""A point of an experiment: the experiment's name and the values of the point's labels."""


def format_labels(values: Mapping[str, object]) -> str:
    """Returns labels, or values by path, as text: `load = 0.9, queue = red`."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())
