"""The runs of the study `mice-elephants`: scenarios, sweeps, and what each run is reduced to."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from aqmlab import gauges, metrics
from aqmlab.grid import Grid, Reduction
from aqmlab.measure import Run
from aqmlab.publication import Variant
from aqmlab.studies.shared import Change, constant, keep, mean, queue_with, rows_of, tcp_with

if TYPE_CHECKING:
    import numpy.typing as npt

QUEUES = ("Drop Tail", "RED", "RIO-PS")
PACKET = 500
"""Bytes of a packet (Table III); ns-2's headers of that time had no length of their own."""

INITIAL_RTOS = (3, 1)
RTT_S = 0.08
WEIGHT = 1 / 512
SHORT_FILE = 10
"""Packets: a short file has at most as many as a short foreground flow."""

LONG_FILE = 100
"""Packets: a long file has more; 2.1 % of the files do, and carry 46 % of the bytes."""

SIZE_BINS = tuple(int(edge) for edge in np.unique(np.geomspace(4, 20_000, 16).round()))
"""Lower ends of the bins of file sizes, in packets; the last one is open."""

LARGEST = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
"""Shares of the files, the largest ones, whose share of the bytes is told."""

SERIES_STEP_S = 10.0
QUEUE_STEP_S = 0.5
SHOWN_S = 200.0
"""How much of the queue's life after the warm-up is kept for the figures."""

SETTLING_BIN_S = 50.0
RATE_BIN_S = 1.0


# The queues of Table III


def discipline(queue: str, bdp: int) -> dict[str, Any]:
    """A queue of Table III for a bandwidth-delay product in packets."""
    if queue == "Drop Tail":
        return {"kind": "drop-tail", "limit": f"{bdp * 3 // 2}p"}
    limit = bdp * 5 // 2
    if queue == "RED":
        return {
            "kind": "red",
            "min_th": f"{0.15 * limit:.0f}p",
            "max_th": f"{0.5 * limit:.0f}p",
            "max_p": 0.1,
            "weight": WEIGHT,
            "limit": f"{limit}p",
            "mean_packet": f"{PACKET}B",
            "gentle": True,
            "spacing": "wait",
            "ecn": "below-max-th",
        }
    return {"kind": "rio-ps", "limit": f"{limit}p"}


def _edge(**changes: Any) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for edge in table.get("edges", {}).values():
            edge.update(changes)
        return table

    return change


EDGE = {
    "kind": "short-flows",
    "threshold_rule": "steered",
    "threshold": 20,
    "short_to_long": 3.0,
    "expiry": "1s",
    "update": "10s",
}


LAWS: Mapping[str, Change] = {
    "steered": keep,
    "static, 20 packets": _edge(threshold_rule="static"),
    "quantile": _edge(threshold_rule="quantile"),
    "steered, flows forgotten at age": _edge(purge="at-age"),
}
"""Readings of the edge that decide how long a flow counts as short; the first is ours."""


def tcp(queue: str, initial_rto_s: float) -> dict[str, Any]:
    """NewReno of the ns-2 of 2001 with the windows and timers of Table III."""
    return {
        "profile": "ns-2.2001",
        "connection": {"mss": f"{PACKET}B"},
        "recovery": {"kind": "newreno"},
        "rto": {"initial": f"{initial_rto_s:g}s", "tick": "100ms"},
        "receiver": {"window": 128},
        "ecn": {"mode": "off" if queue == "Drop Tail" else "on"},
    }


# Web runs (Figs 6 to 9, Table IV)


def web_scenario(
    *, queue: str, rate_mbps: int, bdp: int, initial_rto_s: float, end: int, sizes: tuple[int, int]
) -> dict[str, Any]:
    """Web sessions at 90 % of the line, and batches of foreground flows; the first half is not measured."""
    table: dict[str, Any] = {
        "duration": f"{end}s",
        "warm_up": f"{end // 2}s",
        "bottleneck": {"rate": f"{rate_mbps}Mbps", "delay": "38ms", "queue": discipline(queue, bdp)},
        "access": {"rate": "100Mbps", "delay": "1ms"},
        "host": {"jitter": "0s"},
        "tcp": tcp(queue, initial_rto_s),
        "traffic": {
            "web": sessions(sizes),
            "short": {"kind": "probes", "flows": 10, "size": "10p", "every": "25s"},
            "long": {"kind": "probes", "flows": 10, "size": "1000p", "every": "125s"},
        },
        "record": {"drops": False, "queue_every": f"{QUEUE_STEP_S:g}s"},
    }
    if queue == "RIO-PS":
        table["edges"] = {"left": dict(EDGE)}
    return table


def sessions(sizes: tuple[int, int]) -> dict[str, Any]:
    """The Web sessions, with files of this range of packets."""
    least, most = sizes
    return {
        "kind": "sessions",
        "load": 0.9,
        "think_time": {"kind": "exponential", "mean": "9.5s"},
        "object_gap": {"kind": "exponential", "mean": "50ms"},
        "objects": {"kind": "discrete-uniform", "minimum": 2, "maximum": 7},
        "think_from": "page-start",
        "sizes": {"kind": "bounded-pareto", "shape": 1.2, "minimum": f"{least}p", "maximum": f"{most}p"},
        "hosts": HOSTS,
    }


ALL_SIZES = (4, 200_000)
ONE_CLASS = {"short": (4, 20), "long": (100, 200_000)}
"""Files of the unbalanced traffic of Exp 2, in packets."""

HOSTS = 40
"""Servers and clients of the Web traffic; fewer where so few users load the line."""


def _exp_1(*, queue: str, ito: int, end: int) -> dict[str, Any]:
    return web_scenario(queue=queue, rate_mbps=10, bdp=200, initial_rto_s=ito, end=end, sizes=ALL_SIZES)


def _exp_2(*, queue: str, files: str, end: int) -> dict[str, Any]:
    """Files of one class only, and foreground flows of the same class."""
    sizes = ONE_CLASS[files]
    table = web_scenario(queue=queue, rate_mbps=6, bdp=120, initial_rto_s=3, end=end, sizes=sizes)
    if files == "long":
        table["traffic"]["web"]["hosts"] = 4
    del table["traffic"]["long" if files == "short" else "short"]
    return table


def _exp_2_by_law(*, queue: str, files: str, law: str, end: int) -> dict[str, Any]:
    return LAWS[law](_exp_2(queue=queue, files=files, end=end))


def _two_way(*, queue: str, end: int) -> dict[str, Any]:
    """Exp 1 with as much Web traffic the other way, so that acknowledgements queue behind data."""
    table = _exp_1(queue=queue, ito=3, end=end)
    line = table.pop("bottleneck")
    table["links"] = {
        "bottleneck": {"from": "left", "to": "right", **line},
        "back": {"from": "right", "to": "left", **copy.deepcopy(line)},
    }
    for workload in table["traffic"].values():
        workload |= {"from": "left", "to": "right"}
    table["traffic"]["web-back"] = {**sessions(ALL_SIZES), "from": "right", "to": "left"}
    if "edges" in table:
        table["edges"]["right"] = dict(EDGE)
    return table


def web_measures(run: Run) -> Reduction:
    """What figures, tables and claims need of a run with Web sessions."""
    warm_up_s, end_s = metrics.window(run.manifest)
    everything = rows_of(run, "transfers", "web")
    ours = metrics.measured(everything, warm_up_s)
    done = ours.filter(pl.col("complete"))
    line = metrics.link(run.tables["links"], "bottleneck")
    flows = run.tables["flows"]
    return {
        "files": ours.height,
        "unfinished": ours.height - done.height,
        **_response_times(done),
        **_losses(ours),
        "bins": _by_size(ours),
        "largest": metrics.carried_by_largest(ours["size_bytes"].to_numpy(), LARGEST),
        "page_s": mean(metrics.completed_times(rows_of(run, "pages", "web"), warm_up_s)),
        "short": _batches(rows_of(run, "transfers", "short"), 25.0, warm_up_s, end_s),
        "long": _batches(rows_of(run, "transfers", "long"), 125.0, warm_up_s, end_s),
        "goodput_packets": float(flows["delivered_bytes"].sum()) / PACKET,
        "mean_active": metrics.mean_active(everything, warm_up_s, end_s),
        "active": metrics.active_series(everything, SERIES_STEP_S, end_s).tolist(),
        "settling": _settling(everything),
        "utilisation": float(line["utilisation"]),
        "drop_fraction": float(line["drop_fraction"]),
        "refused_fraction": float(line["drop_fraction"]) + float(line["mark_fraction"]),
        "mean_queue": float(line["mean_queue_packets"]),
        **_queue(run, warm_up_s),
        "threshold": _threshold(run),
        "facts": dict(run.manifest.get("facts", {}).get("web", {})),
    } | _foreground(run, warm_up_s)


def _response_times(done: pl.DataFrame) -> Reduction:
    segments = done["segments"].to_numpy()
    times = done["duration_s"].to_numpy()
    short = times[segments <= SHORT_FILE]
    return {
        "response_s": mean(times),
        "short_file_s": mean(short),
        "short_file_beyond_3s": mean((short > 3.0).astype(np.float64)),
        "long_file_s": mean(times[segments > LONG_FILE]),
    }


def _losses(ours: pl.DataFrame) -> Reduction:
    short = ours.filter(pl.col("segments") <= SHORT_FILE)
    sums = short.select(pl.col("packets_dropped", "packets_sent", "timeouts").sum()).row(0)
    return {
        "short_file_drops": sums[0] / sums[1] if sums[1] else math.nan,
        "short_file_timeouts": sums[2] / short.height if short.height else math.nan,
    }


def _by_size(ours: pl.DataFrame) -> list[list[float]]:
    """For each bin of sizes: files, files completed, their times' sum, packets sent, and sent as long."""
    place = np.searchsorted(SIZE_BINS, ours["segments"].to_numpy(), "right") - 1
    done = ours["complete"].to_numpy()
    times = ours["duration_s"].fill_null(0.0).to_numpy()
    columns = [
        np.ones(ours.height),
        done.astype(np.float64),
        np.where(done, times, 0.0),
        ours["packets_sent"].to_numpy().astype(np.float64),
        _long_packets(ours),
    ]
    counted = [np.bincount(place.clip(0), column, len(SIZE_BINS)) for column in columns]
    return [[float(value) for value in row] for row in zip(*counted, strict=True)]


def _long_packets(transfers: pl.DataFrame) -> metrics.Floats:
    return transfers["packets_long"].fill_null(0).to_numpy().astype(np.float64)


def _batches(transfers: pl.DataFrame, every_s: float, warm_up_s: float, end_s: float) -> list[list[float]]:
    """For each batch begun after warm-up: its start, mean time, Jain's index of its rates, slowest time.

    A flow still open at the end counts with the time it has taken so far. A batch that began less than
    half a period before the end is left out.
    """
    chosen = transfers.filter(
        (pl.col("start_s") >= warm_up_s - 1e-6) & (pl.col("start_s") < end_s - every_s / 2)
    )
    observed = pl.col("duration_s").fill_null(end_s - pl.col("start_s")).alias("time_s")
    batches = (
        chosen.with_columns(observed)
        .group_by("page")
        .agg(
            pl.col("start_s").min(),
            pl.col("time_s").mean().alias("mean_s"),
            metrics.jain(pl.col("size_bytes") / pl.col("time_s")).alias("jain"),
            pl.col("time_s").max().alias("slowest_s"),
        )
        .sort("page")
    )
    return [list(row) for row in batches.drop("page").iter_rows()]


def _foreground(run: Run, warm_up_s: float) -> Reduction:
    found: Reduction = {}
    for name in ("short", "long"):
        probes = rows_of(run, "transfers", name)
        times = metrics.completed_times(probes, warm_up_s)
        found |= {
            f"{name}_probe_s": mean(times),
            f"{name}_probe_spread_s": float(times.std()) if times.size else math.nan,
            f"{name}_probe_beyond_3s": mean((times > 3.0).astype(np.float64)),
        }
    return found


def _settling(everything: pl.DataFrame) -> list[list[float]]:
    """Short files completed and the sum of their times, by when they began, from the run's first second."""
    short = everything.filter((pl.col("segments") <= SHORT_FILE) & pl.col("complete"))
    place = (short["start_s"].to_numpy() / SETTLING_BIN_S).astype(np.int64)
    counts = np.bincount(place)
    sums = np.bincount(place, short["duration_s"].to_numpy())
    return [counts.astype(np.float64).tolist(), sums.tolist()]


def _queue(run: Run, warm_up_s: float) -> Reduction:
    """Spread of the queue after warm-up, and its first minutes with the rate of drops and marks."""
    samples = run.tables["queue"].filter((pl.col("link") == "bottleneck") & (pl.col("time_s") >= warm_up_s))
    lengths = samples["length_packets"].to_numpy().astype(np.float64)
    begin = samples.filter(pl.col("time_s") < warm_up_s + SHOWN_S)
    return {
        "queue_spread": float(lengths.std()) if lengths.size else math.nan,
        "queue_series": begin["length_packets"].to_list(),
        "refused_series": _refused(samples.filter(pl.col("time_s") <= warm_up_s + SHOWN_S)),
    }


def _refused(samples: pl.DataFrame) -> list[float | None]:
    """Packets dropped or marked per packet that arrived at the queue, in each bin of `RATE_BIN_S`."""
    counts = samples.gather_every(max(1, round(RATE_BIN_S / QUEUE_STEP_S)))
    hit = np.diff((counts["drops"] + counts["marks"]).to_numpy().astype(np.float64))
    arrived = np.diff(counts["arrivals"].to_numpy().astype(np.float64))
    return [float(a / b) if b > 0 else None for a, b in zip(hit, arrived, strict=True)]


def _threshold(run: Run) -> list[list[float]]:
    """The edge's threshold over time, sampled every `SERIES_STEP_S`; empty without an edge."""
    edge = gauges.at(run.tables["gauges"], node="left")
    if not edge.height:
        return []
    step = max(1, round(SERIES_STEP_S / QUEUE_STEP_S))
    return [list(row) for row in edge.gather_every(step).select("time_s", "threshold", "flows").iter_rows()]


# Loss and transmission time (Fig 1)

LOSSES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15)
TRANSFER_SIZES = (10, 100, 1000)


def _random_loss(*, loss: float) -> dict[str, Any]:
    """Transfers of three sizes that never meet, on a line that loses packets at random; RTT 100 ms."""
    return {
        "duration": "3000s",
        "warm_up": "0s",
        "bottleneck": {
            "rate": "1Gbps",
            "delay": "48ms",
            "queue": {"kind": "drop-random", "probability": loss, "limit": "1000000p"},
        },
        "access": {"rate": "1Gbps", "delay": "1ms"},
        "tcp": tcp("Drop Tail", 3),
        "traffic": {
            str(size): {"kind": "ftp", "flows": 200, "sizes": constant(size * PACKET), "stagger": "10s"}
            for size in TRANSFER_SIZES
        },
        "record": {"drops": False, "queue_every": "0s"},
    }


def loss_measures(run: Run) -> Reduction:
    """Mean and coefficient of variation of the times of each size."""
    found: Reduction = {}
    for size in TRANSFER_SIZES:
        transfers = rows_of(run, "transfers", str(size))
        times = metrics.completed_times(transfers, 0.0)
        found |= {
            f"mean_{size}": mean(times),
            f"variation_{size}": float(times.std(ddof=1) / times.mean()) if times.size > 1 else math.nan,
            f"unfinished_{size}": transfers.height - int(times.size),
        }
    return found


# Preferential treatment (Table I, Fig 2)

TABLE_1_END_S = 500
SHARE_BIN_S = 10.0
DEMAND = 50_000
"""Packets that the short flows offer in a run."""

_BATCH: dict[str, Any] = {"kind": "probes", "flows": 10, "size": "100p", "every": "10s"}

PATTERNS: Mapping[str, dict[str, Any]] = {
    "10 every 10 s, whatever is under way": _BATCH,
    "10 every 10 s, those still at it sit out": {**_BATCH, "late": "sits-out"},
    "10 users, each 6 s after its last": {
        "kind": "sessions",
        "users": 10,
        "hosts": 10,
        "think_time": {"kind": "exponential", "mean": "6s"},
        "think_from": "page-end",
        "objects": {"kind": "constant", "value": 1},
        "sizes": {"kind": "constant", "value": "100p"},
    },
}
"""How short flows may have been repeated; the second has the published limit of 50 000 packets, and
falls short of it where flows are slow."""

RTTS_MS = (40, 80, 160)
BUFFERS = (0.5, 1.5, 5.0)
"""Drop Tail's buffers of the search, in bandwidth-delay products; RED and RIO-PS have 5/3 of it."""

CHOSEN = {"pattern": "10 every 10 s, those still at it sit out", "rtt_ms": 160, "buffer": 0.5}
"""The set-up of the search nearest to the published Drop Tail rows, among patterns that cannot offer more
than the published 50 000 packets."""


def table_1_scenario(*, queue: str, mbps: float, pattern: str, rtt_ms: int, buffer: float) -> dict[str, Any]:
    """Ten persistent flows beside short ones of 100 packets."""
    bdp = mbps * 1e6 * rtt_ms / 1e3 / (8 * PACKET)
    # Thresholds of Table III are shares of RED's buffer, which is 2.5 products for Drop Tail's 1.5.
    product = max(6, round(bdp * buffer / 1.5))
    table: dict[str, Any] = {
        "duration": f"{TABLE_1_END_S}s",
        "warm_up": "0s",
        "bottleneck": {
            "rate": f"{mbps * 1000:.0f}kbps",
            "delay": f"{rtt_ms / 2 - 2:g}ms",
            "queue": discipline(queue, product),
        },
        "access": {"rate": "100Mbps", "delay": "1ms"},
        "tcp": tcp(queue, 3),
        "traffic": {
            "short": copy.deepcopy(PATTERNS[pattern]),
            "long": {"kind": "ftp", "flows": 10, "stagger": "10s"},
        },
        "record": {"drops": False, "queue_every": "0s"},
    }
    if queue == "RIO-PS":
        table["edges"] = {"left": dict(EDGE)}
    return table


def _table_1(*, queue: str, mbps: float) -> dict[str, Any]:
    table = table_1_scenario(queue=queue, mbps=mbps, **CHOSEN)  # type: ignore[arg-type]
    table["record"]["packets"] = ["bottleneck"]
    return table


def goodput_measures(run: Run) -> Reduction:
    """Packets that arrived, by class."""
    packets = {
        name: float(rows_of(run, "flows", name)["delivered_bytes"].sum()) / PACKET
        for name in ("short", "long")
    }
    line = metrics.link(run.tables["links"], "bottleneck")
    return {
        **packets,
        "all": packets["short"] + packets["long"],
        "utilisation": float(line["utilisation"]),
        "drop_fraction": float(line["drop_fraction"]),
    }


def table_1_measures(run: Run) -> Reduction:
    """The same, with the short class's share of the line over time, and the order of packets."""
    packets = run.tables["packets"]
    started = packets.filter(pl.col("event") == "start")
    short = rows_of(run, "flows", "short")["flow"]
    place = (started["time_s"].to_numpy() / SHARE_BIN_S).astype(np.int64)
    size = int(TABLE_1_END_S / SHARE_BIN_S)
    sent = np.bincount(place, started["size_bytes"].to_numpy(), size)[:size]
    of_short = np.where(
        started["flow"].is_in(short.implode()).to_numpy(), started["size_bytes"].to_numpy(), 0
    )
    share = np.bincount(place, of_short, size)[:size] / np.maximum(sent, 1.0)
    after = share[2:]
    return goodput_measures(run) | {
        "short_share": share.tolist(),
        "share_variation": float(after.std(ddof=1) / after.mean()) if after.mean() > 0 else math.nan,
        "overtaken": overtaken(packets),
        "retagged": _retagged(run),
    }


def overtaken(packets: pl.DataFrame) -> int:
    """Packets that left a queue after another of their flow that had come later."""
    came, left = (
        packets.filter(pl.col("event") == event).select("flow", "sequence_bytes", "size_bytes").to_numpy()
        for event in ("enqueue", "start")
    )
    # A retransmission has the bytes of the first sending: the k-th to come is the k-th to leave.
    base = np.max(np.concatenate([came, left]), axis=0, initial=0) + 1
    assert math.prod(base.tolist()) < 2**63
    of_came, of_left = ((rows[:, 0] * base[1] + rows[:, 1]) * base[2] + rows[:, 2] for rows in (came, left))
    order = np.argsort(of_came, kind="stable")
    place = np.searchsorted(of_came[order], of_left) + _copies(of_left)
    known = place < order.size
    known[known] = of_came[order[place[known]]] == of_left[known]
    arrival, flow = order[place[known]], left[known, 0]
    by_flow = np.argsort(flow, kind="stable")
    arrival, flow = arrival[by_flow], flow[by_flow]
    return int(((arrival[1:] < arrival[:-1]) & (flow[1:] == flow[:-1])).sum())


def _copies(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How often the same value stands before each."""
    order = np.argsort(values, kind="stable")
    sorted_ = values[order]
    copies = np.empty(values.size, dtype=np.int64)
    copies[order] = np.arange(values.size) - np.searchsorted(sorted_, sorted_)
    return copies


def _retagged(run: Run) -> int:
    """Flows with packets of both classes."""
    transfers = run.tables["transfers"]
    sent = transfers["packets_sent"].to_numpy()
    as_long = _long_packets(transfers)
    return int(((as_long > 0) & (as_long < sent)).sum())


FULL_S = 4000
QUICK_S = 600
SEEDS = 20

SWEEPS = (
    Grid(
        name="exp-1",
        axes={"queue": QUEUES, "ito": INITIAL_RTOS, "end": (FULL_S,)},
        scenario=_exp_1,
        reduce=web_measures,
        seeds=SEEDS,
        quick_axes={"end": (QUICK_S,)},
    ),
    Grid(
        name="exp-2",
        axes={"queue": QUEUES, "files": tuple(ONE_CLASS), "end": (FULL_S // 2,)},
        scenario=_exp_2,
        reduce=web_measures,
        seeds=SEEDS,
        quick_axes={"end": (QUICK_S,)},
    ),
    # The runs of the sensitivity analysis below, so they are made once for both.
    Grid(
        name="exp-2-laws",
        axes={
            "queue": ("RED", "RIO-PS"),
            "files": tuple(ONE_CLASS),
            "law": tuple(LAWS),
            "end": (FULL_S // 2,),
        },
        scenario=_exp_2_by_law,
        reduce=web_measures,
        seeds=5,
        quick_axes={"end": (QUICK_S,)},
        quick_seeds=2,
    ),
    Grid(
        name="two-way",
        axes={"queue": QUEUES, "end": (FULL_S // 2,)},
        scenario=_two_way,
        reduce=web_measures,
        quick_axes={"end": (QUICK_S // 2,)},
    ),
    Grid(name="random-loss", axes={"loss": LOSSES}, scenario=_random_loss, reduce=loss_measures),
    Grid(
        name="table-1",
        axes={"queue": QUEUES, "mbps": (1.25, 1.5)},
        scenario=_table_1,
        reduce=table_1_measures,
    ),
    Grid(
        name="table-1-search",
        axes={
            "queue": QUEUES,
            "mbps": (1.25, 1.5),
            "pattern": tuple(PATTERNS),
            "rtt_ms": RTTS_MS,
            "buffer": BUFFERS,
        },
        scenario=table_1_scenario,
        reduce=goodput_measures,
        seeds=3,
        quick_axes={"rtt_ms": (160,)},
    ),
)

SENSITIVITY_SWEEPS = (
    Grid(
        name="exp-1",
        axes={"queue": QUEUES, "ito": (3,), "end": (FULL_S,)},
        scenario=_exp_1,
        reduce=web_measures,
        quick_axes={"end": (QUICK_S,)},
    ),
    Grid(
        name="exp-2",
        axes={"queue": ("RED", "RIO-PS"), "files": tuple(ONE_CLASS), "end": (FULL_S // 2,)},
        scenario=_exp_2,
        reduce=web_measures,
        seeds=5,
        quick_axes={"end": (QUICK_S,)},
        quick_seeds=2,
    ),
)


def _same_buffer(table: dict[str, Any]) -> dict[str, Any]:
    """Drop Tail with as large a buffer as the others: 2.5 bandwidth-delay products instead of 1.5."""
    queue = table["bottleneck"]["queue"]
    if queue["kind"] == "drop-tail":
        queue["limit"] = f"{int(queue['limit'][:-1]) * 5 // 3}p"
    return table


def _web(**changes: Any) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        table["traffic"]["web"].update(changes)
        return table

    return change


def _different_rtts(table: dict[str, Any]) -> dict[str, Any]:
    """Round trips between 40 and 120 ms instead of 80 ms for everybody."""
    table["bottleneck"]["delay"] = "18ms"
    table["traffic"]["web"]["extra_delay"] = ["0ms", "40ms"]
    for name in {"short", "long"} & set(table["traffic"]):
        table["traffic"][name]["extra_delay"] = "20ms"
    return table


def _hesitating_hosts(table: dict[str, Any]) -> dict[str, Any]:
    table.pop("host", None)
    return table


VARIANTS = (
    Variant(name="as decided", what="The main reading on fewer seeds, to compare with.", change=keep),
    Variant(
        name="same buffer",
        what="Drop Tail, too, has 2.5 bandwidth-delay products.",
        change=_same_buffer,
    ),
    Variant(
        name="L_t = 20 for good",
        what="The edge's threshold is 20 packets and is not steered.",
        change=LAWS["static, 20 packets"],
    ),
    Variant(
        name="L_t by quantile",
        what="The edge's threshold is the quantile of the counts that gives the wanted ratio.",
        change=LAWS["quantile"],
    ),
    Variant(
        name="flows forgotten at age",
        what="The edge forgets a flow when it has been silent for 1 s, not at the scan after that.",
        change=LAWS["steered, flows forgotten at age"],
    ),
    Variant(
        name="ns-2's average",
        what="The average of all packets moves only when a short one arrives, as in ns-2's rio.cc.",
        change=queue_with("rio-ps", total_average="in-arrivals"),
    ),
    Variant(name="ITO 1 s", what="An initial time-out of 1 s.", change=tcp_with({"rto.initial": "1s"})),
    Variant(
        name="thinking after the page",
        what="A user thinks from the end of a page on, so that congestion slows requests (closed loop).",
        change=_web(think_from="page-end"),
    ),
    Variant(
        name="hosts hesitate",
        what="Hosts look at a packet after a random time of up to 0.4 ms, one packet on the line.",
        change=_hesitating_hosts,
    ),
    Variant(
        name="round trips differ",
        what="Round trips of Web flows between 40 and 120 ms; of foreground flows 80 ms.",
        change=_different_rtts,
    ),
)
