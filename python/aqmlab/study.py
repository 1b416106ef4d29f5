"""Runs studies: makes the runs of their grids, draws their figures, judges their claims.

A [`Study`] is data and functions; [`run`] does the work. Each run is reduced at once to a small
table of numbers by its grid's `reduce`, which goes into the store in the output folder as soon as it is
known: whatever stops a study loses nothing, and the same command goes on where it stopped. A run that
fails is reported and does not stop the others.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import drawing, live_runs, report
from aqmlab.campaign import Account, Executor, Local, execute, settled, version
from aqmlab.files import write_csv, write_text
from aqmlab.grid import Grid, Prepare, Results
from aqmlab.grid_plan import Plan, collect, plan_of, tasks_of
from aqmlab.metrics import finite
from aqmlab.plot import Chart
from aqmlab.publication import Claim, Drawn, Figure, Judged, Study, StudyResult, Table, Variant
from aqmlab.scenario import Scenario
from aqmlab.stats import Evidence
from aqmlab.store import Store


def load(name: str, *, live: bool = False) -> Study:
    """The study of this name, or its `live` form.

    Raises `KeyError` with the names there are if there is none.
    """
    from aqmlab.studies import LIVE, STUDIES

    if name not in STUDIES:
        raise KeyError(f"no study is named `{name}`: there is {', '.join(STUDIES)}")
    if live and name not in LIVE:
        raise KeyError(f"the study `{name}` has no live form: there is one of {', '.join(LIVE)}")
    study = importlib.import_module((LIVE if live else STUDIES)[name]).STUDY
    assert isinstance(study, Study)
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
    make = prepare or Scenario.from_dict
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    main = plan_of(study.sweeps, make, quick)
    variants = [(variant, plan_of(_varied(study, variant), make, quick)) for variant in study.sensitivity]
    store = Store(out / "store")
    plans = [main, *(plan for _, plan in variants)]
    live = tasks_of([[entry for entry in plan if entry[0].live] for plan in plans])
    simulated = [[entry for entry in plan if not entry[0].live] for plan in plans]
    kept = store.runs_of([task.scenario.digest for task in live])
    if not all(settled(kept.get(task.run), task.keys, retry=True) for task in live):
        live_runs.need()
    here = executor or Local(jobs=jobs)
    stages = [
        ("main grid", tasks_of(simulated[:1]), here),
        ("sensitivity", tasks_of(simulated[1:]), here),
        *(
            [("live", live, Local(jobs=jobs or live_runs.at_once(), apart_s=live_runs.APART_S))]
            if live
            else []
        ),
    ]
    account = Account()
    timing: dict[str, Any] = {}
    with store:
        for label, tasks, executor in stages:
            at, before = time.monotonic(), account.made
            execute(
                tasks,
                store,
                executor=executor,
                label=f"{study.name}: {label}",
                total=len(tasks),
                account=account,
                retry=True,
            )
            made = account.made - before
            timing[label] = {"runs": len(tasks), "made now": made, "seconds": time.monotonic() - at}
    results = collect(main, store)
    evidence = {claim.id: _judge(claim, results) for claim in study.claims}
    sensitivity: list[tuple[Variant | None, Mapping[str, Evidence]]] = []
    if variants:
        chosen = [claim for claim in study.claims if claim.id in study.sensitivity_claims]
        for variant, plan in variants:
            found = collect(plan, store)
            sensitivity.append((variant, {claim.id: _judge(claim, found) for claim in chosen}))
    at = time.monotonic()
    drawn = _draw(study.figures, results, out / "figures", jobs)
    timing["figures"] = {"seconds": time.monotonic() - at}
    result = StudyResult(
        study=study,
        quick=quick,
        judged=tuple(Judged(claim=claim, evidence=evidence[claim.id]) for claim in study.claims),
        drawn=drawn,
        tables=tuple((table, _tabulate(table, results, out / "figures")) for table in study.tables),
        sensitivity=tuple(sensitivity),
        failures=tuple(account.failures),
        warnings=tuple(_warn(study, results)),
        provenance=_provenance(main, store, timing, time.monotonic() - began),
        report=out / "report.html",
    )
    claims = [_claim_record(judged) for judged in result.judged]
    write_text(out / "claims.json", json.dumps(claims, indent=2) + "\n")
    write_text(result.report, report.render(result))
    return result


def _varied(study: Study, variant: Variant) -> list[Grid]:
    """The sensitivity grids with every scenario changed."""

    def changed(original: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return lambda **labels: variant.change(original(**labels))

    return [replace(grid, scenario=changed(grid.scenario)) for grid in study.sensitivity_sweeps]


# Judging


def _judge(claim: Claim, results: Results) -> Evidence:
    try:
        return claim.judge(results)
    except Exception as problem:  # A claim that cannot be judged must not hide the others.
        return Evidence(verdict="undecided", measured=f"could not be judged: {_named(problem)}")


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


def _named(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _claim_record(judged: Judged) -> dict[str, Any]:
    evidence = judged.evidence
    ends = finite([evidence.low, evidence.high])
    return {
        "id": judged.claim.id,
        "statement": judged.claim.statement,
        "verdict": evidence.verdict,
        "measured": evidence.measured,
        "interval": None if None in ends else ends,
    }


def _provenance(main: Plan, store: Store, timing: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What the report prints so that a reader can repeat and check every number."""
    kept = store.runs_of(list({task.scenario.digest for _, _, task in main}))
    records = {task.run: kept[task.run] for _, _, task in main if task.run in kept}
    first: dict[str, dict[str, Any]] = {}
    for grid, labels, task in main:
        if task.run in records and task.seed == 1:
            name = f"{grid.name}: " + ", ".join(f"{key} {value}" for key, value in labels.items())
            live = records[task.run].live or {}
            said = live.get("scenario", task.scenario.effective)
            first.setdefault(name, {"digest": task.scenario.digest, "scenario": said})
    cpu = [one.cpu_s for one in records.values() if one.cpu_s is not None and one.live is None]
    return {
        "version": version(),
        "python": sys.version.split()[0],
        "polars": pl.__version__,
        "seeds": {
            name: sorted({task.seed for grid, _, task in main if grid.name == name})
            for name in dict.fromkeys(grid.name for grid, _, _ in main)
        },
        "scenarios": first,
        "runs": len(records),
        "cpu_s": math.fsum(cpu) if cpu else None,
        "timing": timing,
        "seconds": seconds,
        "live": live_runs.together(one.live for one in records.values() if one.live is not None),
    }
