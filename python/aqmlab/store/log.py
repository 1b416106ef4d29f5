"""The logs of a store. A log is a file whose lines have checksums. Each log is written by a single process.

A line consists of the CRC-32 of a record's JSON (8 hexadecimal digits), a space, the JSON and a newline.
Readers ignore lines with a wrong checksum. Readers also ignore data after the last newline, because these
data were not written completely: the writer was killed during the write, or is still writing. A truncated
line is harmless, because no process appends to the log of another process.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import re
import secrets
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab._support.files import sync_folder

if TYPE_CHECKING:
    from aqmlab._support.progress import Bar

LOG_BYTES = 64 << 20
"""Size of a log after which a process begins a new log."""

SYNC_S = 0.2
"""Maximum delay until a record is synchronised to disk. Until then, the record survives the end of the
process, but not a power failure."""

SILENT_S = 3600.0
"""Time without writes after which a log's writer is considered to have terminated, if the lock of the writer
is not visible."""

_BLOCK = 8 << 20
_LONG = 32 << 20


# Lines


def framed(record: Mapping[str, Any]) -> bytes:
    """Returns the line for a record. NaN and infinity become null, because JSON cannot represent them.

    Raises `ValueError` for values that JSON cannot represent.
    """
    try:
        text = _JSON.encode(record).encode()
    except ValueError:
        text = _JSON.encode(_finite(record)).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _of_numpy(value: Any) -> Any:
    """Returns NumPy arrays and scalars as JSON values."""
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    raise ValueError(f"`{value}`: must be a JSON value (got a {type(value).__name__})")


_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_of_numpy)


def unframed(line: bytes) -> dict[str, Any] | None:
    """Returns the record in a line (without newline), or `None` if the line is damaged."""
    text = line[9:]
    if line[:9] != b"%08x " % zlib.crc32(text):
        return None
    try:
        record = json.loads(text.decode())
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read(
    path: Path, start: int, add: Callable[[dict[str, Any]], None], bar: Bar | None = None
) -> tuple[int, int, int]:
    """Reads a log from byte `start` on, and calls `add` with every intact record.

    Returns the position (in bytes) up to which all lines are intact, the length of the log, and the number of
    damaged lines. On file systems that show the new length of a file before the new data, a line that appears
    damaged may be intact later.
    """
    well, end, damaged = start, start, 0
    rest = b""
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                end += len(line) + 1
                record = unframed(line)
                if record is None:
                    damaged += 1
                else:
                    add(record)
                    if not damaged:
                        well = end
            if bar:
                bar.advance_bytes(len(block))
    return well, end + len(rest), damaged


@contextmanager
def reading(count: int) -> Iterator[Bar | None]:
    """Returns a progress bar for reading `count` bytes of logs, or `None` if the number of bytes is small."""
    if count < _LONG:
        yield None
        return
    from aqmlab._support import progress

    with progress.bar("store", count) as bar:
        yield bar


# Locks, which show whether a writer is running


def locked(file: int) -> bool | None:
    """Locks an open file until the file is closed. Returns `False` if another process has locked the file,
    and `None` if the file system does not support locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def claimed(path: Path) -> int | None:
    """Opens and locks the log of a terminated writer. Returns `None` if the writer may be running, or if the
    log no longer exists.

    Some file systems do not support locks, and others do not make locks visible to other machines. Therefore,
    the writer of a log is considered to have terminated after an hour without writes (by the file system's
    clock) if the log is from another machine or cannot be locked.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    lock = locked(file)
    there = os.fstat(file).st_nlink > 0
    sure = lock is True and path.name.startswith(f"{_host()}-")
    if there and lock is not False and (sure or _silent(path)):
        return file
    os.close(file)
    return None


def _silent(path: Path) -> bool:
    probe = path.parent / f".{_unique()}.clock"
    probe.touch()
    try:
        return probe.stat().st_mtime - path.stat().st_mtime > SILENT_S
    except FileNotFoundError:
        return False
    finally:
        probe.unlink()


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", platform.node()) or "host"


def _unique() -> str:
    return f"{_host()}-{os.getpid()}-{secrets.token_hex(4)}"


# Writing


class LogWriter:
    """The logs that one process writes, in a folder whose parent folder exists. Each line is written by a
    single write operation. Lines are synchronised to disk in groups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[Path] = []
        """The logs that this object has written."""
        self._file: int | None = None
        self._length = 0
        self._after_fork()

    def _after_fork(self) -> None:
        """Resets the object after a fork, because a forked process needs its own log and does not inherit its
        parent's threads and locks."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._problem: OSError | None = None
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def open(self) -> None:
        """Opens the log, so that other processes can see that the writer is running. Raises `OSError`."""
        if self._process != os.getpid():
            self._after_fork()
        with self._lock:
            self._opened()

    def append(self, line: bytes) -> None:
        """Writes a line. When this method returns, the operating system has received the data. The data is
        synchronised to disk later.

        Raises `OSError`. After an error, earlier lines remain readable, and later lines can be written.
        """
        if self._process != os.getpid():
            self._after_fork()
        with self._lock:
            file = self._opened()
            try:
                self._write(file, line)
            except OSError:
                self._abandon(file)
                raise
            if self._timer is None:
                self._timer = threading.Timer(SYNC_S, self._sync_in_time)
                self._timer.daemon = True
                self._timer.start()
            problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def close(self) -> None:
        """Synchronises all data to disk and closes the log."""
        if self._process != os.getpid():
            self._after_fork()
        timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()
        with self._lock:
            if self._file is not None:
                self._end(self._file)

    def _opened(self) -> int:
        file = self._file
        # If locks do not work, another process may have assumed that this writer has terminated, and may have
        # removed this log.
        if file is not None and (self._length >= LOG_BYTES or not os.fstat(file).st_nlink):
            self._end(file)
            file = None
        while file is None:
            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"{_unique()}.log"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            file = os.open(path, flags, 0o666)
            if locked(file) is False or not os.fstat(file).st_nlink:
                os.close(file)
                file = None
                continue
            self._file, self._length = file, 0
            self.paths.append(path)
            sync_folder(self.folder)
        return file

    def _write(self, file: int, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(file, rest) :]
        self._length += len(line)

    def _abandon(self, file: int) -> None:
        """Removes a partly written line. If the removal fails, the truncated line remains, and readers ignore
        the line."""
        try:
            os.ftruncate(file, self._length)
        except OSError:
            self._file = None
            os.close(file)

    def _end(self, file: int) -> None:
        self._file = None
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _sync_in_time(self) -> None:
        with self._lock:
            self._timer = None
            if self._file is None:
                return
            file = os.dup(self._file)
        try:
            os.fsync(file)
        except OSError as error:
            self._problem = error
        finally:
            os.close(file)
