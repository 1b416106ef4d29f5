"""Start-up time: seconds from the command to its first result, for processes that do little else.

    python benches/startup.py [--times N]

Four cases: Python alone, for comparison; `import aqmlab`; `aqmlab --help`; and `aqmlab run` of one second
of `scenarios/hello.toml`. Each run is a new process; its files are in the page cache and its bytecode is
compiled. The cases alternate, so that other load of the machine affects all of them. Prints medians of CPU
seconds (user and system) and of wall seconds. Targets: 0.1 s for the import, 0.15 s for the help and 0.5 s
for the run. On a busy machine, compare CPU seconds; wall seconds include waiting for other processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
HELLO = ROOT / "scenarios" / "hello.toml"

CASES = {
    "python": ("-c", "pass"),
    "import aqmlab": ("-c", "import aqmlab"),
    "aqmlab --help": ("-m", "aqmlab", "--help"),
    "aqmlab run, 1 s": ("-m", "aqmlab", "run", str(HELLO), "--set", "duration=1s", "--set", "warm_up=0s"),
}
"""The arguments of Python in each case."""

TIMES = 15
"""Number of measurements of each case."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """The cost of one process."""

    case: str
    cpu_s: float
    wall_s: float


def measure(times: int = TIMES) -> list[Start]:
    """Measures every case this many times, after one unmeasured run that fills the caches."""
    starts = []
    for turn in range(times + 1):
        for case, arguments in CASES.items():
            cpu_s, wall_s = _cost([sys.executable, *arguments])
            if turn:
                starts.append(Start(case=case, cpu_s=cpu_s, wall_s=wall_s))
    return starts


def print_table(starts: Sequence[Start]) -> None:
    """Prints a row of medians for each case, in milliseconds."""
    print(f"{'start':<16} {'CPU ms':>7} {'wall ms':>8}")
    for case in dict.fromkeys(one.case for one in starts):
        of_case = [one for one in starts if one.case == case]
        cpu_s, wall_s = median(one.cpu_s for one in of_case), median(one.wall_s for one in of_case)
        print(f"{case:<16} {1e3 * cpu_s:>7.0f} {1e3 * wall_s:>8.0f}")


def _cost(command: Sequence[str]) -> tuple[float, float]:
    """CPU and wall seconds of a process that may write the bytecode of its imports, as by default."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime, wall_s


def main() -> None:
    """Measures every case and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=TIMES, help="number of processes per case")
    print_table(measure(parser.parse_args().times))


if __name__ == "__main__":
    main()
