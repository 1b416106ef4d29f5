"""The runs of the study `shred`: scenarios, sweeps, and what each run is reduced to."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.grid import Grid, Reduction
from aqmlab.measure import Run
from aqmlab.publication import Variant
from aqmlab.studies.shared import Change, constant, keep, mean, queue_with, rows_of, tcp_with

QUEUES = ("Drop Tail", "RED", "SHRED")
REFERENCE = "uncongested"
WITH_REFERENCE = (*QUEUES, REFERENCE)

RED = {
    "min_th": "30p",
    "max_th": "90p",
    "max_p": 0.1,
    "weight": 0.0008,
    "limit": "225p",
    "mean_packet": "974B",
    "gentle": True,
    "spacing": "no-wait",
}  # slide 17; gentle: slide 12; spacing: slide 7

DISCIPLINES: dict[str, dict[str, Any]] = {
    "Drop Tail": {"kind": "drop-tail", "limit": "225p"},
    "RED": {"kind": "red", **RED},
    "SHRED": {"kind": "shred", "window_weight": 0.002, "floor": "zero", "red": RED},
    REFERENCE: {"kind": "drop-tail", "limit": "100000p"},
}

PI = {"q_ref": "60p", "limit": "225p", "mean_packet": "974B"}  # RED's target: midway between its thresholds

HINT_ON_PI: dict[str, dict[str, Any]] = {
    "PI": {"kind": "pi", **PI},
    "PISA": {"kind": "pisa", "window_weight": 0.002, "pi": PI},
    "PIMC": {"kind": "pimc", "pi": PI},
}

RATE_BPS = 10e6
RTT_S = 0.124  # 2 (1 + 60 + 1) ms
INITIAL_WINDOW = 2  # of the profile ns-2.35
WARM_UP_S = 20.0
DURATION_S = 160.0
LONG_BIN_S = 10.0
SERIES_STEP_S = 0.5

TAIL_AT_S = (1.0, 3.0, 6.0)
GRID = np.unique(np.concatenate([np.geomspace(0.1, 100.0, 241).round(5), np.array(TAIL_AT_S)]))
"""Object times at which distributions are counted, in seconds."""


def scenario(
    *,
    queue: str,
    web: float = 0.0,
    ftp: int = 0,
    objects: int = 1,
    duration: str = "160s",
    record: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The dumbbell of slide 17 with a share of Web traffic and a number of permanent FTP flows.

    `uncongested` is the same Web arrivals without FTP on a bottleneck ten times as fast.
    """
    reference = queue == REFERENCE
    traffic: dict[str, Any] = {}
    if web > 0:
        # A load is a share of the bottleneck's rate: a tenth of it on a line ten times as fast.
        traffic["web"] = _web(web / 10 if reference else web, objects)
    if ftp > 0 and not reference:
        traffic["ftp"] = {"kind": "ftp", "flows": ftp, "stagger": "10s"}
    return {
        "duration": duration,
        "warm_up": "20s",
        "bottleneck": {
            "rate": "100Mbps" if reference else "10Mbps",
            "delay": "60ms",
            "queue": copy.deepcopy((DISCIPLINES | HINT_ON_PI)[queue]),
        },
        "access": {"rate": "100Mbps", "delay": "1ms"},
        "tcp": {"profile": "ns-2.35", "connection": {"mss": "934B"}, "receiver": {"window": 10_000}},
        "traffic": traffic,
        "record": record or {"drops": False, "queue_every": "0s"},
    }


def _web(load: float, objects: int) -> dict[str, Any]:
    """Pages of one object, or of 1 to `objects` at random."""
    several = {"kind": "discrete-uniform", "minimum": 1, "maximum": objects}
    pages = {"objects": {"kind": "constant", "value": 1} if objects == 1 else several}
    return {"kind": "web", "load": load, **pages}


def _web_only(*, queue: str, web: float, objects: int = 1) -> dict[str, Any]:
    return scenario(queue=queue, web=web, objects=objects)


def _mixed(*, queue: str, web: float, ftp: int = 10, objects: int = 1) -> dict[str, Any]:
    return scenario(queue=queue, web=web, ftp=ftp, objects=objects)


def _ftp_mixed(*, queue: str, ftp: int) -> dict[str, Any]:
    return scenario(queue=queue, web=0.5, ftp=ftp)


def _ftp_only(*, queue: str, ftp: int) -> dict[str, Any]:
    return scenario(queue=queue, ftp=ftp, record={"drops": True, "queue_every": "20ms"})


def _hint_on_pi(*, queue: str) -> dict[str, Any]:
    """70 % Web and 10 FTP flows, with time for PI to find its probability: it is slow by design."""
    return scenario(queue=queue, web=0.7, ftp=10, duration="240s") | {"warm_up": "100s"}


def _long(*, queue: str, mix: str) -> dict[str, Any]:
    traffic = {"Web 100 %": {"web": 1.0}, "Web 70 % + 10 FTP": {"web": 0.7, "ftp": 10}}[mix]
    return scenario(queue=queue, duration="1000s", **traffic)  # type: ignore[arg-type]


def _lost(*, lost: str) -> dict[str, Any]:
    """One object of ten segments alone on the line; the named packet is lost, everything else arrives."""
    table = scenario(queue="Drop Tail", record={"drops": True, "queue_every": "0s"})
    places = {"none": [], "SYN": [1]}.get(lost)
    packets = [int(lost) + 1] if places is None else places
    queue: dict[str, Any] = {"kind": "drop-nth", "packets": packets} if packets else DISCIPLINES["Drop Tail"]
    table["bottleneck"]["queue"] = dict(queue)
    table["traffic"] = {"object": {"kind": "ftp", "flows": 1, "stagger": "0s", "sizes": constant(9340)}}
    return table | {"duration": "60s", "warm_up": "0s", "host": {"jitter": "0s"}}


def _sizes(*, queue: str, web: float, sizes: str) -> dict[str, Any]:
    truncation, calibration = SIZES[sizes]
    table = scenario(queue=queue, web=web)
    table["traffic"]["web"]["sizes"] = {**OBJECT_SIZES, "truncation": truncation, "calibration": calibration}
    return table


def web_measures(run: Run) -> Reduction:
    """What figures and claims need of a run with Web traffic."""
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
    pages = metrics.completed_times(rows_of(run, "pages", "web"), warm_up_s)
    sums = ours.select(pl.col("packets_dropped", "packets_sent").sum()).row(0)
    return {
        "count": int(ours.height),
        "unfinished": int(ours.height - times.size),
        "mean_time_s": mean(times),
        "p50_s": float(p50),
        "p90_s": float(p90),
        "p99_s": float(p99),
        "slowdown": metrics.slowdown(ours, RTT_S, INITIAL_WINDOW),
        "response_s": mean(pages),
        "ended": ended,
        "censored": censored,
        **{f"beyond_{at:g}s": float(beyond[np.searchsorted(GRID, at)]) for at in TAIL_AT_S},
        "drop_percent": metrics.drop_percent_per_flow(ours),
        "drop_percent_of_packets": 100.0 * sums[0] / sums[1] if sums[1] else math.nan,
        "short_timeouts": metrics.short_timeouts(ours),
        "mean_active": metrics.mean_active(everything, warm_up_s, end_s),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "payload_load": offered / RATE_BPS,
        "goodput_bps": metrics.goodput_bps(web) + metrics.goodput_bps(ftp),
        "ftp_goodput_bps": metrics.goodput_bps(ftp),
        "utilisation": float(line["utilisation"]),
        "drop_fraction": float(line["drop_fraction"]),
        "queue_delay_s": float(line["mean_queue_delay_s"] or 0.0),
        "tied_fraction": float(line["tied_fraction"]),
        "facts": dict(run.manifest.get("facts", {}).get("web", {})),
    }


def ftp_measures(run: Run) -> Reduction:
    """What the tables of FTP alone and the claim on loss synchronisation need."""
    warm_up_s, _ = metrics.window(run.manifest)
    flows = metrics.measured_flows(run.tables["flows"], "ftp", warm_up_s)
    line = metrics.link(run.tables["links"], "bottleneck")
    drops = run.tables["drops"].filter(pl.col("link") == "bottleneck")
    queue = run.tables["queue"].filter(pl.col("link") == "bottleneck")
    lengths = metrics.drop_runs(drops, warm_up_s)
    return {
        "goodput_mbps": metrics.goodput_bps(flows) / 1e6,
        "jain": float(flows.select(metrics.jain(pl.col("goodput_bps"))).item()),
        "utilisation": float(line["utilisation"]),
        "drop_fraction": float(line["drop_fraction"]),
        "queue_delay_s": float(line["mean_queue_delay_s"] or 0.0),
        "synchronisation": metrics.loss_synchronisation(drops, flows, RTT_S, warm_up_s),
        "drop_run": mean(lengths.astype(np.float64)),
        "longest_drop_run": float(lengths.max()) if lengths.size else math.nan,
        "largest_burst": metrics.largest_burst(queue, drops, RTT_S, warm_up_s),
    }


def long_measures(run: Run) -> Reduction:
    """Object times by the time the object began, and open transfers, in bins of ten seconds."""
    _, end_s = metrics.window(run.manifest)
    transfers = rows_of(run, "transfers", "web")
    place = (pl.col("start_s") / LONG_BIN_S).floor().cast(pl.Int64).alias("bin")
    bins = (
        transfers.filter(pl.col("complete"))
        .group_by(place)
        .agg(pl.len().alias("count"), pl.col("duration_s").sum().alias("sum"))
        .sort("bin")
    )
    active = metrics.active_series(transfers, SERIES_STEP_S, end_s)
    return {
        "bin": bins["bin"].to_list(),
        "count": bins["count"].to_list(),
        "sum_s": bins["sum"].to_list(),
        "active": active.tolist(),
        "settled_after_s": _settled(active),
    }


def lost_measures(run: Run) -> Reduction:
    """The time of the one object."""
    transfer = run.tables["transfers"].row(0, named=True)
    return {
        "time_s": transfer["duration_s"],
        "timeouts": transfer["timeouts"],
        "dropped": transfer["packets_dropped"],
    }


def _settled(active: Any) -> float:
    cut = metrics.mser5(active.astype(np.float64))
    return math.nan if cut is None else cut * SERIES_STEP_S


OBJECT_SIZES: dict[str, Any] = {
    "kind": "lomax",
    "mean": "10kB",
    "shape": 1.2,
    "minimum": "12B",
    "maximum": "2MB",
}
SIZES = {
    "cut, mean 10 kB": ("clip", "exact"),
    "redrawn, mean 10 kB": ("redraw", "exact"),
    "cut, 10 kB before the cut": ("clip", "nominal"),
    "redrawn, 10 kB before the cut": ("redraw", "nominal"),
}
"""Readings of "mean 10 KB, min 12 bytes, max 2 MB"; the first is the one we use."""

WEB_LOADS = (0.4, 0.5, 0.6, 0.7, 0.8)
FTP_MIXED = (0, 5, 10, 20, 30, 40)
FTP_ONLY = tuple(range(10, 101, 10))
PAGES = (8, 16, 32)
MIXES = ("Web 100 %", "Web 70 % + 10 FTP")
LOST = ("none", "SYN", *(str(k) for k in range(1, 11)))

SWEEPS = (
    Grid(
        name="web-only",
        axes={"queue": WITH_REFERENCE, "web": (1.0,)},
        scenario=_web_only,
        reduce=web_measures,
    ),
    Grid(
        name="sizes",
        axes={"sizes": tuple(SIZES), "queue": ("RED",), "web": (1.0,)},
        scenario=_sizes,
        reduce=web_measures,
    ),
    Grid(
        name="web-only-pages",
        axes={"queue": WITH_REFERENCE, "objects": PAGES, "web": (1.0,)},
        scenario=_web_only,
        reduce=web_measures,
        quick_axes={"objects": (8, 32)},
    ),
    Grid(
        name="web-mixed",
        axes={"queue": WITH_REFERENCE, "web": WEB_LOADS},
        scenario=_mixed,
        reduce=web_measures,
    ),
    Grid(
        name="web-mixed-pages",
        axes={"queue": WITH_REFERENCE, "objects": PAGES, "web": (0.7,)},
        scenario=_mixed,
        reduce=web_measures,
        quick_axes={"objects": (8, 32)},
    ),
    Grid(
        name="web-mixed-pages-by-load",
        axes={"queue": WITH_REFERENCE, "objects": (8,), "web": WEB_LOADS},
        scenario=_mixed,
        reduce=web_measures,
        quick_axes={"web": (0.4, 0.7)},
    ),
    Grid(
        name="ftp-mixed",
        axes={"queue": WITH_REFERENCE, "ftp": FTP_MIXED},
        scenario=_ftp_mixed,
        reduce=web_measures,
        quick_axes={"ftp": (0, 10, 20, 40)},
    ),
    Grid(
        name="ftp-only",
        axes={"queue": QUEUES, "ftp": FTP_ONLY},
        scenario=_ftp_only,
        reduce=ftp_measures,
        quick_axes={"ftp": (10, 40, 70, 100)},
    ),
    Grid(
        name="hint-on-pi",
        axes={"queue": ("RED", "SHRED", *HINT_ON_PI)},
        scenario=_hint_on_pi,
        reduce=web_measures,
    ),
    Grid(name="long", axes={"mix": MIXES, "queue": QUEUES}, scenario=_long, reduce=long_measures, seeds=1),
    Grid(name="lost-packet", axes={"lost": LOST}, scenario=_lost, reduce=lost_measures, seeds=1),
)

SENSITIVITY_SWEEPS = (
    Grid(
        name="web-only",
        axes={"queue": WITH_REFERENCE, "web": (1.0,)},
        scenario=_web_only,
        reduce=web_measures,
        quick_axes={"queue": QUEUES},
    ),
    Grid(
        name="web-mixed",
        axes={"queue": WITH_REFERENCE, "web": (0.5, 0.7, 0.8)},
        scenario=_mixed,
        reduce=web_measures,
        quick_axes={"web": (0.5, 0.7)},
    ),
    Grid(
        name="ftp-mixed",
        axes={"queue": WITH_REFERENCE, "ftp": (10, 40)},
        scenario=_ftp_mixed,
        reduce=web_measures,
    ),
    Grid(
        name="ftp-only",
        axes={"queue": QUEUES, "ftp": (20, 60, 100)},
        scenario=_ftp_only,
        reduce=ftp_measures,
        quick_axes={"ftp": (60,)},
    ),
)


def _red(**changes: Any) -> Change:
    """Changes the RED of the queue, SHRED's own included."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        queue = table["bottleneck"]["queue"]
        if queue["kind"] == "red":
            queue.update(changes)
        elif queue["kind"] == "shred":
            queue["red"].update(changes)
        return table

    return change


def _packets_of_1000(table: dict[str, Any]) -> dict[str, Any]:
    return _red(mean_packet="1040B")(tcp_with({"connection.mss": "1000B"})(table))


def _redrawn(table: dict[str, Any]) -> dict[str, Any]:
    if "web" in table["traffic"]:
        table["traffic"]["web"]["sizes"] = {**OBJECT_SIZES, "truncation": "redraw"}
    return table


VARIANTS = (
    Variant(name="as decided", what="The main reading on the reduced grid, to compare with.", change=keep),
    Variant(
        name="RED not gentle",
        what="RED drops everything above max_th.",
        change=queue_with("red", gentle=False),
    ),
    Variant(
        name="nobody gentle", what="SHRED, too, drops everything above max_th.", change=_red(gentle=False)
    ),
    Variant(
        name="floor none",
        what="SHRED's formulas taken literally: large windows are dropped at an empty average queue.",
        change=queue_with("shred", floor="none"),
    ),
    Variant(
        name="floor zero-ratio",
        what="SHRED's line starts at zero but keeps its own max_p, so it gets steeper.",
        change=queue_with("shred", floor="zero-ratio"),
    ),
    Variant(
        name="wait",
        what="The count law of ns-2's default: no drop until count times p reaches 1.",
        change=_red(spacing="wait"),
    ),
    Variant(name="packets of 1040 B", what="Payload 1000 B, on the wire 1040 B.", change=_packets_of_1000),
    Variant(
        name="window 20",
        what="The receiver's window of ns-2's defaults.",
        change=tcp_with({"receiver.window": 20}),
    ),
    Variant(
        name="RTO 1 s and 3 s",
        what="Minimum time-out 1 s, initial 3 s.",
        change=tcp_with({"rto.min": "1s", "rto.initial": "3s"}),
    ),
    Variant(
        name="RTO 1 s and 6 s",
        what="Minimum time-out 1 s, initial 6 s: ns-2's defaults when the talk was given.",
        change=tcp_with({"rto.min": "1s", "rto.initial": "6s"}),
    ),
    Variant(
        name="sizes redrawn",
        what="Object sizes above 2 MB are drawn again instead of cut, the mean kept.",
        change=_redrawn,
    ),
)
