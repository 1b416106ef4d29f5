"""Computes the waiting times of packets in queues from the table of packet events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from aqmlab.metrics import tables as metrics

if TYPE_CHECKING:
    from aqmlab._support.run import Run

_KEY = ["link", "flow", "sequence_bytes"]


def waits(run: Run) -> pl.DataFrame:
    """Returns the waiting time of each data packet that left a recorded link after the warm-up, with the
    columns `link`, `traffic`, `time_s` and `wait_s`."""
    found = passages(run).filter(~pl.col("lost"))
    return found.select("link", "traffic", "time_s", wait_s=pl.col("time_s") - pl.col("arrived_s"))


def passages(run: Run) -> pl.DataFrame:
    """Returns a row for each data packet that a recorded link sent or dropped after the warm-up. The columns
    are `link`, `flow`, `traffic`, `arrived_s`, `time_s` (the time at which the packet left the queue) and
    `lost` (whether the packet was dropped)."""
    warm_up_s, _ = metrics.window(run.manifest)
    names = run.tables["flows"].select("flow", pl.col("traffic").cast(pl.String))
    events = run.tables["packets"].filter(~pl.col("backward") & pl.col("link").is_not_null())
    event = pl.col("event").cast(pl.String)
    sorted_by_packet = (
        events.filter(event.is_in(["enqueue", "start", "drop"]))
        .select(*_KEY, "time_s", event=event)
        .sort([pl.col("link").to_physical(), "flow", "sequence_bytes", "time_s"], maintain_order=True)
    )
    number = sorted_by_packet.select(pl.struct(_KEY).rle_id()).to_series().to_numpy()
    joins = (sorted_by_packet["event"] == "enqueue").to_numpy()
    arrived = _arrivals(sorted_by_packet["time_s"].to_numpy(), number, joins)
    found = sorted_by_packet.with_columns(arrived_s=arrived).filter(pl.col("event") != "enqueue")
    found = found.filter(pl.col("time_s") >= warm_up_s).join(names, on="flow", maintain_order="left")
    return found.select("link", "flow", "traffic", "arrived_s", "time_s", lost=pl.col("event") == "drop")


def _arrivals(
    times_s: npt.NDArray[np.float64], number: npt.NDArray[Any], joins: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Returns the arrival time of each row's packet. The rows describe arrivals and departures, and are
    sorted by packet number and time.

    Several packets of a flow may have the same number: retransmissions, or a SYN and the first data packet.
    Queued packets with the same number are assumed to depart in the order of their arrival. If a packet
    departs although no packet with its number is queued, its arrival time is assumed to equal its departure
    time."""
    if not len(times_s):
        return times_s
    first = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
    group = np.zeros(len(number), dtype=int)
    group[first[1:]] = 1
    group = np.cumsum(group)
    joined, left = (_counted(rows, first, group) for rows in (joins, ~joins))
    # Number of packets that departed without a recorded arrival: the maximum excess of departures over
    # arrivals.
    offset = group * (len(number) + 1)
    direct = np.maximum.accumulate(np.maximum(left - joined, 0) + offset) - offset
    before = np.r_[0, direct[:-1]]
    before[first] = 0
    waited = ~joins & (direct == before)
    join_rows = np.flatnonzero(joins)
    joined_before: npt.NDArray[Any] = np.cumsum(joins)[first] - joins[first]
    arrived = times_s.copy()
    arrived[waited] = times_s[join_rows[joined_before[group[waited]] + (left - direct)[waited] - 1]]
    return arrived


def _counted(
    rows: npt.NDArray[np.bool_], first: npt.NDArray[Any], group: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Returns, for each row, the number of selected rows in its group up to and including the row."""
    count = np.cumsum(rows)
    return count - (count - rows)[first][group]
