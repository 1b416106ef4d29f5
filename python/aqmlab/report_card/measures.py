"""The measures of report cards: for each workload its goodput, its losses and the waits of its packets.

RFC 7928, section 2: completion and start-up times of flows, loss ratio and loss patterns, loss
synchronisation, goodput, one-way latency and its variation. Waits are those of single packets that carry
data, from joining the queue of the link that data go over to leaving the queue; where packets pass several
such links, the means of all are added. `calls.py` and `video.py` say how a call sounds and how a video
plays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Measure, Run
from aqmlab.metrics import calls, video
from aqmlab.metrics.waits import passages
from aqmlab.scenario.workloads import workloads

VERSION = 6

EVENT_S = 0.1
"""How long a loss event lasts: the round trip of the cards' lines, within which no sender can respond."""

ALL = "all"
"""The word for all workloads together."""


def _of_run(run: Run) -> Mapping[str, Any]:
    """By `WORKLOAD.WHAT`."""
    warm_up_s, _ = metrics.window(run.manifest)
    found: dict[str, Any] = {}
    flows = run.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    for traffic, rows in (*_by_traffic(flows), (ALL, flows)):
        found |= {
            f"{traffic}.goodput": float(rows["goodput_bps"].fill_null(0.0).sum()) / 1e6,
            f"{traffic}.loss": 100 * metrics.drop_fraction(rows),
            f"{traffic}.marks": 100 * _share(rows["packets_marked"].sum(), rows["packets_sent"].sum()),
        }
    rates = [found[f"{traffic}.goodput"] for traffic, _ in _by_traffic(flows)]
    found[f"{ALL}.parity"] = _share(min(rates), max(rates))
    passed = passages(run)
    for traffic, rows in _by_traffic(passed):
        found |= {f"{traffic}.{what}": value for what, value in _of_waits(rows).items()}
        found |= {f"{traffic}.{what}": value for what, value in _of_losses(rows).items()}
    transfers, pages = (
        run.tables[table]
        .with_columns(pl.col("traffic").cast(pl.String))
        .filter(pl.col("complete") & (pl.col("start_s") >= warm_up_s))
        for table in ("transfers", "pages")
    )
    for traffic, rows in _by_traffic(transfers):
        found[f"{traffic}.transfer"] = rows["duration_s"].mean()
        found[f"{traffic}.start-up"] = _milliseconds(rows["handshake_s"])
    for traffic, rows in _by_traffic(pages):
        found[f"{traffic}.page"] = rows["duration_s"].mean()
    for traffic, workload in workloads(run.manifest["scenario"]).items():
        if workload.call is not None:
            found |= _of_calls(run, traffic, workload.call)
        if workload.video is not None:
            found |= _of_video(run, traffic, workload.video)
    return found


def _milliseconds(seconds: pl.Series) -> float | None:
    mean = seconds.mean()
    return 1e3 * float(mean) if isinstance(mean, float) else None


def _by_traffic(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    return [(str(key[0]), group) for key, group in rows.group_by("traffic", maintain_order=True)]


def _of_calls(run: Run, traffic: str, call: Mapping[str, Any]) -> dict[str, float]:
    warm_up_s, _ = metrics.window(run.manifest)
    delays = calls.delays_of(run.tables["packets"], run.tables["flows"], traffic, warm_up_s)
    scores = [one.mos for one in calls.voices(delays, calls.CODECS[call["codec"]], call["frame_s"])]
    return {f"{traffic}.least-mos": min(scores)} if scores else {}


def _of_video(run: Run, traffic: str, fields: Mapping[str, Any]) -> dict[str, float]:
    window = metrics.window(run.manifest)
    player = video.Player(**fields)
    segments = run.tables["transfers"].filter(pl.col("traffic").cast(pl.String) == traffic)
    seen = video.viewers(segments, run.tables["flows"], player, window[1])
    return {
        f"{traffic}.bit-rate": video.video_bitrate_bps(segments, player, window[0]) / 1e6,
        f"{traffic}.stalled": video.video_stall_s(seen, *window),
    }


def _of_waits(rows: pl.DataFrame) -> dict[str, float]:
    """The mean wait, and where packets pass one link only its variation (RFC 5481: PDV, the wait beyond the
    least one)."""
    left = rows.filter(~pl.col("lost")).with_columns(wait_s=pl.col("time_s") - pl.col("arrived_s"))
    by_link = left.group_by("link").agg(pl.col("wait_s").mean())
    mean = {"delay": 1e3 * float(by_link["wait_s"].sum())}
    if by_link.height != 1:
        return mean
    waits_s = left["wait_s"].to_numpy()
    return {**mean, "variation": 1e3 * float(np.quantile(waits_s, 0.95) - waits_s.min())}


def _of_losses(rows: pl.DataFrame) -> dict[str, float]:
    """Loss patterns of the packets that passed one link: nothing where none was lost, or several links drop.

    Packets of a flow lost in a row are counted in the order in which they arrived at the queue. A loss event
    begins with a loss that is in no event, and lasts `EVENT_S`."""
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


TITLES: Mapping[str, tuple[str, str]] = {
    "goodput": ("goodput", "Mb/s"),
    "parity": ("lower goodput over the higher", ""),
    "loss": ("packets dropped", "%"),
    "marks": ("packets marked", "%"),
    "delay": ("mean queueing delay", "ms"),
    "variation": ("95th percentile of delay variation", "ms"),
    "gap": ("median interval between losses", "ms"),
    "run": ("packets of a flow lost in a row", ""),
    "synchronisation": ("flows that lose in a loss event", "%"),
    "transfer": ("mean completion time", "s"),
    "start-up": ("mean start-up time", "ms"),
    "page": ("mean page time", "s"),
    "least-mos": ("opinion score at the worse end", "MOS"),
    "bit-rate": ("bit rate", "Mb/s"),
    "stalled": ("time stalled", "s"),
}
"""What is measured of a workload, and its unit."""


@cache
def of(traffic: str, what: str) -> Measure:
    """A measure of a workload; raises `KeyError` if there is none of this name."""
    title, unit = TITLES[what]
    name = f"{traffic}.{what}"
    return Measure(
        name=f"{PREFIX}{name}",
        title=f"{traffic}: {title}",
        unit=unit,
        digits=3,
        version=VERSION,
        compute=lambda view: view.once(_of_run).get(name),
    )


PREFIX = "report-card."


def several(*names: str) -> tuple[Measure, ...]:
    """Measures by `WORKLOAD.WHAT`."""
    return tuple(of(*name.split(".", 1)) for name in names)
