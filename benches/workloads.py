"""The three workloads that every simulator runs: `scenarios/bench/`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import aqmlab as al
from samples import ROOT

sys.path.insert(0, str(ROOT / "reference"))

import data

WEB_FILE = "web.txt"
"""Web objects by time: start, size and number of packets in each line."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload, and what is wanted of it."""

    name: str
    what: str
    seconds: float
    """How long it lasts in simulated time."""

    counted_s: float
    """How much of it callgrind counts where counts are compared with recorded ones: about a second's work."""

    wanted_ratio: Mapping[str, float]
    """How many times the speed of each peer."""

    wanted_instructions: int
    """At most so many for each packet that the bottleneck forwards."""


WORKLOADS = (
    Workload(
        name="w1",
        what="50 FTP, RED",
        seconds=160,
        counted_s=15,
        wanted_ratio={"ns-2": 16, "ns-3": 120, "htsim": 1},
        wanted_instructions=1950,
    ),
    Workload(
        name="w2",
        what="Web 70 % + 10 FTP, RED",
        seconds=160,
        counted_s=15,
        wanted_ratio={"ns-2": 65, "ns-3": 120},
        wanted_instructions=2400,
    ),
    Workload(
        name="w3",
        what="4 Reno + 25 Mbps Poisson, Drop Tail",
        seconds=100,
        counted_s=4,
        wanted_ratio={"ns-2": 9, "ns-3": 120, "htsim": 1},
        wanted_instructions=1550,
    ),
)


def scenario(name: str, seconds: float | None = None) -> al.Scenario:
    """A workload for aqmlab, cut short if a length is given; the Web objects are those that the peers get."""
    found = al.Scenario.load(ROOT / "scenarios" / "bench" / f"{name}.toml")
    if name == "w2":
        replay = {"kind": "replay", "file": WEB_FILE}
        found = found.with_({"traffic.web": replay}, files={WEB_FILE: web_schedule(seconds)})
    if seconds is not None:
        found = found.with_({"duration": f"{seconds:g}s", "warm_up": f"{min(20, seconds / 2):g}s"})
    return found


def web_schedule(seconds: float | None = None) -> str:
    """The Web objects of W2 until so long after the beginning."""
    return "".join(
        f"{start:.6f} {size} {packets}\n"
        for start, size, packets in data.objects(0.7, 1)
        if seconds is None or start < seconds
    )
