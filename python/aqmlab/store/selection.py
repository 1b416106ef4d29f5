"""Selections of runs in a store, which contain the points of a sweep or an experiment and their measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aqmlab.measures import Quantity
from aqmlab.results.labels import Value

if TYPE_CHECKING:
    from aqmlab.results.table import PointValues


@dataclass(frozen=True, kw_only=True)
class SelectedRuns:
    """The runs of one scenario that belong to a point. The runs have `count` consecutive seeds."""

    point: PointValues
    """The values of the labels, in the order of the axes."""
    scenario: str
    """The digest of the scenario with seed 1."""
    first_seed: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The runs of some points, in order. The class `Results` describes the fields that are common to
    `Results` and this class."""

    name: str
    axes: Mapping[str, Sequence[Value]]
    measures: Mapping[str, Quantity]
    """Measures by the key of their stored values. The name of a measure is the name of its column."""
    runs: Sequence[SelectedRuns]
    points: Sequence[PointValues] | None = None
    """The points, if the points are not the full product of the axes' values."""
    whole: bool = False
    """Whether failed runs, and runs that lack a measure, are excluded."""
    looks: int = 1
    precise: int = 1
    paths: Mapping[str, str] = field(default_factory=dict)
    own_seeds: Sequence[str] = ()
    wanted: int | None = None
    too_wide: int = 0
