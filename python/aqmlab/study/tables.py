"""Tables of studies that are defined by queries. Some axes define the rows of a table, and the other axes
define the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from aqmlab.results.table import ExperimentResults
from aqmlab.stats import Interval
from aqmlab.study.query import Shown, by_point, cell, check_axes, in_order, label_of, stacked

Tabulates = Callable[[ExperimentResults], pl.DataFrame]


@dataclass(frozen=True, kw_only=True, eq=False)
class Crossed:
    """A table of a query, which is evaluated on the runs of a study."""

    shown: Shown
    rows: Sequence[str]
    columns: Sequence[str]
    heads: Mapping[str, str]
    format: Callable[[Interval], Any]

    def __call__(self, results: ExperimentResults) -> pl.DataFrame:
        """Returns the table of the query's estimates."""
        found = by_point(self.shown, results, (*self.rows, *self.columns))
        cells = {point: self.format(interval) for point, interval in found.items()}
        lines = in_order(point[: len(self.rows)] for point in cells)
        column_points = in_order(point[len(self.rows) :] for point in cells)
        titles = [" ".join(str(value) for value in point if value != "") for point in column_points]
        return pl.DataFrame(
            [(*line, *(cells.get((*line, *point)) for point in column_points)) for line in lines],
            schema=[*(self.heads.get(label, label) for label in self.rows), *titles],
            orient="row",
            infer_schema_length=None,
        )


def whole(found: Interval) -> int:
    """Returns the content of a cell as a whole number, without the interval."""
    return round(found.value)


def crossed(
    shown: Shown,
    *,
    rows: str | tuple[str, ...],
    columns: str | tuple[str, ...],
    heads: Mapping[str, str] | None = None,
    format: Callable[[Interval], Any] = cell,
) -> Crossed:
    """Tabulates a query, with a row for each existing point of the axes `rows` and a column for each point of
    the axes `columns`. `heads` contains other names for axes in the table's header. `format` formats the
    interval of a cell. The default format is the mean ± half the interval's width. Raises `ValueError` if the
    query has other axes."""
    down, across = ((one,) if isinstance(one, str) else one for one in (rows, columns))
    check_axes(shown, (*down, *across))

    return Crossed(shown=shown, rows=tuple(down), columns=tuple(across), heads=heads or {}, format=format)


def listed(
    columns: Mapping[str, Shown] | Sequence[Shown],
    *rows: str,
    heads: Mapping[str, str] | None = None,
    format: Callable[[Interval], Any] = cell,
) -> Crossed:
    """Tabulates several queries, with a row for each point of some axes and a column for each query. The
    heading of a column is the query's key or estimated quantity."""
    return crossed(stacked("column", columns), rows=rows, columns="column", heads=heads, format=format)


def overview(several: Sequence[Shown], *, by: str) -> Crossed:
    """Tabulates queries, with a row for each query and a column for each value of an axis. A cell shows the
    mean ± half the interval's width."""
    return crossed(stacked("measure", several), rows="measure", columns=by)


AGREE = 0.1
"""Maximum difference between two means that are considered equal, as a fraction of the second mean."""


def agree(first: Interval, second: Interval) -> bool:
    """Returns whether two means differ by at most 10 % of the second mean, or their intervals overlap."""
    near = abs(first.value - second.value) <= AGREE * abs(second.value)
    return near or (first.low <= second.high and second.low <= first.high)


def paired(
    columns: Sequence[tuple[Shown, Shown]], *rows: str, heads: Mapping[str, str] | None = None
) -> Tabulates:
    """Tabulates pairs of queries, with a column for each pair and a row for each point that both queries of a
    pair have. A cell shows both estimates (mean ± half the interval's width), and `=` if the means agree
    (`agree`) or `≠` if they do not. The heading of a column is the name of the first query. Raises
    `ValueError` if a query has other axes."""

    def cells(first: Shown, second: Shown, results: ExperimentResults) -> dict[tuple[Any, ...], str]:
        ours, theirs = (by_point(one, results, rows) for one in (first, second))
        return {
            point: f"{cell(ours[point])} | {cell(found)} {'=' if agree(ours[point], found) else '≠'}"
            for point, found in theirs.items()
            if point in ours
        }

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        found = [cells(*pair, results) for pair in columns]
        points = in_order(point for column in found for point in column)
        lines = [(*point, *(column.get(point) for column in found)) for point in points]
        titles = [(heads or {}).get(label, label) for label in rows]
        return pl.DataFrame(lines, [*titles, *(label_of(first) for first, _ in columns)], orient="row")

    for pair in columns:
        for one in pair:
            check_axes(one, rows)
    return tabulate
