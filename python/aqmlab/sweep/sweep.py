"""Sweeps, which vary a scenario along axes and run each point with several seeds.

An axis is a dotted path of the scenario with a set of values: numbers, strings or named tables. The points
are all combinations of the axes' values, except that zipped axes vary together and a filter can exclude
points. The digest of the complete scenario identifies a point. Therefore, old runs remain valid if an axis is
added later and the values of this axis include the previous value.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab._support import arguments
from aqmlab._support.mistakes import Mistakes
from aqmlab._support.names import hint, value_hint
from aqmlab.measures import Measure
from aqmlab.results.labels import Value
from aqmlab.scenario.scenario import Scenario, changed, check_plain, is_given
from aqmlab.store.record import OWN_SEEDS_APART
from aqmlab.store.selection import SelectedRuns, Selection
from aqmlab.sweep.point import Point
from aqmlab.sweep.stopping import Stopping, stopping_states

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.store import Store

Change = Mapping[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]
"""A change of a scenario's table, which is either a function or a table of values by dotted path (`None`
removes a key)."""

NAMED: Mapping[str, str] = {"queue": "a queue", "tcp": "a TCP"}
"""Axes that are not paths: `queue` sets the queue of every managed link, and `tcp` overrides the scenario's
`[tcp]`."""

MSER_5 = "mser-5"

ALL_TABLES = "tables"
"""Name that stands for all tables of a run."""

OF_RUNS = frozenset({"point", "seed", "status", "error", "scenario"})
"""Columns of a table of runs, in addition to labels and measures."""

RESERVED = OF_RUNS | {"measure", "unit", "mean", "low", "high", "replications", "x", "share"}
"""Columns of results. If the last word of an axis's path is the name of one of these columns, the label of
the axis is the whole path."""

MOST_SEED = 2**62
"""Upper limit of the first seed, which ensures that all replications have valid seeds."""


class Changes(dict[Value, Change]):
    """The values of an axis that is not a path. Each value is a change of the scenario with a name."""


def applied(table: dict[str, Any], change: Change) -> dict[str, Any]:
    """Returns the table after a change. If the change is a function, the function receives a copy of the
    table, which the function may modify."""
    if isinstance(change, Mapping):
        return changed(table, change)
    return change(changed(table, {}))


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A path with its values. Each value is identified by a word or a number."""

    path: str
    values: Mapping[Value, Any]
    label: str
    """Name of the axis in results, which is the last word of the path, or the whole path if the last word is
    ambiguous."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A scenario with its axes, its measures, and the number of replications of each point.

    `axes` maps dotted paths to lists of values or to tables of values by name, or maps words to `Changes`.
    Changes are applied in the order of the axes. Instead of a path, an axis may be `queue`, whose values are
    kinds or names of `[queues.NAME]` for every managed link, or `tcp`, whose values are names that `aqmlab
    list tcp` prints. A path that ends in `queue` also accepts names of queues. `zipped` lists groups of axes
    that vary together, value by value. `where` is an SQL condition on the labels that selects points.

    All points have the same seeds and therefore the same random numbers, so that differences are paired.
    Points that differ in an axis of `own_seeds` have different seeds. `measures` contains `Measure`s or names
    of measures: `of_scenario` of `aqmlab.measures` returns all names, and `web.*` selects all measures of a
    workload. `precision`, a `Stopping`, replaces `replications`: each point is replicated until its intervals
    are narrow enough. `warm_up = "mser-5"` determines the warm-up of each point from a pilot run.

    A value that has no effect at a point is omitted at this point, for example `mark_ecnth` of PIE if `ecn`
    is false. A value that has no effect at any point is an error.

    Raises `ValueError`, which names the field, for invalid fields. If the core rejects the scenario of a
    point, `scenario_of` raises an error, and `run_sweep` raises an error before any run.
    """

    scenario: Scenario = field(kw_only=False)
    axes: Mapping[str, Sequence[Value] | Mapping[Any, Any]]
    measures: Sequence[str | Measure] = ("*",)
    name: str = "sweep"
    replications: int = 10
    first_seed: int | None = None
    zipped: Sequence[Sequence[str]] = ()
    where: str | None = None
    own_seeds: Sequence[str] = ()
    precision: Stopping | None = None
    warm_up: str | None = None
    tables: Sequence[str] = ()
    """Tables of each run that are stored as Parquet, such as `("transfers", "queue")`. `"tables"` selects all
    tables."""
    own_measures: Mapping[str, Measure] = field(default_factory=dict)
    """Additional measures that `measures` may name."""
    last: Change | None = None
    """A change of the scenario of every point, applied after the changes of the axes."""

    def __post_init__(self) -> None:
        self._check_kinds()
        mistakes = Mistakes()
        for check in (self._check_name, self._check_warm_up, self._check_axes, self._check_seed):
            mistakes.attempt(check)
        axes = mistakes.attempt(lambda: self._axes, ())
        wanted = mistakes.attempt(lambda: self.wanted, ())
        if axes:
            mistakes.attempt(self._check_points)
        if wanted:
            mistakes.attempt(self._check_precision)
        if axes and wanted:
            mistakes.attempt(self._check_names)
        mistakes.finish()

    def _check_name(self) -> None:
        if not self.name or not all(letter.isalnum() or letter in "-_." for letter in self.name):
            raise ValueError(f"name: must consist of letters, digits, `-`, `_` and `.` (got {self.name!r})")

    def _check_warm_up(self) -> None:
        if self.warm_up not in (None, MSER_5):
            raise ValueError(
                f'warm_up: must be "{MSER_5}" (got {self.warm_up!r}): set a fixed time in the scenario'
            )
        if self.warm_up and self.scenario.level != "packet":
            raise ValueError(
                f'warm_up: "{MSER_5}" needs a packet-level scenario (got the level {self.scenario.level})'
            )

    def _check_axes(self) -> None:
        if not self.axes:
            raise ValueError('axes: must contain an axis, such as "bottleneck.rate" = ["5Mbps", "10Mbps"]')
        for path in NAMED.keys() & self.axes:
            if not isinstance(self.axes[path], Changes) and self.scenario.level != "packet":
                raise ValueError(
                    f"axes.{path}: {NAMED[path]} can be selected by name only in a packet-level scenario "
                    f"(got the level {self.scenario.level}): write the path of a value"
                )

    def _check_seed(self) -> None:
        if not 0 <= self._first_seed < MOST_SEED:
            raise ValueError(f"first_seed: must be from 0 to {MOST_SEED - 1} (got {self._first_seed})")

    def _check_points(self) -> None:
        if self.labels.height == 0:
            raise ValueError(f"where: excludes all points (got {self.where!r})")

    def _check_kinds(self) -> None:
        """Checks the types of arguments that Python code passes, for example that a list of names is not a
        single name."""
        arguments.instance("scenario", self.scenario, Scenario, "aqmlab.Scenario.load reads a file")
        arguments.table("axes", self.axes, '{"queue": ["red", "drop-tail"]}')
        if self.precision is not None:
            remedy = "with a rule of aqmlab.stats.precision.Precision"
            arguments.instance("precision", self.precision, Stopping, remedy)
        if isinstance(self.measures, str | Mapping) or not isinstance(self.measures, Sequence):
            raise ValueError(f"measures: must be a list of measures (got {self.measures!r})")
        arguments.names("own_seeds", self.own_seeds)
        arguments.names("tables", self.tables)
        arguments.count("replications", self.replications, 1)
        arguments.count_or_none("first_seed", self.first_seed, 0)

    @cached_property
    def _axes(self) -> tuple[Axis, ...]:
        paths = list(self.axes)
        named = {path: _named(path, values) for path, values in self.axes.items()}
        last = [path.rsplit(".", 1)[-1] for path in paths]
        axes = tuple(
            Axis(
                path=path,
                values=named[path],
                label=short if last.count(short) == 1 and short not in RESERVED else path,
            )
            for path, short in zip(paths, last, strict=True)
        )
        zipped = [path for group in self.zipped for path in group]
        for field_, used in (("zipped", zipped), ("own_seeds", self.own_seeds)):
            for path in used:
                if path not in self.axes:
                    raise ValueError(f"{field_}: no axis is named `{path}`; available: {', '.join(paths)}")
        if len(set(zipped)) != len(zipped):
            raise ValueError("zipped: an axis occurs twice: write each axis once")
        for group in self.zipped:
            lengths = {path: len(self.axes[path]) for path in group}
            if len(set(lengths.values())) > 1:
                counts = ", ".join(f"{path} has {count}" for path, count in lengths.items())
                raise ValueError(f"zipped: zipped axes must have equal numbers of values ({counts})")
        return axes

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        """All axes, in order."""
        return self._axes

    @cached_property
    def wanted(self) -> tuple[Measure, ...]:
        """The measures of the sweep. Raises `ValueError` if the scenario does not have one of the
        measures."""
        from aqmlab import measures

        own = dict(self.own_measures) | {one.name: one for one in self.measures if isinstance(one, Measure)}
        names = [one.name if isinstance(one, Measure) else one for one in self.measures]
        try:
            found = measures.named(self.scenario, names, own)
        except ValueError:
            mistakes = Mistakes()
            for name in names:
                mistakes.attempt(functools.partial(measures.named, self.scenario, [name], own))
            mistakes.finish()
            raise
        whole = measures.tables(self._known_tables())
        lone = self.replications == 1 and self.precision is None
        return (*found, *(more for one in found for more in measures.batched(one) if lone), *whole)

    def _check_precision(self) -> None:
        if self.precision is None:
            return
        names = [one.name for one in self.wanted]
        for name in self.precision.measures:
            if name not in names:
                raise ValueError(f"precision.measures: `{name}` is not measured: {hint(name, names)}")
        if not self.precision.measures:
            raise ValueError("precision.measures: must name a measure")
        self.check_baseline("precision.baseline", self.precision.baseline)

    def _check_names(self) -> None:
        labels = {axis.label for axis in self._axes}
        for one in self.wanted:
            if one.name in OF_RUNS | labels:
                raise ValueError(
                    f"measure.{one.name}: the name is already used by an axis or a column of "
                    "runs: rename the measure"
                )

    def check_baseline(self, field_: str, labels: Mapping[str, Value]) -> None:
        """Raises `ValueError` if an axis or a value does not exist, or if points along the axis cannot be
        paired."""
        self.check_labels(field_, labels)
        paths = {axis.label: axis.path for axis in self._axes}
        for label in labels:
            if paths[label] in self.own_seeds:
                raise ValueError(
                    f"{field_}: points along {label} cannot be paired, because own_seeds gives "
                    "them different seeds"
                )

    def check_labels(self, field_: str, labels: Mapping[str, Value]) -> None:
        """Raises `ValueError` if an axis or a value does not exist."""
        known = {axis.label: axis for axis in self._axes}
        for label, value in labels.items():
            if label not in known:
                raise ValueError(f"{field_}: no axis is named `{label}`: {hint(label, known)}")
            if not isinstance(value, Value) or value not in known[label].values:
                near = value_hint(value, known[label].values)
                raise ValueError(f"{field_}: {label} has no value {value!r}: {near}")

    def _known_tables(self) -> Sequence[str]:
        from aqmlab.metrics import guests, line_tests, recorded_pages, video_calls
        from aqmlab.scenario.catalog import members

        prefix = "" if self.scenario.level == "packet" else f"{self.scenario.level}."
        level = "flow-level." if self.scenario.level == "flow" else prefix
        names = [one.name for one in members("tables")]
        known = [
            one.removeprefix(level) for one in names if (one.startswith(level) if level else "." not in one)
        ]
        if not level:
            workloads = self.scenario.workloads.values()
            present = (
                (video_calls.TABLES, any(one.video_call is not None for one in workloads)),
                (line_tests.TABLES, any(one.responsiveness is not None for one in workloads)),
                (recorded_pages.TABLES, any(one.records_pages for one in workloads)),
                (guests.TABLES, any(one.has_guests for one in workloads)),
            )
            absent = {table for tables, exists in present if not exists for table in tables}
            known = [one for one in known if one not in absent]
        for name in self.tables:
            if name not in (*known, ALL_TABLES):
                raise ValueError(
                    f"tables: no table is named `{name}`; available: {', '.join(known)}, or tables for all "
                    "tables"
                )
        return known if ALL_TABLES in self.tables else self.tables

    @cached_property
    def labels(self) -> pl.DataFrame:
        """The labels of all points in order, with one row per point. The columns are `point` and a column for
        each axis."""
        import polars as pl

        groups = [list(group) for group in self.zipped]
        together = {path for group in groups for path in group}
        ordered: list[list[str]] = []
        for path in self.axes:
            if path not in together:
                ordered.append([path])
            elif not any(path in one for one in ordered):
                ordered.append(next(group for group in groups if path in group))
        by_path = {axis.path: axis for axis in self._axes}
        steps = [list(zip(*(by_path[path].values for path in group), strict=True)) for group in ordered]
        paths = [path for group in ordered for path in group]
        rows = [tuple(itertools.chain(*one)) for one in itertools.product(*steps)]
        columns = {by_path[path].label: [row[index] for row in rows] for index, path in enumerate(paths)}
        frame = pl.DataFrame(columns, strict=False)
        frame = frame.select(axis.label for axis in self._axes)
        if self.where is not None:
            frame = filtered("where", frame, self.where)
        return frame.with_row_index("point")

    def points(self) -> Iterator[Point]:
        """Yields the points that the filter selects, in order."""
        own = [axis.label for axis in self._axes if axis.path in self.own_seeds]
        for row in self.labels.iter_rows(named=True):
            number = row.pop("point")
            apart = OWN_SEEDS_APART * _hashed({label: row[label] for label in own}) if own else 0
            yield Point(number=number, labels=row, first_seed=self._first_seed + apart)

    @property
    def _first_seed(self) -> int:
        return int(self.scenario.effective["seed"] if self.first_seed is None else self.first_seed)

    def scenario_of(self, point: Point) -> Scenario:
        """Returns the scenario of a point with seed 1. Each run of the point sets its own seed.

        Raises `ValueError`, which names the point, if the core rejects the scenario.
        """
        return self.scenario_and_left_out(point)[0]

    def scenario_and_left_out(self, point: Point) -> tuple[Scenario, tuple[str, ...]]:
        """Returns the scenario of a point, and the paths of values without effect that were omitted.

        Raises `ValueError`, which names the point, if the core rejects the scenario.
        """
        table = self.scenario.given
        named: list[tuple[str, str]] = []
        try:
            for axis in self._axes:
                value = axis.values[point.labels[axis.label]]
                if isinstance(self.axes[axis.path], Changes):
                    table = applied(table, value)
                elif axis.path in NAMED:
                    named.append((axis.path, str(value)))
                else:
                    table = changed(table, {axis.path: value})
            if self.last is not None:
                table = applied(table, self.last)
            scenario, left_out = _with_effect(self.scenario, changed(table, {"seed": 1}))
            for path, word in named:
                scenario = _put_named(scenario, path, word)
            return scenario, left_out
        except ValueError as error:
            raise ValueError(f"{self.name}, point {point.number} ({point.description}): {error}") from None

    def selection(self, store: Store) -> Selection:
        """Returns the runs that belong to the sweep. `Store.results` uses this selection to build a table. If
        pilot runs determine the warm-up, the selection is empty until the warm-up is in the store.

        Raises `ValueError`, which names the point, if the core rejects the scenario of a point.
        """
        known = {row["number"]: row["scenario"] for row in store.records("point", sweep=self.id)}
        points = list(self.points())
        if self.warm_up and any(point.number not in known for point in points):
            points = []
        digests = [known.get(point.number) or self.scenario_of(point).digest for point in points]
        states = stopping_states(points, digests, store, self.wanted, self.replications, self.precision)
        stopping = self.precision
        return Selection(
            name=self.name,
            axes={axis.label: tuple(axis.values) for axis in self._axes},
            measures={one.key: one for one in self.wanted},
            points=[tuple(point.labels.values()) for point in points],
            runs=[
                SelectedRuns(
                    point=tuple(point.labels.values()),
                    scenario=digest,
                    first_seed=point.first_seed,
                    count=one.wanted,
                )
                for point, digest, one in zip(points, digests, states, strict=True)
            ],
            looks=1 if stopping is None else len(stopping.rule.looks()),
            precise=1 if stopping is None else len(stopping.measures),
            paths={axis.label: axis.path for axis in self._axes},
            own_seeds=[axis.label for axis in self._axes if axis.path in self.own_seeds],
            wanted=sum(one.wanted for one in states),
            too_wide=sum(one.exhausted for one in states),
        )

    @property
    def definition(self) -> dict[str, Any]:
        """Returns the definition of the points as plain JSON, without replications and measures."""
        return {
            "scenario": self.scenario.given,
            "axes": {
                axis.path: [[key, _plainly(value)] for key, value in axis.values.items()]
                for axis in self._axes
            },
            "zipped": [list(group) for group in self.zipped],
            "where": self.where,
            "own_seeds": list(self.own_seeds),
            "first_seed": self.first_seed,
            "warm_up": self.warm_up,
            **self._points_of_functions(),
        }

    def _points_of_functions(self) -> dict[str, Any]:
        """Returns the digests of the points if a function changes the scenario, because functions have no
        other stable description."""
        changes = [value for axis in self._axes for value in axis.values.values()]
        if self.last is None and not any(callable(value) for value in changes):
            return {}
        return {"points": [self.scenario_of(point).digest for point in self.points()]}

    @cached_property
    def id(self) -> str:
        """Identifier of the sweep, which is a hash of the sweep's name, the definition, the scenario's files
        and the scenario's digest. The digest covers defaults and the results version of the level."""
        base = self.scenario.with_({"seed": 1}).digest
        text = json.dumps([self.name, self.definition, dict(self.scenario.files), base], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __len__(self) -> int:
        """Number of points."""
        return self.labels.height


def _with_effect(base: Scenario, table: dict[str, Any]) -> tuple[Scenario, tuple[str, ...]]:
    """Returns the scenario of a table without the values that have no effect, and the paths of these values.

    Raises `ScenarioError` for all other errors.
    """
    left_out: tuple[str, ...] = ()
    while True:
        try:
            return Scenario.from_dict(table, files=base.files, name=base.name), left_out
        except _core.ScenarioError as error:
            paths = error.without_effect
            if len(paths) < len(error.problems) or not all(is_given(table, path) for path in paths):
                raise
            table = changed(table, dict.fromkeys(paths))
            left_out = (*left_out, *paths)


def filtered(field_: str, points: pl.DataFrame, where: str) -> pl.DataFrame:
    """Returns the points whose labels satisfy an SQL condition. Raises `ValueError` for an invalid
    condition."""
    import polars as pl

    try:
        return points.filter(pl.sql_expr(where))
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{field_}: {str(error).splitlines()[0]}: must be a condition on {', '.join(points.columns)}, "
            "such as load < 1 AND queue != 'red'"
        ) from None


def _plainly(value: Any) -> Any:
    return "a function" if callable(value) else value


def _named(path: str, values: Sequence[Value] | Mapping[Any, Any]) -> dict[Value, Any]:
    if path == "seed" or not path:
        raise ValueError("axes: seed cannot be an axis: set replications and first_seed instead")
    if isinstance(values, Mapping):
        found: dict[Value, Any] = dict(values.items())
    elif isinstance(values, str):
        raise ValueError(f"axes.{path}: must be a list of values (got {values!r})")
    else:
        # NumPy scalars are converted to plain numbers in a scenario.
        values = [value.item() if hasattr(value, "item") else value for value in values]
        for value in values:
            if not isinstance(value, Value):
                text = json.dumps(value, default=str)
                raise ValueError(
                    f"axes.{path}: the value {text} needs a name: write a table with the name of each value"
                )
        found = {value: value for value in values}
        if len(found) != len(values):
            raise ValueError(f"axes.{path}: a value occurs twice: write each value once")
    if not found:
        raise ValueError(f"axes.{path}: must have at least one value")
    if isinstance(values, Changes):
        for change in found.values():
            if not callable(change):
                check_plain(f"axes.{path}", change)
        return _of_one_type(found)
    if path in NAMED and not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"axes.{path}: values must be names of {NAMED[path]}")
    for value in found.values():
        check_plain(f"axes.{path}", value)
    return _of_one_type(found)


def _of_one_type(values: Mapping[Value, Any]) -> dict[Value, Any]:
    """Returns the values with keys of one type: either all numbers, all Booleans, or otherwise all
    strings."""
    numbers = all(isinstance(name, int | float) and not isinstance(name, bool) for name in values)
    if numbers and any(isinstance(name, float) for name in values):
        return {float(name): value for name, value in values.items()}
    if numbers or all(isinstance(name, bool) for name in values):
        return dict(values)
    return {name if isinstance(name, str) else json.dumps(name): value for name, value in values.items()}


def _hashed(labels: Mapping[str, Value]) -> int:
    """Returns a 30-bit hash of the labels, which is the same on every machine."""
    text = json.dumps(labels, sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 2


def _put_named(scenario: Scenario, path: str, name: str) -> Scenario:
    from aqmlab.scenario.queues import with_queue
    from aqmlab.scenario.tcps import with_tcp

    return with_queue(scenario, name) if path == "queue" else with_tcp(scenario, name)
