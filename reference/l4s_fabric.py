"""A group of Prague flows against CUBIC, BBRv1 or BBRv3 flows on the FABRIC testbed, with a band of 5 %.

The runs of F. Sarpkaya and others (PAM 2025), ten trials of 60 s at 100 Mb/s for each cell; `l4s/README.md`
describes them. Judged are the goodput of both groups and the queueing delay of the first flow of each, which
is the mean of the smoothed round trip, read once per second, without the path's round trip. A quantity whose
recorded trials have modes is compared by its median.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import data
import l4s_path
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from aqmlab.studies.coexistence import network
from aqmlab.studies.coexistence.recorded import QUEUES
from case import Case, Cause, Job
from judge import Measures, Quantity, Row
from l4s_path import Side

RATE_MBPS = 100
SECONDS = 60
REPEATS = 5
GROUP_REPEATS = 3
"""Numbers of runs of a cell with two flows, and with groups of flows."""
ACKS = {"traffic.a.tcp.receiver.delayed_ack": "off"}
ACKS_WHY = (
    "the receiver of a Prague flow acknowledged every segment: with this change the row does not miss; that "
    "the recorded kernel did so was not shown"
)
"""A possible cause of misses: the acknowledgements of the L4S team's kernel."""
OFFSET_MS = 50
"""Largest time by which the other flows begin later than the L4S flows; the recorded time is unknown, but is
less than a second."""
GROUPS: Mapping[Side, str] = {"a": "l4s", "b": "other"}
"""The recorded names of the two groups."""
KEYS = (
    "other_cc",
    "other_ecn",
    "prague_fallback",
    "rtt_ms",
    "queue",
    "threshold_ms",
    "n_bdp",
    "l4s_flows",
    "other_flows",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the grid, by the columns of the recorded tables."""

    other_cc: str
    other_ecn: str
    prague_fallback: str
    rtt_ms: str
    queue: str
    threshold_ms: str
    n_bdp: str
    l4s_flows: str = "1"
    other_flows: str = "1"

    @property
    def name(self) -> str:
        """The name of the cell's case."""
        kind = "two" if self.is_pair else f"many {self.l4s_flows}:{self.other_flows} {self.n_bdp} bdp"
        fallback = " fallback" if self.prague_fallback == "1" else ""
        others = f"{self.other_cc}-{self.other_ecn}"
        return f"l4s {kind} {self.rtt_ms} ms prague{fallback} {others} {self.queue}"

    @property
    def is_pair(self) -> bool:
        """Whether the cell has one flow of each group."""
        return self.l4s_flows == self.other_flows == "1"


def cases() -> list[Case]:
    """Every recorded cell."""
    cells = [cell for name in ("two_flow", "many_flow") for cell in recorded_cells(name)]
    return [cell_case(cell, repeats_of(cell)) for cell in cells]


def repeats_of(cell: Cell) -> int:
    """The number of aqmlab's runs of a cell; more if medians are compared."""
    theirs = recorded(cell)
    if any(l4s_path.has_modes([run[name] for run in theirs]) for name in theirs[0]):
        return l4s_path.MEDIAN_REPEATS
    return REPEATS if cell.is_pair else GROUP_REPEATS


@lru_cache
def recorded_cells(name: str) -> dict[Cell, list[dict[str, str]]]:
    """The trials of each cell of a recorded table."""
    cells: dict[Cell, list[dict[str, str]]] = {}
    for row in data.rows(name, l4s_path.WHERE):
        cell = Cell(**{key: row[key] for key in KEYS if key in row})
        cells.setdefault(cell, []).append(row)
    return cells


def cell_case(cell: Cell, repeats: int) -> Case:
    """A cell of the grid, with the acknowledgements of the L4S receivers as a possible cause of misses."""
    why = Cause(why=ACKS_WHY, switch="delayed_ack = off", again=_runs(cell, repeats, ACKS))
    return replace(_runs(cell, repeats, {}), causes=(why,))


def _runs(cell: Cell, repeats: int, changes: Mapping[str, Any]) -> Case:
    """Runs that differ in the offset of the other flows and in the phase of the clock."""

    def jobs() -> list[Job]:
        return [
            Job(
                scenario=scenario(cell, offset_ms=OFFSET_MS * (repeat + 1) / repeats).with_(
                    {**changes, "tcp.rto.tick_phase": l4s_path.tick_phase(repeat, repeats)}
                ),
                seed=1 + repeat,
                measure=measure(cell),
            )
            for repeat in range(repeats)
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = recorded(cell)
        return l4s_path.of_trials(cell.name, quantities(theirs), theirs, measured)

    return Case(name=cell.name, jobs=jobs, judge=judge)


def quantities(theirs: Sequence[Measures]) -> list[Quantity]:
    """The judged quantities, with the floors of rates and delays."""
    return [
        Quantity(name=name, share=l4s_path.BAND, floor=l4s_path.floor(name, RATE_MBPS)) for name in theirs[0]
    ]


def recorded(cell: Cell) -> list[Measures]:
    """The trials of a cell."""
    rows = recorded_cells("two_flow" if cell.is_pair else "many_flow")[cell]
    return [
        {
            "l4s_mbps": float(row["l4s_mbps"]),
            "other_mbps": float(row["other_mbps"]),
            "l4s_queue_ms": float(row["l4s_srtt_ms"]) - float(cell.rtt_ms),
            "other_queue_ms": float(row["other_srtt_ms"]) - float(cell.rtt_ms),
        }
        for row in rows
    ]


def measure(cell: Cell) -> Callable[[Run], Measures]:
    """The compared quantities of a run of aqmlab, by the same names."""
    seconds = range(1, SECONDS + 1)

    def measures(run: Run) -> Measures:
        found: Measures = {}
        for side, name in GROUPS.items():
            found[f"{name}_mbps"] = l4s_path.goodput_mbps(run, side)
        for side, name in GROUPS.items():
            srtt = l4s_path.mean(l4s_path.sampled(run, side, "srtt_s", seconds))
            found[f"{name}_queue_ms"] = 1000 * srtt - float(cell.rtt_ms)
        return found

    return measures


def scenario(cell: Cell, *, offset_ms: float) -> Scenario:
    """The corresponding run of aqmlab, in which the other flows begin later by an offset."""
    prague = l4s_path.tcp("prague", "accurate")
    if cell.prague_fallback == "1":
        prague["congestion_control"] = {**prague["congestion_control"], "fallback": "on"}
    round_trip = float(cell.rtt_ms)
    return l4s_path.scenario(
        rate_mbps=RATE_MBPS,
        queue=queue(cell),
        rtt_ms={"a": round_trip, "b": round_trip},
        senders={"a": prague, "b": other_tcp(cell)},
        changes={
            "duration": f"{SECONDS}s",
            "traffic.a.flows": int(cell.l4s_flows),
            "traffic.b.flows": int(cell.other_flows),
            "traffic.b.start": f"{round(1000 * offset_ms)}us",
        },
    )


def other_tcp(cell: Cell) -> dict[str, Any]:
    """The `tcp` table of the other flows. With `ecn_low`, the receiver of BBRv3 echoes marks like DCTCP's."""
    settings = l4s_path.tcp(cell.other_cc, "none" if cell.other_ecn == "none" else "classic")
    if cell.other_ecn == "ecn_low":
        settings["congestion_control"] = {**settings["congestion_control"], "ecn": "low"}
        settings["ecn"] = {"mode": "on", "feedback": "dctcp"}
    return settings


def queue(cell: Cell) -> Mapping[str, Any]:
    """The queue of a cell, from the `tc` line of its name, as in the study `coexistence`."""
    return network.queues(int(cell.rtt_ms), float(cell.n_bdp))[QUEUES[cell.queue]]
