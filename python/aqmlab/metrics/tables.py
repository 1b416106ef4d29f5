"""Small pure functions that compute measures of a run. Each function returns a number or a small table.

Times are in seconds since the start of the run, sizes are in bytes, and rates are in bits per second. For
transfers, "after warm-up" means that the transfer *started* after the warm-up. For flows and links, "after
warm-up" means that only the time after the warm-up is counted. Unless stated otherwise, definitions are those
of Claypool, Kinicki and Hartling (SHRED, 2004).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from aqmlab import _core

if TYPE_CHECKING:
    import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.float64]"
Tables = Mapping[str, pl.DataFrame]

SHORT_BYTES = 10_000
"""Maximum size of a short transfer in bytes, which is the mean size of a Web object in the SHRED study."""


def seconds(text: str | float | int) -> float:
    """Returns the seconds of a time in the syntax of scenarios: `"160s"`, `"1.5ms"`."""
    return float(text) if isinstance(text, int | float) else _in_unit("s", "time", text)


def bits_per_second(text: str) -> float:
    """Returns the bits per second of a rate in the syntax of scenarios: `"10Mbps"`, `"2.5 Gbps"`."""
    return _in_unit("bps", "rate", text)


def in_bytes(text: str) -> bool:
    """Returns whether a length in the syntax of scenarios, such as `"20kB"`, is in bytes and not in
    packets."""
    return _core.quantity(text)[1] == "B"


def _in_unit(wanted: str, name: str, text: str) -> float:
    value, unit = _core.quantity(text)
    if unit != wanted:
        raise ValueError(f"{name}: must have the unit {wanted} (got {text!r})")
    return value


def window(manifest: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the measured period of a run, `(warm-up, end)` in seconds."""
    scenario = manifest["scenario"]
    return seconds(scenario.get("warm_up", 0.0)), seconds(scenario["duration"])


# Transfers and pages


def measured(table: pl.DataFrame, warm_up_s: float) -> pl.DataFrame:
    """Returns the transfers or pages that started after warm-up."""
    return table.filter(pl.col("start_s") >= warm_up_s)


def completed_times(table: pl.DataFrame, warm_up_s: float) -> Floats:
    """Returns the times, in seconds, of the transfers (or pages) that started after warm-up and were
    completed.

    For a transfer, this is the object transmission time: from sending the SYN until the receiver has received
    all payload bytes in order. For a page, this is the Web response time: from the first SYN to the end of
    the last object.
    """
    done = measured(table, warm_up_s).filter(pl.col("complete"))
    return done["duration_s"].to_numpy().astype(np.float64)


def normalised_time(mean_s: float, uncongested_mean_s: float) -> float:
    """Returns a mean time divided by the mean time for the same arrivals without queueing."""
    return mean_s / uncongested_mean_s if uncongested_mean_s > 0 else math.nan


def ideal_time(segments: pl.Expr, rtt_s: float, initial_window: int) -> pl.Expr:
    """Returns the time, in seconds, of a transfer that is limited only by slow start.

    The time consists of one round trip for the handshake, one round trip for each doubling of the window
    except the last, and half a round trip for the last data: `rtt * (0.5 + ceil(log2(segments /
    initial_window + 1)))`.
    """
    rounds = (segments / initial_window + 1).log(2.0).ceil()
    return rtt_s * (rounds + 0.5)


def slowdown(transfers: pl.DataFrame, rtt_s: float, initial_window: int) -> float:
    """Returns the mean, over completed transfers, of a transfer's time divided by [`ideal_time`]. All
    transfers have equal weights."""
    done = transfers.filter(pl.col("complete"))
    return _number(
        done.select((pl.col("duration_s") / ideal_time(pl.col("segments"), rtt_s, initial_window)).mean())
    )


def mean_active(transfers: pl.DataFrame, warm_up_s: float, end_s: float) -> float:
    """Returns the time average, after warm-up, of the number of open transfers."""
    start = pl.col("start_s").clip(warm_up_s, end_s)
    finish = (pl.col("start_s") + pl.col("duration_s")).fill_null(end_s).clip(warm_up_s, end_s)
    return _number(transfers.select((finish - start).sum())) / (end_s - warm_up_s)


def active_series(transfers: pl.DataFrame, step_s: float, end_s: float) -> npt.NDArray[np.int64]:
    """Returns the number of open transfers at the times 0, `step_s`, 2 `step_s` and so on, up to the end of
    the run."""
    at = np.arange(0.0, end_s, step_s)
    starts = np.sort(transfers["start_s"].to_numpy())
    done = transfers.filter(pl.col("complete"))
    ends = np.sort((done["start_s"] + done["duration_s"]).to_numpy())
    return np.asarray(
        np.searchsorted(starts, at, "right") - np.searchsorted(ends, at, "right"), dtype=np.int64
    )


def short_timeouts(transfers: pl.DataFrame, limit_bytes: int = SHORT_BYTES) -> float:
    """Returns the number of retransmission timeouts per short transfer."""
    return _number(transfers.filter(pl.col("size_bytes") <= limit_bytes).select(pl.col("timeouts").mean()))


def drop_percent_per_flow(transfers: pl.DataFrame) -> float:
    """Returns the mean, over transfers, of the percentage of a transfer's packets that were dropped."""
    share = 100.0 * pl.col("packets_dropped") / pl.col("packets_sent")
    return _number(transfers.filter(pl.col("packets_sent") > 0).select(share.mean()))


# Distributions


def cdf(times: Floats, grid: Floats) -> Floats:
    """Returns, for each value of `grid`, the share of `times` that are at most this value."""
    if times.size == 0:
        return np.full(grid.shape, np.nan)
    return np.searchsorted(np.sort(times), grid, "right") / times.size


def tail(times: Floats, grid: Floats) -> Floats:
    """Returns, for each value of `grid`, the share of `times` that are larger than this value."""
    return 1.0 - cdf(times, grid)


def histograms(transfers: pl.DataFrame, grid: Floats, end_s: float) -> tuple[list[int], list[int]]:
    """Returns histograms of the observed times of completed and of unfinished transfers, with `grid` as bin
    edges.

    Entry `i` counts times in `(grid[i-1], grid[i]]`. The first entry begins at minus infinity, and an
    additional entry at the end counts times beyond the grid.
    """
    done = transfers["complete"].to_numpy()
    observed = transfers["duration_s"].fill_null(end_s - transfers["start_s"]).to_numpy()
    index = np.searchsorted(grid, observed, "left")
    size = grid.size + 1
    ended = np.bincount(index[done], minlength=size)
    censored = np.bincount(index[~done], minlength=size)
    return ended.tolist(), censored.tolist()


def survival(ended: Sequence[int], censored: Sequence[int]) -> Floats:
    """Returns, for each value of the grid of [`histograms`], the share of transfers that take longer than
    this value.

    Transfers that are still open at the end of a run take at least their observed time. Omitting these
    transfers would favour queues that prolong long transfers. The actuarial estimator of Kaplan and Meier
    (1958) uses the observed part of the times of unfinished transfers.
    """
    events = np.asarray(ended, dtype=np.float64)
    lost = np.asarray(censored, dtype=np.float64)
    total = events + lost
    at_risk = total.sum() - np.concatenate([[0.0], np.cumsum(total)[:-1]])
    exposed = np.maximum(at_risk - lost / 2, 1e-300)
    stay = np.where(at_risk > 0, 1.0 - events / exposed, 1.0)
    return np.clip(np.cumprod(stay)[:-1], 0.0, 1.0)


def area_between(left: Floats, right: Floats, grid: Floats) -> float:
    """Returns the area between two distribution functions on `grid`, in the unit of the grid."""
    return float(np.trapezoid(np.abs(left - right), grid))


def carried_by_largest(sizes: npt.NDArray[Any], shares: Sequence[float]) -> list[float]:
    """Returns, for each of `shares`, the share of all bytes that is carried by this share of the transfers,
    beginning with the largest transfer."""
    if sizes.size == 0:
        return [math.nan] * len(shares)
    carried = np.cumsum(np.sort(sizes.astype(np.float64))[::-1])
    return [float(carried[max(1, round(share * sizes.size)) - 1] / carried[-1]) for share in shares]


# Flows and links


def jain(rate: pl.Expr) -> pl.Expr:
    """Returns Jain's fairness index of flow rates."""
    index: pl.Expr = jain_of(rate.sum(), (rate**2).sum(), rate.len())
    return index


def jain_of(total: Any, squares: Any, count: Any) -> Any:
    """Returns Jain's fairness index of `count` rates, computed from the sum of the rates and the sum of their
    squares. The index is 1 if all rates are equal, and 1/n if one of n flows gets the whole capacity (R.
    Jain, D. Chiu, W. Hawe 1984)."""
    return total**2 / (count * squares)


def measured_flows(flows: pl.DataFrame, traffic: str, warm_up_s: float) -> pl.DataFrame:
    """Returns the flows of a workload that were open at some time after warm-up."""
    return flows.filter(
        (pl.col("traffic") == traffic) & (pl.col("end_s").is_null() | (pl.col("end_s") >= warm_up_s))
    )


def goodput_bps(flows: pl.DataFrame) -> float:
    """Returns the goodput of all flows together: the unique payload bits per second that reached receivers
    after warm-up."""
    return float(flows["goodput_bps"].sum())


def drop_fraction(flows: pl.DataFrame) -> float:
    """Returns the share of dropped packets among the packets that the flows sent after warm-up."""
    return _share(float(flows["packets_dropped"].sum()), float(flows["packets_sent"].sum()))


def mean_delay_s(flows: pl.DataFrame) -> float:
    """Returns the mean one-way delay (s) of all datagrams that arrived, or NaN for connections."""
    received = pl.col("datagrams_received")
    return _number(flows.select((pl.col("mean_delay_s") * received).sum() / received.sum()))


def link(links: pl.DataFrame, name: str) -> dict[str, Any]:
    """Returns the row of one link, by column."""
    rows = links.filter(pl.col("link") == name)
    if rows.height != 1:
        raise KeyError(f"the table of links does not contain the link {name!r}")
    return rows.row(0, named=True)


# Losses and bursts


def loss_events(times: Sequence[float], rtt_s: float) -> list[tuple[int, int]]:
    """Returns loss events as ranges of indices of the (sorted) drop times.

    A loss event begins with a drop and includes every drop less than one base round trip after this first
    drop, because senders respond to these drops as they would to a single congestion signal. The first drop
    after this time begins the next event, so that steady loss is divided into many events instead of one
    endless event.
    """
    events = []
    first = 0
    while first < len(times):
        last = bisect_left(times, times[first] + rtt_s, lo=first)
        last = max(last, first + 1)
        events.append((first, last))
        first = last
    return events


def loss_synchronisation(drops: pl.DataFrame, flows: pl.DataFrame, rtt_s: float, warm_up_s: float) -> float:
    """Returns the mean, over loss events, of the share of active flows that lose a packet in the event.

    A value of 1 means that all flows reduce their rates at the same time. A flow is active if it is open when
    the event begins. Flows that open during the event and lose a packet also count as active.
    """
    after = drops.filter(pl.col("time_s") >= warm_up_s).sort("time_s")
    if after.height == 0:
        return math.nan
    times: list[float] = after["time_s"].to_list()
    losers = after["flow"].to_list()
    starts = np.sort(flows["start_s"].to_numpy())
    ends = np.sort(flows["end_s"].drop_nulls().to_numpy())
    shares = []
    for first, last in loss_events(times, rtt_s):
        active = np.searchsorted(starts, times[first], "right") - np.searchsorted(ends, times[first], "left")
        hit = len(set(losers[first:last]))
        shares.append(hit / max(int(active), hit))
    return math.fsum(shares) / len(shares)


def drop_runs(drops: pl.DataFrame, warm_up_s: float) -> npt.NDArray[np.int64]:
    """Returns the lengths of runs of drops at one queue. A run of drops consists of consecutive arrivals that
    were all dropped."""
    after = drops.filter(pl.col("time_s") >= warm_up_s)
    arrival = after["arrival"].sort().to_numpy().astype(np.int64)
    if arrival.size == 0:
        return np.zeros(0, dtype=np.int64)
    breaks = np.flatnonzero(np.diff(arrival) != 1) + 1
    edges = np.concatenate([[0], breaks, [arrival.size]])
    return np.asarray(np.diff(edges), dtype=np.int64)


def largest_burst(queue: pl.DataFrame, drops: pl.DataFrame, rtt_s: float, warm_up_s: float) -> float:
    """Returns the size of the largest burst that the queue accepted, in packets.

    The burst size is the largest increase of the queue length between two samples that are at most one base
    round trip apart, with no drop between the samples. The sampling interval limits the resolution.
    """
    after = queue.filter(pl.col("time_s") >= warm_up_s).sort("time_s")
    if after.height < 2:
        return math.nan
    times = after["time_s"].to_numpy()
    length = after["length_packets"].to_numpy().astype(np.float64)
    lost = np.searchsorted(drops["time_s"].sort().to_numpy(), times, "right")
    best = 0.0
    for lag in range(1, times.size):
        near = times[lag:] - times[:-lag] <= rtt_s * (1 + 1e-9)
        if not near.any():
            break
        rise = length[lag:] - length[:-lag]
        whole = near & (lost[lag:] == lost[:-lag])
        if whole.any():
            best = max(best, float(rise[whole].max()))
    return best


# Warm-up


def mser5(series: Sequence[float] | Floats) -> int | None:
    """Returns the number of values to omit at the beginning of a series, by MSER-5 (White, Cobb and Spratt
    2000).

    Values are averaged in groups of five. The number of omitted values minimises the variance of the
    remaining values divided by the number of remaining values. Returns `None` if at least half of the series
    would be omitted, because the series is then too short.
    """
    values = np.asarray(series, dtype=np.float64)
    batches = values[: values.size // 5 * 5].reshape(-1, 5).mean(axis=1)
    count = batches.size
    if count < 4:
        return None
    rest = np.arange(count, 0, -1)
    total = np.cumsum(batches[::-1])[::-1]
    squares = np.cumsum((batches**2)[::-1])[::-1]
    score = (squares - total**2 / rest) / rest**2
    cut = int(np.argmin(np.maximum(score[: count - 2], 0.0)))
    return None if cut >= count // 2 else cut * 5


def warm_up_end(times: Sequence[float] | Floats, values: Sequence[float] | Floats) -> float | None:
    """Returns the time (s) after which a series is steady according to [`mser5`], or `None` if the series
    does not become steady.

    `values` are the values at `times`. Raises `ValueError` if the times are not evenly spaced or a value is
    not finite.
    """
    at, series = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if at.shape != series.shape:
        raise ValueError(f"series: must have as many times as values (got {at.size} and {series.size})")
    steps = np.diff(at)
    if not np.allclose(steps, steps[:1], rtol=1e-6, atol=0.0) or not np.isfinite(series).all():
        raise ValueError(
            "series: must have finite values at evenly spaced times; sample at regular intervals"
        )
    cut = mser5(series)
    return None if cut is None else float(at[cut])


TIMED = frozenset({"traffic", "start_s", "duration_s", "complete"})
"""Columns of transfers (`record.transfer_columns`) that are needed to compute the times of a workload's
transfers."""

LEAST_TRANSFERS = 250
"""Minimum number of transfers for [`warm_up_warning`], which corresponds to fifty batches of five (aqmlab's
choice).

The number of open transfers changes only when a transfer begins or ends. With fewer transfers, neighbouring
batches mostly contain the same transfers, and a single long transfer can shift the end of the warm-up to an
arbitrary time. MSER-5 would then detect this transfer and not the warm-up.
"""


def warm_up_warning(tables: Tables, manifest: Mapping[str, Any]) -> str | None:
    """Returns a warning if the scenario's warm-up is too short according to MSER-5, applied to the number of
    open transfers.

    Returns `None` for a run with fewer than `LEAST_TRANSFERS` transfers, or without the required columns. The
    requests of tests of responsiveness, whose number changes by design, are not counted.
    """
    transfers = tables.get("transfers")
    tests = tables.get("test_probes")
    if transfers is not None and tests is not None and "traffic" in transfers.columns:
        names = tests["traffic"].cast(pl.String).unique().to_list()
        transfers = transfers.filter(~pl.col("traffic").cast(pl.String).is_in(names))
    if transfers is None or transfers.height < LEAST_TRANSFERS or not set(transfers.columns) >= TIMED:
        return None
    warm_up_s, end_s = window(manifest)
    step_s = max(end_s / 400, 1e-3)
    cut = mser5(active_series(transfers, step_s, end_s).astype(np.float64))
    if cut is None:
        return "warm-up: the number of open transfers does not become steady within the run (MSER-5)"
    if cut * step_s > warm_up_s:
        return f"warm-up: MSER-5 needs {cut * step_s:.3g} s, but the scenario has {warm_up_s:.3g} s"
    return None


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def finite(value: Any) -> Any:
    """Replaces numbers that JSON cannot represent (NaN and infinity) by `None`, in lists and tables of any
    depth."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(frame: pl.DataFrame) -> float:
    value = frame.item()
    return math.nan if value is None else float(value)
