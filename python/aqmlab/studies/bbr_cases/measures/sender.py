"""The sender's model, from the tables `senders` and `packets`, and the functions that all measures use.

The tables contain the state, the window, the pacing rate, the estimated bandwidth `min(max_bw, bw_shortterm)`
and the minimum round-trip time after each acknowledgement. The gain is the pacing rate relative to 99 % of
the bandwidth (the draft's `PacingMargin` is 1 %). Rounds are the draft's packet-timed rounds: a round ends
when data that was sent after its beginning is acknowledged.
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
from aqmlab.studies.bbr_cases.network import FLOW
from aqmlab.studies.shared import mean, rows_of

MSS = 1448
"""Payload of a full segment, in bytes."""
MARGIN = 0.99
"""Pacing rate at a gain of 1, relative to the bandwidth."""
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

    def first(self, state: str, after_s: float = 0.0) -> Phase | None:
        """The first of the phases that `of` returns, or `None` if there is no phase."""
        return next(iter(self.of(state, after_s)), None)

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
        """Number of segments that have been sent but not acknowledged, just after an acknowledgement and
        before the next packet is sent. This number is exact if no packet is lost or reordered."""
        sent = int(np.searchsorted(self.sent_at, time_s, side="left"))
        acked = int(np.searchsorted(self.acked_at, time_s, side="right"))
        return float((self.sent_end[sent - 1] if sent else 0) - (self.acked[acked - 1] if acked else 0)) / MSS

    def rounds(self, begin_s: float, end_s: float) -> Iterator[float]:
        """The ends of the rounds from `begin_s` to `end_s`, inclusive. A round ends when data is acknowledged
        that was sent at or after the beginning of the round."""
        while True:
            sent = int(np.searchsorted(self.sent_at, begin_s, side="left"))
            mark = self.sent_end[sent - 1] if sent else 0
            at = int(np.searchsorted(self.acked, mark, side="right"))
            if at >= self.acked.size or self.acked_at[at] > end_s + 1e-9:
                return
            begin_s = float(max(self.acked_at[at], begin_s + 1e-6))
            yield begin_s

    def row(self, time_s: float) -> int:
        """The last row of the sender's table up to a time."""
        return max(int(np.searchsorted(self.time, time_s + 1e-9, side="right")) - 1, 0)


COMPUTED: dict[str, Callable[[Sender], float | None]] = {}
"""The functions of all measures by the names of the measures, for senders that are seen from outside."""


def measure(name: str, title: str, compute: Callable[[Sender], float | None], unit: str = "") -> Measure:
    """A measure of the sender."""

    def of(view: View) -> float | None:
        return compute(view.once(Sender))

    made = Measure(name=f"bbr-cases.{name}", title=title, unit=unit, compute=of)
    COMPUTED[made.name] = compute
    return made


def share(flags: list[bool]) -> float | None:
    """The share of true values, or `None` if there are no values."""
    return sum(flags) / len(flags) if flags else None


def average(values: list[float]) -> float | None:
    """The mean of the values, or `None` if there are no values."""
    return mean(np.array(values)) if values else None
