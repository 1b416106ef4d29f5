"""The path of the public L4S runs (`reference/l4s`): two groups of senders, `a` and `b`, behind one queue.

The three sources have the same path: netem for half of the round trip on either side, and HTB with the queue
as its leaf. No setting is based on their results. Their READMEs leave open the frequency of the kernels'
clocks (here 250 Hz, Ubuntu's default) and the noise of the machines (here up to 121 us for each packet at a
host, `scenarios/reference/l4s.toml`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any, Literal

import numpy as np
import polars as pl

import data
import judge
from aqmlab import stats
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from aqmlab.stats import modality
from judge import Measures, Quantity, Recorded, Row

WHERE = data.HERE / "l4s"
BAND = 0.05
RATE_FLOOR = 0.005
"""Half the least width of the band of a rate, as a share of the link's rate."""
DELAY_FLOOR_MS = 0.25
"""Half the least width of the band of a queueing delay: the least recorded mean, which limits the delay
caused by the machines."""
WINDOW_FLOOR = 0.5
"""Half the least width of the band of a window, in segments."""
SCATTERED = 5.0
"""Standard deviation of recorded values, in Mb/s or ms, above which medians are compared."""
MEDIAN_REPEATS = 8
"""Least number of runs for the interval of a median: 7 at the level that two medians require."""
HZ = 250
"""Ticks per second of the kernels' clocks."""

DUALPI2: dict[str, Any] = {"kind": "dualpi2", "min_qlen_step": 2, "start": "fresh"}
"""DualPI2 of the L4S team's kernels until 2024: the step threshold applies only to a packet that arrives
while at least two packets are in the L4S queue (sch_dualpi2.c, `apply_step`)."""

Side = Literal["a", "b"]
Ecn = Literal["none", "classic", "accurate"]

CONTROLS: Mapping[str, Mapping[str, Any]] = {
    "prague": {"kind": "prague"},
    "cubic": {"kind": "cubic"},
    "reno": {"kind": "reno", "growth": "segments", "ssthresh_rounding": "segments"},
    "bbrv1": {"kind": "bbr1"},
    "bbrv3": {"kind": "bbr3", "profile": "linux"},
}
"""Congestion controls by their names in the recorded runs."""


def tcp(control: str, ecn: Ecn) -> dict[str, Any]:
    """The `tcp` table of a workload: a recorded control and the negotiated ECN."""
    settings: dict[str, Any] = {"congestion_control": CONTROLS[control]}
    if ecn != "none":
        settings["ecn"] = {"mode": "on", "feedback": ecn}
    return settings


def scenario(
    *,
    rate_mbps: float,
    queue: Mapping[str, Any],
    rtt_ms: Mapping[Side, float],
    senders: Mapping[Side, Mapping[str, Any]],
    changes: Mapping[str, Any],
) -> Scenario:
    """A run with the round trip and the `tcp` table of each group of senders; `b` may be absent."""
    settings: dict[str, Any] = {
        "links.forth.queue.classes.all.rate": f"{rate_mbps:g}Mbps",
        "links.forth.queue.classes.all.queue": queue,
    }
    for side, round_trip in rtt_ms.items():
        settings |= {f"links.{way}-{side}.delay": f"{500 * round_trip:g}us" for way in ("to-router", "back")}
        settings[f"traffic.{side}.tcp"] = senders[side]
    if "b" not in senders:
        settings |= {
            "links.to-router-b": None,
            "links.back-b": None,
            "traffic.b": None,
            "record.senders": ["a"],
        }
    return Scenario.load(data.SCENARIOS / "l4s.toml").with_(settings | dict(changes))


def tick_phase(repeat: int, repeats: int) -> str:
    """The phase of the hosts' clocks in a run: `repeats` runs divide a tick into equal parts."""
    return f"{1_000_000 * repeat // (HZ * repeats)}us"


def floor(quantity: str, rate_mbps: float) -> float:
    """Half the least width of the band of a quantity, in the unit that ends the quantity's name: segments,
    milliseconds, or else Mb/s on a link with this rate."""
    if quantity.endswith("_segments"):
        return WINDOW_FLOOR
    return DELAY_FLOOR_MS if quantity.endswith("_ms") else RATE_FLOOR * rate_mbps


def goodput_mbps(run: Run, side: Side) -> float:
    """The goodput of a group of flows."""
    rates: pl.Series = run.flows.filter(pl.col("traffic").cast(pl.String) == side)["goodput_bps"]
    return math.fsum(rates.to_list()) / 1e6


def sampled(run: Run, side: Side, column: str, times: Sequence[float]) -> list[float]:
    """A column of `senders` of the first flow of a group at given times; missing before the first row."""
    rows = run.tables["senders"].filter(pl.col("traffic").cast(pl.String) == side)
    rows = rows.filter(pl.col("flow") == pl.col("flow").min()).drop_nulls(column)
    index = np.searchsorted(rows["time_s"].to_numpy(), np.asarray(times), side="right") - 1
    values = rows[column].to_numpy()
    return [float(values[at]) for at in index if at >= 0]


def mean(values: Sequence[float]) -> float:
    """The mean; NaN of no value."""
    return math.fsum(values) / len(values) if values else math.nan


def of_trials(
    case: str, quantities: Sequence[Quantity], theirs: Sequence[Recorded], ours: Sequence[Measures]
) -> list[Row]:
    """A row for each quantity of independent runs: of the medians if the recorded runs have modes, otherwise
    of the means."""
    rows = []
    for quantity in quantities:
        recorded = [float(run[quantity.name]) for run in theirs]
        compare = medians if has_modes(recorded) else judge.independent
        rows.append(compare(case, quantity, recorded, [run[quantity.name] for run in ours]))
    return rows


def has_modes(recorded: Sequence[float]) -> bool:
    """Whether recorded values are compared by their medians: the dip test finds several modes, or the
    standard deviation is above `SCATTERED`."""
    return stdev(recorded) > SCATTERED or not modality.has_one_mode(recorded)


def medians(case: str, quantity: Quantity, theirs: Sequence[float], ours: Sequence[float]) -> Row:
    """Compares medians: the interval of the difference spans the exact intervals of both medians."""
    level = stats.simultaneous_level(stats.LEVEL, 2)
    recorded, measured = modality.median(theirs, level), modality.median(ours, level)
    difference = stats.Interval(
        value=measured.value - recorded.value,
        low=measured.low - recorded.high,
        high=measured.high - recorded.low,
        count=min(len(ours), len(theirs)),
        median=True,
    )
    known = max(recorded.high - recorded.value, recorded.value - recorded.low)
    error = difference.half_width / 1.96
    noted = Quantity(
        name=quantity.name, share=quantity.share, floor=quantity.floor, judged=quantity.judged, note="medians"
    )
    return judge.of_interval(case, noted, recorded.value, difference, error, known)
