"""The three workloads that all simulators run: `scenarios/bench/`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import aqmlab as al
from samples import ROOT

sys.path.insert(0, str(ROOT / "reference"))

import data

WEB_FILE = "web.txt"
"""File of Web objects in order of time; each line has the start, the size and the number of packets."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload and its targets."""

    name: str
    description: str
    seconds: float
    """The simulated duration."""

    counted_s: float
    """The simulated duration of the short form whose instructions are checked: about a second of CPU time."""

    target_ratio: Mapping[str, float]
    """The target speed relative to each peer."""

    target_instructions: int
    """The target for instructions per packet forwarded by the bottleneck, at most."""


WORKLOADS = (
    Workload(
        name="w1",
        description="50 FTP, RED",
        seconds=160,
        counted_s=15,
        target_ratio={"ns-2": 16, "ns-3": 120, "htsim": 1},
        target_instructions=1950,
    ),
    Workload(
        name="w2",
        description="Web 70 % + 10 FTP, RED",
        seconds=160,
        counted_s=15,
        target_ratio={"ns-2": 65, "ns-3": 120},
        target_instructions=2400,
    ),
    Workload(
        name="w3",
        description="4 Reno + 25 Mbps Poisson, Drop Tail",
        seconds=100,
        counted_s=4,
        target_ratio={"ns-2": 9, "ns-3": 120, "htsim": 1},
        target_instructions=1550,
    ),
)


def scenario(name: str, seconds: float | None = None) -> al.Scenario:
    """A workload for aqmlab, shortened if `seconds` is given; its Web objects are the same as the peers'."""
    found = al.Scenario.load(ROOT / "scenarios" / "bench" / f"{name}.toml")
    if name == "w2":
        replay = {"kind": "replay", "file": WEB_FILE}
        found = found.with_({"traffic.web": replay}, files={WEB_FILE: web_schedule(seconds)})
    if seconds is not None:
        found = found.with_({"duration": f"{seconds:g}s", "warm_up": f"{min(20, seconds / 2):g}s"})
    return found


def web_schedule(seconds: float | None = None) -> str:
    """The Web objects of W2, up to a time if given."""
    return "".join(
        f"{start:.6f} {size} {packets}\n"
        for start, size, packets in data.objects(0.7, 1)
        if seconds is None or start < seconds
    )
