"""Scenario D at load 0.9 with the delay that ns-2 assigned to each server, compared with these ns-2 runs.

DelayBox has one list of delays on the servers' side, and assigns the next delay to each connection whose
first SYN arrives. The SYNs that the queue drops therefore determine the delay of each connection. This
program runs ns-2 again and records when the first packet of each connection enters and leaves the box of its
server; the same connections then use aqmlab's queue with those delays, and with the same delays shuffled.
(`scenario_d.py` uses no run of ns-2: there, the SYNs that aqmlab's queue drops determine the delays.)

    python reference/server_delays.py --tcp Sack --queues ared aredecn --draws 6

Needs ns2 (Debian's package), and about a minute of one core for each run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

import data
import scenario_d
from judge import Measures

SCRIPT = data.NS2 / "scripts" / "scen_d.tcl"
SHOWN = ("drop_frac_fwd", "drop_frac_rev", "rsp_median_ms", "rsp_mean_ms")
"""The compared quantities: the share of packets dropped in each direction, and the times of responses."""
SHUFFLES = 3
"""Number of runs with shuffled delays for each run with ns-2's delays."""


def main() -> int:
    """Runs both simulators and prints aqmlab's difference from ns-2 for each assignment of delays."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tcp", choices=scenario_d.TCPS, default="Sack")
    parser.add_argument("--queues", nargs="+", default=["ared", "aredecn"], metavar="QUEUE")
    parser.add_argument("--draws", type=int, default=6, help="ns-2 runs of each queue")
    parser.add_argument("--jobs", type=int, default=2, help="concurrent runs")
    options = parser.parse_args()
    wanted = list(product(options.queues, range(1, options.draws + 1)))
    with ThreadPoolExecutor(options.jobs) as pool:
        pairs = list(pool.map(lambda one: compare(options.tcp, *one), wanted))
    print(f"{options.tcp}, load 0.9: aqmlab divided by ns-2 minus 1, in %, mean and standard error")
    print(f"{'queue':12} {'quantity':16} {'ns-2':>10} {'its delays':>14} {'shuffled':>14}")
    for queue in options.queues:
        own = [pair for (name, _), pair in zip(wanted, pairs, strict=True) if name == queue]
        for what in SHOWN:
            theirs = np.array([pair[0][what] for pair in own])
            given, shuffled = (_difference([pair[which][what] for pair in own], theirs) for which in (1, 2))
            print(f"{queue:12} {what:16} {theirs.mean():10.5g} {given:>14} {shuffled:>14}")
    return 0


def compare(tcp: str, queue: str, draws: int) -> tuple[Measures, ...]:
    """A run of ns-2, one of aqmlab with its servers' delays, and the mean of several with shuffled delays."""
    with tempfile.TemporaryDirectory() as folder:
        theirs, servers = reference_run(tcp, queue, draws, Path(folder))
    base = scenario_d.replayed_scenario(tcp)
    base = base.with_(scenario_d.queue_changes(base, queue))

    def ours(seed: int, delays: Mapping[int, Sequence[int]]) -> Measures:
        scenario = scenario_d.with_connections(scenario_d.at_phase(base, seed), seed, servers=delays)
        return scenario_d.measures(scenario.run(seed=seed))

    seeds = range(SHUFFLES * draws, SHUFFLES * (draws + 1))
    shuffled = [ours(seed, shuffle(servers, seed)) for seed in seeds]
    return theirs, ours(draws, servers), {what: fmean(one[what] for one in shuffled) for what in SHOWN}


def shuffle(servers: Mapping[int, Sequence[int]], seed: int) -> dict[int, list[int]]:
    """The same delays, assigned to other connections."""
    chance = np.random.default_rng(seed)
    return {direction: chance.permutation(delays).tolist() for direction, delays in servers.items()}


def reference_run(tcp: str, queue: str, draws: int, folder: Path) -> tuple[Measures, dict[int, list[int]]]:
    """A run of ns-2, and by direction the delays of its servers (us), in the order of the starts."""
    words = ["q", queue, "tcp", tcp, "load", "0.9", "draws", str(draws)]
    words += ["rspout", str(folder / "responses"), "syns", str(folder / "syn")]
    process = subprocess.run(["ns", str(SCRIPT), *words], capture_output=True, text=True, check=True)
    printed = next(line for line in process.stdout.splitlines() if line.startswith("RESULT "))
    result = json.loads(printed.removeprefix("RESULT "))
    responses = np.vstack(
        [np.loadtxt(folder / f"responses.{direction}", usecols=range(4)) for direction in (1, 2)]
    )
    starts = responses[:, 0] - responses[:, 3] / 1000
    counted = (starts >= scenario_d.REQUESTS_FROM) & (starts < scenario_d.REQUESTS_BEFORE)
    times = responses[counted, 3]
    values = {f"drop_frac_{way}": float(result[f"drop_frac_{way}"]) for way in scenario_d.LINES}
    values |= {"rsp_mean_ms": float(times.mean()), "rsp_median_ms": float(np.median(times))}
    return values, {direction: servers_of(folder, direction) for direction in (1, 2)}


def servers_of(folder: Path, direction: int) -> list[int]:
    """Delay of the first packet of each connection in the box of its server, in microseconds."""
    started, entered, left = (_firsts(folder / f"syn.{direction}.{name}") for name in ("start", "in", "out"))
    delays = {flow: round(1e6 * (left[flow] - entered[flow])) for flow in left}
    # A connection whose SYN never got through has no delay, and needs none.
    return [delays.get(flow, 0) for flow in sorted(started, key=started.__getitem__)]


def _firsts(path: Path) -> dict[str, float]:
    """The time at which the first packet of each flow passed."""
    return {flow: float(time) for time, flow in (line.split() for line in path.read_text().splitlines())}


def _difference(ours: Sequence[float], theirs: npt.NDArray[np.float64]) -> str:
    """The mean of the ratios minus 1 and its standard error, in percent."""
    less = 100 * (np.array(ours) / theirs - 1)
    return f"{less.mean():.1f} ± {less.std(ddof=1) / np.sqrt(less.size):.1f}"


if __name__ == "__main__":
    sys.exit(main())
