"""Measures of the study `mice-elephants`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Measure, Reduction, Run, View
from aqmlab.run_charts import gauges
from aqmlab.studies.shared import mean, rows_of

PACKET = 500
"""Packet size in bytes (Table III); headers of ns-2 at that time had no length of their own."""

SHORT_FILE, LONG_FILE = 10, 100
"""Sizes in packets. Short files are at most as large as a short foreground flow. Long files have more than
100 packets. 2.1 % of the files are long, and these files contain 46 % of the bytes."""

SIZE_BINS = tuple(int(edge) for edge in np.unique(np.geomspace(4, 20_000, 16).round()))
"""Lower ends of the bins of file sizes, in packets; the last bin is open."""

BIN_COLUMNS = ("files", "time_s", "packets", "long")
"""Counts of each bin: files completed, the sum of their times, packets sent, and packets sent as long."""

LARGEST_SHARES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
"""Shares of the number of files, largest first, whose share of the bytes is measured."""

QUEUE_STEP_S, RATE_STEP_S, SERIES_STEP_S, SETTLING_STEP_S = 0.5, 1.0, 10.0, 50.0

SHOWN_S = 200.0
"""Time after the warm-up for which the queue is kept for figures, in seconds."""

EVERY_S = {"short": 25.0, "long": 125.0}
"""Period of batches of foreground flows of each size, in seconds."""


def _web(run: Run) -> Mapping[str, Any]:
    view = View(run)
    warm_up_s, end_s = view.window
    everything, line = view.transfers("web"), view.link("bottleneck")
    ours = metrics.measured(everything, warm_up_s)
    done, small = ours.filter(pl.col("complete")), ours.filter(pl.col("segments") <= SHORT_FILE)
    dropped, sent, timeouts = small.select(pl.col("packets_dropped", "packets_sent", "timeouts").sum()).row(0)
    segments, times = done["segments"].to_numpy(), done["duration_s"].to_numpy()
    bins = _by_size(ours)
    return {
        "warm_up_s": warm_up_s,
        "response_s": mean(times),
        "short_file_s": mean(times[segments <= SHORT_FILE]),
        "short_file_beyond_3s": _beyond_3_s(times[segments <= SHORT_FILE]),
        "short_file_drops": 100 * _share(dropped, sent),
        "short_file_timeouts": _share(timeouts, small.height),
        "long_file_s": mean(times[segments > LONG_FILE]),
        "bins": bins,
        "packets_long": 100 * _share(sum(row[3] for row in bins), sum(row[2] for row in bins)),
        "largest": metrics.carried_by_largest(ours["size_bytes"].to_numpy(), LARGEST_SHARES),
        "page_s": mean(view.pages("web")),
        **_foreground(view, "short"),
        **_foreground(view, "long"),
        "goodput_packets": float(run.tables["flows"]["delivered_bytes"].sum()) / PACKET,
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "settling": _settling(everything),
        "refused": 100 * (float(line["drop_fraction"]) + float(line["mark_fraction"])),
        "mean_queue": float(line["mean_queue_packets"]),
        **_queue(run, warm_up_s),
        **_threshold(run, warm_up_s),
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _beyond_3_s(times: metrics.Floats) -> float:
    return 100 * mean((times > 3.0).astype(np.float64))


def _by_size(ours: pl.DataFrame) -> list[list[float]]:
    """The counts of `BIN_COLUMNS` for each bin of sizes."""
    bins = np.searchsorted(SIZE_BINS, ours["segments"].to_numpy(), "right").clip(1) - 1
    time_s = pl.when("complete").then(pl.col("duration_s").fill_null(0.0)).otherwise(0.0)
    columns = ours.select("complete", time_s, "packets_sent", pl.col("packets_long").fill_null(0))
    counted = [np.bincount(bins, column.cast(pl.Float64).to_numpy(), len(SIZE_BINS)) for column in columns]
    return [list(row) for row in zip(*(column.tolist() for column in counted), strict=True)]


def _foreground(view: View, size: str) -> dict[str, Any]:
    """The times of the foreground flows of one size, and the results of each batch. Exp 2 has only one
    size."""
    times, batches = view.times(size), _batches(view.transfers(size), EVERY_S[size], *view.window)
    return {
        f"{size}_probe_s": mean(times),
        f"{size}_probe_spread_s": float(times.std()) if times.size else math.nan,
        f"{size}_probe_beyond_3s": _beyond_3_s(times),
        f"{size}_batches": batches,
        f"{size}_jain": _share(math.fsum(jain for _, _, jain in batches), len(batches)),
    }


def _batches(transfers: pl.DataFrame, every_s: float, warm_up_s: float, end_s: float) -> list[list[float]]:
    """The start, mean time, and Jain's index of rates of each batch that began after warm-up.

    For a flow that is unfinished at the end of the run, the time until the end of the run is used. A batch
    that began less than half a period before the end is omitted.
    """
    start_s, time_s = pl.col("start_s"), pl.col("duration_s").fill_null(end_s - pl.col("start_s"))
    jain = metrics.jain(pl.col("size_bytes") / time_s)
    whole = transfers.filter((start_s >= warm_up_s - 1e-6) & (start_s < end_s - every_s / 2))
    batches = whole.group_by("page").agg(start_s.min(), time_s.mean().alias("mean_s"), jain.alias("jain"))
    return [list(row) for row in batches.sort("page").drop("page").iter_rows()]


def _settling(everything: pl.DataFrame) -> list[list[float]]:
    """Numbers of completed short files and sums of the files' transmission times, by starting time, from the
    beginning of the run."""
    short = everything.filter((pl.col("segments") <= SHORT_FILE) & pl.col("complete"))
    step = (short["start_s"].to_numpy() / SETTLING_STEP_S).astype(np.int64)
    sums = np.bincount(step, short["duration_s"].to_numpy())
    return [np.bincount(step).astype(np.float64).tolist(), sums.tolist()]


def _queue(run: Run, warm_up_s: float) -> dict[str, Any]:
    """The standard deviation of the queue after the warm-up. For the first minutes after the warm-up, also
    the queue length at each step and the fraction of arriving packets that were dropped or marked."""
    samples = run.tables["queue"].filter((pl.col("link") == "bottleneck") & (pl.col("time_s") >= warm_up_s))
    lengths = samples["length_packets"].to_numpy().astype(np.float64)
    shown = samples.filter(pl.col("time_s") <= warm_up_s + SHOWN_S)
    counts = shown.gather_every(round(RATE_STEP_S / QUEUE_STEP_S)).cast({"arrivals": pl.Float64})
    hit = np.diff((counts["drops"] + counts["marks"]).to_numpy().astype(np.float64))
    arrived = np.diff(counts["arrivals"].to_numpy())
    return {
        "queue_spread": float(lengths.std()) if lengths.size else math.nan,
        "queue_series": shown.filter(pl.col("time_s") < warm_up_s + SHOWN_S)["length_packets"].to_list(),
        "refused_series": [float(a / b) if b > 0 else None for a, b in zip(hit, arrived, strict=True)],
    }


def _threshold(run: Run, warm_up_s: float) -> dict[str, Any]:
    """The edge's threshold over time and its mean after the warm-up; empty if there is no edge."""
    edge = gauges.at(run.tables["gauges"], node="left")
    if not edge.height:
        return {"threshold": [], "mean_threshold": math.nan}
    samples = edge.gather_every(round(SERIES_STEP_S / QUEUE_STEP_S)).select("time_s", "threshold")
    after = samples.filter(pl.col("time_s") >= warm_up_s)["threshold"].to_numpy().astype(np.float64)
    return {"threshold": [list(row) for row in samples.iter_rows()], "mean_threshold": mean(after)}


_of_web = Reduction(prefix="mice.web", of=_web).measure

OF_SHORT = (
    SHORT_FILES := _of_web("short_file_s", "mean time of short files", "s"),
    _of_web("short_file_beyond_3s", "short files beyond 3 s", "%"),
    _of_web("short_file_drops", "drops of short files' packets", "%"),
    _of_web("short_file_timeouts", "time-outs per short file"),
    SHORT_FLOWS := _of_web("short_probe_s", "mean time of short foreground flows", "s"),
    SHORT_SPREAD := _of_web(
        "short_probe_spread_s", "standard deviation of the time of short foreground flows", "s"
    ),
    SHORT_BEYOND := _of_web("short_probe_beyond_3s", "short foreground flows beyond 3 s", "%"),
    SHORT_JAIN := _of_web("short_jain", "Jain's index of short batches"),
)
OF_LONG = (
    LONG_FILES := _of_web("long_file_s", "mean time of long files", "s"),
    LONG_FLOWS := _of_web("long_probe_s", "mean time of long foreground flows", "s"),
    LONG_JAIN := _of_web("long_jain", "Jain's index of long batches"),
)
OF_ALL: tuple[Measure | str, ...] = (
    RESPONSE := _of_web("response_s", "mean response time of a file", "s"),
    PAGES := _of_web("page_s", "mean response time of a page", "s"),
    GOODPUT := _of_web("goodput_packets", "goodput", "packets"),
    *("bottleneck.utilisation", "bottleneck.drops"),
    REFUSED := _of_web("refused", "drop and mark rate", "%"),
    MEAN_QUEUE := _of_web("mean_queue", "mean queue", "packets"),
    QUEUE_SPREAD := _of_web("queue_spread", "standard deviation of the queue", "packets"),
    *("web.active", "web.unfinished"),
)
OF_BOTH = (*OF_SHORT, *OF_LONG, *OF_ALL)
WEB = (
    *OF_BOTH,
    WARM_UP := _of_web("warm_up_s", "warm-up", "s"),
    MEAN_THRESHOLD := _of_web("mean_threshold", "mean L_t", "packets"),
    PACKETS_LONG := _of_web("packets_long", "packets that came as long", "%"),
    BINS := _of_web("bins", "files and packets by file size"),
    LARGEST := _of_web("largest", "bytes in the largest files"),
    SHORT_BATCHES := _of_web("short_batches", "batches of short foreground flows"),
    LONG_BATCHES := _of_web("long_batches", "batches of long foreground flows"),
    ACTIVE := _of_web("active", "open transfers over time"),
    SETTLING := _of_web("settling", "short files and their times by when they began"),
    QUEUE_SERIES := _of_web("queue_series", "queue over time"),
    REFUSED_SERIES := _of_web("refused_series", "drop and mark rate over time"),
    THRESHOLD := _of_web("threshold", "threshold over time"),
)

# Loss and transmission time (Fig 1)

TRANSFER_SIZES = (10, 100, 1000)


def _loss(run: Run) -> Mapping[str, float]:
    """Mean and coefficient of variation of the times of each size."""
    view, found = View(run), {}
    for size in TRANSFER_SIZES:
        times = view.times(str(size))
        found[f"mean_{size}"] = mean(times)
        found[f"variation_{size}"] = float(times.std(ddof=1) / times.mean()) if times.size > 1 else math.nan
    return found


_of_loss = Reduction(prefix="mice.loss", of=_loss).measure

TRANSFER_TIME, VARIATION = (
    {size: _of_loss(f"{key}_{size}", f"{what} of {size}-packet flows", unit) for size in TRANSFER_SIZES}
    for key, what, unit in (("mean", "mean time", "s"), ("variation", "coefficient of variation", ""))
)

# Preferential treatment (Table I, Fig 2)

DEMAND = 50_000
"""Number of packets that the short flows offer in a run."""

SHARE_STEP_S, SHARES_FROM_S = 10.0, 20.0


def _classes(run: Run) -> Mapping[str, float]:
    """Packets that arrived, by class."""
    of_classes = (rows_of(run, "flows", name)["delivered_bytes"] for name in ("short", "long"))
    short, long = (float(delivered.sum()) / PACKET for delivered in of_classes)
    return {"short": short, "long": long, "all": short + long, "demand_met": short / DEMAND}


def _packets(run: Run) -> Mapping[str, Any]:
    """The short class's share of the link over time."""
    started = run.tables["packets"].filter(pl.col("event") == "start")
    short = started["flow"].is_in(rows_of(run, "flows", "short")["flow"].implode()).to_numpy()
    step = (started["time_s"].to_numpy() / SHARE_STEP_S).astype(np.int64)
    size = int(metrics.window(run.manifest)[1] / SHARE_STEP_S)
    sizes = started["size_bytes"].to_numpy()
    sent, of_short = (np.bincount(step, sizes * who, size)[:size] for who in (1, short))
    share = of_short / np.maximum(sent, 1.0)
    after = share[round(SHARES_FROM_S / SHARE_STEP_S) :]
    variation = float(after.std(ddof=1) / after.mean()) if after.mean() > 0 else math.nan
    return {"short_share": share.tolist(), "share_variation": variation}


_of_classes = Reduction(prefix="mice.classes", of=_classes).measure
_of_packets = Reduction(prefix="mice.packets", of=_packets).measure

CLASSES = {
    name: _of_classes(name, f"{title} goodput", "packets")
    for name, title in (("all", "total"), ("short", "short"), ("long", "long"))
}
DEMAND_MET = _of_classes("demand_met", "short goodput over demand")
SHORT_SHARE = _of_packets("short_share", "the short class's share of the line over time")
SHARE_VARIATION = _of_packets(
    "share_variation", "coefficient of variation of the short class's share, in bins of 10 s from 20 s on"
)
