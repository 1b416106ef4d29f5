"""The values of all runs of a study as a Parquet file. The study's claims can be judged from this file
without executing runs.

A row contains one measure of one run: the experiment, the variant (empty for the main runs), the labels of
the point, the digest of its scenario, the seed, the measure with its version, and the value (a number, a list
of numbers, or any other value as JSON). The file contains all numbers of the main runs. Lists are included
only for measures that claims use. For variants, only measures that claims use are included. The metadata of
the file contain the study, the form, the results version, the package version, the confidence level of the
intervals and, in a published file, the commit.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import _core
from aqmlab._support.files import write_bytes
from aqmlab.campaign import complete, version
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults, Results, Row
from aqmlab.results.variable import measured
from aqmlab.store import Store
from aqmlab.study import points as study_points
from aqmlab.study.experiment import Counts, Experiment, FormName, Planned
from aqmlab.study.publication import Study

FILE = "values.parquet"

SCHEMA = pl.Schema(
    {
        "experiment": pl.String(),
        "variant": pl.String(),
        "point": pl.String(),
        "scenario": pl.String(),
        "seed": pl.UInt32(),
        "measure": pl.String(),
        "value": pl.Float64(),
        "values": pl.List(pl.Float64()),
        "json": pl.String(),
    }
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """The main runs of a study, or the runs of the named variant."""

    plans: Sequence[Planned]
    counts: Counts
    variant: str = ""


def write(
    path: Path, study: Study, parts: Sequence[Part], store: Store, level: float, *, quick: bool
) -> None:
    """For each of these parts, writes the values of the runs that are in the store."""
    judged = {
        (leaf.experiment.name, leaf.measure.key)
        for claim in study.claims
        for variable in claim.rule.variables
        for leaf in measured(variable)
    }
    rows = [row for part in parts for row in _rows(part, store, judged)]
    metadata = {
        "study": study.name,
        "live": json.dumps(any(one.live for one in study.experiments)),
        "quick": json.dumps(quick),
        "level": json.dumps(level),
        "version": version(),
        "results_version": json.dumps(_core.RESULTS_VERSION),
    }
    _save(path, pl.DataFrame(rows, schema=SCHEMA, orient="row"), metadata)


def publish(source: Path, target: Path, *, digits: int | None = None, **about: str) -> None:
    """Copies a file of values and adds metadata `about` the runs, for example the `commit`. With `digits`,
    numbers are rounded to this number of significant digits."""
    frame = pl.read_parquet(source)
    if digits is not None:
        frame = frame.with_columns(pl.col("value").round_sig_figs(digits))
    _save(target, frame, {**metadata_of(source), **about})


def metadata_of(path: Path) -> dict[str, str]:
    """Returns the metadata of a file of values."""
    found = pl.read_parquet_metadata(path)
    return {key: value for key, value in found.items() if not key.startswith("ARROW")}


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values of a file as results of the main runs and of each variant."""

    main: ExperimentResults
    variants: Mapping[str, ExperimentResults]
    level: float
    quick: bool


def read(path: Path, study: Study) -> Values:
    """Reads the values of a file for a study.

    Raises `ValueError` if the file belongs to another study, or lacks a measure of a claim.
    """
    about = metadata_of(path)
    if about.get("study") != study.name:
        raise ValueError(f"{path}: contains values of the study {about.get('study')}, not of {study.name}")
    frame = pl.read_parquet(path)
    quick = bool(json.loads(about["quick"]))
    _check_measures(path, study, frame)
    by_variant = {
        str(name): part for (name,), part in frame.partition_by("variant", as_dict=True).items() if name
    }
    main_form: FormName = "quick" if quick else "full"
    varied_form: FormName = "varied-quick" if quick else "varied"
    some = [one for one in study.experiments if one.varied is not None]
    names = {one.name for one in study.all_variants}
    main = frame.filter(pl.col("variant") == "")
    return Values(
        main=_results(study.experiments, main_form, main),
        variants={
            name: _results(some, varied_form, part) for name, part in by_variant.items() if name in names
        },
        level=float(json.loads(about["level"])),
        quick=quick,
    )


def other_scenarios(path: Path, study: Study) -> int:
    """Returns the number of points whose scenario in a file of values differs from the scenario in the
    current study."""
    form: FormName = "quick" if json.loads(metadata_of(path)["quick"]) else "full"
    frame = pl.read_parquet(path, columns=["variant", "experiment", "point", "scenario"])
    recorded = frame.filter(pl.col("variant") == "").drop("variant").unique()
    current = set()
    for one in study.experiments:
        for labels, scenario in one.plan(one.sweep(form)).points:
            if one.of_seed is None:
                current.add((one.name, _point(labels), scenario(one.first_seed).digest))
    fixed = {one.name for one in study.experiments if one.of_seed is None}
    return sum(row[0] in fixed and row not in current for row in recorded.iter_rows())


def _rows(part: Part, store: Store, judged: set[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    for planned in part.plans:
        name = planned.experiment.name
        tasks = planned.tasks(part.counts)
        kept = store.runs_of(list({task.scenario.digest for _, task in tasks}))
        for labels, task in tasks:
            record = kept.get(task.run)
            if record is None or not complete(record, task.keys):
                continue
            for key in task.keys:
                of_claim = (name, key) in judged
                value = record.values.get(key)
                number = isinstance(value, int | float) and not isinstance(value, bool)
                if value is None or not (of_claim or (number and not part.variant)):
                    continue
                run = (name, part.variant, _point(labels), task.scenario.digest, task.seed, key)
                yield (*run, *_columns(value, number=number))


def _columns(value: Any, *, number: bool) -> tuple[float | None, list[float] | None, str | None]:
    if number:
        return float(value), None, None
    if isinstance(value, list) and all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in value
    ):
        return None, [float(one) for one in value], None
    return None, None, json.dumps(value, ensure_ascii=False)


def _point(labels: Labels) -> str:
    return json.dumps(list(labels.values()), ensure_ascii=False)


def _results(experiments: Sequence[Experiment], form: FormName, frame: pl.DataFrame) -> ExperimentResults:
    empty = study_points.without_runs(experiments, form)
    of_each = {str(name): part for (name,), part in frame.partition_by("experiment", as_dict=True).items()}
    return {
        one.name: replace(
            Results.of_rows(rows=tuple(_runs(one, form, of_each.get(one.name))), axes=empty[one.name].axes),
            given_points=empty[one.name].given_points,
        )
        for one in experiments
    }


def _runs(experiment: Experiment, form: FormName, frame: pl.DataFrame | None) -> Iterator[Row]:
    if frame is None:
        return
    names = {one.key: one.name for one in experiment.wanted}
    points = {_point(point.labels): point.labels for point in experiment.sweep(form).points()}
    runs: dict[tuple[str, int], dict[str, Any]] = {}
    for point, seed, key, value, values, other in frame.select(
        "point", "seed", "measure", "value", "values", "json"
    ).iter_rows():
        if point in points and key in names:
            found = value if value is not None else values if values is not None else json.loads(other)
            runs.setdefault((point, seed), {})[names[key]] = found
    none = dict.fromkeys(names.values())
    for (point, seed), found in runs.items():
        yield Row(labels=points[point], seed=seed, values={**none, **found})


def _check_measures(path: Path, study: Study, frame: pl.DataFrame) -> None:
    available = set(frame.select("experiment", "measure").unique().iter_rows())
    lacking = sorted(
        {
            f"{leaf.experiment.name}: {leaf.measure.key}"
            for claim in study.claims
            for variable in claim.rule.variables
            for leaf in measured(variable)
            if (leaf.experiment.name, leaf.measure.key) not in available
        }
    )
    if lacking:
        raise ValueError(
            f"{path}: does not contain measures that claims of {study.name} use: {', '.join(lacking)}; run "
            "the study again with `aqmlab study run`"
        )


def _save(path: Path, frame: pl.DataFrame, metadata: Mapping[str, str]) -> None:
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd", compression_level=15, metadata=dict(metadata))
    write_bytes(path, file.getvalue())
