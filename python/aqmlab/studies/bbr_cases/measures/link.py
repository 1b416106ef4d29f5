"""Measures of the cases in which the link is slow, changes its rate, aggregates acknowledgements or has a
policer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from aqmlab.metrics import Floats
from aqmlab.studies.bbr_cases.measures.sender import CRUISE, MSS, STARTUP, UP, Sender, average, measure
from aqmlab.studies.bbr_cases.measures.states import SETTLED_S
from aqmlab.studies.bbr_cases.network import LINK_BPS, PAYLOAD_SHARE, RTT_S, SLOW_BPS, STEP_S, TOKEN_BPS

# A slow link, whose bandwidth-delay product is less than a packet


def _settled(sender: Sender) -> int:
    """The first row in ProbeBW."""
    return next((at for at, state in enumerate(sender.state) if state.startswith("PROBE_BW")), 0)


def _least_window(sender: Sender) -> float | None:
    return float(np.min(sender.cwnd[_settled(sender) :]))


def _slow_pacing(sender: Sender) -> float | None:
    """Pacing rate in CRUISE relative to the payload rate of the slow link."""
    found = [float(np.median(sender.pacing[one.first : one.last + 1])) for one in sender.of(CRUISE)]
    value = average(found)
    return None if value is None else value / (SLOW_BPS * PAYLOAD_SHARE)


LEAST_WINDOW = measure("least-window", "minimum window in ProbeBW and ProbeRTT", _least_window, "packets")
SLOW_PACING = measure("slow-pacing", "pacing rate in CRUISE, relative to the link's rate", _slow_pacing)

# Steps of the link's rate


def _rounds_to_full(sender: Sender) -> float | None:
    """Rounds from the first UP after the step until the bandwidth is within 2 % of 100 Mb/s."""
    phase = sender.first(UP, STEP_S)
    if phase is None:
        return None
    for number, end in enumerate(sender.rounds(phase.begin_s, sender.end_s), 1):
        if sender.bandwidth[sender.row(end)] >= 0.98 * 100e6 * PAYLOAD_SHARE:
            return float(number)
    return math.inf


def growth_ratio(windows: list[float]) -> float | None:
    """The median ratio of successive increments of a window, from the first increment of at least one segment
    up to the first increment that is smaller than the previous increment, because from then on the window is
    no longer at its limit."""
    steps = [after - before for before, after in itertools.pairwise(windows)]
    steps = steps[next((at for at, step in enumerate(steps) if step >= 1), len(steps)) :]
    end = next((at for at in range(1, len(steps)) if steps[at] < steps[at - 1]), len(steps))
    ratios = [after / before for before, after in itertools.pairwise(steps[:end])]
    return float(np.median(ratios)) if ratios else None


def _long_term_growth(sender: Sender) -> float | None:
    """The growth ratio of the window in the UP phase in which the bandwidth reaches more than half of 100
    Mb/s."""
    for one in (phase for phase in sender.phases if phase.state == UP and phase.end_s >= STEP_S):
        if sender.bandwidth[one.last] >= 50e6:
            ends = [one.begin_s, *sender.rounds(one.begin_s, one.end_s)]
            return growth_ratio([float(sender.cwnd[sender.row(at)]) for at in ends])
    return None


def _rounds_to_fall(sender: Sender) -> float | None:
    """Time from the first retransmission after the step until the bandwidth is at most 0.75 times the
    bandwidth before the step, divided by the smoothed round-trip time at this retransmission. Rounds are not
    counted, because the cumulative acknowledgements from which rounds are determined stop during the
    recovery."""
    lost = sender.retransmitted_at[sender.retransmitted_at >= STEP_S]
    if not lost.size:
        return math.inf
    before = sender.bandwidth[sender.row(STEP_S)]
    begin = float(lost[0])
    at = sender.row(begin)
    below = np.nonzero(sender.bandwidth[at:] <= 0.75 * before)[0]
    if not below.size:
        return math.inf
    return float(sender.time[at + below[0]] - begin) / float(sender.srtt[at])


def _cycles_to_fall(sender: Sender) -> float | None:
    """Number of UP phases that end after the step, but no later than the time from which the bandwidth stays
    within 2 % of 10 Mb/s."""
    above = np.nonzero(sender.bandwidth > 1.02 * 10e6 * PAYLOAD_SHARE)[0]
    if not above.size or above[-1] + 1 >= sender.time.size:
        return math.inf
    reached = float(sender.time[above[-1] + 1])
    return float(sum(one.end_s <= reached for one in sender.of(UP) if one.end_s >= STEP_S))


def _final_estimate(sender: Sender) -> float | None:
    """Bandwidth at the end of the run, relative to 10 Mb/s."""
    return float(sender.bandwidth[-1]) / (10e6 * PAYLOAD_SHARE)


ROUNDS_TO_FULL = measure(
    "rounds-to-full", "number of rounds from the start of UP until 98 % of 100 Mb/s", _rounds_to_full
)
GROWTH_RATIO = measure("growth-ratio", "ratio of successive increments of the window", _long_term_growth)
ROUNDS_TO_FALL = measure(
    "rounds-to-fall",
    "number of round trips from the first retransmission until the bandwidth falls",
    _rounds_to_fall,
)
CYCLES_TO_FALL = measure(
    "cycles-to-fall", "number of times that UP ends until the bandwidth stays at 10 Mb/s", _cycles_to_fall
)
FINAL_ESTIMATE = measure("final-estimate", "bandwidth at the end, relative to 10 Mb/s", _final_estimate)


# Aggregated acknowledgements


def _startup_window(sender: Sender) -> float | None:
    """The largest window in Startup, in multiples of the model's bandwidth-delay product at the end of
    Startup."""
    phase = sender.first(STARTUP)
    if phase is None:
        return None
    return float(np.max(sender.cwnd[: phase.last + 1]) / sender.bdp[phase.last])


def _over_send_rate(sender: Sender) -> float | None:
    """The bandwidth at the end of Startup, relative to the largest pacing rate before the end of Startup."""
    phase = sender.first(STARTUP)
    if phase is None:
        return None
    return float(sender.bandwidth[phase.last + 1] / np.nanmax(sender.pacing[: phase.last + 1]))


def _startup_growth(sender: Sender) -> float | None:
    """Mean growth per round of the amount of data that is sent in a round, until the bandwidth reaches 90 %
    of the link rate."""
    phase = sender.first(STARTUP)
    if phase is None:
        return None
    ends = list(sender.rounds(float(sender.sent_at[0]), phase.end_s))
    goal = 0.9 * LINK_BPS * PAYLOAD_SHARE
    steps = next((at for at, end in enumerate(ends) if sender.bandwidth[sender.row(end)] >= goal), 0)
    counts = np.histogram(sender.sent_at, [0.0, *ends[: steps + 1]])[0] if steps else np.array([])
    # The first round contains the handshake and the initial window, which is not paced by the model.
    return float((counts[-1] / counts[1]) ** (1 / (counts.size - 2))) if counts.size > 2 else None


def _cruise_window(sender: Sender) -> float | None:
    """The mean window in CRUISE, in bandwidth-delay products."""
    return average(
        [
            float(np.mean(sender.cwnd[one.first : one.last + 1] / sender.bdp[one.first : one.last + 1]))
            for one in sender.of(CRUISE, SETTLED_S)
        ]
    )


def _cruise_rate(sender: Sender) -> float | None:
    """Payload that reaches the receiver during CRUISE, relative to the link's payload rate. The first three
    round trips of each CRUISE phase are omitted, because the window recovers from ProbeRTT during these round
    trips."""
    received, time = 0, 0.0
    for one in sender.of(CRUISE, SETTLED_S):
        begin = one.begin_s + 3 * RTT_S
        if one.end_s > begin:
            received += int(((sender.received_at >= begin) & (sender.received_at < one.end_s)).sum())
            time += one.end_s - begin
    return 8 * MSS * received / time / (LINK_BPS * PAYLOAD_SHARE) if time else None


def _longest_pause(sender: Sender) -> float | None:
    """The longest time between two packets that are sent in one CRUISE phase, in milliseconds."""
    gaps = [
        float(np.max(np.diff(sender.sent_at[inside])))
        for one in sender.of(CRUISE, SETTLED_S)
        if (inside := (sender.sent_at >= one.begin_s) & (sender.sent_at < one.end_s)).sum() > 1
    ]
    return 1000 * max(gaps) if gaps else None


STARTUP_WINDOW = measure("startup-window", "maximum window in Startup, in BDP", _startup_window)
OVER_SEND_RATE = measure(
    "over-send-rate", "bandwidth relative to the maximum pacing rate in Startup", _over_send_rate
)
STARTUP_GROWTH = measure("startup-growth", "growth of the data sent per round in Startup", _startup_growth)
CRUISE_WINDOW = measure("cruise-window", "mean window in CRUISE, in BDP", _cruise_window)
CRUISE_RATE = measure("cruise-rate", "rate in CRUISE, relative to the link's rate", _cruise_rate)
LONGEST_PAUSE = measure("longest-pause", "longest time between two packets in CRUISE", _longest_pause, "ms")

# A policer


def _second_half(sender: Sender) -> float:
    return sender.end_s / 2


def _policed_loss(sender: Sender) -> float | None:
    begin = _second_half(sender)
    sent = int((sender.sent_at >= begin).sum())
    return 100 * float((sender.dropped_at >= begin).sum()) / sent if sent else None


def _policed_rate(sender: Sender) -> float | None:
    """Payload that reaches the receiver in the second half of the run, relative to the payload rate that the
    token rate allows."""
    begin = _second_half(sender)
    received = int((sender.received_at >= begin).sum())
    return 8 * MSS * received / (sender.end_s - begin) / (TOKEN_BPS * PAYLOAD_SHARE)


def _policed_bandwidth(sender: Sender) -> float | None:
    """The median of the bandwidth in the second half of the run, relative to the token rate."""
    late = sender.bandwidth[sender.time >= _second_half(sender)]
    return float(np.median(late)) / (TOKEN_BPS * PAYLOAD_SHARE)


def _adapted(values: Callable[[Sender], Floats]) -> Callable[[Sender], float | None]:
    """The smallest value in the twenty round trips after the first drop, relative to the value at the
    drop."""

    def compute(sender: Sender) -> float | None:
        if not sender.dropped_at.size:
            return None
        begin = float(sender.dropped_at[0])
        first, last = sender.row(begin), sender.row(begin + 20 * RTT_S)
        series = values(sender)
        return float(np.nanmin(series[first : last + 1]) / series[first])

    return compute


POLICED_LOSS = measure("policed-loss", "dropped packets in the second half", _policed_loss, "%")
POLICED_RATE = measure("policed-rate", "rate in the second half, relative to the token rate", _policed_rate)
POLICED_BANDWIDTH = measure(
    "policed-bandwidth", "median bandwidth in the second half, relative to the token rate", _policed_bandwidth
)
BANDWIDTH_ADAPTS = measure(
    "bandwidth-adapts",
    "bandwidth after the first drops, relative to the bandwidth before",
    _adapted(lambda sender: sender.bandwidth),
)
WINDOW_ADAPTS = measure(
    "window-adapts",
    "window after the first drops, relative to the window before",
    _adapted(lambda sender: sender.cwnd),
)
