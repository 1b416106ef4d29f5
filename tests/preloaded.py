"""A program `aqmlab` that starts quickly: a short command spends most of its time on loading packages.

A server loads the packages once and waits at a socket. The program `preloaded_client.py` sends its
arguments, folder, environment and standard streams to the server. The server forks, and the copy runs the
command line. Therefore, each command has a process of its own, with its own exit status. The copies share
the seed of Python's hashes, and a signal to the client does not reach the copy. On systems other than Linux,
whose libraries may not work in copies of a process, each command starts as usual.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = (
    "aqmlab.charts.chart",
    "aqmlab.cli",
    "aqmlab.metrics.summary",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "matplotlib.backends.backend_svg",
    "pydantic.type_adapter",
    "rich.table",
    "scipy.stats",
)
CLIENT = Path(__file__).with_name("preloaded_client.py").resolve()
READY = "ready"


@contextmanager
def program(patience_s: float) -> Iterator[Path]:
    """The path of a program `aqmlab`, which is alone in its folder."""
    with tempfile.TemporaryDirectory(prefix="aqmlab-") as name:
        folder = Path(name)
        place, client = folder / "socket", folder / "bin" / "aqmlab"
        client.parent.mkdir()
        copied = sys.platform == "linux"
        start = f"-I -S '{CLIENT}' '{place}'" if copied else "-m aqmlab"
        client.write_text(f"#!/bin/sh\nexec '{sys.executable}' {start} \"$@\"\n", encoding="utf-8")
        client.chmod(0o755)
        if not copied:
            yield client
            return
        # Copies lack the threads that a library starts when it is loaded. OpenBLAS needs these threads.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(place)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as server:
            assert server.stdin is not None and server.stdout is not None
            assert server.stdout.readline().strip() == READY
            yield client
            server.stdin.close()
            server.wait(patience_s)


def serve(place: str) -> None:
    """Answers clients until standard input ends. Returns only in the copies."""
    for package in PACKAGES:
        importlib.import_module(package)
    # Copies do without the threads of Polars, which return free memory and remove spilled files.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # The garbage collector of a copy does not visit these objects, whose memory the copies share.
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    print(READY, flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            become(client)
            return
        client.close()
        while has_ended():
            pass


def has_ended() -> bool:
    """Whether a process that waited for a copy has ended."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def become(client: socket.socket) -> None:
    """Returns in a copy that has the client's streams, folder, environment and arguments."""
    with client:
        message, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)
        copy = os.fork()
        if copy:
            _, status = os.waitpid(copy, 0)
            client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    arguments, folder, environment = json.loads(message)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["aqmlab", *arguments]


def run() -> int:
    """Runs the command line. Returns the exit status."""
    from aqmlab.cli import main

    try:
        main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
    status = run()
    # As at the end of an interpreter, but without the time for freeing every object.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
