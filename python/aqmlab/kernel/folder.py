"""Temporary folders that are removed at the latest when the next folder is created.

A process that is killed cannot remove its folder. Therefore, each folder contains a file that its process
locks, and the system releases the locks of a killed process.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = "lock"
"""Name of the locked file, which contains the name of the machine, because some network file systems do not
show locks to other machines."""


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Removes the folders of killed processes, and creates a folder that is removed at the end of the
    context.

    The names of the folders begin with `prefix`. `parent` is by default the folder for temporary files.
    """
    parent = parent or Path(tempfile.gettempdir())
    remove_abandoned(prefix, parent)
    folder, lock = _create(prefix, parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned(prefix: str, parent: Path) -> None:
    """Removes the user's folders in `parent` whose processes have ended on this machine. A folder remains if
    the file system does not support locks."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            # Other users can create folders with this name in the folder for temporary files.
            if folder.lstat().st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.pread(lock, 256, 0).decode() == platform.node():
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _create(prefix: str, parent: Path) -> tuple[Path, int]:
    """Creates a folder, and returns the folder and the descriptor of its locked file."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):  # Without support for locks, the folder of a killed process remains.
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Other processes do not remove the folder earlier, because the file contains no name.
        os.pwrite(lock, platform.node().encode(), 0)
    return folder, lock
