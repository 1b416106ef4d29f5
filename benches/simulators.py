"""Runs the same workloads on other simulators: ns-2, ns-3 and htsim, where they are installed.

ns-2 must be in the path, as `ns`. For ns-3, `peers/ns3.cc` is compiled with the installed headers. For htsim,
`peers/htsim.cc` is compiled if the variable `HTSIM` names the folder `sim` of its sources, with
`libhtsim.a` built in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import callgrind
from program import Program
from samples import ROOT, US, Sample, distinct, ratio, sample, shown
from workloads import WEB_FILE, WORKLOADS, Workload, scenario, web_schedule

SOURCES = Path(__file__).resolve().parent / "peers"
NS2 = ROOT / "reference" / "ns2" / "scripts"
NS3_LIBRARIES = ("applications", "point-to-point", "traffic-control", "internet", "network", "core")
GROUP = "peers"
COUNTED_SHARE = 1 / 8
"""Fraction of each workload that callgrind counts for every simulator: ns-3 takes minutes under callgrind."""


@dataclass(frozen=True)
class Simulator:
    """Another simulator."""

    name: str
    version: str
    command: Callable[[Workload, float], list[str | Path] | None]
    """The command that runs a workload for a simulated duration in seconds; None if not supported."""


def find(folder: Path) -> list[Simulator]:
    """The installed simulators, compiled in a folder, to which it also writes the Web objects."""
    (folder / WEB_FILE).write_text(web_schedule(), encoding="utf-8")
    return [other for other in (_ns2(), _ns3(folder), *_htsim(folder)) if other is not None]


def _ns2() -> Simulator | None:
    program = shutil.which("ns")
    if program is None:
        return None

    def command(workload: Workload, seconds: float) -> list[str | Path]:
        script, *words = {
            "w1": "scen_a.tcl q red nftp 50 seed 1",
            "w2": f"scen_a.tcl q red nftp 10 seed 1 web {WEB_FILE}",
            "w3": "scen_b.tcl q droptail limit 625 cc rrrr seed 1 monitor 0",
        }[workload.name].split()
        return [program, NS2 / script, *words, "stop", f"{seconds:g}", "warm", f"{min(20, seconds / 2):g}"]

    return Simulator("ns-2", _debian_version("ns2"), command)


def _ns3(folder: Path) -> Simulator | None:
    libraries = [f"-lns3-{name}" for name in NS3_LIBRARIES]
    program = _compiled(SOURCES / "ns3.cc", folder / "ns3", libraries)
    if program is None:
        return None

    def command(workload: Workload, seconds: float) -> list[str | Path]:
        return [program, workload.name, f"{seconds:g}", WEB_FILE]

    return Simulator("ns-3", _debian_version("libns3-dev"), command)


def _htsim(folder: Path) -> list[Simulator]:
    sim = os.environ.get("HTSIM")
    if not sim:
        return []
    program = _compiled(
        SOURCES / "htsim.cc", folder / "htsim", ["-w", f"-I{sim}", str(Path(sim) / "libhtsim.a")]
    )
    if program is None:
        raise SystemExit(f"{SOURCES / 'htsim.cc'} does not compile with HTSIM={sim}")

    def command(workload: Workload, seconds: float, *how: str) -> list[str | Path] | None:
        return None if workload.name == "w2" else [program, workload.name, f"{seconds:g}", *how]

    def direct(workload: Workload, seconds: float) -> list[str | Path] | None:
        return command(workload, seconds, "direct")

    return [Simulator("htsim", "", command), Simulator("htsim direct", "", direct)]


def _compiled(source: Path, program: Path, words: Sequence[str]) -> Path | None:
    if not shutil.which("g++"):
        return None
    done = subprocess.run(
        ["g++", "-std=c++17", "-O3", "-o", program, source, *words], capture_output=True, text=True
    )
    return None if done.returncode else program


def _debian_version(package: str) -> str:
    if not shutil.which("dpkg-query"):
        return ""
    command = ["dpkg-query", "--show", "--showformat=${Version}", package]
    return subprocess.run(command, capture_output=True, text=True).stdout


def measure(program: Program, others: Sequence[Simulator], turns: int) -> list[Sample]:
    """Runs all simulators alternately. Times whole processes, which also read the scenario or script."""
    found = []
    for workload in WORKLOADS:
        ours = scenario(workload.name)
        for turn in range(turns):
            found.append(program.run(ours, group=GROUP, case=workload.name, turn=turn))
            for other in others:
                command = other.command(workload, workload.seconds)
                if command is not None:
                    found.append(
                        sample(
                            command,
                            group=GROUP,
                            case=workload.name,
                            subject=other.name,
                            turn=turn,
                            folder=program.folder,
                        )
                    )
    return found


@dataclass(frozen=True, kw_only=True)
class Count:
    """The instructions of one run."""

    case: str
    subject: str
    seconds: float
    instructions: int
    packets: int
    by_file: dict[str, int]
    """For aqmlab only: instructions by source file, see `callgrind.Counted`."""

    @property
    def per_packet(self) -> float:
        """Instructions per packet forwarded by the bottleneck."""
        return self.instructions / self.packets


def count(program: Program, others: Sequence[Simulator]) -> list[Count]:
    """Counts whole workloads of aqmlab; with others, also the first part of each on all simulators."""
    found = []
    for workload in WORKLOADS:
        first = workload.seconds * COUNTED_SHARE
        for seconds in (workload.seconds, first) if others else (workload.seconds,):
            file = program.write(f"count-{workload.name}", scenario(workload.name, seconds))
            commands: dict[str, list[str | Path] | None] = {US: ["./events", file]}
            if seconds == first:
                commands |= {other.name: other.command(workload, seconds) for other in others}
            for subject, command in commands.items():
                if command is None:
                    continue
                ran = callgrind.run(command, program.folder)
                found.append(
                    Count(
                        case=workload.name,
                        subject=subject,
                        seconds=seconds,
                        instructions=ran.instructions,
                        packets=ran.packets,
                        by_file=ran.by_file if subject == US else {},
                    )
                )
    return found


def print_table(samples: Sequence[Sample]) -> None:
    """Prints a row for each workload and simulator."""
    print("whole processes, alternating runs, medians; packets forwarded by the bottleneck per CPU second")
    print(f"{'':<56}{'Mpkt/s':>8}{'ns/event':>9}{'events':>7}{'ratio':>7}{'target':>7}")
    for workload in WORKLOADS:
        rows = [one for one in samples if one.group == GROUP and one.case == workload.name]
        title = f"{workload.name.upper()} ({workload.description})"
        for subject in distinct(rows, lambda one: one.subject):
            of = [one for one in rows if one.subject == subject]
            spent = median(one.ns_per_packet for one in of)
            per_packet = of[0].events / of[0].packets if of[0].events else None
            print(
                f"{title if subject == US else '':<42}{subject:<14}"
                f"{1e3 / spent:>8.3f}"
                f"{shown(spent / per_packet if per_packet else None, '.1f'):>9}"
                f"{shown(per_packet, '.2f'):>7}"
                f"{shown(ratio(rows, subject, US) if subject != US else None, '.1f'):>7}"
                f"{shown(workload.target_ratio.get(subject), 'g'):>7}"
            )


def print_counts(counts: Sequence[Count]) -> None:
    """Prints a row for each workload, and for each simulator over the first part of the workload."""
    print("instructions per packet forwarded by the bottleneck, whole processes")
    for workload in WORKLOADS:
        rows = [one for one in counts if one.case == workload.name]
        whole = next((one for one in rows if one.seconds == workload.seconds), None)
        if whole is not None:
            name = f"{workload.name.upper()} ({workload.description})"
            print(f"{name:<56}{whole.per_packet:>9,.0f}  (target {workload.target_instructions:,})")
        first_s = workload.seconds * COUNTED_SHARE
        first = {one.subject: one.per_packet for one in rows if one.seconds == first_s}
        for subject, per_packet in first.items():
            times = "" if subject == US else f"  {per_packet / first[US]:.1f} times"
            print(f"{f'  first {first_s:g} s':<42}{subject:<14}{per_packet:>9,.0f}{times}")
