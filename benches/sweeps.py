"""The overhead of making many runs, beyond the simulations, on this machine and through Dask.

    python benches/sweeps.py [--runs N] [--tiny N]

Measures four things: the speed-up of half-second runs on two cores; the overhead per run (wall seconds of one
core minus CPU seconds of the simulation) of tiny runs on this machine and through a Dask worker process, and
of half-second runs through Dask, one per batch; the memory of `aqmlab sweep run` early and late in a hundred
thousand tiny runs; and the time of the same command when all runs are in the store. All of these depend on
wall seconds: other load of the machine makes them worse.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

import aqmlab as al
from aqmlab import measures
from aqmlab.campaign import Executor, Local, Task, execute
from aqmlab.campaign.dask_cluster import connect
from aqmlab.measures import Measure
from aqmlab.store import Store
from workloads import scenario

LONG_S = 0.5
"""CPU seconds of a long run."""

LONG_RUNS = 200
TINY_RUNS = 100_000
COUNTED = 3000
"""Number of tiny runs from which the overhead is measured."""

TINY = {"duration": "0.1s", "warm_up": "0s", "record": {"drops": False, "queue_every": "0s"}}

SWEEP = """\
scenario = "tiny.toml"
replications = {replications}
measures = ["bottleneck.drops", "ftp.goodput"]

[axes]
"bottleneck.delay" = {{ from = "1ms", to = "10ms", steps = 10 }}
"""

SCENARIO = """\
duration = "0.1s"
warm_up = "0s"
bottleneck = { rate = "10Mbps", queue = { kind = "drop-tail" } }
traffic.ftp = { kind = "ftp", flows = 2 }
record = { drops = false, queue_every = "0s" }
"""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number and its target."""

    case: str
    value: float
    unit: str
    target: str


def measure(runs: int = LONG_RUNS, tiny: int = TINY_RUNS) -> list[Figure]:
    """Measures everything with `runs` long runs, and a sweep of `tiny` tiny runs."""
    return [*speed_up(runs), *overheads(), *sweep_cost(tiny)]


def speed_up(runs: int) -> list[Figure]:
    """The speed-up of two cores over one."""
    long = _long()
    one_s, _ = _timed_runs(Local(jobs=1), long, runs)
    two_s, _ = _timed_runs(Local(jobs=2), long, runs)
    return [
        Figure(
            case=f"{runs} runs of {LONG_S} s: speed-up of two cores",
            value=one_s / two_s,
            unit="times",
            target="1.9",
        )
    ]


def overheads() -> list[Figure]:
    """The overhead per run."""
    tiny = scenario("w1").with_(TINY)
    # A sleep takes the same time whatever the load of the machine.
    pause = Measure(name="pause", compute=lambda view: time.sleep(LONG_S))
    here = _overhead_ms(Local(jobs=1), tiny, COUNTED)
    with connect("local:1") as dask:
        _timed_runs(dask, tiny, 10)
        through = _overhead_ms(dask, tiny, COUNTED)
        alone = _overhead_ms(dask, tiny, 30, pause) - 1e3 * LONG_S
    return [
        Figure(case="overhead of a tiny run here", value=here, unit="ms", target="3"),
        Figure(case="overhead of a tiny run through Dask", value=through, unit="ms", target="15"),
        Figure(case=f"overhead of a run of {LONG_S} s through Dask", value=alone, unit="ms", target="15"),
    ]


def _overhead_ms(executor: Executor, what: al.Scenario, runs: int, *more: Measure) -> float:
    """The overhead per run on one core, in milliseconds."""
    wall_s, cpu_s = _timed_runs(executor, what, runs, *more)
    return 1e3 * (wall_s - cpu_s) / runs


def sweep_cost(runs: int) -> list[Figure]:
    """The memory of a sweep early and late, and the time of the same command when all runs are stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.toml").write_text(SCENARIO, encoding="utf-8")
        (folder / "sweep.toml").write_text(SWEEP.format(replications=runs // 10), encoding="utf-8")
        command = [sys.executable, "-m", "aqmlab", "sweep", "run", "sweep.toml", "--store", "store"]
        start, memory = time.perf_counter(), []
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                memory.append(_memory(process.pid))
                time.sleep(0.1)
        wall_s = time.perf_counter() - start
        again: list[float] = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
            again.append(time.perf_counter() - start)
    fifth = len(memory) // 5
    early, late = median(memory[fifth : 2 * fifth]), median(memory[3 * fifth : 4 * fifth])
    return [
        Figure(
            case=f"{runs:,} tiny runs: time per run, all cores",
            value=1e3 * wall_s / runs,
            unit="ms",
            target="-",
        ),
        Figure(case="memory in the second fifth of them", value=early / 1e6, unit="MB", target="-"),
        Figure(case="memory in the fourth fifth of them", value=late / 1e6, unit="MB", target="the same"),
        Figure(case="the same sweep again, all runs stored", value=median(again), unit="s", target="1"),
    ]


def print_table(figures: Sequence[Figure]) -> None:
    """Prints a row for each number."""
    print(f"{'many runs':<48} {'value':>8} {'unit':<6} {'target':>8}")
    for one in figures:
        print(f"{one.case:<48} {one.value:>8.2f} {one.unit:<6} {one.target:>8}")


def _long() -> al.Scenario:
    """W1 with a duration that takes about half a second of CPU time on this machine."""
    ten = scenario("w1").with_({"duration": "10s", "warm_up": "1s"})
    cpu_s = median(ten.run(seed).performance["cpu_s"] for seed in range(3))
    return ten.with_({"duration": f"{10 * LONG_S / cpu_s:.1f}s"})


def _timed_runs(executor: Executor, what: al.Scenario, runs: int, *more: Measure) -> tuple[float, float]:
    """Makes and stores runs; returns the wall seconds, and the CPU seconds of their simulations."""
    known = measures.of_scenario(what)
    run_measures = (known["bottleneck.drops"], known["ftp.goodput"], *more)
    tasks = (Task(scenario=what, seed=seed, measures=run_measures) for seed in range(runs))
    with tempfile.TemporaryDirectory() as name, Store(Path(name) / "store") as store:
        start = time.perf_counter()
        execute(tasks, store, executor=executor, total=runs)
        return time.perf_counter() - start, float(store.runs()["cpu_s"].sum())


def _memory(process: int) -> int:
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=LONG_RUNS, help="number of half-second runs")
    parser.add_argument("--tiny", type=int, default=TINY_RUNS, help="number of tiny runs in the sweep")
    options = parser.parse_args()
    print_table(measure(options.runs, options.tiny))


if __name__ == "__main__":
    main()
