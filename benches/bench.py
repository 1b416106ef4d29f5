"""Benchmarks of speed and scale, compared with other simulators and with targets.

    python benches/bench.py [--turns N] [--only PART ...] [--million] [--record NAME]
    python benches/bench.py --show FILE
    python benches/bench.py --check [--accept]

Prints one table per part. `peers`: workloads W1 to W3, compared with ns-2, ns-3 and htsim where these are
installed. `instructions`: instructions per packet, if valgrind is installed. `transports`, `queues`, `rates`:
the cost of other TCPs, queue disciplines and link rates. `controls`: congestion controls and pacing, if
valgrind is installed. `disciplines`: queue disciplines by themselves, if valgrind is installed. `scale`: the
cost of very many flows and Web objects. `starts`: start-up time. `store`: the cost of storing runs. `sweeps`:
the overhead of many runs, on this machine and through Dask. None of these parts passes or fails, because
timings vary with the load of the machine. `--check` instead counts the instructions of three short workloads
and of the disciplines, and fails if a count exceeds its recorded value by more than 2 %
(`instruction_counts.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import controls
import costs
import disciplines
import history
import instruction_counts
import scale
import simulators
import startup
import store
import sweeps
from history import Measured
from program import Program

PARTS = (
    *("peers", "instructions", "transports", "queues", "rates"),
    *("controls", "disciplines", "scale", "starts", "store", "sweeps"),
)
OUT = Path("out/bench.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the selected parts, and saves every run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3, help="runs of each program; programs alternate")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="the parts")
    parser.add_argument("--million", action="store_true", help="a million flows, Web objects and stored runs")
    parser.add_argument("--count-peers", action="store_true", help="count instructions of peers, too (slow)")
    parser.add_argument("--record", metavar="NAME", help="save every run in benches/history/")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of a saved file and exit")
    parser.add_argument("--check", action="store_true", help="compare instruction counts with the record")
    parser.add_argument("--accept", action="store_true", help="with --check: record the new counts")
    options = parser.parse_args(arguments)
    if options.show:
        show(history.read(options.show))
        return 0
    with tempfile.TemporaryDirectory() as name:
        program = Program.build(Path(name))
        if options.check:
            return instruction_counts.check(program, accept=options.accept)
        measure(program, options)
    return 0


def measure(program: Program, options: argparse.Namespace) -> None:
    """Runs the selected parts, except the check."""
    others = simulators.find(program.folder) if {"peers", "instructions"} & {*options.only} else []
    turns = options.turns
    parts: dict[str, Callable[[], Measured]] = {
        "peers": lambda: Measured(samples=simulators.measure(program, others, turns)),
        "instructions": lambda: Measured(
            counts=simulators.count(program, others if options.count_peers else [])
        ),
        "transports": lambda: Measured(samples=costs.transports(program, turns)),
        "queues": lambda: Measured(samples=costs.queues(program, turns)),
        "rates": lambda: Measured(samples=costs.rates(program, turns)),
        "controls": lambda: Measured(counts=controls.measure(program)),
        "disciplines": lambda: Measured(counts=disciplines.measure(program.folder)),
        "scale": lambda: Measured(samples=scale.measure(program, turns, million=options.million)),
        "starts": lambda: Measured(starts=startup.measure()),
        "store": lambda: Measured(kept=store.measure(store.MILLION if options.million else store.RUNS)),
        "sweeps": lambda: Measured(sweeps=sweeps.measure()),
    }
    found = Measured()
    for part in PARTS:
        if part in options.only:
            part_result = parts[part]()
            show(part_result)
            found += part_result
    versions = {other.name: other.version for other in others if other.version}
    path = history.file_of(options.record) if options.record else OUT
    history.write(found, versions, path)
    print(f"Every run is saved in {path}")


def show(found: Measured, alone: Mapping[str, list[float]] | None = None) -> None:
    """Prints a table for each measured part, followed by an empty line. `alone`, if given, replaces the
    measured counts of the disciplines by themselves."""
    groups = {one.group for one in found.samples}
    if simulators.GROUP in groups:
        simulators.print_table(found.samples)
        print()
    measured = disciplines.by_kind(found.counts)
    of_controls = [one for one in found.counts if controls.is_of_controls(one)]
    if len(found.counts) > sum(map(len, measured.values())) + len(of_controls):
        simulators.print_counts(found.counts)
        print()
    costs.print_tables(found.samples)
    if of_controls:
        controls.print_table(of_controls)
        print()
    if alone or measured:
        disciplines.print_table(alone or measured)
        print()
    if scale.FLOWS in groups:
        scale.print_table(found.samples)
        print()
    if found.starts:
        startup.print_table(found.starts)
        print()
    if found.kept:
        store.print_table(found.kept)
        print()
    if found.sweeps:
        sweeps.print_table(found.sweeps)
        print()


if __name__ == "__main__":
    sys.exit(main())
