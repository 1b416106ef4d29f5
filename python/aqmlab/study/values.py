"""The values of every run of a study as a Parquet file, from which its claims are judged again without a run.

A row is a measure of a run: the experiment, the variant (empty for the main runs), the labels of the point
and the digest of its scenario, the seed, the measure with its version, and the value: a number, a list of
numbers, or anything else as JSON. The file has all numbers of the main runs, lists only of measures that
claims are about, and of variants the measures of claims only. Its metadata say what was run: study, form,
results version, package, level of the intervals, and the commit once the file is published.
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
    """The runs of a study, or of one of its variants, which has a name."""

    plans: Sequence[Planned]
    counts: Counts
    variant: str = ""


def write(
    path: Path, study: Study, parts: Sequence[Part], store: Store, level: float, *, quick: bool
) -> None:
    """Writes the values of all runs that the store has of these parts."""
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


def publish(made: Path, published: Path, *, digits: int | None = None, **about: str) -> None:
    """Copies a file of values and adds what is said `about` its runs, such as their `commit`. With `digits`
    numbers keep so many significant ones."""
    frame = pl.read_parquet(made)
    if digits is not None:
        frame = frame.with_columns(pl.col("value").round_sig_figs(digits))
    _save(published, frame, {**metadata_of(made), **about})


def metadata_of(path: Path) -> dict[str, str]:
    """What the file says of its runs."""
    found = pl.read_parquet_metadata(path)
    return {key: value for key, value in found.items() if not key.startswith("ARROW")}


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values of a file as results: of the main runs, and of each variant."""

    main: ExperimentResults
    variants: Mapping[str, ExperimentResults]
    level: float
    quick: bool
    other_scenarios: int
    """How many points were run of other scenarios than the study has today."""


def read(path: Path, study: Study) -> Values:
    """The values of a file, for a study to judge.

    Raises `ValueError` if the file is of another study, or lacks a measure that claims are about.
    """
    about = metadata_of(path)
    if about.get("study") != study.name:
        raise ValueError(f"{path}: has values of the study {about.get('study')}, not of {study.name}")
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
        other_scenarios=_other_scenarios(study, main_form, main),
    )


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
                about_it = (name, key) in judged
                value = record.values.get(key)
                number = isinstance(value, int | float) and not isinstance(value, bool)
                if value is None or not (about_it or (number and not part.variant)):
                    continue
                run = (name, part.variant, _point(labels), task.scenario.digest, task.seed, key)
                yield (*run, *_told(value, number=number))


def _told(value: Any, *, number: bool) -> tuple[float | None, list[float] | None, str | None]:
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
    there = set(frame.select("experiment", "measure").unique().iter_rows())
    lacking = sorted(
        {
            f"{leaf.experiment.name}: {leaf.measure.key}"
            for claim in study.claims
            for variable in claim.rule.variables
            for leaf in measured(variable)
            if (leaf.experiment.name, leaf.measure.key) not in there
        }
    )
    if lacking:
        raise ValueError(
            f"{path}: lacks measures that claims of {study.name} are about: {', '.join(lacking)}; run the "
            "study again with `aqmlab study run`"
        )


def _other_scenarios(study: Study, form: FormName, frame: pl.DataFrame) -> int:
    ran = frame.select("experiment", "point", "scenario").unique()
    today = set()
    for one in study.experiments:
        for labels, scenario in one.plan(one.sweep(form)).points:
            if one.of_seed is None:
                today.add((one.name, _point(labels), scenario(one.first_seed).digest))
    fixed = {one.name for one in study.experiments if one.of_seed is None}
    return sum(row[0] in fixed and row not in today for row in ran.iter_rows())


def _save(path: Path, frame: pl.DataFrame, metadata: Mapping[str, str]) -> None:
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd", compression_level=15, metadata=dict(metadata))
    write_bytes(path, file.getvalue())
