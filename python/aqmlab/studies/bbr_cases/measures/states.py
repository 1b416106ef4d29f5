"""Measures of the states: Startup, Drain, the phases of ProbeBW, and ProbeRTT."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from aqmlab.studies.bbr_cases.measures.sender import (
    CRUISE,
    DOWN,
    DRAIN,
    PROBE_RTT,
    REFILL,
    STARTUP,
    UP,
    Phase,
    Sender,
    average,
    measure,
    share,
)
from aqmlab.studies.bbr_cases.network import LINK_BPS, PAYLOAD_SHARE, RTT_S


def followed_by(state: str, *expected: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The share of complete phases of a state that are followed by one of the expected states. Unless
    ProbeRTT is expected, a phase that ProbeRTT interrupts is omitted, because ProbeRTT can follow any
    state."""

    def compute(sender: Sender) -> float | None:
        following = [sender.next(one) for one in sender.of(state, after_s)]
        return share([one in expected for one in following if one != PROBE_RTT or PROBE_RTT in expected])

    return compute


def gain_in(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean of the median pacing gains of a state's phases."""
    return lambda sender: average(
        [float(np.nanmedian(sender.gain[one.first : one.last + 1])) for one in sender.of(state, after_s)]
    )


def inflight_at_end(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean of the data in flight when a state ends, relative to the estimated bandwidth-delay product."""

    def compute(sender: Sender) -> float | None:
        found = []
        for one in sender.ended(state, after_s):
            bdp = sender.bdp[one.last + 1]
            found.append(sender.inflight(one.end_s) / float(bdp))
        return average(found)

    return compute


def inflight_before_end(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean of the data in flight at the last acknowledgement before the acknowledgement that ends a
    state, relative to the estimated bandwidth-delay product."""
    return lambda sender: average(
        [
            sender.inflight(float(sender.time[one.last])) / float(sender.bdp[one.last])
            for one in sender.ended(state, after_s)
        ]
    )


def rounds_in(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean number of rounds that end in a state."""
    return lambda sender: average(
        [float(sum(1 for _ in sender.rounds(one.begin_s, one.end_s))) for one in sender.ended(state, after_s)]
    )


# Startup and Drain


def _estimate(sender: Sender) -> float | None:
    """Bandwidth at the end of Startup, relative to the link's payload rate."""
    phase = sender.first(STARTUP)
    return None if phase is None else float(sender.bandwidth[phase.last + 1]) / (LINK_BPS * PAYLOAD_SHARE)


def plateau_rounds(bandwidths: list[float]) -> int:
    """Number of rounds after the last round in which the bandwidth grew by at least 25 %."""
    full, count = 0.0, 0
    for bandwidth in bandwidths:
        if bandwidth >= 1.25 * full:
            full, count = bandwidth, 0
        else:
            count += 1
    return count


def _startup_plateau(sender: Sender) -> float | None:
    phase = sender.first(STARTUP)
    if phase is None:
        return None
    ends = sender.rounds(float(sender.sent_at[0]), phase.end_s)
    return float(plateau_rounds([float(sender.bandwidth[sender.row(at)]) for at in ends]))


ESTIMATE = measure("estimate", "bandwidth at the end of Startup, relative to the link's rate", _estimate)
STARTUP_BANDWIDTH = measure(
    "startup-bandwidth", "bandwidth when Startup ends, relative to the link's rate", _estimate
)
"""`ESTIMATE` by the name in the recorded rule of claim 2, whose digest contains the name."""
STARTUP_PLATEAU = measure(
    "startup-plateau", "number of rounds in Startup after the last growth by 25 %", _startup_plateau
)
TO_DRAIN = measure("to-drain", "fraction of Startup phases followed by Drain", followed_by(STARTUP, DRAIN))
DRAIN_GAIN = measure("drain-gain", "pacing gain in Drain", gain_in(DRAIN))
DRAIN_INFLIGHT = measure(
    "drain-inflight", "data in flight at the end of Drain, in BDP", inflight_at_end(DRAIN)
)
DRAIN_BEFORE = measure(
    "drain-before", "data in flight at the last acknowledgement in Drain, in BDP", inflight_before_end(DRAIN)
)
DRAIN_ROUNDS = measure("drain-rounds", "number of rounds in Drain", rounds_in(DRAIN))
FROM_DRAIN = measure(
    "from-drain", "fraction of Drain phases followed by ProbeBW", followed_by(DRAIN, UP, DOWN, CRUISE, REFILL)
)


# ProbeBW


def _up_lasts(sender: Sender) -> float | None:
    """Mean duration of UP, in round-trip times without queueing."""
    value = average([one.duration_s for one in sender.of(UP)])
    return None if value is None else value / RTT_S


def _slow_down(sender: Sender) -> Phase | None:
    """The first DOWN phase after the first UP phase, or `None` if ProbeRTT interrupts this DOWN phase."""
    phase = sender.first(DOWN, SETTLED_S)
    return None if phase is None or sender.next(phase) == PROBE_RTT else phase


def _down_to_refill(sender: Sender) -> float | None:
    phase = _slow_down(sender)
    return None if phase is None else float(sender.next(phase) == REFILL)


def _down_duration(sender: Sender) -> float | None:
    phase = _slow_down(sender)
    return None if phase is None else phase.duration_s


UP_ROUNDS = measure("up-rounds", "number of rounds in UP", rounds_in(UP))
UP_TO_DOWN = measure("up-to-down", "fraction of UP phases followed by DOWN", followed_by(UP, DOWN))
UP_LASTS = measure("up-lasts", "duration of UP, in round trips", _up_lasts)
UP_TO_DOWN_OR_CRUISE = measure(
    "up-to-down-or-cruise", "fraction of UP phases followed by DOWN or CRUISE", followed_by(UP, DOWN, CRUISE)
)


SETTLED_S = 1.0
"""Time from which a DOWN phase follows an UP phase. A DOWN phase in the first second follows Drain and ends
immediately."""
DOWN_GAIN = measure("down-gain", "pacing gain in DOWN", gain_in(DOWN, SETTLED_S))
DOWN_INFLIGHT = measure(
    "down-inflight", "data in flight at the end of DOWN, in BDP", inflight_at_end(DOWN, SETTLED_S)
)
DOWN_BEFORE = measure(
    "down-before",
    "data in flight at the last acknowledgement in DOWN, in BDP",
    inflight_before_end(DOWN, SETTLED_S),
)
DOWN_TO_CRUISE = measure(
    "down-to-cruise",
    "fraction of DOWN phases followed by CRUISE",
    followed_by(DOWN, CRUISE, after_s=SETTLED_S),
)
DOWN_TO_REFILL = measure("down-to-refill", "fraction of runs in which REFILL follows DOWN", _down_to_refill)
DOWN_DURATION = measure("down-duration", "duration of DOWN", _down_duration, "s")


# ProbeRTT


def _probe_rtt_window(sender: Sender) -> float | None:
    return average(
        [
            float(np.min(sender.cwnd[one.first : one.last + 1]) / sender.bdp[one.first])
            for one in sender.of(PROBE_RTT)
        ]
    )


def _after_probe_rtt(sender: Sender) -> float | None:
    """Payload sent in the second after ProbeRTT, relative to the link's rate."""
    found = []
    for one in sender.of(PROBE_RTT):
        if one.end_s + 1 <= sender.end_s:
            sent = (sender.sent_at >= one.end_s) & (sender.sent_at < one.end_s + 1)
            found.append(8 * float(sender.sent_payload[sent].sum()) / (LINK_BPS * PAYLOAD_SHARE))
    return average(found)


def _probe_rtt_duration(sender: Sender) -> float | None:
    return average([one.duration_s for one in sender.of(PROBE_RTT)])


def _startup_probe_rtts(sender: Sender) -> float | None:
    phases = sender.phases
    pairs = itertools.pairwise(phases)
    return float(any(one.state == STARTUP and after.state == PROBE_RTT for one, after in pairs))


def _back_to_startup(sender: Sender) -> float | None:
    """The share of the ProbeRTT phases that begin in Startup and also end in Startup."""
    phases = sender.phases
    triples = zip(phases, phases[1:], phases[2:], strict=False)
    return share(
        [
            after.state == STARTUP
            for before, one, after in triples
            if before.state == STARTUP and one.state == PROBE_RTT
        ]
    )


PROBE_RTTS = measure(
    "probe-rtts", "fraction of runs with ProbeRTT", lambda sender: float(bool(sender.of(PROBE_RTT)))
)
PROBE_RTT_WINDOW = measure("probe-rtt-window", "minimum window in ProbeRTT, in BDP", _probe_rtt_window)
PROBE_RTT_DURATION = measure("probe-rtt-duration", "duration of ProbeRTT", _probe_rtt_duration, "s")
PROBE_RTT_TO_BW = measure(
    "probe-rtt-to-bw",
    "fraction of ProbeRTT phases followed by ProbeBW",
    followed_by(PROBE_RTT, UP, DOWN, CRUISE, REFILL),
)
AFTER_PROBE_RTT = measure(
    "after-probe-rtt",
    "sending rate in the second after ProbeRTT, relative to the link's rate",
    _after_probe_rtt,
)
STARTUP_PROBE_RTTS = measure(
    "startup-probe-rtts", "fraction of runs with a ProbeRTT phase in Startup", _startup_probe_rtts
)
BACK_TO_STARTUP = measure(
    "back-to-startup", "fraction of these ProbeRTT phases followed by Startup", _back_to_startup
)
