"""Lets users watch live runs from another terminal. A live run sends views of its queues to all clients of a
socket."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aqmlab import _core
from aqmlab._support.progress import progress_text

PREFIX = "aqmlab-live-"
"""Prefix of the socket's name, which is followed by the process ID. The sockets are abstract (unix(7)): a
socket has no file and disappears when its process ends."""

EVERY_S = 0.1
"""Interval between views."""


@contextmanager
def shown(watch: _core.Watch) -> Iterator[None]:
    """Serves views of the watched run on a socket while the context is active."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"\0{PREFIX}{os.getpid()}")
    except OSError:  # The process already offers views of another run.
        listener.close()
        yield
        return
    listener.listen()
    listener.settimeout(EVERY_S)
    over = threading.Event()
    thread = threading.Thread(target=_serve, args=(listener, watch, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        listener.close()


def _serve(listener: socket.socket, watch: _core.Watch, over: threading.Event) -> None:
    watchers: list[socket.socket] = []
    while not over.is_set():
        with suppress(TimeoutError):
            watchers.append(listener.accept()[0])
            watchers[-1].settimeout(1.0)
        view = watch.view() if watchers else None
        if view is None:
            continue
        line = json.dumps({"progress": progress_text(watch), "view": json.loads(view)}).encode() + b"\n"
        watchers = [one for one in watchers if _sent(one, line)]
    for one in watchers:
        one.close()


def _sent(watcher: socket.socket, line: bytes) -> bool:
    try:
        watcher.sendall(line)
    except OSError:
        watcher.close()
        return False
    return True


def running() -> list[int]:
    """Returns the IDs of the processes on this machine whose live runs can be watched."""
    names = (line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    found = {name.removeprefix(f"@{PREFIX}") for name in names if name.startswith(f"@{PREFIX}")}
    return sorted(int(number) for number in found)


def views(process: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the progress (as text) and the view of a process's live run, until the run ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(f"\0{PREFIX}{process}")
        with connection.makefile("r") as lines:
            for line in lines:
                shown = json.loads(line)
                yield shown["progress"], shown["view"]
