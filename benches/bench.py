"""Speed and scale, beside other simulators and beside what is wanted.

    python benches/bench.py [--turns N] [--only PART ...] [--million] [--record NAME]
    python benches/bench.py --show FILE
    python benches/bench.py --check [--accept]

Prints, part by part, W1 to W3 beside ns-2, ns-3 and htsim where they are installed (`peers`); instructions
for a packet where valgrind is (`instructions`); what other TCPs, queues and rates cost (`transports`,
`queues`, `rates`), and queues by themselves where valgrind is (`disciplines`); what very many flows and Web
objects cost (`scale`); what it takes to begin (`starts`); what keeping runs costs (`store`); and what making
many costs beside the runs, here and through Dask (`sweeps`). Nothing of this passes or fails: machines are
noisy. `--check` counts instructions of three short workloads and of the disciplines instead, and fails if
one takes 2 % more than on record (`instruction_counts.py`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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
    *("disciplines", "scale", "starts", "store", "sweeps"),
)
OUT = Path("out/bench.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints what was asked for, and keeps every run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3, help="runs of each program, made in turn")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="these parts")
    parser.add_argument("--million", action="store_true", help="a million flows, Web objects and kept runs")
    parser.add_argument("--count-peers", action="store_true", help="instructions of peers, too: takes long")
    parser.add_argument("--record", metavar="NAME", help="keep every run in benches/history/")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print what was kept, and measure nothing")
    parser.add_argument("--check", action="store_true", help="compare instructions with those on record")
    parser.add_argument("--accept", action="store_true", help="with --check: put what was counted on record")
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
    """Everything but the check, part by part."""
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
        "disciplines": lambda: Measured(counts=disciplines.measure(program.folder)),
        "scale": lambda: Measured(samples=scale.measure(program, turns, million=options.million)),
        "starts": lambda: Measured(starts=startup.measure()),
        "store": lambda: Measured(kept=store.measure(store.MILLION if options.million else store.RUNS)),
        "sweeps": lambda: Measured(sweeps=sweeps.measure()),
    }
    found = Measured()
    for part in PARTS:
        if part in options.only:
            more = parts[part]()
            show(more)
            found += more
    versions = {other.name: other.version for other in others if other.version}
    path = history.file_of(options.record) if options.record else OUT
    history.write(found, versions, path)
    print(f"Every run is kept in {path}")


def show(found: Measured, alone: Mapping[str, list[float]] | None = None) -> None:
    """Prints a table of each part that was measured, with an empty line after it; of the disciplines by
    themselves these counts, if there are any."""
    groups = {one.group for one in found.samples}
    if simulators.GROUP in groups:
        simulators.print_table(found.samples)
        print()
    measured = disciplines.by_kind(found.counts)
    if len(found.counts) > sum(map(len, measured.values())):
        simulators.print_counts(found.counts)
        print()
    costs.print_tables(found.samples)
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
