"""Experiments of studies: a sweep with its quick form and the form in which other readings are tried."""

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
"""What makes of a scenario that which is run."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """What is less than in full: seeds, values of some axes, and values at dotted paths of the scenario, such
    as its duration."""

    seeds: int | None = None
    axes: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Experiment:
    """A scenario, its axes, what is measured, and how often each point is run.

    Axes are those of a `Sweep`: dotted paths with their values, or a word with `Changes`; a label is the last
    word of a path. All points share their seeds, so that differences are paired.

    Raises `ValueError` if there is no such axis, value or measure: a study that misspells one cannot be
    imported.
    """

    name: str
    title: str
    """What it is in a rule: `Web-mixed`."""
    scenario: Mapping[str, Any] | Scenario | str | Path
    """The table of a scenario, a scenario, or the path of its file."""
    axes: Mapping[str, Sequence[Value] | Mapping[Any, Any]]
    measures: Sequence[Measure | str]
    """What is measured: measures, or names of those that the scenario has (`web.mean-time`, `web.*`)."""
    _: KW_ONLY
    seeds: int = 10
    first_seed: int = 1
    most_seeds: int = 40
    """The most seeds that a point may get where verdicts hang on it (`study_seeds`)."""
    quick: Form = Form(seeds=3)
    varied: Form | None = None
    """In what form variants are run; without one they are not. It may leave out values of axes, and no more:
    variants have the seeds and the durations of the main verdict, with which theirs are compared."""
    varied_quick: Form = Form()
    """What the quick form of the variants has less than `varied`."""
    zipped: Sequence[Sequence[str]] = ()
    where: str | None = None
    own_seeds: Sequence[str] = ()
    own_measures: Mapping[str, Measure] = field(default_factory=dict)
    """These four are as in a `Sweep`."""
    live: bool = False
    """Whether the runs are live ones, on the kernel's TCP, and not simulations."""
    of_seed: Callable[[dict[str, Any], Labels, int], dict[str, Any]] | None = None
    """The scenario of one replication, where replications differ in more than chance: told the table, the
    labels and the seed."""

    def __post_init__(self) -> None:
        if self.varied is not None and (self.varied.seeds is not None or self.varied.changes):
            raise ValueError(
                f"{self.name}: varied may choose values of axes, but neither seeds nor changes: variants are "
                "compared with the main verdict"
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
        """The table of its scenario, as it was written."""
        return self.scenario if isinstance(self.scenario, Mapping) else self._base.scenario.given

    @property
    def base_scenario(self) -> Scenario:
        """Its scenario, before any axis changes it."""
        return self._base.scenario

    @property
    def wanted(self) -> tuple[Measure, ...]:
        """What is measured, each measure by itself."""
        return self._base.wanted

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of its axes."""
        return tuple(axis.label for axis in self._base.all_axes)

    def values(self, label: str) -> tuple[Value, ...]:
        """All values of an axis. Raises `ValueError` if there is none of this label."""
        for axis in self._base.all_axes:
            if axis.label == label:
                return tuple(axis.values)
        raise ValueError(f"{self.name}: no axis is called `{label}`: there is {', '.join(self.labels)}")

    def check(self, labels: Mapping[str, Any]) -> None:
        """Raises `ValueError` if there is no such axis or value."""
        self._base.check_labels(self.name, labels)

    def sweep(self, form: FormName, variant: Change | None = None) -> Sweep:
        """Its sweep in a form, with a variant's change made to each scenario last."""
        if form.startswith("varied") and self.varied is None:
            raise ValueError(f"{self.name}: has no form for variants")
        forms = {
            "full": (),
            "quick": (self.quick,),
            "varied": (self.varied,),
            "varied-quick": (self.varied, self.varied_quick),
        }[form]
        sweep = self._base
        for less in forms:
            if less is not None:
                sweep = _less(self.name, sweep, less)
        return sweep if variant is None else replace(sweep, last=variant)

    def __getitem__(self, measure: Measure | str) -> Measured:
        """The values of a measure at every point; raises `ValueError` if the measure is not measured."""
        known = {one.name: one for one in self._base.wanted}
        name = measure if isinstance(measure, str) else measure.name
        found = known.get(name)
        if found is None or (isinstance(measure, Measure) and measure.key != found.key):
            raise ValueError(f"{self.name}: `{name}` is not measured: {hint(name, known)}")
        return Measured(experiment=self, measure=found)

    def variables(self, *measures: Measure | str, **labels: Value) -> list[Measured]:
        """The values of some measures where some axes have these values."""
        return [self[one].at(**labels) for one in measures]

    def plan(self, sweep: Sweep, prepare: Prepare | None = None) -> Planned:
        """The runs of one of its sweeps. `prepare` makes of a scenario what is run, if not the scenario."""
        from aqmlab.campaign import live as live_runs

        if self.live:
            prepare = live_runs.ValidRuns
        points: list[tuple[Labels, Callable[[int], Runnable]]] = []
        for point in sweep.points():
            of_point = partial(sweep.scenario_of, point)
            if self.of_seed is None:
                made = _made(sweep, of_point, prepare)
                points.append((point.labels, partial(_same, made)))
            else:
                of_seed = partial(self._of_seed, of_point, point.labels)
                # Asked for again and again: to be run, collected and told of.
                points.append((point.labels, cache(partial(_made_of_seed, sweep, of_seed, prepare))))
        return Planned(experiment=self, sweep=sweep, points=tuple(points))

    def _of_seed(self, of_point: Callable[[], Scenario], labels: Labels, seed: int) -> Scenario:
        assert self.of_seed is not None
        made = of_point()
        table = self.of_seed(changed(made.given, {}), labels, seed)
        return Scenario.from_dict(table, files=made.files, name=made.name)


def point_values(sweep: Sweep) -> tuple[tuple[Value, ...], ...] | None:
    """The points of a sweep by the values of their labels, where not every product of values is one."""
    if sweep.where is None and not sweep.zipped:
        return None
    return tuple(tuple(point.labels.values()) for point in sweep.points())


def _less(name: str, sweep: Sweep, form: Form) -> Sweep:
    """A sweep with fewer seeds and values, and a changed scenario."""
    axes: dict[str, Sequence[Value] | Mapping[Any, Any]] = dict(sweep.axes)
    by_label = {axis.label: axis for axis in sweep.all_axes}
    for label, values in form.axes.items():
        if label not in by_label:
            raise ValueError(f"{name}: no axis is called `{label}`: there is {', '.join(by_label)}")
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


def _made(sweep: Sweep, scenario: Callable[[], Scenario], prepare: Prepare | None) -> Runnable:
    from aqmlab.campaign import InvalidScenario

    try:
        made = scenario()
        return prepare(made) if prepare else made
    except ValueError as problem:
        return InvalidScenario(problem=problem, digest=f"refused-{json.dumps([sweep.name, str(problem)])}")


def _same(made: Runnable, _: int) -> Runnable:
    return made


def _made_of_seed(
    sweep: Sweep, of_seed: Callable[[int], Scenario], prepare: Prepare | None, seed: int
) -> Runnable:
    return _made(sweep, partial(of_seed, seed), prepare)


Counts = Mapping[PointName, int]
"""How many seeds the points of experiments have that have more than all."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The points of an experiment in some form, each with what is run of it for a seed."""

    experiment: Experiment
    sweep: Sweep
    points: tuple[tuple[Labels, Callable[[int], Runnable]], ...]

    def among(self, points: Collection[PointName]) -> Planned:
        """The same, of some points only."""
        kept = tuple(one for one in self.points if (self.experiment.name, tuple(one[0].values())) in points)
        return replace(self, points=kept)

    def tasks(self, counts: Counts) -> list[tuple[Labels, Task]]:
        """The runs of all points, with their labels."""
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
        """Those of its runs that the store holds, with all that is asked of them."""
        runs = []
        for labels, scenario in self.points:
            point, first = tuple(labels.values()), self.experiment.first_seed
            count = counts.get((self.experiment.name, point), self.sweep.replications)
            # Where every replication has a scenario of its own, each is asked for by itself.
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
