"""Functions that write files. Operating system errors that these functions raise contain the name of the
file."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Adds `path` to any `OSError` that lacks a file name, such as the error for a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Writes bytes to a file."""
    with writing(path):
        path.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Writes text to a file in UTF-8."""
    write_bytes(path, text.encode())


def write_csv(path: Path, table: pl.DataFrame) -> None:
    """Writes a table as CSV."""
    write_text(path, table.write_csv())


def write_parquet(path: Path, table: pl.DataFrame) -> None:
    """Writes a table as Parquet."""
    file = io.BytesIO()
    table.write_parquet(file)
    write_bytes(path, file.getvalue())


def replace(path: Path, parts: Iterable[bytes], *, durable: bool = True) -> None:
    """Atomically replaces the contents of a file with these parts: readers see either the old or the new
    contents. With `durable`, the function waits until the data is on disk, so that even after a machine crash
    the file has either the old or the new contents."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    with writing(path):
        try:
            with fresh.open("xb") as file:
                for part in parts:
                    file.write(part)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flushes a folder to disk, so that the names of new files survive a crash."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
