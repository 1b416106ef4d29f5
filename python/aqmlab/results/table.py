"""The class `Results`: a table in which each row contains the labels, the seed and the measures of a run."""

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
from aqmlab.results.labels import Labels, Value, format_labels
from aqmlab.results.variable import Measured, number

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.results.rule import AnyRule
    from aqmlab.stats import Evidence, Interval

Against = Literal["difference", "ratio"]

PointValues = tuple[Value, ...]
"""The values of a point's labels, in the order of the axes."""

OF_RUNS = ("seed", "status", "error", "scenario")
"""The columns of the table that are neither axes nor measures."""

DONE = "done"

SHOWN = 30
"""Maximum number of points that a notebook shows."""


class Failed(Protocol):
    """A run that failed."""

    @property
    def name(self) -> str:
        """Description of the run."""

    @property
    def seed(self) -> int:
        """The seed of the run."""

    @property
    def problem(self) -> str:
        """The error message."""

    @property
    def scenario(self) -> str:
        """The digest of the scenario."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run, with its labels, seed, and measures by name."""

    labels: Labels
    seed: int
    values: Mapping[str, Any]

    def __getitem__(self, measure: Quantity) -> Any:
        """Returns the value of a measure, or `None` if the run has no value."""
        return self.values[measure.name]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results:
    """The finished runs of a sweep, of a study's experiment, or of another set of runs, as a table.

    `frame` has a row for each run. The columns are the axes (named by their labels), `seed`, `status`
    (`done`, `failed`, `crashed`), `error`, `scenario` (the digest), and a column of `Float64` for each
    measure, which is null where the run has no value. `exact` contains the original values, one for each row,
    of measures whose values are not all floating-point numbers (whole numbers, lists, tables).

    Methods such as `at`, `among` and `where` return a new table. `results["web.mean-time"]` is a variable.
    The functions of `aqmlab.results.rule` create ratios, differences and rules from variables. `judge` judges
    a rule.
    """

    frame: pl.DataFrame = field(kw_only=False)
    axes: Mapping[str, tuple[Value, ...]]
    """The values of each axis in order, by the axis's label."""
    measures: Mapping[str, Quantity] = field(default_factory=dict)
    """Title, unit, digits and version of each measure, by name."""
    name: str = "runs"
    given_points: tuple[PointValues, ...] | None = None
    """The points in order, if the points are not the full product of the axes' values."""
    looks: int = 1
    """Maximum number of looks at the data by which precision determined the number of runs."""
    precise: int = 1
    """Number of measures that were examined jointly at each look."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """For axes that are paths of the scenario, the dotted path by label."""
    own_seeds: tuple[str, ...] = ()
    """Axes along which points have different seeds and cannot be paired."""
    wanted: int | None = None
    """Number of runs of the complete table, or `None` if unknown."""
    too_wide: int = 0
    """Number of points whose intervals are wider than precision requires although the points have the maximum
    number of runs."""
    failures: Sequence[Failed] = ()
    interrupted: bool = False
    """Whether Ctrl-C ended the campaign before its last run."""
    exact: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [name for name in (*self.axes, "seed", "status") if name not in self.frame.columns]
        if missing:
            columns = ", ".join(self.frame.columns)
            raise ValueError(f"frame: has no column `{missing[0]}`; available: {columns}")

    @classmethod
    def of_rows(
        cls, rows: Iterable[Row], axes: Mapping[str, Sequence[Value]], *, name: str = "runs"
    ) -> Results:
        """Creates a table from successful runs that are given as objects."""
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

    # Contents

    def __repr__(self) -> str:
        """Returns a short summary of the table. Use `intervals` and `against` for estimates."""
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
        """Returns the measures with intervals."""
        return tuple(
            one for name, one in self.measures.items() if not name.endswith((STANDARD_ERROR, CORRELATION))
        )

    @property
    def _names(self) -> list[str]:
        return [one.name for one in self.measured]

    def measure(self, name: str) -> Quantity:
        """Returns the variable of the measure with this name. For an unknown name, raises `ValueError`, which
        suggests similar names."""
        known = {one.name: one for one in self.measured}
        if name not in known:
            raise ValueError(f"no measure is named `{name}`: {hint(name, known)}")
        return known[name]

    @property
    def points(self) -> pl.DataFrame:
        """A table of the points in order, with a row for each point and a column for each axis."""
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
        """The points, or `None` if the points are the full product of the axes' values."""
        return None if self.given_points is None else frozenset(self.given_points)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of the runs, in ascending order."""
        return tuple(sorted(set(self.frame["seed"].to_list())))

    @property
    def _done(self) -> pl.DataFrame:
        import polars as pl

        return self.frame.filter(pl.col("status") == DONE)

    def level(self, level: float = stats.LEVEL, count: int = 1) -> float:
        """Returns the confidence level that each of `count` simultaneous intervals needs for the joint level
        `level`. If `precision` determined the number of runs, the confidence level is higher, because the
        data were examined repeatedly."""
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
    def rows_by_point(self) -> Mapping[PointValues, Mapping[int, int]]:
        """The indices of the rows in `frame`, by point and seed. The seeds of each point are in ascending
        order."""
        found: dict[PointValues, dict[int, int]] = {}
        for row, (point, seed) in enumerate(zip(self._labels, self.frame["seed"].to_list(), strict=True)):
            found.setdefault(point, {})[seed] = row
        return {point: dict(sorted(rows.items())) for point, rows in found.items()}

    @cached_property
    def _columns(self) -> dict[str, Sequence[Any]]:
        """Cache of columns that were converted to Python lists."""
        return {}

    def column(self, measure: str) -> Sequence[Any]:
        """Returns the original values of a measure, one for each row. Raises `KeyError` for an unknown
        measure."""
        if measure not in self._columns:
            if measure not in self.frame.columns:
                raise KeyError(measure)
            self._columns[measure] = (
                self.exact[measure] if measure in self.exact else self.frame[measure].to_list()
            )
        return self._columns[measure]

    def seeds_at(self, point: PointValues) -> Collection[int]:
        """Returns the seeds of the runs at a point, in ascending order."""
        return self.rows_by_point.get(point, {})

    def at_point(self, measure: str, point: PointValues, seeds: Sequence[int]) -> list[Any]:
        """Returns the values of a measure at a point for these seeds, with `None` for missing values."""
        rows = self.rows_by_point.get(point)
        if rows is None:
            return [None] * len(seeds)
        column = self.column(measure)
        return [column[rows[seed]] if seed in rows else None for seed in seeds]

    def numbers(self, measure: str, point: PointValues, seeds: Sequence[int]) -> list[float]:
        """Returns the values of a measure at a point for these seeds as numbers, with NaN for missing
        values."""
        return list(map(number, self.at_point(measure, point, seeds)))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All runs as objects in the order of the table."""
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
        """All runs as objects by point and seed."""
        return {
            point: {seed: self.rows[row] for seed, row in rows.items()}
            for point, rows in self.rows_by_point.items()
        }

    def rows_at(self, **labels: Value) -> tuple[Row, ...]:
        """Returns the runs with these labels as objects."""
        return tuple(
            row for row in self.rows if all(row.labels[key] == value for key, value in labels.items())
        )

    # Interface of experiments, which rules use

    @property
    def title(self) -> str:
        """The name of the table in texts about rules."""
        return self.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the axes."""
        return tuple(self.axes)

    def values(self, label: str) -> tuple[Value, ...]:
        """Returns the values of an axis. Raises `ValueError` for an unknown label."""
        self._check_axis(self.name, label)
        return self.axes[label]

    def check(self, labels: Mapping[str, Any]) -> None:
        """Raises `ValueError`, which suggests similar names, for an unknown axis or value."""
        self._check(self.name, labels)

    def _check(self, name: str, labels: Mapping[str, Any]) -> None:
        for label, value in labels.items():
            self._check_axis(name, label)
            if value not in self.axes[label]:
                available = ", ".join(map(str, self.axes[label]))
                raise ValueError(f"{name}: {label} has no value {value!r}; available: {available}")

    def _check_axis(self, name: str, label: str) -> None:
        if label not in self.axes:
            raise ValueError(f"{name}: no axis is named `{label}`: {hint(label, self.axes)}")

    def __getitem__(self, measure: str | Quantity) -> Measured:
        """Returns a measure at all points as a variable. Raises `ValueError` for an unknown measure."""
        name = measure if isinstance(measure, str) else measure.name
        if name not in self.measures:
            raise ValueError(f"{self.name}: no measure is named `{name}`: {hint(name, self._names)}")
        return Measured(experiment=self, measure=self.measures[name])

    def judge(self, rule: AnyRule) -> Evidence:
        """Returns the evidence for a rule about variables of this table. The rule may also contain variables
        of other tables, which must have different names. Raises `ValueError` if the rule compares two tables
        with the same name.
        """
        tables: dict[str, Results] = {}
        for variable in rule.variables:
            for one in variable.experiments:
                found = one if isinstance(one, Results) else self
                if tables.setdefault(one.name, found) is not found:
                    raise ValueError(f"two tables have the name {one.name}: rename one with `named`")
        return rule.judge(tables, stats.look_level(self.looks))

    # Methods that return a new table

    def named(self, name: str) -> Results:
        """Returns the table with another name."""
        return replace(self, name=name)

    def at(self, **labels: Value) -> Results:
        """Returns the runs with these values of some axes. The result does not have these axes."""
        self._check("at", labels)
        kept = self._only([[labels[label]] if label in labels else None for label in self.axes])
        indices = [index for index, label in enumerate(self.axes) if label not in labels]
        points = kept.given_points
        return replace(
            kept,
            frame=kept.frame.drop(*labels),
            axes={label: values for label, values in kept.axes.items() if label not in labels},
            given_points=points and tuple(tuple(point[index] for index in indices) for point in points),
            paths={label: path for label, path in self.paths.items() if label not in labels},
            own_seeds=tuple(label for label in self.own_seeds if label not in labels),
            name=f"{self.name}, {format_labels(labels)}" if labels else self.name,
        )

    def among(self, **values: Sequence[Value]) -> Results:
        """Returns the runs in which each of these axes has one of the given values."""
        for label, some in values.items():
            if isinstance(some, str) or not isinstance(some, Collection) or not some:
                raise ValueError(f"among: {label}: must be a list of values (got {some!r})")
            for value in some:
                self._check("among", {label: value})
        return self._only([values.get(label) for label in self.axes])

    def where(self, condition: str) -> Results:
        """Returns the runs at the points whose labels satisfy an SQL condition, such as `load > 0.5 AND queue
        = 'red'`. Raises `ValueError` for an invalid condition."""
        import polars as pl

        points = self.points.with_row_index("point")
        try:
            chosen = points.filter(pl.sql_expr(condition))["point"].to_list()
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"where: {str(error).splitlines()[0]}: must be a condition on {', '.join(self.axes)}"
            ) from None
        return self._at_points([self._point_values[index] for index in chosen])

    def _only(self, some: Sequence[Collection[Value] | None]) -> Results:
        """Returns the runs at the points with these values of each axis. `None` selects all values of an
        axis."""
        axes = {
            label: values if kept is None else tuple(value for value in values if value in kept)
            for (label, values), kept in zip(self.axes.items(), some, strict=True)
        }

        def stays(point: PointValues) -> bool:
            return all(kept is None or value in kept for value, kept in zip(point, some, strict=True))

        points = self.given_points
        return replace(
            self._with_rows([row for row, point in enumerate(self._labels) if stays(point)]),
            axes=axes,
            given_points=points and tuple(filter(stays, points)),
        )

    def _at_points(self, points: Sequence[PointValues]) -> Results:
        kept = frozenset(points)
        columns = [set(values) for values in zip(*points, strict=True)] or [set()] * len(self.axes)
        return replace(
            self._with_rows([row for row, point in enumerate(self._labels) if point in kept]),
            axes={
                label: tuple(value for value in values if value in used)
                for (label, values), used in zip(self.axes.items(), columns, strict=True)
            },
            given_points=tuple(points),
        )

    def _with_rows(self, rows: Sequence[int]) -> Results:
        """Returns a table with some of the rows. The number of runs of the complete table becomes unknown."""
        return replace(
            self,
            frame=self.frame[rows],
            exact={name: tuple(values[row] for row in rows) for name, values in self.exact.items()},
            wanted=None,
        )

    def first_seeds(self, count: int) -> Results:
        """Returns the runs with the first `count` seeds of each point."""
        if count < 1:
            raise ValueError(f"first_seeds: must be at least 1 (got {count})")
        rows = [row for of_point in self.rows_by_point.values() for row in list(of_point.values())[:count]]
        return self._with_rows(sorted(rows))

    def drop_failed(self) -> Results:
        """Returns the successful runs, without the failed runs."""
        done = [row for row, status in enumerate(self.frame["status"].to_list()) if status == DONE]
        return replace(self._with_rows(done), failures=())

    def select(self, *measures: str) -> Results:
        """Returns the table with only these measures. `web.*` selects all measures whose names begin with
        `web.`."""
        kept: dict[str, Quantity] = {}
        for pattern in measures:
            prefix = pattern.removesuffix("*")
            found = [
                one for one in self._names if one == pattern or (prefix != pattern and one.startswith(prefix))
            ]
            if not found:
                raise ValueError(f"select: no measure is named `{pattern}`: {hint(pattern, self._names)}")
            for name in found:
                related = (name, name + STANDARD_ERROR, name + CORRELATION)
                kept |= {one: self.measures[one] for one in related if one in self.measures}
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
        """Returns the table with an additional measure. `how` is either a Polars expression of the columns,
        or a function whose argument is a mapping with the labels, the seed and the measures of a successful
        run."""
        import polars as pl

        if name in self.frame.columns:
            raise ValueError(f"with_measure: the table already has a column `{name}`: choose another name")
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
                    _float(how(self._as_recorded(index, row, known))) if row["status"] == DONE else None
                    for index, row in enumerate(self.frame.iter_rows(named=True))
                ],
                dtype=pl.Float64,
            )
        quantity = Quantity(name=name, title=title, unit=unit, digits=digits)
        return replace(
            self, frame=self.frame.with_columns(values), measures={**self.measures, name: quantity}
        )

    def _as_recorded(self, index: int, row: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
        labels = dict(zip(self.axes, self._labels[index], strict=True))
        return {**labels, "seed": row["seed"], **{name: self.column(name)[index] for name in names}}

    def rename(self, **names: str) -> Results:
        """Returns the table with other names for some axes, for example `rename(load="offered")`."""
        for label, new in names.items():
            self._check_axis("rename", label)
            if new in self.frame.columns or list(names.values()).count(new) > 1:
                raise ValueError(
                    f"rename: {label}: the table already has a column `{new}`: choose another name"
                )
        return replace(
            self,
            frame=self.frame.rename(names),
            axes={names.get(label, label): values for label, values in self.axes.items()},
            paths={names.get(label, label): path for label, path in self.paths.items()},
            own_seeds=tuple(names.get(label, label) for label in self.own_seeds),
        )

    def relabel(self, **how: Mapping[Any, Value] | Callable[[Any], Value]) -> Results:
        """Returns the table with other values for some axes. The new values are either the results of a
        function of each old value, or the values of a mapping. Values that the mapping does not contain
        remain unchanged. Raises `ValueError` if two values become equal.
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
                raise ValueError(
                    f"relabel: {label}: two values would have the same new name (got {_few(axes[label])})"
                )
            position = list(self.axes).index(label)
            changed[position] = new
            columns[label] = label_column([new[point[position]] for point in self._labels], axes[label])
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
        """Returns the rows of this table and of other tables with the same axes, as one table.

        With `axis`, the result has an additional axis with this name. The values of this axis identify the
        tables: they are `names` or, by default, the names of the tables. Raises `ValueError` if the axes or
        the units of a measure differ, or if two tables contain the same run and `axis` is not given.
        """
        import polars as pl

        tables = (self, *others)
        known: dict[str, Quantity] = {}
        for one in tables:
            if tuple(one.axes) != tuple(self.axes):
                raise ValueError(
                    f"concat: axes must be equal (got {_few(one.axes)} in {one.name}, and {_few(self.axes)} "
                    f"in {self.name})"
                )
            for name, quantity in one.measures.items():
                before = known.setdefault(name, quantity)
                if (before.unit, before.version) != (quantity.unit, quantity.version):
                    raise ValueError(
                        f"concat: {name} has the unit `{quantity.unit}` and the version {quantity.version} "
                        f"in {one.name}, but the unit `{before.unit}` and the version {before.version} in "
                        "an earlier table"
                    )
        if axis is not None:
            values = tuple(names) or tuple(one.name for one in tables)
            if len(set(values)) < len(tables) or len(values) != len(tables):
                raise ValueError(f"concat: names: must be {len(tables)} different names (got {_few(values)})")
            if axis in self.frame.columns:
                raise ValueError(
                    f"concat: axis: the table already has a column `{axis}`: choose another name"
                )
            tables = tuple(one._along(axis, value, values) for one, value in zip(tables, values, strict=True))
        axes = {
            label: tuple(dict.fromkeys(value for one in tables for value in one.axes[label]))
            for label in tables[0].axes
        }
        points = dict.fromkeys(point for one in tables for point in one._point_values)
        runs = [
            (point, seed)
            for one in tables
            for point in one.rows_by_point
            for seed in one.rows_by_point[point]
        ]
        if len(set(runs)) < len(runs):
            raise ValueError("concat: two tables contain the same run: use axis to distinguish the tables")
        labels = {
            label: label_column([point[index] for one in tables for point in one._labels], axes[label])
            for index, label in enumerate(axes)
        }
        below = pl.concat([one.frame.drop(*axes) for one in tables], how="diagonal")
        exact = {
            name: tuple(value for one in tables for value in one._column_or_none(name))
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
        """Returns the table with an additional axis, on which all runs have the same value."""
        import polars as pl

        column = label_column([value] * self.frame.height, values).alias(axis)
        return replace(
            self,
            frame=pl.concat([column.to_frame(), self.frame], how="horizontal"),
            axes={axis: tuple(values), **self.axes},
            given_points=tuple((value, *point) for point in self._point_values),
        )

    def _column_or_none(self, measure: str) -> Sequence[Any]:
        known = measure in self.frame.columns
        return self.column(measure) if known else [None] * self.frame.height

    # Estimates

    def intervals(self, level: float | None = None, *, quantile: float | None = None) -> pl.DataFrame:
        """Returns the mean and its interval (Student's t) over replications, for each measure at each point.
        The columns are the labels, `measure`, `unit`, `mean`, `low`, `high` and `replications`.

        For a sweep with `precision`, the confidence level of the intervals is corrected for the repeated
        looks at the data. If a point has a single run, the intervals of means over time are computed from
        batch means. With `quantile`, the column `mean` contains this quantile over replications, with an
        interval from order statistics.
        """
        rows = []
        for point in self._point_values:
            by_seed = self.rows_by_point.get(point)
            if by_seed is None:
                continue
            for one in self.measured:
                interval = self._interval(one.name, list(by_seed.values()), level or self.level(), quantile)
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
        """Returns the numbers in these rows, with NaN for missing values."""
        column = self._floats(measure)
        return [column[row] for row in rows]

    def _floats(self, measure: str) -> Sequence[float]:
        key = f"{measure} as numbers"
        if key not in self._columns:
            self._columns[key] = self.frame[measure].fill_null(math.nan).to_list()
        return self._columns[key]

    @property
    def doubts(self) -> list[str]:
        """Returns warnings about intervals from batch means: a sentence for each measure whose batches are
        correlated or too few."""
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
                    f"{one.name}: the batches are correlated at {much} of {self.frame.height} points, so "
                    "that the intervals are too narrow: increase the duration or the number of replications"
                )
            if none:
                found.append(
                    f"{one.name}: {none} of {self.frame.height} runs have too few values for an interval "
                    "from batch means: replicate, increase the duration, or record more samples "
                    "(record.queue_every)"
                )
        return found

    def distribution(self, measure: str, level: float = stats.LEVEL) -> pl.DataFrame:
        """Returns the empirical distribution function of a measure over the replications of each point. The
        columns are the labels, `x`, the `share` of runs with values up to `x`, and a simultaneous confidence
        band (`low` and `high`, by `quantiles.dkw_band`)."""
        import polars as pl

        from aqmlab.stats.quantiles import dkw_band

        self.measure(measure)
        parts = []
        for point in self._point_values:
            if point in self.rows_by_point:
                band = dkw_band(self._numbers_in(measure, self.rows_by_point[point].values()), level)
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
        """Returns paired differences (in the measure's unit) or ratios between each point and its baseline
        point. The baseline point has the labels in `baseline`, and otherwise the same labels as the point.
        The columns are those of `intervals`. If a point and its baseline point have no common seeds, the
        values are NaN, and the number of replications is 0. Raises `ValueError` for an unknown label, or if
        points along a label of the baseline have different seeds.
        """
        if how not in get_args(Against):
            raise ValueError(f"how: must be one of {', '.join(get_args(Against))} (got {how!r})")
        self._check("baseline", baseline)
        if not baseline:
            raise ValueError("baseline: must contain a label, such as queue=drop-tail")
        for label in baseline:
            if label in self.own_seeds:
                raise ValueError(
                    f"baseline: points along {label} cannot be paired, because they have different seeds"
                )
        estimate = stats.paired_difference if how == "difference" else stats.paired_ratio
        chosen = [self.measure(name) for name in wanted] if wanted else self.measured
        rows = []
        for point in self._point_values:
            other = tuple(baseline.get(label, value) for label, value in zip(self.axes, point, strict=True))
            if other == point or point not in self.rows_by_point or other not in self.rows_by_point:
                continue
            ours, theirs = pairs.by_seed(self.rows_by_point[point], self.rows_by_point[other])
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
"""Tables of runs, by the name of the tables' experiment."""


def label_column(values: Sequence[Value], known: Sequence[Value]) -> pl.Series:
    """Returns a column of labels. `known` contains all values of the axis. These values determine the type of
    the column: numbers, Booleans, or otherwise strings."""
    import polars as pl

    kinds = set(map(type, known))
    dtype: type[pl.DataType] = pl.String
    if kinds == {bool}:
        dtype = pl.Boolean
    elif kinds and kinds <= {int, float}:
        dtype = pl.Float64 if float in kinds else pl.Int64
    return pl.Series(_stored(values, known), dtype=dtype, strict=False)


def _stored(values: Sequence[Value], known: Sequence[Value]) -> Sequence[Value]:
    """Returns the labels as values of one type. Numbers and Booleans are unchanged; all other labels are
    converted to strings."""
    kinds = set(map(type, known))
    return values if kinds == {bool} or kinds <= {int, float} else list(map(str, values))


def _float(value: Any) -> float | None:
    """Returns a number for a measure's column, or `None` for a value that is not a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _few(names: Iterable[Any]) -> str:
    """Returns a comma-separated list of names. A list of many names is shortened."""
    listed = list(map(str, names))
    return ", ".join(listed) if len(listed) <= 8 else f"{', '.join(listed[:7])} and {len(listed) - 7} more"
