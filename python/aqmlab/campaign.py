"""A campaign: the runs that sweeps need, each made once, on all cores, and kept as soon as known.

Each run is reduced at once to a few numbers by its sweep's `reduce`, and the reduction is appended to
a file: whatever stops a campaign loses nothing, and the same command goes on where it stopped. A run
that fails is told and does not stop the others.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import traceback
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqmlab import _core, live_runs
from aqmlab.files import writing
from aqmlab.parallel import each
from aqmlab.sweep import Labels, Prepare, Reduce, Row, Run, Runnable, Runs, Sweep


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that raised."""

    sweep: str
    labels: Labels
    seed: int
    problem: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run to be made, for all who asked for it."""

    key: str
    scenario: Runnable
    seed: int
    reduce: Reduce
    sweep: str
    labels: Labels


# Planning: which runs are needed, each once


Plan = list[tuple[Sweep, dict[str, Any], Task]]
"""Sweep, labels and run."""


def plan_of(sweeps: Iterable[Sweep], make: Prepare, quick: bool) -> Plan:
    """Every run that the sweeps ask for; the same run may stand in several of them.

    `make` makes the scenarios that are simulated.
    """
    plan: Plan = []
    for sweep in sweeps:
        code = _code(sweep.reduce)
        prepare = live_runs.prepare if sweep.live else make
        for labels in sweep.points(quick=quick):
            shared = None if sweep.by_seed else _made(prepare, sweep.scenario(**labels))
            for seed in range(1, sweep.replications(quick=quick) + 1):
                scenario = shared or _made(prepare, sweep.scenario(**labels, seed=seed))
                key = f"{scenario.digest}:{seed}:{code}"
                task = Task(
                    key=key,
                    scenario=scenario,
                    seed=seed,
                    reduce=sweep.reduce,
                    sweep=sweep.name,
                    labels=labels,
                )
                plan.append((sweep, labels, task))
    return plan


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """A scenario that did not pass its checks: it fails when run, as one of many."""

    problem: Exception
    digest: str

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        raise self.problem


def _made(make: Prepare, table: Mapping[str, Any]) -> Runnable:
    try:
        return make(table)
    except Exception as problem:
        text = json.dumps(table, sort_keys=True, default=str)
        return _Refused(problem=problem, digest=f"refused-{hashlib.sha256(text.encode()).hexdigest()}")


def collect(plan: Plan, store: Store) -> dict[str, Runs]:
    """The finished runs of a plan, by sweep."""
    rows: dict[str, list[Row]] = {}
    for sweep, labels, task in plan:
        found = rows.setdefault(sweep.name, [])
        record = store.known.get(task.key)
        if record is not None:
            found.append(Row(labels=labels, seed=task.seed, values=record["values"]))
    return {name: Runs(rows=tuple(found)) for name, found in rows.items()}


def _code(reduce: Reduce) -> str:
    """A name for the code a reduction depends on, so that old reductions are not taken for new ones."""
    from aqmlab import metrics

    module = sys.modules[reduce.__module__]
    names = {getattr(one, "__module__", None) or "" for one in vars(module).values()}
    ours = {name for name in names if name.startswith("aqmlab.")}
    digest = hashlib.sha256(version().encode())
    for name in sorted({*ours, metrics.__name__, module.__name__}):
        path = Path(sys.modules[name].__file__ or "")
        if path.suffix == ".py":  # What the core computes is named by the scenario's digest.
            digest.update(path.read_bytes())
    return f"{reduce.__qualname__}-{digest.hexdigest()[:12]}"


def version() -> str:
    """The version of the installed package."""
    from importlib import metadata

    try:
        return metadata.version("aqmlab")
    except metadata.PackageNotFoundError:
        return "unknown"


def tasks_of(plans: Iterable[Plan]) -> list[Task]:
    """The runs of some plans, each once."""
    return list({task.key: task for plan in plans for _, _, task in plan}.values())


# Running


class Store:
    """The reductions in `runs.jsonl`, by key; a line that was cut off by a crash is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                self._take(line)

    def __enter__(self) -> Store:
        self._file = self.path.open("a", encoding="utf-8")
        if self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n"):
            self._write("\n")
        return self

    def __exit__(self, *_: object) -> None:
        with writing(self.path):
            self._file.close()

    def _take(self, line: str) -> None:
        try:
            record = json.loads(line)
            self.known[record["key"]] = record
        except (ValueError, KeyError, TypeError):
            return

    def add(self, record: dict[str, Any]) -> None:
        """Keeps a record, in memory and at once in the file."""
        self.known[record["key"]] = record
        self._write(json.dumps(record, separators=(",", ":")) + "\n")

    def _write(self, text: str) -> None:
        with writing(self.path):
            self._file.write(text)
            self._file.flush()


def execute(
    tasks: list[Task],
    store: Store,
    failures: list[Failure],
    *,
    jobs: int | None,
    label: str,
    apart_s: float = 0.0,
) -> int:
    """Makes the runs that the store lacks, which begin at least `apart_s` after one another; returns how many
    it made."""
    waiting = [task for task in tasks if task.key not in store.known]

    def done(task: Task, future: Future[dict[str, Any]]) -> None:
        _settle(future, task, store, failures)

    each(waiting, _one, done, jobs=jobs, label=label, already=len(tasks) - len(waiting), apart_s=apart_s)
    return len(waiting)


def _one(task: Task, watch: _core.Watch) -> dict[str, Any]:
    run = task.scenario.run(task.seed, watch=watch)
    manifest = run.manifest
    record = {
        "key": task.key,
        "sweep": task.sweep,
        "labels": dict(task.labels),
        "seed": task.seed,
        "digest": manifest.get("digest", ""),
        "version": manifest.get("version", ""),
        "cpu_s": run.performance.get("cpu_s"),
        "facts": manifest.get("facts", {}),
        "scenario": manifest["scenario"] if task.seed == 1 else None,
        "values": {key: _plain(value) for key, value in task.reduce(run).items()},
    }
    return record | ({"live": live_runs.facts(manifest["live"])} if "live" in manifest else {})


def _plain(value: Any) -> Any:
    """JSON knows no NaN: a number that does not exist is `None`."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _settle(future: Future[dict[str, Any]], task: Task, store: Store, failures: list[Failure]) -> None:
    problem = future.exception()
    if problem is None:
        store.add(future.result())
    else:
        text = "".join(traceback.format_exception_only(problem)).strip()
        failures.append(Failure(sweep=task.sweep, labels=task.labels, seed=task.seed, problem=text))
