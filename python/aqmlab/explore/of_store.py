"""What a store holds of sweeps, for a page to explore."""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.explore.page import Axis, Exploration, MeasureInfo, PointData
from aqmlab.store.record import OWN_SEEDS_APART

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.measures import Measure
    from aqmlab.store import Store
    from aqmlab.sweep import Sweep

SHORT = 12
"""Letters of a digest that name a scenario well enough."""


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """A point, and which of its scenario's runs are meant: so many seeds from the first on."""

    labels: Mapping[str, Any]
    scenario: str
    first_seed: int
    count: int


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A measure, and the version whose values are meant."""

    info: MeasureInfo
    version: int

    @classmethod
    def of(cls, measure: Measure) -> _Measured:
        info = MeasureInfo(name=measure.name, title=measure.title, unit=measure.unit, digits=measure.digits)
        return cls(info=info, version=measure.version)


def of_sweep(sweep: Sweep, store: Store) -> Exploration:
    """A sweep with the runs that the store holds of it.

    Raises `ValueError` if there is none, or if the core refuses a point.
    """
    from aqmlab.sweep import run as sweep_run

    planned = sweep_run.plan(sweep, store)
    wanted = [
        _Wanted(labels=point.labels, scenario=digest, first_seed=point.first_seed, count=enough.wanted)
        for point, digest, enough in zip(
            planned.points, planned.digests, sweep_run.counted(planned, store), strict=True
        )
    ]
    axes = [(axis.label, list(axis.values)) for axis in sweep.all_axes]
    measured = [_Measured.of(one) for one in sweep.wanted if "/" not in one.name]
    found = _exploration(sweep.name, sweep.id, axes, wanted, measured, store)
    return found if sweep.precision is None else replace(found, level=sweep.precision.level())


def of_store(store: Store, name: str | None = None) -> list[Exploration]:
    """The sweeps that a store holds runs of, or those of this name or identity.

    Raises `ValueError` if there is none.
    """
    records = store.records("sweep")
    chosen = [one for one in records if name in (None, one["name"], one["sweep"])]
    if name is not None and not chosen:
        known = ", ".join(dict.fromkeys(one["name"] for one in records)) or "none"
        raise ValueError(f"{store.folder}: no sweep is named `{name}`: there is {known}")
    names = [one["name"] for one in chosen]
    found = []
    for one in chosen:
        title = one["name"] if names.count(one["name"]) == 1 else f"{one['name']} ({one['sweep'][:SHORT]})"
        points = _points(store, one["sweep"])
        if points and _runs(store, points).height:
            axes = _axes(one["definition"].get("axes", {}), points)
            found.append(_exploration(title, one["sweep"], axes, points, _measures(store, points), store))
    if not found:
        raise ValueError(f"{store.folder}: holds no run of a sweep yet: make some with aqmlab sweep run")
    return found


def _points(store: Store, sweep: str) -> list[_Wanted]:
    """The points that a sweep told, with all runs from the first seed on that may be its own."""
    by_number = {one["number"]: one for one in store.records("point", sweep=sweep)}
    return [
        _Wanted(
            labels=one["labels"],
            scenario=one["scenario"],
            first_seed=one["first_seed"],
            count=OWN_SEEDS_APART,
        )
        for _, one in sorted(by_number.items())
    ]


def _axes(written: Mapping[str, Sequence[Any]], points: Sequence[_Wanted]) -> list[tuple[str, list[Any]]]:
    """The labels and values of axes, in the order of the sweep, or of points if it tells none.

    Axes are told by path, and the last word of a path is the label if it is enough.
    """
    labels = points[0].labels
    told = {path.rsplit(".", 1)[-1]: values for path, values in written.items()} | dict(written)
    return [
        (label, [value for value, _ in told[label]])
        if label in told
        else (label, list(dict.fromkeys(one.labels.get(label) for one in points)))
        for label in labels
    ]


def _measures(store: Store, points: Sequence[_Wanted]) -> list[_Measured]:
    """What was measured of these points, in the newest version, with titles where the scenario tells them."""
    known = _known_measures(store, points)
    newest: dict[str, int] = {}
    for name, version in _values(store, points).select("measure", "version").unique().iter_rows():
        newest[name] = max(version, newest.get(name, 0))
    if not newest:
        return [_Measured.of(one) for one in known.values()]
    order = {name: place for place, name in enumerate(known)}
    return [
        _Measured.of(known[name])
        if name in known and known[name].version == version
        else _Measured(info=MeasureInfo(name=name), version=version)
        for name, version in sorted(newest.items(), key=lambda one: (order.get(one[0], len(order)), one[0]))
    ]


def _known_measures(store: Store, points: Sequence[_Wanted]) -> dict[str, Measure]:
    from aqmlab import measures
    from aqmlab.scenario import Scenario

    for record in store.records("scenario", scenario=points[0].scenario):
        try:
            scenario = Scenario.from_dict(record["given"], files=record["files"], name=record["name"])
        except _core.ScenarioError:  # Of another version, whose runs can be shown all the same.
            continue
        return measures.of_scenario(scenario)
    return {}


def _runs(store: Store, points: Sequence[_Wanted]) -> pl.DataFrame:
    return store.runs().join(_scenarios(points), on="scenario", how="semi")


def _values(store: Store, points: Sequence[_Wanted]) -> pl.DataFrame:
    import polars as pl

    return (
        store.values()
        .with_columns(pl.col("measure").cast(pl.String), pl.col("version").cast(pl.Int64))
        .drop_nulls("value")
        .join(_scenarios(points), on="scenario", how="semi")
    )


def _scenarios(points: Sequence[_Wanted]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({"scenario": list({one.scenario for one in points})}, schema={"scenario": pl.String})


def _exploration(
    title: str,
    identity: str,
    axes: Sequence[tuple[str, list[Any]]],
    points: Sequence[_Wanted],
    measures: Sequence[_Measured],
    store: Store,
) -> Exploration:
    import polars as pl

    runs = _runs(store, points).select("scenario", "seed", "status", "error", "version")
    if runs.height == 0:
        raise ValueError(f"{title}: {store.folder} holds no run of it yet: make some with aqmlab sweep run")
    versions = pl.DataFrame(
        [(one.info.name, one.version) for one in measures],
        schema={"measure": pl.String, "version": pl.Int64},
        orient="row",
    )
    values = _values(store, points).join(versions, on=["measure", "version"], how="semi")
    measured = set(values["measure"].unique())
    # Of a sweep whose runs all failed there is no number, and its failures are to be seen.
    shown = [one.info for one in measures if one.info.name in measured or not measured]
    wide = values.with_columns(measure=pl.lit(_COLUMN) + pl.col("measure")).pivot(
        on="measure",
        index=["scenario", "seed"],
        values="value",
        on_columns=[_COLUMN + one.name for one in shown],
    )
    kept = _Kept(runs.join(wide, on=["scenario", "seed"], how="left").sort("scenario", "seed"))
    told = {record["scenario"]: record for record in store.records("scenario")}
    used = {label: {one.labels[label] for one in points} for label, _ in axes}
    results = {told[one.scenario]["results_version"] for one in points if one.scenario in told}
    return Exploration(
        title=title,
        axes=tuple(
            Axis.of(label, [value for value in values if value in used[label]]) for label, values in axes
        ),
        measures=tuple(shown),
        points=tuple(_point(one, kept, shown, told, store) for one in points),
        provenance={
            "aqmlab": ", ".join(sorted(filter(None, runs["version"].unique()))),
            "results version": ", ".join(map(str, sorted(results))),
            "store": str(store.folder),
            "sweep": identity,
        },
    )


_COLUMN = "measure "
"""Columns of measures begin so, as any other column's name may be a measure's."""


class _Kept:
    """Runs of all points, sorted by scenario and seed: as lists, as many frames take longer."""

    def __init__(self, runs: pl.DataFrame) -> None:
        self._columns = runs.to_dict(as_series=False)
        self._rows: dict[str, range] = {}
        first = 0
        for scenario, count in runs.group_by("scenario", maintain_order=True).len().iter_rows():
            self._rows[scenario] = range(first, first + count)
            first += count

    def of(self, one: _Wanted) -> slice:
        """The rows of a point."""
        rows = self._rows.get(one.scenario, range(0))
        seeds = self._columns["seed"]
        first = bisect_left(seeds, one.first_seed, rows.start, rows.stop)
        return slice(first, bisect_left(seeds, one.first_seed + one.count, first, rows.stop))

    def column(self, name: str, rows: slice) -> list[Any]:
        """Some of a column."""
        found: list[Any] = self._columns[name][rows]
        return found


def _point(
    one: _Wanted,
    kept: _Kept,
    measures: Sequence[MeasureInfo],
    told: Mapping[str, Mapping[str, Any]],
    store: Store,
) -> PointData:
    rows = kept.of(one)
    seeds, statuses, errors = (kept.column(name, rows) for name in ("seed", "status", "error"))
    return PointData(
        labels=one.labels,
        scenario=one.scenario,
        given=told.get(one.scenario, {}).get("given", {}),
        seeds=seeds,
        values={measure.name: kept.column(_COLUMN + measure.name, rows) for measure in measures},
        failures={
            seed: f"{status}: {error}" if error else status
            for seed, status, error in zip(seeds, statuses, errors, strict=True)
            if status != "done"
        },
        command=command(one.scenario, one.first_seed, store),
    )


def command(scenario: str, seed: int, store: Store) -> str:
    """What makes a run of a scenario again in a shell, from what the store holds."""
    name = scenario[:SHORT]
    folder = shlex.quote(str(store.folder))
    return (
        f"aqmlab store show {name} --store {folder} --toml > {name}.toml\n"
        f"aqmlab run {name}.toml --seed {seed}"
    )
