"""The sender's reactions to losses and marks, found in the tables `senders` and `packets`.

The table `senders` has a row after each acknowledgement and each timer of the sender. A row at a time at
which no acknowledgement arrived results from a timer. The retransmission timer doubles the time-out; a tail
loss probe (RFC 8985, section 7) leaves the time-out unchanged and follows a silence of at least a round trip.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from aqmlab.explain.losses import Loss, Repair
from aqmlab.explain.packets import ECE, Acknowledgements, Direction, Row

if TYPE_CHECKING:
    import polars as pl

DOUBLED = 1.5
"""Ratio of time-outs above which the retransmission timer has backed off. The factor is 2 (RFC 6298, section
5.5), and the limit lies below 2 because the time-out has a maximum."""

REDUCED = 0.9
"""Ratio of windows below which a change counts as the response to a loss (aqmlab's choice: CUBIC reduces the
window to 0.7, and Reno to 0.5, of its size)."""

Kind = Literal["fast retransmit", "time-out", "probe", "repaired", "mark"]
"""The kind of a reaction. `repaired`: an acknowledgement shows that a tail loss probe has repaired a loss."""


@dataclass(frozen=True, kw_only=True)
class Reaction:
    """A reaction of the sender."""

    time_s: float
    kind: Kind
    window_before: float
    """Congestion window before the reaction, in segments."""
    window_after: float
    """Congestion window after the reaction, in segments."""
    threshold: float
    """Slow-start threshold after the reaction, in segments."""
    waited_s: float | None = None
    """For a time-out, the duration of the timer; for a probe, the time since the last packet or
    acknowledgement."""
    next_wait_s: float | None = None
    """For a time-out, the duration of the next time-out."""
    dupacks: int | None = None
    """For a fast retransmit, number of duplicate acknowledgements."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the reaction for JSON."""
        return asdict(self)


def reactions(senders: pl.DataFrame, rows: list[Row], forward: Direction) -> list[Reaction]:
    """Returns the reactions of a flow's sender in chronological order. `senders` contains the rows of the
    flow, `rows` the events of the flow, and `forward` its packets from the sender to the receiver."""
    history = _History.of(rows, forward)
    found: list[Reaction] = []
    recover = -1
    before: dict[str, Any] | None = None
    for row in senders.iter_rows(named=True):
        after_probe = bool(found) and found[-1].kind == "probe"
        kind, waits = _kind(row, before, history, recover, after_probe=after_probe)
        if kind is not None:
            last = before or row
            found.append(
                Reaction(
                    time_s=row["time_s"],
                    kind=kind,
                    window_before=last["cwnd_segments"],
                    window_after=row["cwnd_segments"],
                    threshold=row["ssthresh_segments"],
                    **waits,
                )
            )
            if kind in ("fast retransmit", "time-out"):
                recover = history.top_before(row["time_s"])
        before = row
    return found


def _kind(
    row: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    history: _History,
    recover: int,
    *,
    after_probe: bool,
) -> tuple[Kind | None, dict[str, Any]]:
    """Returns the kind of the reaction to which a row of `senders` belongs, and the fields that only this
    kind has. `before` is the previous row, and `recover` is the highest sequence number sent before the last
    reaction to a loss. `after_probe` states whether the last reaction was a probe."""
    now = row["time_s"]
    is_timer, resent = not history.is_acknowledged(now), now in history.again
    if before is None:
        # The first event of a sender is an acknowledgement or, if the SYN was lost, the timer of the SYN.
        if not (is_timer and resent):
            return None, {}
        return "time-out", {"waited_s": now - history.last_before(now), "next_wait_s": row["rto_s"]}
    if is_timer and row["rto_s"] > DOUBLED * before["rto_s"]:
        return "time-out", {"waited_s": before["rto_s"], "next_wait_s": row["rto_s"]}
    # A slow start that ends without a loss (HyStart) sets the threshold to the window.
    is_reduced = row["ssthresh_segments"] != before["ssthresh_segments"] and (
        row["ssthresh_segments"] < before["cwnd_segments"]
    )
    enters = row["state"] == "RECOVERY" != before["state"]
    if is_reduced and not resent and now in history.echoes:
        return "mark", {}
    if is_reduced and not resent and not enters:
        # Vegas changes the threshold without a loss, but leaves the window almost unchanged.
        shrinks = row["cwnd_segments"] < REDUCED * before["cwnd_segments"]
        return ("repaired", {}) if after_probe or shrinks else (None, {})
    if enters or is_reduced or (resent and _has_model(row) and history.acknowledged(now) >= recover):
        return "fast retransmit", {"dupacks": row["dupacks"] or before["dupacks"]}
    silence = now - history.last_before(now)
    if is_timer and now in history.highest and silence >= (row["srtt_s"] or 0.0) > 0.0:
        return "probe", {"waited_s": silence}
    return None, {}


def _has_model(row: Mapping[str, Any]) -> bool:
    """Returns whether the congestion control has a model of the path, so that its state and its threshold do
    not show losses."""
    return row["bandwidth_bps"] is not None


@dataclass(frozen=True, kw_only=True)
class _History:
    """The packets that the sender sent, and the acknowledgements that it received."""

    acknowledgements: list[float]
    """The times of the acknowledgements."""
    tops: list[int]
    """The highest acknowledgement number at each of these times."""
    echoes: set[float]
    """The times of acknowledgements that echo a mark."""
    sent: list[float]
    """The times of the packets."""
    highest: dict[float, int]
    """For each of these times, the highest sequence number that was sent until then."""
    again: set[float]
    """The times of retransmissions."""

    @classmethod
    def of(cls, rows: list[Row], forward: Direction) -> _History:
        arrivals = [row for row in rows if row.event == "acknowledge"]
        acknowledgements = Acknowledgements(rows)
        highest = dict[float, int]()
        top = -1
        for packet in forward.packets:
            top = max(top, packet.end)
            highest[packet.sent_s] = top
        return cls(
            acknowledgements=[row.time_s for row in arrivals],
            tops=list(accumulate((row.sequence_bytes for row in arrivals), max)),
            # With accurate feedback (RFC 9768), the flag ECE is a bit of a counter.
            echoes={row.time_s for row in arrivals if (row.flags or 0) & ECE}
            | {
                time_s
                for one in forward.packets
                if one.marked and one.received_s is not None
                if (time_s := acknowledgements.first(one.begin, one.received_s)) is not None
            },
            sent=[packet.sent_s for packet in forward.packets],
            highest=highest,
            again={packet.sent_s for packet in forward.packets if packet.again},
        )

    def is_acknowledged(self, now: float) -> bool:
        """Returns whether an acknowledgement arrived at `now`."""
        at = bisect_left(self.acknowledgements, now)
        return at < len(self.acknowledgements) and self.acknowledgements[at] == now

    def acknowledged(self, now: float) -> int:
        """Returns the highest acknowledgement number that arrived up to `now`."""
        at = bisect_right(self.acknowledgements, now)
        return self.tops[at - 1] if at else 0

    def top_before(self, now: float) -> int:
        """Returns the highest sequence number that was sent before `now`."""
        at = bisect_left(self.sent, now)
        return self.highest[self.sent[at - 1]] if at else -1

    def last_before(self, now: float) -> float:
        """Returns the time of the last packet or acknowledgement before `now`."""
        ends = [
            times[at - 1] for times in (self.acknowledgements, self.sent) if (at := bisect_left(times, now))
        ]
        return max(ends, default=now)


def with_repairs(losses: Iterable[Loss], reactions: list[Reaction]) -> list[Loss]:
    """Returns the losses of the forward direction, each with the reaction that triggered its retransmission.
    A retransmission that no reaction triggered at the same time belongs to the latest reaction."""
    starts = [one.time_s for one in reactions]

    def repair(loss: Loss) -> Repair | None:
        if loss.sent_again_s is None or loss.backward:
            return loss.repair
        if loss.is_syn:
            return "time-out"
        kinds = [
            one.kind
            for one in reactions[: bisect_right(starts, loss.sent_again_s)]
            if one.kind not in ("mark", "repaired")
        ]
        return kinds[-1] if kinds else loss.repair  # type: ignore[return-value]

    return [replace(loss, repair=repair(loss)) for loss in losses]
