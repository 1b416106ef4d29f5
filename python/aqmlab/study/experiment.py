"""Experiments of studies. An experiment consists of a sweep, the sweep's quick form, and a reduced form for
variants."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aqmlab._support.names import hint
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels, PointName, Value, format_labels
from aqmlab.results.table import Results
from aqmlab.results.variable import Measured
from aqmlab.scenario import Scenario, changed
from aqmlab.store.selection import SelectedRuns, Selection
from aqmlab.sweep import Change, Changes, Sweep

if TYPE_CHECKING:
    from aqmlab.campaign import Runnable, Task
    from aqmlab.store import Store

FormName = Literal["full", "quick", "varied", "varied-quick"]

Prepare = Callable[[Scenario], "Runnable"]
"""A function that converts a scenario to the object that is run."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A reduction of an experiment, with fewer seeds, fewer values of some axes, and new values at dotted
    paths of the scenario, for example a shorter duration."""

    seeds: int | None = None
    axes: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Experiment:
    """A scenario with its axes, measures and number of seeds.

    Axes are defined as in a `Sweep`: either by a dotted path and its values, or by a word and `Changes`. The
    label of an axis is the last word of the path. All points use the same seeds, so that differences are
    paired.

    Raises `ValueError` if an axis, value or measure does not exist, so that a study with a misspelt name
    cannot be imported.
    """

    name: str
    title: str
    """Name of the experiment in the text of rules, for example `Web-mixed`."""
    scenario: Mapping[str, Any] | Scenario | str | Path
    """The scenario, as a table, a `Scenario`, or the path of a scenario file."""
    axes: Mapping[str, Sequence[Value] | Mapping[Any, Any]]
    measures: Sequence[Measure | str]
    """Measures, or names of measures of the scenario (`web.mean-time`, `web.*`)."""
    _: KW_ONLY
    seeds: int = 10
    first_seed: int = 1
    most_seeds: int = 40
    """Maximum number of seeds of a point if a verdict at this point is undecided (`study.seeds`)."""
    quick: Form = Form(seeds=3)
    varied: Form | None = None
    """Form in which variants are run. With `None`, no variants are run. The form may select only values of
    axes, because variants must have the same seeds and durations as the main runs with which they are
    compared."""
    varied_quick: Form = Form()
    """Additional reduction of `varied` in the quick form."""
    zipped: Sequence[Sequence[str]] = ()
    where: str | None = None
    own_seeds: Sequence[str] = ()
    own_measures: Mapping[str, Measure] = field(default_factory=dict)
    """`zipped`, `where`, `own_seeds` and `own_measures` have the same meaning as in a `Sweep`."""
    live: bool = False
    """Whether the runs are live runs with the kernel's TCP instead of simulations."""
    virtual: bool = False
    """With `live`, whether the live runs are executed in virtual time, in a kernel of their own."""
    of_seed: Callable[[dict[str, Any], Labels, int], dict[str, Any]] | None = None
    """Function that returns the scenario table of one replication. The arguments are the table, the labels of
    the point and the seed. This function is needed if replications differ in more than their random
    numbers."""

    def __post_init__(self) -> None:
        if self.varied is not None and (self.varied.seeds is not None or self.varied.changes):
            raise ValueError(
                f"{self.name}: varied may select values of axes, but must not set seeds or changes, because "
                "variants are compared with the main verdict"
            )
        forms: tuple[FormName, ...] = ("full", "quick")
        for form in (*forms, *(("varied", "varied-quick") if self.varied else ())):
            self.sweep(form)

    @cached_property
    def _base(self) -> Sweep:
        return Sweep(
            scenario=self._scenario(),
            axes=self.axes,
            measures=self.measures,
            name=self.name,
            replications=self.seeds,
            first_seed=self.first_seed,
            zipped=self.zipped,
            where=self.where,
            own_seeds=self.own_seeds,
            own_measures=self.own_measures,
        )

    def _scenario(self) -> Scenario:
        if isinstance(self.scenario, Scenario):
            return self.scenario
        if isinstance(self.scenario, str | Path):
            return Scenario.load(self.scenario)
        return Scenario.from_dict(self.scenario, name=self.name)

    @property
    def given(self) -> Mapping[str, Any]:
        """The scenario's table as written in the study."""
        return self.scenario if isinstance(self.scenario, Mapping) else self._base.scenario.given

    @property
    def base_scenario(self) -> Scenario:
        """The scenario before the changes of axes are applied."""
        return self._base.scenario

    @property
    def wanted(self) -> tuple[Measure, ...]:
        """The measures, with patterns such as `web.*` expanded."""
        return self._base.wanted

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the axes."""
        return tuple(axis.label for axis in self._base.all_axes)

    def values(self, label: str) -> tuple[Value, ...]:
        """Returns all values of an axis. Raises `ValueError` if the experiment has no axis with this
        label."""
        for axis in self._base.all_axes:
            if axis.label == label:
                return tuple(axis.values)
        raise ValueError(f"{self.name}: no axis is named `{label}`; available: {', '.join(self.labels)}")

    def check(self, labels: Mapping[str, Any]) -> None:
        """Raises `ValueError` if the experiment does not have one of these axes or values."""
        self._base.check_labels(self.name, labels)

    def sweep(self, form: FormName, variant: Change | None = None) -> Sweep:
        """Returns the sweep for a form. A variant's change is applied to each scenario after all other
        changes."""
        if form.startswith("varied") and self.varied is None:
            raise ValueError(f"{self.name}: does not define a form for variants (`varied`)")
        forms = {
            "full": (),
            "quick": (self.quick,),
            "varied": (self.varied,),
            "varied-quick": (self.varied, self.varied_quick),
        }[form]
        sweep = self._base
        for reduction in forms:
            if reduction is not None:
                sweep = _reduced(self.name, sweep, reduction)
        return sweep if variant is None else replace(sweep, last=variant)

    def __getitem__(self, measure: Measure | str) -> Measured:
        """Returns the variable of a measure at all points. Raises `ValueError` if the experiment does not
        have the measure."""
        known = {one.name: one for one in self._base.wanted}
        name = measure if isinstance(measure, str) else measure.name
        found = known.get(name)
        if found is None or (isinstance(measure, Measure) and measure.key != found.key):
            raise ValueError(f"{self.name}: has no measure `{name}`: {hint(name, known)}")
        return Measured(experiment=self, measure=found)

    def variables(self, *measures: Measure | str, **labels: Value) -> list[Measured]:
        """Returns the variables of several measures at the given values of some axes."""
        return [self[one].at(**labels) for one in measures]

    def plan(self, sweep: Sweep, prepare: Prepare | None = None) -> Planned:
        """Returns the runs of a sweep. `prepare` converts each scenario to the object that is run."""
        from aqmlab.campaign import live as live_runs

        if self.live:
            prepare = live_runs.VirtualRuns if self.virtual else live_runs.ValidRuns
        points: list[tuple[Labels, Callable[[int], Runnable]]] = []
        for point in sweep.points():
            of_point = partial(sweep.scenario_of, point)
            if self.of_seed is None:
                made = _runnable(sweep, of_point, prepare)
                points.append((point.labels, partial(_any_seed, made)))
            else:
                of_seed = partial(self._of_seed, of_point, point.labels)
                # Each scenario is needed several times: for the runs, for the collection of results and for
                # the report.
                points.append((point.labels, cache(partial(_runnable_of_seed, sweep, of_seed, prepare))))
        return Planned(experiment=self, sweep=sweep, points=tuple(points))

    def _of_seed(self, of_point: Callable[[], Scenario], labels: Labels, seed: int) -> Scenario:
        assert self.of_seed is not None
        made = of_point()
        table = self.of_seed(changed(made.given, {}), labels, seed)
        return Scenario.from_dict(table, files=made.files, name=made.name)


def point_values(sweep: Sweep) -> tuple[tuple[Value, ...], ...] | None:
    """Returns the points of a sweep by the values of their labels, or `None` if all combinations of values
    are points."""
    if sweep.where is None and not sweep.zipped:
        return None
    return tuple(tuple(point.labels.values()) for point in sweep.points())


def _reduced(name: str, sweep: Sweep, form: Form) -> Sweep:
    """Returns a sweep with fewer seeds and values, and with a changed scenario."""
    axes: dict[str, Sequence[Value] | Mapping[Any, Any]] = dict(sweep.axes)
    by_label = {axis.label: axis for axis in sweep.all_axes}
    for label, values in form.axes.items():
        if label not in by_label:
            raise ValueError(f"{name}: no axis is named `{label}`; available: {', '.join(by_label)}")
        sweep_values, path = by_label[label].values, by_label[label].path
        for value in values:
            sweep.check_labels(name, {label: value})
        kept = {value: sweep_values[value] for value in values}
        axes[path] = Changes(kept) if isinstance(sweep.axes[path], Changes) else dict(kept)
    return replace(
        sweep,
        axes=axes,
        replications=min(form.seeds or sweep.replications, sweep.replications),
        scenario=sweep.scenario.with_(form.changes) if form.changes else sweep.scenario,
    )


def _runnable(sweep: Sweep, scenario: Callable[[], Scenario], prepare: Prepare | None) -> Runnable:
    from aqmlab.campaign import InvalidScenario

    try:
        made = scenario()
        return prepare(made) if prepare else made
    except ValueError as problem:
        return InvalidScenario(problem=problem, digest=f"refused-{json.dumps([sweep.name, str(problem)])}")


def _any_seed(made: Runnable, _: int) -> Runnable:
    return made


def _runnable_of_seed(
    sweep: Sweep, of_seed: Callable[[int], Scenario], prepare: Prepare | None, seed: int
) -> Runnable:
    return _runnable(sweep, partial(of_seed, seed), prepare)


Counts = Mapping[PointName, int]
"""Number of seeds of each point that has more seeds than `seeds` of its experiment."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The points of an experiment in a given form. For each point, the run with a given seed is available."""

    experiment: Experiment
    sweep: Sweep
    points: tuple[tuple[Labels, Callable[[int], Runnable]], ...]

    def among(self, points: Collection[PointName]) -> Planned:
        """Returns these runs, restricted to some points."""
        kept = tuple(one for one in self.points if (self.experiment.name, tuple(one[0].values())) in points)
        return replace(self, points=kept)

    def tasks(self, counts: Counts) -> list[tuple[Labels, Task]]:
        """Returns the runs of all points, with their labels."""
        from aqmlab.campaign import Task

        found = []
        for labels, scenario in self.points:
            name = f"{self.experiment.name}: {format_labels(labels)}"
            count = counts.get((self.experiment.name, tuple(labels.values())), self.sweep.replications)
            first = self.experiment.first_seed
            for seed in range(first, first + count):
                task = Task(scenario=scenario(seed), seed=seed, measures=self.sweep.wanted, name=name)
                found.append((labels, task))
        return found

    def collect(self, store: Store, counts: Counts) -> Results:
        """Returns the runs that are in the store, with all measures of the experiment."""
        runs = []
        for labels, scenario in self.points:
            point, first = tuple(labels.values()), self.experiment.first_seed
            count = counts.get((self.experiment.name, point), self.sweep.replications)
            # If replications have different scenarios, each replication needs its own selection.
            parts = (
                [(first, count)]
                if self.experiment.of_seed is None
                else [(seed, 1) for seed in range(first, first + count)]
            )
            runs += [
                SelectedRuns(point=point, scenario=scenario(seed).digest, first_seed=seed, count=some)
                for seed, some in parts
            ]
        return store.results(
            Selection(
                name=self.experiment.name,
                axes={axis.label: tuple(axis.values) for axis in self.sweep.all_axes},
                measures={one.key: one for one in self.sweep.wanted},
                runs=runs,
                points=point_values(self.sweep),
                whole=True,
            )
        )
