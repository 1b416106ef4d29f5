"""Measures of the study `fair-queueing`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Measure, Reduction, Run
from aqmlab.metrics.flow_level import demand, throughput_bps
from aqmlab.run_charts import gauges
from aqmlab.studies.fair_queueing.laws import PACKET, PACKET_S, RATE_MBPS, modulated_wait_ms

AVAILABLE_MBPS = 25.0
"""Capacity left by the background, in Mb/s."""

PAYLOAD = 960
WIRE = PACKET / PAYLOAD

UNRESPONSIVE = "unresponsive"
LAW_NAMES = {"reno": "Reno", "highspeed": "HighSpeed", "cubic": "CUBIC", "scalable": "Scalable"} | {
    UNRESPONSIVE: UNRESPONSIVE
}
"""Bottlenecked senders: the names of their traffic, in the order of pairs, with their titles."""

_BACKGROUND = pl.col("traffic") == "background"


def _link(run: Run) -> Mapping[str, Any]:
    """Rates on the wire in Mb/s, fairness, packet loss of the background, and waiting times of packets."""
    flows = run.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    behind, ours = flows.filter(_BACKGROUND), flows.filter(~_BACKGROUND)
    wire = pl.when(pl.col("traffic") == UNRESPONSIVE).then(1.0).otherwise(WIRE)
    rates = ours.select("traffic", mbps=pl.col("goodput_bps") * wire / 1e6)
    known = dict(rates.group_by("traffic").mean().iter_rows())
    of_laws = {law: known[law] for law in LAW_NAMES if law in known}
    first, second = (*of_laws.values(), math.nan, math.nan)[:2]
    line = metrics.link(run.tables["links"], "bottleneck")
    return {
        "available": float(rates["mbps"].sum()) / AVAILABLE_MBPS,
        "jain": float(rates.select(metrics.jain(pl.col("mbps"))).item()) if rates.height else math.nan,
        "highspeed_mbps": of_laws.get("highspeed", math.nan),
        "reno_mbps": of_laws.get("reno", math.nan),
        "first_mbps": first,
        "second_mbps": second,
        "background_loss": metrics.drop_fraction(behind),
        "background_mbps": metrics.goodput_bps(behind) / 1e6,
        "wait_ms": 1000 * float(line["mean_queue_delay_s"]),
        "timeouts": int(ours["timeouts"].sum()),
    }


_of_link = Reduction(prefix="fair-queueing.link", of=_link).measure

LINK: tuple[Measure | str, ...] = (
    AVAILABLE := _of_link("available", "rate divided by the available 25 Mb/s"),
    JAIN := _of_link("jain", "Jain's index"),
    BACKGROUND_LOSS := _of_link("background_loss", "fraction of background packets lost"),
    BACKGROUND_RATE := _of_link("background_mbps", "rate of the background", "Mb/s"),
    "bottleneck.utilisation",
    WAIT := _of_link("wait_ms", "mean waiting time of all packets", "ms"),
    TIMEOUTS := _of_link("timeouts", "time-outs"),
    HIGHSPEED := _of_link("highspeed_mbps", "rate of HighSpeed", "Mb/s"),
    RENO := _of_link("reno_mbps", "rate of Reno", "Mb/s"),
    FIRST := _of_link("first_mbps", "rate of the first flow", "Mb/s"),
    SECOND := _of_link("second_mbps", "rate of the second flow", "Mb/s"),
)

SHOWN_S, WINDOW_STEP_S, USE_STEP_S = 100, 0.2, 1.0
"""Duration of the talk's plots, and their time steps, in seconds."""


def _path(run: Run) -> Mapping[str, Any]:
    """The windows of the bottlenecked flows and the utilisation of the link, from the start of the run."""
    senders = run.tables["senders"].with_columns(pl.col("traffic").cast(pl.String)).sort("time_s")
    steps_s = np.arange(WINDOW_STEP_S, SHOWN_S, WINDOW_STEP_S)
    windows = []
    for (traffic, _), rows in senders.group_by(["traffic", "flow"], maintain_order=True):
        changes = np.searchsorted(rows["time_s"].to_numpy(), steps_s, "right")
        windows.append([traffic, np.r_[0.0, rows["cwnd_segments"].to_numpy()][changes].tolist()])
    samples = run.tables["queue"].filter(pl.col("link") == "bottleneck").sort("time_s")
    left = samples.select(pl.col("arrivals") - pl.col("drops") - pl.col("length_packets")).to_series()
    sent = np.diff(left.to_numpy().astype(np.float64))
    return {
        "windows": sorted(windows, key=lambda one: str(one[0])),
        "use": (sent * PACKET_S / USE_STEP_S).tolist(),
    }


_of_path = Reduction(prefix="fair-queueing.path", of=_path).measure

PATH = (
    WINDOWS := _of_path("windows", "congestion windows over time"),
    USE := _of_path("use", "utilisation over time"),
)


def _delay(run: Run) -> Mapping[str, Any]:
    """Waiting times of the background's packets; dropped packets are omitted."""
    warm_up_s, _ = metrics.window(run.manifest)
    flows = run.tables["flows"].filter(_BACKGROUND)
    events = run.tables["packets"].filter(
        (pl.col("time_s") >= warm_up_s) & pl.col("flow").is_in(flows["flow"].implode())
    )
    event = pl.col("event").cast(pl.String)
    key = ["flow", "sequence_bytes"]
    joined = events.filter(event == "enqueue").select(*key, since="time_s")
    begun = events.filter(event == "start").select(*key, at="time_s")
    waited = begun.join(joined, on=key).select(pl.col("at") - pl.col("since")).to_series().to_numpy()
    # A packet that finds the link idle starts without joining the queue.
    waits = np.r_[waited, np.zeros(begun.join(joined, on=key, how="anti").height)]
    return {
        "mean_ms": 1000 * float(waits.mean()),
        "p99_ms": 1000 * float(np.quantile(waits, 0.99)),
        "packets": int(waits.size),
    }


_of_delay = Reduction(prefix="fair-queueing.delay", of=_delay).measure

DELAY = (
    MEAN_DELAY := _of_delay("mean_ms", "mean wait of the background's packets", "ms"),
    P99_DELAY := _of_delay("p99_ms", "99th percentile of their waits", "ms"),
    DELAYED := _of_delay("packets", "packets of the background"),
)


def _alone(run: Run) -> Mapping[str, Any]:
    """Packet loss on a link without bottlenecked flows, and waiting times of packets, also relative to the
    theoretical waiting time with 1 Mb/s flows."""
    line = metrics.link(run.tables["links"], "bottleneck")
    wait_ms = 1000 * float(line["mean_queue_delay_s"])
    traffic = run.manifest["scenario"]["traffic"]
    load = traffic["background"]["load"]
    law_ms = math.nan if "streaming" in traffic else modulated_wait_ms(load, periodic=False)
    return {
        "loss": float(line["drop_fraction"]),
        "wait_ms": wait_ms,
        "wait_services": wait_ms / (1000 * PACKET_S),
        "wait_over_law": wait_ms / law_ms,
    }


_of_alone = Reduction(prefix="fair-queueing.alone", of=_alone).measure

ALONE = (
    LOSS := _of_alone("loss", "share of packets lost"),
    ALONE_WAIT := _of_alone("wait_ms", "mean wait", "ms"),
    SERVICES := _of_alone("wait_services", "mean waiting time, in service times"),
    WAIT_OVER_LAW := _of_alone(
        "wait_over_law", "mean waiting time divided by that of a modulated M/G/1 queue"
    ),
)

MOST_COUNTED_ACTIVE = 1001
"""Numbers of active flows and of queued packets whose share of the time is kept: 0 to 1000."""


def _active(run: Run) -> Mapping[str, Any]:
    """The number of flows that have queued packets, and the number of queued packets, from samples after the
    warm-up."""
    warm_up_s, _ = metrics.window(run.manifest)
    samples = run.tables["queue"].filter((pl.col("link") == "bottleneck") & (pl.col("time_s") >= warm_up_s))
    shown = gauges.at(run.tables["gauges"], link="bottleneck").filter(pl.col("time_s") >= warm_up_s)
    active = shown["active_flows"].to_numpy().astype(np.int64)
    waiting = samples["length_packets"].to_numpy().astype(np.int64)
    return {
        "active": float(active.mean()),
        "active_p999": float(np.quantile(active, 0.999)),
        "active_most": float(active.max()),
        "active_tail": _at_least(np.bincount(active) / active.size, MOST_COUNTED_ACTIVE),
        "waiting": float(waiting.mean()),
        "waiting_p999": float(np.quantile(waiting, 0.999)),
        "waiting_tail": _at_least(np.bincount(waiting) / waiting.size, MOST_COUNTED_ACTIVE),
    }


_of_scale = Reduction(prefix="fair-queueing.scale", of=_active).measure

SCALE = (
    ACTIVE := _of_scale("active", "mean number of active flows"),
    ACTIVE_P999 := _of_scale("active_p999", "active flows, 99.9 %"),
    ACTIVE_MOST := _of_scale("active_most", "most active flows"),
    WAITING := _of_scale("waiting", "packets waiting"),
    WAITING_P999 := _of_scale("waiting_p999", "packets waiting, 99.9 %"),
    ACTIVE_TAIL := _of_scale("active_tail", "share of the time with at least so many active flows"),
    WAITING_TAIL := _of_scale("waiting_tail", "share of the time with at least so many packets waiting"),
)


def _at_least(shares: metrics.Floats, count: int) -> list[float]:
    """P(N >= i) for the first `count` values of i, from P(N = i) for each i."""
    return [float(share) for share in shares[::-1].cumsum()[::-1][:count]]


def _shares(distribution: pl.DataFrame, share: str) -> metrics.Floats:
    """P(N = i) for each i, from the columns `flows` and `share`."""
    flows = distribution["flows"].to_numpy().astype(np.int64)
    found = np.zeros(int(flows.max(initial=0)) + 1)
    found[flows] = distribution[share].to_numpy()
    return found


def _trace(run: Run) -> Mapping[str, Any]:
    """The share of the time during which at least i flows of a trace are active, for each i."""
    shares = _shares(run.tables["distribution"], "active_share")
    return {"active_tail": _at_least(shares, MOST_COUNTED_ACTIVE)}


_of_trace = Reduction(prefix="fair-queueing.trace", of=_trace).measure

TRACE_TAIL = _of_trace("active_tail", "share of the time with at least so many active flows")
TRACE_SUMMARY = ("trace.mean-active", "trace.p999-active", "trace.most-active", "trace.mean-in-progress")

MOST_COUNTED = 101
"""Numbers of flows whose share of the time is kept: 0 to 100."""


def _number(run: Run) -> Mapping[str, Any]:
    """The mean number of bottlenecked flows in progress, and the share of the time with at least i of these
    flows. Both are also given relative to the geometric distribution for the load."""
    classes = run.tables["classes"].filter(pl.col("traffic") == "flows")
    rows = run.tables["distribution"].filter(pl.col("traffic") == "flows")
    mean = float(classes["mean_in_progress"].item())
    tail = _at_least(_shares(rows, "share"), MOST_COUNTED)
    tail += [0.0] * (MOST_COUNTED - len(tail))
    load = run.manifest["scenario"]["traffic"]["flows"]["load"]
    return {
        "mean": mean,
        "tail": tail,
        "at_least_5": tail[5],
        "mean_over_law": mean / (load / (1 - load)),
        "at_least_5_over_law": tail[5] / load**5,
    }


_of_number = Reduction(prefix="fair-queueing.number", of=_number).measure

NUMBER = (
    MEAN := _of_number("mean", "mean"),
    TAIL := _of_number("tail", "share of the time with at least so many"),
    FIVE := _of_number("at_least_5", "P(N >= 5)"),
    MEAN_OVER_LAW := _of_number("mean_over_law", "mean number of flows divided by the mean of the law"),
    FIVE_OVER_LAW := _of_number("at_least_5_over_law", "P(N >= 5) divided by the P(N >= 5) of the law"),
)

TAILS = (TAIL, ACTIVE_TAIL, WAITING_TAIL, TRACE_TAIL)
"""Measures of counts that contain P(N >= i) for i from 0 on."""


def _regime(run: Run) -> Mapping[str, Any]:
    """The throughput of a flow, also relative to its peak rate or to the rate of the link."""
    throughput = throughput_bps(run) / 1e6
    peak = run.manifest["scenario"]["traffic"]["flows"]["peak_rate"]
    return {
        "throughput_mbps": throughput,
        "throughput_share": throughput / (metrics.bits_per_second(peak) / 1e6 if peak else RATE_MBPS),
    }


_of_regime = Reduction(prefix="fair-queueing.regime", of=_regime).measure

REGIME: tuple[Measure | str, ...] = (
    THROUGHPUT := _of_regime("throughput_mbps", "throughput", "Mb/s"),
    THROUGHPUT_SHARE := _of_regime("throughput_share", "throughput of a flow / its peak rate"),
    "link.saturated",
)


def _flow_path(run: Run) -> Mapping[str, Any]:
    """The number of flows in progress, and the sum of their peak rates, after the warm-up."""
    warm_up_s, _ = metrics.window(run.manifest)
    counted = run.tables["in_progress"].filter(pl.col("time_s") >= warm_up_s)
    wanted = demand(run).filter(pl.col("time_s") >= warm_up_s)
    return {"flows": counted["flows"].to_list(), "demand": wanted["demand"].to_list()}


_of_flow_path = Reduction(prefix="fair-queueing.flow-path", of=_flow_path).measure

FLOW_PATH = (
    IN_PROGRESS := _of_flow_path("flows", "flows in progress over time"),
    DEMAND := _of_flow_path("demand", "sum of peak rates over time"),
)
