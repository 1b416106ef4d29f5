"""Live runs seen from another terminal: a run shows its queues to whoever connects."""

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
from aqmlab._support.progress import said

PREFIX = "aqmlab-live-"
"""Sockets have this name and the number of the process. They stand in no folder and vanish with it (unix(7),
abstract sockets)."""

EVERY_S = 0.1
"""So often is a view sent."""


@contextmanager
def shown(watch: _core.Watch) -> Iterator[None]:
    """While it lasts, whoever connects sees the run of this watch."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(f"\0{PREFIX}{os.getpid()}")
    except OSError:  # Another run of this process is seen already.
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
        line = json.dumps({"said": said(watch), "view": json.loads(view)}).encode() + b"\n"
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
    """The processes on this machine whose live runs can be seen."""
    names = (line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    found = {name.removeprefix(f"@{PREFIX}") for name in names if name.startswith(f"@{PREFIX}")}
    return sorted(int(number) for number in found)


def views(process: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the live run of a process shows until it is over: how far it is, and the view."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(f"\0{PREFIX}{process}")
        with connection.makefile("r") as lines:
            for line in lines:
                shown = json.loads(line)
                yield shown["said"], shown["view"]
