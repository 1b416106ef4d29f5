"""The runs of the study `unc-web`: scenarios, sweeps, and what each run is reduced to."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.calibrate import ROOM, UNCONGESTED
from aqmlab.grid import Grid, Reduction
from aqmlab.measure import Run
from aqmlab.publication import Variant
from aqmlab.studies.shared import Change, keep, mean, queue_with, rows_of, tcp_with

RATE_MBPS = 10
WARM_UP_S = 120.0
LOADS = (50, 60, 70, 80, 85, 90, 95, 100, 105)
"""Offered loads, in percent of the line in each direction."""

PLOTTED = (80, 105)
"""The loads whose distributions the talk shows."""

TCPS = ("Reno", "SACK")
FULL_PAIRS = 250_000
QUICK_PAIRS = 8_000

FULL_LOAD: Mapping[str, float] = {"as decided": 136.5, "MSS 536": 128.3, "HTTP/1.1": 127.0}
"""New connections per second and direction that offer all of the line, by traffic.

The first by `aqmlab calibrate` over 20 replications of 250 000 connections: 136.5 [135.5, 137.6]. The
others by what as many connections offer over what those of the first do, seed by seed: 1.0643 [1.0640,
1.0646] and 1.075 [1.073, 1.077]. The sweep `calibration` measures all of them again."""

BUFFER = "111p"
"""Drop Tail's; the other queues have five times as much room and so more than twice `max_th`."""

MEAN_PACKET = 500
UNITS = ("packets", "bytes")
"""What Adaptive RED counts in."""


def _adaptive_red(unit: str, *, ecn: bool = False, target: str = "5ms") -> dict[str, Any]:
    """Adaptive RED of the ns-2 of 2003; counting in bytes, big packets are dropped more often, as there."""
    table: dict[str, Any] = {
        "kind": "adaptive-red",
        "adapts_on": "arrivals",
        "bounds": "passed",
        "bottom": 80e3 / (RATE_MBPS * 1e6),
        "gentle_line": "stale",
        "spacing": "wait",
        "limit": "555p" if unit == "packets" else f"{555 * MEAN_PACKET}B",
        "mean_packet": f"{MEAN_PACKET}B",
        "target_delay": target,
    }
    if unit == "bytes":
        table["packet_scaling"] = "after-count"
    if ecn:
        table |= {"ecn": "unless-forced", "mark_p": 0.1}
    return table


DROP_TAIL = "Drop Tail"
QUEUES = (DROP_TAIL, "ARED", "ARED+ECN", "ARED, bytes", "ARED+ECN, bytes")
"""In the order of every table; Adaptive RED counts in packets where nothing else is said."""

TUNED = ("ARED 60 ms", "ARED+ECN 60 ms", "ARED 60 ms, bytes", "ARED+ECN 60 ms, bytes")

DISCIPLINES: Mapping[str, dict[str, Any]] = {
    DROP_TAIL: {"kind": "drop-tail", "limit": BUFFER},
    **{
        f"ARED{'+ECN' if ecn else ''}{target}{', bytes' if unit == 'bytes' else ''}": _adaptive_red(
            unit, ecn=ecn, target=target.replace(" ", "") or "5ms"
        )
        for target in ("", " 60 ms")
        for unit in UNITS
        for ecn in (False, True)
    },
}

GRID = np.geomspace(1e-3, 200.0, 200)
"""Response times at which distributions are counted, in seconds."""

SIZE_CLASSES = (0, 1460, 10_000, 100_000)
"""Lower ends of the classes of response sizes, in bytes, themselves not included; the last one is open."""

LARGE = len(SIZE_CLASSES) - 1
FEW_SEGMENTS = 8
SMALL_PACKET = 100
"""Bytes on the wire below which a packet carries no data to speak of: it opens, acknowledges or closes."""

SERIES_STEP_S = 5.0


def named(queue: str, unit: str) -> str:
    """The name of a queue that counts in this unit."""
    return queue if unit == "packets" or queue == DROP_TAIL else f"{queue}, bytes"


def scenario(*, queue: str, tcp: str, load: float, pairs: int) -> dict[str, Any]:
    """Web traffic both ways over a line of 10 Mb/s, with a delay of its own for every connection."""
    return _two_way(queue, tcp, FULL_LOAD["as decided"] * load / 100, pairs)


def _two_way(queue: str, tcp: str, rate: float, pairs: int) -> dict[str, Any]:
    line = {"rate": f"{RATE_MBPS}Mbps", "delay": "1ms", "queue": DISCIPLINES[queue]}
    web = {"kind": "packmime", "connections_per_second": round(rate, 3)}
    ways = {"forward": {"from": "left", "to": "right"}, "reverse": {"from": "right", "to": "left"}}
    return {
        "duration": f"{WARM_UP_S + pairs / rate:.0f}s",
        "warm_up": f"{WARM_UP_S:.0f}s",
        "access": {"rate": "100Mbps", "delay": "10us"},
        "host": {"jitter": "0s"},
        "links": {name: {**way, **copy.deepcopy(line)} for name, way in ways.items()},
        "tcp": {
            "connection": {"mss": "1460B", "nagle": "on"},
            "cwnd": {"initial": 2},
            "recovery": {"kind": tcp.lower(), "limited_transmit": "off"},
            "sack": {"dsack": "off"},
            "rto": {"initial": "3s", "min": "1s"},
            "receiver": {"window": 44, "delayed_ack_timer": "100ms"},
            "ecn": {"mode": "on" if "ECN" in queue else "off"},
        },
        "traffic": {name: {**way, **web} for name, way in ways.items()},
        "record": {"drops": True, "queue_every": "0s"},
    }


def _calibration(*, traffic: str, rate: float, pairs: int) -> dict[str, Any]:
    """The same traffic where nothing queues, as `aqmlab calibrate` has it."""
    table = VARIED[traffic](_two_way(DROP_TAIL, "Reno", rate, pairs))
    for link in table["links"].values():
        link["rate"] = f"{UNCONGESTED * RATE_MBPS}Mbps"
        link["queue"] = {"kind": "drop-tail", "limit": ROOM}
    table["record"]["drops"] = False
    return table


def _web(**changes: Any) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for web in table["traffic"].values():
            web.update(changes)
        return table

    return change


VARIED: Mapping[str, Change] = {
    "as decided": keep,
    "MSS 536": tcp_with({"connection.mss": "536B", "receiver.window": 122}),
    "HTTP/1.1": _web(http="1.1"),
}
"""Traffic that needs a calibration of its own."""


def same_load(traffic: str) -> Change:
    """Other traffic, with as many connections as offer the same load."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for web in table["traffic"].values():
            rate = web["connections_per_second"] * FULL_LOAD[traffic] / FULL_LOAD["as decided"]
            web["connections_per_second"] = round(rate, 3)
        return VARIED[traffic](table)

    return change


def calibration_measures(run: Run) -> Reduction:
    """The load that was offered, as a share of the real line, and what it consisted of."""
    used = [metrics.link(run.tables["links"], name)["utilisation"] for name in ("forward", "reverse")]
    facts = run.manifest["facts"]["forward"]
    return {
        "load": UNCONGESTED * math.fsum(used) / len(used),
        "mean_response_bytes": facts["mean_response_bytes"],
    }


def web_measures(run: Run) -> Reduction:
    """What figures, tables and claims need of a run: of responses and line of both directions."""
    return _direction(run, "forward") | {
        f"reverse_{key}": value for key, value in _direction(run, "reverse").items()
    }


def _direction(run: Run, name: str) -> Reduction:
    warm_up_s, end_s = metrics.window(run.manifest)
    everything = rows_of(run, "transfers", name)
    ours = metrics.measured(everything, warm_up_s)
    done = ours.filter(pl.col("complete"))
    return {
        "count": ours.height,
        "unfinished": ours.height - done.height,
        "cdf": distribution(ours, end_s),
        **_quantiles(done["duration_s"].to_numpy()),
        **_by_size(done),
        **_repairs(ours),
        **_line(run, name, warm_up_s),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "mean_response_bytes": run.manifest["facts"][name]["mean_response_bytes"],
    }


def distribution(transfers: pl.DataFrame, end_s: float) -> list[float]:
    """The share of responses that arrived within each time of the grid, those not finished allowed for."""
    beyond = metrics.survival(*metrics.histograms(transfers, GRID, end_s))
    return [round(float(share), 7) for share in 1.0 - beyond]


def _quantiles(times: metrics.Floats) -> Reduction:
    found = np.quantile(times, [0.5, 0.9, 0.95, 0.99]) if times.size else np.full(4, math.nan)
    names = ("median_s", "p90_s", "p95_s", "p99_s")
    return {"mean_s": mean(times), **{name: float(value) for name, value in zip(names, found, strict=True)}}


def _by_size(done: pl.DataFrame) -> Reduction:
    """Responses and their median time in each class of sizes."""
    place = np.searchsorted(SIZE_CLASSES, done["size_bytes"].to_numpy(), "left") - 1
    times = done["duration_s"].to_numpy()
    classes = [times[place == one] for one in range(len(SIZE_CLASSES))]
    return {
        "class_count": [int(one.size) for one in classes],
        "class_median_s": [float(np.median(one)) if one.size else None for one in classes],
        "large_median_s": float(np.median(classes[LARGE])) if classes[LARGE].size else math.nan,
    }


def _repairs(ours: pl.DataFrame) -> Reduction:
    """What was sent again, in segments of data of which nearly all are full, and how it was found."""
    several = (
        (pl.col("timeouts") == 0)
        & (pl.col("fast_retransmits") > 0)
        & (pl.col("retransmitted") > pl.col("fast_retransmits"))
    )
    shares = ours.select(
        (pl.col("segments") < FEW_SEGMENTS).mean().alias("few_segments"), several.mean().alias("several")
    ).row(0)
    again, timeouts = ours.select(pl.col("retransmitted", "timeouts").sum()).row(0)
    thousands = ours.height / 1000
    return {
        "few_segments_share": shares[0],
        "several_holes_share": shares[1],
        "retransmitted": float(again),
        "retransmitted_per_1000": again / thousands if thousands else math.nan,
        "timeouts_per_1000": timeouts / thousands if thousands else math.nan,
    }


def _line(run: Run, name: str, warm_up_s: float) -> Reduction:
    line = metrics.link(run.tables["links"], name)
    drops = run.tables["drops"].filter((pl.col("link") == name) & (pl.col("time_s") >= warm_up_s))
    small = (drops["size_bytes"].to_numpy() < SMALL_PACKET).astype(np.float64)
    return {
        "utilisation": float(line["utilisation"]),
        "drop_fraction": float(line["drop_fraction"]),
        "mark_fraction": float(line["mark_fraction"]),
        "mean_queue": float(line["mean_queue_packets"]),
        "queue_delay_s": float(line["mean_queue_delay_s"] or 0.0),
        "small_drops": mean(small),
        "tied_fraction": float(line["tied_fraction"]),
    }


CALIBRATED = (60, 80, 100, 120, 140)
"""New connections per second at which the load is measured."""

SWEEPS = (
    Grid(
        name="calibration",
        axes={"traffic": tuple(VARIED), "rate": CALIBRATED, "pairs": (FULL_PAIRS,)},
        scenario=_calibration,
        reduce=calibration_measures,
        quick_axes={"rate": (60, 100, 140), "pairs": (QUICK_PAIRS // 2,)},
        quick_seeds=2,
    ),
    Grid(
        name="web",
        axes={"queue": QUEUES, "tcp": TCPS, "load": LOADS, "pairs": (FULL_PAIRS,)},
        scenario=scenario,
        reduce=web_measures,
        seeds=5,
        quick_axes={"load": (60, *PLOTTED), "pairs": (QUICK_PAIRS,)},
    ),
    Grid(
        name="tuning",
        axes={"queue": TUNED, "tcp": ("Reno",), "load": (90, 95, 100, 105), "pairs": (FULL_PAIRS,)},
        scenario=scenario,
        reduce=web_measures,
        seeds=5,
        quick_axes={"load": (105,), "pairs": (QUICK_PAIRS,)},
    ),
)

SENSITIVITY_PAIRS = 100_000
SENSITIVITY_SWEEPS = tuple(
    Grid(
        name="web",
        axes={"queue": queues, "tcp": (tcp,), "load": (80, 90, 105), "pairs": (SENSITIVITY_PAIRS,)},
        scenario=scenario,
        reduce=web_measures,
        seeds=5,
        quick_axes={"load": (105,), "pairs": (QUICK_PAIRS // 4,)},
        quick_seeds=2,
    )
    for queues, tcp in ((QUEUES, "Reno"), ((DROP_TAIL,), "SACK"))
)


def _marking(**changes: Any) -> Change:
    """Other parameters for the queues that mark."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for link in table["links"].values():
            if "ecn" in link["queue"]:
                link["queue"].update(changes)
        return table

    return change


VARIANTS = (
    Variant(name="as decided", what="The main reading on fewer pairs, to compare with.", change=keep),
    Variant(name="MSS 536", what="ns-2's segment of FullTcp, at the same load.", change=same_load("MSS 536")),
    Variant(name="minimum RTO 0.2 s", what="ns-2's of 2004.", change=tcp_with({"rto.min": "200ms"})),
    Variant(name="initial RTO 1 s", what="Today's (RFC 6298).", change=tcp_with({"rto.initial": "1s"})),
    Variant(name="initial RTO 6 s", what="ns-2's until 2006.", change=tcp_with({"rto.initial": "6s"})),
    Variant(name="initial window 10", what="Today's (RFC 6928).", change=tcp_with({"cwnd.initial": 10})),
    Variant(
        name="twice the buffer",
        what="Drop Tail's is 222 packets.",
        change=queue_with("drop-tail", limit="222p"),
    ),
    Variant(
        name="target 60 ms",
        what="Adaptive RED aims at 60 ms in the queue.",
        change=queue_with("adaptive-red", target_delay="60ms"),
    ),
    Variant(
        name="mean packet 1000 B",
        what="Adaptive RED takes packets to be twice as large as ns-2's default.",
        change=queue_with("adaptive-red", mean_packet="1000B"),
    ),
    Variant(
        name="marks up to twice max_th",
        what="Adaptive RED marks at any probability up to twice max_th, as ns-2 before April 2002.",
        change=_marking(mark_p=1.0),
    ),
    Variant(
        name="never drops what it may mark",
        what="Adaptive RED marks at any average, as Linux.",
        change=_marking(mark_p=1.0, ecn="always"),
    ),
    Variant(
        name="HTTP/1.1",
        what="Some connections persist over several pages, at the same load.",
        change=same_load("HTTP/1.1"),
    ),
)
