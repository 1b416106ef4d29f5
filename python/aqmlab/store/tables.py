"""Creates tables of a store's scenarios, sweeps and points, and tables of runs with a column for each
measure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from aqmlab.store.pivot import JSON, numbers
from aqmlab.store.record import OWN_SEEDS_APART

if TYPE_CHECKING:
    from aqmlab.store.store import Store

_OWN = pl.col("seed").is_between("first_seed", pl.col("first_seed") + OWN_SEEDS_APART, closed="left")
"""Condition that a scenario's runs satisfy if they belong to a point."""


def scenarios(store: Store) -> pl.DataFrame:
    """Returns the scenarios, with one row per scenario. `given` and the names of `files` are JSON."""
    schema = {
        "scenario": pl.String,
        "name": pl.String,
        "level": pl.String,
        "results_version": pl.Int64,
        "given": pl.String,
        "files": pl.String,
    }
    rows = [
        (
            one["scenario"],
            one["name"],
            one["level"],
            one["results_version"],
            json.dumps(one["given"]),
            json.dumps(list(one["files"])),
        )
        for one in store.records("scenario")
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").unique(
        "scenario", keep="last", maintain_order=True
    )


def points(store: Store) -> pl.DataFrame:
    """Returns the points of all sweeps, with one row per point. `labels` is JSON."""
    schema = {
        "sweep": pl.String,
        "number": pl.Int64,
        "scenario": pl.String,
        "first_seed": pl.Int64,
        "labels": pl.String,
    }
    rows = [
        (one["sweep"], one["number"], one["scenario"], one["first_seed"], json.dumps(one["labels"]))
        for one in store.records("point")
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").unique(maintain_order=True)


def sweeps(store: Store) -> pl.DataFrame:
    """Returns the sweeps, with one row per sweep. A row contains the numbers of points, of stored runs and of
    failed runs, and whether the sweep was finished."""
    schema = {"sweep": pl.String, "name": pl.String, "definition": pl.String}
    rows = [(one["sweep"], one["name"], json.dumps(one["definition"])) for one in store.records("sweep")]
    found = pl.DataFrame(rows, schema=schema, orient="row").unique("sweep", keep="last", maintain_order=True)
    of_points = points(store)
    finished = {one["sweep"] for one in store.records("finished")}
    runs = (
        of_points.select("sweep", "scenario", "first_seed")
        .unique()
        .join(store.runs().select("scenario", "seed", "status"), on="scenario")
        .filter(_OWN)
        .unique(["sweep", "scenario", "seed"])
        .group_by("sweep")
        .agg(runs=pl.len(), failed=(pl.col("status") != "done").sum())
    )
    return (
        found.join(
            of_points.group_by("sweep").agg(points=pl.len()), on="sweep", how="left", maintain_order="left"
        )
        .join(runs, on="sweep", how="left")
        .with_columns(pl.col("points", "runs", "failed").fill_null(0).cast(pl.Int64))
        .with_columns(finished=pl.col("sweep").is_in(list(finished)))
        .select("name", "sweep", "points", "runs", "failed", "finished", "definition")
        .sort("name", "sweep")
    )


def names(of_sweeps: pl.DataFrame) -> dict[str, str]:
    """Returns unique names of sweeps by ID. If several sweeps have the same name, the first digits of the
    sweep's ID are appended to the name."""
    twice = set(of_sweeps.filter(pl.col("name").is_duplicated())["name"])
    return {
        sweep: f"{name}-{sweep[:8]}" if name in twice else name
        for name, sweep in of_sweeps.select("name", "sweep").iter_rows()
    }


def chosen(store: Store, text: str) -> str:
    """Returns the ID of the sweep whose name is `text` or whose ID begins with `text`. Raises `LookupError`
    unless exactly one sweep matches."""
    called = names(sweeps(store))
    for found in (
        [sweep for sweep, name in called.items() if name == text],
        [sweep for sweep in called if sweep.startswith(text)],
    ):
        if len(found) == 1:
            return found[0]
    raise LookupError(f"no sweep is named `{text}`; available: {', '.join(called.values()) or 'none'}")


def wide(store: Store, sweep: str | None = None) -> pl.DataFrame:
    """Returns runs, with one row per run and a column for each measure. With `sweep` (an ID), the table
    contains the sweep's runs and has columns for the labels. Without `sweep`, the table contains all runs and
    has a column for the scenario's name.

    The name of a column is the measure's name. For an older version of a measure, the version is appended to
    the name. Structured values are omitted.
    """
    rows = store.contents().runs()
    if sweep is None:
        before = scenarios(store).select("scenario", pl.col("name").alias(f"{_LABEL}name"))
        rows = rows.join(before, on="scenario", how="left").sort("scenario", "seed")
    else:
        before = _labels(store.records("point", sweep=sweep)).with_row_index("point")
        rows = before.join(rows, on="scenario").sort("point", "seed")
        rows = rows.filter(_OWN)
    first = ["seed", "scenario", "status"]
    measures, columns = _measures(rows, store.contents().shapes())
    used = {*first, *measures}
    labels = {name: name.removeprefix(_LABEL) for name in rows.columns if name.startswith(_LABEL)}
    named = {name: label for name, label in labels.items() if label not in used}
    return pl.concat([rows.select(*labels).rename(named), rows.select(first), columns], how="horizontal")


_LABEL = "label "
"""Prefix of the columns of labels, which distinguishes a label from another column with the same name."""


def _labels(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Returns the points of a sweep in order, with a column for each label."""
    ordered = sorted(records, key=lambda one: int(one["number"]))
    labels = {
        f"{_LABEL}{name}": _column([one["labels"].get(name) for one in ordered])
        for name in dict.fromkeys(name for one in ordered for name in one["labels"])
    }
    scenario = pl.Series([one["scenario"] for one in ordered], dtype=pl.String)
    first_seed = pl.Series([one["first_seed"] for one in ordered], dtype=pl.Int64)
    return pl.DataFrame({"scenario": scenario, "first_seed": first_seed} | labels)


def _column(values: list[Any]) -> pl.Series:
    """Returns the values of a label as a column. Values of mixed types, and tables, are converted to JSON."""
    types = {type(value) for value in values if value is not None}
    if types <= {int, float} or (len(types) == 1 and types <= {str, bool}):
        return pl.Series(values, dtype=pl.Float64 if float in types else None)
    return pl.Series([one if isinstance(one, str) or one is None else json.dumps(one) for one in values])


def _measures(rows: pl.DataFrame, shapes: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    """Returns the names of the measures of these runs, and a frame with a column for each measure."""
    used = shapes.filter(pl.col("shape").is_in(rows["shape"].unique().implode()))
    keys: dict[str, tuple[str, int]] = {}
    newest: dict[str, int] = {}
    for _, of_shape, measures, versions, kinds in used.iter_rows():
        for key, measure, version, kind in zip(of_shape, measures, versions, kinds, strict=True):
            if kind != JSON:
                keys[key] = (measure, version or 0)
                newest[measure] = max(newest.get(measure, 0), version or 0)
    called = {key: name if version == newest[name] else key for key, (name, version) in keys.items()}
    return list(called.values()), numbers(rows, used, called)
