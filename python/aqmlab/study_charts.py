"""Figures and tables of studies as queries: which variable, against which axis, a line for each what."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.plot import Chart
from aqmlab.runs import Labels, Results
from aqmlab.sweep import Value
from aqmlab.variable import Derived, Variable, seeds_of, series

Draws = Callable[[Results], Chart]
Tabulates = Callable[[Results], pl.DataFrame]

ENDS = ("value", "low", "high")


def interval_of(variable: Variable, results: Results, labels: Labels) -> stats.Interval:
    """The mean of a variable over the seeds, where its axes have these labels."""
    return stats.mean_interval(series(variable, results, labels, seeds_of([variable], results)))


def means(variable: Variable, results: Results, *labels: str) -> pl.DataFrame:
    """Mean and interval of a variable at all values of its axes, which are named in the order of columns: the
    labels, `value`, `low`, `high`, `seeds`."""
    _check_open(variable, labels)
    rows = []
    for values in itertools.product(*(variable.values_of(label, results) for label in labels)):
        found = interval_of(variable, results, dict(zip(labels, values, strict=True)))
        if found.count:
            rows.append((*values, found.value, found.low, found.high, found.count))
    return pl.DataFrame(rows, schema=[*labels, *ENDS, "seeds"], orient="row")


def line(
    variable: Variable,
    *,
    x: str,
    by: str,
    x_label: str,
    y_label: str | None = None,
    panel: str | None = None,
    x_scale: float = 1.0,
    kind: Any = "line",
    **options: Any,
) -> Draws:
    """Means with their intervals against an axis, a line for each value of another, and a panel for each of
    a third. `options` are those of `Chart`. Raises `ValueError` if the variable has other axes."""
    axes = [label for label in (panel, by, x) if label]
    _check_open(variable, axes)

    def draw(results: Results) -> Chart:
        table = means(variable, results, *axes)
        if x_scale != 1.0:
            table = table.with_columns(pl.col(x) * x_scale)
        return Chart(
            kind=kind,
            table=table,
            x=x,
            y="value",
            by=by,
            panel=panel,
            x_label=x_label,
            y_label=y_label or label_of(variable),
            **options,
        )

    return draw


def overview(variables: Sequence[Variable], *, by: str) -> Tabulates:
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


def crossed(variable: Variable, *, rows: str, columns: str, title: str) -> Tabulates:
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


def shown(variable: Variable, results: Results, labels: Mapping[str, Value] | None = None) -> str:
    """Mean and half of its interval, as a table shows them."""
    interval = interval_of(variable, results, labels or {})
    return stats.plus_minus(interval.value, interval.half_width)


def label_of(variable: Variable) -> str:
    """Name and unit, for axes and heads of tables."""
    return f"{variable.name} ({variable.unit})" if variable.unit else variable.name


def scaled(variable: Variable, factor: float, unit: str, digits: int, name: str = "") -> Derived:
    """The same in another unit."""
    return Derived(
        name=name or variable.name,
        compute=lambda value: value * factor,
        of=(variable,),
        unit=unit,
        digits=digits,
    )


def _check_open(variable: Variable, labels: Sequence[str]) -> None:
    if set(variable.axes) != set(labels):
        raise ValueError(
            f"{variable.name}: has the axes {', '.join(variable.axes) or 'none'}, drawn are "
            f"{', '.join(labels)}: choose values of the others with at(), or take averaged()"
        )
