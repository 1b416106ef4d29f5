"""Tables of studies as queries: a line for each point of some axes, a column for each of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from aqmlab.results.table import ExperimentResults
from aqmlab.stats import Interval
from aqmlab.study.query import Asked, by_point, cell, check_axes, in_order, stacked

Tabulates = Callable[[ExperimentResults], pl.DataFrame]


@dataclass(frozen=True, kw_only=True, eq=False)
class Crossed:
    """A query that is tabulated from the runs of a study."""

    asked: Asked
    rows: Sequence[str]
    columns: Sequence[str]
    heads: Mapping[str, str]
    tell: Callable[[Interval], Any]

    def __call__(self, results: ExperimentResults) -> pl.DataFrame:
        """The table of what the runs show."""
        found = by_point(self.asked, results, (*self.rows, *self.columns))
        cells = {point: self.tell(interval) for point, interval in found.items()}
        lines = in_order(point[: len(self.rows)] for point in cells)
        places = in_order(point[len(self.rows) :] for point in cells)
        titles = [" ".join(str(value) for value in place if value != "") for place in places]
        return pl.DataFrame(
            [(*line, *(cells.get((*line, *place)) for place in places)) for line in lines],
            schema=[*(self.heads.get(label, label) for label in self.rows), *titles],
            orient="row",
            infer_schema_length=None,
        )


def crossed(
    asked: Asked,
    *,
    rows: str | tuple[str, ...],
    columns: str | tuple[str, ...],
    heads: Mapping[str, str] | None = None,
    tell: Callable[[Interval], Any] = cell,
) -> Crossed:
    """A query with a line for each point of the axes `rows`, as far as there is one, and a column for each of
    the axes `columns`. `heads` names columns otherwise than by their axes; `tell` says what a cell shows of
    an interval, by default mean ± half of it. Raises `ValueError` if the query has other axes."""
    down, across = ((one,) if isinstance(one, str) else one for one in (rows, columns))
    check_axes(asked, (*down, *across))

    return Crossed(asked=asked, rows=tuple(down), columns=tuple(across), heads=heads or {}, tell=tell)


def listed(
    columns: Mapping[str, Asked] | Sequence[Asked],
    *rows: str,
    heads: Mapping[str, str] | None = None,
    tell: Callable[[Interval], Any] = cell,
) -> Crossed:
    """A line for each point of some axes, and a column for each of some queries by its head, or what it
    estimates."""
    return crossed(stacked("column", columns), rows=rows, columns="column", heads=heads, tell=tell)


def overview(several: Sequence[Asked], *, by: str) -> Crossed:
    """A line for each query, and a column for each value of an axis: mean ± half of the interval."""
    return crossed(stacked("measure", several), rows="measure", columns=by)
