"""Compares the recorded pages with aqmlab's.

    cd reference
    python -m http_pages.compare [--gain N] [--replications N]

Prints the share of conditions in which the mean time of the page differs by at most 10 %, and the other
conditions. The time that the programs need over the loopback interface is added to aqmlab's times. The exit
status is 0 for every result: a difference is a finding, and not a failure.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean

from http_pages import rows, simulated
from http_pages.rows import CELLS, PAGES, PROTOCOLS, Cell

HERE = Path(__file__).resolve().parent
BAND = 0.10
REPLICATIONS = 5


@dataclass(frozen=True)
class Comparison:
    """A condition: its recorded and simulated mean page times, in seconds."""

    cell: Cell
    protocol: str
    objects: int
    size: int
    recorded: float
    simulated: float
    spread: float
    """Range of the recorded times as a share of their mean."""

    @property
    def difference(self) -> float:
        """The relative difference of the simulated time."""
        return self.simulated / self.recorded - 1

    @property
    def agrees(self) -> bool:
        """Whether the difference is at most 10 %."""
        return abs(self.difference) <= BAND


def compare(
    cells: Iterable[Cell] = CELLS, gain: float = simulated.PACER_GAIN, replications: int = REPLICATIONS
) -> list[Comparison]:
    """Compares all pages over all protocols behind the links of `cells`."""
    found = rows.read(HERE / "pages.csv.gz")
    floor = rows.read(HERE / "floor.csv.gz")
    conditions = list(itertools.product(cells, PROTOCOLS, PAGES))

    def one(condition: tuple[Cell, str, tuple[int, int]]) -> Comparison:
        cell, protocol, (objects, size) = condition
        key = (cell.rate_mbps, cell.rtt_ms, cell.queue, protocol, objects)
        of = ("rate_mbps", "rtt_ms", "queue", "protocol", "objects")
        times = [row["page_s"] for row in found if tuple(row[name] for name in of) == key]
        scenario = simulated.scenario(cell, protocol, objects, size, gain)
        ours = mean(simulated.page_time(scenario.run(seed=seed)) for seed in range(1, replications + 1))
        return Comparison(
            cell=cell,
            protocol=protocol,
            objects=objects,
            size=size,
            recorded=mean(times),
            simulated=ours + simulated.host_time(floor, protocol),
            spread=(max(times) - min(times)) / mean(times),
        )

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, conditions))


def text(found: Sequence[Comparison]) -> str:
    """The summary by protocol, and a line for each condition that differs by more than 10 %."""
    lines = []
    for protocol, title in PROTOCOLS.items():
        own = [one for one in found if one.protocol == protocol]
        agreeing = sum(one.agrees for one in own)
        lines.append(f"{title}: {agreeing} of {len(own)} conditions within {BAND:.0%}")
    for one in sorted((one for one in found if not one.agrees), key=lambda one: -abs(one.difference)):
        cell = one.cell
        link = f"{cell.rate_mbps:g} Mb/s, {cell.rtt_ms:g} ms, {cell.queue}"
        page = f"{one.objects} x {one.size // 1000} kB"
        times = f"{one.simulated:.3f} s, recorded {one.recorded:.3f} s (range {one.spread:.0%})"
        lines.append(f"  {one.difference:+.0%}: {PROTOCOLS[one.protocol]}, {link}, {page}: {times}")
    return "\n".join(lines)


def main() -> None:
    """Reads the command line and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gain", type=float, default=simulated.PACER_GAIN, help="pacing gain of QUIC")
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    options = parser.parse_args()
    whole = partial(compare, gain=options.gain, replications=options.replications)
    print(text(whole()))


if __name__ == "__main__":
    main()
