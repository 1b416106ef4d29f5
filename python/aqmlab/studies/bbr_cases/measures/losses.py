"""Measures of losses, of spurious retransmissions and of timeouts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aqmlab.metrics import Floats
from aqmlab.studies.bbr_cases.measures.sender import (
    CRUISE,
    DOWN,
    PROBE_RTT,
    REFILL,
    UP,
    Sender,
    average,
    measure,
    share,
)
from aqmlab.studies.bbr_cases.network import RTT_S

LOSSES = measure("losses", "dropped packets", lambda sender: float(sender.dropped_at.size))


# Losses in UP with inflight_longterm


def _after_loss(sender: Sender) -> float | None:
    """The window at the first acknowledgement in DOWN, relative to 0.7 times the smaller of the window and
    the bandwidth-delay product at the last acknowledgement in UP."""
    found = []
    for one in sender.of(UP):
        if sender.next(one) == DOWN and one.last > one.first:
            target = min(float(sender.bdp[one.last]), float(sender.cwnd[one.last]))
            found.append(float(sender.cwnd[one.last + 1]) / (0.7 * target))
    return average(found)


AFTER_LOSS = measure("after-loss", "window after UP, relative to 0.7 of min(BDP, cwnd)", _after_loss)

# Spurious retransmissions

SETTLE_S = 0.15
"""Time within which the response to a spurious retransmission must have been undone: more than three round
trips."""
AFTER_CRUISE = (REFILL, UP)
"""States that can follow CRUISE within `SETTLE_S` without a loss."""


def _isolated(sender: Sender) -> list[float]:
    """Retransmissions in CRUISE that are at least `SETTLE_S` apart from any other retransmission, and that
    are not followed by ProbeRTT within `SETTLE_S`."""
    times = sender.retransmitted_at
    found = []
    for at, time in enumerate(times):
        alone_before = at == 0 or time - times[at - 1] > SETTLE_S
        alone_after = at + 1 == times.size or times[at + 1] - time > SETTLE_S
        row = sender.row(float(time)) - 1
        inside = row >= 0 and time + SETTLE_S < sender.end_s and sender.state[row] == CRUISE
        inside = inside and PROBE_RTT not in sender.state[row : sender.row(time + SETTLE_S) + 1]
        if alone_before and alone_after and inside:
            found.append(float(time))
    return found


def _restored(values: Callable[[Sender], Floats]) -> Callable[[Sender], float | None]:
    def compute(sender: Sender) -> float | None:
        series = values(sender)
        return average(
            [
                float(series[sender.row(time + SETTLE_S)] / series[sender.row(time) - 1])
                for time in _isolated(sender)
            ]
        )

    return compute


def _same_state(sender: Sender) -> float | None:
    return share(
        [sender.state[sender.row(time + SETTLE_S)] in (CRUISE, *AFTER_CRUISE) for time in _isolated(sender)]
    )


SPURIOUS = measure(
    "spurious",
    "fraction of runs with spurious recoveries in CRUISE",
    lambda sender: float(bool(_isolated(sender))),
)
BANDWIDTH_RESTORED = measure(
    "bandwidth-restored",
    "bandwidth after the undo, relative to the bandwidth before",
    _restored(lambda sender: sender.bandwidth),
)
WINDOW_RESTORED = measure(
    "window-restored",
    "window after the undo, relative to the window before",
    _restored(lambda sender: sender.cwnd),
)
SAME_STATE = measure("same-state", "fraction of recoveries after which CRUISE continues", _same_state)


# Timeouts


def _around_timeout(sender: Sender) -> tuple[int, int] | None:
    """The last row before the silence that the delay spike causes, and the row three round trips after the
    silence."""
    gaps = np.diff(sender.acked_at)
    at = int(np.argmax(gaps)) if gaps.size else 0
    if not gaps.size or gaps[at] < 0.25:
        return None
    return sender.row(float(sender.acked_at[at])), sender.row(float(sender.acked_at[at + 1]) + 3 * RTT_S)


def _across_timeout(values: Callable[[Sender], Floats]) -> Callable[[Sender], float | None]:
    """The share of a value that has been restored after the timeout, at most 1."""

    def compute(sender: Sender) -> float | None:
        rows = _around_timeout(sender)
        return None if rows is None else min(float(values(sender)[rows[1]] / values(sender)[rows[0]]), 1.0)

    return compute


def _same_after_timeout(sender: Sender) -> float | None:
    rows = _around_timeout(sender)
    return None if rows is None else float(sender.state[rows[0]] == sender.state[rows[1]])


TIMEOUTS = measure("timeouts", "timeouts", lambda sender: float(sender.timeouts))
RTO_BANDWIDTH = measure(
    "rto-bandwidth",
    "fraction of the bandwidth that is restored after the timeout",
    _across_timeout(lambda sender: sender.bandwidth),
)
RTO_WINDOW = measure(
    "rto-window",
    "fraction of the window that is restored after the timeout",
    _across_timeout(lambda sender: sender.cwnd),
)
RTO_STATE = measure(
    "rto-state", "fraction of timeouts after which the previous state is restored", _same_after_timeout
)
