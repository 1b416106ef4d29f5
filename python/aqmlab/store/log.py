"""The logs of a store: lines with checksums, each log written by one process and by no other.

A line is the CRC-32 of a record's JSON (8 hexadecimal digits), a space, the JSON and a newline. A line that
does not fit its checksum is not read, nor is what follows the last newline: a process was killed there, or
is writing. As nobody appends to a log of somebody else, a torn end stands in nobody's way.
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
"""A log that is longer is not written to any more."""

SYNC_S = 0.2
"""How long a record may wait until it is on the disk; before, it survives its process, but no power cut."""

SILENT_S = 3600.0
"""How long a log must have been silent to be taken for ended where its writer's lock cannot be seen."""

_BLOCK = 8 << 20
_LONG = 32 << 20


# Lines


def framed(record: Mapping[str, Any]) -> bytes:
    """The line of a record. A number that does not exist (NaN, infinity) is null, as JSON has no such number.

    Raises `ValueError` for what no JSON holds.
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
    """Arrays and their numbers as JSON has them."""
    if hasattr(value, "tolist"):
        return _finite(value.tolist())
    raise ValueError(f"`{value}` is a {type(value).__name__}, which no record holds")


_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_of_numpy)


def unframed(line: bytes) -> dict[str, Any] | None:
    """The record of a line without its newline, or `None` if it was not written so."""
    text = line[9:]
    if line[:9] != b"%08x " % zlib.crc32(text):
        return None
    try:
        record = json.loads(text.decode())
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read(
    path: Path, start: int, take: Callable[[dict[str, Any]], None], bar: Bar | None = None
) -> tuple[int, int, int]:
    """Gives every whole record from byte `start` on to `take`.

    Returns up to which byte all was well, how many bytes there were, and how many lines before the last
    newline were not. What was not well may be so later, on a file system that shows a new length before the
    new bytes.
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
                    take(record)
                    if not damaged:
                        well = end
            if bar:
                bar.advance_bytes(len(block))
    return well, end + len(rest), damaged


@contextmanager
def reading(count: int) -> Iterator[Bar | None]:
    """A bar for so many bytes of logs, if reading them takes a while."""
    if count < _LONG:
        yield None
        return
    from aqmlab._support import progress

    with progress.bar("store", count) as bar:
        yield bar


# Locks, which say whether a writer lives


def locked(file: int) -> bool | None:
    """Locks an open file for as long as it is open; `False` if another process has, `None` if nobody can."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def claimed(path: Path) -> int | None:
    """The open file of a log whose writer has ended, locked; `None` if the writer may live or it is gone.

    Some file systems have no locks, and some do not show them to other machines. A log of another machine, or
    one that cannot be locked, is taken for ended when it has been silent for an hour by the clock of the
    file system.
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
    """The logs of one process, in a folder whose parent is there. A line is one write; lines reach the disk
    in groups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[Path] = []
        """The logs that were written."""
        self._file: int | None = None
        self._length = 0
        self._after_fork()

    def _after_fork(self) -> None:
        """A process that was forked has a log of its own, and none of its parent's threads and locks."""
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
        """Opens the log, so that others see that this process writes. Raises `OSError`."""
        if self._process != os.getpid():
            self._after_fork()
        with self._lock:
            self._opened()

    def append(self, line: bytes) -> None:
        """Writes a line: the operating system has it when this returns, and the disk soon after.

        Raises `OSError`; what stood there before stays readable then, and the next line begins anew.
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
        """Puts everything on the disk and ends the log."""
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
        # A log without a name was taken for ended and read to its end, where locks do not work.
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
        """Takes back what was written of a line; if that cannot be, the torn end stays, unread."""
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
