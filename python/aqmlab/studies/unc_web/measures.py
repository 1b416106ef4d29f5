"""What the runs of the study `unc-web` are reduced to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.comparison.calibrate import UNCONGESTED
from aqmlab.measures import Measure, Reduction, Run
from aqmlab.studies.shared import mean, rows_of

WAYS = ("forward", "reverse")

GRID = np.geomspace(1e-3, 200.0, 200)
"""Response times at which distributions are counted, in seconds."""

SIZE_CLASSES = (0, 1460, 10_000, 100_000)
"""Lower ends of the classes of response sizes, in bytes, themselves not included; the last one is open."""

FEW_SEGMENTS = 8
SMALL_PACKET = 100
"""Bytes on the wire below which a packet carries no data to speak of: it opens, acknowledges or closes."""

SERIES_STEP_S = 5.0


def _calibration(run: Run) -> Mapping[str, Any]:
    """The load that was offered, as a share of the real line."""
    used = [metrics.link(run.tables["links"], name)["utilisation"] for name in WAYS]
    return {"load": UNCONGESTED * math.fsum(used) / len(used)}


OFFERED = Reduction(prefix="unc.calibration", of=_calibration).measure("load", "offered load")

# Requests served in one direction


def distribution(transfers: pl.DataFrame, end_s: float) -> list[float]:
    """The share of responses that arrived within each time of the grid, those not finished allowed for."""
    beyond = metrics.survival(*metrics.histograms(transfers, GRID, end_s))
    return [round(float(share), 7) for share in 1.0 - beyond]


def _responses(run: Run, *, way: str) -> Mapping[str, Any]:
    warm_up_s, end_s = metrics.window(run.manifest)
    everything = rows_of(run, "transfers", way)
    ours = metrics.measured(everything, warm_up_s)
    done = ours.filter(pl.col("complete"))
    times = done["duration_s"].to_numpy()
    quantiles = np.quantile(times, [0.5, 0.95, 0.99]) if times.size else np.full(3, math.nan)
    return {
        "count": ours.height,
        "unfinished": ours.height - done.height,
        "cdf": distribution(ours, end_s),
        "mean_s": mean(times),
        **dict(zip(("median_s", "p95_s", "p99_s"), map(float, quantiles), strict=True)),
        "class_median_s": _medians_by_size(done),
        **_repairs(ours),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "mean_response_bytes": run.manifest["facts"][way]["mean_response_bytes"],
    }


def _medians_by_size(done: pl.DataFrame) -> list[float]:
    """The median time of responses in each class of sizes; NaN of none."""
    place = np.searchsorted(SIZE_CLASSES, done["size_bytes"].to_numpy(), "left") - 1
    times = done["duration_s"].to_numpy()
    classes = [times[place == one] for one in range(len(SIZE_CLASSES))]
    return [float(np.median(one)) if one.size else math.nan for one in classes]


def _repairs(ours: pl.DataFrame) -> Mapping[str, float]:
    """What was sent again, in segments of data of which nearly all are full, and how it was found."""
    several = (
        (pl.col("timeouts") == 0)
        & (pl.col("fast_retransmits") > 0)
        & (pl.col("retransmitted") > pl.col("fast_retransmits"))
    )
    few, repaired = ours.select(
        (pl.col("segments") < FEW_SEGMENTS).mean().alias("few"), several.mean().alias("several")
    ).row(0)
    again, timeouts = ours.select(pl.col("retransmitted", "timeouts").sum()).row(0)
    thousands = ours.height / 1000
    return {
        "few_segments": few,
        "several_holes": repaired,
        "again": float(again),
        "again_per_1000": again / thousands if thousands else math.nan,
        "timeouts_per_1000": timeouts / thousands if thousands else math.nan,
    }


_of_responses = Reduction(prefix="unc.web", of=partial(_responses, way="forward")).measure

COUNT = _of_responses("count", "pairs measured")
UNFINISHED = _of_responses("unfinished", "requests not finished at the end")
CDF = _of_responses("cdf", "share of requests done by time")
MEAN = _of_responses("mean_s", "mean response time", "s")
MEDIAN = _of_responses("median_s", "median response time", "s")
P95 = _of_responses("p95_s", "95th percentile of the response time", "s")
P99 = _of_responses("p99_s", "99th percentile of the response time", "s")
CLASS_MEDIANS = _of_responses("class_median_s", "median response time by size")
FEW = _of_responses("few_segments", f"share of responses of fewer than {FEW_SEGMENTS} segments")
SEVERAL_HOLES = _of_responses("several_holes", "share of connections that SACK repaired")
AGAIN = _of_responses("again", "segments sent again")
AGAIN_PER_1000 = _of_responses("again_per_1000", "segments sent again per 1000 responses")
TIMEOUTS = _of_responses("timeouts_per_1000", "time-outs per 1000 responses")
ACTIVE = _of_responses("active", "open requests over time")
MEAN_RESPONSE = _of_responses("mean_response_bytes", "mean response", "B")

# The line in one direction


def _line(run: Run, *, way: str) -> Mapping[str, Any]:
    line = metrics.link(run.tables["links"], way)
    warm_up_s, _ = metrics.window(run.manifest)
    drops = run.tables["drops"].filter((pl.col("link") == way) & (pl.col("time_s") >= warm_up_s))
    small = (drops["size_bytes"].to_numpy() < SMALL_PACKET).astype(np.float64)
    return {
        "utilisation": float(line["utilisation"]),
        "drop_fraction": float(line["drop_fraction"]),
        "mark_fraction": float(line["mark_fraction"]),
        "mean_queue": float(line["mean_queue_packets"]),
        "queue_delay_s": float(line["mean_queue_delay_s"] or 0.0),
        "small_drops": mean(small),
    }


_of_line = Reduction(prefix="unc.line", of=partial(_line, way="forward")).measure

UTILISATION = _of_line("utilisation", "share of time the line was busy")
DROPPED = _of_line("drop_fraction", "share of packets dropped")
MARKED = _of_line("mark_fraction", "share of packets marked")
QUEUE = _of_line("mean_queue", "mean queue", "packets")
WAIT = _of_line("queue_delay_s", "mean wait in the queue", "s")
SMALL_DROPS = _of_line("small_drops", "share of drops that carry no data")

# The other way

_of_reverse = Reduction(prefix="unc.web.reverse", of=partial(_responses, way="reverse")).measure
_of_reverse_line = Reduction(prefix="unc.line.reverse", of=partial(_line, way="reverse")).measure

REVERSE: Mapping[Measure, Measure] = {
    MEDIAN: _of_reverse("median_s", MEDIAN.title, "s"),
    P95: _of_reverse("p95_s", P95.title, "s"),
    MEAN_RESPONSE: _of_reverse("mean_response_bytes", MEAN_RESPONSE.title, "B"),
    DROPPED: _of_reverse_line("drop_fraction", DROPPED.title),
    UTILISATION: _of_reverse_line("utilisation", UTILISATION.title),
}
"""What is measured both ways, by what it is forward."""

WEB = (
    *(COUNT, UNFINISHED, CDF, MEAN, MEDIAN, P95, P99, CLASS_MEDIANS, FEW, SEVERAL_HOLES, AGAIN),
    *(AGAIN_PER_1000, TIMEOUTS, ACTIVE, MEAN_RESPONSE),
    *(UTILISATION, DROPPED, MARKED, QUEUE, WAIT, SMALL_DROPS),
    *REVERSE.values(),
)
