"""Speed, as ratios: beside ns-2 where it is installed, of other TCPs beside Reno, and from few flows to very
many.

    python benches/bench.py [--pairs N] [--grid] [--out DIR]

Prints, for each workload, packets forwarded by the bottleneck per CPU second, nanoseconds per event
and, where valgrind is installed, instructions per packet; beside them ns-2's packets per CPU second
and the median ratio of runs made in turn. Nothing here passes or fails: machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import aqmlab as al

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "reference"))

import data  # noqa: E402

SCRIPTS = ROOT / "reference" / "ns2" / "scripts"
TRANSPORTS = ("reno/newreno", "reno/sack", "reno/rack", "cubic/sack")
FLOWS = (50, 10_000, 100_000)
IN_FLIGHT_BYTES = 88
"""What a packet under way occupies: its entry in a lane, its parcel, its place in a queue."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One workload of both simulators."""

    name: str
    what: str
    target: float
    ns2: tuple[str, ...]


WORKLOADS = (
    Workload(
        name="w1", what="50 FTP, RED", target=10, ns2=("scen_a.tcl", "q", "red", "nftp", "50", "seed", "1")
    ),
    Workload(
        name="w2",
        what="Web 70 % + 10 FTP, RED",
        target=50,
        ns2=("scen_a.tcl", "q", "red", "nftp", "10", "seed", "1", "web", "WEB"),
    ),
    Workload(
        name="w3",
        what="4 Reno + 25 Mbps Poisson, Drop Tail",
        target=6,
        ns2=("scen_b.tcl", "q", "droptail", "limit", "625", "cc", "rrrr", "seed", "1", "monitor", "0"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What was measured of a workload; missing where a tool is missing."""

    workload: str
    packets_per_cpu_s: float
    ns_per_event: float
    events_per_packet: float
    instructions_per_packet: float | None
    ns2_packets_per_cpu_s: float | None
    ratio: float | None
    wanted_ratio: float


@dataclass(frozen=True, kw_only=True)
class Transport:
    """What a packet costs with another TCP, in times of what it costs with Reno."""

    workload: str
    tcp: str
    times_reno: float


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What a packet and a flow cost among so many flows."""

    flows: int
    ns_per_packet: float
    times_the_least: float
    bytes_per_flow: float | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints everything, and keeps the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=7, help="runs of each simulator, made in turn")
    parser.add_argument("--grid", action="store_true", help="time the main grid of the shred study, too")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="where the figures are kept")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        events = build_events()
        speeds = [measure(one, options.pairs, Path(folder), events) for one in WORKLOADS]
        print_speeds(speeds)
        transports = [
            transport(workload, tcp, options.pairs) for workload in ("w1", "w3") for tcp in TRANSPORTS
        ]
        print_transports(transports)
        scales = scaling(Path(folder), events)
        print_scales(scales)
    figures: dict[str, object] = {
        "version": al.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "speeds": [asdict(one) for one in speeds],
        "transports": [asdict(one) for one in transports],
        "scales": [asdict(one) for one in scales],
    }
    if options.grid:
        figures["grid"] = grid()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(f"\nFigures are kept in {options.out / 'bench.json'}")


def measure(workload: Workload, pairs: int, folder: Path, events: Path | None) -> Speed:
    """Runs both simulators in turn."""
    web = folder / "web.txt"
    schedule = data.objects(0.7, 1)
    web.write_text(
        "".join(f"{start:.6f} {size} {count}\n" for start, size, count in schedule), encoding="utf-8"
    )
    scenario = al.Scenario.load(ROOT / "scenarios" / "bench" / f"{workload.name}.toml")
    if workload.name == "w2":
        replay = {"kind": "replay", "file": web.name}
        scenario = scenario.with_({"traffic.web": replay}, files={web.name: web.read_text(encoding="utf-8")})
    ours, theirs, costs = [], [], []
    performance: dict[str, float] = {}
    for _ in range(pairs):
        performance = scenario.run().performance
        ours.append(performance["packets_per_cpu_s"])
        costs.append(performance["cpu_s"])
        if shutil.which("ns"):
            theirs.append(ns2_speed([word.replace("WEB", str(web)) for word in workload.ns2]))
    packets, happened = performance["packets_forwarded"], performance["events"]
    return Speed(
        workload=f"{workload.name.upper()} ({workload.what})",
        packets_per_cpu_s=median(ours),
        ns_per_event=median(costs) / happened * 1e9,
        events_per_packet=happened / packets,
        instructions_per_packet=instructions(events, scenario, folder),
        ns2_packets_per_cpu_s=median(theirs) if theirs else None,
        ratio=median(a / b for a, b in zip(ours, theirs, strict=True)) if theirs else None,
        wanted_ratio=workload.target,
    )


def transport(workload: str, tcp: str, pairs: int) -> Transport:
    """Runs a workload with this TCP and with Reno, in turn."""
    reno = al.Scenario.load(ROOT / "scenarios" / "bench" / f"{workload}.toml")
    law, recovery = tcp.split("/")
    control = reno.effective["tcp"]["congestion_control"] if law == "reno" else {"kind": law}
    # The counted pipe and what a time-out forgets are ns-2's; a scoreboard is what SACK costs.
    modern = {"tcp.sack.pipe": "scoreboard", "tcp.sack.at_timeout": "kept", "tcp.sack.dsack": "on"}
    other = reno.with_({**modern, "tcp.recovery.kind": recovery, "tcp.congestion_control": control})

    def cost(scenario: al.Scenario) -> float:
        performance = scenario.run().performance
        return performance["cpu_s"] / performance["packets_forwarded"]

    ratios = [cost(other) / cost(reno) for _ in range(pairs)]
    return Transport(workload=workload.upper(), tcp=tcp, times_reno=median(ratios))


def ns2_speed(words: Sequence[str]) -> float:
    """Packets forwarded by ns-2's bottleneck per CPU second of its process."""
    process = subprocess.Popen(
        ["ns", str(SCRIPTS / words[0]), *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    found = re.search(r'"total_departures": (\d+)', printed)
    assert found, f"ns-2 printed no result: {printed[-500:]}"
    return int(found.group(1)) / (usage.ru_utime + usage.ru_stime)


def build_events() -> Path | None:
    """The program that runs a scenario without Python, for profilers; None without cargo."""
    if not shutil.which("cargo"):
        return None
    command = ["cargo", "bench", "--locked", "-p", "aqm-sim", "--bench", "events", "--no-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"\((.*/events-[0-9a-f]+)\)", done.stderr)
    return ROOT / found.group(1) if found else None


def instructions(events: Path | None, scenario: al.Scenario, folder: Path) -> float | None:
    """Instructions per bottleneck packet, counted by callgrind."""
    if events is None or not shutil.which("valgrind"):
        return None
    path = write(scenario, folder)
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={folder / 'callgrind'}",
        str(events),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counted, packets = re.search(r"Collected : (\d+)", done.stderr), re.search(r"(\d+) packets", done.stdout)
    return int(counted.group(1)) / int(packets.group(1)) if counted and packets else None


def write(scenario: al.Scenario, folder: Path) -> Path:
    """The scenario as a file, with the files it names beside it."""
    path = folder / "scenario.json"
    path.write_text(json.dumps(scenario.effective), encoding="utf-8")
    for name, content in scenario.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return path


def scaling(folder: Path, events: Path | None) -> list[Scale]:
    """W1 with the rate and the thresholds scaled with the number of flows."""
    base = al.Scenario.load(ROOT / "scenarios" / "bench" / "w1.toml")
    found: list[Scale] = []
    least = bare = 0.0
    for flows in FLOWS:
        times = flows // 50
        scenario = base.with_(
            {
                "duration": {50: "160s", 10_000: "12s", 100_000: "4s"}[flows],
                "warm_up": "1s",
                "bottleneck.rate": f"{10 * times}Mbps",
                "bottleneck.queue.min_th": f"{30 * times}p",
                "bottleneck.queue.max_th": f"{90 * times}p",
                "bottleneck.queue.limit": f"{225 * times}p",
                "traffic.ftp.flows": flows,
                "traffic.ftp.stagger": "1s",
                "record": {"drops": False, "queue_every": "0s"},
            }
        )
        runs = [scenario.run() for _ in range(3 if flows < 100_000 else 1)]
        cost = median(run.performance["cpu_s"] / run.performance["packets_forwarded"] * 1e9 for run in runs)
        least = least or cost
        queue = float(runs[0].links["mean_queue_packets"][0])
        occupied = memory(scenario, folder, events, queue + 10e6 * times * 0.124 / 8 / 974)
        bare = bare or occupied
        found.append(
            Scale(
                flows=flows,
                ns_per_packet=cost,
                times_the_least=cost / least,
                bytes_per_flow=(occupied - bare) / (flows - FLOWS[0]) if flows > FLOWS[0] else None,
            )
        )
    return found


def memory(scenario: al.Scenario, folder: Path, events: Path | None, in_flight: float) -> float:
    """Peak memory of the bare program in bytes, less what packets under way occupy."""
    if events is None:
        return float("nan")
    # The system counts a program's memory from before it was started, so something small starts it.
    small = "import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)"
    small += "; print(os.wait4(p.pid, 0)[2].ru_maxrss)"
    command = [sys.executable, "-I", "-S", "-c", small, str(events), str(write(scenario, folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024 - in_flight * IN_FLIGHT_BYTES


def grid() -> dict[str, float]:
    """The main grid of the shred study with all its replications, without the sensitivity runs."""
    import time
    from dataclasses import replace

    from aqmlab import study

    chosen = replace(study.load("shred"), sensitivity=())
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = study.run(chosen, Path(folder))
    seconds = time.monotonic() - began
    runs = sum(stage.get("runs", 0) for stage in result.provenance["timing"].values())
    print(f"\nMain grid of the shred study: {runs} runs in {seconds:.0f} s on {os.cpu_count()} CPUs")
    return {"runs": runs, "seconds": seconds}


def print_speeds(speeds: Sequence[Speed]) -> None:
    """One line for each workload."""
    print(
        f"{'workload':<42}{'M pkt/CPU s':>12}{'ns/event':>10}{'events/pkt':>11}{'instr/pkt':>10}"
        f"{'ns-2':>8}{'ratio':>8}{'wanted':>8}"
    )
    for one in speeds:
        print(
            f"{one.workload:<42}{one.packets_per_cpu_s / 1e6:>12.2f}{one.ns_per_event:>10.1f}"
            f"{one.events_per_packet:>11.2f}{_shown(one.instructions_per_packet, 1, '.0f'):>10}"
            f"{_shown(one.ns2_packets_per_cpu_s, 1e-6, '.3f'):>8}{_shown(one.ratio, 1, '.1f'):>8}"
            f"{one.wanted_ratio:>8.0f}"
        )


def print_transports(transports: Sequence[Transport]) -> None:
    """One line for each workload."""
    print("\nCPU time of a packet, in times of that with Reno")
    for workload in sorted({one.workload for one in transports}):
        told = (f"{one.tcp} {one.times_reno:.2f}" for one in transports if one.workload == workload)
        print(f"{workload:<6}{'   '.join(told)}")


def print_scales(scales: Sequence[Scale]) -> None:
    """One line for each number of flows."""
    print(
        f"\n{'flows':>8}{'ns/packet':>12}{'times':>8}{'bytes/flow':>12}"
        "   (beyond the program and packets under way)"
    )
    for one in scales:
        print(
            f"{one.flows:>8}{one.ns_per_packet:>12.0f}{one.times_the_least:>8.2f}"
            f"{_shown(one.bytes_per_flow, 1, '.0f'):>12}"
        )


def _shown(value: float | None, factor: float, form: str) -> str:
    return "-" if value is None else format(value * factor, form)


if __name__ == "__main__":
    main()
