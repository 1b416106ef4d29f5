"""Common parts of cases that compare complete senders with closed forms.

Each formula has a band of its own. A data segment is a packet of 1000 B, and the round trip without queueing
takes 0.1 s unless a case states another (`scenarios/reference/tcp-theory.toml`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import data
from aqmlab import stats
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Changes, Job
from judge import Quantity, Row, exact, of_interval

WARM_UP = 100
EVERY = {1: "off", 2: "every-second"}
"""Acknowledgement policy by the number of segments per acknowledgement (b)."""
DATA_ONLY = "100B"
"""Minimum size of packets that a queue drops or marks, which spares SYNs and acknowledgements."""
REPAIRS = "the ideal formula neglects the repair of losses"


def jobs(
    changes: Changes, measure: Callable[[Run], object], seeds: int = 1, scenario: str = "tcp-theory"
) -> list[Job]:
    """A run for each seed, of a scenario of `scenarios/reference` with changes."""
    changed = Scenario.load(data.SCENARIOS / f"{scenario}.toml").with_(changes)
    return [Job(scenario=changed, seed=seed, measure=measure) for seed in range(1, seeds + 1)]


def row(case: str, quantity: str, theory: float, ours: Sequence[float], share: float, note: str = "") -> Row:
    """Compares a mean with a formula that is valid up to a `share` of it; a share of 0 only prints the
    row."""
    note = note or f"band {100 * share:g} %"
    interval = stats.mean_interval(ours)
    if share and len(ours) == 1:
        return exact(case, quantity, theory, interval.value, share * theory, note)
    off = replace(
        interval, value=interval.value - theory, low=interval.low - theory, high=interval.high - theory
    )
    error = interval.half_width / stats.t_quantile(stats.LEVEL, max(len(ours) - 1, 1))
    return of_interval(
        case, Quantity(name=quantity, share=share, judged=share > 0, note=note), theory, off, error
    )


class Rate(NamedTuple):
    """The statistics of a sender after the warm-up."""

    per_second: float
    """Packets sent per second."""
    events: float
    """Loss events (timeouts and fast retransmits) per packet sent."""
    timeouts: float
    """Timeouts per loss event."""
    window: float
    """The window averaged over acknowledgements, if they were recorded."""


def rate(run: Run) -> Rate:
    """The statistics of the only sender of a run."""
    link = run.links.row(0, named=True)
    flow = run.flows.row(0, named=True)
    events = flow["timeouts"] + flow["fast_retransmits"]
    sender = run.tables["senders"]
    steady = sender["cwnd_segments"].filter(sender["time_s"] > WARM_UP)
    seconds = flow["delivered_bytes"] * 8 / flow["goodput_bps"]
    return Rate(
        per_second=link["arrivals"] / seconds,
        events=events / link["arrivals"],
        timeouts=flow["timeouts"] / events if events else 0.0,
        window=steady.mean() if len(steady) else math.nan,  # type: ignore[arg-type]
    )


def every(gap: int, first: int | None = None) -> Changes:
    """One loss every `gap` packets."""
    start = gap if first is None else first
    return {"bottleneck.queue": {"kind": "drop-nth", "packets": [start + gap * n for n in range(4000)]}}
