"""What the runs of the study `shred` are reduced to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Reduction, Run
from aqmlab.studies.shared import mean, rows_of

RATE_BPS = 10e6
RTT_S = 0.124  # 2 (1 + 60 + 1) ms
INITIAL_WINDOW = 2  # of the profile ns-2.35
LONG_BIN_S = 10.0
SERIES_STEP_S = 0.5
TAIL_AT_S = (1.0, 3.0, 6.0)

GRID = np.unique(np.concatenate([np.geomspace(0.1, 100.0, 241).round(5), np.array(TAIL_AT_S)]))
"""Object times at which distributions are counted, in seconds."""

# Runs with Web traffic


def _web(run: Run) -> Mapping[str, Any]:
    warm_up_s, end_s = metrics.window(run.manifest)
    everything = rows_of(run, "transfers", "web")
    ours = metrics.measured(everything, warm_up_s)
    times = metrics.completed_times(everything, warm_up_s)
    ended, censored = metrics.histograms(ours, GRID, end_s)
    beyond = metrics.survival(ended, censored)
    p50, p90, p99 = np.quantile(times, [0.5, 0.9, 0.99]) if times.size else (math.nan,) * 3
    web, ftp = (metrics.measured_flows(run.tables["flows"], name, warm_up_s) for name in ("web", "ftp"))
    line = metrics.link(run.tables["links"], "bottleneck")
    offered = float(ours["size_bytes"].sum()) * 8 / (end_s - warm_up_s)
    return {
        "count": int(ours.height),
        "unfinished": int(ours.height - times.size),
        "mean_time_s": mean(times),
        "p50_s": float(p50),
        "p90_s": float(p90),
        "p99_s": float(p99),
        "slowdown": metrics.slowdown(ours, RTT_S, INITIAL_WINDOW),
        "response_s": mean(metrics.completed_times(rows_of(run, "pages", "web"), warm_up_s)),
        "ended": ended,
        "censored": censored,
        **{f"beyond_{at:g}s": float(beyond[np.searchsorted(GRID, at)]) for at in TAIL_AT_S},
        "drop_percent": metrics.drop_percent_per_flow(ours),
        "short_timeouts": metrics.short_timeouts(ours),
        "mean_active": metrics.mean_active(everything, warm_up_s, end_s),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "payload_load": 100 * offered / RATE_BPS,
        "goodput_mbps": (metrics.goodput_bps(web) + metrics.goodput_bps(ftp)) / 1e6,
        "ftp_goodput_mbps": metrics.goodput_bps(ftp) / 1e6,
        "utilisation": 100 * float(line["utilisation"]),
        "queue_delay_ms": 1000 * float(line["mean_queue_delay_s"] or 0.0),
        "facts": dict(run.manifest.get("facts", {}).get("web", {})),
    }


_of_web = Reduction(prefix="shred.web", of=_web).measure

COUNT = _of_web("count", "objects")
UNFINISHED = _of_web("unfinished", "unfinished")
MEAN_TIME = _of_web("mean_time_s", "mean object time", "s")
MEDIAN = _of_web("p50_s", "median object time", "s")
P90 = _of_web("p90_s", "90th percentile of object times", "s")
P99 = _of_web("p99_s", "99th percentile of object times", "s")
SLOWDOWN = _of_web("slowdown", "mean of time over ideal time")
RESPONSE = _of_web("response_s", "mean page time", "s")
ENDED = _of_web("ended", "objects done by time")
CENSORED = _of_web("censored", "objects not done by time")
BEYOND = tuple(_of_web(f"beyond_{at:g}s", f"share of objects beyond {at:g} s") for at in TAIL_AT_S)
DROP_PERCENT = _of_web("drop_percent", "packets dropped per Web flow", "%")
SHORT_TIMEOUTS = _of_web("short_timeouts", "time-outs per short flow")
MEAN_ACTIVE = _of_web("mean_active", "open transfers")
ACTIVE = _of_web("active", "open transfers over time")
PAYLOAD_LOAD = _of_web("payload_load", "realised load, payload", "%")
GOODPUT = _of_web("goodput_mbps", "goodput of all flows", "Mb/s")
FTP_GOODPUT = _of_web("ftp_goodput_mbps", "FTP goodput", "Mb/s")
UTILISATION = _of_web("utilisation", "utilisation", "%")
QUEUE_DELAY = _of_web("queue_delay_ms", "queue delay", "ms")
FACTS = _of_web("facts", "what the workload says of itself")

WEB = (
    *(COUNT, UNFINISHED, MEAN_TIME, MEDIAN, P90, P99, SLOWDOWN, RESPONSE, ENDED, CENSORED, *BEYOND),
    *(DROP_PERCENT, SHORT_TIMEOUTS, MEAN_ACTIVE, ACTIVE, PAYLOAD_LOAD, GOODPUT, FTP_GOODPUT),
    *(UTILISATION, QUEUE_DELAY, FACTS),
)

# Runs with FTP alone


def _ftp(run: Run) -> Mapping[str, Any]:
    warm_up_s, _ = metrics.window(run.manifest)
    flows = metrics.measured_flows(run.tables["flows"], "ftp", warm_up_s)
    drops = run.tables["drops"].filter(pl.col("link") == "bottleneck")
    queue = run.tables["queue"].filter(pl.col("link") == "bottleneck")
    lengths = metrics.drop_runs(drops, warm_up_s)
    return {
        "goodput_mbps": metrics.goodput_bps(flows) / 1e6,
        "jain": float(flows.select(metrics.jain(pl.col("goodput_bps"))).item()),
        "synchronisation": metrics.loss_synchronisation(drops, flows, RTT_S, warm_up_s),
        "drop_run": mean(lengths.astype(np.float64)),
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

# Single runs


def _long(run: Run) -> Mapping[str, Any]:
    """Object times by the time the object began, in bins of ten seconds."""
    place = (pl.col("start_s") / LONG_BIN_S).floor().cast(pl.Int64).alias("bin")
    bins = (
        rows_of(run, "transfers", "web")
        .filter(pl.col("complete"))
        .group_by(place)
        .agg(pl.len().alias("count"), pl.col("duration_s").sum().alias("sum_s"))
        .sort("bin")
    )
    return {"bins": bins.to_dict(as_series=False)}


BINS = Reduction(prefix="shred.long", of=_long).measure("bins", "object times by when the object began")


def _lost(run: Run) -> Mapping[str, Any]:
    """The time of the one object."""
    transfer = run.tables["transfers"].row(0, named=True)
    return {"time_s": transfer["duration_s"], "timeouts": transfer["timeouts"]}


_of_lost = Reduction(prefix="shred.lost", of=_lost).measure
LOST_TIME = _of_lost("time_s", "object transmission time", "s")
LOST_TIMEOUTS = _of_lost("timeouts", "time-outs")
