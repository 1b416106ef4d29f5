"""Reads the data of a store's sweeps for the explorer page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.explore.page import Axis, Exploration, PointData
from aqmlab.measures import Quantity
from aqmlab.store.record import OWN_SEEDS_APART
from aqmlab.store.selection import SelectedRuns, Selection

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.measures import Measure
    from aqmlab.results.table import Results
    from aqmlab.store import Store
    from aqmlab.sweep import Sweep

SHORT = 12
"""Number of leading characters of a digest that are used to identify a scenario."""


def of_sweep(sweep: Sweep, store: Store) -> Exploration:
    """Returns a sweep with its runs in the store.

    Raises `ValueError` if the store has no run of the sweep, or if the core rejects a point.
    """
    from aqmlab.sweep import run as sweep_run

    sweep_run.plan(sweep, store)
    selection = sweep.selection(store)
    numbers = {key: one for key, one in selection.measures.items() if "/" not in one.name}
    return _exploration(sweep.name, sweep.id, replace(selection, measures=numbers), store)


def of_store(store: Store, name: str | None = None) -> list[Exploration]:
    """Returns all sweeps that have runs in a store, or the sweeps with this name or ID.

    Raises `ValueError` if there is no sweep to return.
    """
    records = store.records("sweep")
    chosen = [one for one in records if name in (None, one["name"], one["sweep"])]
    if name is not None and not chosen:
        known = ", ".join(dict.fromkeys(one["name"] for one in records)) or "none"
        raise ValueError(f"{store.folder}: no sweep is named `{name}`; available: {known}")
    names = [one["name"] for one in chosen]
    found = []
    for one in chosen:
        title = one["name"] if names.count(one["name"]) == 1 else f"{one['name']} ({one['sweep'][:SHORT]})"
        selection = _selection(store, one)
        if selection.runs and _runs(store, selection).height:
            found.append(_exploration(title, one["sweep"], selection, store))
    if not found:
        raise ValueError(
            f"{store.folder}: the store contains no runs of a sweep: run `aqmlab sweep run` first"
        )
    return found


def _selection(store: Store, sweep: Mapping[str, Any]) -> Selection:
    """Returns the recorded points of a sweep, with all runs that may belong to the sweep, beginning with the
    sweep's first seed."""
    by_number = {one["number"]: one for one in store.records("point", sweep=sweep["sweep"])}
    points = [one for _, one in sorted(by_number.items())]
    axes = _axes(sweep["definition"].get("axes", {}), [one["labels"] for one in points])
    runs = [
        SelectedRuns(
            point=tuple(one["labels"][label] for label in axes),
            scenario=one["scenario"],
            first_seed=one["first_seed"],
            count=OWN_SEEDS_APART,
        )
        for one in points
    ]
    selection = Selection(
        name=sweep["name"], axes=axes, measures={}, runs=runs, points=[one.point for one in runs]
    )
    return replace(selection, measures=_measures(store, selection))


def _axes(written: Mapping[str, Sequence[Any]], points: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the labels and values of the axes, in the order of the sweep's definition. Without a
    definition, the order is that of the points. The definition specifies axes by path; the label of an axis
    is the last word of this path, if this word is unique.
    """
    defined = {path.rsplit(".", 1)[-1]: values for path, values in written.items()} | dict(written)
    return {
        label: [value for value, _ in defined[label]]
        if label in defined
        else list(dict.fromkeys(one.get(label) for one in points))
        for label in (points[0] if points else ())
    }


def _measures(store: Store, selection: Selection) -> dict[str, Quantity]:
    """Returns the newest versions of the measures of these points. A measure has a title if the scenario
    defines the measure."""
    known = _known_measures(store, selection)
    newest: dict[str, int] = {}
    values = store.values().drop_nulls("value").join(_scenarios(selection), on="scenario", how="semi")
    for name, version in values.select("measure", "version").unique().iter_rows():
        newest[name] = max(version, newest.get(name, 0))
    if not newest:
        return {one.key: one for one in known.values()}
    order = {name: index for index, name in enumerate(known)}
    return {
        f"{name}@{version}": known[name]
        if name in known and known[name].version == version
        else Quantity(name=name, version=version)
        for name, version in sorted(newest.items(), key=lambda one: (order.get(one[0], len(order)), one[0]))
    }


def _known_measures(store: Store, selection: Selection) -> dict[str, Measure]:
    from aqmlab import measures
    from aqmlab.scenario import Scenario

    for record in store.records("scenario", scenario=selection.runs[0].scenario):
        try:
            scenario = Scenario.from_dict(record["given"], files=record["files"], name=record["name"])
        # Runs of a scenario that another version of aqmlab created can still be shown.
        except _core.ScenarioError:
            continue
        return measures.of_scenario(scenario)
    return {}


def _runs(store: Store, selection: Selection) -> pl.DataFrame:
    return store.runs().join(_scenarios(selection), on="scenario", how="semi")


def _scenarios(selection: Selection) -> pl.DataFrame:
    import polars as pl

    names = {one.scenario for one in selection.runs}
    return pl.DataFrame({"scenario": list(names)}, schema={"scenario": pl.String})


_COLUMN = "measure "
"""Prefix of the columns that contain measures. The prefix is needed because an old measure may have the name
of another column."""


def _exploration(title: str, identity: str, selection: Selection, store: Store) -> Exploration:
    columns = {key: replace(one, name=_COLUMN + one.name) for key, one in selection.measures.items()}
    results = store.results(replace(selection, measures=columns))
    if results.frame.height == 0:
        raise ValueError(
            f"{title}: {store.folder} contains no runs of this sweep: run `aqmlab sweep run` first"
        )
    counts = results.frame.select(one.name for one in columns.values()).count().row(0)
    # If all runs failed, no measure has a value, but the page must show the failures.
    shown = [
        one
        for one, count in zip(selection.measures.values(), counts, strict=True)
        if count or not any(counts)
    ]
    definitions = {record["scenario"]: record for record in store.records("scenario")}
    versions = {
        definitions[one.scenario]["results_version"] for one in selection.runs if one.scenario in definitions
    }
    used = [set(values) for values in zip(*(one.point for one in selection.runs), strict=True)]
    return Exploration(
        title=title,
        axes=tuple(
            Axis.of(label, [value for value in values if value in some])
            for (label, values), some in zip(selection.axes.items(), used, strict=True)
        ),
        measures=tuple(shown),
        points=tuple(_point(one, results, shown, definitions, store) for one in selection.runs),
        provenance={
            "aqmlab": ", ".join(sorted(filter(None, _runs(store, selection)["version"].unique()))),
            "results version": ", ".join(map(str, sorted(versions))),
            "store": str(store.folder),
            "sweep": identity,
        },
        level=results.level(),
    )


def _point(
    one: SelectedRuns,
    results: Results,
    measures: Sequence[Quantity],
    definitions: Mapping[str, Mapping[str, Any]],
    store: Store,
) -> PointData:
    rows = results.rows_by_point.get(one.point, {})

    def at_point(name: str) -> list[Any]:
        column = results.column(name)
        return [column[row] for row in rows.values()]

    return PointData(
        labels=dict(zip(results.axes, one.point, strict=True)),
        scenario=one.scenario,
        given=definitions.get(one.scenario, {}).get("given", {}),
        seeds=list(rows),
        values={measure.name: at_point(_COLUMN + measure.name) for measure in measures},
        failures={
            seed: f"{status}: {error}" if error else status
            for seed, status, error in zip(rows, at_point("status"), at_point("error"), strict=True)
            if status != "done"
        },
        command=command(one.scenario, one.first_seed, store),
    )


def command(scenario: str, seed: int, store: Store) -> str:
    """Returns the shell commands that repeat a run of a scenario in the store."""
    name = scenario[:SHORT]
    folder = shlex.quote(str(store.folder))
    return (
        f"aqmlab store show {name} --store {folder} --toml > {name}.toml\n"
        f"aqmlab run {name}.toml --seed {seed}"
    )
