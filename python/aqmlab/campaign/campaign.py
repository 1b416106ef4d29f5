"""A campaign: makes the runs that are missing, each once, and keeps each as soon as it is known.

Everything that makes many runs stands on it: sweeps, comparisons, calibrations, replications of the flow
level, studies. A run is reduced at once to its measures, and they go into the store: whatever stops a
campaign loses nothing, and the same call goes on where it stopped. A run that fails is a result, too: it
is kept with its error and does not stop the others.
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
"""So many tasks are looked up in the store at once."""


class Runnable(Protocol):
    """A checked scenario."""

    @property
    def digest(self) -> str:
        """The name of what it says, in full."""

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario in full."""

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """Runs it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run to be made, for all who asked for it."""

    scenario: Runnable
    seed: int
    measures: tuple[Measure, ...]
    name: str = ""
    """What it is in words, for whoever reads of its failure."""

    @property
    def run(self) -> tuple[str, int]:
        """The name of the run."""
        return self.scenario.digest, self.seed

    @property
    def keys(self) -> tuple[str, ...]:
        """What is asked of it."""
        return tuple(one.key for one in self.measures)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A run that was made, or failed: its record, and the tables among its measures."""

    record: dict[str, Any]
    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A run that raised, or that killed whoever made it."""

    name: str
    seed: int
    problem: str
    scenario: str
    """The digest of its scenario."""

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}: {self.problem}"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A scenario that did not pass its checks: it fails when run, as one of many."""

    problem: Exception
    digest: str
    effective: Mapping[str, Any] = field(default_factory=dict)

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Any:
        raise self.problem


class Executor(Protocol):
    """Who makes runs: this machine's cores, or others."""

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Made], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """Makes the runs and tells of each in the calling thread, in any order; `done` answers whether the
        run failed, which the bar shows.

        Ctrl-C stops those under way, and is raised when `done` knows of all that were finished.
        """


@dataclass(frozen=True, kw_only=True)
class Local:
    """This machine: `jobs` runs at once, all cores by default, which begin `apart_s` after one another."""

    jobs: int | None = None
    apart_s: float = 0.0

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Made], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """See `Executor.each`."""

        def told(task: Task, future: Future[Made]) -> bool:
            return done(task, future.result())

        each(
            tasks,
            make,
            told,
            total=total,
            jobs=self.jobs,
            label=label,
            already=already,
            apart_s=self.apart_s,
        )


def make(task: Task, watch: _core.Watch) -> Made:
    """Makes a run and reduces it to its measures. What it raises becomes a record of a run that failed;
    Ctrl-C passes through."""
    import polars as pl

    about = {"kind": "run", "scenario": task.scenario.digest, "seed": task.seed}
    try:
        run = task.scenario.run(task.seed, watch=watch)
        view = View(run)
        found = {one.key: one.of(view) for one in task.measures}
        frames = {key: value for key, value in found.items() if isinstance(value, pl.DataFrame)}
        values = {key: value for key, value in found.items() if key not in frames}
        # What no store could keep is a mistake of the measure, and not of the store.
        framed(values)
    except Exception as problem:
        return Made(record=about | _failed(task, "".join(traceback.format_exception_only(problem)).strip()))
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
    return Made(record=record, frames=frames)


def crashed(task: Task, problem: str) -> Made:
    """What is kept of a run that killed whoever made it."""
    about = {"kind": "run", "scenario": task.scenario.digest, "seed": task.seed}
    return Made(record=about | _failed(task, problem) | {"status": "crashed"})


def _failed(task: Task, problem: str) -> dict[str, Any]:
    return {
        "status": "failed",
        "values": {},
        "frames": {},
        "error": problem,
        "cpu_s": None,
        "version": version(),
        # A run whose measure was wrong has another chance once others are asked of it.
        "facts": {"asked": list(task.keys)},
    }


@dataclass(kw_only=True)
class Account:
    """What a campaign did."""

    made: int = 0
    found: int = 0
    """Runs that were kept already."""
    failures: list[Failure] = field(default_factory=list)


class FirstFailureError(RuntimeError):
    """A run failed, and the first that does was to stop the campaign."""

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
    """Makes the runs that the store lacks, of tasks that are at most `total`.

    Runs that failed before count as found, with their failure, unless they are to be tried again. With
    `fail_fast` raises `FirstFailureError` at the first run that fails. `account` is told of everything at
    once, also if Ctrl-C ends it.
    """
    account = account or Account()
    found_before, told = account.found, set(account.failures)
    known: set[str] = set()

    def missing() -> Iterator[Task]:
        seen: set[int] = set()
        store.refresh()
        for block in _blocks(tasks):
            # As it was in the beginning: what is made meanwhile need not be read back, and fills no memory.
            kept = store.runs_of(list({task.scenario.digest for task in block}), as_read=True)
            known.update(digest for digest, _ in kept)
            lacking = []
            for task in block:
                again = hash((task.run, task.keys))
                if again in seen:
                    continue
                seen.add(again)
                record = kept.get(task.run)
                if not settled(record, task.keys, retry=retry):
                    lacking.append(task)
                    continue
                account.found += 1
                if record is not None and not complete(record, task.keys):
                    fail(task, record.status, record.error)
            yield from lacking

    def fail(task: Task, status: str, problem: str | None) -> None:
        said = problem or status
        failure = Failure(name=task.name, seed=task.seed, problem=said, scenario=task.scenario.digest)
        if failure not in told:
            told.add(failure)
            account.failures.append(failure)
        if fail_fast:
            raise FirstFailureError(failure)

    def done(task: Task, made: Made) -> bool:
        record = dict(made.record)
        if task.scenario.digest not in known:
            known.add(task.scenario.digest)
            keep_scenario(store, task.scenario)
        if made.frames:
            record["frames"] = {
                key: store.keep_frame(*task.run, key, frame) for key, frame in made.frames.items()
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
    # In an order that does not depend on who was faster.
    account.failures.sort(key=lambda failure: (failure.name, failure.seed))
    return account


def settled(record: RunRecord | None, keys: Sequence[str], *, retry: bool = False) -> bool:
    """Whether nothing is left to be made of a run of which these measures are asked."""
    if record is None:
        return False
    if complete(record, keys):
        return True
    lacking = {key for key in keys if key not in record.values and key not in record.frames}
    return not retry and lacking <= set(record.facts.get("asked", ()))


def complete(record: RunRecord | None, keys: Sequence[str]) -> bool:
    """Whether a run is done, with a value or a table for each of these measures."""
    if record is None or record.status != "done":
        return False
    return all(key in record.values or key in record.frames for key in keys)


def keep_scenario(store: Store, scenario: Runnable) -> None:
    """Keeps what a scenario says, from which its runs can be made again."""
    from aqmlab.scenario import Scenario

    scenario = getattr(scenario, "made", scenario)
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


def together(tasks: Iterable[Task]) -> list[Task]:
    """Each run once, with all that is asked of it."""
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
    """The version of the installed package."""
    from importlib import metadata

    try:
        return metadata.version("aqmlab")
    except metadata.PackageNotFoundError:
        return "unknown"
