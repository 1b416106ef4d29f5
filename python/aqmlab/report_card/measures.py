"""What the runs of a report card are reduced to: for each workload goodput, loss and how long its packets
waited.

RFC 7928, section 2: goodput, loss ratio, one-way latency and its variation, completion times. Waits are
those of single packets that carry data, from joining the queue of the link that data go over to leaving it;
where they pass several such links, the means of all are added. What a call sounds like and what the viewers
of a video see is what `calls.py` and `video.py` say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from aqmlab import calls, metrics, video
from aqmlab.measure import Measure, Run

VERSION = 4

PHASE_S, PHASES = 20.0, 6
"""Waits are also told by phases of so many seconds, which come again after so many."""

_KEY = ["link", "flow", "sequence_bytes"]


def waits(run: Run) -> pl.DataFrame:
    """How long each packet of data waited that left a recorded link after the warm-up: `link`, `traffic`,
    `time_s`, `wait_s`."""
    warm_up_s, _ = metrics.window(run.manifest)
    names = run.tables["flows"].select("flow", pl.col("traffic").cast(pl.String))
    events = run.tables["packets"].filter(~pl.col("backward") & pl.col("link").is_not_null())
    event = pl.col("event").cast(pl.String)
    sorted_by_packet = (
        events.filter(event.is_in(["enqueue", "start", "drop"]))
        .select(*_KEY, "time_s", event=event)
        .sort([pl.col("link").to_physical(), "flow", "sequence_bytes", "time_s"], maintain_order=True)
    )
    first = pl.struct(_KEY) != pl.struct(_KEY).shift(1)
    # What is sent again has the same number: a packet that leaves is the one that joined last, and goes to
    # the line at once if none did, or what joined was dropped.
    came = (
        pl.when(pl.col("event") == "enqueue")
        .then(pl.col("time_s"))
        .when(first.fill_null(True) | (pl.col("event") == "drop"))
        .then(math.nan)
        .forward_fill()
    )
    found = sorted_by_packet.with_columns(came_s=came).filter(pl.col("event") == "start")
    found = found.filter(pl.col("time_s") >= warm_up_s).join(names, on="flow")
    return found.select(
        "link", "traffic", "time_s", wait_s=(pl.col("time_s") - pl.col("came_s")).fill_nan(0.0)
    )


def _of_run(run: Run) -> Mapping[str, Any]:
    """By `WORKLOAD.WHAT`."""
    warm_up_s, _ = metrics.window(run.manifest)
    found: dict[str, Any] = {}
    flows = run.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    for (traffic,), rows in flows.group_by(["traffic"], maintain_order=True):
        rates = rows["goodput_bps"].fill_null(0.0)
        found |= {
            f"{traffic}.goodput": float(rates.sum()) / 1e6,
            f"{traffic}.jain": float(metrics.jain_of(rates.sum(), (rates**2).sum(), rates.len())),
            f"{traffic}.loss": 100 * metrics.drop_fraction(rows),
            f"{traffic}.marks": 100 * _share(rows["packets_marked"].sum(), rows["packets_sent"].sum()),
        }
    for (traffic,), rows in waits(run).group_by(["traffic"], maintain_order=True):
        found |= {f"{traffic}.{what}": value for what, value in _of_waits(rows).items()}
    for table in ("transfers", "pages"):
        done = run.tables[table].with_columns(pl.col("traffic").cast(pl.String))
        done = done.filter(pl.col("complete") & (pl.col("start_s") >= warm_up_s))
        for (traffic,), rows in done.group_by(["traffic"], maintain_order=True):
            times = rows["duration_s"].to_numpy()
            word = table.removesuffix("s")
            found |= {
                f"{traffic}.{word}": float(times.mean()),
                f"{traffic}.{word}-p95": float(np.quantile(times, 0.95)),
            }
    for traffic, table in run.manifest["scenario"]["traffic"].items():
        if of_kind := APPLICATIONS.get(table["kind"]):
            found |= {f"{traffic}.{what}": value for what, value in of_kind(run, traffic, table).items()}
    return found


def _of_calls(run: Run, traffic: str, table: Mapping[str, Any]) -> dict[str, float]:
    warm_up_s, _ = metrics.window(run.manifest)
    delays = calls.delays_of(run.tables["packets"], run.tables["flows"], traffic, warm_up_s)
    heard = calls.voices(delays, calls.CODECS[table["codec"]], metrics.seconds(table["every"]))
    scores = [one.mos for one in heard]
    return {"mos": sum(scores) / len(scores), "least-mos": min(scores)} if scores else {}


def _of_video(run: Run, traffic: str, table: Mapping[str, Any]) -> dict[str, float]:
    window = metrics.window(run.manifest)
    player = video.Player.of(table)
    segments = run.tables["transfers"].filter(pl.col("traffic").cast(pl.String) == traffic)
    seen = video.viewers(segments, run.tables["flows"], player, window[1])
    return {
        "bit-rate": video.video_bitrate_bps(segments, player, window[0]) / 1e6,
        "stalled": video.video_stall_s(seen, *window),
    }


APPLICATIONS: Mapping[str, Callable[[Run, str, Mapping[str, Any]], dict[str, float]]] = {
    "call": _of_calls,
    "video": _of_video,
}
"""What more is told of workloads of some kinds."""


def _of_waits(rows: pl.DataFrame) -> dict[str, float]:
    by_link = rows.group_by("link").agg(pl.col("wait_s").mean())
    mean = {"delay": 1e3 * float(by_link["wait_s"].sum())}
    if by_link.height > 1:
        return mean
    phases = rows.group_by((pl.col("time_s") / PHASE_S).cast(pl.Int64) % PHASES).agg(pl.col("wait_s").mean())
    mean |= {f"delay-phase-{place}": 1e3 * wait for place, wait in phases.iter_rows()}
    waits_s = rows["wait_s"].to_numpy()
    median, p95, p99 = (1e3 * float(one) for one in np.quantile(waits_s, (0.5, 0.95, 0.99)))
    return {
        **mean,
        "delay-p50": median,
        "delay-p95": p95,
        "delay-p99": p99,
    }


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else 0.0


TOLD: Mapping[str, tuple[str, str]] = {
    "goodput": ("goodput", "Mb/s"),
    "jain": ("Jain's index of goodputs", ""),
    "loss": ("packets dropped", "%"),
    "marks": ("packets marked", "%"),
    "delay": ("queueing delay, mean", "ms"),
    "delay-p50": ("queueing delay, median", "ms"),
    "delay-p95": ("queueing delay, 95th percentile", "ms"),
    "delay-p99": ("queueing delay, 99th percentile", "ms"),
    **{
        f"delay-phase-{place}": (
            f"queueing delay, mean, {place * PHASE_S:g} s to {(place + 1) * PHASE_S:g} s",
            "ms",
        )
        for place in range(PHASES)
    },
    "transfer": ("completion time, mean", "s"),
    "transfer-p95": ("completion time, 95th percentile", "s"),
    "page": ("page time, mean", "s"),
    "page-p95": ("page time, 95th percentile", "s"),
    "mos": ("mean opinion score, both ends", ""),
    "least-mos": ("mean opinion score where it sounds worse", ""),
    "bit-rate": ("bit rate", "Mb/s"),
    "stalled": ("standing still", "s"),
}
"""What is measured of a workload, and its unit."""


@cache
def of(traffic: str, what: str) -> Measure:
    """A measure of a workload; raises `KeyError` if there is none of this name."""
    title, unit = TOLD[what]
    name = f"{traffic}.{what}"
    return Measure(
        name=f"report-card.{name}",
        title=f"{traffic}: {title}",
        unit=unit,
        digits=3,
        version=VERSION,
        compute=lambda view: view.once(_of_run).get(name),
    )


def several(*names: str) -> tuple[Measure, ...]:
    """Measures by `WORKLOAD.WHAT`."""
    return tuple(of(*name.split(".", 1)) for name in names)
