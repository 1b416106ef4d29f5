"""Measures of the study `shred`, in addition to those that every scenario has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Measure, Reduction, Run, View
from aqmlab.studies.shared import mean, quantile

RATE_BPS = 10e6
RTT_S = 0.124  # 2 (1 + 60 + 1) ms
INITIAL_WINDOW = 2  # of the profile ns-2.35
LONG_BIN_S = 10.0
SERIES_STEP_S = 0.5
TAIL_AT_S = (1.0, 3.0, 6.0)

GRID = np.unique(np.concatenate([np.geomspace(0.1, 100.0, 241).round(5), np.array(TAIL_AT_S)]))
"""Object times at which distributions are counted, in seconds."""


def _web(run: Run) -> Mapping[str, Any]:
    view = View(run)
    warm_up_s, end_s = view.window
    everything, times, facts = view.transfers("web"), view.times("web"), run.manifest["facts"]["web"]
    ours = metrics.measured(everything, warm_up_s)
    ended, censored = metrics.histograms(ours, GRID, end_s)
    beyond = metrics.survival(ended, censored)
    return {
        "mean_time_s": mean(times),
        "p50_s": quantile(times, 0.5),
        "p90_s": quantile(times, 0.9),
        "slowdown": metrics.slowdown(ours, RTT_S, INITIAL_WINDOW),
        "response_s": mean(view.pages("web")),
        "ended": ended,
        "censored": censored,
        **{f"beyond_{at:g}s": float(beyond[np.searchsorted(GRID, at)]) for at in TAIL_AT_S},
        "drop_percent": metrics.drop_percent_per_flow(ours),
        "short_timeouts": metrics.short_timeouts(ours),
        "mean_active": metrics.mean_active(everything, warm_up_s, end_s),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "goodput_mbps": sum(metrics.goodput_bps(view.flows(name)) for name in ("web", "ftp")) / 1e6,
        "realised_load": round(100 * facts["realised_load"], 2),
        "payload_load": 100 * (float(ours["size_bytes"].sum()) * 8 / (end_s - warm_up_s)) / RATE_BPS,
        "mean_object_bytes": round(facts["mean_object_bytes"], 2),
        "objects_per_second": ours.height / (end_s - warm_up_s),
    }


_of_web = Reduction(prefix="shred.web", of=_web).measure

OFFERED: tuple[Measure, ...] = (
    _of_web("realised_load", "realised on the wire", "%"),
    _of_web("payload_load", "realised, payload", "%"),
    _of_web("mean_object_bytes", "mean object", "B"),
    _of_web("objects_per_second", "objects per second"),
)
"""Measures of the load that the Web traffic actually offered."""

WEB: tuple[Measure | str, ...] = (
    MEAN_TIME := _of_web("mean_time_s", "mean object time", "s"),
    MEDIAN := _of_web("p50_s", "median object time", "s"),
    P90 := _of_web("p90_s", "90th percentile of object times", "s"),
    SLOWDOWN := _of_web("slowdown", "mean of time over ideal time"),
    RESPONSE := _of_web("response_s", "mean page time", "s"),
    ENDED := _of_web("ended", "objects done by time"),
    CENSORED := _of_web("censored", "objects not done by time"),
    *(BEYOND := tuple(_of_web(f"beyond_{at:g}s", f"share of objects beyond {at:g} s") for at in TAIL_AT_S)),
    DROP_PERCENT := _of_web("drop_percent", "packets dropped per Web flow", "%"),
    SHORT_TIMEOUTS := _of_web("short_timeouts", "time-outs per short flow"),
    MEAN_ACTIVE := _of_web("mean_active", "open transfers"),
    ACTIVE := _of_web("active", "open transfers over time"),
    GOODPUT := _of_web("goodput_mbps", "goodput of all flows", "Mb/s"),
    *("web.p99-time", "web.unfinished", "bottleneck.utilisation", "bottleneck.mean-queueing-delay"),
    *OFFERED,
)


def _ftp(run: Run) -> Mapping[str, Any]:
    view = View(run)
    flows, warm_up_s = view.flows("ftp"), view.window[0]
    drops, queue = (run.tables[name].filter(pl.col("link") == "bottleneck") for name in ("drops", "queue"))
    return {
        "goodput_mbps": metrics.goodput_bps(flows) / 1e6,
        "jain": float(flows.select(metrics.jain(pl.col("goodput_bps"))).item()),
        "synchronisation": metrics.loss_synchronisation(drops, flows, RTT_S, warm_up_s),
        "drop_run": mean(metrics.drop_runs(drops, warm_up_s).astype(np.float64)),
        "largest_burst": metrics.largest_burst(queue, drops, RTT_S, warm_up_s),
    }


_of_ftp = Reduction(prefix="shred.ftp", of=_ftp).measure

FTP = (
    FTP_ALONE := _of_ftp("goodput_mbps", "goodput", "Mb/s"),
    JAIN := _of_ftp("jain", "Jain's index"),
    SYNCHRONISATION := _of_ftp("synchronisation", "share of flows hit per loss event"),
    DROP_RUN := _of_ftp("drop_run", "mean length of a run of drops", "packets"),
    LARGEST_BURST := _of_ftp("largest_burst", "largest burst accepted", "packets"),
)


def _long(run: Run) -> Mapping[str, Any]:
    """Object times by the time at which the object began, in bins of ten seconds."""
    period = (pl.col("start_s") / LONG_BIN_S).floor().cast(pl.Int64).alias("bin")
    done = View(run).transfers("web").filter(pl.col("complete")).group_by(period)
    bins = done.agg(pl.len().alias("count"), pl.col("duration_s").sum().alias("sum_s")).sort("bin")
    return {"bins": bins.to_dict(as_series=False)}


BINS = Reduction(prefix="shred.long", of=_long).measure("bins", "object times by when the object began")


def _lost(run: Run) -> Mapping[str, Any]:
    return {"timeouts": run.tables["transfers"]["timeouts"][0]}


LOST_TIMEOUTS = Reduction(prefix="shred.lost", of=_lost).measure("timeouts", "time-outs")
