"""Measures of the cases in which the application limits the rate or pauses."""

from __future__ import annotations

import numpy as np

from aqmlab.studies.bbr_cases.measures.sender import (
    DOWN,
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
from aqmlab.studies.bbr_cases.network import RTT_S

# An application that limits the rate


def _leaves_startup(sender: Sender) -> float:
    return float(bool(sender.of(STARTUP)))


def _stays_in_startup(sender: Sender) -> float:
    return float(set(sender.state) <= {STARTUP, PROBE_RTT})


LEAVES_STARTUP = measure("leaves-startup", "fraction of runs that leave Startup", _leaves_startup)
STAYS_IN_STARTUP = measure(
    "stays-in-startup", "fraction of runs that leave Startup only for ProbeRTT", _stays_in_startup
)


# Idle time and ProbeRTT


def _idle_ends(sender: Sender) -> list[float]:
    """The ends of pauses of more than five seconds with no data in flight."""
    gaps = np.diff(sender.sent_at)
    return [float(sender.sent_at[at + 1]) for at in np.nonzero(gaps > 5.0)[0]]


def _no_probe_rtt_after_idle(sender: Sender) -> float | None:
    """The share of pauses after which no ProbeRTT begins within five round trips."""
    begins = [one.begin_s for one in sender.phases if one.state == PROBE_RTT]
    return share([not any(end <= begin <= end + 5 * RTT_S for begin in begins) for end in _idle_ends(sender)])


def _restart_gain(sender: Sender) -> float | None:
    """The pacing gain at the first acknowledgement after a pause."""
    rows = [min(int(np.searchsorted(sender.time, end)), sender.time.size - 1) for end in _idle_ends(sender)]
    return average([float(sender.gain[at]) for at in rows])


IDLE_PAUSES = measure(
    "idle-pauses", "number of pauses of more than 5 s", lambda sender: float(len(_idle_ends(sender)))
)
NO_PROBE_RTT = measure(
    "no-probe-rtt", "fraction of pauses not followed by ProbeRTT", _no_probe_rtt_after_idle
)
RESTART_GAIN = measure("restart-gain", "pacing gain after a pause", _restart_gain)


# An application that pauses in REFILL


def _limited_refills(sender: Sender) -> list[Phase]:
    """REFILL phases in which the sender sends nothing for at least half a round trip."""
    found = []
    for one in sender.of(REFILL):
        inside = sender.sent_at[(sender.sent_at >= one.begin_s) & (sender.sent_at <= one.end_s)]
        gaps = np.diff(np.array([one.begin_s, *inside, one.end_s]))
        if gaps.max() >= RTT_S / 2:
            found.append(one)
    return found


def _refill_bandwidth(sender: Sender) -> float | None:
    return average(
        [
            float(sender.bandwidth[one.last + 1] / sender.bandwidth[one.first])
            for one in _limited_refills(sender)
        ]
    )


def _refill_to_up(sender: Sender) -> float | None:
    return share([sender.next(one) == UP for one in _limited_refills(sender)])


def _refill_then_down(sender: Sender) -> float | None:
    """Among the UP phases that follow a REFILL phase with a pause, the share of UP phases that end in
    DOWN."""
    ups = {one.first: one for one in sender.of(UP)}
    return share(
        [sender.next(ups[one.last + 1]) == DOWN for one in _limited_refills(sender) if one.last + 1 in ups]
    )


LIMITED_REFILLS = measure(
    "limited-refills",
    "number of REFILL phases with a pause",
    lambda sender: float(len(_limited_refills(sender))),
)
REFILL_BANDWIDTH = measure(
    "refill-bandwidth", "bandwidth at the end of REFILL, relative to the start of REFILL", _refill_bandwidth
)
REFILL_TO_UP = measure("refill-to-up", "fraction of these REFILL phases followed by UP", _refill_to_up)
REFILL_THEN_DOWN = measure(
    "refill-then-down",
    "fraction of the UP phases after these REFILL phases that are followed by DOWN",
    _refill_then_down,
)
