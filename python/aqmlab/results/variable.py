"""Variables of studies. A variable has a value at every point and for every seed of an experiment.

A measure of an experiment is a variable. Other variables are computed from variables, either separately for
each point and seed, or along an axis. `axes` contains the free axes of a variable. A comparison is judged at
each value of the free axes. `at` fixes the value of an axis, and `averaged` computes the mean along an axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from aqmlab import stats
from aqmlab._support.names import hint, value_hint
from aqmlab.measures import Quantity
from aqmlab.results.labels import Labels, PointName, Value

T = TypeVar("T")

NOTHING: Labels = MappingProxyType({})


class Runs(Protocol):
    """The interface through which variables read tables of runs (`aqmlab.results.table.Results`)."""

    @property
    def axes(self) -> Mapping[str, tuple[Value, ...]]:
        """The values of each axis in the executed form of the study."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of the runs, ascending."""

    @property
    def point_set(self) -> frozenset[tuple[Value, ...]] | None:
        """The points, or `None` if they are the full product of the axes' values."""

    def seeds_at(self, point: tuple[Value, ...]) -> Collection[int]:
        """Returns the seeds of the runs at a point."""

    def at_point(self, measure: str, point: tuple[Value, ...], seeds: Sequence[int]) -> list[Any]:
        """The values of a measure at a point for these seeds; `None` for missing values."""


RunsByName = Mapping[str, Runs]
"""Tables of runs by the name of their experiment."""


class Experiment(Protocol):
    """The source of measures."""

    @property
    def name(self) -> str:
        """Key of the experiment's runs."""

    @property
    def title(self) -> str:
        """Title of the experiment, for texts."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the axes."""

    def values(self, label: str) -> tuple[Value, ...]:
        """Returns all values of an axis."""

    def check(self, labels: Mapping[str, Any]) -> None:
        """Raises `ValueError` for an unknown axis or value."""


class Variable(Hashable, Protocol):
    """A quantity that has a value at every point and for every seed."""

    @property
    def name(self) -> str:
        """Name of the variable, without the unit."""

    @property
    def unit(self) -> str:
        """Unit of the variable, or an empty string for a plain number."""

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """Experiments whose measures the variable uses."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The free axes."""

    @property
    def chosen(self) -> Labels:
        """Fixed values of axes that describe the variable."""

    @property
    def averages(self) -> tuple[str, ...]:
        """Axes over which the variable is averaged."""

    @property
    def definition(self) -> Any:
        """The definition as plain JSON."""

    def values(self, results: RunsByName, labels: Labels, seeds: Sequence[int]) -> list[Any]:
        """Returns the values for these seeds at the point with these labels, with `None` or NaN for missing
        values."""

    def at(self, **labels: Value) -> Variable:
        """Returns the variable with some axes fixed at these values."""

    def among(self, **values: Sequence[Value]) -> Variable:
        """Returns the variable with some axes restricted to these values."""

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        """Returns the values of an axis in the executed form of the study."""

    def averaged(self, *labels: str) -> Variable:
        """Returns the mean of the variable over all values of these axes."""

    def slope(self, label: str, step: float = 1.0) -> Variable:
        """Returns the slope of the least-squares line along a numeric axis, per `step` of the axis."""

    def along(self, label: str) -> Variable:
        """Returns a variable that contains the values along an axis as a list, from which a statistic can be
        computed."""

    def unrolled(self, label: str, values: Sequence[Value]) -> Variable:
        """Returns a variable with an additional axis, along which the elements of this variable's lists are
        arranged. `values` are the values of the axis."""


class _Operations:
    """Operations that all variables have."""

    def averaged(self: Any, *labels: str) -> Variable:
        """Returns the mean of the variable over all values of these axes."""
        along: Variable = self
        for label in labels:
            along = Along(of=along, label=label, how="mean", reduce=_mean)
        return along

    def slope(self: Any, label: str, step: float = 1.0) -> Variable:
        """Returns the slope of the least-squares line along a numeric axis, per `step` of the axis."""
        return Along(
            of=self,
            label=label,
            how=f"growth per {step:g} of {label}",
            reduce=lambda x, y: step * _slope(x, y),
            name=f"{self.name}, growth when {label} increases by {step:g}",
        )

    def along(self: Any, label: str) -> Variable:
        """Returns a variable that contains the values along an axis as a list, from which a statistic can be
        computed."""
        return Along(of=self, label=label, how=f"along {label}", reduce=lambda _, y: list(y), name=self.name)

    def unrolled(self: Any, label: str, values: Sequence[Value]) -> Variable:
        """Returns a variable with an additional axis, along which the elements of this variable's lists are
        arranged. `values` are the values of the axis."""
        return Unrolled(of=self, label=label, elements=tuple(values))


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured(_Operations):
    """A measure of an experiment."""

    experiment: Experiment
    measure: Quantity
    chosen: Labels = field(default_factory=dict)
    fewer: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.measure.title or self.measure.name

    @property
    def unit(self) -> str:
        return self.measure.unit

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return (self.experiment,)

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(label for label in self.experiment.labels if label not in self.chosen)

    @property
    def averages(self) -> tuple[str, ...]:
        return ()

    @property
    def definition(self) -> Any:
        return {
            "experiment": self.experiment.name,
            "measure": self.measure.key,
            "at": dict(self.chosen),
            "among": {label: list(values) for label, values in self.fewer.items()},
        }

    def values(self, results: RunsByName, labels: Labels, seeds: Sequence[int]) -> list[Any]:
        return results[self.experiment.name].at_point(self.measure.name, self.point(labels), seeds)

    def point(self, labels: Labels) -> tuple[Value, ...]:
        """Returns the point with these labels and the fixed values, as a tuple in the order of the
        experiment's labels."""
        return tuple({**labels, **self.chosen}[label] for label in self.experiment.labels)

    def at(self, **labels: Value) -> Measured:
        self.experiment.check(labels)
        _check_free(self, labels)
        return replace(self, chosen={**self.chosen, **labels})

    def among(self, **values: Sequence[Value]) -> Measured:
        for label, some in values.items():
            for value in some:
                self.experiment.check({label: value})
        _check_free(self, values)
        return replace(self, fewer={**self.fewer, **{label: tuple(some) for label, some in values.items()}})

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        known = results[self.experiment.name].axes[label]
        return tuple(value for value in known if label not in self.fewer or value in self.fewer[label])


@dataclass(frozen=True, kw_only=True, eq=False)
class Derived(_Operations):
    """A variable that a function computes from the values of other variables, separately for each point and
    seed.

    The function receives one value of each variable (a number, or the original value of a measure), and is
    not called if a value is missing. The author must increase `version` when the computation changes.
    """

    name: str
    """Name in texts."""
    compute: Callable[..., Any]
    of: tuple[Variable, ...]
    unit: str = ""
    version: int = 1
    chosen: Labels = field(default_factory=dict)
    key: str = ""
    """Name in the definition of rules, by default `name`. With a key, the name in texts can change without a
    new digest."""

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return tuple(dict.fromkeys(one for variable in self.of for one in variable.experiments))

    @property
    def axes(self) -> tuple[str, ...]:
        return axes_of(self.of)

    @property
    def averages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(label for variable in self.of for label in variable.averages))

    @property
    def definition(self) -> Any:
        definition = {"derived": self.key or self.name, "version": self.version, "at": dict(self.chosen)}
        return {**definition, "of": [variable.definition for variable in self.of]}

    def values(self, results: RunsByName, labels: Labels, seeds: Sequence[int]) -> list[Any]:
        columns = [variable.values(results, labels, seeds) for variable in self.of]
        return [
            None if any(map(_is_missing, values)) else self.compute(*values)
            for values in zip(*columns, strict=True)
        ]

    def at(self, **labels: Value) -> Derived:
        _check_free(self, labels)
        return replace(self, of=all_at(self.of, labels), chosen={**self.chosen, **labels})

    def among(self, **values: Sequence[Value]) -> Derived:
        _check_free(self, values)
        return replace(self, of=tuple(one.among(**open_in(one, values)) for one in self.of))

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        return common_values(self.of, label, results)


@dataclass(frozen=True, kw_only=True, eq=False)
class Along(_Operations):
    """A variable that reduces the values of another variable along an axis, separately for each seed, to
    their mean, their slope or a list.

    The reducing function receives the values of the axis and the values of the variable, with NaN for missing
    values.
    """

    of: Variable
    label: str
    how: str
    reduce: Callable[[Sequence[Any], Sequence[float]], Any]
    name: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        if self.label not in self.of.axes:
            raise ValueError(
                f"{self.of.name}: no axis is named `{self.label}`: {hint(self.label, self.of.axes)}"
            )
        if not self.name:
            name = f"{self.of.name}, {self.how}" if self.how != "mean" else self.of.name
            object.__setattr__(self, "name", name)

    @property
    def unit(self) -> str:
        return self.of.unit

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return self.of.experiments

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(label for label in self.of.axes if label != self.label)

    @property
    def chosen(self) -> Labels:
        return self.of.chosen

    @property
    def averages(self) -> tuple[str, ...]:
        return (*self.of.averages, self.label) if self.how == "mean" else self.of.averages

    @property
    def definition(self) -> Any:
        definition = {"along": self.label, "how": self.how, "version": self.version}
        return {**definition, "of": self.of.definition}

    def values(self, results: RunsByName, labels: Labels, seeds: Sequence[int]) -> list[Any]:
        axis = self.of.values_of(self.label, results)
        columns = [series(self.of, results, {**labels, self.label: value}, seeds) for value in axis]
        return [self.reduce(axis, [column[at] for column in columns]) for at in range(len(seeds))]

    def at(self, **labels: Value) -> Along:
        _check_free(self, labels)
        return replace(self, of=self.of.at(**labels))

    def among(self, **values: Sequence[Value]) -> Along:
        _check_free(self, values)
        return replace(self, of=self.of.among(**values))

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        return self.of.values_of(label, results)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unrolled(_Operations):
    """A variable whose values are the elements of another variable's lists, along an additional axis. The
    value is `None` beyond the end of a list."""

    of: Variable
    label: str
    elements: tuple[Value, ...]
    fixed: Value | None = None
    """The value at which the additional axis is fixed."""
    fewer: tuple[Value, ...] | None = None

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def unit(self) -> str:
        return self.of.unit

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return self.of.experiments

    @property
    def axes(self) -> tuple[str, ...]:
        return self.of.axes if self.fixed is not None else (*self.of.axes, self.label)

    @property
    def chosen(self) -> Labels:
        return self.of.chosen if self.fixed is None else {**self.of.chosen, self.label: self.fixed}

    @property
    def averages(self) -> tuple[str, ...]:
        return self.of.averages

    @property
    def definition(self) -> Any:
        definition = {"unrolled": self.label, "places": list(self.elements), "at": self.fixed}
        definition["among"] = None if self.fewer is None else list(self.fewer)
        return {**definition, "of": self.of.definition}

    @cached_property
    def _index(self) -> Mapping[Value, int]:
        return {value: index for index, value in enumerate(self.elements)}

    def values(self, results: RunsByName, labels: Labels, seeds: Sequence[int]) -> list[Any]:
        index = self._index[labels[self.label] if self.fixed is None else self.fixed]
        runs = tuple(results[one.name] for one in self.experiments)
        lists = _lists_of(self.of, runs, tuple(open_in(self.of, labels).items()), tuple(seeds))
        return [None if found is None or index >= len(found) else found[index] for found in lists]

    def at(self, **labels: Value) -> Unrolled:
        _check_free(self, labels)
        fixed = labels.pop(self.label, self.fixed)
        self._check_elements([] if fixed is None else [fixed])
        return replace(self, of=self.of.at(**labels), fixed=fixed)

    def among(self, **values: Sequence[Value]) -> Unrolled:
        _check_free(self, values)
        fewer = tuple(values.pop(self.label)) if self.label in values else self.fewer
        self._check_elements(fewer or ())
        return replace(self, of=self.of.among(**values), fewer=fewer)

    def _check_elements(self, values: Sequence[Value]) -> None:
        for value in values:
            if value not in self._index:
                near = value_hint(value, self.elements)
                raise ValueError(f"{self.name}: `{self.label}` has no value {value!r}: {near}")

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        if label != self.label:
            return self.of.values_of(label, results)
        return self.elements if self.fewer is None else self.fewer


@lru_cache(maxsize=64)
def _lists_of(
    variable: Variable,
    runs: tuple[Runs, ...],
    labels: tuple[tuple[str, Value], ...],
    seeds: tuple[int, ...],
) -> Sequence[Sequence[Any] | None]:
    """Cache of a variable's lists, one list for each seed, because the elements of the lists are read one by
    one."""
    results = {one.name: found for one, found in zip(variable.experiments, runs, strict=True)}
    return variable.values(results, dict(labels), seeds)


def per_seed(
    name: str, compute: Callable[..., Any], *of: Variable, unit: str = "", version: int = 1, key: str = ""
) -> Derived:
    """A variable that a function computes from other variables, point by point and seed by seed. `key` is the
    name in the definition of rules, by default `name`."""
    return Derived(name=name, compute=compute, of=of, unit=unit, version=version, key=key)


def open_in(variable: Variable, labels: Mapping[str, T]) -> dict[str, T]:
    """Returns the labels of the variable's free axes."""
    return {label: value for label, value in labels.items() if label in variable.axes}


def all_at(variables: Sequence[Variable], labels: Labels) -> tuple[Variable, ...]:
    """Returns the variables with their free axes fixed at these values."""
    return tuple(one.at(**open_in(one, labels)) for one in variables)


def axes_of(variables: Sequence[Variable]) -> tuple[str, ...]:
    """Returns all axes that are free axes of at least one of these variables."""
    return tuple(dict.fromkeys(label for one in variables for label in one.axes))


def common_values(variables: Sequence[Variable], label: str, results: RunsByName) -> tuple[Value, ...]:
    """Returns the values of an axis, in the executed form, that are common to all variables with this free
    axis."""
    several = [one.values_of(label, results) for one in variables if label in one.axes]
    return tuple(value for value in several[0] if all(value in others for others in several[1:]))


def product(axes: Mapping[str, Sequence[Value]]) -> Iterator[Labels]:
    """Yields the labels of all points in the product of the axes' values."""
    for chosen in itertools.product(*axes.values()):
        yield dict(zip(axes, chosen, strict=True))


def measured(variable: Variable) -> tuple[Measured, ...]:
    """Returns the measures from which a variable is computed."""
    if isinstance(variable, Measured):
        return (variable,)
    if isinstance(variable, Along | Unrolled):
        return measured(variable.of)
    assert isinstance(variable, Derived)
    return tuple(leaf for one in variable.of for leaf in measured(one))


def seeds_of(variables: Sequence[Variable], results: RunsByName) -> list[int]:
    """Returns the seeds of all runs, in ascending order."""
    names = {one.name for variable in variables for one in variable.experiments}
    return sorted({seed for name in names for seed in results[name].seeds})


def points_used(variable: Variable, results: RunsByName, labels: Labels) -> set[PointName]:
    """Returns the points whose runs are needed to compute a variable with these labels. Each point consists
    of the experiment's name and the values of the labels."""
    if isinstance(variable, Along):
        axis = variable.of.values_of(variable.label, results)
        several = [points_used(variable.of, results, {**labels, variable.label: value}) for value in axis]
        return set().union(*several)
    if isinstance(variable, Unrolled):
        return points_used(variable.of, results, open_in(variable.of, labels))
    if isinstance(variable, Derived):
        return set().union(*(points_used(one, results, labels) for one in variable.of))
    assert isinstance(variable, Measured)
    return {(variable.experiment.name, variable.point(labels))}


def points_of(variable: Variable, results: RunsByName) -> Iterator[Labels]:
    """Yields the labels of all points of a variable in the executed form."""
    return product({label: variable.values_of(label, results) for label in variable.axes})


def series(variable: Variable, results: RunsByName, labels: Labels, seeds: Sequence[int]) -> list[float]:
    """Returns the values of a variable by seed, with NaN for missing values."""
    return list(map(number, variable.values(results, labels, seeds)))


def number(value: Any) -> float:
    """Returns a value as a number, with NaN for `None`."""
    return math.nan if value is None else float(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _check_free(variable: Variable, labels: Mapping[str, Any]) -> None:
    for label in labels:
        if label not in variable.axes:
            near = hint(label, variable.axes)
            raise ValueError(f"{variable.name}: no free axis is named `{label}`: {near}")


def _mean(_: Sequence[Any], values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _slope(x: Sequence[Any], y: Sequence[float]) -> float:
    return stats.slope([float(one) for one in x], list(y))
