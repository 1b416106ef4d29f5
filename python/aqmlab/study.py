"""Runs studies: makes the runs of their experiments, draws their figures, judges their claims.

A `Study` is a declaration; `run` does the work. Each run is reduced at once to its measures, which go into
the store in the output folder as soon as they are known: whatever stops a study loses nothing, and the
same command goes on where it stopped. A run that fails is reported and does not stop the others.
"""

from __future__ import annotations

import importlib
import json
import math
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import _core, drawing, live_runs, report, stats, study_seeds
from aqmlab.campaign import Account, Executor, Local, Task, execute, settled, together, version
from aqmlab.experiment import Counts, FormName, Planned, Prepare
from aqmlab.files import write_csv, write_text
from aqmlab.metrics import finite
from aqmlab.plot import Chart
from aqmlab.publication import (
    AS_DECIDED,
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
from aqmlab.rule import digest
from aqmlab.runs import Results
from aqmlab.stats import Evidence, Interval
from aqmlab.store import Store
from aqmlab.variable import measured


def load(name: str, *, live: bool = False, today: bool = False) -> Study:
    """The study of this name, or its `live` form, or the one that asks the queues of `today`; or that of a
    Python file, which calls it `STUDY`.

    Raises `KeyError` with the names there are if there is none, and `ValueError` if a file has none.
    """
    from aqmlab.studies import LIVE, STUDIES, TODAY

    if name.endswith(".py") and not live and not today:
        return _of_file(Path(name))
    if name not in STUDIES:
        raise KeyError(f"no study is named `{name}`: there is {', '.join(STUDIES)}")
    if live and name not in LIVE:
        raise KeyError(f"the study `{name}` has no live form: there is one of {', '.join(LIVE)}")
    if today and name not in TODAY:
        known = ", ".join(TODAY)
        raise KeyError(f"the study `{name}` has no form with today's queues: there is one of {known}")
    forms = LIVE if live else TODAY if today else STUDIES
    study = importlib.import_module(forms[name]).STUDY
    assert isinstance(study, Study)
    return study


def _of_file(path: Path) -> Study:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    study = runpy.run_path(str(path), run_name=path.stem).get("STUDY")
    if not isinstance(study, Study):
        raise ValueError(f"{path}: has no STUDY, an aqmlab.publication.Study")
    return study


def titles() -> dict[str, str]:
    """The title of every study, by name."""
    from aqmlab.studies import STUDIES

    return {name: load(name).title for name in STUDIES}


def run(
    study: Study,
    out: Path,
    *,
    quick: bool = False,
    jobs: int | None = None,
    prepare: Prepare | None = None,
    executor: Executor | None = None,
) -> StudyResult:
    """Runs a study and writes `report.html`, `claims.json`, `figures/` and the folder `store` into `out`.

    Makes `jobs` runs at once; if `None`, as many as there are cores, or, of live runs, as many as
    `live_runs.at_once` says. Simulated runs are made by `executor` if there is one. Runs that `out` already
    holds are not made again. Live runs have the machine to themselves. Raises `NotLive` before any run if
    they are impossible here.
    `KeyboardInterrupt` passes through; what is finished by then is kept.
    """
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    main = _plan(study, "quick" if quick else "full", None, prepare)
    variants = [
        (variant, _plan(study, "varied-quick" if quick else "varied", variant, prepare))
        for variant in ((AS_DECIDED, *study.all_variants) if study.all_variants else ())
    ]
    store = Store(out / "store")
    here = executor or Local(jobs=jobs)
    live = [planned for planned in main if planned.experiment.live]
    simulated = [planned for planned in main if not planned.experiment.live]
    live_tasks = _tasks(live, {})
    kept = store.runs_of([task.scenario.digest for task in live_tasks])
    if not all(settled(kept.get(task.run), task.keys, retry=True) for task in live_tasks):
        live_runs.need()
    account = Account()
    timing: dict[str, Any] = {}

    def make(label: str, tasks: Sequence[Task], executor: Executor) -> None:
        at, before, wanted = time.monotonic(), account.made, together(tasks)
        said = f"{study.name}: {label}"
        total = len(wanted)
        execute(wanted, store, executor=executor, label=said, total=total, account=account, retry=True)
        made = account.made - before
        timing[label] = {"runs": total, "made now": made, "seconds": time.monotonic() - at}

    counts: Counts = {}
    looks = 1 if quick or live else study_seeds.LOOKS
    with store:
        make("main runs", _tasks(simulated, counts), here)
        for look in range(1, looks):
            grown = study_seeds.more(
                study, counts, study_seeds.wanting(study, _collect(main, store, counts), looks)
            )
            if grown == counts:
                break
            counts = grown
            make(f"more seeds, look {look + 1}", _tasks(simulated, counts), here)
        make("sensitivity", [task for _, plans in variants for task in _tasks(plans, {})], here)
        if live:
            apart = Local(jobs=jobs or live_runs.at_once(), apart_s=live_runs.APART_S)
            make("live", live_tasks, apart)
    results = _collect(main, store, counts)
    told = varied_claims(study, quick)
    at = time.monotonic()
    drawn = _draw(study.figures, results, out / "figures", jobs)
    timing["figures"] = {"seconds": time.monotonic() - at}
    result = StudyResult(
        study=study,
        quick=quick,
        judged=judged(study, study.claims, results, study_seeds.level(looks)),
        drawn=drawn,
        tables=tuple((table, _tabulate(table, results, out / "figures")) for table in study.tables),
        sensitivity=tuple(
            (variant, judged(study, told, _collect(plans, store, {}), varied=True))
            for variant, plans in variants
        ),
        failures=tuple(account.failures),
        warnings=tuple(_warn(study, results)),
        floors=_floors(study, results),
        level=study_seeds.level(looks),
        provenance=_provenance(main, store, counts, timing, time.monotonic() - began),
        report=out / "report.html",
    )
    write_text(out / "claims.json", json.dumps(records(result), indent=2, ensure_ascii=False) + "\n")
    write_text(result.report, report.render(result))
    return result


def _plan(study: Study, form: FormName, variant: Variant | None, prepare: Prepare | None) -> list[Planned]:
    if variant is None:
        return [one.plan(one.sweep(form), prepare) for one in study.experiments]
    return [one.plan(one.sweep(form, variant.change), prepare) for one in study.experiments if one.varied]


def _tasks(plans: Sequence[Planned], counts: Counts) -> list[Task]:
    return [task for planned in plans for _, task in planned.tasks(counts)]


def _collect(plans: Sequence[Planned], store: Store, counts: Counts) -> Results:
    return {planned.experiment.name: planned.collect(store, counts) for planned in plans}


# Judging


def judged(
    study: Study,
    claims: Sequence[Claim],
    results: Results,
    level: float = stats.LEVEL,
    *,
    varied: bool = False,
) -> Verdicts:
    """The evidence for claims, for each reading of the study, by intervals of this level. `varied` leaves out
    readings of other runs, which no variant changes, and those for which no variant is run."""
    return Verdicts(
        Judged(claim=claim, reading=reading, evidence=_judge(claim, reading, results, level))
        for claim in claims
        for reading in study.readings_of(claim)
        if not varied or _is_varied(reading, claim, results)
    )


def _is_varied(reading: Reading, claim: Claim, results: Results) -> bool:
    axes = [results[one.name].axes for variable in claim.rule.variables for one in variable.experiments]
    return reading.runs is None and all(
        value in of_one[label]
        for of_one in axes
        for label, value in reading.labels.items()
        if label in of_one
    )


def _judge(claim: Claim, reading: Reading, results: Results, level: float) -> Evidence:
    try:
        found = reading.runs(results) if reading.runs else results
        return claim.rule.at(reading.labels).judge(found, level)
    except Exception as problem:  # A claim that cannot be judged must not hide the others.
        return Evidence(verdict="undecided", measured=f"could not be judged: {_named(problem)}")


def varied_claims(study: Study, quick: bool) -> list[Claim]:
    """The claims that variants can tell something of: the values that they choose are run there, too."""
    form: FormName = "varied-quick" if quick else "varied"
    axes = {
        one.name: {axis.label: tuple(axis.values) for axis in one.sweep(form).all_axes}
        for one in study.experiments
        if one.varied
    }

    def told(claim: Claim) -> bool:
        leaves = [leaf for variable in claim.rule.variables for leaf in measured(variable)]
        return all(
            leaf.experiment.name in axes
            and all(value in axes[leaf.experiment.name][label] for label, value in leaf.chosen.items())
            and all(set(some) & set(axes[leaf.experiment.name][label]) for label, some in leaf.fewer.items())
            for leaf in leaves
        )

    return [claim for claim in study.claims if told(claim)]


def _draw(figures: Sequence[Figure], results: Results, folder: Path, jobs: int | None) -> tuple[Drawn, ...]:
    charts: dict[str, Chart] = {}
    problems: dict[str, str] = {}
    for figure in figures:
        try:
            charts[figure.id] = figure.chart(results)
        except Exception as problem:  # Nor must a figure.
            problems[figure.id] = _named(problem)
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


def _tabulate(table: Table, results: Results, folder: Path) -> pl.DataFrame | str:
    try:
        frame = table.table(results)
        write_csv(folder / f"{table.id}.csv", frame)
        return frame
    except Exception as problem:  # Nor a table.
        return f"could not be made: {_named(problem)}"


def _warn(study: Study, results: Results) -> list[str]:
    try:
        return study.checks(results)
    except Exception as problem:  # Nor a check.
        return [f"checks could not be made: {_named(problem)}"]


def _floors(study: Study, results: Results) -> tuple[Floor, ...]:
    try:
        return tuple(study.floors(results))
    except Exception:  # Nor what equal systems show; the table of it, if there is one, tells why.
        return ()


def _named(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def records(result: StudyResult) -> dict[str, Any]:
    """What is written of a study's verdicts."""
    return {
        "study": result.study.name,
        "quick": result.quick,
        "live": any(one.live for one in result.study.experiments),
        "version": version(),
        "results_version": _core.RESULTS_VERSION,
        "runs": result.provenance["runs"],
        "level": _rounded(result.level),
        "claims": [_record(result.study, one) for one in result.judged],
        "variants": {
            variant.name: {one.id: _found(one.evidence) for one in verdicts}
            for variant, verdicts in result.sensitivity
        },
        "floors": [
            {
                "claim": one.claim,
                "where": dict(one.where),
                "claimed": str(one.band),
                "measured": _told(one.measured),
                "equal": _told(one.equal),
            }
            for one in result.floors
        ],
    }


def _record(study: Study, one: Judged) -> dict[str, Any]:
    parts = one.evidence.parts or (one.evidence,)
    return {
        "id": one.id,
        "claim": one.claim.id,
        "reading": one.reading.name,
        "statement": one.claim.statement,
        "source": one.claim.source,
        "origin": one.claim.origin,
        "rule": study.rule_of(one.claim).text,
        "digest": digest(one.claim.rule.definition),
        **_found(one.evidence),
        "one_is_enough": one.evidence.one_of,
        "parts": [_part(part) for part in parts],
    }


def _part(part: Evidence) -> dict[str, Any]:
    (known_to,) = finite([part.known_to])
    return {
        "what": part.what,
        "context": part.context,
        "where": dict(part.where),
        "claimed": "" if part.band is None else str(part.band),
        **_found(part),
        "seeds": part.count,
        "known_to": known_to,
        "measured": part.measured,
        **({"one_of" if part.one_of else "all_of": [_part(one) for one in part.parts]} if part.parts else {}),
    }


def _found(evidence: Evidence) -> dict[str, Any]:
    """A verdict with the number and the interval that decide: an end that is `None` is infinite. The level is
    told where it is another than that of the whole file, and `median` where the number is none of means."""
    return {
        "verdict": evidence.verdict,
        **_told(evidence),
        **({"level": _rounded(evidence.level)} if evidence.wider else {}),
        **({"median": True} if evidence.median else {}),
    }


def _told(found: Evidence | Interval) -> dict[str, Any]:
    value, *ends = finite([_rounded(one) for one in (found.value, found.low, found.high)])
    known = not (math.isnan(found.low) or math.isnan(found.high))
    return {"value": value, "interval": ends if known else None}


def _rounded(value: float) -> float:
    """Six significant digits, which no reader misses, and which are the same on every machine."""
    return float(f"{value:.6g}")


def _provenance(
    main: Sequence[Planned], store: Store, counts: Counts, timing: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """What the report prints so that a reader can repeat and check every number."""
    tasks = {one.experiment.name: [task for _, task in one.tasks(counts)] for one in main}
    all_tasks = [task for some in tasks.values() for task in some]
    kept = store.runs_of(list({task.scenario.digest for task in all_tasks}))
    records = {task.run: kept[task.run] for task in all_tasks if task.run in kept}
    first: dict[str, dict[str, Any]] = {}
    for one in main:
        for task in tasks[one.experiment.name]:
            if task.run in records and task.seed == one.experiment.first_seed:
                live = records[task.run].live or {}
                said = live.get("scenario", task.scenario.effective)
                first.setdefault(task.name, {"digest": task.scenario.digest, "scenario": said})
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
        "live": live_runs.together(one.live for one in records.values() if one.live is not None),
    }
