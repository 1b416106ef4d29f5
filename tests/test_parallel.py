"""Runs under way: how far they are, and that Ctrl-C stops them at once and keeps what is done."""

from __future__ import annotations

import _thread
import itertools
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from conftest import PATIENCE_S

import aqmlab as al
from aqmlab import _core
from aqmlab._support import parallel, progress
from aqmlab.cli import app as cli

COMMAND = "from aqmlab.cli import main; main()"

ENDLESS = {
    "packet": """
        duration = "100000s"
        bottleneck = { rate = "10Mbps", queue = { kind = "drop-tail" } }
        traffic.ftp.kind = "ftp"
    """,
    "flow": """
        level = "flow"
        duration = "1000000s"
        traffic.web.load = 0.9
        record = { flows = false, every = "0s" }
    """,
    "trace": """
        level = "trace"
        source = { kind = "generated", duration = "3600s" }
    """,
}
"""Far more than a machine does within these tests, at each level."""


@pytest.fixture(params=list(ENDLESS))
def endless(request: pytest.FixtureRequest) -> al.Scenario:
    return al.Scenario.from_dict(tomllib.loads(ENDLESS[request.param]))


def stopped_after(work: Callable[[], object], ready: Callable[[], bool]) -> float:
    """Seconds of work from an interrupt, which comes when `ready`, to the end: those of a processor, so that
    it does not matter what else the machine does."""
    at: list[float] = []

    def interrupt() -> None:
        while not ready():
            time.sleep(0.005)
        at.append(time.process_time())
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        work()
    return time.process_time() - at[0]


def test_control_c_stops_a_run_of_any_level_within_a_fifth_of_a_second(endless: al.Scenario) -> None:
    watch = _core.Watch()
    assert stopped_after(lambda: endless.run(watch=watch), lambda: watch.progress()[0] > 0) < 0.2
    done, total = watch.progress()
    assert 0 < done < total


def test_progress_never_goes_back_and_ends_with_the_whole(small: Path) -> None:
    watch, seen = _core.Watch(), []
    thread = threading.Thread(target=lambda: al.Scenario.load(small).run(watch=watch))
    thread.start()
    while thread.is_alive():
        seen.append(watch.progress()[0])
    assert seen == sorted(seen)
    assert watch.progress() == (12_000_000_000, 12_000_000_000)
    assert (watch.unit, progress.part(watch)) == ("ns", 1.0)
    assert progress.progress_text(watch) == "12.0 of 12 s simulated"


def test_whoever_was_stopped_before_it_began_does_nothing(endless: al.Scenario) -> None:
    watch = _core.Watch()
    watch.stop()
    with pytest.raises(KeyboardInterrupt):
        endless.run(watch=watch)


def test_an_interrupt_stops_runs_under_way_and_keeps_those_that_are_done(small: Path) -> None:
    short, long = al.Scenario.load(small), al.Scenario.from_dict(tomllib.loads(ENDLESS["packet"]))
    finished: list[str] = []

    def work(name: str, watch: _core.Watch) -> al.Run:
        return (short if name == "short" else long).run(watch=watch)

    def done(name: str, future: Future[al.Run]) -> None:
        assert future.result().performance["events"] > 0
        finished.append(name)

    tasks = ["short", "long", "long", "never begun", "never begun"]
    seconds = stopped_after(lambda: parallel.each(tasks, work, done, jobs=2), lambda: bool(finished))
    assert finished == ["short"]
    assert seconds < 2 * 0.2


def test_a_failure_is_told_and_does_not_stop_the_others() -> None:
    told: dict[int, object] = {}

    def work(task: int, _: _core.Watch) -> int:
        return 10 // task

    def done(task: int, future: Future[int]) -> None:
        told[task] = future.exception() or future.result()

    parallel.each([2, 0, 5], work, done, jobs=1)
    assert told[2] == 5
    assert told[5] == 2
    assert isinstance(told[0], ZeroDivisionError)


def test_work_that_is_to_begin_apart_does_and_all_of_it_is_done() -> None:
    begun: list[float] = []
    told: list[int] = []

    def work(number: int, _: _core.Watch) -> int:
        begun.append(time.monotonic())
        return number

    parallel.each(range(4), work, lambda task, future: told.append(future.result()), jobs=4, apart_s=0.12)
    assert told == [0, 1, 2, 3]
    assert all(later - earlier > 0.11 for earlier, later in itertools.pairwise(begun))


def test_the_command_reads_and_checks_a_scenario_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Document:
        """Counts what the core is given."""

        def __init__(self, document: _core.Document) -> None:
            self.json, self.files, self._document = document.json, document.files, document

        @staticmethod
        def of_toml(text: str, folder: str) -> Document:
            calls.append("toml")
            return Document(_core_document.of_toml(text, folder))

        @staticmethod
        def of_json(text: str) -> Document:
            calls.append("json")
            return Document(_core_document.of_json(text))

        def plan(self, files: dict[str, str]) -> _core.Plan:
            calls.append("check")
            return self._document.plan(files)

    _core_document = _core.Document
    monkeypatch.setattr(_core, "Document", Document)
    monkeypatch.setattr(sys, "argv", ["aqmlab", "run", str(small)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert calls == ["toml", "check"]
    calls.clear()
    al.Scenario.load(small, {"seed": 4}).run(5)
    assert calls == ["toml", "json", "check"], "a change is read, another seed is not"


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("level", list(ENDLESS))
def test_an_interrupted_command_says_so_and_ends_with_its_status(level: str, tmp_path: Path) -> None:
    path = tmp_path / "endless.toml"
    path.write_text(ENDLESS[level], encoding="utf-8")
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", COMMAND, "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        try:
            said_until(ours, rb"[1-9][\d.]* of [\d.]+ s simulated")
            process.send_signal(signal.SIGINT)
            said = said_until(ours, None)
            out, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            os.close(ours)
    assert (process.returncode, out) == (130, "")
    assert said.endswith(b"aqmlab: interrupted\r\n")


def said_until(terminal: int, pattern: bytes | None) -> bytes:
    """What is written to a terminal until it matches, or until nobody writes to it any more."""
    said = b""
    while pattern is None or not re.search(pattern, said):
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"nothing more after {said!r}"
        try:
            more = os.read(terminal, 4096)
        except OSError:  # So Linux says that the other end is closed.
            more = b""
        if not more:
            assert pattern is None, f"ended after {said!r}"
            break
        said += more
    return said


PRESSED_HOLDING_A_LOCK = """
import signal, threading
from aqmlab._support import parallel

main, takes = threading.get_ident(), threading.Condition.__enter__


def press_at(count):
    left = count

    def enter(self):
        nonlocal left
        got = takes(self)
        if threading.get_ident() == main:
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return got

    threading.Condition.__enter__ = enter


for count in range(1, 60):
    finished = []
    press_at(count)
    try:
        parallel.each(range(1000), lambda task, _: task, lambda task, _: finished.append(task), jobs=2)
    except KeyboardInterrupt:
        assert len(finished) < 1000
    else:
        raise AssertionError(f"no interrupt came at lock {count}")
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_control_c_never_leaves_a_lock_that_nobody_gives_back() -> None:
    code = [sys.executable, "-c", PRESSED_HOLDING_A_LOCK]
    done = subprocess.run(code, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
