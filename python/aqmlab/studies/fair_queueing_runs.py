"""The runs of the study `fair-queueing`: scenarios, sweeps, and what each run is reduced to."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import gauges, metrics
from aqmlab.flow_level import demand, throughput_bps
from aqmlab.grid import Grid, Reduction
from aqmlab.measure import Run
from aqmlab.publication import Variant
from aqmlab.studies.shared import Change, constant, keep, tcp_with

RATE_MBPS = 50.0
AVAILABLE_MBPS = 25.0
"""What the background leaves."""

PACKET = 1000
"""Bytes on the wire: 625 packets are said to be the product of bandwidth and round trip."""

PAYLOAD = 960
WIRE = PACKET / PAYLOAD
PACKET_S = PACKET * 8 / (RATE_MBPS * 1e6)
WARM_UP_S = 20
SHOWN_S = 100
"""What the talk plots."""

BUFFERS = (20, 100, 625)
RECOVERIES = ("newreno", "reno", "sack")
"""How the bottlenecked flows repair losses; the first is ours, the talk does not say."""

BACKGROUNDS = ("flows", "packets")
END = 520
QUICK_END = 100

FLOWS: Mapping[str, Mapping[str, int]] = {
    "none": {},
    "1 Reno": {"reno": 1},
    "1 HighSpeed": {"highspeed": 1},
    "2 Reno": {"reno": 2},
    "2 HighSpeed": {"highspeed": 2},
    "HighSpeed + Reno": {"highspeed": 1, "reno": 1},
    "4 Reno": {"reno": 4},
    "4 HighSpeed": {"highspeed": 4},
}
"""Bottlenecked flows: how many of each congestion control."""

LAWS: Mapping[str, dict[str, Any]] = {
    "reno": {"kind": "reno"},
    # ns-2 evaluates the response function where RFC 3649 suggests a table.
    "highspeed": {"kind": "highspeed", "loss_rate": "continuous"},
    "cubic": {"kind": "cubic"},
    "scalable": {"kind": "scalable"},
}
UNRESPONSIVE = "unresponsive"
RIVALS = (*LAWS, UNRESPONSIVE)
PAIRS = tuple((a, b) for place, a in enumerate(RIVALS) for b in RIVALS[place + 1 :])


# The link of the talk


def discipline(queue: str, packets: int) -> dict[str, Any]:
    """A queue by the name it has in figures, with room for so many packets."""
    limit = f"{packets}p"
    if queue == "FIFO":
        return {"kind": "drop-tail", "limit": limit}
    if queue in ("FQ", "DRR"):
        return {"kind": "drr", "limit": limit, "quantum": f"{PACKET}B"}
    return {"kind": queue.lower(), "limit": limit}


BEHIND_A_FAST_LINE = {"rate": "100Gbps", "delay": "1ms"}
"""Access of what shares a host: it must not queue before the bottleneck."""


def background(kind: str, load: float = 0.5) -> dict[str, Any]:
    """Poisson flows of 1 Mb/s peak rate, or Poisson packets of flows that hardly ever have two waiting."""
    if kind == "flows":
        table: dict[str, Any] = {
            "kind": "streaming",
            "load": load,
            "rate": "1Mbps",
            "packet": f"{PACKET}B",
            "sizes": {"kind": "exponential", "mean": "100kB"},
        }
    else:
        table = {
            "kind": "udp",
            "flows": 2500,
            "load": load,
            "sizes": constant(PACKET),
            "gaps": {"kind": "exponential"},
            "hosts": "shared",
        }
    return table | {"access": dict(BEHIND_A_FAST_LINE)}


def tcp(recovery: str) -> dict[str, Any]:
    """The TCP of ns-2 as it was in September 2005, without a limit by the receiver."""
    return {
        "profile": "ns-2.2003",
        "connection": {"mss": f"{PAYLOAD}B"},
        "recovery": {"kind": recovery, "exit_window": "deflated", "partial_ack_timer": "first"},
        "rto": {"min": "200ms"},
        "receiver": {"window": 100_000},
    }


def bottlenecked(law: str, flows: int) -> dict[str, Any]:
    """Permanent flows of one congestion control, begun at random within the first second."""
    if law == UNRESPONSIVE:
        return {"kind": "udp", "flows": flows, "rate": "40Mbps", "sizes": constant(PACKET)}
    return {"kind": "ftp", "flows": flows, "stagger": "1s", "tcp": {"congestion_control": dict(LAWS[law])}}


def link(*, queue: str, buffer: int, recovery: str, end: int) -> dict[str, Any]:
    """The link of the talk with nobody on it."""
    return {
        "duration": f"{end}s",
        "warm_up": f"{WARM_UP_S}s",
        "bottleneck": {
            "rate": f"{RATE_MBPS:g}Mbps",
            "delay": "48ms",
            "queue": discipline(queue, buffer),
        },
        "access": {"rate": "1Gbps", "delay": "1ms"},
        "tcp": tcp(recovery),
        "traffic": {},
        "record": {"drops": False, "queue_every": "0s"},
    }


def scenario(
    *, flows: str, background_kind: str, queue: str, buffer: int, recovery: str, end: int
) -> dict[str, Any]:
    """Bottlenecked flows beside 25 Mb/s of background."""
    table = link(queue=queue, buffer=buffer, recovery=recovery, end=end)
    table["traffic"] = {"background": background(background_kind)}
    for law, count in FLOWS[flows].items():
        table["traffic"][law] = bottlenecked(law, count)
    return table


def _one(*, flows: str, background: str, buffer: int, queue: str, recovery: str, end: int) -> dict[str, Any]:
    return scenario(
        flows=flows, background_kind=background, queue=queue, buffer=buffer, recovery=recovery, end=end
    )


def _several(*, flows: str, buffer: int, queue: str, recovery: str, end: int) -> dict[str, Any]:
    return scenario(
        flows=flows, background_kind="packets", queue=queue, buffer=buffer, recovery=recovery, end=end
    )


def _pair(*, pair: tuple[str, str], queue: str, recovery: str, end: int) -> dict[str, Any]:
    table = _several(flows="none", buffer=625, queue=queue, recovery=recovery, end=end)
    for law in pair:
        table["traffic"][law] = bottlenecked(law, 1)
    return table


def measures(run: Run) -> Reduction:
    """Rates on the wire in Mb/s, fairness, what the background lost, and how long packets waited."""
    flows = run.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    ours = flows.filter(pl.col("traffic") != "background")
    behind = flows.filter(pl.col("traffic") == "background")
    wire = pl.when(pl.col("traffic") == UNRESPONSIVE).then(1.0).otherwise(WIRE)
    rates = ours.select("traffic", mbps=pl.col("goodput_bps") * wire / 1e6)
    line = metrics.link(run.tables["links"], "bottleneck")
    return {
        "available": float(rates["mbps"].sum()) / AVAILABLE_MBPS,
        "jain": float(rates.select(metrics.jain(pl.col("mbps"))).item()) if rates.height else math.nan,
        **{f"{law}_mbps": float(mbps) for law, mbps in rates.group_by("traffic").mean().iter_rows()},
        "background_loss": metrics.drop_fraction(behind),
        "background_mbps": metrics.goodput_bps(behind) / 1e6,
        "utilisation": float(line["utilisation"]),
        "wait_ms": 1000 * float(line["mean_queue_delay_s"]),
        "timeouts": int(ours["timeouts"].sum()),
        "reductions": int(ours["timeouts"].sum()) + int(ours["fast_retransmits"].sum()),
    }


# What the talk plots: windows and utilisation against time

WINDOW_STEP_S = 0.2
USE_STEP_S = 1.0

BLOCKS: Mapping[str, tuple[str, tuple[tuple[str, int, str], ...]]] = {
    "A": ("flows", tuple(("1 Reno", buffer, "FIFO") for buffer in BUFFERS)),
    "B": ("flows", (("1 Reno", 100, "FIFO"), ("1 HighSpeed", 100, "FIFO"))),
    "C": ("flows", (("1 Reno", 20, "FIFO"), ("1 Reno", 20, "FQ"))),
    "D": ("packets", (("2 Reno", 20, "FIFO"), ("2 Reno", 625, "FIFO"))),
    "E": ("packets", (("2 HighSpeed", 20, "FIFO"), ("2 HighSpeed", 625, "FIFO"))),
    "F": ("packets", (("HighSpeed + Reno", 20, "FIFO"), ("HighSpeed + Reno", 625, "FIFO"))),
    "G": (
        "packets",
        tuple(("HighSpeed + Reno", buffer, queue) for buffer in (20, 625) for queue in ("FIFO", "FQ")),
    ),
    "H": ("packets", (("4 Reno", 20, "FIFO"), ("1 Reno", 20, "FIFO"))),
    "I": ("packets", (("4 Reno", 625, "FIFO"), ("1 Reno", 625, "FIFO"))),
    "J": ("packets", (("4 HighSpeed", 625, "FIFO"), ("1 HighSpeed", 625, "FIFO"))),
    "K": ("packets", (("4 HighSpeed", 625, "FIFO"), ("4 HighSpeed", 625, "FQ"))),
}
"""Blocks of slides: the background, and of each of its plots the bottlenecked flows, buffer and queue."""

_PLOTS = tuple(dict.fromkeys((kind, *plot) for kind, plots in BLOCKS.values() for plot in plots))


def _path(*, plot: tuple[str, str, int, str], recovery: str) -> dict[str, Any]:
    kind, flows, buffer, queue = plot
    table = scenario(
        flows=flows, background_kind=kind, queue=queue, buffer=buffer, recovery=recovery, end=SHOWN_S
    )
    table["record"] |= {"queue_every": f"{USE_STEP_S:g}s", "senders": list(FLOWS[flows])}
    return table


def path_measures(run: Run) -> Reduction:
    """The windows of the bottlenecked flows and the use of the line, from the start of the run on."""
    senders = run.tables["senders"].with_columns(pl.col("traffic").cast(pl.String)).sort("time_s")
    windows = []
    for (traffic, _), rows in senders.group_by(["traffic", "flow"], maintain_order=True):
        times, cwnd = rows["time_s"].to_numpy(), rows["cwnd_segments"].to_numpy()
        at = np.arange(WINDOW_STEP_S, SHOWN_S, WINDOW_STEP_S)
        place = np.searchsorted(times, at, "right") - 1
        windows.append([traffic, [float(cwnd[one]) if one >= 0 else 0.0 for one in place]])
    samples = run.tables["queue"].filter(pl.col("link") == "bottleneck").sort("time_s")
    left = samples.select(pl.col("arrivals") - pl.col("drops") - pl.col("length_packets")).to_series()
    sent = np.diff(left.to_numpy().astype(np.float64))
    return {
        "windows": sorted(windows, key=lambda one: str(one[0])),
        "use": [float(packets) * PACKET_S / USE_STEP_S for packets in sent],
    }


# The wait of the background


def _delay(
    *, flows: str, background: str, buffer: int, queue: str, recovery: str, end: int
) -> dict[str, Any]:
    table = _one(flows=flows, background=background, buffer=buffer, queue=queue, recovery=recovery, end=end)
    table["record"]["packets"] = ["bottleneck"]
    return table


def delay_measures(run: Run) -> Reduction:
    """How long packets of the background waited for the line; those dropped are left out."""
    warm_up_s, _ = metrics.window(run.manifest)
    flows = run.tables["flows"].filter(pl.col("traffic") == "background")
    events = run.tables["packets"].filter(
        (pl.col("time_s") >= warm_up_s) & pl.col("flow").is_in(flows["flow"].implode())
    )
    event = pl.col("event").cast(pl.String)
    key = ["flow", "sequence_bytes"]
    joined = events.filter(event == "enqueue").select(*key, since="time_s")
    begun = events.filter(event == "start").select(*key, at="time_s")
    waits = begun.join(joined, on=key).select(pl.col("at") - pl.col("since")).to_series().to_numpy()
    # What finds the line free starts without joining the queue.
    at_once = begun.join(joined, on=key, how="anti").height
    waits = np.concatenate([waits, np.zeros(at_once)])
    return {
        "mean_ms": 1000 * float(waits.mean()),
        "p99_ms": 1000 * float(np.quantile(waits, 0.99)),
        "packets": int(waits.size),
    }


# Rate-limited flows alone

MIXES = ("1 Mb/s flows", "half of them streaming")
CODEC = {"rate": "64kbps", "packet": "200B", "sizes": {"kind": "exponential", "mean": "240kB"}}
"""Streaming flows at the rate of a codec: packets of 25 ms, half a minute of it."""

ALONE_LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ALONE_BUFFER = 100


def _alone(*, mix: str, load: float, queue: str, end: int) -> dict[str, Any]:
    table = link(queue=queue, buffer=ALONE_BUFFER, recovery="newreno", end=end)
    if mix == MIXES[0]:
        table["traffic"] = {"background": background("flows", load)}
    else:
        # These last: the warm-up must see as many end as begin.
        table["warm_up"] = f"{min(120, end // 2)}s"
        table["traffic"] = {
            "background": background("flows", load / 2),
            "streaming": background("flows", load / 2) | copy.deepcopy(CODEC),
        }
    return table


def alone_measures(run: Run) -> Reduction:
    """What a link without bottlenecked flows loses, and how long packets wait."""
    line = metrics.link(run.tables["links"], "bottleneck")
    return {
        "loss": float(line["drop_fraction"]),
        "wait_ms": 1000 * float(line["mean_queue_delay_s"]),
        "utilisation": float(line["utilisation"]),
    }


# Flows with a packet in the queue

SCALES = (1, 4, 16)
SCALE_MIXES = ("1 Mb/s flows", "and TCP flows")
SCALE_LOADS = (0.85, 0.9)
SAMPLE_S = 0.01


def _scale(*, mix: str, load: float, scale: int, end: int) -> dict[str, Any]:
    """The link, its buffer and its traffic so many times as large; fair queueing."""
    table = link(queue="FQ", buffer=625 * scale, recovery="sack", end=end)
    table["bottleneck"]["rate"] = f"{RATE_MBPS * scale:g}Mbps"
    table["access"]["rate"] = "10Gbps"
    elastic = {} if mix == SCALE_MIXES[0] else {"elastic": _web(load - 0.5)}
    table["traffic"] = {"background": background("flows", 0.5 if elastic else load), **elastic}
    table["record"]["queue_every"] = f"{SAMPLE_S:g}s"
    return table


def _web(load: float) -> dict[str, Any]:
    """Transfers of 1 MB on average that only the network limits."""
    return {
        "kind": "web",
        "load": load,
        "sizes": {"kind": "lomax", "mean": "1MB", "shape": 1.5, "minimum": "1kB", "maximum": "100MB"},
        "access": dict(BEHIND_A_FAST_LINE),
    }


def active_measures(run: Run) -> Reduction:
    """How many flows have a packet waiting, and how many packets wait, over samples after the warm-up."""
    warm_up_s, _ = metrics.window(run.manifest)
    samples = run.tables["queue"].filter((pl.col("link") == "bottleneck") & (pl.col("time_s") >= warm_up_s))
    shown = gauges.at(run.tables["gauges"], link="bottleneck").filter(pl.col("time_s") >= warm_up_s)
    active = shown["active_flows"].to_numpy().astype(np.float64)
    waiting = samples["length_packets"].to_numpy().astype(np.float64)
    return {
        "active": float(active.mean()),
        "active_p999": float(np.quantile(active, 0.999)),
        "active_most": float(active.max()),
        "waiting": float(waiting.mean()),
        "waiting_p999": float(np.quantile(waiting, 0.999)),
        "utilisation": float(metrics.link(run.tables["links"], "bottleneck")["utilisation"]),
    }


def _at_least(distribution: pl.DataFrame, count: int) -> list[float]:
    """P(N >= i) for the first so many i, from the columns `flows` and `share`."""
    flows = distribution["flows"].to_numpy().astype(np.int64)
    shares = np.zeros(max(count, int(flows.max(initial=0)) + 1))
    shares[flows] = distribution["share"].to_numpy()
    return [float(share) for share in shares[::-1].cumsum()[::-1][:count]]


# A trace at the rates of slower and slower lines

TRACE_LOADS = (0.16, 0.5, 0.8, 0.85, 0.9)
"""The first is that of the published trace."""
TRACE_MBPS = 2488.32 * TRACE_LOADS[0]
MOST_ACTIVE_COUNTED = 501


def _trace(*, load: float, seconds: int) -> dict[str, Any]:
    """A made-up trace with the published properties, at the rate that makes this load."""
    source = {"kind": "generated", "duration": f"{seconds}s"}
    rate = f"{TRACE_MBPS / load:.2f}Mbps"
    return {"level": "trace", "rate": rate, "queue": {"kind": "drr"}, "source": source}


def trace_measures(run: Run) -> Reduction:
    """How many flows of a trace have a packet waiting: in short, and how often more than so many."""
    row = run.tables["summary"].row(0, named=True)
    distribution = run.tables["distribution"].rename({"active_share": "share"})
    more = _at_least(distribution, MOST_ACTIVE_COUNTED + 1)[1:]
    names = ("load", "mean_active", "p999_active", "most_active", "mean_in_progress", "mean_backlog_packets")
    return {**{name: float(row[name]) for name in names}, "tail": more}


# The flow level

NUMBER_LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
SIZES: Mapping[str, dict[str, Any]] = {
    "exponential": {"kind": "exponential", "mean": "100kB"},
    "Pareto": {"kind": "lomax", "mean": "100kB", "shape": 1.5, "minimum": "1kB", "maximum": "10MB"},
    "fixed": {"kind": "constant", "value": "100kB"},
}
MOST_COUNTED = 101
"""Numbers of flows whose share of the time is kept: 0 to 100 and beyond."""


def flow_level(traffic: dict[str, Any], *, end: int, every_s: float = 0.0) -> dict[str, Any]:
    """Traffic without packets on the link of the talk."""
    return {
        "level": "flow",
        "duration": f"{end}s",
        "warm_up": f"{WARM_UP_S}s",
        "link": {"capacity": f"{RATE_MBPS:g}Mbps"},
        "traffic": traffic,
        "record": {"flows": False, "every": f"{every_s:g}s"},
    }


def _number(*, load: float, sizes: str, end: int) -> dict[str, Any]:
    return flow_level({"flows": {"load": load, "sizes": dict(SIZES[sizes])}}, end=end)


def _tail(run: Run, traffic: str) -> list[float]:
    """P(N >= i) for i from 0 on, over the time after the warm-up."""
    rows = run.tables["distribution"].filter(pl.col("traffic") == traffic)
    return _at_least(rows, MOST_COUNTED)


def number_measures(run: Run) -> Reduction:
    """The number of bottlenecked flows in progress: mean, and how often at least so many."""
    classes = run.tables["classes"].filter(pl.col("traffic") == "flows")
    tail = _tail(run, "flows")
    return {
        "mean": float(classes["mean_in_progress"].item()),
        "tail": tail,
        "at_least_5": tail[5],
        "at_least_100": tail[100],
    }


EXAMPLE_BACKGROUNDS: Mapping[str, dict[str, Any]] = {
    "streaming, 1 Mb/s": {"load": 0.5, "peak_rate": "1Mbps", "service": "streaming"},
    "elastic, at most 1 Mb/s": {"load": 0.5, "peak_rate": "1Mbps"},
    "streaming, 10 kb/s": {
        "load": 0.5,
        "peak_rate": "10kbps",
        "service": "streaming",
        "sizes": {"kind": "exponential", "mean": "10kB"},
    },
}
"""Readings of a background that takes half of the link."""


def _example(*, background: str, end: int) -> dict[str, Any]:
    """The deck's example: background 0.5, with the bottlenecked flows 0.6."""
    traffic = {"background": copy.deepcopy(EXAMPLE_BACKGROUNDS[background]), "flows": {"load": 0.1}}
    return flow_level(traffic, end=end)


REGIME_LOADS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2)
PEAKS: Mapping[str, dict[str, Any]] = {
    "at most 1 Mb/s": {"peak_rate": "1Mbps"},
    "at most 10 Mb/s": {"peak_rate": "10Mbps"},
    "no peak rate": {},
}


def _regime(*, peak: str, load: float, end: int) -> dict[str, Any]:
    return flow_level({"flows": {"load": load, **PEAKS[peak]}}, end=end)


def regime_measures(run: Run) -> Reduction:
    """The throughput of a flow, and how often peak rates fill the link."""
    return {
        "throughput_mbps": throughput_bps(run) / 1e6,
        "saturated": float(run.tables["links"]["saturated"].item()),
    }


PATH_STEP_S = 0.05
PATH_S = 30
"""How much of a sample path is drawn: at a load of 0.9 the number of flows forgets within a second."""

THREE = {
    "transparent": ("at most 1 Mb/s", 0.5),
    "elastic": ("no peak rate", 0.8),
    "overload": ("no peak rate", 1.1),
}
"""A peak rate and a load for each regime."""


def _flow_path(*, load: float) -> dict[str, Any]:
    return flow_level({"flows": {"load": load}}, end=WARM_UP_S + PATH_S, every_s=PATH_STEP_S)


def _regime_path(*, regime: str) -> dict[str, Any]:
    peak, load = THREE[regime]
    return flow_level({"flows": {"load": load, **PEAKS[peak]}}, end=WARM_UP_S + PATH_S, every_s=PATH_STEP_S)


def flow_path_measures(run: Run) -> Reduction:
    """The number of flows in progress, and what their peak rates add up to, after the warm-up."""
    counted = run.tables["in_progress"].filter(pl.col("time_s") >= WARM_UP_S)
    wanted = demand(run).filter(pl.col("time_s") >= WARM_UP_S)
    return {"flows": counted["flows"].to_list(), "demand": wanted["demand"].to_list()}


# Sweeps

_END = {"end": (END,)}
_QUICK = {"end": (QUICK_END,), "recovery": RECOVERIES[:1]}

ORDERS = ("DRR", "SCFQ", "STFQ", "RR")
CASES: Mapping[str, tuple[str, str, int]] = {
    "C": ("1 Reno", "flows", 20),
    "G, 20 packets": ("HighSpeed + Reno", "packets", 20),
    "G, 625 packets": ("HighSpeed + Reno", "packets", 625),
    "K": ("4 HighSpeed", "packets", 625),
}
"""The blocks with fair queueing: bottlenecked flows, background and buffer."""


def _order(*, case: str, queue: str, recovery: str, end: int) -> dict[str, Any]:
    flows, kind, buffer = CASES[case]
    return scenario(flows=flows, background_kind=kind, queue=queue, buffer=buffer, recovery=recovery, end=end)


ONE = Grid(
    name="one",
    axes={
        "flows": ("1 Reno", "1 HighSpeed"),
        "background": BACKGROUNDS,
        "buffer": BUFFERS,
        "queue": ("FIFO", "FQ"),
        "recovery": RECOVERIES,
        **_END,
    },
    quick_axes=_QUICK,
    scenario=_one,
    reduce=measures,
    seeds=6,
    quick_seeds=3,
)
SEVERAL = Grid(
    name="several",
    axes={
        "flows": ("2 Reno", "2 HighSpeed", "HighSpeed + Reno", "4 Reno", "4 HighSpeed"),
        "buffer": (20, 625),
        "queue": ("FIFO", "FQ"),
        "recovery": RECOVERIES,
        **_END,
    },
    quick_axes=_QUICK,
    scenario=_several,
    reduce=measures,
    seeds=6,
    quick_seeds=3,
)

SWEEPS = (
    ONE,
    SEVERAL,
    Grid(
        name="baseline",
        axes={
            "flows": ("none",),
            "background": BACKGROUNDS,
            "buffer": BUFFERS,
            "queue": ("FIFO", "FQ"),
            "recovery": ("newreno",),
            **_END,
        },
        quick_axes=_QUICK,
        scenario=_one,
        reduce=measures,
        seeds=6,
        quick_seeds=3,
    ),
    Grid(
        name="windows",
        axes={
            "flows": ("4 Reno", "4 HighSpeed"),
            "buffer": (625,),
            "queue": ("FIFO", "FQ"),
            "recovery": RECOVERIES,
            "end": (SHOWN_S,),
        },
        quick_axes=_QUICK,
        scenario=_several,
        reduce=measures,
        seeds=20,
        quick_seeds=3,
    ),
    Grid(
        name="paths",
        axes={"plot": _PLOTS, "recovery": ("newreno",)},
        scenario=_path,
        reduce=path_measures,
        seeds=1,
        quick_seeds=1,
    ),
    Grid(
        name="orders",
        axes={"case": tuple(CASES), "queue": ORDERS, "recovery": RECOVERIES, **_END},
        quick_axes=_QUICK,
        scenario=_order,
        reduce=measures,
        seeds=5,
        quick_seeds=3,
    ),
    *(
        Grid(
            name=name,
            axes={"pair": PAIRS, "queue": (queue,), "recovery": recoveries, **_END},
            quick_axes={**_QUICK, "recovery": recoveries[:1]},
            scenario=_pair,
            reduce=measures,
            seeds=5,
            quick_seeds=quick_seeds,
        )
        for name, queue, recoveries, quick_seeds in (
            ("pairs", "FQ", RECOVERIES, 3),
            ("pairs-fifo", "FIFO", RECOVERIES[:1], 1),
        )
    ),
    Grid(
        name="delay",
        axes={
            "flows": ("none", "1 Reno"),
            "background": BACKGROUNDS,
            "buffer": BUFFERS,
            "queue": ("FIFO", "FQ"),
            "recovery": RECOVERIES,
            "end": (80,),
        },
        quick_axes={**_QUICK, "end": (40,), "background": ("flows",)},
        scenario=_delay,
        reduce=delay_measures,
        seeds=5,
        quick_seeds=3,
    ),
    Grid(
        name="alone",
        axes={"mix": MIXES, "load": ALONE_LOADS, "queue": ("FIFO", "FQ"), "end": (520,)},
        quick_axes={"end": (100,), "load": (0.5, 0.6, 0.9)},
        scenario=_alone,
        reduce=alone_measures,
        seeds=5,
        quick_seeds=3,
    ),
    Grid(
        name="scale",
        axes={"mix": SCALE_MIXES, "load": SCALE_LOADS, "scale": SCALES, "end": (120,)},
        quick_axes={"end": (40,), "scale": (1, 4)},
        scenario=_scale,
        reduce=active_measures,
        seeds=5,
        quick_seeds=3,
    ),
    Grid(
        name="trace",
        axes={"load": TRACE_LOADS, "seconds": (60,)},
        quick_axes={"load": (0.16, 0.85), "seconds": (10,)},
        scenario=_trace,
        reduce=trace_measures,
        seeds=5,
        quick_seeds=3,
    ),
    Grid(
        name="number",
        axes={"load": NUMBER_LOADS, "sizes": tuple(SIZES), "end": (200_000,)},
        quick_axes={"end": (20_000,)},
        scenario=_number,
        reduce=number_measures,
        seeds=10,
    ),
    Grid(
        name="example",
        axes={"background": tuple(EXAMPLE_BACKGROUNDS), "end": (20_000,)},
        quick_axes={"end": (5000,)},
        scenario=_example,
        reduce=number_measures,
        seeds=10,
    ),
    Grid(
        name="regimes",
        axes={"peak": tuple(PEAKS), "load": REGIME_LOADS, "end": (1000,)},
        quick_axes={"end": (200,)},
        scenario=_regime,
        reduce=regime_measures,
        seeds=5,
        quick_seeds=3,
    ),
    Grid(
        name="flow-paths",
        axes={"load": NUMBER_LOADS},
        scenario=_flow_path,
        reduce=flow_path_measures,
        seeds=1,
        quick_seeds=1,
    ),
    Grid(
        name="regime-paths",
        axes={"regime": tuple(THREE)},
        scenario=_regime_path,
        reduce=flow_path_measures,
        seeds=1,
        quick_seeds=1,
    ),
)


# What the talk leaves open


def _sizes(name: str) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        behind = table["traffic"]["background"]
        if behind["kind"] == "streaming":
            behind["sizes"] = dict(SIZES[name])
        return table

    return change


def _at_once(table: dict[str, Any]) -> dict[str, Any]:
    table["host"] = {"jitter": "0s"}
    return table


def _of_today(table: dict[str, Any]) -> dict[str, Any]:
    old = table["tcp"]
    kept = {key: old[key] for key in ("connection", "receiver")}
    table["tcp"] = {**kept, "recovery": {"kind": old["recovery"]["kind"]}}
    return table


def _limited_slow_start(table: dict[str, Any]) -> dict[str, Any]:
    for name, workload in table["traffic"].items():
        if name in LAWS:
            workload["tcp"]["congestion_control"]["max_ssthresh"] = 100
    return table


VARIANTS = (
    Variant(name="as decided", what="NewReno, Poisson flows of exponential sizes.", change=keep),
    Variant(name="Pareto", what="Background flows have Pareto sizes, shape 1.5.", change=_sizes("Pareto")),
    Variant(name="fixed", what="All background flows have 100 kB.", change=_sizes("fixed")),
    Variant(name="hosts at once", what="Hosts answer at once; ties are possible.", change=_at_once),
    Variant(
        name="TCP of today",
        what="The RFCs' TCP: delayed acknowledgements, windows by flight size, "
        "initial window 10, least time-out 1 s.",
        change=_of_today,
    ),
    Variant(
        name="limited slow start",
        what="Slow start limited above 100 segments (RFC 3742).",
        change=_limited_slow_start,
    ),
    Variant(name="least RTO 1 s", what="The least time-out is 1 s.", change=tcp_with({"rto.min": "1s"})),
)

_SENSITIVE = {"recovery": ("newreno",), "end": (320,)}

SENSITIVITY_SWEEPS = (
    Grid(
        name="one",
        axes={**ONE.axes, **_SENSITIVE, "background": ("flows",)},
        quick_axes={**_QUICK, "buffer": (20,)},
        scenario=_one,
        reduce=measures,
        seeds=4,
        quick_seeds=2,
    ),
    Grid(
        name="several",
        axes={**SEVERAL.axes, **_SENSITIVE, "flows": ("HighSpeed + Reno", "4 Reno", "4 HighSpeed")},
        quick_axes={**_QUICK, "flows": ("HighSpeed + Reno",), "buffer": (625,)},
        scenario=_several,
        reduce=measures,
        seeds=4,
        quick_seeds=2,
    ),
)
