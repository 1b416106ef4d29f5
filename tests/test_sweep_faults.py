"""What may go wrong under a sweep: a full disk, a damaged store, two sweeps at once, clocks, death."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from conftest import PATIENCE_S, Cli

from aqmlab.campaign import Local
from aqmlab.store import Store
from aqmlab.sweep import file as sweep_file
from aqmlab.sweep import run as sweep_run

FILE = """\
scenario = "small.toml"
replications = 30
measures = ["bottleneck.utilisation", "web.p90-time"]

[set]
duration = "4s"

[axes]
queue = ["red", "short"]
"""

NAMES = ["queue", "seed", "status", "bottleneck.utilisation", "web.p90-time"]

PROGRAM = """\
import resource, sys
from aqmlab.cli import main
limit = int(sys.argv.pop(1))
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
sys.argv[0] = "aqmlab"
main()
"""


@pytest.fixture
def file(small: Path) -> Path:
    path = small.parent / "sweep.toml"
    path.write_text(FILE)
    return path


def begun(file: Path, *words: str, limit: int = 0) -> subprocess.Popen[str]:
    """A sweep in a process of its own, which may write no file larger than `limit` bytes."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(limit), "sweep", "run", str(file), "--store", "kept", *words],
        cwd=file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runs_of(file: Path) -> pl.DataFrame:
    """What the store holds of the sweep."""
    sweep = sweep_file.load(file).sweep
    with Store(file.parent / "kept", read_only=True) as store:
        return store.results(sweep).frame.select(NAMES)


def alone(file: Path) -> pl.DataFrame:
    """The same sweep without anything going wrong."""
    store = Store.in_memory()
    sweep = sweep_file.load(file).sweep
    sweep_run.run(sweep, store, executor=Local(jobs=1))
    return store.results(sweep).frame.select(NAMES)


def test_a_full_disk_stops_with_a_clear_word_and_the_next_call_goes_on(file: Path) -> None:
    child = begun(file, limit=6000)
    _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode not in (0, 1), said
    assert "Traceback" not in said
    assert "free space on this file system, or use another folder with --store" in said
    kept = Store(file.parent / "kept", read_only=True).runs().height
    assert 0 < kept < 60
    child = begun(file)
    said, _ = child.communicate(timeout=PATIENCE_S)
    assert f"{60 - kept} runs executed, {kept} found" in said
    assert runs_of(file).height == 60


def test_two_sweeps_at_once_on_one_store_find_the_same(file: Path) -> None:
    children = [begun(file) for _ in range(2)]
    assert [child.wait(timeout=PATIENCE_S) for child in children] == [0, 0]
    for child in children:
        child.communicate()
    assert runs_of(file).equals(alone(file))
    assert Store(file.parent / "kept", read_only=True).runs().height == 60
    child = begun(file)
    assert "0 runs executed, 60 found" in child.communicate(timeout=PATIENCE_S)[0]


def test_a_sweep_killed_at_random_moments_loses_nothing_and_ends_as_if_it_had_not_been(file: Path) -> None:
    chance, kept = random.Random(5), 0
    for _ in range(6):
        child = begun(file, "--jobs", "1")
        deadline = time.monotonic() + chance.uniform(0.5, 1.1)
        while time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        now = Store(file.parent / "kept", read_only=True).runs().height
        assert now >= kept
        kept = now
    child = begun(file)
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0
    assert runs_of(file).equals(alone(file))


def test_a_flipped_byte_is_found_and_only_its_run_is_made_again(file: Path, cli: Cli) -> None:
    assert begun(file).communicate(timeout=PATIENCE_S)
    (log,) = sorted((file.parent / "kept" / "logs").iterdir())
    lines = log.read_bytes().splitlines(keepends=True)
    place = next(k for k, line in enumerate(lines) if b'"kind":"run"' in line and b'"seed":17' in line)
    at = sum(map(len, lines[:place])) + lines[place].index(b'"values"') + 40
    data = bytearray(log.read_bytes())
    data[at] ^= 4
    log.write_bytes(bytes(data))
    verified = cli("store", "verify", "--store", "kept")
    assert verified.returncode == 1, verified.stdout
    (file.parent / "kept" / "index").unlink(missing_ok=True)
    said = begun(file).communicate(timeout=PATIENCE_S)[0]
    assert "1 runs executed, 59 found" in said
    assert runs_of(file).equals(alone(file))


def test_a_clock_that_jumps_backwards_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    sweep = sweep_file.load(file, replications=4).sweep
    with Store(file.parent / "kept") as store:
        assert sweep_run.run(sweep, store).made == 8
        assert sweep_run.run(sweep, store).made == 0


def test_a_finished_sweep_writes_nothing_more(file: Path) -> None:
    begun(file).communicate(timeout=PATIENCE_S)
    before = {path: path.stat().st_mtime_ns for path in (file.parent / "kept").rglob("*")}
    assert begun(file).communicate(timeout=PATIENCE_S)[0]
    assert {path: path.stat().st_mtime_ns for path in (file.parent / "kept").rglob("*")} == before


def test_a_store_that_cannot_be_written_is_told_with_the_cure(file: Path, cli: Cli) -> None:
    (file.parent / "notes").mkdir()
    (file.parent / "notes" / "a.txt").write_text("mine")
    done = cli("sweep", "run", file, "--store", "notes")
    assert done.returncode == 2
    assert "notes: contains files, but is not a store" in done.stderr
    assert os.listdir(file.parent / "notes") == ["a.txt"]
