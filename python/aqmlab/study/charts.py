"""Figures of studies that are defined by queries. A figure specifies the plotted quantity, the horizontal
axis, and the axes for lines and panels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import polars as pl

from aqmlab._support import quantities
from aqmlab.charts.chart import Chart, Kind, check_kind, with_numbers
from aqmlab.charts.layout import layout
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, seeds_of, series
from aqmlab.study.query import ENDS, Shown, check_axes, label_of, means, query

Draws = Callable[[ExperimentResults], Chart]

SEPARATOR = ", "
"""Separator between values if several axes are combined into one axis."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """A chart of a query, which is evaluated on the runs of a study."""

    shown: Shown
    x: str | None
    by: Sequence[str] | None
    panel: Sequence[str] | None
    x_label: str | None
    y_label: str | None
    kind: Any
    clip: tuple[float, float] | None
    intervals: bool
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, results: ExperimentResults) -> Chart:
        """Returns the chart of the query's estimates."""
        shown = query(self.shown)
        found = list(shown.find(results))
        x, groups, panels = self._layout([point for point, _ in found])
        axes = tuple(dict.fromkeys((*panels, *groups, x)))
        table = means(replace(shown, find=lambda _: iter(found)), results, *axes)
        options = dict(self.options)
        label, kind = self.x_label or _in_words(x), self.kind or "line"
        if self.x is None:
            # Whole numbers remain whole numbers.
            table, unit = (table, "") if table.schema[x].is_numeric() else with_numbers(table, x)
            label = self.x_label or (f"{x} ({unit})" if unit else x)
            numeric = table.schema[x].is_numeric()
            kind = self.kind or ("line" if numeric else "bars")
            options = {"log_x": numeric and quantities.spread(table[x].to_list())} | options
            if kind == "bars" and not groups:
                groups, options = (x,), {"overlaid": True} | options
        together = {
            " and ".join(one): pl.concat_str(one, separator=SEPARATOR)
            for one in (panels, groups)
            if len(one) > 1
        }
        table = table.with_columns(**together)
        if not groups:
            table = table.with_columns(pl.lit("").alias("line"))
        if self.clip:
            table = table.with_columns(pl.col("low", "high").clip(*self.clip))
        if not self.intervals or table["low"].is_nan().all():
            table = table.drop("low", "high")
        return Chart(
            kind=cast(Kind, kind),
            table=table,
            x=x,
            y=ENDS[0],
            by=" and ".join(groups) or "line",
            panel=" and ".join(panels) or None,
            x_label=label,
            y_label=self.y_label or label_of(self.shown),
            **options,
        )

    def _layout(self, points: Sequence[Labels]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Returns the horizontal axis, the axes for lines, and the axes for panels."""
        if self.x is not None:
            return self.x, tuple(self.by or ()), tuple(self.panel or ())
        values = {label: [point[label] for point in points] for label in self.shown.axes}
        try:
            return layout(values, None, self.by, self.panel)
        except ValueError as error:
            raise ValueError(f"{label_of(self.shown)}: {error}") from None


def line(
    shown: Shown,
    *,
    x: str | None = None,
    by: str | Sequence[str] | None = None,
    panel: str | Sequence[str] | None = None,
    x_label: str | None = None,
    y_label: str | None = None,
    kind: Any = None,
    clip: tuple[float, float] | None = None,
    intervals: bool = True,
    **options: Any,
) -> Line:
    """Plots a query with its `intervals` along an axis. There is a line for each value (or combination of
    values) of the axes `by`, and a panel for each value (or combination of values) of the axes `panel`.
    Intervals are cut off at `clip`.

    Without `x`, the horizontal axis is the first axis of numbers or of quantities such as `10Mbps`. The other
    axes become lines and panels in turn. An axis of names becomes bars in the order of its values. `kind` is
    `line` by default. By default, labels contain the axis and the estimated quantity. `options` are those of
    `Chart`. Raises `ValueError` if the query has other axes or the kind does not exist.
    """
    groups, panels = ((one,) if isinstance(one, str) else one for one in (by, panel))
    if kind is not None:
        check_kind(kind)
    if x is not None:
        check_axes(shown, tuple(dict.fromkeys((*(panels or ()), *(groups or ()), x))))
    elif not shown.axes:
        raise ValueError(f"{label_of(shown)}: has no axis that can be the horizontal axis")
    return Line(
        shown=shown,
        x=x,
        by=groups,
        panel=panels,
        x_label=x_label,
        y_label=y_label,
        kind=kind,
        clip=clip,
        intervals=intervals,
        options=options,
    )


def _in_words(label: str) -> str:
    """Returns the name of an axis with the unit of time in parentheses, for example `time (s)` for
    `time_s`."""
    name, _, unit = label.rpartition("_")
    return f"{name} ({unit})" if name and unit in ("s", "ms") else label


def boxes(
    panels: Mapping[str, Variable],
    sources: Mapping[str, Callable[[ExperimentResults], ExperimentResults]],
    *,
    x: str,
    panel: str = "panel",
    **options: Any,
) -> Draws:
    """Plots replications as boxes (minimum, quartiles, maximum) along an axis of numbers. There is a panel
    for each variable, and a box for the runs of each of `sources`. `panel` is the name of the axis along
    which the variables are. `options` are those of `Chart`."""
    import numpy as np

    def draw(results: ExperimentResults) -> Chart:
        rows = []
        for (name, variable), (source, find) in itertools.product(panels.items(), sources.items()):
            runs = find(results)
            for value in variable.values_of(x, results):
                values = np.array(series(variable, runs, {x: value}, seeds_of([variable], runs)))
                known = values[~np.isnan(values)]
                if known.size:
                    numbers = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist()
                    rows.append((name, source, f"{value:g}", *numbers))
        schema = [panel, "from", x, "least", "q25", "median", "q75", "most"]
        table = pl.DataFrame(rows, schema=schema, orient="row")
        first = next(iter(panels.values()))
        labels = {"x_label": x, "y_label": label_of(first)} | options
        return Chart(kind="boxes", table=table, x=x, y="median", by="from", panel=panel, **labels)

    return draw
