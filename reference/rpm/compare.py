"""Compares the recorded responsiveness with aqmlab's.

    cd reference
    python -m rpm.compare [--replications N] [--record FILE]

Prints the mean of the record and of aqmlab's runs for each link, queue and direction, and the parts of
aqmlab's result. The exit status is 0 for every result: a difference is a finding, and not a failure.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from aqmlab import stats
from rpm import links, simulated
from rpm.links import CELLS, DIRECTIONS, Cell
from rpm.result import result

HERE = Path(__file__).resolve().parent
BAND = 0.10
REPLICATIONS = 10


@dataclass(frozen=True)
class Comparison:
    """The recorded and the simulated responsiveness of a link in one direction, in RPM."""

    cell: Cell
    direction: str
    recorded: tuple[float, ...]
    simulated: tuple[float, ...]
    foreign: float
    """aqmlab's responsiveness of new connections."""
    loaded: float
    """aqmlab's responsiveness of the connections that generate the load."""

    @property
    def difference(self) -> float:
        """The relative difference of the mean of the simulated runs."""
        return mean(self.simulated) / mean(self.recorded) - 1

    @property
    def agrees(self) -> bool:
        """Whether the difference is at most 10 %."""
        return abs(self.difference) <= BAND


def compare(
    cells: Iterable[Cell] = CELLS, replications: int = REPLICATIONS, record: Path = HERE / "mach.csv.gz"
) -> list[Comparison]:
    """Compares all recorded links of `cells`."""
    rows = links.read(record)

    def one(cell: Cell) -> list[Comparison]:
        recorded = links.of_cell(rows, cell)
        if not recorded:
            return []
        scenario = simulated.scenario(cell)
        runs = [scenario.run(seed=seed) for seed in range(1, replications + 1)]
        return [_direction(cell, direction, recorded, runs) for direction in DIRECTIONS]

    with ThreadPoolExecutor() as pool:
        return [found for of_cell in pool.map(one, cells) for found in of_cell]


def _direction(
    cell: Cell, direction: str, recorded: Sequence[Mapping[str, Any]], runs: list[Any]
) -> Comparison:
    tests = [found for found in (result(run, direction) for run in runs) if found is not None]
    return Comparison(
        cell=cell,
        direction=direction,
        recorded=tuple(row[f"{direction}_rpm"] for row in recorded),
        simulated=tuple(test.rpm(1) for test in tests),
        foreign=mean(test.foreign_rpm(1) for test in tests),
        loaded=mean(test.loaded_rpm(1) for test in tests),
    )


def markdown(found: Sequence[Comparison]) -> list[str]:
    """The rows of the table in the documentation."""

    def interval(values: Sequence[float]) -> str:
        found = stats.mean_interval(values)
        return f"{found.value:.0f} ± {found.half_width:.0f}"

    return [
        f"| {one.cell.rate_mbps:g} Mb/s, {one.cell.rtt_ms:g} ms | {one.cell.queue} | {one.direction} | "
        f"{interval(one.recorded)} | {interval(one.simulated)} | {100 * one.difference:+.0f} % |"
        for one in found
    ]


def text(found: list[Comparison]) -> str:
    """The comparison as a table."""
    lines = [
        "rate  rtt  queue       direction  runs    mach (s.d.)  aqmlab (s.d.)  difference  (new / loaded)"
    ]
    for one in found:
        spread = stdev(one.recorded) if len(one.recorded) > 1 else 0.0
        own = stdev(one.simulated) if len(one.simulated) > 1 else 0.0
        lines.append(
            f"{one.cell.rate_mbps:4g} {one.cell.rtt_ms:4g}  {one.cell.queue:10}  {one.direction:9}  "
            f"{len(one.recorded):4}  {mean(one.recorded):6.0f} ({spread:4.0f})  "
            f"{mean(one.simulated):6.0f} ({own:4.0f})  {100 * one.difference:+8.1f} %  "
            f"({one.foreign:.0f} / {one.loaded:.0f})"
        )
    agree = sum(one.agrees for one in found)
    lines.append(f"{agree} of {len(found)} differ by at most {100 * BAND:.0f} %")
    return "\n".join(lines)


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(prog="rpm.compare", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--record", type=Path, default=HERE / "mach.csv.gz", metavar="FILE")
    options = parser.parse_args()
    print(text(compare(replications=options.replications, record=options.record)))


if __name__ == "__main__":
    main()
