"""Accuracy and speed of live runs on this machine, measured by the programs at both ends.

    python benches/live.py [--runs N] [--seconds S] [--out DIR]

Prints, for links from 140 kbit/s to 100 Mbit/s: under saturation, the error of the mean rate between the
first and the last received datagram, the lateness of the router, and the losses outside the queue; under low
load, the error of the delay; and, with a link that is not the limit, the router's throughput in packets per
second. Nothing passes or fails, because timings vary with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

import aqmlab as al
from aqmlab import live

ENDS = str(Path(__file__).with_name("live_ends.py"))
HEADERS = 28
"""Bytes of the headers of IPv4 and UDP."""

PACKET = 1500
SMALL = 50
RATES_BPS = (140e3, 1e6, 10e6, 100e6)
DELAY_S = 0.03
QUEUES = ("drop-tail", "red")


@dataclass(frozen=True, kw_only=True)
class SaturatedLink:
    """Results of a saturated link: medians over the runs, and the worst error, losses and invalid runs."""

    rate_bps: float
    rate_error: float
    """Relative error of the mean rate."""
    lateness_p50_us: float
    lateness_p99_us: float
    lost_outside: int
    """Packets lost outside the queue of the scenario, in all runs: before the router, or between the router
    and the receiving program."""
    invalid_runs: int


@dataclass(frozen=True, kw_only=True)
class Delay:
    """Results of a link with few packets: the delay in excess of transmission and propagation."""

    rate_bps: float
    error_p50_us: float
    error_p99_us: float


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The throughput of the router when the link is not the limit."""

    queue: str
    size_bytes: int
    packets_per_s: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs all measurements, prints the tables and saves the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each measurement")
    parser.add_argument("--seconds", type=float, default=10, help="duration of each run")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for the results")
    options = parser.parse_args(arguments)
    machine = machine_of()
    print("  ".join(f"{name} {value}" for name, value in machine.items()))
    lines = [line(rate, options.runs, options.seconds) for rate in RATES_BPS]
    print_lines(lines)
    delays = [delay(rate, options.runs, options.seconds) for rate in RATES_BPS]
    print_delays(delays)
    capacities = [
        capacity(queue, size, options.runs, options.seconds) for size in (SMALL, PACKET) for queue in QUEUES
    ]
    print_capacities(capacities)
    figures = {
        "version": al.__version__,
        "machine": machine,
        "lines": [asdict(one) for one in lines],
        "delays": [asdict(one) for one in delays],
        "capacities": [asdict(one) for one in capacities],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "live.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(f"\nResults are saved in {options.out / 'live.json'}")


def machine_of() -> dict[str, str]:
    """The properties of the machine on which the results depend."""
    priority = live.privileges()["realtime"]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "kernel": platform.release(),
        "load": " ".join(f"{one:.1f}" for one in os.getloadavg()),
        "real-time priority": "yes" if priority is None else f"no: {priority}",
    }


def run_programs(
    rate_bps: float,
    longest_s: float,
    sender: Sequence[str],
    receiver: Sequence[str],
    queue: object,
    delay_s: float = DELAY_S,
) -> al.Run:
    """Runs two programs that communicate over an emulated link, until the traffic ends."""
    programs = {"server": [sys.executable, ENDS, *sender], "client": [sys.executable, ENDS, *receiver]}
    scenario = al.Scenario.from_dict(
        {
            "duration": f"{longest_s:g}s",
            "warm_up": "0s",
            "bottleneck": {"rate": f"{rate_bps:.0f}bps", "delay": f"{delay_s}s", "queue": queue},
            "access": {"rate": "100Gbps", "delay": "0s"},
            "tcp": {"profile": "linux-6"},
            "traffic": {"datagrams": {"kind": "program", **programs}},
        }
    )
    return live.run(scenario, until_done=True)


def timestamped_run(rate_bps: float, gap_s: float, seconds: float) -> tuple[al.Run, np.ndarray]:
    """Sends a full-size packet every `gap_s`; returns the run and the times sent and received, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "received.json"
        payload, silence_s = str(PACKET - HEADERS), max(1.0, 3 * gap_s)
        run = run_programs(
            rate_bps,
            2 * seconds + 2 * silence_s + 5,
            ["send", payload, f"{gap_s:.9f}", f"{seconds}"],
            ["receive", "server", f"{silence_s}", str(file)],
            {"kind": "drop-tail", "limit": "50p"},
        )
        return run, np.array(json.loads(file.read_text(encoding="utf-8")), dtype=np.int64).reshape(
            -1, 2
        ) / 1e9


def line(rate_bps: float, runs: int, seconds: float) -> SaturatedLink:
    """Measures a link with 10 % more load than its capacity."""
    packet_s = 8 * PACKET / rate_bps
    errors, p50, p99, lost, invalid = [], [], [], 0, 0
    for _ in range(runs):
        run, times = timestamped_run(rate_bps, packet_s / 1.1, max(seconds, 100 * packet_s))
        received = times[:, 1]
        # The first packet may wait for the second; from the second on, the link is never idle.
        elapsed = received[-1] - received[1]
        errors.append((received.size - 2) * packet_s / elapsed - 1)
        found = run.manifest["live"]
        p50.append(found["lateness"]["p50_us"])
        p99.append(found["lateness"]["p99_us"])
        lost += int(run.flows["datagrams_received"].sum()) - received.size
        lost += sum(found["dropped_by_devices"].values())
        invalid += not found["valid"]
    return SaturatedLink(
        rate_bps=rate_bps,
        rate_error=max(errors, key=abs),
        lateness_p50_us=median(p50),
        lateness_p99_us=median(p99),
        lost_outside=lost,
        invalid_runs=invalid,
    )


def delay(rate_bps: float, runs: int, seconds: float) -> Delay:
    """Measures a link with a load of at most 5 %."""
    packet_s = 8 * PACKET / rate_bps
    late = []
    for _ in range(runs):
        _, times = timestamped_run(rate_bps, max(20 * packet_s, 0.005), max(seconds, 400 * packet_s))
        late.append((times[:, 1] - times[:, 0] - packet_s - DELAY_S) * 1e6)
    found = np.concatenate(late)
    return Delay(
        rate_bps=rate_bps,
        error_p50_us=float(np.quantile(found, 0.5)),
        error_p99_us=float(np.quantile(found, 0.99)),
    )


def capacity(queue: str, size: int, runs: int, seconds: float) -> Capacity:
    """Measures the forwarded packets per second: the median over the runs."""
    found = []
    for _ in range(runs):
        run = run_programs(
            10e9,
            seconds + 5,
            ["flood", str(size - HEADERS), f"{seconds}"],
            ["sink", "server", f"{seconds}"],
            {"kind": queue, "limit": "1000p"},
            delay_s=0.0,
        )
        found.append(run.manifest["live"]["router"]["handed_over"] / seconds)
    return Capacity(queue=queue, size_bytes=size, packets_per_s=median(found))


def print_lines(lines: Sequence[SaturatedLink]) -> None:
    """Prints a row for each rate."""
    print("\nsaturated links; the rate error is the largest of all runs")
    print(
        f"{'rate (Mbit/s)':>14} {'rate error':>11} {'late p50 (us)':>14} {'p99':>7} "
        f"{'lost outside':>13} {'invalid':>8}"
    )
    for one in lines:
        print(
            f"{one.rate_bps / 1e6:14g} {one.rate_error:+11.4%} {one.lateness_p50_us:14.0f} "
            f"{one.lateness_p99_us:7.0f} {one.lost_outside:13} {one.invalid_runs:8}"
        )


def print_delays(delays: Sequence[Delay]) -> None:
    """Prints a row for each rate."""
    print("\nnearly idle links: delay in excess of transmission and propagation")
    print(f"{'rate (Mbit/s)':>14} {'p50 (us)':>9} {'p99':>7}")
    for one in delays:
        print(f"{one.rate_bps / 1e6:14g} {one.error_p50_us:9.0f} {one.error_p99_us:7.0f}")


def print_capacities(capacities: Sequence[Capacity]) -> None:
    """Prints a row for each measurement."""
    print("\nthroughput of the router where the link is not the limit")
    print(f"{'queue':>14} {'bytes':>6} {'packets/s':>11}")
    for one in capacities:
        print(f"{one.queue:>14} {one.size_bytes:6} {one.packets_per_s:11,.0f}")


if __name__ == "__main__":
    main()
