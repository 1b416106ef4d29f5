"""A sender as seen from outside: its packets, and the four values that implementations of BBR publish.

The values are the congestion window, the smoothed round-trip time, the pacing rate and the estimated
bandwidth. Simulated TCP has these values in the table `senders`, and guests report them. The state of the
sender is not visible, but each state has a pacing gain (draft-ietf-ccwg-bbr, section 5.6.1), which is the
pacing rate relative to 99 % of the bandwidth. A gain belongs to the state whose gain is nearest on a
logarithmic scale.

- `CRUISE` and `REFILL` have the same gain. Here, both states are `CRUISE`.
- `PROBE_RTT` is recognised by its window, which is half of the bandwidth-delay product or 4 packets. All
  other states have a window of at least one bandwidth-delay product, if no packets are lost.
- An implementation that publishes `max_bw` instead of `min(max_bw, bw_shortterm)` has a lower gain while
  `bw_shortterm` is lower than `max_bw`. `UP` is not affected, because `REFILL` resets `bw_shortterm`.

Acknowledgements of QUIC are encrypted. Therefore, a packet counts as acknowledged when the first packet of
the receiver arrives that can have been sent after the packet was received.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from aqmlab.measures import Measure, Run, View
from aqmlab.metrics import Floats
from aqmlab.studies.bbr_cases.measures.sender import (
    COMPUTED,
    CRUISE,
    DOWN,
    DRAIN,
    MARGIN,
    MSS,
    PROBE_RTT,
    STARTUP,
    UP,
    Phase,
    Sender,
    average,
)
from aqmlab.studies.bbr_cases.measures.states import SETTLED_S
from aqmlab.studies.bbr_cases.network import FLOW, LINK_BPS, PAYLOAD_SHARE, RTT_S, STEP_S, TOKEN_BPS
from aqmlab.studies.shared import rows_of

PREFIX = "bbr-cases.outside-"
"""The beginning of the names of all measures from outside."""

ERROR = 0.02
"""Maximum error of the bandwidth in the draft's case 1, which is also the tolerance of other values."""

GAINS = {STARTUP: 2.77, UP: 1.25, CRUISE: 1.0, DOWN: 0.9, DRAIN: 0.5}
"""The pacing gains of the states, in falling order (draft-ietf-ccwg-bbr, section 5.6.1)."""

PROBE_RTT_BDP = 0.51
"""Maximum window in ProbeRTT, in bandwidth-delay products, as in case 10: 0.5, rounded up to a packet."""

LEAST_WINDOW = 4
"""`MinPipeCwnd`, in packets."""

PACKET = 1500
"""Length of a full packet of simulated TCP, in bytes."""

HEADERS = {"tcp": 52, "quic": 28}
"""Bytes of a packet that BBR does not count: the headers of IPv4, and of TCP with timestamps or of UDP."""

VALUES = {"cwnd": "cwnd_bytes", "pacing": "pacing_rate_bps", "bandwidth": "bandwidth_bps", "srtt": "rtt_s"}
"""The values of a guest by the names of the reports."""


def state_of(gain: float) -> str:
    """The state whose pacing gain is nearest to a gain on a logarithmic scale. The sender begins in Startup
    without a bandwidth, so that NaN is Startup."""
    if math.isnan(gain):
        return STARTUP
    return min(GAINS, key=lambda state: abs(math.log(gain / GAINS[state])) if gain > 0 else GAINS[state])


class Outside(Sender):
    """The packets of a flow and the published values of its sender as arrays. The arrays have the same
    meaning as those of `Sender`, with the bytes of packets in the order of transmission as sequence numbers.

    A full packet of simulated TCP has 1448 bytes of payload and 1500 bytes on the link, and a full packet of
    QUIC has other lengths. Volumes and rates are scaled so that 1448 bytes mean 1500 bytes on the link.
    Therefore, the same limits apply to each sender."""

    def __init__(self, run: Run) -> None:
        guests = "reports" in run.tables and not rows_of(run, "reports", FLOW).is_empty()
        self.headers = HEADERS["quic" if guests else "tcp"]
        packets = run.tables["packets"].with_columns(pl.col("event").cast(pl.String))
        data = packets.filter(~pl.col("backward"), pl.col("size_bytes") > self.headers)
        sent = numbered(data.filter(pl.col("event").is_in(["send", "retransmit"])))
        fates = numbered(data.filter(pl.col("event").is_in(["receive", "drop"])))
        fates = fates.rename({"time_s": "fate_s", "event": "fate"}).drop("size_bytes")
        sent = sent.join(fates, on=["sequence_bytes", "number"], how="left", maintain_order="left")
        self.largest = max(sent["size_bytes"].to_list(), default=PACKET)
        """Length of a full packet, in bytes."""
        scale = PAYLOAD_SHARE * self.largest / (self.largest - self.headers)
        self.sent_at = sent["time_s"].to_numpy()
        self.sent_bytes = sent["size_bytes"].to_numpy()
        self.sent_payload = scale * (sent["size_bytes"].to_numpy() - self.headers)
        self.sent_end = np.cumsum(self.sent_payload)
        is_received = (sent["fate"] == "receive").fill_null(False).to_numpy()
        self.fate_at = sent["fate_s"].fill_null(math.nan).to_numpy()
        received_at = self.fate_at[is_received]
        self.delay = np.where(is_received, self.fate_at - self.sent_at, math.nan)
        """Time from the transmission to the arrival of each packet; NaN for packets that did not arrive."""
        order = np.argsort(received_at, kind="stable")
        self.received_at = received_at[order]
        self.received_bytes = sent["size_bytes"].to_numpy()[is_received][order]
        self.dropped_at = np.sort(self.fate_at[(sent["fate"] == "drop").fill_null(False).to_numpy()])
        feedback = packets.filter(pl.col("backward"), pl.col("event").is_in(["acknowledge", "receive"]))
        self.acked_at = feedback["time_s"].to_numpy()
        highest = np.concatenate([[0], np.maximum.accumulate(self.sent_end[is_received][order])])
        back = _return_delay(packets, guests=guests)
        self.acked = highest[np.searchsorted(self.received_at, self.acked_at - back + 1e-9, side="right")]
        answers = np.searchsorted(self.acked_at, self.fate_at + back - 1e-9)
        is_answered = is_received & (answers < self.acked_at.size)
        rtts = self.acked_at[answers[is_answered]] - self.sent_at[is_answered]
        self.base_rtt = float(rtts.min()) if rtts.size else math.nan
        """Minimum time from a packet to its acknowledgement."""
        late = is_received & (self.delay > 2 * self.base_rtt - back)
        self.retransmitted_at = self.sent_at[late] + self.base_rtt
        self.timeouts = 0
        table = _reported(run) if guests else _sampled(run)
        self.delivered = _delivered(run) if guests else None
        self.time = table["time_s"].to_numpy()
        self.window_packets = table["cwnd"].to_numpy() / (self.largest - self.headers if guests else 1)
        self.cwnd = table["cwnd"].to_numpy() * (scale / MSS if guests else 1)
        self.pacing = scale * table["pacing"].to_numpy()
        self.bandwidth = scale * table["bandwidth"].to_numpy()
        self.srtt = table["srtt"].to_numpy()
        self.min_rtt = np.full(self.time.size, self.base_rtt)
        self.end_s = float(self.sent_at[-1]) if self.sent_at.size else 0.0
        self.state = self._states()

    def passed(self, time_s: float) -> float:
        """Number of bytes that the application has passed to packets that were sent until a time, for a run
        without losses."""
        if self.delivered is None:
            return float(self.sent_payload[self.sent_at <= time_s].sum())
        at, received = self.delivered
        return float(received[at <= time_s + float(np.nanmin(self.delay))].sum())

    def received_bits(self, begin_s: float, end_s: float) -> float:
        """Number of bits on the link of the packets that arrive between two times."""
        inside = (self.received_at >= begin_s) & (self.received_at < end_s)
        return 8 * float(self.received_bytes[inside].sum())

    def _states(self) -> list[str]:
        states = [state_of(gain) for gain in self.gain.tolist()]
        low = self.cwnd <= np.maximum(PROBE_RTT_BDP * self.bdp, LEAST_WINDOW)
        return [PROBE_RTT if is_low else state for state, is_low in zip(states, low.tolist(), strict=True)]


def numbered(packets: pl.DataFrame) -> pl.DataFrame:
    """The packets with their number among the packets with the same sequence number. A packet has one fate,
    so that the transmissions of a segment and their fates have the same numbers."""
    columns = packets.select("time_s", "event", "sequence_bytes", "size_bytes")
    return columns.with_columns(number=pl.int_range(pl.len()).over("sequence_bytes"))


def _return_delay(packets: pl.DataFrame, *, guests: bool) -> float:
    """The minimum time between the arrival of data and the arrival of the acknowledgement at the sender. A
    datagram of QUIC has a number of its own, and an acknowledgement of TCP contains the sequence number after
    the last segment."""
    at, key = pl.col("time_s"), pl.col("sequence_bytes")
    back, arrive = pl.col("backward"), pl.col("event") == "receive"
    if guests:
        begins = packets.filter(back, pl.col("event") == "send").select(key, begin=at)
        ends = packets.filter(back, arrive).select(key, end=at)
    else:
        begins = packets.filter(~back, arrive).select(key + pl.col("payload_bytes"), begin=at)
        ends = packets.filter(back, pl.col("event") == "acknowledge").select(
            pl.col("ack_bytes").alias("sequence_bytes"), end=at
        )
    delays = begins.join(ends, on="sequence_bytes").select(delay=pl.col("end") - pl.col("begin"))
    delay = delays.filter(pl.col("delay") > 0)["delay"].min()
    return math.nan if delay is None else float(delay)  # type: ignore[arg-type]


def _sampled(run: Run) -> pl.DataFrame:
    """The values of a simulated sender after each acknowledgement."""
    names = {"cwnd": "cwnd_segments", "pacing": "pacing_rate_bps", "bandwidth": "bandwidth_bps"}
    return rows_of(run, "senders", FLOW).select(
        "time_s",
        *(
            pl.col(column).cast(pl.Float64).fill_null(math.nan).alias(name)
            for name, column in (names | {"srtt": "srtt_s"}).items()
        ),
    )


def _reported(run: Run) -> pl.DataFrame:
    """The values of a guest at each time at which a value changes."""
    reports = rows_of(run, "reports", FLOW).with_columns(pl.col("report").cast(pl.String))
    columns = [
        pl.col("value").filter(pl.col("report") == report).last().alias(name)
        for name, report in VALUES.items()
    ]
    rows = reports.filter(pl.col("report").is_in(list(VALUES.values())))
    found = rows.group_by("time_s", maintain_order=True).agg(columns)
    return found.with_columns(pl.col(name).forward_fill().fill_null(math.nan) for name in VALUES)


def _delivered(run: Run) -> tuple[Floats, Floats]:
    """The times at which a guest received data, and the numbers of bytes without headers."""
    reports = rows_of(run, "reports", FLOW).filter(pl.col("report").cast(pl.String) == "received_bytes")
    return reports["time_s"].to_numpy(), reports["value"].to_numpy()


def outside(measure: Measure) -> Measure:
    """The measure of a sender, computed from outside."""

    def of(view: View) -> float | None:
        return COMPUTED[measure.name](view.once(Outside))

    name = PREFIX + measure.name.removeprefix("bbr-cases.")
    return Measure(name=name, title=measure.title, unit=measure.unit, compute=of)


def _measure(name: str, title: str, compute: Callable[[Outside], float | None], unit: str = "") -> Measure:
    """A measure that only a sender that is seen from outside has."""

    def of(view: View) -> float | None:
        return compute(view.once(Outside))

    return Measure(name=PREFIX + name, title=title, unit=unit, compute=of)


# CRUISE without losses

STEP_OF_SERIES_S = 0.02
"""Time between the values of a series, half of a round trip."""


def _sent_rate(sender: Outside) -> list[float]:
    """The sending rate in Mb/s in consecutive intervals, including the headers."""
    edges = np.arange(0.0, sender.end_s, STEP_OF_SERIES_S)
    bits = np.histogram(sender.sent_at, edges, weights=8.0 * sender.sent_bytes)[0]
    return [float(one) for one in bits / STEP_OF_SERIES_S / 1e6]


def _queueing_delay(sender: Outside) -> list[float | None]:
    """The maximum queueing delay in milliseconds of the packets that are sent in consecutive intervals."""
    steps = (sender.sent_at / STEP_OF_SERIES_S).astype(int)
    queued = 1e3 * (sender.delay - np.nanmin(sender.delay))
    rows = pl.DataFrame({"step": steps, "queued": queued}).filter(pl.col("queued").is_not_nan())
    most = dict(rows.group_by("step").agg(pl.col("queued").max()).iter_rows())
    return [most.get(step) for step in range(int(steps.max()) + 1)] if steps.size else []


def _series(name: str, title: str, compute: Callable[[Outside], list[Any]]) -> Measure:
    def of(view: View) -> list[Any]:
        return compute(view.once(Outside))

    return Measure(name=PREFIX + name, title=title, unit="", compute=of)


SENT_RATE = _series("sent-rate", "sending rate over time", _sent_rate)
DELAY = _series("delay", "queueing delay over time", _queueing_delay)


def _steady_rate(sender: Outside) -> float | None:
    """Bytes that arrive in CRUISE, relative to the link's rate. The first three round trips of each phase are
    omitted, as in case 13."""
    volume, time = 0.0, 0.0
    for one in sender.of(CRUISE):
        begin = one.begin_s + 3 * RTT_S
        if one.end_s > begin:
            volume += sender.received_bits(begin, one.end_s)
            time += one.end_s - begin
    return volume / time / LINK_BPS if time else None


STEADY_RATE = _measure("cruise-rate", "received rate in CRUISE, relative to the link's rate", _steady_rate)


def _kept_bandwidth(sender: Outside) -> float | None:
    """The bandwidth at the end of a CRUISE phase, relative to its beginning."""
    return average(
        [float(sender.bandwidth[one.last] / sender.bandwidth[one.first]) for one in sender.of(CRUISE)]
    )


KEPT_BANDWIDTH = _measure(
    "kept-bandwidth", "bandwidth at the end of CRUISE, relative to its beginning", _kept_bandwidth
)


# DOWN without CRUISE


def _rest_after_down(sender: Outside) -> float | None:
    """Time between the first DOWN phase after an UP phase and the next UP phase, in round trips. REFILL lasts
    one round, whose duration depends on the queue."""
    down = next((one for one in sender.of(DOWN, SETTLED_S)), None)
    if down is None:
        return None
    up = sender.first(UP, down.end_s)
    return math.inf if up is None else (up.begin_s - down.end_s) / float(sender.srtt[sender.row(down.end_s)])


REST_AFTER_DOWN = _measure(
    "rest-after-down", "time from the end of DOWN to UP, in round trips", _rest_after_down
)


# A slow link


def _least_packets(sender: Outside) -> float | None:
    """The smallest window from the first UP phase, in full packets."""
    phase = sender.first(UP)
    return None if phase is None else float(np.min(sender.window_packets[phase.first :]))


LEAST_PACKETS = _measure("least-window", "minimum window in ProbeBW and ProbeRTT", _least_packets, "packets")


# A fall of the link's rate


def _rounds_to_slow_down(sender: Outside) -> float | None:
    """Time from the detection of the first loss after the step until the pacing rate is at most 0.75 times
    the rate of the link before the step, divided by the smoothed round-trip time at the detection."""
    lost = np.nonzero((sender.fate_at >= STEP_S) & ~np.isfinite(sender.delay))[0]
    if not lost.size:
        return math.inf
    after = np.nonzero(sender.acked > sender.sent_end[lost[0]])[0]
    if not after.size:
        return math.inf
    begin = float(sender.acked_at[after[0]])
    at = sender.row(begin)
    slow = np.nonzero(sender.pacing[at:] <= 0.75 * MARGIN * 100e6 * PAYLOAD_SHARE)[0]
    return float(sender.time[at + slow[0]] - begin) / float(sender.srtt[at]) if slow.size else math.inf


ROUNDS_TO_SLOW_DOWN = _measure(
    "rounds-to-slow-down",
    "number of round trips from the first detected loss until the pacing rate falls",
    _rounds_to_slow_down,
)


# A policer


def _token_rate(sender: Outside) -> float | None:
    """Bytes that arrive in the second half of the run, relative to the token rate."""
    begin = sender.end_s / 2
    return sender.received_bits(begin, sender.end_s) / (sender.end_s - begin) / TOKEN_BPS


TOKEN_RATE = _measure(
    "token-rate", "received rate in the second half, relative to the token rate", _token_rate
)


# Spurious losses and timeouts


def _pacing_restored(sender: Outside) -> float | None:
    return COMPUTED["bbr-cases.window-restored"](_with(sender, cwnd=sender.pacing))


def _pacing_after_timeout(sender: Outside) -> float | None:
    return COMPUTED["bbr-cases.rto-window"](_with(sender, cwnd=sender.pacing))


def _with(sender: Outside, *, cwnd: Floats) -> Outside:
    """The sender with another series in place of the window."""
    other = copy.copy(sender)
    other.cwnd = cwnd
    return other


PACING_RESTORED = _measure(
    "pacing-restored", "pacing rate after the undo, relative to the pacing rate before", _pacing_restored
)
RTO_PACING = _measure(
    "rto-pacing", "fraction of the pacing rate that is restored after the timeout", _pacing_after_timeout
)


# A pause before UP


def pauses(sender: Outside) -> list[tuple[float, float]]:
    """The beginnings and ends of pauses of the sender of at least half a round trip that begin in CRUISE or
    REFILL."""
    long = np.nonzero(np.diff(sender.sent_at) >= RTT_S / 2)[0]
    spans = zip(sender.sent_at[long].tolist(), sender.sent_at[long + 1].tolist(), strict=True)
    return [
        (begin, end)
        for begin, end in spans
        if begin > SETTLED_S and sender.state[sender.row(begin)] == CRUISE
    ]


def _pause_bandwidth(sender: Outside) -> float | None:
    """The bandwidth two round trips after the first pause, relative to the bandwidth before the pause."""
    found = pauses(sender)[:1]
    return average(
        [
            float(sender.bandwidth[sender.row(end + 2 * RTT_S)] / sender.bandwidth[sender.row(begin)])
            for begin, end in found
        ]
    )


def _up_after_pause(sender: Outside) -> Phase | None:
    """The first UP phase of at least half a round trip after the beginning of the first pause. A sender that
    restarts from idle has a gain of 1 until the next acknowledgement (section 5.4.1), which interrupts UP."""
    found = pauses(sender)[:1]
    phases = sender.of(UP, found[0][0]) if found else []
    return next((one for one in phases if one.duration_s >= RTT_S / 2), None)


def _pause_to_up(sender: Outside) -> float | None:
    """Time from the beginning of the first pause to UP, in round trips."""
    if not (found := pauses(sender)[:1]):
        return None
    up = _up_after_pause(sender)
    return math.inf if up is None else (up.begin_s - found[0][0]) / RTT_S


def _pause_then_down(sender: Outside) -> float | None:
    """Whether DOWN follows the UP phase after the first pause."""
    up = _up_after_pause(sender)
    return None if up is None else float(sender.next(up) == DOWN)


PAUSES = _measure("pauses", "number of pauses in CRUISE or REFILL", lambda sender: float(len(pauses(sender))))
PAUSE_BANDWIDTH = _measure(
    "pause-bandwidth", "bandwidth after the pause, relative to the bandwidth before", _pause_bandwidth
)
PAUSE_TO_UP = _measure(
    "pause-to-up", "time from the beginning of the pause to UP, in round trips", _pause_to_up
)
PAUSE_THEN_DOWN = _measure(
    "pause-then-down", "fraction of the UP phases after the pause that are followed by DOWN", _pause_then_down
)
