"""Figures and tables of studies as queries: which variable, against which axis, a line for each what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.measure import with_unit
from aqmlab.plot import Chart
from aqmlab.rule import Estimate, mean_of
from aqmlab.runs import Labels, Results
from aqmlab.sweep import Value
from aqmlab.variable import Derived, Variable, product

Draws = Callable[[Results], Chart]
Tabulates = Callable[[Results], pl.DataFrame]

Shown = Variable | Estimate
"""What can be drawn: a variable, of which the mean over the seeds is, or what claims compare."""

ENDS = ("value", "low", "high")


def interval_of(variable: Shown, results: Results, labels: Labels) -> stats.Interval:
    """The mean of a variable over the seeds, or an estimate, where its axes have these labels."""
    estimate = variable if isinstance(variable, Estimate) else mean_of(variable)
    return estimate.interval(results, labels)


def means(variable: Shown, results: Results, *labels: str) -> pl.DataFrame:
    """Mean and interval of a variable at all values of its axes, which are named in the order of columns: the
    labels, `value`, `low`, `high`, `seeds`."""
    _check_open(variable, labels)
    rows = []
    for point in product({label: variable.values_of(label, results) for label in labels}):
        found = interval_of(variable, results, point)
        if found.count:
            rows.append((*point.values(), found.value, found.low, found.high, found.count))
    return pl.DataFrame(rows, schema=[*labels, *ENDS, "seeds"], orient="row")


def stacked(variables: Mapping[str, Shown], results: Results, *labels: str, column: str) -> pl.DataFrame:
    """The means of several variables, told apart by their names in a column that stands first."""
    frames = [
        means(variable, results, *labels).select(pl.lit(name).alias(column), pl.all())
        for name, variable in variables.items()
    ]
    return pl.concat(frames, how="vertical_relaxed")


def line(
    variable: Shown,
    *,
    x: str,
    by: str | tuple[str, ...],
    x_label: str,
    y_label: str | None = None,
    panel: str | None = None,
    x_scale: float = 1.0,
    kind: Any = "line",
    **options: Any,
) -> Draws:
    """Means with their intervals against an axis, a line for each value of another (or of several together),
    and a panel for each of a third. `options` are those of `Chart`. Raises `ValueError` if the variable has
    other axes."""
    several = (by,) if isinstance(by, str) else by
    column = " and ".join(several)
    axes = [label for label in (panel, *several, x) if label]
    _check_open(variable, axes)

    def draw(results: Results) -> Chart:
        table = means(variable, results, *axes)
        if x_scale != 1.0:
            table = table.with_columns(pl.col(x) * x_scale)
        if len(several) > 1:
            table = table.with_columns(pl.concat_str(several, separator=", ").alias(column))
        return Chart(
            kind=kind,
            table=table,
            x=x,
            y="value",
            by=column,
            panel=panel,
            x_label=x_label,
            y_label=y_label or label_of(variable),
            **options,
        )

    return draw


def overview(variables: Sequence[Shown], *, by: str) -> Tabulates:
    """A line for each variable, and a column for each value of an axis: mean ± half of the interval."""
    for variable in variables:
        _check_open(variable, [by])

    def tabulate(results: Results) -> pl.DataFrame:
        columns = {
            str(value): [shown(variable, results, {by: value}) for variable in variables]
            for value in variables[0].values_of(by, results)
        }
        return pl.DataFrame({"measure": [label_of(variable) for variable in variables], **columns})

    return tabulate


def listed(columns: Mapping[str, Shown], *rows: str) -> Tabulates:
    """A line for each point of some axes, and a column for each of some variables by its head: mean ± half of
    the interval."""
    for variable in columns.values():
        _check_open(variable, rows)

    def tabulate(results: Results) -> pl.DataFrame:
        first = next(iter(columns.values()))
        points = list(product({label: first.values_of(label, results) for label in rows}))
        labels = {label: [point[label] for point in points] for label in rows}
        found = {
            head: [shown(variable, results, point) for point in points] for head, variable in columns.items()
        }
        return pl.DataFrame({**labels, **found})

    return tabulate


def crossed(variable: Shown, *, rows: str, columns: str, title: str) -> Tabulates:
    """A variable at all values of two axes: a line for each of the one, under this title, and a column for
    each of the other."""
    _check_open(variable, [rows, columns])

    def tabulate(results: Results) -> pl.DataFrame:
        at = variable.values_of(rows, results)
        found = {
            str(column): [shown(variable, results, {rows: row, columns: column}) for row in at]
            for column in variable.values_of(columns, results)
        }
        return pl.DataFrame({title: list(at), **found})

    return tabulate


def shown(variable: Shown, results: Results, labels: Mapping[str, Value] | None = None) -> str:
    """Mean and half of its interval, as a table shows them."""
    interval = interval_of(variable, results, labels or {})
    return stats.plus_minus(interval.value, interval.half_width)


def label_of(variable: Shown) -> str:
    """Name and unit, for axes and heads of tables."""
    if isinstance(variable, Estimate):
        return variable.words
    return with_unit(variable.name, variable.unit)


def scaled(variable: Variable, factor: float, unit: str, name: str = "") -> Derived:
    """The same in another unit."""
    return Derived(
        name=name or variable.name,
        compute=lambda value: value * factor,
        of=(variable,),
        unit=unit,
    )


def _check_open(variable: Shown, labels: Sequence[str]) -> None:
    if set(variable.axes) != set(labels):
        raise ValueError(
            f"{label_of(variable)}: has the axes {', '.join(variable.axes) or 'none'}, drawn are "
            f"{', '.join(labels)}: choose values of the others with at(), or take averaged()"
        )
