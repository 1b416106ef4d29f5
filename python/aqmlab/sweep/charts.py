"""Charts of what a sweep found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aqmlab._support import quantities
from aqmlab.charts.chart import Chart, with_numbers
from aqmlab.charts.layout import layout

if TYPE_CHECKING:
    from aqmlab.results.table import Results


def against_axis(
    result: Results,
    measure: str,
    *,
    x: str | None = None,
    by: str | None = None,
    panel: str | None = None,
    log_x: bool | None = None,
    log_y: bool = False,
) -> Chart:
    """A measure against an axis: a line for each value of `by`, a panel for each of `panel`, with intervals.

    Left out, `x` is the first axis of numbers, and `by` and `panel` the next others; `log_x` follows from how
    far the numbers spread. Raises `ValueError` if there is no such axis or measure, or if an axis that
    varies has no place.
    """
    import polars as pl

    one = result.measure(measure)
    x, by, panel = _layout(result, x, by, panel)
    table, unit = with_numbers(result.intervals().filter(pl.col("measure") == measure), x)
    of_lines = by or "measure"
    table = table.with_columns(
        pl.col(column).cast(pl.String) for column in (of_lines, panel) if column is not None
    )
    numeric = table.schema[x].is_numeric()
    return Chart(
        kind="line" if numeric else "bars",
        table=table,
        x=x,
        y="mean",
        by=of_lines,
        panel=panel,
        x_label=_said(result, x) + (f" ({unit})" if unit else ""),
        y_label=one.label,
        log_x=(numeric and quantities.spread(table[x].to_list())) if log_x is None else log_x,
        log_y=log_y,
    )


def distribution(result: Results, measure: str, *, by: str | None = None, panel: str | None = None) -> Chart:
    """How a measure is distributed over replications: a line with its band for each value of `by`, a panel
    for each of `panel`, by default the axes in turn. Raises as `against_axis` does."""
    import polars as pl

    one, (_, by, panel) = result.measure(measure), _layout(result, "", by, panel)
    of_lines = by or result.labels[0]
    table = result.distribution(measure).with_columns(
        pl.col(column).cast(pl.String) for column in (of_lines, panel) if column is not None
    )
    return Chart(
        kind="curve",
        table=table,
        x="x",
        y="share",
        by=of_lines,
        panel=panel,
        x_label=one.label,
        y_label="Share of runs",
        y_limits=(0.0, 1.0),
    )


def _layout(
    result: Results, x: str | None, by: str | None, panel: str | None
) -> tuple[str, str | None, str | None]:
    """The axes of the chart; `layout` chooses those that the caller leaves out."""
    for name, label in (("x", x), ("by", by), ("panel", panel)):
        if label and label not in result.axes:
            raise ValueError(f"{name}: no axis is called `{label}`: there is {', '.join(result.axes)}")
    values = {label: result.points[label].to_list() for label in result.axes}
    chosen = {x, by, panel}
    several = {label: one for label, one in values.items() if label in chosen or len(set(one)) > 1}
    x, lines, panels = layout(several or values, x, by and (by,), panel and (panel,))
    return x, next(iter(lines), None), next(iter(panels), None)


def _said(result: Results, label: str) -> str:
    """What an axis is called on paper: the rate or the number of flows of a workload says of which."""
    path = result.paths.get(label, label)
    of_workload = path.split(".")[:2] if path.startswith("traffic.") and label != path else []
    return " ".join([*of_workload[1:], label])
