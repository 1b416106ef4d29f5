"""What figures and tables of studies show: estimates, each at a point of some axes.

A variable or an estimate of a rule is a query by itself. Queries are joined, given other names for the values
of their axes, or asked of other runs; laws, printed numbers and what single runs tell are queries, too.
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
    """Estimates at points of some axes."""

    name: str
    """What is estimated, with its unit."""
    axes: tuple[str, ...]
    find: Callable[[ExperimentResults], Found]
    of: tuple[Estimate | Experiment, ...] = ()
    """The estimates, or the experiments, of whose runs the query is made; a law is made of none."""

    def tagged(self, **labels: Value) -> Query:
        """The same with axes more, each of one value."""
        return replace(
            self,
            axes=(*labels, *self.axes),
            find=lambda results: (({**point, **labels}, found) for point, found in self.find(results)),
        )

    def relabelled(self, **how: Callable[[Any], Value] | Mapping[Any, Value]) -> Query:
        """The same with other names or numbers for the values of some axes: what a function makes of them, or
        those of a mapping, without the points whose value it does not name."""
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
        """The same with other names for some axes: `renamed(load="reading")`."""
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
        """The points at which a function of the values of some axes says so."""
        self._check(labels)
        return replace(
            self,
            find=lambda results: (
                one for one in self.find(results) if chosen(*(one[0][label] for label in labels))
            ),
        )

    def at(self, **labels: Value) -> Query:
        """The points with these values of some axes, without these axes."""
        chosen = self.where(lambda *values: values == tuple(labels.values()), *labels)
        return replace(chosen, axes=tuple(label for label in self.axes if label not in labels))

    def law(self, compute: Callable[..., float | None], *labels: str) -> Query:
        """What a formula gives of the values of some axes at the same points, so that a form which runs fewer
        of them has fewer; nothing where it is `None`."""
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
                raise ValueError(f"{self.name}: no axis is called `{label}`: there is {known}")


Shown = Variable | Estimate | Query
"""What can be shown: of a variable the mean over the seeds."""


def query(shown: Shown) -> Query:
    """A variable or an estimate at each of its points at which there is anything."""
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
    """The points of all of them, one after the other. Raises `ValueError` unless their axes are the same."""
    first, *others = made = [query(one) for one in several]
    for other in others:
        if set(other.axes) != set(first.axes):
            raise ValueError(
                f"{other.name} has the axes {', '.join(other.axes) or 'none'}, and {first.name} has "
                f"{', '.join(first.axes) or 'none'}: joined are queries of the same axes"
            )
    return replace(
        first,
        find=lambda results: itertools.chain(*(one.find(results) for one in made)),
        of=tuple(source for one in made for source in one.of),
    )


def stacked(axis: str, several: Mapping[str, Shown] | Sequence[Shown]) -> Query:
    """Several told apart on an axis more by their names, which are those of a mapping, or what they estimate
    with its unit. Raises `ValueError` if two are called the same."""
    if not isinstance(several, Mapping):
        labels = [label_of(one) for one in several]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two of {', '.join(labels)} are called the same: name them")
        several = dict(zip(labels, several, strict=True))
    return joined(*(query(one).tagged(**{axis: name}) for name, one in several.items()))


def elsewhere(shown: Variable, runs: Callable[[ExperimentResults], ExperimentResults]) -> Query:
    """A variable in other runs, such as recorded ones, as far as they have its experiments."""
    here = query(shown)

    def find(results: ExperimentResults) -> Found:
        other = runs(results)
        return here.find(other) if all(one.name in other for one in shown.experiments) else iter(())

    return replace(here, find=find)


def law(compute: Callable[..., float | None], name: str = "", **axes: Sequence[Value]) -> Query:
    """What a formula gives, or a publication prints, at values of some axes; nothing where it is `None`."""

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
    """What a function finds in single runs, at values of the axes that it `adds` to those of the experiment:
    in the runs of the first seed, or of so many, which then are an axis, `seed`."""
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
    """A number without an interval."""
    return Interval(value=float(value), low=math.nan, high=math.nan, count=0)


def scaled(variable: Variable, factor: float, unit: str, name: str = "") -> Derived:
    """The same in another unit."""
    return Derived(
        name=name or variable.name,
        compute=lambda value: value * factor,
        of=(variable,),
        unit=unit,
    )


def cell(interval: Interval) -> str:
    """Mean and half of the interval."""
    return plus_minus(interval.value, interval.half_width)


def label_of(shown: Shown) -> str:
    """Name and unit, for axes and heads of tables."""
    if isinstance(shown, Estimate):
        return shown.words
    return shown.name if isinstance(shown, Query) else with_unit(shown.name, shown.unit)


def by_point(
    shown: Shown, results: ExperimentResults, labels: Sequence[str]
) -> dict[tuple[Value, ...], Interval]:
    """The estimates of a query by the values of these axes. Raises `ValueError` if the query has other axes,
    or two estimates at a point."""
    check_axes(shown, labels)
    found: dict[tuple[Value, ...], Interval] = {}
    for labelled, one in query(shown).find(results):
        point = tuple(labelled[label] for label in labels)
        if point in found:
            raise ValueError(f"{label_of(shown)}: has two estimates at one point: tag them apart")
        found[point] = one
    return found


def in_order(points: Iterable[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """The different ones of some points, sorted along one axis after the other, each in the order in which
    its values first come."""
    different = list(dict.fromkeys(points))
    ranks = [
        {value: rank for rank, value in enumerate(dict.fromkeys(values))}
        for values in zip(*different, strict=True)
    ]
    return sorted(different, key=lambda point: [of[value] for of, value in zip(ranks, point, strict=True)])


def means(shown: Shown, results: ExperimentResults, *labels: str) -> pl.DataFrame:
    """The estimates of a query, sorted by its axes: the labels, `value`, `low`, `high`, `seeds`."""
    found = by_point(shown, results, labels)
    told = {point: (one.value, one.low, one.high, one.count) for point, one in found.items()}
    rows = [(*point, *told[point]) for point in in_order(found)]
    return pl.DataFrame(
        rows,
        schema=[*labels, *ENDS, "seeds"],
        schema_overrides=dict.fromkeys(ENDS, pl.Float64),
        orient="row",
        infer_schema_length=None,
    )


def check_axes(shown: Shown, labels: Sequence[str]) -> None:
    """Raises `ValueError` unless a query has these axes."""
    if set(shown.axes) != set(labels):
        raise ValueError(
            f"{label_of(shown)}: has the axes {', '.join(shown.axes) or 'none'}, drawn are "
            f"{', '.join(labels) or 'none'}: choose values of the others with at(), or take averaged()"
        )
