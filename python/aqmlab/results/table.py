"""`Results`, the table of runs: a row for each run, with its labels, its seed and its measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from aqmlab import stats
from aqmlab._support.names import hint
from aqmlab.measures import CORRELATION, STANDARD_ERROR, Quantity
from aqmlab.results import pairs
from aqmlab.results.labels import Labels, Value, said
from aqmlab.results.variable import Measured, number

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.results.rule import AnyRule
    from aqmlab.stats import Evidence, Interval

Against = Literal["difference", "ratio"]

PointValues = tuple[Value, ...]
"""The values of the labels of a point, in the order of the axes."""

OF_RUNS = ("seed", "status", "error", "scenario")
"""The columns of a table of runs that are neither axes nor measures."""

DONE = "done"

SHOWN = 30
"""A table in a notebook has at most this number of points."""


class Failed(Protocol):
    """A run that failed."""

    @property
    def name(self) -> str:
        """What it is in words."""

    @property
    def seed(self) -> int:
        """Its seed."""

    @property
    def problem(self) -> str:
        """Why it failed."""

    @property
    def scenario(self) -> str:
        """The digest of its scenario."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: its labels, its seed, and its measures by name."""

    labels: Labels
    seed: int
    values: Mapping[str, Any]

    def __getitem__(self, measure: Quantity) -> Any:
        """A measure of the run; `None` where it has none."""
        return self.values[measure.name]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results:
    """The finished runs of a sweep, a study's experiment or any other set of runs, as one table.

    `frame` has a row for each run: a column for each axis (its label), `seed`, `status` (`done`, `failed`,
    `crashed`), `error`, `scenario` (the digest), and a column of `Float64` for each measure, null where the
    run has no such number. `exact` has, by measure, the values as they were recorded, a value for each row,
    where these are not all floating-point numbers: whole numbers, lists, tables.

    Verbs such as `at`, `among` and `where` return another table. `results["web.mean-time"]` is a variable: of
    variables `aqmlab.results.rule` makes ratios, differences and claims, which `judge` judges.
    """

    frame: pl.DataFrame = field(kw_only=False)
    axes: Mapping[str, tuple[Value, ...]]
    """The values of each axis, in order, by label."""
    measures: Mapping[str, Quantity] = field(default_factory=dict)
    """Title, unit, digits and version of each measure, by name."""
    name: str = "runs"
    given_points: tuple[PointValues, ...] | None = None
    """The points, in order, where not every product of values of axes is one."""
    looks: int = 1
    """How often the runs were looked at, at most, to decide how many of them there are."""
    precise: int = 1
    """How many measures decided together at each look."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """The dotted path of each axis in the scenario, by label, where it has one."""
    own_seeds: tuple[str, ...] = ()
    """The axes along which points have seeds of their own, and are no pairs."""
    wanted: int | None = None
    """How many runs there are when none is missing; `None` if that is not known."""
    too_wide: int = 0
    """How many points have all runs that precision allows, and intervals wider than asked."""
    failures: Sequence[Failed] = ()
    interrupted: bool = False
    """Whether Ctrl-C ended the campaign before all runs were made."""
    exact: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [name for name in (*self.axes, "seed", "status") if name not in self.frame.columns]
        if missing:
            columns = ", ".join(self.frame.columns)
            raise ValueError(f"frame: has no column `{missing[0]}`: there is {columns}")

    @classmethod
    def of_rows(
        cls, rows: Iterable[Row], axes: Mapping[str, Sequence[Value]], *, name: str = "runs"
    ) -> Results:
        """The table of runs that are at hand as objects, all of them done."""
        import polars as pl

        rows = tuple(rows)
        names: dict[str, None] = {}
        for row in rows:
            names.update(dict.fromkeys(row.values))
        columns: dict[str, pl.Series] = {
            label: label_column([row.labels[label] for row in rows], values) for label, values in axes.items()
        }
        columns["seed"] = pl.Series([row.seed for row in rows], dtype=pl.Int64)
        columns["status"] = pl.Series([DONE] * len(rows), dtype=pl.String)
        columns |= {one: pl.Series([None] * len(rows), dtype=pl.String) for one in ("error", "scenario")}
        exact = {}
        for measure in names:
            values = [row.values.get(measure) for row in rows]
            if set(map(type, values)) <= {float, type(None)}:
                columns[measure] = pl.Series(values, dtype=pl.Float64)
            else:
                exact[measure] = tuple(values)
                columns[measure] = pl.Series(list(map(_float, values)), dtype=pl.Float64)
        known = {label: tuple(values) for label, values in axes.items()}
        return cls(pl.DataFrame(columns), axes=known, name=name, exact=exact)

    # What there is

    def __repr__(self) -> str:
        """The runs in short: `intervals` and `against` have what they say."""
        done = self._done.height
        of = "" if self.wanted in (None, done) else f" of {self.wanted}"
        axes = "; ".join(f"{label}: {_few(values)}" for label, values in self.axes.items()) or "none"
        failed = len(self.failures)
        counts = f"{len(self._point_values)} points, {done}{of} runs, {failed} failed"
        return f"Results({self.name}: {counts}; axes {axes}; measures {_few(self._names)})"

    def _repr_html_(self) -> str:
        from aqmlab._support import notebook

        cells: dict[PointValues, dict[str, str]] = {}
        for row in self.intervals().iter_rows(named=True):
            point = tuple(row[label] for label in self.axes)
            half = (row["high"] - row["low"]) / 2
            cells.setdefault(point, {})[row["measure"]] = stats.plus_minus(row["mean"], half)
        heads = [one.label for one in self.measured]
        rows = [[*point, *(found.get(one, "-") for one in self._names)] for point, found in cells.items()]
        more = f", the first {SHOWN} points" if len(rows) > SHOWN else ""
        title = f"{self.name}: mean and {100 * stats.LEVEL:g} % interval over replications{more}"
        return notebook.section(title, notebook.table([*self.axes, *heads], rows[:SHOWN]))

    @property
    def measured(self) -> tuple[Quantity, ...]:
        """The measures of which there are intervals."""
        return tuple(
            one for name, one in self.measures.items() if not name.endswith((STANDARD_ERROR, CORRELATION))
        )

    @property
    def _names(self) -> list[str]:
        return [one.name for one in self.measured]

    def measure(self, name: str) -> Quantity:
        """The measure of this name; raises `ValueError`, which suggests the nearest names."""
        known = {one.name: one for one in self.measured}
        if name not in known:
            raise ValueError(f"no measure is named `{name}`: {hint(name, known)}")
        return known[name]

    @property
    def points(self) -> pl.DataFrame:
        """The points, a row each, in order: a column for each axis."""
        import polars as pl

        points = self._point_values
        columns = zip(*points, strict=True) if points else [()] * len(self.axes)
        return pl.DataFrame(
            {
                label: label_column(list(values), self.axes[label])
                for label, values in zip(self.axes, columns, strict=True)
            }
        )

    @cached_property
    def _point_values(self) -> tuple[PointValues, ...]:
        from itertools import product

        return tuple(product(*self.axes.values())) if self.given_points is None else self.given_points

    @cached_property
    def point_set(self) -> frozenset[PointValues] | None:
        """The points, where not every product of values of axes is one."""
        return None if self.given_points is None else frozenset(self.given_points)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of runs, ascending."""
        return tuple(sorted(set(self.frame["seed"].to_list())))

    @property
    def _done(self) -> pl.DataFrame:
        import polars as pl

        return self.frame.filter(pl.col("status") == DONE)

    def level(self, level: float = stats.LEVEL, count: int = 1) -> float:
        """The level of each of `count` intervals that shall hold together with this one: higher where
        precision decided how many runs there are, as it looked at them more than once."""
        return stats.look_level(self.looks, count * self.precise, level)

    # Rows

    @cached_property
    def _labels(self) -> list[PointValues]:
        """The point of each row."""
        columns = []
        for label, values in self.axes.items():
            as_given = dict(zip(_stored(values, values), values, strict=True))
            columns.append([as_given.get(value, value) for value in self.frame[label].to_list()])
        return list(zip(*columns, strict=True)) if columns else [()] * self.frame.height

    @cached_property
    def places(self) -> Mapping[PointValues, Mapping[int, int]]:
        """The places of rows in `frame`, by point and seed; the seeds of a point ascending."""
        found: dict[PointValues, dict[int, int]] = {}
        for row, (point, seed) in enumerate(zip(self._labels, self.frame["seed"].to_list(), strict=True)):
            found.setdefault(point, {})[seed] = row
        return {point: dict(sorted(rows.items())) for point, rows in found.items()}

    @cached_property
    def _columns(self) -> dict[str, Sequence[Any]]:
        """The columns that were asked for, as Python has them."""
        return {}

    def column(self, measure: str) -> Sequence[Any]:
        """The values of a measure as they were recorded, one for each row. Raises `KeyError`."""
        if measure not in self._columns:
            if measure not in self.frame.columns:
                raise KeyError(measure)
            self._columns[measure] = (
                self.exact[measure] if measure in self.exact else self.frame[measure].to_list()
            )
        return self._columns[measure]

    def seeds_at(self, point: PointValues) -> Collection[int]:
        """The seeds of the runs at a point, ascending."""
        return self.places.get(point, {})

    def at_point(self, measure: str, point: PointValues, seeds: Sequence[int]) -> list[Any]:
        """The value of a measure at a point for each of some seeds; `None` where there is none."""
        rows = self.places.get(point)
        if rows is None:
            return [None] * len(seeds)
        column = self.column(measure)
        return [column[rows[seed]] if seed in rows else None for seed in seeds]

    def numbers(self, measure: str, point: PointValues, seeds: Sequence[int]) -> list[float]:
        """The number that a measure is at a point for each of some seeds; NaN where there is none."""
        return list(map(number, self.at_point(measure, point, seeds)))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All runs as objects, in the order of the table."""
        names = [name for name in self.frame.columns if name not in (*self.axes, *OF_RUNS)]
        columns = [self.column(name) for name in names]
        runs = zip(*columns, strict=True) if names else [()] * self.frame.height
        return tuple(
            Row(
                labels=dict(zip(self.axes, point, strict=True)),
                seed=seed,
                values=dict(zip(names, values, strict=True)),
            )
            for point, seed, values in zip(self._labels, self.frame["seed"].to_list(), runs, strict=True)
        )

    @cached_property
    def by_point(self) -> Mapping[PointValues, Mapping[int, Row]]:
        """All runs as objects, by point and seed."""
        return {
            point: {seed: self.rows[row] for seed, row in rows.items()} for point, rows in self.places.items()
        }

    def rows_at(self, **labels: Value) -> tuple[Row, ...]:
        """The runs that carry these labels, as objects."""
        return tuple(
            row for row in self.rows if all(row.labels[key] == value for key, value in labels.items())
        )

    # An experiment, as rules see it

    @property
    def title(self) -> str:
        """What the table is called in the words of rules."""
        return self.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the axes."""
        return tuple(self.axes)

    def values(self, label: str) -> tuple[Value, ...]:
        """The values of an axis. Raises `ValueError` if there is none of this label."""
        self._check_axis(self.name, label)
        return self.axes[label]

    def check(self, labels: Mapping[str, Any]) -> None:
        """Raises `ValueError`, which suggests the nearest names, if there is no such axis or value."""
        self._check(self.name, labels)

    def _check(self, place: str, labels: Mapping[str, Any]) -> None:
        for label, value in labels.items():
            self._check_axis(place, label)
            if value not in self.axes[label]:
                takes = ", ".join(map(str, self.axes[label]))
                raise ValueError(f"{place}: {label} is never {value!r}: it takes {takes}")

    def _check_axis(self, place: str, label: str) -> None:
        if label not in self.axes:
            raise ValueError(f"{place}: no axis is called `{label}`: {hint(label, self.axes)}")

    def __getitem__(self, measure: str | Quantity) -> Measured:
        """A measure at every point, as a variable. Raises `ValueError` if it is not measured."""
        name = measure if isinstance(measure, str) else measure.name
        if name not in self.measures:
            raise ValueError(f"{self.name}: no measure is named `{name}`: {hint(name, self._names)}")
        return Measured(experiment=self, measure=self.measures[name])

    def judge(self, rule: AnyRule) -> Evidence:
        """What the runs say of a rule over variables of this table, and of other tables of other names.

        Raises `ValueError` if two tables of the same name are compared.
        """
        tables: dict[str, Results] = {}
        for variable in rule.variables:
            for one in variable.experiments:
                found = one if isinstance(one, Results) else self
                if tables.setdefault(one.name, found) is not found:
                    raise ValueError(
                        f"two tables are called {one.name}: give one of them another name with `named`"
                    )
        return rule.judge(tables, stats.look_level(self.looks))

    # Verbs, each of which gives another table

    def named(self, name: str) -> Results:
        """The same under another name."""
        return replace(self, name=name)

    def at(self, **labels: Value) -> Results:
        """The runs where some axes have these values, without these axes."""
        self._check("at", labels)
        kept = self._only([[labels[label]] if label in labels else None for label in self.axes])
        places = [place for place, label in enumerate(self.axes) if label not in labels]
        points = kept.given_points
        return replace(
            kept,
            frame=kept.frame.drop(*labels),
            axes={label: values for label, values in kept.axes.items() if label not in labels},
            given_points=points and tuple(tuple(point[place] for place in places) for point in points),
            paths={label: path for label, path in self.paths.items() if label not in labels},
            own_seeds=tuple(label for label in self.own_seeds if label not in labels),
            name=f"{self.name}, {said(labels)}" if labels else self.name,
        )

    def among(self, **values: Sequence[Value]) -> Results:
        """The runs where some axes have one of these values."""
        for label, some in values.items():
            if isinstance(some, str) or not isinstance(some, Collection) or not some:
                raise ValueError(f"among: {label}: must be a list of values, is {some!r}")
            for value in some:
                self._check("among", {label: value})
        return self._only([values.get(label) for label in self.axes])

    def where(self, condition: str) -> Results:
        """The runs at the points whose labels meet a condition in SQL: `load > 0.5 AND queue = 'red'`."""
        import polars as pl

        points = self.points.with_row_index("point")
        try:
            chosen = points.filter(pl.sql_expr(condition))["point"].to_list()
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"where: {str(error).splitlines()[0]}: must be a condition over {', '.join(self.axes)}"
            ) from None
        return self._at_points([self._point_values[place] for place in chosen])

    def _only(self, some: Sequence[Collection[Value] | None]) -> Results:
        """The points with some values of each axis, `None` for all of them."""
        axes = {
            label: values if kept is None else tuple(value for value in values if value in kept)
            for (label, values), kept in zip(self.axes.items(), some, strict=True)
        }

        def stays(point: PointValues) -> bool:
            return all(kept is None or value in kept for value, kept in zip(point, some, strict=True))

        points = self.given_points
        return replace(
            self._taking([row for row, point in enumerate(self._labels) if stays(point)]),
            axes=axes,
            given_points=points and tuple(filter(stays, points)),
        )

    def _at_points(self, points: Sequence[PointValues]) -> Results:
        kept = frozenset(points)
        columns = [set(values) for values in zip(*points, strict=True)] or [set()] * len(self.axes)
        return replace(
            self._taking([row for row, point in enumerate(self._labels) if point in kept]),
            axes={
                label: tuple(value for value in values if value in used)
                for (label, values), used in zip(self.axes.items(), columns, strict=True)
            },
            given_points=tuple(points),
        )

    def _taking(self, rows: Sequence[int]) -> Results:
        """Some of the rows. How many runs were wanted of them is not known."""
        return replace(
            self,
            frame=self.frame[rows],
            exact={name: tuple(values[row] for row in rows) for name, values in self.exact.items()},
            wanted=None,
        )

    def first_seeds(self, count: int) -> Results:
        """The runs of the first `count` seeds of each point."""
        if count < 1:
            raise ValueError(f"first_seeds: must be 1 or more, is {count}")
        rows = [row for of_point in self.places.values() for row in list(of_point.values())[:count]]
        return self._taking(sorted(rows))

    def drop_failed(self) -> Results:
        """The runs that are done, and no failures."""
        done = [row for row, status in enumerate(self.frame["status"].to_list()) if status == DONE]
        return replace(self._taking(done), failures=())

    def select(self, *measures: str) -> Results:
        """The table with fewer measures; `web.*` stands for all that begin so."""
        kept: dict[str, Quantity] = {}
        for wanted in measures:
            prefix = wanted.removesuffix("*")
            found = [
                one for one in self._names if one == wanted or (prefix != wanted and one.startswith(prefix))
            ]
            if not found:
                raise ValueError(f"select: no measure is named `{wanted}`: {hint(wanted, self._names)}")
            for name in found:
                beside = (name, name + STANDARD_ERROR, name + CORRELATION)
                kept |= {one: self.measures[one] for one in beside if one in self.measures}
        others = [name for name in self.measures if name not in kept]
        return replace(
            self,
            frame=self.frame.drop(others),
            measures=kept,
            exact={name: values for name, values in self.exact.items() if name not in others},
        )

    def with_measure(
        self,
        name: str,
        how: pl.Expr | Callable[[Mapping[str, Any]], float | None],
        *,
        unit: str = "",
        title: str = "",
        digits: int = 4,
    ) -> Results:
        """The table with a measure more, which a polars expression over the columns gives, or a function of a
        run that is done: of its labels, its seed and its measures as a mapping."""
        import polars as pl

        if name in self.frame.columns:
            raise ValueError(f"with_measure: the table has a column `{name}`: choose another name")
        if isinstance(how, pl.Expr):
            try:
                values = self.frame.select(how.cast(pl.Float64).alias(name))[name]
            except pl.exceptions.PolarsError as error:
                raise ValueError(f"with_measure: {name}: {str(error).splitlines()[0]}") from None
        else:
            known = self._names
            values = pl.Series(
                name,
                [
                    _float(how(self._as_recorded(place, row, known))) if row["status"] == DONE else None
                    for place, row in enumerate(self.frame.iter_rows(named=True))
                ],
                dtype=pl.Float64,
            )
        quantity = Quantity(name=name, title=title, unit=unit, digits=digits)
        return replace(
            self, frame=self.frame.with_columns(values), measures={**self.measures, name: quantity}
        )

    def _as_recorded(self, place: int, row: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
        labels = dict(zip(self.axes, self._labels[place], strict=True))
        return {**labels, "seed": row["seed"], **{name: self.column(name)[place] for name in names}}

    def rename(self, **names: str) -> Results:
        """The table with other names for some axes: `rename(load="offered")`."""
        for label, new in names.items():
            self._check_axis("rename", label)
            if new in self.frame.columns or list(names.values()).count(new) > 1:
                raise ValueError(f"rename: {label}: the table has a column `{new}`: choose another name")
        return replace(
            self,
            frame=self.frame.rename(names),
            axes={names.get(label, label): values for label, values in self.axes.items()},
            paths={names.get(label, label): path for label, path in self.paths.items()},
            own_seeds=tuple(names.get(label, label) for label in self.own_seeds),
        )

    def relabel(self, **how: Mapping[Any, Value] | Callable[[Any], Value]) -> Results:
        """The table with other values of some axes: what a function makes of each value, or those of a
        mapping, which leaves the values that it does not name as they are.

        Raises `ValueError` if two values become one.
        """
        columns, axes = {}, dict(self.axes)
        changed: list[Mapping[Any, Value]] = [{}] * len(self.axes)
        for label, by in how.items():
            self._check_axis("relabel", label)
            values = self.axes[label]
            if isinstance(by, Mapping):
                for value in by:
                    self._check("relabel", {label: value})
            new = {value: by.get(value, value) if isinstance(by, Mapping) else by(value) for value in values}
            axes[label] = tuple(new.values())
            if len(set(axes[label])) < len(values):
                raise ValueError(f"relabel: {label}: two values become one of {_few(axes[label])}")
            place = list(self.axes).index(label)
            changed[place] = new
            columns[label] = label_column([new[point[place]] for point in self._labels], axes[label])
        points = self.given_points
        return replace(
            self,
            frame=self.frame.with_columns(**columns),
            axes=axes,
            given_points=points
            and tuple(
                tuple(new.get(value, value) for value, new in zip(point, changed, strict=True))
                for point in points
            ),
        )

    def concat(self, *others: Results, axis: str | None = None, names: Sequence[Value] = ()) -> Results:
        """This table and others of the same axes, one below the other.

        With `axis` they are told apart on an axis of this name, whose values are `names`, by default what
        the tables are called. Raises `ValueError` if their axes or the units of a measure differ, or if two
        tables have the same run and there is no `axis`.
        """
        import polars as pl

        tables = (self, *others)
        known: dict[str, Quantity] = {}
        for one in tables:
            if tuple(one.axes) != tuple(self.axes):
                raise ValueError(
                    f"concat: {one.name} has the axes {_few(one.axes)}, and {self.name} has {_few(self.axes)}"
                )
            for name, quantity in one.measures.items():
                before = known.setdefault(name, quantity)
                if (before.unit, before.version) != (quantity.unit, quantity.version):
                    raise ValueError(
                        f"concat: {name} is of unit `{quantity.unit}`, version {quantity.version} in "
                        f"{one.name}, and of unit `{before.unit}`, version {before.version} before"
                    )
        if axis is not None:
            values = tuple(names) or tuple(one.name for one in tables)
            if len(set(values)) < len(tables) or len(values) != len(tables):
                raise ValueError(f"concat: names: must be {len(tables)} different ones, are {_few(values)}")
            if axis in self.frame.columns:
                raise ValueError(f"concat: axis: the table has a column `{axis}`: choose another name")
            tables = tuple(one._along(axis, value, values) for one, value in zip(tables, values, strict=True))
        axes = {
            label: tuple(dict.fromkeys(value for one in tables for value in one.axes[label]))
            for label in tables[0].axes
        }
        points = dict.fromkeys(point for one in tables for point in one._point_values)
        runs = [(point, seed) for one in tables for point in one.places for seed in one.places[point]]
        if len(set(runs)) < len(runs):
            raise ValueError("concat: two tables have the same run: tell them apart with axis")
        labels = {
            label: label_column([point[place] for one in tables for point in one._labels], axes[label])
            for place, label in enumerate(axes)
        }
        below = pl.concat([one.frame.drop(*axes) for one in tables], how="diagonal")
        exact = {
            name: tuple(value for one in tables for value in one._or_nothing(name))
            for name in dict.fromkeys(name for one in tables for name in one.exact)
        }
        counts = [one.wanted for one in tables]
        return replace(
            tables[0],
            frame=pl.concat([pl.DataFrame(labels), below], how="horizontal"),
            axes=axes,
            measures=known,
            name=self.name if axis is None else " and ".join(one.name for one in (self, *others)),
            given_points=tuple(points),
            looks=max(one.looks for one in tables),
            precise=max(one.precise for one in tables),
            paths={label: path for label, path in self.paths.items() if label in axes},
            own_seeds=tuple(dict.fromkeys(label for one in tables for label in one.own_seeds)),
            wanted=None if None in counts else sum(count or 0 for count in counts),
            too_wide=sum(one.too_wide for one in tables),
            failures=tuple(failed for one in tables for failed in one.failures),
            interrupted=any(one.interrupted for one in tables),
            exact=exact,
        )

    def _along(self, axis: str, value: Value, values: Sequence[Value]) -> Results:
        """The table with an axis more, along which it has one value of several."""
        import polars as pl

        column = label_column([value] * self.frame.height, values).alias(axis)
        return replace(
            self,
            frame=pl.concat([column.to_frame(), self.frame], how="horizontal"),
            axes={axis: tuple(values), **self.axes},
            given_points=tuple((value, *point) for point in self._point_values),
        )

    def _or_nothing(self, measure: str) -> Sequence[Any]:
        known = measure in self.frame.columns
        return self.column(measure) if known else [None] * self.frame.height

    # What the runs say

    def intervals(self, level: float | None = None, *, quantile: float | None = None) -> pl.DataFrame:
        """Mean and interval of each measure at each point, over replications (Student's t): the labels,
        `measure`, `unit`, `mean`, `low`, `high`, `replications`.

        Of a sweep that stopped by precision they are those of its rule, which allow for the looks. Of
        one run alone they are by batch means, where the measure is a mean over time. With `quantile` this
        quantile over replications stands for the mean, with an interval by order statistics.
        """
        rows = []
        for point in self._point_values:
            places = self.places.get(point)
            if places is None:
                continue
            for one in self.measured:
                interval = self._interval(one.name, list(places.values()), level or self.level(), quantile)
                rows.append(self._estimate(point, one, one.unit, interval))
        return self._estimates(rows)

    def _interval(self, name: str, rows: Sequence[int], level: float, quantile: float | None) -> Interval:
        from aqmlab.stats import batch_means
        from aqmlab.stats.quantiles import quantile_interval

        values = self._numbers_in(name, rows)
        if quantile is not None:
            return quantile_interval(values, quantile, level)
        error = math.nan
        if len(rows) == 1 and name + STANDARD_ERROR in self.measures:
            (error,) = self._numbers_in(name + STANDARD_ERROR, rows)
        if math.isnan(error):
            return stats.mean_interval(values, level)
        (value,), half = values, stats.t_quantile(level, batch_means.BATCHES - 1) * error
        return stats.Interval(value=value, low=value - half, high=value + half, count=1, level=level)

    def _numbers_in(self, measure: str, rows: Iterable[int]) -> list[float]:
        """The numbers of some rows, NaN where there is none."""
        column = self._floats(measure)
        return [column[row] for row in rows]

    def _floats(self, measure: str) -> Sequence[float]:
        key = f"{measure} as numbers"
        if key not in self._columns:
            self._columns[key] = self.frame[measure].fill_null(math.nan).to_list()
        return self._columns[key]

    @property
    def doubts(self) -> list[str]:
        """What speaks against intervals by batch means: a sentence for each measure whose batches depend on
        each other somewhere."""
        import polars as pl

        from aqmlab.stats.batch_means import BATCHES, limit

        found = []
        for one in self.measured:
            name = one.name + CORRELATION
            if name not in self.measures:
                continue
            much = self.frame.filter(pl.col(name) > limit(BATCHES)).height
            none = self._done.filter(pl.col(name).is_null()).height
            if much:
                found.append(
                    f"{one.name}: at {much} of {self.frame.height} points batches of the run depend on each "
                    "other, and the interval is too narrow: make the run longer, or replicate"
                )
            if none:
                found.append(
                    f"{one.name}: {none} of {self.frame.height} runs have too few values for an interval by "
                    "batch means: replicate, make runs longer, or record more (record.queue_every)"
                )
        return found

    def distribution(self, measure: str, level: float = stats.LEVEL) -> pl.DataFrame:
        """How a measure is distributed over the replications of each point: the labels, `x`, and the `share`
        of runs up to it, with a band (`low`, `high`) that holds the whole function (`quantiles.dkw_band`)."""
        import polars as pl

        from aqmlab.stats.quantiles import dkw_band

        self.measure(measure)
        parts = []
        for point in self._point_values:
            if point in self.places:
                band = dkw_band(self._numbers_in(measure, self.places[point].values()), level)
                labels = zip(self.axes, point, strict=True)
                parts.append(band.select(*(pl.lit(value).alias(key) for key, value in labels), pl.all()))
        return pl.concat(parts)

    def against(
        self,
        baseline: Mapping[str, Value],
        how: Against = "difference",
        *,
        level: float | None = None,
        wanted: Sequence[str] = (),
    ) -> pl.DataFrame:
        """How each point differs from the one with the labels of `baseline` and else the same, seed by seed:
        as `intervals`, of differences in the measure's unit or of ratios.

        Two points that share no seeds have NaN, and 0 replications. Raises `ValueError` if there is no such
        label, or if the points have seeds of their own.
        """
        if how not in get_args(Against):
            raise ValueError(f"how: must be one of {', '.join(get_args(Against))}, is {how!r}")
        self._check("baseline", baseline)
        if not baseline:
            raise ValueError("baseline: name one, such as queue=drop-tail")
        for label in baseline:
            if label in self.own_seeds:
                raise ValueError(f"baseline: points along {label} have seeds of their own, and are no pairs")
        estimate = stats.paired_difference if how == "difference" else stats.paired_ratio
        chosen = [self.measure(name) for name in wanted] if wanted else self.measured
        rows = []
        for point in self._point_values:
            other = tuple(baseline.get(label, value) for label, value in zip(self.axes, point, strict=True))
            if other == point or point not in self.places or other not in self.places:
                continue
            ours, theirs = pairs.by_seed(self.places[point], self.places[other])
            for one in chosen:
                both = self._numbers_in(one.name, ours), self._numbers_in(one.name, theirs)
                interval = estimate(*both, level or self.level())
                rows.append(self._estimate(point, one, one.unit if how == "difference" else "", interval))
        return self._estimates(rows)

    def _estimate(
        self, point: PointValues, measure: Quantity, unit: str, interval: Interval
    ) -> dict[str, Any]:
        labels = zip(self.axes, point, strict=True)
        return {
            **{label: value for label, one in labels for value in _stored([one], self.axes[label])},
            "measure": measure.name,
            "unit": unit,
            "mean": interval.value,
            "low": interval.low,
            "high": interval.high,
            "replications": interval.count,
        }

    def _estimates(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        import polars as pl

        labels = {label: self.frame.schema[label] for label in self.axes}
        numbers = {"mean": pl.Float64, "low": pl.Float64, "high": pl.Float64, "replications": pl.Int64}
        return pl.DataFrame(rows, schema={**labels, "measure": pl.String, "unit": pl.String, **numbers})


ExperimentResults = Mapping[str, Results]
"""The runs of several experiments, by the name of the experiment."""


def label_column(values: Sequence[Value], known: Sequence[Value]) -> pl.Series:
    """A column of labels, some of all values of an axis: numbers, yes or no, or else text."""
    import polars as pl

    kinds = set(map(type, known))
    dtype: type[pl.DataType] = pl.String
    if kinds == {bool}:
        dtype = pl.Boolean
    elif kinds and kinds <= {int, float}:
        dtype = pl.Float64 if float in kinds else pl.Int64
    return pl.Series(_stored(values, known), dtype=dtype, strict=False)


def _stored(values: Sequence[Value], known: Sequence[Value]) -> Sequence[Value]:
    """Labels as a column has them, in which all values are of one type: text where an axis has several."""
    kinds = set(map(type, known))
    return values if kinds == {bool} or kinds <= {int, float} else list(map(str, values))


def _float(value: Any) -> float | None:
    """A number as a column of a measure has it; null for what is no number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _few(names: Iterable[Any]) -> str:
    """Names in a row; of many the first ones."""
    listed = list(map(str, names))
    return ", ".join(listed) if len(listed) <= 8 else f"{', '.join(listed[:7])} and {len(listed) - 7} more"
