"""Tables of studies as queries: a line for each point of some axes, a column for each of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab.results.table import ExperimentResults
from aqmlab.stats import Interval
from aqmlab.study.query import Asked, by_point, cell, check_axes, in_order, stacked

Tabulates = Callable[[ExperimentResults], pl.DataFrame]


def crossed(
    asked: Asked,
    *,
    rows: str | tuple[str, ...],
    columns: str | tuple[str, ...],
    heads: Mapping[str, str] | None = None,
    tell: Callable[[Interval], Any] = cell,
) -> Tabulates:
    """A query with a line for each point of the axes `rows`, as far as there is one, and a column for each of
    the axes `columns`. `heads` names columns otherwise than by their axes; `tell` says what a cell shows of
    an interval, by default mean ± half of it. Raises `ValueError` if the query has other axes."""
    down, across = ((one,) if isinstance(one, str) else one for one in (rows, columns))
    check_axes(asked, (*down, *across))

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        found = by_point(asked, results, (*down, *across))
        cells = {point: tell(interval) for point, interval in found.items()}
        lines = in_order(point[: len(down)] for point in cells)
        places = in_order(point[len(down) :] for point in cells)
        titles = [" ".join(str(value) for value in place if value != "") for place in places]
        return pl.DataFrame(
            [(*line, *(cells.get((*line, *place)) for place in places)) for line in lines],
            schema=[*((heads or {}).get(label, label) for label in down), *titles],
            orient="row",
            infer_schema_length=None,
        )

    return tabulate


def listed(
    columns: Mapping[str, Asked] | Sequence[Asked],
    *rows: str,
    heads: Mapping[str, str] | None = None,
    tell: Callable[[Interval], Any] = cell,
) -> Tabulates:
    """A line for each point of some axes, and a column for each of some queries by its head, or what it
    estimates."""
    return crossed(stacked("column", columns), rows=rows, columns="column", heads=heads, tell=tell)


def overview(several: Sequence[Asked], *, by: str) -> Tabulates:
    """A line for each query, and a column for each value of an axis: mean ± half of the interval."""
    return crossed(stacked("measure", several), rows="measure", columns=by)
