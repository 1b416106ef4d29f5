"""What the tests share: a small scenario, and the command line as a user types it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import preloaded
import pytest

SMALL = """\
# A small scenario that runs in a moment.
duration = "12s"
warm_up = "2s"
seed = 3

[bottleneck]
rate = "2Mbps"
delay = "20ms"

[bottleneck.queue]
kind = "red"
min_th = "5p"
max_th = "15p"
max_p = 0.1
weight = 0.01
limit = "40p"

[traffic.ftp]
kind = "ftp"
flows = 3
stagger = "1s"

[traffic.web]
kind = "web"
load = 0.3
objects = { kind = "constant", value = 2 }

[queues.short]
kind = "drop-tail"
limit = "5p"
"""

Cli = Callable[..., "subprocess.CompletedProcess[str]"]

PATIENCE_S = 300.0
"""How long something may take that takes a moment: a limit for what hangs, however busy the machine."""


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> Iterator[None]:
    """Ctrl-C interrupts, even where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that start `aqmlab` as a program, which takes a second or so each."""
    for item in items:
        if {"cli", "command"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("program")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The file of a small scenario, in a folder of its own."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def program() -> Iterator[Path]:
    """A program `aqmlab` that starts quickly."""
    with preloaded.program(PATIENCE_S) as path:
        yield path


@pytest.fixture
def cli(tmp_path: Path, program: Path) -> Cli:
    """Runs `aqmlab` with these arguments in the test's folder."""

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=PATIENCE_S,
        )

    return call


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `aqmlab` with these arguments; it is gone after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **environment: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            text=True,
            cwd=tmp_path,
            env=os.environ | environment,
            **pipes,  # type: ignore[call-overload]
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


COMMAND = "from aqmlab.cli import main; main()"
"""What the installed `aqmlab` does, for the interpreter of the tests."""
