"""Measures of the test cases: what the tables `senders` and `packets` show of the sender's model.

The tables contain the state, the window, the pacing rate, the estimated bandwidth `min(max_bw,
bw_shortterm)` and the minimum round trip after each acknowledgement. The gain is the pacing rate relative
to 99 % of the bandwidth (the draft's `PacingMargin` is 1 %). Rounds are the draft's packet-timed rounds: a
round ends when data that was sent after its beginning is acknowledged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from aqmlab.measures import Measure, Run, View
from aqmlab.metrics import Floats
from aqmlab.studies.bbr_cases.network import FLOW, LINK_BPS, PAYLOAD_SHARE, RTT_S, STEP_S, TOKEN_BPS
from aqmlab.studies.shared import mean, rows_of

MSS = 1448
MARGIN = 0.99
STARTUP, DRAIN, PROBE_RTT = "STARTUP", "DRAIN", "PROBE_RTT"
UP, DOWN, CRUISE, REFILL = (f"PROBE_BW_{phase}" for phase in ("UP", "DOWN", "CRUISE", "REFILL"))


@dataclass(frozen=True)
class Phase:
    """An interval in which the state does not change: the rows `first` to `last` of the sender's table, and
    the time of the first row and of the first row of the next state."""

    state: str
    first: int
    last: int
    begin_s: float
    end_s: float
    is_complete: bool
    """Whether the state ends within the run."""

    @property
    def duration_s(self) -> float:
        return self.end_s - self.begin_s


class Sender:
    """The table of the sender and the packets of its flow as arrays."""

    def __init__(self, run: Run) -> None:
        samples = rows_of(run, "senders", FLOW).with_columns(pl.col("state").cast(pl.String))
        self.time = samples["time_s"].to_numpy()
        self.state: list[str] = samples["state"].to_list()

        def column(name: str) -> Floats:
            return samples[name].cast(pl.Float64).fill_null(math.nan).to_numpy()

        self.cwnd = column("cwnd_segments")
        self.pacing = column("pacing_rate_bps")
        self.bandwidth = column("bandwidth_bps")
        self.min_rtt = column("min_rtt_s")
        self.srtt = column("srtt_s")
        self.timeouts = int(run.tables["flows"].filter(pl.col("traffic") == FLOW)["timeouts"].sum())
        packets = run.tables["packets"].with_columns(pl.col("event").cast(pl.String))
        data = ~pl.col("backward")
        payload = pl.col("payload_bytes") > 0
        sent = packets.filter(data, payload, pl.col("event").is_in(["send", "retransmit"]))
        self.sent_at = sent["time_s"].to_numpy()
        self.sent_payload = sent["payload_bytes"].to_numpy()
        self.sent_end = np.maximum.accumulate((sent["sequence_bytes"] + sent["payload_bytes"]).to_numpy())
        self.retransmitted_at = sent.filter(pl.col("event") == "retransmit")["time_s"].to_numpy()
        acks = packets.filter(data, pl.col("event") == "acknowledge")
        if acks.is_empty():
            acks = packets.filter(pl.col("event") == "acknowledge")
        self.acked_at = acks["time_s"].to_numpy()
        self.acked = np.maximum.accumulate(acks["sequence_bytes"].to_numpy())
        self.dropped_at = packets.filter(data, payload, pl.col("event") == "drop")["time_s"].to_numpy()
        self.received_at = packets.filter(data, payload, pl.col("event") == "receive")["time_s"].to_numpy()
        self.end_s = float(self.time[-1]) if self.time.size else 0.0

    @cached_property
    def phases(self) -> list[Phase]:
        """All phases in order."""
        changes = [at for at in range(1, len(self.state)) if self.state[at] != self.state[at - 1]]
        bounds = [0, *changes, len(self.state)]
        return [
            Phase(
                state=self.state[first],
                first=first,
                last=after - 1,
                begin_s=float(self.time[first]),
                end_s=float(self.time[min(after, len(self.state) - 1)]),
                is_complete=after < len(self.state),
            )
            for first, after in itertools.pairwise(bounds)
            if after > first
        ]

    def of(self, state: str, after_s: float = 0.0) -> list[Phase]:
        """The complete phases of a state that begin at or after a time."""
        return [
            one for one in self.phases if one.state == state and one.is_complete and one.begin_s >= after_s
        ]

    def ended(self, state: str, after_s: float = 0.0) -> list[Phase]:
        """The phases of `of` that ProbeRTT, which can follow any state, does not interrupt."""
        return [one for one in self.of(state, after_s) if self.next(one) != PROBE_RTT]

    def next(self, phase: Phase) -> str:
        """The state that follows a complete phase."""
        return self.state[phase.last + 1]

    @cached_property
    def gain(self) -> Floats:
        """The pacing gain."""
        return self.pacing / (MARGIN * self.bandwidth)

    @cached_property
    def bdp(self) -> Floats:
        """The estimated bandwidth-delay product, in segments."""
        return self.bandwidth * self.min_rtt / (8 * MSS)

    def inflight(self, time_s: float) -> float:
        """Segments sent but not acknowledged just after an acknowledgement, before the next packet is sent.
        This is exact if no packet is lost or reordered."""
        sent = int(np.searchsorted(self.sent_at, time_s, side="left"))
        acked = int(np.searchsorted(self.acked_at, time_s, side="right"))
        return float((self.sent_end[sent - 1] if sent else 0) - (self.acked[acked - 1] if acked else 0)) / MSS

    def rounds(self, begin_s: float, end_s: float) -> Iterator[float]:
        """The ends of the rounds from `begin_s` up to `end_s`, included."""
        while True:
            sent = int(np.searchsorted(self.sent_at, begin_s, side="right"))
            mark = self.sent_end[sent - 1] if sent else 0
            at = int(np.searchsorted(self.acked, mark, side="right"))
            if at >= self.acked.size or self.acked_at[at] > end_s + 1e-9:
                return
            begin_s = float(max(self.acked_at[at], begin_s + 1e-6))
            yield begin_s

    def row(self, time_s: float) -> int:
        """The last row of the sender's table up to a time."""
        return max(int(np.searchsorted(self.time, time_s + 1e-9, side="right")) - 1, 0)


def measure(name: str, title: str, compute: Callable[[Sender], float | None], unit: str = "") -> Measure:
    """A measure of the sender."""

    def of(view: View) -> float | None:
        return compute(view.once(Sender))

    return Measure(name=f"bbr-cases.{name}", title=title, unit=unit, compute=of)


def share(flags: list[bool]) -> float | None:
    """The share of true values; `None` without values."""
    return sum(flags) / len(flags) if flags else None


def _first(phases: list[Phase]) -> Phase | None:
    return phases[0] if phases else None


def _average(values: list[float]) -> float | None:
    return mean(np.array(values)) if values else None


# Startup and Drain


def _estimate(sender: Sender) -> float | None:
    """Bandwidth at the end of Startup, relative to the link's rate for payload."""
    phase = _first(sender.of(STARTUP))
    return None if phase is None else float(sender.bandwidth[phase.last + 1]) / (LINK_BPS * PAYLOAD_SHARE)


def plateau_rounds(bandwidths: list[float]) -> int:
    """Rounds after the last round in which the bandwidth grew by at least 25 %."""
    full, count = 0.0, 0
    for bandwidth in bandwidths:
        if bandwidth >= 1.25 * full:
            full, count = bandwidth, 0
        else:
            count += 1
    return count


def _startup_plateau(sender: Sender) -> float | None:
    phase = _first(sender.of(STARTUP))
    if phase is None:
        return None
    ends = sender.rounds(float(sender.sent_at[0]), phase.end_s)
    return float(plateau_rounds([float(sender.bandwidth[sender.row(at)]) for at in ends]))


def _up_plateau(sender: Sender) -> float | None:
    """Mean number of complete rounds in UP."""
    return _average(
        [float(sum(1 for _ in sender.rounds(one.begin_s, one.end_s))) for one in sender.ended(UP)]
    )


def followed_by(state: str, *expected: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The share of complete phases of a state that one of the expected states follows. A phase that ProbeRTT
    interrupts is left out, because ProbeRTT can follow any state, unless ProbeRTT is expected."""

    def compute(sender: Sender) -> float | None:
        following = [sender.next(one) for one in sender.of(state, after_s)]
        return share([one in expected for one in following if one != PROBE_RTT or PROBE_RTT in expected])

    return compute


def gain_in(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean of the median pacing gains of a state's phases."""
    return lambda sender: _average(
        [float(np.nanmedian(sender.gain[one.first : one.last + 1])) for one in sender.of(state, after_s)]
    )


def inflight_at_end(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean of the data in flight when a state ends, relative to the estimated bandwidth-delay product."""

    def compute(sender: Sender) -> float | None:
        found = []
        for one in sender.ended(state, after_s):
            bdp = sender.bdp[one.last + 1]
            found.append(sender.inflight(one.end_s) / float(bdp))
        return _average(found)

    return compute


def inflight_before_end(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean of the data in flight at the last acknowledgement before the one that ends a state, relative
    to the estimated bandwidth-delay product."""
    return lambda sender: _average(
        [
            sender.inflight(float(sender.time[one.last])) / float(sender.bdp[one.last])
            for one in sender.ended(state, after_s)
        ]
    )


def rounds_in(state: str, after_s: float = 0.0) -> Callable[[Sender], float | None]:
    """The mean number of rounds that end in a state."""
    return lambda sender: _average(
        [float(sum(1 for _ in sender.rounds(one.begin_s, one.end_s))) for one in sender.ended(state, after_s)]
    )


ESTIMATE = measure("estimate", "bandwidth at the end of Startup, relative to the link's rate", _estimate)
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
UP_ROUNDS = measure("up-rounds", "number of rounds in UP", _up_plateau)
UP_TO_DOWN = measure("up-to-down", "fraction of UP phases followed by DOWN", followed_by(UP, DOWN))
UP_GAIN = measure("up-gain", "pacing gain in UP", gain_in(UP))
LOSSES = measure("losses", "dropped packets", lambda sender: float(sender.dropped_at.size))

# The first second contains Drain, after which DOWN ends at once.
SETTLED_S = 1.0
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

# ProbeRTT


def _probe_rtt_window(sender: Sender) -> float | None:
    return _average(
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
    return _average(found)


def _probe_rtt_duration(sender: Sender) -> float | None:
    return _average([one.duration_s for one in sender.of(PROBE_RTT)])


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


def _startup_probe_rtts(sender: Sender) -> float | None:
    phases = sender.phases
    pairs = itertools.pairwise(phases)
    return float(any(one.state == STARTUP and after.state == PROBE_RTT for one, after in pairs))


def _back_to_startup(sender: Sender) -> float | None:
    """The share of ProbeRTTs that begin in Startup and end in Startup."""
    phases = sender.phases
    triples = zip(phases, phases[1:], phases[2:], strict=False)
    return share(
        [
            after.state == STARTUP
            for before, one, after in triples
            if before.state == STARTUP and one.state == PROBE_RTT
        ]
    )


STARTUP_PROBE_RTTS = measure(
    "startup-probe-rtts", "fraction of runs with a ProbeRTT phase in Startup", _startup_probe_rtts
)
BACK_TO_STARTUP = measure(
    "back-to-startup", "fraction of these ProbeRTT phases followed by Startup", _back_to_startup
)

# A path that holds less than a packet


def _settled(sender: Sender) -> int:
    """The first row in ProbeBW."""
    return next((at for at, state in enumerate(sender.state) if state.startswith("PROBE_BW")), 0)


def _least_window(sender: Sender) -> float | None:
    return float(np.min(sender.cwnd[_settled(sender) :]))


def _slow_pacing(sender: Sender) -> float | None:
    """Pacing rate in CRUISE relative to the rate of the slow link for payload."""
    found = [float(np.median(sender.pacing[one.first : one.last + 1])) for one in sender.of(CRUISE)]
    average = _average(found)
    return None if average is None else average / (SLOW_BPS * PAYLOAD_SHARE)


SLOW_BPS = 64e3
LEAST_WINDOW = measure("least-window", "minimum window in ProbeBW and ProbeRTT", _least_window, "packets")
SLOW_PACING = measure("slow-pacing", "pacing rate in CRUISE, relative to the link's rate", _slow_pacing)

# Steps of the rate


def _up_after_step(sender: Sender) -> Phase | None:
    return _first(sender.of(UP, STEP_S))


def _rounds_to_full(sender: Sender) -> float | None:
    """Rounds from the first UP after the step until the bandwidth is within 2 % of 100 Mb/s."""
    phase = _up_after_step(sender)
    if phase is None:
        return None
    for number, end in enumerate(sender.rounds(phase.begin_s, sender.end_s), 1):
        if sender.bandwidth[sender.row(end)] >= 0.98 * 100e6 * PAYLOAD_SHARE:
            return float(number)
    return math.inf


def growth_ratio(windows: list[float]) -> float | None:
    """The median ratio of successive increments of a window, from the first increment of a segment up to
    the first increment that is smaller than the one before, because then the window is no longer at its
    limit."""
    steps = [after - before for before, after in itertools.pairwise(windows)]
    steps = steps[next((at for at, step in enumerate(steps) if step >= 1), len(steps)) :]
    end = next((at for at in range(1, len(steps)) if steps[at] < steps[at - 1]), len(steps))
    ratios = [after / before for before, after in itertools.pairwise(steps[:end])]
    return float(np.median(ratios)) if ratios else None


def _long_term_growth(sender: Sender) -> float | None:
    """The growth ratio of the window in the UP in which the bandwidth reaches more than half of 100 Mb/s."""
    for one in (phase for phase in sender.phases if phase.state == UP and phase.end_s >= STEP_S):
        if sender.bandwidth[one.last] >= 50e6:
            ends = [one.begin_s, *sender.rounds(one.begin_s, one.end_s)]
            return growth_ratio([float(sender.cwnd[sender.row(at)]) for at in ends])
    return None


def _rounds_to_fall(sender: Sender) -> float | None:
    """Time from the first retransmission after the step until the bandwidth is at most 0.75 of that before,
    in round trips of the first time. Cumulative acknowledgements, which count rounds, stop during the
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
    """Ends of UP after the step up to the first time from which the bandwidth stays within 2 % of 10 Mb/s."""
    above = np.nonzero(sender.bandwidth > 1.02 * 10e6 * PAYLOAD_SHARE)[0]
    if not above.size or above[-1] + 1 >= sender.time.size:
        return math.inf
    reached = float(sender.time[above[-1] + 1])
    return float(sum(one.end_s <= reached for one in sender.of(UP) if one.end_s >= STEP_S))


def _final_estimate(sender: Sender) -> float | None:
    """Bandwidth at the end, relative to 10 Mb/s."""
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

# An application that limits the rate


def _leaves_startup(sender: Sender) -> float:
    return float(bool(sender.of(STARTUP)))


def _stays_in_startup(sender: Sender) -> float:
    return float(set(sender.state) <= {STARTUP, PROBE_RTT})


def _startup_bandwidth(sender: Sender) -> float | None:
    phase = _first(sender.of(STARTUP))
    return None if phase is None else float(sender.bandwidth[phase.last + 1]) / (LINK_BPS * PAYLOAD_SHARE)


def _largest_bandwidth(sender: Sender) -> float | None:
    return float(np.nanmax(sender.bandwidth)) / (LINK_BPS * PAYLOAD_SHARE)


def _up_lasts(sender: Sender) -> float | None:
    """Mean duration of UP, in round trips without queue."""
    average = _average([one.duration_s for one in sender.of(UP)])
    return None if average is None else average / RTT_S


LEAVES_STARTUP = measure("leaves-startup", "fraction of runs that leave Startup", _leaves_startup)
STAYS_IN_STARTUP = measure(
    "stays-in-startup", "fraction of runs that leave Startup only for ProbeRTT", _stays_in_startup
)
STARTUP_BANDWIDTH = measure(
    "startup-bandwidth", "bandwidth when Startup ends, relative to the link's rate", _startup_bandwidth
)
UP_LASTS = measure("up-lasts", "duration of UP, in round trips", _up_lasts)
UP_TO_DOWN_OR_CRUISE = measure(
    "up-to-down-or-cruise", "fraction of UP phases followed by DOWN or CRUISE", followed_by(UP, DOWN, CRUISE)
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
    return _average([float(sender.gain[at]) for at in rows])


IDLE_PAUSES = measure(
    "idle-pauses", "number of pauses of more than 5 s", lambda sender: float(len(_idle_ends(sender)))
)
NO_PROBE_RTT = measure(
    "no-probe-rtt", "fraction of pauses not followed by ProbeRTT", _no_probe_rtt_after_idle
)
RESTART_GAIN = measure("restart-gain", "pacing gain after a pause", _restart_gain)

# Aggregation


def _startup_window(sender: Sender) -> float | None:
    """The largest window in Startup, in bandwidth-delay products of the model at its end."""
    phase = _first(sender.of(STARTUP))
    if phase is None:
        return None
    return float(np.max(sender.cwnd[: phase.last + 1]) / sender.bdp[phase.last])


def _over_send_rate(sender: Sender) -> float | None:
    """The bandwidth at the end of Startup, relative to the largest pacing rate before it."""
    phase = _first(sender.of(STARTUP))
    if phase is None:
        return None
    return float(sender.bandwidth[phase.last + 1] / np.nanmax(sender.pacing[: phase.last + 1]))


def _startup_growth(sender: Sender) -> float | None:
    """Mean growth per round of the data sent in a round, until the bandwidth is 90 % of the link's."""
    phase = _first(sender.of(STARTUP))
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
    return _average(
        [
            float(np.mean(sender.cwnd[one.first : one.last + 1] / sender.bdp[one.first : one.last + 1]))
            for one in sender.of(CRUISE, SETTLED_S)
        ]
    )


def _cruise_rate(sender: Sender) -> float | None:
    """Payload that arrives during CRUISE, relative to the link's rate. The first two round trips of a
    CRUISE are left out, because the window recovers from ProbeRTT."""
    received, time = 0, 0.0
    for one in sender.of(CRUISE, SETTLED_S):
        begin = one.begin_s + 3 * RTT_S
        if one.end_s > begin:
            received += int(((sender.received_at >= begin) & (sender.received_at < one.end_s)).sum())
            time += one.end_s - begin
    return 8 * MSS * received / time / (LINK_BPS * PAYLOAD_SHARE) if time else None


def _longest_pause(sender: Sender) -> float | None:
    """The longest time between two packets that are sent in one CRUISE, in milliseconds."""
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
    """Payload that arrives in the second half, relative to the token rate."""
    begin = _second_half(sender)
    received = int((sender.received_at >= begin).sum())
    return 8 * MSS * received / (sender.end_s - begin) / (TOKEN_BPS * PAYLOAD_SHARE)


def _policed_bandwidth(sender: Sender) -> float | None:
    """The median of the bandwidth in the second half, relative to the token rate."""
    late = sender.bandwidth[sender.time >= _second_half(sender)]
    return float(np.median(late)) / (TOKEN_BPS * PAYLOAD_SHARE)


def _adapted(values: Callable[[Sender], Floats]) -> Callable[[Sender], float | None]:
    """The least value in the twenty round trips after the first drop, relative to the value at the drop."""

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

# Losses in UP with inflight_longterm


def _after_loss(sender: Sender) -> float | None:
    """The window at the first acknowledgement in DOWN, relative to 0.7 of the smaller of window and
    bandwidth-delay product at the last acknowledgement in UP."""
    found = []
    for one in sender.of(UP):
        if sender.next(one) == DOWN and one.last > one.first:
            target = min(float(sender.bdp[one.last]), float(sender.cwnd[one.last]))
            found.append(float(sender.cwnd[one.last + 1]) / (0.7 * target))
    return _average(found)


AFTER_LOSS = measure("after-loss", "window after UP, relative to 0.7 of min(BDP, cwnd)", _after_loss)

# Loss detection by mistake

SETTLE_S = 0.15
"""Time after a spurious retransmission in which its undo must be complete: more than three round trips."""


AFTER_CRUISE = (REFILL, UP)
"""States that can follow CRUISE within `SETTLE_S` without a loss."""


def _isolated(sender: Sender) -> list[float]:
    """Retransmissions in CRUISE without another one, and without ProbeRTT, within `SETTLE_S`."""
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
        return _average(
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
TIMEOUTS = measure("timeouts", "timeouts", lambda sender: float(sender.timeouts))


def _around_timeout(sender: Sender) -> tuple[int, int] | None:
    """The rows before the silence of the delay spike, and three round trips after the silence."""
    gaps = np.diff(sender.acked_at)
    at = int(np.argmax(gaps)) if gaps.size else 0
    if not gaps.size or gaps[at] < 0.25:
        return None
    return sender.row(float(sender.acked_at[at])), sender.row(float(sender.acked_at[at + 1]) + 3 * RTT_S)


def _across_timeout(values: Callable[[Sender], Floats]) -> Callable[[Sender], float | None]:
    """The restored part of a value, at most 1."""

    def compute(sender: Sender) -> float | None:
        rows = _around_timeout(sender)
        return None if rows is None else min(float(values(sender)[rows[1]] / values(sender)[rows[0]]), 1.0)

    return compute


def _same_after_timeout(sender: Sender) -> float | None:
    rows = _around_timeout(sender)
    return None if rows is None else float(sender.state[rows[0]] == sender.state[rows[1]])


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

# An application that pauses in REFILL


def _limited_refills(sender: Sender) -> list[Phase]:
    """REFILLs in which the sender sends nothing for at least half a round trip."""
    found = []
    for one in sender.of(REFILL):
        inside = sender.sent_at[(sender.sent_at >= one.begin_s) & (sender.sent_at <= one.end_s)]
        gaps = np.diff(np.array([one.begin_s, *inside, one.end_s]))
        if gaps.max() >= RTT_S / 2:
            found.append(one)
    return found


def _refill_bandwidth(sender: Sender) -> float | None:
    return _average(
        [
            float(sender.bandwidth[one.last + 1] / sender.bandwidth[one.first])
            for one in _limited_refills(sender)
        ]
    )


def _refill_to_up(sender: Sender) -> float | None:
    return share([sender.next(one) == UP for one in _limited_refills(sender)])


def _refill_then_down(sender: Sender) -> float | None:
    """The share of UPs after these REFILLs that end in DOWN."""
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


def _slow_down(sender: Sender) -> Phase | None:
    """The first DOWN after the first UP; `None` if ProbeRTT interrupts DOWN."""
    phase = _first(sender.of(DOWN, SETTLED_S))
    return None if phase is None or sender.next(phase) == PROBE_RTT else phase


def _down_to_refill(sender: Sender) -> float | None:
    phase = _slow_down(sender)
    return None if phase is None else float(sender.next(phase) == REFILL)


def _down_duration(sender: Sender) -> float | None:
    phase = _slow_down(sender)
    return None if phase is None else phase.duration_s


DOWN_TO_REFILL = measure("down-to-refill", "fraction of runs in which REFILL follows DOWN", _down_to_refill)
DOWN_DURATION = measure("down-duration", "duration of DOWN", _down_duration, "s")
