"""Maintains a store: verifies and repairs its data, and removes runs.

Logs are never modified. The records to keep from the logs of terminated writers are written to a new log, and
then the old logs are removed. A process that reads the store at the same time finds every record once or
twice, and duplicates are harmless. The logs of running writers remain unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.scenario import Scenario
from aqmlab.store import log as store_log
from aqmlab.store.index import Contents
from aqmlab.store.record import DONE, RunRecord, written
from aqmlab.store.store import Store

if TYPE_CHECKING:
    from aqmlab._support.progress import Bar

Name = tuple[str, int]
"""Identity of a run: the scenario's digest and the seed."""

_SAMPLES = 5


# Verifying


@dataclass(kw_only=True)
class Verification:
    """The contents of a store's files, and the damage that was found."""

    logs: int = 0
    records: int = 0
    damaged_lines: dict[str, int] = field(default_factory=dict)
    """Number of damaged lines by log. A truncated last line counts as damaged."""
    index: str = "none"
    """State of the index: `none`, `well` or `damaged`."""
    frames: int = 0
    damaged_frames: dict[Name, list[str]] = field(default_factory=dict)
    """Keys of damaged tables by run."""

    @property
    def damaged(self) -> bool:
        """Whether any damage was found."""
        return bool(self.damaged_lines or self.damaged_frames or self.index == "damaged")


def verify(store: Store) -> Verification:
    """Reads the whole store and checks all data against their checksums."""
    found = Verification()
    folder = _folder(store)
    contents = Contents()
    with _reading(_logs(folder)) as (paths, bar):
        for path in paths:
            claim = store_log.claimed(path)
            try:
                _, _, damaged = store_log.read(path, 0, lambda one: _count(one, found, contents), bar)
                # A running writer may be in the middle of a line.
                torn = claim is not None and _torn(path)
            except FileNotFoundError:
                continue
            finally:
                if claim is not None:
                    os.close(claim)
            found.logs += 1
            if damaged or torn:
                found.damaged_lines[path.name] = damaged + torn
    if (folder / "index").exists():
        found.index = "damaged" if Contents.load(folder / "index") is None else "well"
    for run in contents.with_frames():
        for key in run.frames:
            found.frames += 1
            if not store.has_frame(run, key):
                found.damaged_frames.setdefault(run.name, []).append(key)
    return found


def _count(record: dict[str, Any], found: Verification, contents: Contents) -> None:
    found.records += 1
    contents.add(record)


def _torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def repair(store: Store, found: Verification) -> int:
    """Removes the damaged data that `verify` found, so that the affected runs are repeated when needed.
    Returns the number of logs that were skipped because their writers are running."""
    folder = _folder(store)
    if found.index == "damaged":
        (folder / "index").unlink(missing_ok=True)

    def keep(run: RunRecord) -> RunRecord:
        damaged = found.damaged_frames.get(run.name, ())
        return replace(run, frames={key: one for key, one in run.frames.items() if key not in damaged})

    if not found.damaged_lines and not found.damaged_frames:
        return 0
    names = None if found.damaged_frames else found.damaged_lines
    return _rewrite(folder, names, keep, lambda one: True)


# Rewriting


def _rewrite(
    folder: Path,
    names: Collection[str] | None,
    keep_run: Callable[[RunRecord], RunRecord | None],
    keep_other: Callable[[Mapping[str, Any]], bool],
) -> int:
    """Writes the records to keep from the logs with these names (`None`: all logs) to a new log, and removes
    the old logs.

    Returns the number of logs that were skipped because their writers are running. Other processes may write
    to the store at the same time.
    """
    claims: dict[Path, int] = {}
    left = 0
    fresh = store_log.LogWriter(folder / "logs")
    try:
        for path in _logs(folder):
            if names is None or path.name in names:
                claim = store_log.claimed(path)
                if claim is None:
                    left += path.exists()
                else:
                    claims[path] = claim
        if not claims:
            return left
        contents = Contents()
        with _reading(claims) as (paths, bar):
            for path in paths:
                store_log.read(path, 0, contents.add, bar)
        try:
            for record in _kept(contents, keep_run, keep_other):
                fresh.append(store_log.framed(record))
            fresh.close()
        except BaseException:
            # The old logs still contain all records.
            for path in fresh.paths:
                path.unlink(missing_ok=True)
            with suppress(OSError):
                fresh.close()
            raise
        for path in claims:
            path.unlink(missing_ok=True)
        return left
    finally:
        for claim in claims.values():
            os.close(claim)


def _kept(
    contents: Contents,
    keep_run: Callable[[RunRecord], RunRecord | None],
    keep_other: Callable[[Mapping[str, Any]], bool],
) -> Iterator[dict[str, Any]]:
    yield from (record for record in contents.every_other() if keep_other(record))
    for run in contents.every_run():
        kept = keep_run(run)
        if kept is not None:
            yield written(kept)


# Removing


@dataclass(frozen=True, kw_only=True)
class Removal:
    """A plan of runs to remove, with the reasons."""

    old: frozenset[str]
    """Scenarios whose results come from another version of the core."""
    orphans: frozenset[str]
    """Scenarios that belong to no sweep."""
    failed: bool
    """Whether failed and crashed runs are also removed."""
    runs: Mapping[str, int]
    """Number of runs to remove by reason: `old`, `orphan`, `failed`."""

    def reason(self, scenario: str, status: str) -> str | None:
        """Returns the reason to remove a run, or `None` if the run is kept."""
        if scenario in self.old:
            return "old"
        if scenario in self.orphans:
            return "orphan"
        return "failed" if self.failed and status != DONE else None


def removal(store: Store, *, orphans: bool, failed: bool) -> Removal:
    """Returns the plan for `collect_garbage`. The plan contains the runs whose results version differs from
    that of the core. With `orphans`, the plan also contains the runs of scenarios that do not belong to any
    sweep, and with `failed`, failed runs."""
    store.refresh()
    runs = store.runs().select("scenario", "status")
    loose: frozenset[str] = frozenset()
    if orphans:
        known = {one["scenario"] for one in store.records("scenario")} | set(runs["scenario"])
        loose = frozenset(known - {one["scenario"] for one in store.records("point")})
    plan = Removal(old=frozenset(_old(store)), orphans=loose, failed=failed, runs={})
    counts: dict[str, int] = {}
    for scenario, status in runs.iter_rows():
        reason = plan.reason(scenario, status)
        if reason:
            counts[reason] = counts.get(reason, 0) + 1
    return replace(plan, runs=counts)


def _old(store: Store) -> Iterator[str]:
    by_version: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in store.records("scenario"):
        by_version.setdefault((record["level"], record["results_version"]), []).append(record)
    for (level, version), records in by_version.items():
        if level == "packet":
            current = version == _core.RESULTS_VERSION
        else:
            # RESULTS_VERSION applies only to the packet level. If the version of another level changes, the
            # digests change.
            current = any(_same_digest(record) for record in records[:_SAMPLES])
        if not current:
            yield from (record["scenario"] for record in records)


def _same_digest(record: Mapping[str, Any]) -> bool:
    try:
        scenario = Scenario.from_dict({**record["given"], "seed": 1}, files=record["files"])
    except ValueError:
        return False
    return bool(scenario.digest == record["scenario"])


def collect_garbage(store: Store, plan: Removal) -> tuple[int, int]:
    """Removes the runs of the plan, and the data that were used only by these runs. Returns the number of
    freed bytes, and the number of logs that were skipped because their writers are running."""
    folder = _folder(store)
    before = size(store)
    # If the code below finds that all logs belong to terminated writers, no writer uses the tables in this
    # list.
    tables = {path: path.stat().st_size for path in folder.glob("tables/*/*/*")}
    gone = plan.old | plan.orphans
    sweeps_left = {one["sweep"] for one in store.records("point") if one["scenario"] not in plan.old}
    sweeps_gone = {one["sweep"] for one in store.records("point")} - sweeps_left

    def keep_run(run: RunRecord) -> RunRecord | None:
        return None if plan.reason(run.scenario, run.status) else run

    def keep_other(record: Mapping[str, Any]) -> bool:
        if record["kind"] in ("sweep", "finished"):
            return record["sweep"] not in sweeps_gone
        return record.get("scenario") not in gone

    left = _rewrite(folder, None, keep_run, keep_other)
    store.refresh()
    freed = before - size(store)
    if not left:
        freed += _remove_unused(store, tables)
    return freed, left


def _remove_unused(store: Store, tables: Mapping[Path, int]) -> int:
    """Removes tables that belong to no run, and temporary files of terminated writers. Returns the size of
    the removed tables in bytes."""
    folder = _folder(store)
    used = {folder / entry["file"] for run in store.contents().with_frames() for entry in run.frames.values()}
    for path in tables.keys() - used:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # The folder may still contain other tables.
            path.parent.rmdir()
    for path in [*folder.glob(".index-*"), *folder.glob("logs/.*")]:
        path.unlink(missing_ok=True)
    return sum(tables[path] for path in tables.keys() - used)


def size(store: Store) -> int:
    """Returns the size of the logs and the index in bytes."""
    folder = _folder(store)
    found = 0
    for path in [folder / "index", *_logs(folder)]:
        with suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


def _folder(store: Store) -> Path:
    assert store.folder is not None, "a store in memory has no files"
    return store.folder


@contextmanager
def _reading(paths: Iterable[Path]) -> Iterator[tuple[list[Path], Bar | None]]:
    """Returns those of the given logs that exist, and a progress bar for the bytes of these logs."""
    sizes = {}
    for path in paths:
        with suppress(FileNotFoundError):
            sizes[path] = path.stat().st_size
    with store_log.reading(sum(sizes.values())) as bar:
        yield list(sizes), bar


def _logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("logs/*.log"))
