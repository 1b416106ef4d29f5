"""States and levels of a single flow on the Linux 6.1 kernel, sampled every 20 ms, compared with aqmlab.

The path is that of `linux_windows.py`, which compares the windows of CUBIC and Reno sample by sample. This
module adds BBR version 1 and DCTCP, the order of the states, and levels such as the round trip and the
estimates of BBR. All values of aqmlab are read at the times of the record and are reduced in the same way.

The kernel reports its state as numbers. With a window, the state is that of the recovery (`ca_state` 3 and
4), or else slow start or congestion avoidance. BBR's state follows from its two gains. The band is 5 %, and
at least one sample for durations and one segment for retransmissions.

Without BBR, nothing is random, and one run is compared with the record. BBR draws the phase in which
`PROBE_BW` begins, so that the record is compared with the 1st to 99th percentile of twenty runs of aqmlab.

When the link changes its rate, from 10 to 20 Mbit/s and then to 5, aqmlab uses a link that changes its rate
without HTB. This link delivers a packet at the end of its transmission, and HTB at the beginning. The delay
of acknowledgements is therefore shorter by the time that the link needs for a full packet, and SYNs have the
size of a full packet, so that the round trip without a queue is 60 ms at each rate, as in the record.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import data
import linux_bulk_controls
import linux_windows
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import Measures, Quantity, Row, among, exact
from linux_windows import BAND, LATER, RATES, WHERE

ROUND_TRIP = 60.0
"""Round trip without a queue, in milliseconds."""
PACKET = 1514 * 8
"""Bits of a full packet, with the Ethernet header."""
TICK = 0.02
"""Time between two samples, in seconds."""
SEEDS = 20


def _ack_delay(rate: float) -> str:
    """The delay of acknowledgements behind a link of this rate in Mbit/s without HTB."""
    return f"{ROUND_TRIP - PACKET / rate / 1e3:g}ms"


STEPS: Mapping[str, Any] = {
    **linux_windows.STEPS,
    "links.back.queue": {"kind": "drop-tail", "limit": "1000p"},
    "links.back.delay": _ack_delay(10),
    "links.back.delay_steps": [{"at": "20s", "delay": _ack_delay(20)}, {"at": "40s", "delay": _ack_delay(5)}],
    "tcp.connection.syn_size": "1514B",
}
MARKING: Mapping[str, Any] = {
    "kind": "codel",
    "limit": "1000p",
    "target": "1s",
    "interval": "5s",
    "ce_threshold": "5ms",
}
"""The queue of the flows with DCTCP."""
BBR: Mapping[str, Any] = {f"tcp.{key}": value for key, value in linux_bulk_controls.CONTROLS["bbr"].items()}
DCTCP: Mapping[str, Any] = {
    f"tcp.{key}": value for key, value in linux_bulk_controls.CONTROLS["dctcp"].items()
}
LEAF = "links.forth.queue.classes.all.queue"
FLOWS: Mapping[str, Mapping[str, Any]] = {
    "cubic": {},
    "cubic_nohystart": {"tcp.congestion_control.hystart": "off"},
    "reno": linux_windows.RENO,
    "bbr": BBR,
    "dctcp": {**DCTCP, LEAF: MARKING},
    "step_cubic": STEPS,
    "step_reno": {**STEPS, **linux_windows.RENO},
    "step_bbr": {**STEPS, **BBR},
    "step_dctcp": {**STEPS, **DCTCP, "links.forth.queue": MARKING},
}
"""The traces, with the changes of aqmlab's scenario file."""
GAINS = (0.75, 1.0, 1.25)
"""Pacing gains of `PROBE_BW`."""
PACED_SHARE = 0.99
"""Share of the bandwidth that BBR paces at a gain of 1."""
FLOORS = {
    "retransmissions": 1.0,
    "mean duration of PROBE_RTT (s)": TICK,
    "end of STARTUP (s)": TICK,
    "end of DRAIN (s)": TICK,
    "end of slow start (s)": TICK,
}
"""Half the width of the band of small values: a sample, or a segment."""


FIRST_SSTHRESH = "first ssthresh (segments)"
"""A quantity with a band of one segment without HTB, which sometimes sends a packet early."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sender at a time: windows in segments, times in seconds, rates in Mbit/s of payload."""

    time: float
    cwnd: float
    ssthresh: float
    srtt: float
    state: str
    retransmissions: int = 0
    """Retransmissions so far, in the record."""
    pacing: float = 0.0
    bandwidth: float = 0.0
    min_rtt: float = 0.0
    gain: float = 0.0
    """Pacing gain of BBR."""
    share: float = 0.0
    """DCTCP's share of marked data."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The samples of a run, and its retransmissions and marks."""

    samples: Sequence[Sample]
    retransmissions: int
    marks: int


def cases() -> list[Case]:
    """Every recorded trace."""
    return [state_case(name) for name in FLOWS]


def state_case(trace: str) -> Case:
    """A flow from its first segment on."""
    return Case(name=f"linux states {trace}", jobs=lambda: jobs(trace), judge=lambda got: judge(trace, got))


def jobs(trace: str) -> list[Job]:
    """One run, or several with other random numbers for BBR."""
    scenario = Scenario.load(data.SCENARIOS / "linux-window.toml").with_(FLOWS[trace])
    moments = [sample.time for sample in recorded(trace).samples]
    seeds = SEEDS if is_bbr(trace) else 1
    return [
        Job(scenario=scenario, seed=seed, measure=lambda run: sampled(run, moments))
        for seed in range(1, seeds + 1)
    ]


def judge(trace: str, measured: Sequence[Trace]) -> list[Row]:
    """Compares the order of the states, and times and levels within the band."""
    case, theirs = f"linux states {trace}", recorded(trace)
    order = states(theirs.samples)
    if is_bbr(trace):
        same = sum(states(ours.samples) == order for ours in measured)
        found = [quantities(trace, ours) for ours in measured]
        rows = [exact(case, "runs with the states in order", len(measured), same, 0)]
        for name, value in quantities(trace, theirs).items():
            quantity = Quantity(name=name, share=BAND, floor=FLOORS.get(name, 0.0))
            rows.append(among(case, quantity, value, [some.get(name, 0.0) for some in found]))
        return rows
    [ours] = measured
    names = states(ours.samples)
    alike = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(order, names, strict=False))
    )
    rows = [
        exact(case, "states", len(order), len(names), 0),
        exact(case, "states in order", len(order), alike, 0),
    ]
    values = quantities(trace, ours)
    for name, value in quantities(trace, theirs).items():
        tolerance = max(BAND * abs(value), FLOORS.get(name, 0.0))
        if trace.startswith("step_") and name == FIRST_SSTHRESH:
            tolerance = 1.0
        rows.append(exact(case, name, value, values.get(name, 0.0), tolerance))
    return rows


def is_bbr(trace: str) -> bool:
    """Whether the flow uses BBR."""
    return trace.endswith("bbr")


# The record and the runs


def recorded(trace: str) -> Trace:
    """The values that the kernel reported."""
    rows = data.rows(trace, WHERE)
    samples = [_recorded(row) for row in rows]
    return Trace(
        samples=samples, retransmissions=samples[-1].retransmissions, marks=int(rows[-1].get("ce", 0))
    )


def _recorded(row: Mapping[str, str]) -> Sample:
    sample = {
        "time": float(row["t"]),
        "cwnd": float(row["cwnd"]),
        "ssthresh": float(row["ssthresh"]),
        "srtt": float(row["srtt_ms"]) / 1e3,
    }
    retransmissions = int(row["retrans"])
    if "pacing_gain" not in row:
        share = int(row.get("alpha", 0)) / 1024
        return Sample(**sample, retransmissions=retransmissions, state=_window_state(row), share=share)
    gains = int(row["pacing_gain"]), int(row["cwnd_gain"])
    return Sample(
        **sample,
        retransmissions=retransmissions,
        state=bbr_state(*gains),
        pacing=_mbps(row["pacing_Bps"]),
        bandwidth=_mbps(row["bw_Bps"]),
        min_rtt=int(row["min_rtt_us"]) / 1e6,
        gain=gains[0] / 256,
    )


def _mbps(bytes_per_second: str) -> float:
    return int(bytes_per_second) * 8 / 1e6


def _window_state(row: Mapping[str, str]) -> str:
    """The state of a flow with a window; while a mark reduces the window, congestion avoidance."""
    recoveries = {"3": "RECOVERY", "4": "LOSS"}
    is_slow_start = row["ca_state"] != "2" and int(row["cwnd"]) < int(row["ssthresh"])
    return recoveries.get(row["ca_state"], "SLOW_START" if is_slow_start else "CONGESTION_AVOIDANCE")


def bbr_state(pacing_gain: int, cwnd_gain: int) -> str:
    """BBR's state by its gains, in units of 1/256 (tcp_bbr.c, `bbr_update_gains`)."""
    if cwnd_gain == 739:
        return "STARTUP" if pacing_gain == 739 else "DRAIN"
    return {512: "PROBE_BW", 256: "PROBE_RTT"}[cwnd_gain]


def sampled(run: Run, moments: Sequence[float]) -> Trace:
    """The values of aqmlab at these times."""
    senders = run.tables["senders"]
    times = senders["time_s"].to_list()
    rows = [senders.row(bisect.bisect_right(times, moment + LATER) - 1, named=True) for moment in moments]
    samples = [_sampled(moment, row) for moment, row in zip(moments, rows, strict=True)]
    return Trace(
        samples=samples,
        retransmissions=int(run.flows["retransmitted"].sum()),
        marks=int(run.links["marks"].sum()),
    )


def _sampled(moment: float, row: Mapping[str, Any]) -> Sample:
    pacing, bandwidth = ((row[name] or 0.0) / 1e6 for name in ("pacing_rate_bps", "bandwidth_bps"))
    gain = pacing / bandwidth / PACED_SHARE if bandwidth else 0.0
    return Sample(
        time=moment,
        cwnd=row["cwnd_segments"],
        ssthresh=row["ssthresh_segments"],
        srtt=row["srtt_s"],
        state=str(row["state"]),
        pacing=pacing,
        bandwidth=bandwidth,
        min_rtt=row["min_rtt_s"] or 0.0,
        gain=gain,
        share=row["marked_share"] or 0.0,
    )


# What is compared


def quantities(trace: str, run: Trace) -> Measures:
    """The compared times and levels of a run."""
    periods = _periods(trace, run.samples)
    of_control = bbr_levels if is_bbr(trace) else window_levels
    found = of_control(run.samples)
    for begin, end in periods:
        some = [sample for sample in run.samples if begin < sample.time <= end]
        levels = (bbr_means if is_bbr(trace) else window_means)(some)
        if "dctcp" in trace:
            levels["mean share of marked data"] = mean(sample.share for sample in some)
        found |= {f"{name}, {begin:g} to {end:g} s": value for name, value in levels.items()}
    if "dctcp" in trace:
        return found | {"marks": float(run.marks)}
    return found | {"retransmissions": float(run.retransmissions)}


def _periods(trace: str, samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """The times between which the link has one rate."""
    ends = RATES if trace.startswith("step_") else (RATES[0], samples[-1].time)
    return list(itertools.pairwise(ends))


def states(samples: Sequence[Sample]) -> list[str]:
    """The states in their order."""
    return [state for state, _ in itertools.groupby(samples, key=lambda sample: sample.state)]


def window_levels(samples: Sequence[Sample]) -> Measures:
    """Times and levels of the first reduction."""
    first = next(sample for sample in samples if sample.ssthresh < samples[0].ssthresh)
    return {"end of slow start (s)": first.time, FIRST_SSTHRESH: first.ssthresh}


def window_means(samples: Sequence[Sample]) -> Measures:
    """Levels while the link has one rate."""
    before = reductions(samples)
    return {
        "reductions": float(len(before)),
        "mean window before a reduction": mean(before) if before else 0.0,
        "mean ssthresh": mean(sample.ssthresh for sample in samples),
        "mean window": mean(sample.cwnd for sample in samples),
        "mean srtt (ms)": 1e3 * mean(sample.srtt for sample in samples),
    }


def reductions(samples: Sequence[Sample]) -> list[float]:
    """The windows from which the window began to fall."""
    windows = [window for window, _ in itertools.groupby(int(sample.cwnd) for sample in samples)]
    return [float(b) for a, b, c in zip(windows, windows[1:], windows[2:], strict=False) if a < b > c]


def bbr_levels(samples: Sequence[Sample]) -> Measures:
    """Times at which BBR changes its state, and levels at the end of `STARTUP`."""
    spans = _spans(samples)
    [startup, drain, *rest] = [some for _, some in spans]
    waits = [some for state, some in spans if state == "PROBE_RTT"]
    last = startup[-1]
    found = {
        "end of STARTUP (s)": drain[0].time,
        "end of DRAIN (s)": rest[0][0].time,
        "window at the end of STARTUP (segments)": last.cwnd,
        "ssthresh after STARTUP (segments)": drain[0].ssthresh,
        "bandwidth at the end of STARTUP (Mbit/s)": last.bandwidth,
        "pacing rate at the end of STARTUP (Mbit/s)": last.pacing,
        "srtt at the end of STARTUP (ms)": 1e3 * last.srtt,
        "pacing rate in DRAIN (Mbit/s)": drain[0].pacing,
        "window in PROBE_RTT (segments)": min(
            (sample.cwnd for some in waits for sample in some), default=0.0
        ),
        "mean duration of PROBE_RTT (s)": TICK * sum(map(len, waits)) / max(len(waits), 1),
        "min_rtt at the end (ms)": 1e3 * samples[-1].min_rtt,
    }
    return found | {f"PROBE_RTT {number}, begin (s)": some[0].time for number, some in enumerate(waits, 1)}


def _spans(samples: Sequence[Sample]) -> list[tuple[str, list[Sample]]]:
    groups = itertools.groupby(samples, key=lambda sample: sample.state)
    return [(state, list(some)) for state, some in groups]


def bbr_means(samples: Sequence[Sample]) -> Measures:
    """Levels of `PROBE_BW` while the link has one rate."""
    probing = [sample for sample in samples if sample.state == "PROBE_BW"]
    levels: Mapping[str, Callable[[Sample], float]] = {
        "mean window (segments)": lambda sample: sample.cwnd,
        "mean srtt (ms)": lambda sample: 1e3 * sample.srtt,
        "mean bandwidth (Mbit/s)": lambda sample: sample.bandwidth,
        "mean pacing rate (Mbit/s)": lambda sample: sample.pacing,
    }
    gains = [nearest_gain(sample.gain) for sample in probing]
    ups = sum(a != b == GAINS[-1] for a, b in itertools.pairwise(gains))
    found = {f"{name} in PROBE_BW": mean(map(level, probing)) for name, level in levels.items()}
    return found | {
        "phases with a gain of 1.25": float(ups),
        "share of time with a gain of 1.25": gains.count(GAINS[-1]) / len(gains),
        "share of time with a gain of 0.75": gains.count(GAINS[0]) / len(gains),
    }


def nearest_gain(gain: float) -> float:
    """The gain of a phase of `PROBE_BW` that is nearest to a measured gain."""
    return min(GAINS, key=lambda other: abs(other - gain))
