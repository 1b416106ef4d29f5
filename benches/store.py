"""The cost of storing runs: seconds and memory of processes that write to, list and query a store.

    python benches/store.py [--runs N ...]

For each number of runs, with ten measures each, in a separate process: `add` records the runs one by one and
syncs them to the disk at the end; `ls, no index` is the first `aqmlab store ls`, which reads the logs and
writes the index; `ls` and `sql` use the index, and `sql` averages every measure in DuckDB. The targets apply
to wall seconds, because part of the time is waiting for the disk: 1 ms per recorded run; 2 s for `ls` and
`sql` together with 10^5 runs, and 10 s with 10^6; and a memory of `add` that does not grow with the runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RUNS = 100_000
MILLION = 1_000_000

ADD = """
import random, sys
from pathlib import Path
from aqmlab.store import Store
chance = random.Random(1)
with Store(Path(sys.argv[1])) as store:
    for number in range(int(sys.argv[2])):
        values = {f"web.measure-{one}@1": chance.random() for one in range(10)}
        name = {"scenario": f"{number // 10:064x}", "seed": number % 10 + 1}
        facts = {"cpu_s": 0.5, "version": "1", "facts": {"objects": number}}
        store.add({"kind": "run", "status": "done", "values": values} | name | facts)
"""

AVERAGES = "SELECT measure, avg(value) FROM values GROUP BY measure"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The cost of one process that works on a store with this number of runs."""

    case: str
    runs: int
    wall_s: float
    cpu_s: float
    peak_bytes: int


def measure(runs: int = RUNS) -> list[Kept]:
    """Measures every case once, in order, on a store in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        store = str(Path(name) / "store")
        cases = {
            "add": ["-c", ADD, store, str(runs)],
            "ls, no index": ["-m", "aqmlab", "store", "ls", "--store", store],
            "ls": ["-m", "aqmlab", "store", "ls", "--store", store],
            "sql": ["-m", "aqmlab", "store", "sql", AVERAGES, "--store", store],
        }
        return [_cost(case, runs, [sys.executable, *words]) for case, words in cases.items()]


def print_table(kept: Sequence[Kept]) -> None:
    """Prints a row for each case."""
    print(f"{'store':<14} {'runs':>8} {'wall s':>8} {'CPU s':>8} {'ms / run':>9} {'peak MB':>8}")
    for one in kept:
        print(
            f"{one.case:<14} {one.runs:>8} {one.wall_s:>8.2f} {one.cpu_s:>8.2f} "
            f"{1e3 * one.wall_s / one.runs:>9.4f} {one.peak_bytes / 1e6:>8.0f}"
        )


def _cost(case: str, runs: int, command: Sequence[str]) -> Kept:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Kept(case=case, runs=runs, wall_s=wall_s, cpu_s=cpu_s, peak_bytes=1024 * usage.ru_maxrss)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, nargs="+", default=[RUNS], metavar="N", help="runs in the store")
    print_table([one for runs in parser.parse_args().runs for one in measure(runs)])


if __name__ == "__main__":
    main()
