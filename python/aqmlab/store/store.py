"""The store: everything that was run, in one folder, for as many processes and machines as like.

The truth is in `logs/`, one append-only file for each process that writes (`store_log`), and the tables that
runs keep are in `tables/`. `index` is derived from the logs (`store_index`), `FORMAT` says how all this is
written. Nothing is ever changed in place, and no clock decides anything.
"""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import quote

from aqmlab._support.files import replace, sync_folder
from aqmlab.store import log as store_log
from aqmlab.store.record import RunRecord, check

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.results.table import Results
    from aqmlab.store.index import Contents
    from aqmlab.store.selection import Selection

__all__ = ["FORMAT", "FrameError", "RunRecord", "Store", "StoreFormatError", "StoreFull"]

FORMAT = "aqmlab store 1"
"""The first line of the file `FORMAT`."""

INDEX_AFTER = 1000
"""Everybody reads so many records from logs before somebody puts them into the index; of a large index a
tenth of it."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class StoreFull(OSError):
    """No room is left for a record. What was kept before stays readable."""


class StoreFormatError(ValueError):
    """A folder that is no store, or one of a format that this version does not know."""


class FrameError(LookupError):
    """A table that a run should have kept is not there, or damaged: the run is to be made again."""


class Selects(Protocol):
    """A sweep, an experiment, or anything else of which a store may hold runs."""

    def selection(self, store: Store, /) -> Selection:
        """Its runs, as many as this store says that there should be."""


class Store:
    """Everything kept, in one folder; a folder that is not there is an empty store, made by the first write.

    A record that `add` has returned from survives the process at once, and a power cut after 0.2 s. It may be
    written to and read by any number of processes at once. With `read_only` not even the index is written.
    Use it as a context manager, or close it.
    """

    def __init__(self, folder: Path | str, *, read_only: bool = False) -> None:
        """Raises `StoreFormatError` if the folder holds something else."""
        folder = Path(folder)
        self.folder: Path | None = folder
        self.read_only = read_only
        self._begin()
        self._check_format(folder)

    @classmethod
    def in_memory(cls) -> Store:
        """The same without a folder: it lasts as long as this object."""
        store = cls.__new__(cls)
        store.folder, store.read_only = None, False
        store._begin()
        store._load()
        return store

    def _begin(self) -> None:
        self._contents: Contents | None = None
        self._taken: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._indexed = 0
        self._since_index = 0
        self._may_index = not self.read_only
        self._stale = True
        self._writer = None if self.folder is None else store_log.LogWriter(self.folder / "logs")
        self._made = False
        self._unwritten: list[dict[str, Any]] = []
        self._unwritten_frames: dict[str, bytes] = {}
        self._warned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Writing

    def add(self, record: Mapping[str, Any]) -> None:
        """Keeps a record; when it returns, the operating system has it.

        Raises `StoreFull` if there is no room, `OSError` if the folder cannot be written to, and `ValueError`
        for a record that cannot be kept. Whatever else goes wrong is told once on standard error, and the
        record is kept in memory, so that whoever adds it can go on.
        """
        check(record)
        line = store_log.framed(record)
        self._stale = True
        if self.folder is None:
            self._keep_in_memory(line)
            return
        try:
            self._open(self.folder).append(line)
        except OSError as error:
            self._tell(error, self.folder)
            self._keep_in_memory(line)

    def keep_frame(self, scenario: str, seed: int, key: str, frame: pl.DataFrame) -> dict[str, Any]:
        """Writes a table of a run and returns its entry for the run's record. Raises as `add` does."""
        file = io.BytesIO()
        frame.write_parquet(file)
        data = file.getvalue()
        crc32 = zlib.crc32(data)
        name = quote(scenario, safe="")
        # The checksum in the name keeps apart what two versions make of the same run.
        path = f"tables/{name[:2]}/{name}-{seed}/{quote(key, safe='@')}.{crc32:08x}.parquet"
        if self.folder is None:
            self._unwritten_frames[path] = data
        else:
            try:
                # With an open log nobody takes the table for one that no run has.
                self._open(self.folder).open()
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                replace(self.folder / path, [data])
            except OSError as error:
                self._tell(error, self.folder)
                self._unwritten_frames[path] = data
        return {"file": path, "bytes": len(data), "crc32": crc32}

    def close(self) -> None:
        """Puts everything on the disk, tries once more what could not be written, and ends the log."""
        if self._writer is None or self.folder is None:
            return
        try:
            for record in self._unwritten:
                self._writer.append(store_log.framed(record))
            self._unwritten = []
            self._writer.close()
        except OSError as error:
            self._tell(error, self.folder)

    def _keep_in_memory(self, line: bytes) -> None:
        record = store_log.unframed(line[:-1])
        assert record is not None
        if self.folder is not None:
            self._unwritten.append(record)
        if self._contents is not None:
            self._contents.take(record)

    def _open(self, folder: Path) -> store_log.LogWriter:
        """This process's log; makes the folder of the store if there is none."""
        if self.read_only:
            raise OSError(errno.EROFS, "The store was opened for reading only", str(folder))
        assert self._writer is not None
        if not self._made:
            if not (folder / "FORMAT").exists():
                folder.mkdir(parents=True, exist_ok=True)
                self._check_format(folder)
                replace(folder / "FORMAT", [f"{FORMAT}\n".encode()])
                sync_folder(folder.parent)
            self._made = True
        return self._writer

    @staticmethod
    def _check_format(folder: Path) -> None:
        found = _first_line(folder)
        # Names with a dot are left by who was stopped while making the store.
        if found is None and folder.is_dir() and any(not name.startswith(".") for name in os.listdir(folder)):
            found = _first_line(folder)  # Somebody may have made it meanwhile.
            if found is None:
                raise StoreFormatError(
                    f"{folder}: holds files, and is no store: name a store, or a folder that is empty or new"
                )
        if found not in (None, FORMAT):
            raise StoreFormatError(
                f"{folder}: is of the format `{found}`, and this version of aqmlab knows `{FORMAT}`: "
                "use the version that wrote it, or another folder with --store"
            )

    def _tell(self, error: OSError, folder: Path) -> None:
        """Raises what nobody can go on with, as an error that says what to do; of the rest one is told."""
        place = error.filename or str(folder)
        if error.errno in _FULL:
            advice = "make room there, or use another folder with --store; what was kept stays readable"
            raise StoreFull(error.errno, f"{error.strerror}: {advice}", str(folder)) from error
        if error.errno in _READ_ONLY:
            advice = "use another folder with --store, or one you may write to"
            raise OSError(error.errno, f"{error.strerror}: {advice}", str(folder)) from error
        if not self._warned:
            self._warned = True
            print(
                f"aqmlab: {place}: cannot be written: {error.strerror}; what is made from now on may be kept "
                "in memory only",
                file=sys.stderr,
            )

    # Reading

    def refresh(self) -> None:
        """Takes in what this and other processes have written since."""
        if self._contents is None:
            self._load()
        while not self._taken_in():
            self._load()
        self._stale = False
        if self._since_index > max(INDEX_AFTER, self._indexed // 10):
            self._write_index()

    def contents(self) -> Contents:
        """What was read, and everything that this process added."""
        if self._stale:
            self.refresh()
        assert self._contents is not None
        return self._contents

    def _load(self) -> None:
        """Begins with the index, if all that it was made of is still there, or else with nothing."""
        from aqmlab.store.index import Contents

        self._contents, self._taken, self._seen = Contents(), {}, {}
        self._indexed = self._since_index = 0
        loaded = None if self.folder is None else Contents.load(self.folder / "index")
        if loaded is not None and _holds(self._logs(), loaded[1]):
            self._contents, self._taken = loaded
            self._indexed = self._contents.runs().height
        for record in self._unwritten:
            self._contents.take(record)

    def _logs(self) -> dict[str, int]:
        """The logs and their bytes."""
        if self.folder is None:
            return {}
        found = {}
        try:
            with os.scandir(self.folder / "logs") as entries:
                for entry in entries:
                    if entry.name.endswith(".log"):
                        found[entry.name] = entry.stat().st_size
        except FileNotFoundError:
            return found
        return found

    def _taken_in(self) -> bool:
        """Reads what is new in the logs; `False` if one that was read is gone, as its records may be."""
        if self.folder is None:
            return True
        logs = self._logs()
        if not _holds(logs, self._taken):
            return False
        new = {
            name: size - self._taken.get(name, 0)
            for name, size in sorted(logs.items())
            if size != self._seen.get(name, self._taken.get(name, 0))
        }
        with store_log.reading(sum(new.values())) as bar:
            for name in new:
                start = self._taken.get(name, 0)
                try:
                    self._taken[name], self._seen[name], _ = store_log.read(
                        self.folder / "logs" / name, start, self._take, bar
                    )
                except FileNotFoundError:
                    return False
        return True

    def _take(self, record: dict[str, Any]) -> None:
        assert self._contents is not None
        self._contents.take(record)
        self._since_index += 1

    def _write_index(self) -> None:
        """Writes the index, if that can be: it is of use, and never needed."""
        if self.folder is None or self._contents is None or not self._may_index:
            return
        try:
            self._contents.save(self.folder / "index", self._taken)
        except OSError:
            self._may_index = False
        self._indexed, self._since_index = self._contents.runs().height, 0

    def runs_of(self, scenarios: Sequence[str], *, as_read: bool = False) -> dict[tuple[str, int], RunRecord]:
        """The runs of these scenarios (digests with seed 1), by scenario and seed; `as_read` those that were
        there when the store was last read, without what was added since.

        A table whose file is gone, or was cut off, is not among a run's `frames`.
        """
        contents = self._contents if as_read and self._contents is not None else self.contents()
        return {run.name: self._with_tables(run) for run in contents.runs_of(scenarios)}

    def _with_tables(self, run: RunRecord) -> RunRecord:
        if not run.frames or all(self._frame_there(entry) for entry in run.frames.values()):
            return run
        there = {key: entry for key, entry in run.frames.items() if self._frame_there(entry)}
        return dataclasses.replace(run, frames=there)

    def _frame_there(self, entry: Mapping[str, Any]) -> bool:
        if entry["file"] in self._unwritten_frames:
            return True
        if self.folder is None:
            return False
        try:
            return bool((self.folder / entry["file"]).stat().st_size == entry["bytes"])
        except OSError:
            return False

    def records(self, kind: str, **equal: Any) -> list[dict[str, Any]]:
        """The records of a kind (`scenario`, `sweep`, `point`, `finished`), each once; those whose
        fields equal these."""
        return self.contents().others(kind, equal)

    def runs(self) -> pl.DataFrame:
        """All runs, a row each: `scenario`, `seed`, `status`, `error`, `cpu_s`, `version`, and `facts` and
        `live` as JSON."""
        columns = ["scenario", "seed", "status", "error", "cpu_s", "version", "facts", "live"]
        return self.contents().runs().select(columns)

    def results(self, sweep: Selects | Selection) -> Results:
        """The table of the runs that the store holds of a sweep (`aqmlab.Sweep`): of each point as many as
        are asked for, from its first seed on, whatever else is kept.

        Of runs that failed, or were made without a measure, the columns of measures are null.
        """
        from aqmlab.store import pivot
        from aqmlab.store.selection import Selection

        selection = sweep if isinstance(sweep, Selection) else sweep.selection(self)
        return pivot.results(self.contents(), selection, self._frame_there)

    def holding(self, keys: Sequence[str]) -> pl.DataFrame:
        """The runs that are done and have a value, not a table, under each of these keys: `scenario`,
        `seed`."""
        import polars as pl

        contents = self.contents()
        runs = contents.runs()
        kinds = contents.shapes().select("shape", "key").iter_rows()
        whole = [shape for shape, known in kinds if set(keys) <= set(known)]
        held = runs.filter((pl.col("status") == "done") & pl.col("shape").is_in(whole))
        return held.select("scenario", "seed")

    def values(self) -> pl.DataFrame:
        """All values, a row each: `scenario`, `seed`, `measure`, `version` of the measure, and `value`, which
        is null for what is not a number."""
        import polars as pl

        contents = self.contents()
        rows = contents.runs().filter(pl.col("numbers").list.len() > 0)
        return (
            rows.select("scenario", "seed", "shape", "numbers")
            .join(contents.shapes(), on="shape", how="left", maintain_order="left")
            .select("scenario", "seed", "measure", "version", value="numbers")
            .explode("measure", "version", "value")
        )

    def frame(self, record: RunRecord, key: str) -> pl.DataFrame:
        """A table that a run kept. Raises `FrameError` if it is not there as it was written."""
        import polars as pl

        entry = record.frames.get(key)
        if entry is None:
            raise FrameError(f"the run {record.scenario[:12]}:{record.seed} kept no table `{key}`")
        data = self._frame_bytes(entry)
        if data is None:
            raise FrameError(
                f"{entry['file']}: is not as it was written; the run {record.scenario[:12]}:{record.seed} is "
                "to be made again"
            )
        return pl.read_parquet(io.BytesIO(data))

    def has_frame(self, record: RunRecord, key: str) -> bool:
        """Whether a table of a run is there as it was written: reads it."""
        entry = record.frames.get(key)
        return entry is not None and self._frame_bytes(entry) is not None

    def _frame_bytes(self, entry: Mapping[str, Any]) -> bytes | None:
        data = self._unwritten_frames.get(entry["file"])
        if data is None and self.folder is not None:
            try:
                data = (self.folder / entry["file"]).read_bytes()
            except OSError:
                return None
        if data is None or (len(data), zlib.crc32(data)) != (entry["bytes"], entry["crc32"]):
            return None
        return data


def _holds(logs: Mapping[str, int], taken: Mapping[str, int]) -> bool:
    """Whether all that was taken from logs may still stand there."""
    return all(logs.get(name, -1) >= size for name, size in taken.items())


def _first_line(folder: Path) -> str | None:
    """What the file `FORMAT` says; `None` if there is none."""
    try:
        return (folder / "FORMAT").read_text(encoding="utf-8", errors="replace").strip()[:40]
    except NotADirectoryError:
        raise StoreFormatError(f"{folder}: is a file, and a store is a folder") from None
    except FileNotFoundError:
        return None
