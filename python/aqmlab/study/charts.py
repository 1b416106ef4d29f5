"""Figures of studies as queries: what is drawn, against which axis, a line for each what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.results.table import ExperimentResults
from aqmlab.study.query import ENDS, Asked, check_axes, label_of, means

Draws = Callable[[ExperimentResults], Chart]

APART = ", "
"""Between the values of axes that stand together."""


def line(
    asked: Asked,
    *,
    x: str,
    by: str | tuple[str, ...] = (),
    panel: str | tuple[str, ...] = (),
    x_label: str,
    y_label: str | None = None,
    kind: Any = "line",
    clip: tuple[float, float] | None = None,
    intervals: bool = True,
    **options: Any,
) -> Draws:
    """A query with its `intervals` against an axis: a line for each value of the axes `by`, or of several
    together, and a panel for each of the axes `panel`. No end of an interval is drawn beyond `clip`.
    `options` are those of `Chart`. Raises `ValueError` if the query has other axes."""
    panels, groups = ((one,) if isinstance(one, str) else one for one in (panel, by))
    axes = tuple(dict.fromkeys((*panels, *groups, x)))
    check_axes(asked, axes)

    def draw(results: ExperimentResults) -> Chart:
        table = means(asked, results, *axes)
        together = {
            " and ".join(one): pl.concat_str(one, separator=APART) for one in (panels, groups) if len(one) > 1
        }
        table = table.with_columns(**together)
        if not groups:
            table = table.with_columns(pl.lit("").alias("line"))
        if clip:
            table = table.with_columns(pl.col("low", "high").clip(*clip))
        if not intervals or table["low"].is_nan().all():
            table = table.drop("low", "high")
        return Chart(
            kind=kind,
            table=table,
            x=x,
            y=ENDS[0],
            by=" and ".join(groups) or "line",
            panel=" and ".join(panels) or None,
            x_label=x_label,
            y_label=y_label or label_of(asked),
            **options,
        )

    return draw
