"""The store: a folder that contains all finished runs, and that any number of processes and machines can
share.

The records are in the folder `logs/`, with one append-only file for each writing process
(`aqmlab.store.log`). The stored tables of runs are in the folder `tables/`. The file `index` is derived from
the logs (`aqmlab.store.index`), and the file `FORMAT` contains the version of the format. Files are never
modified in place, and no decision depends on a clock.
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
"""The index is rewritten after this number of records has been read from logs. For a large index, a tenth of
the index's runs is used instead."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class StoreFull(OSError):
    """The exception that is raised if no space is left for a record. Earlier records remain readable."""


class StoreFormatError(ValueError):
    """The exception for a folder that is not a store, and for a store with an unsupported format."""


class FrameError(LookupError):
    """The exception for a missing or damaged table of a run. The run must be repeated."""


class Selects(Protocol):
    """An object that selects runs of a store, such as a sweep or an experiment."""

    def selection(self, store: Store, /) -> Selection:
        """Returns the selected runs. The number of selected runs may depend on the contents of the store."""


class Store:
    """A store in a folder. If the folder does not exist, the store is empty, and the first write creates the
    folder.

    After `add` returns, a record survives the end of the process. After another 0.2 s, the record also
    survives a power failure. Any number of processes may read and write a store at the same time. With
    `read_only`, nothing is written, not even the index. Use a store as a context manager, or call `close`.
    """

    def __init__(self, folder: Path | str, *, read_only: bool = False) -> None:
        """Opens a store. Raises `StoreFormatError` if the folder contains other files, or a store with
        another format."""
        folder = Path(folder)
        self.folder: Path | None = folder
        self.read_only = read_only
        self._begin()
        self._check_format(folder)

    @classmethod
    def in_memory(cls) -> Store:
        """Creates a store in memory, which has no folder and exists as long as this object."""
        store = cls.__new__(cls)
        store.folder, store.read_only = None, False
        store._begin()
        store._load()
        return store

    def _begin(self) -> None:
        self._contents: Contents | None = None
        self._positions: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._indexed = 0
        self._since_index = 0
        self._may_index = not self.read_only
        self._stale = True
        self._writer = None if self.folder is None else store_log.LogWriter(self.folder / "logs")
        self._created = False
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
        """Adds a record. When this method returns, the operating system has received the data.

        Raises `StoreFull` if no space is left, `OSError` if the folder is not writable, and `ValueError` for
        an invalid record. The first other error is reported on standard error. Records that cannot be written
        are kept in memory, so that the caller can continue.
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
            self._handle(error, self.folder)
            self._keep_in_memory(line)

    def keep_frame(self, scenario: str, seed: int, key: str, frame: pl.DataFrame) -> dict[str, Any]:
        """Writes a table of a run and returns the table's entry for the run's record. Raises the same errors
        as `add`."""
        file = io.BytesIO()
        frame.write_parquet(file)
        data = file.getvalue()
        crc32 = zlib.crc32(data)
        name = quote(scenario, safe="")
        # The name contains the checksum, so that different versions of a run's table have different names.
        path = f"tables/{name[:2]}/{name}-{seed}/{quote(key, safe='@')}.{crc32:08x}.parquet"
        if self.folder is None:
            self._unwritten_frames[path] = data
        else:
            try:
                # While this log is open, no process considers the table unused and removes it.
                self._open(self.folder).open()
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                replace(self.folder / path, [data])
            except OSError as error:
                self._handle(error, self.folder)
                self._unwritten_frames[path] = data
        return {"file": path, "bytes": len(data), "crc32": crc32}

    def close(self) -> None:
        """Writes the records that could not be written earlier, synchronises all data to disk, and closes the
        log."""
        if self._writer is None or self.folder is None:
            return
        try:
            for record in self._unwritten:
                self._writer.append(store_log.framed(record))
            self._unwritten = []
            self._writer.close()
        except OSError as error:
            self._handle(error, self.folder)

    def _keep_in_memory(self, line: bytes) -> None:
        record = store_log.unframed(line[:-1])
        assert record is not None
        if self.folder is not None:
            self._unwritten.append(record)
        if self._contents is not None:
            self._contents.add(record)

    def _open(self, folder: Path) -> store_log.LogWriter:
        """Returns the log of this process. Creates the folder of the store if necessary."""
        if self.read_only:
            raise OSError(errno.EROFS, "The store is read-only", str(folder))
        assert self._writer is not None
        if not self._created:
            if not (folder / "FORMAT").exists():
                folder.mkdir(parents=True, exist_ok=True)
                self._check_format(folder)
                replace(folder / "FORMAT", [f"{FORMAT}\n".encode()])
                sync_folder(folder.parent)
            self._created = True
        return self._writer

    @staticmethod
    def _check_format(folder: Path) -> None:
        found = _first_line(folder)
        # A process that was stopped while it was creating the store may have left files whose names begin
        # with a dot.
        if found is None and folder.is_dir() and any(not name.startswith(".") for name in os.listdir(folder)):
            found = _first_line(folder)  # Another process may have created the store in the meantime.
            if found is None:
                raise StoreFormatError(
                    f"{folder}: contains files, but is not a store: select a store, an empty folder or a new "
                    "folder"
                )
        if found not in (None, FORMAT):
            raise StoreFormatError(
                f"{folder}: has the format `{found}`, but this version of aqmlab supports `{FORMAT}`: use "
                "the version that wrote the store, or another folder with --store"
            )

    def _handle(self, error: OSError, folder: Path) -> None:
        """Raises fatal errors, with advice in the message. The first non-fatal error is reported on standard
        error."""
        path = error.filename or str(folder)
        if error.errno in _FULL:
            advice = (
                "free space on this file system, or use another folder with --store; "
                "the stored runs remain readable"
            )
            raise StoreFull(error.errno, f"{error.strerror}: {advice}", str(folder)) from error
        if error.errno in _READ_ONLY:
            advice = "use a writable folder with --store"
            raise OSError(error.errno, f"{error.strerror}: {advice}", str(folder)) from error
        if not self._warned:
            self._warned = True
            print(
                f"aqmlab: {path}: cannot be written: {error.strerror}; further runs may be kept in memory "
                "only",
                file=sys.stderr,
            )

    # Reading

    def refresh(self) -> None:
        """Reads the records that this and other processes have written since the last call."""
        if self._contents is None:
            self._load()
        while not self._read_logs():
            self._load()
        self._stale = False
        if self._since_index > max(INDEX_AFTER, self._indexed // 10):
            self._write_index()

    def contents(self) -> Contents:
        """Returns all records, including records that this process added."""
        if self._stale:
            self.refresh()
        assert self._contents is not None
        return self._contents

    def _load(self) -> None:
        """Loads the index if all logs that the index covers still exist. Otherwise, begins with empty
        contents."""
        from aqmlab.store.index import Contents

        self._contents, self._positions, self._seen = Contents(), {}, {}
        self._indexed = self._since_index = 0
        loaded = None if self.folder is None else Contents.load(self.folder / "index")
        if loaded is not None and _consistent(self._logs(), loaded[1]):
            self._contents, self._positions = loaded
            self._indexed = self._contents.runs().height
        for record in self._unwritten:
            self._contents.add(record)

    def _logs(self) -> dict[str, int]:
        """Returns the logs with their sizes in bytes."""
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

    def _read_logs(self) -> bool:
        """Reads the new parts of the logs. Returns `False` if a log that was read earlier has been removed,
        because the log's records may also have been removed."""
        if self.folder is None:
            return True
        logs = self._logs()
        if not _consistent(logs, self._positions):
            return False
        new = {
            name: size - self._positions.get(name, 0)
            for name, size in sorted(logs.items())
            if size != self._seen.get(name, self._positions.get(name, 0))
        }
        with store_log.reading(sum(new.values())) as bar:
            for name in new:
                start = self._positions.get(name, 0)
                try:
                    self._positions[name], self._seen[name], _ = store_log.read(
                        self.folder / "logs" / name, start, self._add_read, bar
                    )
                except FileNotFoundError:
                    return False
        return True

    def _add_read(self, record: dict[str, Any]) -> None:
        assert self._contents is not None
        self._contents.add(record)
        self._since_index += 1

    def _write_index(self) -> None:
        """Writes the index if possible. Errors are ignored, because the index only saves time."""
        if self.folder is None or self._contents is None or not self._may_index:
            return
        try:
            self._contents.save(self.folder / "index", self._positions)
        except OSError:
            self._may_index = False
        self._indexed, self._since_index = self._contents.runs().height, 0

    def runs_of(self, scenarios: Sequence[str], *, as_read: bool = False) -> dict[tuple[str, int], RunRecord]:
        """Returns the runs of these scenarios (digests with seed 1), by scenario and seed. With `as_read`,
        the result contains the runs at the last refresh, without later additions.

        The `frames` of a run do not contain tables whose file is missing or truncated.
        """
        contents = self._contents if as_read and self._contents is not None else self.contents()
        return {run.name: self._with_tables(run) for run in contents.runs_of(scenarios)}

    def _with_tables(self, run: RunRecord) -> RunRecord:
        if not run.frames or all(self._frame_there(entry) for entry in run.frames.values()):
            return run
        present = {key: entry for key, entry in run.frames.items() if self._frame_there(entry)}
        return dataclasses.replace(run, frames=present)

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
        """Returns the records of a kind (`scenario`, `sweep`, `point`, `finished`) whose fields have these
        values, without duplicates."""
        return self.contents().others(kind, equal)

    def runs(self) -> pl.DataFrame:
        """Returns all runs, with one row per run. The columns are `scenario`, `seed`, `status`, `error`,
        `cpu_s`, `version`, and `facts` and `live` as JSON."""
        columns = ["scenario", "seed", "status", "error", "cpu_s", "version", "facts", "live"]
        return self.contents().runs().select(columns)

    def results(self, sweep: Selects | Selection) -> Results:
        """Returns the table of the stored runs of a sweep (`aqmlab.Sweep`). For each point, the table
        contains at most the required number of runs, beginning with the point's first seed.

        The columns of measures are null for failed runs, and for runs that lack the measure.
        """
        from aqmlab.store import pivot
        from aqmlab.store.selection import Selection

        selection = sweep if isinstance(sweep, Selection) else sweep.selection(self)
        return pivot.results(self.contents(), selection, self._frame_there)

    def holding(self, keys: Sequence[str]) -> pl.DataFrame:
        """Returns the successful runs that have a value (not a table) for each of these keys, with the
        columns `scenario` and `seed`."""
        import polars as pl

        contents = self.contents()
        runs = contents.runs()
        kinds = contents.shapes().select("shape", "key").iter_rows()
        whole = [shape for shape, known in kinds if set(keys) <= set(known)]
        held = runs.filter((pl.col("status") == "done") & pl.col("shape").is_in(whole))
        return held.select("scenario", "seed")

    def values(self) -> pl.DataFrame:
        """Returns all values, with one row per value. The columns are `scenario`, `seed`, `measure`,
        `version` (of the measure), and `value`, which is null for values that are not numbers."""
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
        """Returns a stored table of a run. Raises `FrameError` if the table is missing or damaged."""
        import polars as pl

        entry = record.frames.get(key)
        if entry is None:
            raise FrameError(f"the run {record.scenario[:12]}:{record.seed} has no stored table `{key}`")
        data = self._frame_bytes(entry)
        if data is None:
            raise FrameError(
                f"{entry['file']}: is missing or damaged: repeat the run {record.scenario[:12]}:{record.seed}"
            )
        return pl.read_parquet(io.BytesIO(data))

    def has_frame(self, record: RunRecord, key: str) -> bool:
        """Reads the file of a stored table, and returns whether the table is intact."""
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


def _consistent(logs: Mapping[str, int], positions: Mapping[str, int]) -> bool:
    """Returns whether all logs exist and are at least as long as the read positions."""
    return all(logs.get(name, -1) >= size for name, size in positions.items())


def _first_line(folder: Path) -> str | None:
    """Returns the contents of the file `FORMAT`, or `None` if the file does not exist."""
    try:
        return (folder / "FORMAT").read_text(encoding="utf-8", errors="replace").strip()[:40]
    except NotADirectoryError:
        raise StoreFormatError(
            f"{folder}: must be a folder, because a store is a folder (got a file)"
        ) from None
    except FileNotFoundError:
        return None
