"""The congestion window of a single flow on the Linux 6.1 kernel, sampled every 20 ms, compared with aqmlab.

Nothing is random: one flow, one queue, one path. Until slow start ends, every sample must be equal to the
segment, and so must the window and the time at its end. Later windows, and the retransmissions within 3 s,
have a band of 5 %; the median difference of windows must be at most a segment. While a window is reduced step
by step, the kernel reports the current value, and aqmlab the final one. The receiver of the recorded runs had
a buffer of 8 MB: it acknowledges every segment as long as its window grows to half of the buffer.

If the link changes its rate, from 10 to 20 Mbit/s and then to 5, aqmlab uses a link that changes its rate
without HTB, which sometimes sends a packet early: slow start may end a segment apart, and each rate has a
band of its own.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import Row, exact

WHERE = data.LINUX / "traces"
STEPS: Mapping[str, Any] = {
    "duration": "60s",
    "links.forth.rate": "10Mbps",
    "links.forth.rate_steps": [{"at": "20s", "rate": "20Mbps"}, {"at": "40s", "rate": "5Mbps"}],
    "links.forth.queue": {"kind": "drop-tail", "limit": "100p"},
}
RENO: Mapping[str, Any] = {"tcp.congestion_control": {"kind": "reno"}}
FLOWS: Mapping[str, Mapping[str, Any]] = {
    "cubic": {},
    "cubic_nohystart": {"tcp.congestion_control.hystart": "off"},
    "reno": RENO,
    "step_cubic": STEPS,
    "step_reno": {**STEPS, **RENO},
}
"""The traces, with the changes of aqmlab's scenario file."""
BAND = 0.05
LATER = 0.0001
"""Delay of aqmlab's samples, in seconds: the links of hosts take some 16 us here and none in the record."""
EARLY = 3.0
"""Time until which retransmissions are counted, in seconds."""
RATES = (EARLY, 20.0, 40.0, 60.0)
"""Times between which the link has one rate."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sender at a time: its windows in segments, and its retransmissions so far."""

    time: float
    cwnd: float
    ssthresh: float
    retransmissions: int = 0


Measured = list[Sample] | int


def cases() -> list[Case]:
    """Every recorded trace."""
    return [window_case(name) for name in FLOWS]


def window_case(trace: str) -> Case:
    """A flow from its first segment on, and a run of 3 s, to count its retransmissions until then."""
    return Case(name=f"linux window {trace}", jobs=lambda: jobs(trace), judge=lambda got: judge(trace, got))


def jobs(trace: str) -> list[Job]:
    """Two runs: one whose window is sampled, one that ends early."""
    scenario = Scenario.load(data.SCENARIOS / "linux-window.toml").with_(FLOWS[trace])
    moments = [sample.time for sample in recorded(trace)]
    return [
        Job(scenario=scenario, seed=1, measure=lambda run: sampled(run, moments)),
        Job(scenario=scenario.with_({"duration": f"{EARLY:g}s"}), seed=1, measure=retransmissions),
    ]


def judge(trace: str, measured: Sequence[Measured]) -> list[Row]:
    """Compares slow start to the segment, and later windows within the band."""
    case, theirs = f"linux window {trace}", recorded(trace)
    [ours, ours_early] = measured
    assert isinstance(ours, list) and isinstance(ours_early, int)
    ends = [slow_start_end(samples) for samples in (theirs, ours)]
    first = theirs.index(ends[0])
    apart = sum(int(b.cwnd) != a.cwnd for a, b in zip(theirs[:first], ours, strict=False))
    theirs_early = max(sample.retransmissions for sample in theirs if sample.time <= EARLY)
    steps = trace.startswith("step_")
    rows = [
        exact(case, "end of slow start (s)", ends[0].time, ends[1].time, 0),
        exact(case, "ssthresh then (segments)", ends[0].ssthresh, ends[1].ssthresh, 1 if steps else 0),
        exact(case, f"sent again by {EARLY:g} s", theirs_early, ours_early, BAND * theirs_early),
        exact(case, "windows apart, median (segments)", 0, apart_later(theirs, ours), 1),
    ]
    if not steps:
        rows.insert(0, exact(case, "samples until slow start ends", first, first - apart, 0))
    quantities = {"first reduction (s)": first_reduction} | {
        f"mean window from {begin:g} to {end:g} s": partial(mean_window, begin=begin, end=end)
        for begin, end in itertools.pairwise(RATES if steps else (EARLY, theirs[-1].time))
    }
    for quantity, of in quantities.items():
        a, b = of(theirs), of(ours)
        rows.append(exact(case, quantity, a, b, BAND * a))
    return rows


def recorded(trace: str) -> list[Sample]:
    """The values that the kernel reported."""
    return [
        Sample(
            time=float(row["t"]),
            cwnd=float(row["cwnd"]),
            ssthresh=float(row["ssthresh"]),
            retransmissions=int(row["retrans"]),
        )
        for row in data.rows(trace, WHERE)
    ]


def sampled(run: Run, moments: Sequence[float]) -> list[Sample]:
    """The values of aqmlab at these times."""
    senders = run.tables["senders"]
    times = senders["time_s"].to_list()
    windows = list(zip(senders["cwnd_segments"], senders["ssthresh_segments"], strict=True))
    indices = [bisect.bisect_right(times, moment + LATER) - 1 for moment in moments]
    return [
        Sample(time=moment, cwnd=windows[index][0], ssthresh=windows[index][1])
        for moment, index in zip(moments, indices, strict=True)
    ]


def retransmissions(run: Run) -> int:
    """The number of retransmitted segments."""
    return int(run.flows["retransmitted"].sum())


def slow_start_end(samples: Sequence[Sample]) -> Sample:
    """The first sample whose threshold differs from the initial one."""
    return next(sample for sample in samples if sample.ssthresh < samples[0].ssthresh)


def first_reduction(samples: Sequence[Sample]) -> float:
    """The time at which a loss first reduced the window."""
    pairs = itertools.pairwise(samples)
    return next(after.time for before, after in pairs if after.cwnd < before.cwnd)


def apart_later(theirs: Sequence[Sample], ours: Sequence[Sample]) -> float:
    """The median difference of windows after slow start."""
    pairs = [(a, b) for a, b in zip(theirs, ours, strict=True) if a.time > EARLY]
    return median(abs(a.cwnd - int(b.cwnd)) for a, b in pairs)


def mean_window(samples: Sequence[Sample], *, begin: float, end: float) -> float:
    """The mean window between two times."""
    windows = [sample.cwnd for sample in samples if begin < sample.time <= end]
    return sum(windows) / len(windows)
