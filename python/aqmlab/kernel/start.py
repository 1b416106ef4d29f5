"""Starts a guest: a kernel in virtual time that runs one job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aqmlab.kernel import guest, keeper
from aqmlab.kernel.kernel import Kernel, KernelError

MEMORY = "2G"
"""Memory of a guest. The host provides memory only for the pages that the guest uses."""

SHARED_MEMORY = Path("/dev/shm")
"""The folder in which the kernel keeps its memory by default."""

ROOM = 512 << 20
"""Free bytes that `SHARED_MEMORY` must have. A guest that ran `scenarios/real-tcp.toml` used 170 MB, and
Docker's default size of this folder is 64 MB. The value is aqmlab's choice."""

WALL_CLOCK_S = 1_700_000_000
"""The guest's date at the start, in seconds since 1970: a fixed date, because programs may print or hash the
date."""

LOOK_S = 0.05
"""Interval between looks at the kernel."""

SIGNALLED = 128
"""Exit status of the keeper, minus the number of the signal that killed the kernel."""

CONSOLE_LINES = 12
"""Number of lines of the kernel's messages that an error message contains."""

PASSED = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PERL5LIB", "RUBYLIB", "NODE_PATH", "CLASSPATH", "JAVA_HOME"),
    *("LANG", "LANGUAGE", "TZ"),
)
"""Environment variables of the host that programs in the guest receive, in addition to the variables whose
names begin with `LC_`: the variables that select program files, and those that select the language and the
time zone of messages. Programs do not receive other variables, because the results of a run should not depend
on the user's session, and because keys and addresses of services in the session are useless in the guest. The
selection is aqmlab's choice."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a guest cost on the host."""

    wall_s: float
    cpu_s: float
    """CPU time of the kernel and the programs in the guest."""


def boot(
    kernel: Kernel,
    folder: Path,
    *,
    seed: int,
    limit_s: float | None = None,
    look: Callable[[], None] = lambda: None,
) -> Cost:
    """Runs the job in `folder` (`job.json`) and returns when the guest has halted.

    While the guest runs, `look` is called every 50 ms and may raise an exception. The kernel and all programs
    in the guest are killed if `look` raises an exception, or after `limit_s` seconds of real time. Raises
    `KernelError`, with the last messages of the kernel, if the guest has left no result.
    """
    command = [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid())]
    command += [
        str(kernel.path),
        f"mem={MEMORY}",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "time-travel=inf-cpu",
        f"time-travel-start={WALL_CLOCK_S * 10**9}",
        "con=null",
        "con0=null,fd:1",
        f"init={Path(sys.executable).resolve()}",
    ]
    if kernel.seeded:
        command.append(f"random-seed={seed}")
    command += ["--", "-I", "-S", guest.__file__]
    begun = time.monotonic()
    # A file, not a pipe: the kernel never waits for the reader of its messages.
    with (folder / "console").open("wb") as console:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_own_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    process.wait(LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    pass
                look()
                if limit_s is not None and time.monotonic() - begun > limit_s:
                    raise KernelError(
                        f"the run has not ended after {limit_s:g} s of real time (--time-limit)"
                    )
        finally:
            process.terminate()
            process.wait()
    wall_s = time.monotonic() - begun
    if not (folder / "result.json").exists():
        raise KernelError(f"{_ended(process.returncode)}{_last_messages(folder)}")
    return Cost(wall_s=wall_s, cpu_s=float((folder / "cpu").read_text()))


def environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment of programs in the guest."""
    return {name: value for name, value in given.items() if name in PASSED or name.startswith("LC_")}


def check_visible(paths: Mapping[str, str]) -> None:
    """Raises `KernelError` if one of the files or folders, which the keys describe, is not visible in the
    guest. A path that does not exist is not checked."""
    for name, path in paths.items():
        resolved = Path(path).resolve()
        for folder in guest.HIDDEN:
            if resolved.is_relative_to(folder) and resolved.exists():
                raise KernelError(
                    f"{name}: {path} is not visible in virtual time, because the guest has its own {folder}: "
                    "use another folder"
                )


def _own_environment(folder: Path) -> dict[str, str]:
    """The environment of the kernel, which keeps its process ID in `HOME`, and its memory in a file in
    `TMPDIR` or, without `TMPDIR`, in /dev/shm."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    if "TMPDIR" not in kept and _free_bytes(SHARED_MEMORY) < ROOM:
        kept["TMPDIR"] = tempfile.gettempdir()
    return kept | {"HOME": str(folder)}


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _ended(status: int) -> str:
    if status > SIGNALLED:
        return f"the kernel was killed by {signal.Signals(status - SIGNALLED).name}"
    return f"the kernel ended with status {status} and without a result"


def _last_messages(folder: Path) -> str:
    """Returns the end of the messages of the kernel and of the program that runs the job."""
    found = []
    for name in ("console", "stderr"):
        file = folder / name
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        shown = [line.rstrip() for line in lines if line.strip()][-CONSOLE_LINES:]
        if shown:
            found.append(f"; the last lines of {name}:\n" + "\n".join(f"  {line}" for line in shown))
    return "".join(found)
