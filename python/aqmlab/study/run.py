"""Runs studies: executes the runs of experiments, plots figures and judges claims.

A `Study` is a declaration, and `run` executes the study. The measures of each run are computed as soon as the
run finishes, and are immediately written to the store in the output folder. Therefore, no finished run is
lost if the study is interrupted, and the same command resumes the study. A failed run is reported and does
not stop the other runs.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab._support.files import write_csv, write_text
from aqmlab.campaign import (
    Account,
    Executor,
    InvalidScenario,
    Local,
    Runnable,
    Task,
    execute,
    merged,
    settled,
    version,
)
from aqmlab.campaign import live as live_runs
from aqmlab.charts import drawing
from aqmlab.charts.chart import Chart
from aqmlab.results.table import ExperimentResults
from aqmlab.stats import Evidence
from aqmlab.store import Store
from aqmlab.study import points as study_points
from aqmlab.study import records as study_records
from aqmlab.study import report
from aqmlab.study import seeds as study_seeds
from aqmlab.study import values as study_values
from aqmlab.study.experiment import Counts, FormName, Planned, Prepare
from aqmlab.study.publication import (
    Claim,
    Drawn,
    Figure,
    Floor,
    Judged,
    Reading,
    Study,
    StudyResult,
    Table,
    Variant,
    Verdicts,
)


def run(
    study: Study,
    out: Path,
    *,
    quick: bool = False,
    jobs: int | None = None,
    prepare: Prepare | None = None,
    executor: Executor | None = None,
    claims: Sequence[str] = (),
    figures: Sequence[str] = (),
    source: str = "",
    store_at: Path | None = None,
) -> StudyResult:
    """Runs a study and writes `report.html`, `claims.json`, `values.parquet`, `figures/` and the folder
    `store` into `out`. With `claims` or `figures` (IDs of figures or tables), only these claims, figures and
    tables are judged and plotted, without variants. Only the necessary runs are executed, and the report is
    written to `part.html`. Raises `KeyError` if an ID does not exist. `source` is the command that runs the
    study, without options; the default is `study run` with the study's name. `store_at` is the folder of the
    store, which is needed if several studies share a store.

    `jobs` is the number of concurrent runs. The default is the number of cores, or for live runs the result
    of `live_runs.at_once`. If an `executor` is given, it executes the simulated runs. Runs that are already
    stored in `out` are not repeated. Live runs are executed while no simulation is running. Before any run,
    raises `NotLive` if live runs are impossible on this machine, and `ValueError` if a scenario cannot be run
    live. `KeyboardInterrupt` is re-raised after finished runs have been stored.
    """
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    form: FormName = "quick" if quick else "full"
    main = _plan(study, form, None, prepare)
    looks = 1 if quick else study_seeds.looks(study)
    if claims or figures:
        study = study_points.chosen(study, claims, figures)
        names = {one.name for one in study.experiments}
        main = [planned for planned in main if planned.experiment.name in names]
        needed = study_points.needed_by_chosen(study, form)
        if needed is not None:
            main = [planned.among(needed) for planned in main]
    if prepare is None:
        _check_scenarios(main)
    if of_measures := _check_measures(study, out / MEASURES):
        write_text(out / MEASURES, json.dumps(of_measures, indent=1) + "\n")
    variants = _varied(study, quick, prepare)
    store = Store(store_at or out / "store")
    here = executor or Local(jobs=jobs)
    live = [planned for planned in main if planned.experiment.live]
    simulated = [planned for planned in main if not planned.experiment.live]
    live_tasks = _tasks(live, {})
    kept = store.runs_of([task.scenario.digest for task in live_tasks])
    if not all(settled(kept.get(task.run), task.keys, retry=True) for task in live_tasks):
        live_runs.need(_first_scenarios(live))
    account = Account()
    timing: dict[str, Any] = {}

    def make(label: str, tasks: Sequence[Task], executor: Executor) -> None:
        at, before, wanted = time.monotonic(), account.made, merged(tasks)
        full_label = f"{study.name}: {label}"
        total = len(wanted)
        execute(wanted, store, executor=executor, label=full_label, total=total, account=account, retry=True)
        made = account.made - before
        timing[label] = {"runs": total, "made now": made, "seconds": time.monotonic() - at}

    pairs = [(claim, reading) for claim in study.claims for reading in study.readings_of(claim)]
    counts: Counts = {}
    with store:
        make("main runs", _tasks(simulated, counts), here)
        for look in range(1, looks):
            open_points = study_seeds.undecided_points(pairs, _collect(main, store, counts), looks)
            grown = study_seeds.next_counts(study, counts, open_points)
            if grown == counts:
                break
            counts = grown
            make(f"more seeds, look {look + 1}", _tasks(simulated, counts), here)
        level = study_seeds.level(looks)
        main_verdicts = judged(study, study.claims, _collect(main, store, counts), level)
        decided = {one.id for one in main_verdicts if one.evidence.verdict != "undecided"}
        make("sensitivity", [task for one in variants for task in _tasks(one.plans, one.counts)], here)
        for look in range(1, looks):
            has_grown = [one.grow(decided, counts, store, looks) for one in variants]
            if not any(has_grown):
                break
            more = [task for one in variants for task in _tasks(one.plans, one.counts)]
            make(f"sensitivity, look {look + 1}", more, here)
        if virtual := [task for task in live_tasks if isinstance(task.scenario, live_runs.VirtualRuns)]:
            make("virtual", virtual, Local(jobs=jobs or os.cpu_count()))
        if real := [task for task in live_tasks if not isinstance(task.scenario, live_runs.VirtualRuns)]:
            apart = Local(jobs=jobs or live_runs.at_once(), apart_s=live_runs.APART_S)
            make("live", real, apart)
    results = _collect(main, store, counts)
    at = time.monotonic()
    drawn = _draw(study.figures, results, out / "figures", jobs)
    timing["figures"] = {"seconds": time.monotonic() - at}
    result = StudyResult(
        study=study,
        quick=quick,
        judged=judged(study, study.claims, results, level),
        drawn=drawn,
        tables=tuple((table, _tabulate(table, results, out / "figures")) for table in study.tables),
        sensitivity=tuple(
            (one.variant, judged_under(one.claims, _collect(one.plans, store, one.counts), level))
            for one in variants
        ),
        failures=tuple(account.failures),
        warnings=tuple(_warn(study, results)),
        floors=_floors(study, results, level),
        level=level,
        provenance=_provenance(main, store, counts, timing, time.monotonic() - began),
        report=out / ("part.html" if claims or figures else "report.html"),
        results=results,
        source=source or f"study run {study.name}{' --live' if live else ''}",
    )
    parts = [
        study_values.Part(plans=main, counts=counts),
        *(
            study_values.Part(plans=one.plans, counts=one.counts, variant=one.variant.name)
            for one in variants
        ),
    ]
    if not (claims or figures):
        study_values.write(out / study_values.FILE, study, parts, store, level, quick=quick)
        text = json.dumps(study_records.records(result), indent=2, ensure_ascii=False)
        write_text(out / "claims.json", text + "\n")
        for _ in study.attachments(out):
            pass
    write_text(result.report, report.render(result))
    return result


def _first_scenarios(plans: Sequence[Planned]) -> Iterator[Runnable]:
    """Returns the run of each point with the first seed."""
    for planned in plans:
        for _, scenario in planned.points:
            yield scenario(planned.experiment.first_seed)


def _check_scenarios(plans: Sequence[Planned]) -> None:
    """Raises `ValueError` with one line per error if the core rejects the scenario of a point."""
    problems = {str(made.problem) for made in _first_scenarios(plans) if isinstance(made, InvalidScenario)}
    if problems:
        raise ValueError("\n".join(sorted(problems)))


MEASURES = "measures.json"
"""File with digests of the code of the measures that the study's own file declares."""


def _check_measures(study: Study, path: Path) -> dict[str, list[str]]:
    """Returns the digests of the measures that the study's own file declares, by key, merged with the digests
    in the folder. Raises `ValueError` if the code or the unit of a measure has changed without a new version
    since the values in the folder were computed."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = {
        one.key: [one.fingerprint, one.unit, python]
        for experiment in study.experiments
        for one in experiment.wanted
        if not (one.compute.__module__ or "").startswith("aqmlab.")
    }
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for key, (code, unit, by) in own.items():
        old_code, old_unit, old_by = before.get(key, (code, unit, by))
        change = "its code has changed"
        if unit != old_unit:
            change = f"its unit changed from `{old_unit}` to `{unit}`"
        if unit != old_unit or (code != old_code and by == old_by):
            name, _, version = key.rpartition("@")
            raise ValueError(
                f"measure {name}: {change} since the values of version {version} in {path.parent} were "
                f"computed: set version={int(version) + 1} in the measure, or select another folder with "
                "--out"
            )
    return {**before, **own}


@dataclass(kw_only=True)
class _Varied:
    """The runs of a variant, with the claims that are judged from these runs."""

    study: Study
    variant: Variant
    plans: Sequence[Planned]
    claims: Sequence[tuple[Claim, Reading]]
    counts: Counts = field(default_factory=dict)

    def grow(self, decided: Collection[str], limits: Counts, store: Store, looks: int) -> bool:
        """Adds seeds for claims that are undecided under this variant and whose main verdict is decided,
        because the variant might reverse the verdict. The number of seeds is limited to the number of seeds
        of the main runs. Returns whether seeds were added."""
        claims = [one for one in self.claims if one[0].id + one[1].suffix in decided]
        undecided = study_seeds.undecided_points(claims, _collect(self.plans, store, self.counts), looks)
        before = [len(one.tasks(self.counts)) for one in self.plans]
        self.counts = study_seeds.next_counts(self.study, self.counts, undecided, limits)
        return before != [len(one.tasks(self.counts)) for one in self.plans]


def _varied(study: Study, quick: bool, prepare: Prepare | None) -> list[_Varied]:
    if not study.all_variants:
        return []
    varied = study_points.varied(study, quick=quick)
    needed = {point for _, _, points in varied for point in points}
    form: FormName = "varied-quick" if quick else "varied"
    return [
        _Varied(
            study=study,
            variant=variant,
            plans=[planned.among(needed) for planned in _plan(study, form, variant, prepare)],
            claims=[(claim, reading) for claim, reading, _ in varied],
        )
        for variant in study.all_variants
    ]


def judge(study: Study, path: Path) -> StudyResult:
    """Judges the claims of a study from the published values of its runs (`study.values`), without executing
    runs. The verdicts are the same as after a run of the study. Figures and tables are omitted. Raises
    `ValueError` if the file belongs to another study, or if a measure of the study's own file has changed
    since the values were published (`measures.json` next to the values)."""
    _check_measures(study, path.with_name(MEASURES))
    found = study_values.read(path, study)
    varied = [(claim, reading) for claim, reading, _ in study_points.varied(study, quick=found.quick)]
    by_name = {one.name: one for one in study.all_variants}
    count = study_values.other_scenarios(path, study)
    other = f"{count} points were run with scenarios that differ from the study's present scenarios"
    return StudyResult(
        study=study,
        quick=found.quick,
        judged=judged(study, study.claims, found.main, found.level),
        drawn=(),
        tables=(),
        sensitivity=tuple(
            (by_name[name], judged_under(varied, results, found.level))
            for name, results in found.variants.items()
        ),
        failures=(),
        warnings=(other,) if count else (),
        floors=_floors(study, found.main, found.level),
        level=found.level,
        provenance={"runs": sum(one.frame.height for one in found.main.values()), "live": None},
        report=path,
        results=found.main,
    )


def _plan(study: Study, form: FormName, variant: Variant | None, prepare: Prepare | None) -> list[Planned]:
    if variant is None:
        return [one.plan(one.sweep(form), prepare) for one in study.experiments]
    return [one.plan(one.sweep(form, variant.change), prepare) for one in study.experiments if one.varied]


def _tasks(plans: Sequence[Planned], counts: Counts) -> list[Task]:
    return [task for planned in plans for _, task in planned.tasks(counts)]


def _collect(plans: Sequence[Planned], store: Store, counts: Counts) -> ExperimentResults:
    return {planned.experiment.name: planned.collect(store, counts) for planned in plans}


# Judging


def judged(
    study: Study, claims: Sequence[Claim], results: ExperimentResults, level: float = stats.LEVEL
) -> Verdicts:
    """Returns the evidence for claims, for each reading of the study, with intervals at this confidence
    level."""
    return judged_under(
        [(claim, reading) for claim in claims for reading in study.readings_of(claim)], results, level
    )


def judged_under(
    several: Sequence[tuple[Claim, Reading]], results: ExperimentResults, level: float = stats.LEVEL
) -> Verdicts:
    """Returns the evidence for pairs of a claim and a reading."""
    return Verdicts(
        Judged(claim=claim, reading=reading, evidence=_judge(claim, reading, results, level))
        for claim, reading in several
    )


def _judge(claim: Claim, reading: Reading, results: ExperimentResults, level: float) -> Evidence:
    try:
        found = reading.runs(results) if reading.runs else results
        return claim.rule.at(reading.labels).judge(found, level)
    except Exception as problem:  # A claim that cannot be judged must not prevent the output of other claims.
        return Evidence(verdict="undecided", measured=f"could not be judged: {_error_text(problem)}")


def _draw(
    figures: Sequence[Figure], results: ExperimentResults, folder: Path, jobs: int | None
) -> tuple[Drawn, ...]:
    charts: dict[str, Chart] = {}
    problems: dict[str, str] = {}
    for figure in figures:
        try:
            charts[figure.id] = figure.draws(results)
        # A figure that cannot be plotted must not prevent the output of other figures.
        except Exception as problem:
            problems[figure.id] = _error_text(problem)
    wanted = [figure for figure in figures if figure.id in charts]
    orders = [drawing.Order(charts[figure.id], folder, figure.file) for figure in wanted]
    paths: dict[str, Mapping[str, Path]] = {}
    for figure, saved in zip(wanted, drawing.save_each(orders, jobs=jobs), strict=True):
        if isinstance(saved, str):
            problems[figure.id] = saved
        else:
            paths[figure.id] = saved
    return tuple(
        Drawn(figure=one, chart=None, problem=f"could not be drawn: {problems[one.id]}")
        if one.id in problems
        else Drawn(figure=one, chart=charts[one.id], paths=paths[one.id])
        for one in figures
    )


def _tabulate(table: Table, results: ExperimentResults, folder: Path) -> pl.DataFrame | str:
    try:
        frame = table.tabulates(results)
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(folder / f"{table.id}.csv", frame)
        return frame
    # A table that cannot be computed must not prevent the output of other tables.
    except Exception as problem:
        return f"could not be computed: {_error_text(problem)}"


def _warn(study: Study, results: ExperimentResults) -> list[str]:
    try:
        return study.checks(results)
    except Exception as problem:  # A check that raises an error must not prevent the output of the results.
        return [f"checks failed: {_error_text(problem)}"]


def _floors(study: Study, results: ExperimentResults, level: float) -> tuple[Floor, ...]:
    try:
        return tuple(study.floors(results, level))
    # If the values for equal systems cannot be computed, the results must still be output. A table of these
    # values, if there is one, shows the error.
    except Exception:
        return ()


def _error_text(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _provenance(
    main: Sequence[Planned], store: Store, counts: Counts, timing: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Returns the information that a reader needs to reproduce and check every number. The report prints this
    information."""
    tasks = {one.experiment.name: [task for _, task in one.tasks(counts)] for one in main}
    all_tasks = [task for some in tasks.values() for task in some]
    kept = store.runs_of(list({task.scenario.digest for task in all_tasks}))
    records = {task.run: kept[task.run] for task in all_tasks if task.run in kept}
    first: dict[str, dict[str, Any]] = {}
    for one in main:
        for task in tasks[one.experiment.name]:
            if task.run in records and task.seed == one.experiment.first_seed:
                live = records[task.run].live or {}
                effective = live.get("scenario", task.scenario.effective)
                first.setdefault(task.name, {"digest": task.scenario.digest, "scenario": effective})
    cpu = [one.cpu_s for one in records.values() if one.cpu_s is not None and one.live is None]
    return {
        "version": version(),
        "python": sys.version.split()[0],
        "polars": pl.__version__,
        "seeds": {name: sorted({task.seed for task in some}) for name, some in tasks.items()},
        "scenarios": first,
        "runs": len(records),
        "cpu_s": math.fsum(cpu) if cpu else None,
        "timing": timing,
        "seconds": seconds,
        "live": live_runs.merged_facts(one.live for one in records.values() if one.live is not None),
        "virtual": live_runs.merged_facts(
            (one.live for one in records.values() if one.live is not None), virtual=True
        ),
    }
