"""Queries that define figures and tables. A query returns estimates at the points of some axes.

Variables and estimates of rules are queries. Queries can be joined, relabelled, or evaluated on other runs.
Formulas, printed numbers and values from single runs are also queries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from aqmlab.measures import with_unit
from aqmlab.results.labels import Labels, Value
from aqmlab.results.rule import Estimate, mean_of
from aqmlab.results.table import ExperimentResults, Row
from aqmlab.results.variable import Derived, Experiment, Variable, product
from aqmlab.stats import Interval, plus_minus

Found = Iterator[tuple[Labels, Interval]]

ENDS = ("value", "low", "high")


@dataclass(frozen=True, kw_only=True, eq=False)
class Query:
    """A query, which returns estimates at the points of some axes."""

    name: str
    """The estimated quantity, with its unit."""
    axes: tuple[str, ...]
    find: Callable[[ExperimentResults], Found]
    of: tuple[Estimate | Experiment, ...] = ()
    """Estimates or experiments whose runs the query evaluates, or empty for a formula."""

    def tagged(self, **labels: Value) -> Query:
        """Returns this query with additional axes, each of which has one value."""
        return replace(
            self,
            axes=(*labels, *self.axes),
            find=lambda results: (({**point, **labels}, found) for point, found in self.find(results)),
        )

    def relabelled(self, **how: Callable[[Any], Value] | Mapping[Any, Value]) -> Query:
        """Returns this query with new values on some axes. The new values are either the results of a
        function of the old values, or the values of a mapping from old to new values. Points whose old value
        is not in the mapping are omitted."""
        self._check(how)

        def find(results: ExperimentResults) -> Found:
            for point, found in self.find(results):
                if all(point[label] in by for label, by in how.items() if isinstance(by, Mapping)):
                    new = {
                        label: by[point[label]] if isinstance(by, Mapping) else by(point[label])
                        for label, by in how.items()
                    }
                    yield {**point, **new}, found

        return replace(self, find=find)

    def renamed(self, **names: str) -> Query:
        """Returns this query with new names for some axes, for example `renamed(load="reading")`."""
        self._check(names)
        return replace(
            self,
            axes=tuple(names.get(label, label) for label in self.axes),
            find=lambda results: (
                ({names.get(label, label): value for label, value in point.items()}, found)
                for point, found in self.find(results)
            ),
        )

    def where(self, chosen: Callable[..., bool], *labels: str) -> Query:
        """Returns this query at the points for which a function of the values of some axes returns true."""
        self._check(labels)
        return replace(
            self,
            find=lambda results: (
                one for one in self.find(results) if chosen(*(one[0][label] for label in labels))
            ),
        )

    def at(self, **labels: Value) -> Query:
        """Returns this query at the points with the given values of some axes. The result does not have these
        axes."""
        chosen = self.where(lambda *values: values == tuple(labels.values()), *labels)
        return replace(chosen, axes=tuple(label for label in self.axes if label not in labels))

    def formula(self, compute: Callable[..., float | None], *labels: str) -> Query:
        """Returns the value of a formula of some axes at each point of this query. In a form with fewer
        points, the result therefore has fewer values. Points at which the formula returns `None` are
        omitted."""
        self._check(labels)

        def find(results: ExperimentResults) -> Found:
            for point, _ in self.find(results):
                value = compute(*(point[label] for label in labels))
                if value is not None:
                    yield point, exactly(value)

        return replace(self, find=find)

    def _check(self, labels: Iterable[str]) -> None:
        for label in labels:
            if label not in self.axes:
                known = ", ".join(self.axes) or "none"
                raise ValueError(f"{self.name}: no axis is named `{label}`; available: {known}")


Shown = Variable | Estimate | Query
"""Quantities that figures and tables can show. A variable is shown as the mean over seeds."""


def query(shown: Shown) -> Query:
    """A query of a variable or an estimate, at each point that has runs."""
    if isinstance(shown, Query):
        return shown
    estimate = shown if isinstance(shown, Estimate) else mean_of(shown)

    def find(results: ExperimentResults) -> Found:
        for point in estimate.points(results):
            found = estimate.interval(results, point)
            if found.count:
                yield point, found

    return Query(name=estimate.words, axes=estimate.axes, find=find, of=(estimate,))


def joined(*several: Shown) -> Query:
    """Returns a query with the points of all queries, in the order of the queries. Raises `ValueError` if the
    axes of the queries differ."""
    first, *others = made = [query(one) for one in several]
    for other in others:
        if set(other.axes) != set(first.axes):
            raise ValueError(
                f"{other.name} has the axes {', '.join(other.axes) or 'none'}, and {first.name} has "
                f"{', '.join(first.axes) or 'none'}: queries must have the same axes to be joined"
            )
    return replace(
        first,
        find=lambda results: itertools.chain(*(one.find(results) for one in made)),
        of=tuple(source for one in made for source in one.of),
    )


def stacked(axis: str, several: Mapping[str, Shown] | Sequence[Shown]) -> Query:
    """Returns several queries as one query, with an additional axis that contains the queries' names. The
    names are the keys of a mapping or, without a mapping, the estimated quantities with their units. Raises
    `ValueError` if two names are equal."""
    if not isinstance(several, Mapping):
        labels = [label_of(one) for one in several]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two of {', '.join(labels)} have the same name: pass a mapping with names")
        several = dict(zip(labels, several, strict=True))
    return joined(*(query(one).tagged(**{axis: name}) for name, one in several.items()))


def recorded_in(shown: Variable, runs: Callable[[ExperimentResults], ExperimentResults]) -> Query:
    """Returns a query of a variable in other runs, for example recorded runs. The query has no points if one
    of the variable's experiments is missing from these runs."""
    here = query(shown)

    def find(results: ExperimentResults) -> Found:
        other = runs(results)
        return here.find(other) if all(one.name in other for one in shown.experiments) else iter(())

    return replace(here, find=find)


def formula(compute: Callable[..., float | None], name: str = "", **axes: Sequence[Value]) -> Query:
    """Returns a query of a formula's values, or of numbers that a publication prints, at values of some axes.
    Points at which `compute` returns `None` are omitted."""

    def find(_: ExperimentResults) -> Found:
        for point in product(axes):
            value = compute(**point)
            if value is not None:
                yield point, exactly(value)

    return Query(name=name, axes=tuple(axes), find=find)


def of_runs(
    experiment: Experiment,
    values: Callable[[Row], Iterable[tuple[Labels, float]]],
    *adds: str,
    seeds: int = 1,
    **labels: Value,
) -> Query:
    """Returns a query of values that a function extracts from single runs. `adds` names the axes that the
    function adds to the experiment's axes. Only the runs with the first seed are used, or with the first
    `seeds` seeds. With more than one seed, `seed` is an additional axis."""
    experiment.check(labels)

    def find(results: ExperimentResults) -> Found:
        runs = results[experiment.name]
        first = runs.seeds[:seeds]
        for row in runs.rows_at(**labels):
            if row.seed in first:
                for point, value in values(row):
                    yield {**row.labels, "seed": row.seed, **point}, exactly(value)

    free = [label for label in experiment.labels if label not in labels]
    axes = (*free, *(["seed"] if seeds > 1 else []), *adds)
    return Query(name=experiment.title, axes=axes, find=find, of=(experiment,))


def exactly(value: float) -> Interval:
    """Returns a number as an estimate whose interval has no bounds."""
    return Interval(value=float(value), low=math.nan, high=math.nan, count=0)


def scaled(variable: Variable, factor: float, unit: str, name: str = "") -> Derived:
    """Returns the variable multiplied by a factor and with another unit."""
    return Derived(
        name=name or variable.name,
        compute=lambda value: value * factor,
        of=(variable,),
        unit=unit,
    )


def cell(interval: Interval) -> str:
    """Returns the mean and half the width of the interval, as text."""
    return plus_minus(interval.value, interval.half_width)


def label_of(shown: Shown) -> str:
    """Returns the name and unit, for axes of charts and headings of tables."""
    if isinstance(shown, Estimate):
        return shown.words
    return shown.name if isinstance(shown, Query) else with_unit(shown.name, shown.unit)


def by_point(
    shown: Shown, results: ExperimentResults, labels: Sequence[str]
) -> dict[tuple[Value, ...], Interval]:
    """Returns the estimates of a query by the values of these axes. Raises `ValueError` if the query has
    other axes, or has two estimates at one point."""
    check_axes(shown, labels)
    found: dict[tuple[Value, ...], Interval] = {}
    for labelled, one in query(shown).find(results):
        point = tuple(labelled[label] for label in labels)
        if point in found:
            raise ValueError(f"{label_of(shown)}: has two estimates at one point: use tagged()")
        found[point] = one
    return found


def in_order(points: Iterable[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """Returns the distinct points, sorted along one axis after the other. Values of an axis are sorted by
    their first occurrence."""
    different = list(dict.fromkeys(points))
    ranks = [
        {value: rank for rank, value in enumerate(dict.fromkeys(values))}
        for values in zip(*different, strict=True)
    ]
    return sorted(different, key=lambda point: [of[value] for of, value in zip(ranks, point, strict=True)])


def means(shown: Shown, results: ExperimentResults, *labels: str) -> pl.DataFrame:
    """Returns the estimates of a query, sorted by the query's axes. The columns are the labels, `value`,
    `low`, `high` and `seeds`."""
    found = by_point(shown, results, labels)
    numbers = {point: (one.value, one.low, one.high, one.count) for point, one in found.items()}
    rows = [(*point, *numbers[point]) for point in in_order(found)]
    return pl.DataFrame(
        rows,
        schema=[*labels, *ENDS, "seeds"],
        schema_overrides=dict.fromkeys(ENDS, pl.Float64),
        orient="row",
        infer_schema_length=None,
    )


def check_axes(shown: Shown, labels: Sequence[str]) -> None:
    """Raises `ValueError` unless a query has exactly these axes."""
    if set(shown.axes) != set(labels):
        raise ValueError(
            f"{label_of(shown)}: has the axes {', '.join(shown.axes) or 'none'}, but the axes shown are "
            f"{', '.join(labels) or 'none'}: select values of the other axes with at(), or use averaged()"
        )
