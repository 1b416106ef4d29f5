"""Charts of the results of a sweep."""

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
    """Returns a chart of a measure with intervals against the axis `x`, with a curve for each value of `by`
    and a panel for each value of `panel`.

    By default, `x` is the first numeric axis, `by` and `panel` are the next axes, and `log_x` is determined
    by the range of the numbers. Raises `ValueError` if an axis or the measure does not exist, or if the chart
    has no room for an axis with several values.
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
        x_label=_axis_title(result, x) + (f" ({unit})" if unit else ""),
        y_label=one.label,
        log_x=(numeric and quantities.spread(table[x].to_list())) if log_x is None else log_x,
        log_y=log_y,
    )


def distribution(result: Results, measure: str, *, by: str | None = None, panel: str | None = None) -> Chart:
    """Returns a chart of the distribution of a measure over replications, with a curve and its confidence
    band for each value of `by`, and a panel for each value of `panel`. By default, `by` and `panel` are the
    first axes. Raises the same errors as `against_axis`."""
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
    """Returns the axes of the chart. `layout` selects the axes that the caller does not name."""
    for name, label in (("x", x), ("by", by), ("panel", panel)):
        if label and label not in result.axes:
            raise ValueError(f"{name}: no axis is named `{label}`; available: {', '.join(result.axes)}")
    values = {label: result.points[label].to_list() for label in result.axes}
    chosen = {x, by, panel}
    several = {label: one for label, one in values.items() if label in chosen or len(set(one)) > 1}
    x, lines, panels = layout(several or values, x, by and (by,), panel and (panel,))
    return x, next(iter(lines), None), next(iter(panels), None)


def _axis_title(result: Results, label: str) -> str:
    """Returns the title of an axis. If the axis is a parameter of a workload, the title begins with the
    workload's name."""
    path = result.paths.get(label, label)
    of_workload = path.split(".")[:2] if path.startswith("traffic.") and label != path else []
    return " ".join([*of_workload[1:], label])
