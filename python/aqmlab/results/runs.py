"""The finished runs of an experiment, by label and seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels, Value


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: its labels, its seed, and its measures by name."""

    labels: Labels
    seed: int
    values: Mapping[str, Any]

    def __getitem__(self, measure: Measure) -> Any:
        """A measure of the run; `None` where it has none."""
        return self.values[measure.name]


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """The finished runs of an experiment, in the order of points and seeds."""

    rows: tuple[Row, ...]
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """The values of each axis in the form that was run."""
    points: frozenset[tuple[Value, ...]] | None = None
    """The values of the labels of each point, in the order of the axes, where not every product of values of
    axes is a point."""

    @cached_property
    def by_point(self) -> Mapping[tuple[Value, ...], Mapping[int, Row]]:
        """The runs by the values of their labels, in the order of the axes, and seed."""
        found: dict[tuple[Value, ...], dict[int, Row]] = {}
        for row in self.rows:
            found.setdefault(tuple(row.labels[label] for label in self.axes), {})[row.seed] = row
        return found

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds there are, ascending."""
        return tuple(sorted({row.seed for row in self.rows}))

    def where(self, **labels: Value) -> tuple[Row, ...]:
        """The runs that carry these labels."""
        return tuple(
            row for row in self.rows if all(row.labels[key] == value for key, value in labels.items())
        )


Results = Mapping[str, Runs]
"""Runs by the name of the experiment."""


def number(value: Any) -> float:
    """A measure as a number, NaN where there is none."""
    return math.nan if value is None else float(value)
