"""Which runs are asked of a store: the points of a sweep or of an experiment, with what is measured there."""

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
    """Runs of one scenario that belong to a point: `count` seeds, one after the other."""

    point: PointValues
    """The values of the labels, in the order of the axes."""
    scenario: str
    """The digest of the scenario with seed 1."""
    first_seed: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The runs of some points, in order. The fields that `Results` has, too, are explained there."""

    name: str
    axes: Mapping[str, Sequence[Value]]
    measures: Mapping[str, Quantity]
    """By the key under which values are kept; the name is that of the column."""
    runs: Sequence[SelectedRuns]
    points: Sequence[PointValues] | None = None
    """The points, where not every product of values of axes is one."""
    whole: bool = False
    """Whether runs that failed, or lack a measure, are left out."""
    looks: int = 1
    precise: int = 1
    paths: Mapping[str, str] = field(default_factory=dict)
    own_seeds: Sequence[str] = ()
    wanted: int | None = None
    too_wide: int = 0
