"""Measures of the study `unc-web`, in addition to those that every scenario has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.comparison.calibrate import UNCONGESTED
from aqmlab.measures import Measure, Reduction, Run, View
from aqmlab.studies.shared import mean, quantile

WAYS = ("forward", "reverse")

GRID = np.geomspace(1e-3, 200.0, 200)
"""Response times at which distributions are counted, in seconds."""

SIZE_CLASSES = (0, 1460, 10_000, 100_000)
"""Lower ends (exclusive) of the classes of response sizes, in bytes; the last class is open."""

FEW_SEGMENTS = 8
SMALL_PACKET = 100
"""Size on the wire in bytes below which a packet has no or almost no data: SYN, ACK or FIN."""

SERIES_STEP_S = 5.0


def _calibration(run: Run) -> Mapping[str, Any]:
    """The offered load, as a share of the real link's rate."""
    used = [metrics.link(run.tables["links"], name)["utilisation"] for name in WAYS]
    return {"load": UNCONGESTED * math.fsum(used) / len(used)}


OFFERED = Reduction(prefix="unc.calibration", of=_calibration).measure("load", "offered load")


def distribution(transfers: pl.DataFrame, end_s: float) -> list[float]:
    """The share of responses that arrived within each time of the grid, corrected for unfinished
    responses."""
    beyond = metrics.survival(*metrics.histograms(transfers, GRID, end_s))
    return [round(float(share), 7) for share in 1.0 - beyond]


def _responses(run: Run, *, way: str) -> Mapping[str, Any]:
    view = View(run)
    warm_up_s, end_s = view.window
    everything, times = view.transfers(way), view.times(way)
    ours = metrics.measured(everything, warm_up_s)
    return {
        "count": ours.height,
        "cdf": distribution(ours, end_s),
        "median_s": quantile(times, 0.5),
        "p95_s": quantile(times, 0.95),
        "class_median_s": _medians_by_size(ours.filter(pl.col("complete"))),
        **_repairs(ours),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "mean_response_bytes": run.manifest["facts"][way]["mean_response_bytes"],
    }


def _medians_by_size(done: pl.DataFrame) -> list[float]:
    """The median time of responses in each class of sizes; NaN for an empty class."""
    size_class = np.searchsorted(SIZE_CLASSES, done["size_bytes"].to_numpy(), "left") - 1
    times = done["duration_s"].to_numpy()
    classes = [times[size_class == one] for one in range(len(SIZE_CLASSES))]
    return [float(np.median(one)) if one.size else math.nan for one in classes]


def _repairs(ours: pl.DataFrame) -> Mapping[str, float]:
    """Number of retransmissions, in data segments (nearly all of which are full), and how losses were
    detected."""
    timeouts, fast, again = (pl.col(name) for name in ("timeouts", "fast_retransmits", "retransmitted"))
    found = ours.select(
        few_segments=(pl.col("segments") < FEW_SEGMENTS).mean(),
        several_holes=((timeouts == 0) & (fast > 0) & (again > fast)).mean(),
        again=again.sum().cast(pl.Float64),
        timeouts=timeouts.sum(),
    ).row(0, named=True)
    thousands = ours.height / 1000 or math.nan
    return {
        **found,
        "again_per_1000": found["again"] / thousands,
        "timeouts_per_1000": found["timeouts"] / thousands,
    }


_of_responses = Reduction(prefix="unc.web", of=partial(_responses, way="forward")).measure
_of_reverse = Reduction(prefix="unc.web.reverse", of=partial(_responses, way="reverse")).measure


def _link(run: Run, *, way: str) -> Mapping[str, Any]:
    view = View(run)
    link, at_s = view.link(way), view.window[0]
    drops = run.tables["drops"].filter((pl.col("link") == way) & (pl.col("time_s") >= at_s))
    return {
        "drop_fraction": float(link["drop_fraction"]),
        "mean_queue": float(link["mean_queue_packets"]),
        "small_drops": mean((drops["size_bytes"].to_numpy() < SMALL_PACKET).astype(np.float64)),
    }


_of_line = Reduction(prefix="unc.line", of=partial(_link, way="forward")).measure
_of_reverse_line = Reduction(prefix="unc.line.reverse", of=partial(_link, way="reverse")).measure

WEB: tuple[Measure | str, ...] = (
    COUNT := _of_responses("count", "pairs measured"),
    CDF := _of_responses("cdf", "share of requests done by time"),
    MEDIAN := _of_responses("median_s", "median response time", "s"),
    P95 := _of_responses("p95_s", "95th percentile of the response time", "s"),
    CLASS_MEDIANS := _of_responses("class_median_s", "median response time by size"),
    FEW := _of_responses("few_segments", f"share of responses of fewer than {FEW_SEGMENTS} segments"),
    SEVERAL_HOLES := _of_responses("several_holes", "share of connections that SACK repaired"),
    AGAIN := _of_responses("again", "segments sent again"),
    AGAIN_PER_1000 := _of_responses("again_per_1000", "segments sent again per 1000 responses"),
    TIMEOUTS := _of_responses("timeouts_per_1000", "time-outs per 1000 responses"),
    ACTIVE := _of_responses("active", "open requests over time"),
    MEAN_RESPONSE := _of_responses("mean_response_bytes", "mean response", "B"),
    DROPPED := _of_line("drop_fraction", "share of packets dropped"),
    QUEUE := _of_line("mean_queue", "mean queue", "packets"),
    SMALL_DROPS := _of_line("small_drops", "share of drops that carry no data"),
    P95_REVERSE := _of_reverse("p95_s", "95th percentile of the response time", "s"),
    MEAN_RESPONSE_REVERSE := _of_reverse("mean_response_bytes", "mean response", "B"),
    DROPPED_REVERSE := _of_reverse_line("drop_fraction", "share of packets dropped"),
    *(MEAN := "forward.mean-time", P99 := "forward.p99-time", UNFINISHED := "forward.unfinished"),
    *(MARKED := "forward.marks", WAIT := "forward.mean-queueing-delay"),
    *(UTILISATION := "forward.utilisation", "reverse.utilisation", "reverse.median-time"),
)
