"""Grids of studies: scenarios made from labels by functions, and what their runs were reduced to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqmlab.campaign import Runnable
from aqmlab.measure import Measure, Run

Labels = Mapping[str, Any]
Reduction = dict[str, Any]


def versioned(version: int) -> Callable[[Reduce], Reduce]:
    """Says which version a reduction is of: to be raised when it gives other values than before, so that
    those that are kept are not taken for its own."""

    def mark(reduce: Reduce) -> Reduce:
        reduce.version = version  # type: ignore[attr-defined]
        return reduce

    return mark


Prepare = Callable[[Mapping[str, Any]], Runnable]
Reduce = Callable[[Run], Reduction]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Scenarios labelled by the values of some axes, each run with the seeds 1 to `seeds`."""

    name: str
    axes: Mapping[str, Sequence[Any]]
    scenario: Callable[..., dict[str, Any]]
    """Makes the scenario from labels given by keyword."""
    reduce: Reduce
    seeds: int = 10
    quick_axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of axes in the quick form, where fewer."""
    quick_seeds: int = 3
    by_seed: bool = False
    """Whether `scenario` is told the `seed` as well: replications that differ in more than chance."""
    live: bool = False
    """Whether the runs are live ones, on the kernel's TCP, and not simulations."""

    def points(self, *, quick: bool = False) -> list[dict[str, Any]]:
        """The labels of every scenario."""
        axes = {
            name: self.quick_axes.get(name, values) if quick else values for name, values in self.axes.items()
        }
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]

    @property
    def measure(self) -> Measure:
        """Its reduction as a measure, whose version is that which `versioned` gave it, or else 1."""
        reduce = self.reduce
        return Measure(
            name=f"{reduce.__module__.removeprefix('aqmlab.')}.{reduce.__qualname__}",
            version=getattr(reduce, "version", 1),
            compute=lambda view: reduce(view.run),
        )

    def replications(self, *, quick: bool = False) -> int:
        """How many seeds each scenario is run with."""
        return min(self.quick_seeds, self.seeds) if quick else self.seeds


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: its labels, its seed, and what it was reduced to."""

    labels: Labels
    seed: int
    values: Reduction


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The finished runs of a grid, in the order of points and seeds."""

    rows: tuple[Row, ...]

    def where(self, **labels: Any) -> Runs:
        """The runs that carry these labels; values must be equal."""
        kept = (row for row in self.rows if all(row.labels.get(k) == v for k, v in labels.items()))
        return Runs(rows=tuple(kept))

    def axis(self, label: str) -> list[Any]:
        """The values of a label, each once, in order of appearance."""
        return list(dict.fromkeys(row.labels[label] for row in self.rows if label in row.labels))

    def seeds(self) -> list[int]:
        """The seeds there are, ascending."""
        return sorted({row.seed for row in self.rows})

    def values(self, metric: str, seeds: Sequence[int] | None = None) -> list[float]:
        """The metric by seed, averaged over the runs of a seed; NaN where a seed has none.

        A seed with fewer runs than another (one failed) is NaN too: its average would not compare.
        """
        chosen = self.seeds() if seeds is None else seeds
        full = max((sum(row.seed == seed for row in self.rows) for seed in self.seeds()), default=0)
        return [self._value(metric, seed, full) for seed in chosen]

    def _value(self, metric: str, seed: int, full: int) -> float:
        found = [_as_float(row.values.get(metric)) for row in self.rows if row.seed == seed]
        return math.fsum(found) / len(found) if len(found) == full and found else math.nan

    def pair(self, metric: str, ours: Labels, theirs: Labels) -> tuple[list[float], list[float]]:
        """The metric of two selections, seed by seed."""
        seeds = self.seeds()
        return self.where(**ours).values(metric, seeds), self.where(**theirs).values(metric, seeds)


Results = Mapping[str, Runs]


def _as_float(value: Any) -> float:
    return math.nan if value is None else float(value)
