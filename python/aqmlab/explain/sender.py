"""The sender's reactions to losses and marks, found in the tables `senders` and `packets`.

The table `senders` has a row after each acknowledgement and each timer of the sender. A row at a time at which no
acknowledgement arrived results from a timer. The retransmission timer doubles the time-out; a tail loss probe (RFC
8985, section 7) leaves the time-out unchanged and follows a silence of at least a round trip.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from aqmlab.explain.losses import Loss, Repair
from aqmlab.explain.packets import ECE, Direction, Row

if TYPE_CHECKING:
    import polars as pl

DOUBLED = 1.5
"""Ratio of time-outs above which the retransmission timer has backed off. The factor is 2 (RFC 6298, section 5.5), and
the limit lies below 2 because the time-out has a maximum."""


@dataclass(frozen=True, kw_only=True)
class Reaction:
    """A reaction of the sender."""

    time_s: float
    kind: Literal["fast retransmit", "time-out", "probe", "mark"]
    window_before: float
    """Congestion window before the reaction, in segments."""
    window_after: float
    """Congestion window after the reaction, in segments."""
    threshold: float
    """Slow-start threshold after the reaction, in segments."""
    waited_s: float | None = None
    """For a time-out, the duration of the timer; for a probe, the time since the last packet or acknowledgement."""
    next_wait_s: float | None = None
    """For a time-out, the duration of the next time-out."""
    dupacks: int | None = None
    """For a fast retransmit, number of duplicate acknowledgements."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the reaction for JSON."""
        return asdict(self)


def reactions(senders: pl.DataFrame, rows: list[Row], forward: Direction) -> list[Reaction]:
    """Returns the reactions of a flow's sender in chronological order. `senders` contains the rows of the flow, `rows`
    the events of the flow, and `forward` its packets from the sender to the receiver."""
    acknowledgements = [row for row in rows if row.event == "acknowledge"]
    times = sorted({row.time_s for row in acknowledgements})
    with_echo = {row.time_s for row in acknowledgements if (row.flags or 0) & ECE}
    again = {one.sent_s for one in forward.packets if one.again}
    sent = [one.sent_s for one in forward.packets]
    found: list[Reaction] = []
    recover = -1
    previous: dict[str, Any] | None = None
    highest = dict[float, int]()
    top = -1
    for packet in forward.packets:
        top = max(top, packet.end)
        highest[packet.sent_s] = top
    acknowledged = _acknowledged(acknowledgements)
    for row in senders.iter_rows(named=True):
        now = row["time_s"]
        before = previous or row
        previous = row
        windows = {
            "time_s": now,
            "window_before": before["cwnd_segments"],
            "window_after": row["cwnd_segments"],
            "threshold": row["ssthresh_segments"],
        }
        if not _contains(times, now):
            if row["rto_s"] > DOUBLED * before["rto_s"]:
                waits = {"waited_s": before["rto_s"], "next_wait_s": row["rto_s"]}
                found.append(Reaction(kind="time-out", **windows, **waits))
                recover = top_before(sent, highest, now)
            elif now in highest and (silence := now - _last(times, sent, now)) >= (row["srtt_s"] or 0.0) > 0:
                found.append(Reaction(kind="probe", **windows, waited_s=silence))
            continue
        if now in again and acknowledged(now) >= recover:
            found.append(Reaction(kind="fast retransmit", **windows, dupacks=row["dupacks"] or before["dupacks"]))
            recover = top_before(sent, highest, now)
        elif now in with_echo and row["ssthresh_segments"] < before["ssthresh_segments"]:
            found.append(Reaction(kind="mark", **windows))
    return found


def top_before(sent: list[float], highest: dict[float, int], now: float) -> int:
    """Returns the highest sequence number that was sent before `now`."""
    at = bisect_left(sent, now)
    return highest[sent[at - 1]] if at else -1


def with_repairs(losses: Iterable[Loss], reactions: list[Reaction]) -> list[Loss]:
    """Returns the losses of the forward direction, each with the reaction that triggered its retransmission. A
    retransmission that no reaction triggered at the same time belongs to the latest reaction."""
    starts = [one.time_s for one in reactions]

    def repair(loss: Loss) -> Repair | None:
        if loss.sent_again_s is None or loss.backward:
            return loss.repair
        if loss.is_syn:
            return "time-out"
        kinds = [one.kind for one in reactions[: bisect_right(starts, loss.sent_again_s)] if one.kind != "mark"]
        return kinds[-1] if kinds else loss.repair  # type: ignore[return-value]

    return [replace(loss, repair=repair(loss)) for loss in losses]


def _acknowledged(rows: list[Row]) -> Any:
    """Returns a function that returns the highest acknowledgement number received up to a time."""
    times, tops, top = [], [], 0
    for row in rows:
        top = max(top, row.sequence_bytes)
        times.append(row.time_s)
        tops.append(top)

    def until(now: float) -> int:
        at = bisect_right(times, now)
        return tops[at - 1] if at else 0

    return until


def _contains(times: list[float], now: float) -> bool:
    at = bisect_left(times, now)
    return at < len(times) and times[at] == now


def _last(times: list[float], sent: list[float], now: float) -> float:
    """Returns the time of the last packet or acknowledgement before `now`."""
    ends = [series[at - 1] for series in (times, sent) if (at := bisect_left(series, now))]
    return max(ends, default=float("-inf"))
