"""Runs on a cluster of worker processes on this machine: the same results, whatever becomes of workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import PATIENCE_S

import aqmlab as al
from aqmlab import measures
from aqmlab.campaign import Account, Local, Task, dask_cluster, dask_executor, dask_workers, execute
from aqmlab.campaign.dask_cluster import connect
from aqmlab.campaign.dask_executor import Dask
from aqmlab.campaign.dask_workers import ClusterError
from aqmlab.measures import Measure
from aqmlab.store import Store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills processes")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Dask]:
    """Two worker processes, for tests that leave them in order."""
    with connect("local:2") as executor:
        yield executor


@pytest.fixture
def scenario(small: Path) -> al.Scenario:
    return al.Scenario.load(small, {"duration": "3s", "warm_up": "1s"})


def tasks_of(scenario: al.Scenario, count: int, *more: Measure) -> list[Task]:
    """So many runs, with all measures of the scenario."""
    wanted = (*measures.of_scenario(scenario).values(), *more)
    return [Task(scenario=scenario, seed=seed, measures=wanted, name="small") for seed in range(1, count + 1)]


def slow(seconds: float) -> Measure:
    """A measure that takes so long."""
    return Measure(name="slow", compute=lambda view: time.sleep(seconds))


def until(true: Callable[[], bool]) -> None:
    """Waits for it, and not for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def made_by(executor: Local | Dask, tasks: list[Task]) -> tuple[Store, Account]:
    store = Store.in_memory()
    return store, execute(tasks, store, executor=executor, total=len(tasks))


def records(store: Store, tasks: Iterable[Task]) -> dict[int, Any]:
    """What is kept of each run but what it cost."""
    kept = store.runs_of(list({task.scenario.digest for task in tasks}))
    return {
        seed: (one.status, dict(one.values), dict(one.frames), one.error, one.version, one.facts)
        for (_, seed), one in kept.items()
    }


def worker_processes() -> list[psutil.Process]:
    """Those below this process that make runs, oldest first; whoever starts them again is not among them."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if "spawn_main" in " ".join(one.cmdline()):
                found.append(one)
        except psutil.Error:
            continue
    return found


@contextmanager
def scheduler() -> Iterator[str]:
    """The address of a scheduler of somebody else's, without workers."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=":0", silence_logs=50) as theirs:
        yield theirs.scheduler_address


@contextmanager
def worker(address: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that was started by hand."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    process = subprocess.Popen(
        [*command, "--no-nanny", "--no-dashboard", "--local-directory", str(folder), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_cluster_makes_what_this_machine_makes(cluster: Dask, scenario: al.Scenario) -> None:
    shape = Measure(name="flows", compute=lambda view: view.run.tables["flows"].select("flow", "goodput_bps"))
    tasks = tasks_of(scenario, 30, shape)
    here, _ = made_by(Local(), tasks)
    there, account = made_by(cluster, tasks)
    assert account.made == 30
    assert records(there, tasks) == records(here, tasks)
    run = there.runs_of([scenario.digest])[scenario.digest, 30]
    assert there.frame(run, shape.key).equals(scenario.run(30).flows.select("flow", "goodput_bps"))


def test_killed_workers_cost_no_result_and_no_noise(
    scenario: al.Scenario, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, workers may take longer to start again.
    monkeypatch.setattr(dask_executor, "ALONE_S", PATIENCE_S)
    tasks = tasks_of(scenario, 100, slow(0.03))
    killed: list[int] = []
    others = {one.pid for one in worker_processes()}
    over = threading.Event()

    def kill_now_and_then() -> None:
        while len(killed) < 2 and not over.wait(0.1):
            victims = [one for one in worker_processes() if one.pid not in others | {*killed}]
            if len(victims) == 2:
                victims[0].kill()
                killed.append(victims[0].pid)

    with connect("local:2") as executor:
        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        there, account = made_by(executor, tasks)
        over.set()
        killer.join()
    here, _ = made_by(Local(), tasks)
    assert killed
    assert (account.made, account.failures) == (100, [])
    assert records(there, tasks) == records(here, tasks)
    until(lambda: {one.pid for one in worker_processes()} <= others)
    assert capfd.readouterr() == ("", "")


def test_a_run_that_kills_its_workers_has_crashed_and_no_other_has(
    cluster: Dask, scenario: al.Scenario
) -> None:
    def compute(view: Any) -> int:
        if view.run.manifest["seed"] == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    tasks = tasks_of(scenario, 40, Measure(name="killer", compute=compute))
    store, account = made_by(cluster, tasks)
    kept = store.runs_of([scenario.digest])
    assert {seed for (_, seed), run in kept.items() if run.status == "crashed"} == {17}
    assert sum(run.status == "done" for run in kept.values()) == 39
    assert [failure.seed for failure in account.failures] == [17]
    assert "killed its worker 3 times" in account.failures[0].problem


def test_a_run_that_fails_is_kept_with_its_error(cluster: Dask, scenario: al.Scenario) -> None:
    broken = Measure(name="broken", compute=lambda view: 1 / (view.run.manifest["seed"] - 2))
    _, account = made_by(cluster, tasks_of(scenario, 3, broken))
    assert [(one.seed, one.problem) for one in account.failures] == [
        (2, "ZeroDivisionError: division by zero")
    ]


def test_tiny_runs_share_batches_and_are_taken_as_there_is_room(
    cluster: Dask, scenario: al.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, ahead, batches = 0, 0, 0
    told = 0
    submit = dask_executor._Work._submit

    def counted(self: Any, batch: Any, **options: Any) -> None:
        nonlocal batches
        batches += 1
        submit(self, batch, **options)

    def lazily() -> Iterator[Task]:
        nonlocal taken
        for task in tasks:
            taken += 1
            yield task

    def done(task: Task, made: Any) -> None:
        nonlocal told, ahead
        told += 1
        ahead = max(ahead, taken - told)

    monkeypatch.setattr(dask_executor._Work, "_submit", counted)
    monkeypatch.setattr(dask_executor, "MOST_RUNS", 50)
    tiny = scenario.with_({"duration": "0.1s", "warm_up": "0s"})
    tasks = [Task(scenario=tiny, seed=seed, measures=()) for seed in range(1500)]
    cluster.each(lazily(), done, total=1500, already=0, label=None)
    assert told == 1500
    assert batches < 300
    assert ahead <= 50 * (2 * dask_executor.AHEAD + 1)


def test_an_interrupt_keeps_what_is_finished_and_leaves_no_process(scenario: al.Scenario) -> None:
    endless = scenario.with_({"duration": "1000000s"})
    tasks = [*tasks_of(scenario, 3), *tasks_of(endless, 5)]
    store, account = Store.in_memory(), Account()
    others = {one.pid for one in worker_processes()}

    def interrupt() -> None:
        until(lambda: account.made == 3)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), connect("local:2") as executor:
        threading.Thread(target=interrupt).start()
        execute(tasks, store, executor=executor, total=8, account=account)
    assert store.runs().height == 3
    until(lambda: {one.pid for one in worker_processes()} <= others)


def test_a_worker_that_comes_late_is_used(scenario: al.Scenario, tmp_path: Path) -> None:
    tasks = tasks_of(scenario, 5)
    with scheduler() as address, connect(address) as executor:
        late = worker(address, tmp_path)
        timer = threading.Timer(0.5, late.__enter__)
        timer.start()
        _, account = made_by(executor, tasks)
        timer.join()
        late.__exit__(None, None, None)
    assert account.made == 5


OTHER = """
from aqmlab import _core
_core.RESULTS_VERSION = 999
"""


def test_workers_with_another_version_are_refused_with_the_cure(tmp_path: Path) -> None:
    from distributed import Client

    (tmp_path / "other.py").write_text(OTHER, encoding="utf-8")
    preload = ("--preload", str(tmp_path / "other.py"))
    with scheduler() as address, worker(address, tmp_path, *preload), Client(address) as client:
        client.wait_for_workers(1, timeout=PATIENCE_S)
        said = r"tcp://[\d.:]+: has the results version 999, but this machine has \d+; install the same wheel"
        with pytest.raises(ClusterError, match=said), connect(address):
            pass


def test_a_worker_with_another_version_that_comes_late_is_sent_away(
    scenario: al.Scenario, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.py").write_text(OTHER, encoding="utf-8")
    tasks = tasks_of(scenario, 25, slow(0.12))
    with (
        scheduler() as address,
        worker(address, tmp_path),
        connect(address) as executor,
        worker(address, tmp_path, "--preload", str(tmp_path / "other.py")) as other,
    ):
        _, account = made_by(executor, tasks)
        assert other.wait(timeout=PATIENCE_S) == 0
    assert (account.made, account.failures) == (25, [])
    assert "has the results version 999" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"version": "0.0.9"}, r"aqmlab 0\.0\.9, but this machine has .*pip install 'aqmlab\[cluster\]=="),
        ({"python": "3.9"}, r"Python 3\.9, but this machine has 3\.\d+, .*start the worker with Python 3"),
        ({"core": "0"}, "another build of aqmlab .*the same wheel"),
        ({"core": "0", "machine": "Plan9 mips"}, "^$"),
    ],
)
def test_what_differs_is_told_with_the_cure(theirs: dict[str, Any], said: str) -> None:
    import re

    ours = dask_workers.identity()
    assert re.search(said, dask_workers.incompatibility(ours, ours._replace(**theirs)))


def test_a_scheduler_that_is_not_there_is_told_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1)
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9: no scheduler answered"):
        connect("tcp://127.0.0.1:9").__enter__()


def test_a_scheduler_that_is_lost_ends_the_sweep_with_what_is_finished(
    scenario: al.Scenario, tmp_path: Path
) -> None:
    tasks = tasks_of(scenario, 300, slow(0.1))
    store, account = Store.in_memory(), Account()
    theirs = scheduler()
    address = theirs.__enter__()
    with worker(address, tmp_path), connect(address) as executor:

        def lose() -> None:
            until(lambda: account.made > 3)
            theirs.__exit__(None, None, None)

        thread = threading.Thread(target=lose)
        thread.start()
        with pytest.raises(
            ClusterError, match=r"the connection to the scheduler at .* was lost; finished runs are stored"
        ):
            execute(tasks, store, executor=executor, total=300, account=account)
        thread.join()
    assert 3 < store.runs().height == account.made < 300


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "use exactly one of"),
        ({"address": "tcp://a:1", "slurm": True}, "use exactly one of"),
        ({"address": "a:1"}, "address: must be tcp://HOST:PORT"),
        ({"address": "local:many"}, "where N is the number of processes"),
        ({"address": "local:2", "workers": 3}, "got the address local:2"),
        ({"slurm": True}, "for example --dask-workers 40"),
        ({"ssh": ["a"], "workers": 0}, r"must be at least 1 \(got 0\)"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        connect(**options).__enter__()
