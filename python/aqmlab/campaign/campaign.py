"""Campaigns: the execution of the runs that are missing from a store. Each run is stored as soon as it
finishes.

Sweeps, comparisons, calibrations, flow-level replications and studies use campaigns. When a run finishes, its
measures are computed and stored immediately. Therefore, no finished run is lost if a campaign is interrupted,
and a repeated call executes only the remaining runs. If a run fails, its error is stored, and the other runs
continue.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from aqmlab import _core
from aqmlab._support.parallel import each
from aqmlab.campaign import live as live_runs
from aqmlab.measures import Measure, Run, View
from aqmlab.store.log import framed

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.store.store import RunRecord, Store

BLOCK = 1000
"""Number of tasks for each query of the store."""


class Runnable(Protocol):
    """A scenario whose fields have been checked."""

    @property
    def digest(self) -> str:
        """The digest of the complete scenario."""

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario with all defaults."""

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """Runs the scenario once."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run to execute, with its measures."""

    scenario: Runnable
    seed: int
    measures: tuple[Measure, ...]
    name: str = ""
    """Description of the run in messages about failures."""

    @property
    def run(self) -> tuple[str, int]:
        """The identity of the run: the scenario's digest and the seed."""
        return self.scenario.digest, self.seed

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the measures."""
        return tuple(one.key for one in self.measures)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a successful or failed task: a record, and those measures whose values are tables."""

    record: dict[str, Any]
    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that raised an error or killed its process."""

    name: str
    seed: int
    problem: str
    scenario: str
    """The digest of the run's scenario."""

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}: {self.problem}"


@dataclass(frozen=True, kw_only=True)
class InvalidScenario:
    """A scenario that failed its checks. The error that the check found is raised only when this scenario is
    run, so that the other runs of a campaign can continue."""

    problem: Exception
    digest: str
    effective: Mapping[str, Any] = field(default_factory=dict)

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Any:
        raise self.problem


class Executor(Protocol):
    """An executor of runs, either on this machine or on a cluster."""

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """Executes the tasks and calls `done` for each outcome in the calling thread, in any order. `done`
        returns whether the run failed. The progress bar shows the number of failed runs.

        After Ctrl-C, the active runs are stopped, `done` is called for all finished runs, and
        `KeyboardInterrupt` is raised.
        """


@dataclass(frozen=True, kw_only=True)
class Local:
    """Executes `jobs` runs in parallel on this machine (by default, one per core). Consecutive runs start at
    least `apart_s` seconds apart."""

    jobs: int | None = None
    apart_s: float = 0.0

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """See `Executor.each`."""

        def on_result(task: Task, future: Future[Outcome]) -> bool:
            return done(task, future.result())

        each(
            tasks,
            make,
            on_result,
            total=total,
            jobs=self.jobs,
            label=label,
            already=already,
            apart_s=self.apart_s,
        )


def make(task: Task, watch: _core.Watch) -> Outcome:
    """Executes a run and computes its measures. If the run raises an exception, the outcome is the record of
    a failed run, except that a `KeyboardInterrupt` is re-raised."""
    import polars as pl

    about = {"kind": "run", "scenario": task.scenario.digest, "seed": task.seed}
    try:
        run = task.scenario.run(task.seed, watch=watch)
        view = View(run)
        found = {one.key: one.of(view) for one in task.measures}
        frames = {key: value for key, value in found.items() if isinstance(value, pl.DataFrame)}
        values = {key: value for key, value in found.items() if key not in frames}
        # This conversion raises an error for values that a store cannot accept, because such values are
        # errors of the measure, not of the store.
        framed(values)
    except Exception as problem:
        text = "".join(traceback.format_exception_only(problem)).strip()
        if isinstance(problem, _core.RunError) and problem.report:
            text += f"\n{problem.report}"
        return Outcome(record=about | _failed(task, text))
    manifest = run.manifest
    record = {
        **about,
        "status": "done",
        "values": values,
        "frames": {},
        "error": None,
        "cpu_s": run.performance.get("cpu_s"),
        "version": manifest.get("version", ""),
        "facts": manifest.get("facts", {}),
    }
    if "live" in manifest:
        record["live"] = live_runs.facts(manifest)
    return Outcome(record=record, frames=frames)


def crashed(task: Task, problem: str) -> Outcome:
    """Returns the outcome of a run that killed its process."""
    about = {"kind": "run", "scenario": task.scenario.digest, "seed": task.seed}
    return Outcome(record=about | _failed(task, problem) | {"status": "crashed"})


def _failed(task: Task, problem: str) -> dict[str, Any]:
    return {
        "status": "failed",
        "values": {},
        "frames": {},
        "error": problem,
        "cpu_s": None,
        "version": version(),
        # The run is repeated when other measures are requested, because one of the measures may have caused
        # the error.
        "facts": {"asked": list(task.keys)},
    }


@dataclass(kw_only=True)
class Account:
    """The number of runs that a campaign executed, the number of runs that it found in the store, and its
    failures."""

    made: int = 0
    """Number of executed runs."""
    found: int = 0
    """Number of runs that were already stored."""
    failures: list[Failure] = field(default_factory=list)


class FirstFailureError(RuntimeError):
    """The error that is raised when a run fails in a campaign with `fail_fast`, which stops at the first
    failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def execute(
    tasks: Iterable[Task],
    store: Store,
    *,
    executor: Executor,
    label: str | None = None,
    total: int,
    account: Account | None = None,
    retry: bool = False,
    fail_fast: bool = False,
) -> Account:
    """Executes the tasks whose runs are missing from the store. `total` is the maximum number of tasks.

    Unless `retry` is true, runs that failed in an earlier campaign are not repeated; these runs count as
    found in the store, and their failures are reported. With `fail_fast`, the first failed run raises
    `FirstFailureError`. `account` is updated after every run, so that it is complete even after Ctrl-C.
    """
    account = account or Account()
    found_before, reported = account.found, set(account.failures)
    known: set[str] = set()

    def missing() -> Iterator[Task]:
        seen: set[int] = set()
        store.refresh()
        for block in _blocks(tasks):
            # This snapshot is the state of the store before the campaign. Reading the runs that this campaign
            # executes would only use memory.
            stored = store.runs_of(list({task.scenario.digest for task in block}), as_read=True)
            known.update(digest for digest, _ in stored)
            lacking = []
            for task in block:
                task_hash = hash((task.run, task.keys))
                if task_hash in seen:
                    continue
                seen.add(task_hash)
                record = stored.get(task.run)
                if not settled(record, task.keys, retry=retry):
                    lacking.append(task)
                    continue
                account.found += 1
                if record is not None and not complete(record, task.keys):
                    fail(task, record.status, record.error)
            yield from lacking

    def fail(task: Task, status: str, problem: str | None) -> None:
        text = problem or status
        failure = Failure(name=task.name, seed=task.seed, problem=text, scenario=task.scenario.digest)
        if failure not in reported:
            reported.add(failure)
            account.failures.append(failure)
        if fail_fast:
            raise FirstFailureError(failure)

    def done(task: Task, outcome: Outcome) -> bool:
        record = dict(outcome.record)
        if task.scenario.digest not in known:
            known.add(task.scenario.digest)
            keep_scenario(store, task.scenario)
        if outcome.frames:
            record["frames"] = {
                key: store.keep_frame(*task.run, key, frame) for key, frame in outcome.frames.items()
            }
        store.add(record)
        account.made += 1
        failed = bool(record["status"] != "done")
        if failed:
            fail(task, record["status"], record["error"])
        return failed

    first = list(islice(waiting := missing(), 1))
    if first:
        already = account.found - found_before
        executor.each(_chain(first, waiting), done, total=total, already=already, label=label)
    store.refresh()
    # The order of the failures must not depend on the durations of the runs.
    account.failures.sort(key=lambda failure: (failure.name, failure.seed))
    return account


def settled(record: RunRecord | None, keys: Sequence[str], *, retry: bool = False) -> bool:
    """Returns whether a stored run need not be executed again for these measures."""
    if record is None:
        return False
    if complete(record, keys):
        return True
    lacking = {key for key in keys if key not in record.values and key not in record.frames}
    return not retry and lacking <= set(record.facts.get("asked", ()))


def complete(record: RunRecord | None, keys: Sequence[str]) -> bool:
    """Returns whether a stored run succeeded and has a value or a table for each of these measures."""
    if record is None or record.status != "done":
        return False
    return all(key in record.values or key in record.frames for key in keys)


def keep_scenario(store: Store, scenario: Runnable) -> None:
    """Stores the definition of a scenario, so that the scenario's runs can be repeated."""
    from aqmlab.scenario import Scenario

    scenario = getattr(scenario, "scenario", scenario)
    if isinstance(scenario, Scenario):
        store.add(
            {
                "kind": "scenario",
                "scenario": scenario.digest,
                "name": scenario.name,
                "level": scenario.level,
                "results_version": _core.RESULTS_VERSION,
                "given": scenario.given,
                "files": dict(scenario.files),
            }
        )


def merged(tasks: Iterable[Task]) -> list[Task]:
    """Merges all tasks for the same run into one task, which has the measures of all the merged tasks."""
    found: dict[tuple[str, int], Task] = {}
    for task in tasks:
        before = found.setdefault(task.run, task)
        more = tuple(one for one in task.measures if one.key not in before.keys)
        if more:
            found[task.run] = replace(before, measures=(*before.measures, *more))
    return list(found.values())


def _blocks(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    tasks = iter(tasks)
    while block := list(islice(tasks, BLOCK)):
        yield block


def _chain(first: Iterable[Task], rest: Iterable[Task]) -> Iterator[Task]:
    yield from first
    yield from rest


def version() -> str:
    """Returns the version of the installed package."""
    from importlib import metadata

    try:
        return metadata.version("aqmlab")
    except metadata.PackageNotFoundError:
        return "unknown"
