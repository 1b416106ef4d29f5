"""Measures that are used only by report cards: waiting times of individual packets, and loss patterns.

RFC 7928, section 2: loss patterns, loss synchronisation, start-up times of flows, one-way latency and its
variation. The wait of a data packet is the time from the packet's arrival at a link's queue to its departure
from the queue. If packets pass several links with queues, the mean waits at all of these links are added. All
other measures are those of the library (`aqmlab.measures`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Measure, Run
from aqmlab.metrics.waits import passages

VERSION = 6

EVENT_S = 0.1
"""Duration of a loss event, which is one round-trip time of the cards' links. No sender can respond to a loss
within this time."""

ALL = "all"
"""Name that stands for all workloads together."""

PREFIX = "report-card."

TITLES: Mapping[str, tuple[str, str]] = {
    "delay": ("queueing delay, mean", "ms"),
    "variation": ("delay variation, 95th percentile", "ms"),
    "gap": ("interval between losses, median", "ms"),
    "run": ("packets of a flow lost in a row", ""),
    "synchronisation": ("flows that lose in a loss event", "%"),
    "start-up": ("start-up time, mean", "ms"),
}
"""Titles and units of the measures of a workload."""

TITLES_OF_ALL: Mapping[str, tuple[str, str]] = {
    "goodput": ("goodput of all", "Mbps"),
    "drops": ("packets dropped of all", "%"),
    "marks": ("packets marked of all", "%"),
    "parity": ("lower goodput over the higher", ""),
}
"""Titles and units of the measures of all workloads together."""


@cache
def named(name: str) -> Measure | str:
    """Returns the measure with the name `WORKLOAD.MEASURE`, either a measure of this module or the name of a
    library measure."""
    traffic, what = name.split(".", 1)
    title, unit = (TITLES_OF_ALL if traffic == ALL else TITLES).get(what, ("", ""))
    if not title:
        return name
    return Measure(
        name=f"{PREFIX}{name}",
        title=title if traffic == ALL else f"{traffic} {title}",
        unit=unit,
        digits=3,
        version=VERSION,
        compute=lambda view: view.once(_of_run).get(name),
    )


def several(*names: str) -> tuple[Measure | str, ...]:
    """Returns measures by their names `WORKLOAD.MEASURE`."""
    return tuple(map(named, names))


def _of_run(run: Run) -> Mapping[str, Any]:
    """Returns the values of a run by name, `WORKLOAD.MEASURE`."""
    flows = run.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    rates = [metrics.goodput_bps(rows) for _, rows in _by_traffic(flows)]
    found: dict[str, Any] = {
        f"{ALL}.goodput": metrics.goodput_bps(flows) * 1e-6,
        f"{ALL}.drops": 100 * metrics.drop_fraction(flows),
        f"{ALL}.marks": 100 * _share(flows["packets_marked"].sum(), flows["packets_sent"].sum()),
        f"{ALL}.parity": _share(min(rates), max(rates)),
    }
    for traffic, rows in _by_traffic(passages(run)):
        of_packets = _of_waits(rows) | _of_losses(rows)
        found |= {f"{traffic}.{what}": value for what, value in of_packets.items()}
    warm_up_s, _ = metrics.window(run.manifest)
    complete = metrics.measured(run.tables["transfers"], warm_up_s).filter(pl.col("complete"))
    for traffic, rows in _by_traffic(complete.with_columns(pl.col("traffic").cast(pl.String))):
        mean_s = rows["handshake_s"].mean()
        found[f"{traffic}.start-up"] = 1e3 * mean_s if isinstance(mean_s, float) else None
    return found


def _by_traffic(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [(str(key[0]), group) for key, group in rows.group_by("traffic", maintain_order=True)]


def _of_waits(rows: pl.DataFrame) -> dict[str, float]:
    """Returns the mean wait and, if packets pass a single link, the variation of waits (PDV of RFC 5481,
    which is the wait minus the minimum wait)."""
    left = rows.filter(~pl.col("lost")).with_columns(wait_s=pl.col("time_s") - pl.col("arrived_s"))
    by_link = left.group_by("link").agg(pl.col("wait_s").mean())
    mean = {"delay": 1e3 * float(by_link["wait_s"].sum())}
    if by_link.height != 1:
        return mean
    waits_s = left["wait_s"].to_numpy()
    return {**mean, "variation": 1e3 * float(np.quantile(waits_s, 0.95) - waits_s.min())}


def _of_losses(rows: pl.DataFrame) -> dict[str, float]:
    """Returns the loss patterns of one link's packets. The result is empty if no packet was lost or if
    several links drop packets.

    Consecutive losses of a flow are counted in the order of the packets' arrivals at the queue. A loss event
    begins with a loss that does not belong to an earlier event, and lasts `EVENT_S`."""
    lost = rows.filter(pl.col("lost")).sort("arrived_s")
    if lost.is_empty() or rows["link"].n_unique() != 1:
        return {}
    in_order = rows.sort("flow", "arrived_s", maintain_order=True)
    follows = pl.col("lost").shift(1) & (pl.col("flow") == pl.col("flow").shift(1))
    begins = pl.col("lost") & ~follows.fill_null(False)
    runs = int(in_order.select(begins.sum()).item())
    times_s, flows = lost["arrived_s"].to_numpy(), lost["flow"].to_numpy()
    shares = []
    first, count = 0, rows["flow"].n_unique()
    while first < len(times_s):
        last = int(np.searchsorted(times_s, times_s[first] + EVENT_S, side="right"))
        shares.append(len(set(flows[first:last])) / count)
        first = last
    found = {"run": lost.height / runs, "synchronisation": 100 * math.fsum(shares) / len(shares)}
    if lost.height > 1:
        found["gap"] = 1e3 * float(np.median(np.diff(times_s)))
    return found


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else 0.0
