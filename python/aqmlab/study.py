"""Studies: sweeps of scenarios, figures drawn from them, claims judged by them.

A [`Study`] is data and functions; [`run`] does the work. Each run is reduced at once to a small
table of numbers by its sweep's `reduce`, and the reduction is written to `runs.jsonl` in the
output folder as soon as it is known: whatever stops a study loses nothing, and the same command
goes on where it stopped. A run that fails is reported and does not stop the others.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from aqmlab.plot import Chart, save
from aqmlab.stats import Evidence

Labels = Mapping[str, Any]
Reduction = dict[str, Any]


class Run(Protocol):
    """What a reduction may look at."""

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The run's tables, by name."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Effective scenario, seed, version, digest, facts."""

    @property
    def performance(self) -> Mapping[str, Any]:
        """Packets, events and CPU seconds."""


class Runnable(Protocol):
    """A checked scenario."""

    @property
    def digest(self) -> str:
        """The name of its effective parameters, without the seed."""

    def run(self, seed: int | None = None) -> Run:
        """Runs it."""


Prepare = Callable[[Mapping[str, Any]], Runnable]
Reduce = Callable[[Run], Reduction]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Scenarios labelled by the values of some axes, each run with the seeds 1 to `seeds`."""

    name: str
    axes: Mapping[str, Sequence[Any]]
    scenario: Callable[..., dict[str, Any]]
    """Makes the scenario from labels given by keyword."""
    reduce: Reduce
    seeds: int = 10
    quick_axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of axes in the quick form, where fewer."""
    quick_seeds: int = 3

    def points(self, *, quick: bool = False) -> list[dict[str, Any]]:
        """The labels of every scenario."""
        axes = {name: self.quick_axes.get(name, values) if quick else values for name, values in self.axes.items()}
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]

    def replications(self, *, quick: bool = False) -> int:
        """How many seeds each scenario is run with."""
        return min(self.quick_seeds, self.seeds) if quick else self.seeds


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run: its labels, its seed, and what it was reduced to."""

    labels: Labels
    seed: int
    values: Reduction


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The finished runs of a sweep, in the order of points and seeds."""

    rows: tuple[Row, ...]

    def where(self, **labels: Any) -> Runs:
        """The runs that carry these labels; values must be equal."""
        kept = (row for row in self.rows if all(row.labels.get(k) == v for k, v in labels.items()))
        return Runs(rows=tuple(kept))

    def axis(self, label: str) -> list[Any]:
        """The values of a label, each once, in order of appearance."""
        return list(dict.fromkeys(row.labels[label] for row in self.rows if label in row.labels))

    def seeds(self) -> list[int]:
        """The seeds there are, ascending."""
        return sorted({row.seed for row in self.rows})

    def values(self, metric: str, seeds: Sequence[int] | None = None) -> list[float]:
        """The metric by seed, averaged over the runs of a seed; NaN where a seed has none.

        A seed with fewer runs than another (one failed) is NaN too: its average would not compare.
        """
        chosen = self.seeds() if seeds is None else seeds
        full = max((sum(row.seed == seed for row in self.rows) for seed in self.seeds()), default=0)
        return [self._value(metric, seed, full) for seed in chosen]

    def _value(self, metric: str, seed: int, full: int) -> float:
        found = [_as_float(row.values.get(metric)) for row in self.rows if row.seed == seed]
        return math.fsum(found) / len(found) if len(found) == full and found else math.nan

    def pair(self, metric: str, ours: Labels, theirs: Labels) -> tuple[list[float], list[float]]:
        """The metric of two selections, seed by seed."""
        seeds = self.seeds()
        return self.where(**ours).values(metric, seeds), self.where(**theirs).values(metric, seeds)


Results = Mapping[str, Runs]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart of a study."""

    id: str
    title: str
    caption: str
    chart: Callable[[Results], Chart]

    @property
    def file(self) -> str:
        """The name of its files, without ending."""
        return f"figure-{self.id}" if self.id[0].isdigit() else self.id


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a study, as text to be read."""

    id: str
    title: str
    caption: str
    table: Callable[[Results], pl.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published conclusion, and how it is judged here."""

    id: str
    statement: str
    rule: str
    """What exactly is compared, with bands; fixed before results are looked at."""
    judge: Callable[[Results], Evidence]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Another answer to a question the source leaves open, under which claims are judged again."""

    name: str
    what: str
    change: Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What we decided where the source is silent."""

    question: str
    decision: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """A publication as sweeps, figures and claims."""

    name: str
    title: str
    paper: str
    question: str
    sweeps: tuple[Sweep, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    decisions: tuple[Decision, ...]
    answer: Callable[[Mapping[str, Evidence]], list[str]]
    """The short answer in words, from the evidence by claim."""
    checks: Callable[[Results], list[str]] = lambda _: []
    """Warnings worth printing, such as a warm-up that was too short."""
    sensitivity: tuple[Variant, ...] = ()
    sensitivity_sweeps: tuple[Sweep, ...] = ()
    sensitivity_claims: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that raised."""

    sweep: str
    labels: Labels
    seed: int
    problem: str


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure with its chart and files, or the reason why it could not be drawn."""

    figure: Figure
    chart: Chart | None
    paths: Mapping[str, Path] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with its evidence."""

    claim: Claim
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """Everything a study found."""

    study: Study
    quick: bool
    judged: tuple[Judged, ...]
    drawn: tuple[Drawn, ...]
    tables: tuple[tuple[Table, pl.DataFrame | str], ...]
    sensitivity: tuple[tuple[Variant | None, Mapping[str, Evidence]], ...]
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Mapping[str, Any]
    report: Path

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict by claim."""
        return {judged.claim.id: judged.evidence.verdict for judged in self.judged}


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One run to be made, for all who asked for it."""

    key: str
    scenario: Runnable
    seed: int
    reduce: Reduce
    sweep: str
    labels: Labels


def load(name: str) -> Study:
    """The study of this name.

    Raises `KeyError` with the names there are if there is none.
    """
    from aqmlab.studies import STUDIES

    if name not in STUDIES:
        raise KeyError(f"no study {name!r}; there is {', '.join(STUDIES)}")
    study = importlib.import_module(STUDIES[name]).STUDY
    assert isinstance(study, Study)
    return study


def run(
    study: Study,
    out: Path,
    *,
    quick: bool = False,
    jobs: int | None = None,
    prepare: Prepare | None = None,
) -> StudyResult:
    """Runs a study and writes `report.html`, `claims.json`, `runs.jsonl` and `figures/` into `out`.

    Uses `jobs` threads, all cores if `None`. Runs that `out` already holds are not made again.
    `KeyboardInterrupt` passes through; what is finished by then is kept.
    """
    from aqmlab import report

    make = prepare or _from_dict
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    main = _plan(study.sweeps, make, quick)
    variants = [(variant, _plan(_varied(study, variant), make, quick)) for variant in study.sensitivity]
    store = _Store(out / "runs.jsonl")
    failures: list[Failure] = []
    stages = [("main grid", _tasks([main])), ("sensitivity", _tasks([plan for _, plan in variants]))]
    timing: dict[str, Any] = {}
    with store:
        for label, tasks in stages:
            at = time.monotonic()
            made = _execute(tasks, store, failures, jobs=jobs, label=f"{study.name}: {label}")
            timing[label] = {"runs": len(tasks), "made now": made, "seconds": time.monotonic() - at}
    results = _collect(main, store)
    evidence = {claim.id: _judge(claim, results) for claim in study.claims}
    sensitivity: list[tuple[Variant | None, Mapping[str, Evidence]]] = []
    if variants:
        chosen = [claim for claim in study.claims if claim.id in study.sensitivity_claims]
        for variant, plan in variants:
            found = _collect(plan, store)
            sensitivity.append((variant, {claim.id: _judge(claim, found) for claim in chosen}))
    at = time.monotonic()
    drawn = tuple(_draw(figure, results, out / "figures") for figure in study.figures)
    timing["figures"] = {"seconds": time.monotonic() - at}
    result = StudyResult(
        study=study,
        quick=quick,
        judged=tuple(Judged(claim=claim, evidence=evidence[claim.id]) for claim in study.claims),
        drawn=drawn,
        tables=tuple((table, _tabulate(table, results, out / "figures")) for table in study.tables),
        sensitivity=tuple(sensitivity),
        failures=tuple(failures),
        warnings=tuple(_warn(study, results)),
        provenance=_provenance(main, store, timing, time.monotonic() - began),
        report=out / "report.html",
    )
    claims = [_claim_record(judged) for judged in result.judged]
    (out / "claims.json").write_text(json.dumps(claims, indent=2) + "\n", encoding="utf-8")
    result.report.write_text(report.render(result), encoding="utf-8")
    return result


# Planning: which runs are needed, each once


_Plan = list[tuple[Sweep, dict[str, Any], _Task]]


def _from_dict(table: Mapping[str, Any]) -> Runnable:
    from aqmlab.scenario import Scenario

    scenario: Runnable = Scenario.from_dict(dict(table))
    return scenario


def _plan(sweeps: Iterable[Sweep], make: Prepare, quick: bool) -> _Plan:
    plan: _Plan = []
    for sweep in sweeps:
        code = _code(sweep.reduce)
        for labels in sweep.points(quick=quick):
            scenario = make(sweep.scenario(**labels))
            for seed in range(1, sweep.replications(quick=quick) + 1):
                key = f"{scenario.digest}:{seed}:{code}"
                task = _Task(
                    key=key, scenario=scenario, seed=seed, reduce=sweep.reduce, sweep=sweep.name, labels=labels
                )
                plan.append((sweep, labels, task))
    return plan


def _varied(study: Study, variant: Variant) -> list[Sweep]:
    """The sensitivity sweeps with every scenario changed."""

    def changed(original: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return lambda **labels: variant.change(original(**labels))

    return [replace(sweep, scenario=changed(sweep.scenario)) for sweep in study.sensitivity_sweeps]


def _code(reduce: Reduce) -> str:
    """A name for the code a reduction depends on, so that old reductions are not taken for new ones."""
    from aqmlab import metrics

    module = sys.modules[reduce.__module__]
    digest = hashlib.sha256(_version().encode())
    for path in (metrics.__file__, module.__file__):
        digest.update(Path(path or "").read_bytes())
    return f"{reduce.__qualname__}-{digest.hexdigest()[:12]}"


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("aqmlab")
    except metadata.PackageNotFoundError:
        return "unknown"


def _tasks(plans: Iterable[_Plan]) -> list[_Task]:
    return list({task.key: task for plan in plans for _, _, task in plan}.values())


# Running


class _Store:
    """The reductions in `runs.jsonl`, by key; a line that was cut off by a crash is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                self._take(line)

    def __enter__(self) -> _Store:
        self._file = self.path.open("a", encoding="utf-8")
        if self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n"):
            self._file.write("\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _take(self, line: str) -> None:
        try:
            record = json.loads(line)
            self.known[record["key"]] = record
        except (ValueError, KeyError, TypeError):
            return

    def add(self, record: dict[str, Any]) -> None:
        self.known[record["key"]] = record
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        self._file.flush()


def _execute(tasks: list[_Task], store: _Store, failures: list[Failure], *, jobs: int | None, label: str) -> int:
    """Makes the runs that the store lacks; returns how many it made."""
    waiting = [task for task in tasks if task.key not in store.known]
    threads = max(1, jobs or os.cpu_count() or 1)
    pool = ThreadPoolExecutor(max_workers=threads)
    queue = iter(waiting)
    open_: dict[Future[dict[str, Any]], _Task] = {}
    try:
        with _progress(label, len(tasks), len(tasks) - len(waiting)) as advance:
            for task in itertools.islice(queue, 2 * threads):
                open_[pool.submit(_one, task)] = task
            while open_:
                done, _ = wait(open_, return_when=FIRST_COMPLETED)
                for future in done:
                    _settle(future, open_.pop(future), store, failures)
                    advance()
                    for task in itertools.islice(queue, 1):
                        open_[pool.submit(_one, task)] = task
    except KeyboardInterrupt:
        pool.shutdown(wait=True, cancel_futures=True)
        for future, task in open_.items():
            if future.done() and not future.cancelled():
                _settle(future, task, store, failures)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return len(waiting)


def _one(task: _Task) -> dict[str, Any]:
    run = task.scenario.run(seed=task.seed)
    manifest = run.manifest
    return {
        "key": task.key,
        "sweep": task.sweep,
        "labels": dict(task.labels),
        "seed": task.seed,
        "digest": manifest.get("digest", ""),
        "version": manifest.get("version", ""),
        "cpu_s": run.performance.get("cpu_seconds"),
        "facts": manifest.get("facts", {}),
        "scenario": manifest["scenario"] if task.seed == 1 else None,
        "values": task.reduce(run),
    }


def _settle(future: Future[dict[str, Any]], task: _Task, store: _Store, failures: list[Failure]) -> None:
    problem = future.exception()
    if problem is None:
        store.add(future.result())
    else:
        text = "".join(traceback.format_exception_only(problem)).strip()
        failures.append(Failure(sweep=task.sweep, labels=task.labels, seed=task.seed, problem=text))


@contextmanager
def _progress(label: str, total: int, done: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty() or total == done:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total, completed=done)
        yield lambda: progress.advance(task)


# Judging


def _collect(plan: _Plan, store: _Store) -> dict[str, Runs]:
    rows: dict[str, list[Row]] = {}
    for sweep, labels, task in plan:
        found = rows.setdefault(sweep.name, [])
        record = store.known.get(task.key)
        if record is not None:
            found.append(Row(labels=labels, seed=task.seed, values=record["values"]))
    return {name: Runs(rows=tuple(found)) for name, found in rows.items()}


def _judge(claim: Claim, results: Results) -> Evidence:
    try:
        return claim.judge(results)
    except Exception as problem:  # A claim that cannot be judged must not hide the others.
        return Evidence(verdict="undecided", measured=f"could not be judged: {_named(problem)}")


def _draw(figure: Figure, results: Results, folder: Path) -> Drawn:
    try:
        chart = figure.chart(results)
        return Drawn(figure=figure, chart=chart, paths=save(chart, folder, figure.file))
    except Exception as problem:  # Nor must a figure.
        return Drawn(figure=figure, chart=None, problem=f"could not be drawn: {_named(problem)}")


def _tabulate(table: Table, results: Results, folder: Path) -> pl.DataFrame | str:
    try:
        frame = table.table(results)
        frame.write_csv(folder / f"{table.id}.csv")
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
    ends = [_finite(evidence.low), _finite(evidence.high)]
    return {
        "id": judged.claim.id,
        "statement": judged.claim.statement,
        "verdict": evidence.verdict,
        "measured": evidence.measured,
        "interval": None if None in ends else ends,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _as_float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _provenance(main: _Plan, store: _Store, timing: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What the report prints so that a reader can repeat and check every number."""
    records = [store.known[task.key] for _, _, task in main if task.key in store.known]
    first: dict[str, dict[str, Any]] = {}
    for sweep, labels, task in main:
        record = store.known.get(task.key)
        if record is not None and record["scenario"] is not None:
            name = f"{sweep.name}: " + ", ".join(f"{key} {value}" for key, value in labels.items())
            first.setdefault(name, {"digest": task.scenario.digest, "scenario": record["scenario"]})
    cpu = [record["cpu_s"] for record in records if record["cpu_s"] is not None]
    return {
        "version": _version(),
        "python": sys.version.split()[0],
        "polars": pl.__version__,
        "seeds": {
            name: sorted({task.seed for sweep, _, task in main if sweep.name == name})
            for name in dict.fromkeys(sweep.name for sweep, _, _ in main)
        },
        "scenarios": first,
        "runs": len({record["key"] for record in records}),
        "cpu_s": math.fsum(cpu) if cpu else None,
        "timing": timing,
        "seconds": seconds,
    }
