"""The runs of the study `helsinki`: scenarios, sweeps, and what each run is reduced to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.grid import Grid, Reduction
from aqmlab.measure import Run
from aqmlab.publication import Variant
from aqmlab.scenario import changed
from aqmlab.studies.shared import Change, constant, keep

# The path of the testbed

RATE_KBPS = 140
DELAY_MS = 100
LINK = "last"
"""The link with the queue, from the last-hop router to the destination."""

SEGMENT = 1514
"""Bytes of a full segment, as the kernel counts it: with 14 bytes of Ethernet."""

_LENGTHS: Mapping[str, Any] = {"mss": "1460B", "header": "54B", "syn_size": "66B", "ack_size": "54B"}

_KERNEL: dict[str, Any] = {
    "profile": "linux-6",
    "connection": {**_LENGTHS, "close": "none"},
    "congestion_control": {"kind": "reno"},
    "cwnd": {"initial": 2, "initial_after_syn_loss": 2},
    "rto": {"tick": "10ms"},
    "receiver": {"first_window": 44},
}
"""How the kernel of the runs beside ours was set: Reno, no timestamps (so its window first grows after
64 kB), a clock of 100 Hz; its programs left connections open."""

SYSTEMS: Mapping[str, dict[str, Any]] = {
    "linux-2.4": {"profile": "linux-2.4", "connection": {**_LENGTHS, "close": "none"}},
    "linux-6": _KERNEL,
}
"""The `[tcp]` table of each system; the second is today's Linux with Reno and without timestamps."""

TAILS = ("tail", "ptail")
"""Tail Drop with a limit in bytes, and in packets."""

QUEUES = (*TAILS, "red")


def leaf_of(name: str, system: str) -> dict[str, Any]:
    """The queue of a class: 20 kB, or the 13 packets of 1514 bytes that fit into them."""
    if name == "tail":
        return {"kind": "drop-tail", "limit": "20000B"}
    if name == "ptail":
        return {"kind": "drop-tail", "limit": "13p"}
    return {
        "kind": "linux-red",
        "kernel": "2.4" if system == "linux-2.4" else "6.1",
        "min": "5000B",
        "max": "18000B",
        "probability": 0.1,
        "limit": "20000B",
        "avpkt": "1500B",
        "burst": 6,
    }


def _class(rate: int, ceil: int, leaf: dict[str, Any], **more: Any) -> dict[str, Any]:
    bursts = {"burst": "1600B", "cburst": "1600B", "quantum": f"{SEGMENT}B"}
    return {"rate": f"{rate}kbps", "ceil": f"{ceil}kbps", **bursts, "queue": leaf, **more}


def _classes(classes: int, leaf: dict[str, Any]) -> dict[str, Any]:
    if classes == 1:
        return {"kind": "htb", "classes": {"all": _class(RATE_KBPS, RATE_KBPS, leaf)}}
    return {
        "kind": "htb",
        "default": "tcp",
        "classes": {
            "link": {"rate": f"{RATE_KBPS}kbps", "burst": "1600B", "cburst": "1600B"},
            "tcp": _class(70, RATE_KBPS, leaf, parent="link", priority=1),
            "udp": _class(70, 100, dict(leaf), parent="link", priority=0, match={"protocol": "udp"}),
        },
    }


def _path(system: str, discipline: dict[str, Any], traffic: dict[str, Any]) -> dict[str, Any]:
    """Source, intermediate router, last-hop router, destination, and an idle way back."""
    ends = {"from": "source", "to": "destination"}
    return {
        "warm_up": "0s",
        "access": {"rate": "1Gbps", "delay": "0s"},
        "host": {"jitter": "1ms"},
        "tcp": dict(SYSTEMS[system]),
        "links": {
            "wired": {"from": "source", "to": "middle", "rate": "100Mbps", "delay": "1ms"},
            "trunk": {"from": "middle", "to": "last-hop", "rate": "10Mbps", "delay": "1ms"},
            LINK: {
                "from": "last-hop",
                "to": "destination",
                "rate": "1Gbps",
                "delay": f"{DELAY_MS}ms",
                "queue": discipline,
            },
            "back": {"from": "destination", "to": "source", "rate": "1Gbps", "delay": f"{DELAY_MS}ms"},
        },
        "traffic": {name: {**ends, "stagger": "100ms", **workload} for name, workload in traffic.items()},
        "record": {"drops": False, "queue_every": "0s", "packets": [LINK]},
    }


# Test case 1: three TCP flows


THIRD_STARTS = (0, 1, 2, 3, 4, 5, 5.5, 6, 7)
PLOTTED_STARTS = (0, 2, 4, 5, 5.5)
"""The starts of the third flow that the talk shows, in seconds."""

INITIAL_BYTES = 292_000
THIRD_BYTES = 46_720


def three_flows(*, system: str, queue: str, third_s: float) -> dict[str, Any]:
    """Two transfers, and a smaller one that starts later."""
    files = {
        "initial": {"kind": "ftp", "flows": 2, "sizes": constant(INITIAL_BYTES)},
        "third": {"kind": "ftp", "sizes": constant(THIRD_BYTES), "start": f"{third_s:g}s"},
    }
    return {"duration": "400s", **_path(system, _classes(1, leaf_of(queue, system)), files)}


def three_flow_measures(run: Run) -> Reduction:
    """Times and retransmissions of the fastest and slowest initial flow and of the third, and what the
    bottleneck did to each while the third was active."""
    transfers = _transfers(run)
    (third,) = transfers.pop("third")
    initial = [row for rows in transfers.values() for row in rows]
    fastest, slowest = sorted(initial, key=lambda row: _elapsed(row, math.inf))
    flows = {"fastest": fastest, "slowest": slowest, "third": third}
    times = {name: _elapsed(row) for name, row in flows.items()}
    sent = {name: int(row["retransmitted"]) for name, row in flows.items()}
    return {
        "fastest_s": times["fastest"],
        "slowest_s": times["slowest"],
        "elapsed_s": times["third"],
        "handshake_s": _known(third["handshake_s"]),
        **{f"retransmitted_{name}": float(count) for name, count in sent.items()},
        "third_timeouts": _known(third["timeouts"]),
        "jain": _jain([row["size_bytes"] / _elapsed(row) for row in flows.values()]),
        **_while_active(run, third),
    }


_COLUMNS = ("flow", "start_s", "size_bytes", "handshake_s", "acknowledged_s", "retransmitted", "timeouts")


def _transfers(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The transfers of a run by workload; so few that a query for each would take longer."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in run.tables["transfers"].select("traffic", *_COLUMNS).to_dicts():
        found.setdefault(row["traffic"], []).append(row)
    return found


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _elapsed(row: Mapping[str, Any], otherwise: float = math.nan) -> float:
    """From the SYN to the last byte acknowledged."""
    value = row["acknowledged_s"]
    return otherwise if value is None else float(value)


class Arrivals:
    """The data that came to the bottleneck: when, of which flow, where in it, how much, and whether it
    was dropped."""

    def __init__(self, run: Run) -> None:
        came = run.tables["packets"].filter(pl.col("event").is_in(["enqueue", "drop"]))
        self.carries_data = (came["payload_bytes"] > 0).to_numpy()
        self.time_s = came["time_s"].to_numpy()
        self.flow = came["flow"].to_numpy()
        self.sequence = came["sequence_bytes"].to_numpy()
        self.size = came["size_bytes"].to_numpy()
        self.dropped = (came["event"] == "drop").to_numpy()

    def between(self, since_s: float, until_s: float) -> Any:
        """Which of the data came in a period."""
        return self.carries_data & (self.time_s >= since_s) & (self.time_s <= until_s)


def _while_active(run: Run, third: Mapping[str, Any]) -> Reduction:
    came = Arrivals(run)
    active = came.between(third["start_s"], third["start_s"] + _elapsed(third, math.inf))
    its = came.flow == third["flow"]
    lost = came.dropped
    bytes_in = np.where(active & ~lost, came.size, 0)
    again = _sent_again(came.sequence[its & came.carries_data])
    return {
        "third_dropped": _share(lost[active & its].sum(), (active & its).sum()),
        "others_dropped": _share(lost[active & ~its].sum(), (active & ~its).sum()),
        "third_bytes": _share(bytes_in[its].sum(), bytes_in.sum()),
        "lost_again": float((again & lost[its & came.carries_data]).sum()),
        "syns_lost": float((its & lost & ~came.carries_data).sum()),
    }


def _sent_again(sequence: Any) -> Any:
    """Which of the segments had come before."""
    first = np.zeros(sequence.size, dtype=bool)
    first[np.unique(sequence, return_index=True)[1]] = True
    return ~first


def _jain(rates: Sequence[float]) -> float:
    squares = math.fsum(rate**2 for rate in rates)
    return float(metrics.jain_of(math.fsum(rates), squares, len(rates))) if squares else math.nan


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else math.nan


# Test case 2: a TCP flow and a UDP flow


UDP_STARTS = (0, 2, 7, 12, 16, 18)
TCP_BYTES = 350_400
GAP_S = 0.02
DATAGRAM = 264
BURST_S = 5
DATAGRAMS = round(BURST_S / GAP_S)


def datagrams(size: int, gap_s: float = GAP_S) -> dict[str, Any]:
    """A UDP flow that sends a datagram of so many bytes so often."""
    rate = f"{8 * size / gap_s / 1000:g}kbps"
    return {"kind": "udp", "rate": rate, "sizes": constant(size), "phase": "zero"}


def with_burst(*, system: str, classes: int, queue: str, udp_s: float) -> dict[str, Any]:
    """A transfer, and datagrams for five seconds."""
    return _with_udp(system, (classes, queue), {"start": f"{udp_s:g}s", "lasts": f"{BURST_S}s"}, "300s")


WHOLE_S = 120


def with_udp_throughout(*, system: str, classes: int, queue: str, udp_s: float) -> dict[str, Any]:
    """A transfer, and datagrams until it is done."""
    return _with_udp(system, (classes, queue), {"start": f"{udp_s:g}s"}, f"{WHOLE_S}s")


def _with_udp(system: str, at: tuple[int, str], period: dict[str, Any], duration: str) -> dict[str, Any]:
    classes, name = at
    traffic = {
        "file": {"kind": "ftp", "sizes": constant(TCP_BYTES)},
        "voice": {**datagrams(DATAGRAM), **period},
    }
    return {"duration": duration, **_path(system, _classes(classes, leaf_of(name, system)), traffic)}


_UDP_COLUMNS = ("traffic", "flow", "datagrams_received")


def udp_measures(run: Run) -> Reduction:
    """What became of both flows, and how they shared the bottleneck while both were active."""
    (tcp,) = _transfers(run)["file"]
    (udp,) = [row for row in run.tables["flows"].select(_UDP_COLUMNS).to_dicts() if row["traffic"] == "voice"]
    came = Arrivals(run)
    of_udp = came.flow == udp["flow"]
    until_s = min(tcp["start_s"] + _elapsed(tcp, math.inf), float(came.time_s[of_udp].max()))
    both = came.between(float(came.time_s[of_udp].min()), until_s)
    accepted = np.where(both & ~came.dropped, came.size, 0)
    shares = [float(accepted[of_udp].sum()), float(accepted[~of_udp].sum())]
    return {
        "tcp_s": _elapsed(tcp),
        "retransmitted": float(tcp["retransmitted"]),
        "datagrams": float(udp["datagrams_received"]),
        "udp_arrived": 1 - _share(came.dropped[both & of_udp].sum(), (both & of_udp).sum()),
        "jain": _jain(shares),
        "udp_share": _share(shares[0], math.fsum(shares)),
    }


# Sequences against the time, of single runs


TRACED = (("tail", 2), ("tail", 5), ("ptail", 4), ("red", 4))
"""Queue and start of the third flow."""

TRACED_BURSTS = (2, 7, 16)


def _traced(*, plot: tuple[str, float]) -> dict[str, Any]:
    name, third_s = plot
    table = three_flows(system="linux-2.4", queue=name, third_s=third_s)
    return remembering(table, "third")


def _traced_burst(*, udp_s: float) -> dict[str, Any]:
    return remembering(with_burst(system="linux-2.4", classes=1, queue="ptail", udp_s=udp_s), "file")


def remembering(table: dict[str, Any], traffic: str) -> dict[str, Any]:
    """The scenario with the history of a workload's flow in place of the bottleneck's packets."""
    table["record"] |= {"packets": [], "histories": [traffic]}
    return table


def history(run: Run) -> Reduction:
    """What happened to the segments of the only flow that was remembered."""
    packets = run.tables["packets"].select(_REMEMBERED)
    packets = packets.with_columns(pl.col("event", "link").cast(pl.String))
    (flow,) = packets["flow"].unique().to_list()
    (row,) = run.tables["transfers"].filter(pl.col("flow") == flow).select(_COLUMNS).to_dicts()
    received = run.tables["flows"]["datagrams_received"].max()
    return {
        "flow": flow,
        "columns": packets.to_dict(as_series=False),
        "elapsed_s": _elapsed(row),
        "datagrams": received,
    }


_REMEMBERED = (
    "time_s",
    "event",
    "link",
    "flow",
    "backward",
    "sequence_bytes",
    "payload_bytes",
    "size_bytes",
)


# Sweeps

SEEDS = 20
_BOTH = {"system": tuple(SYSTEMS)}

THIRD = Grid(
    name="third",
    axes={**_BOTH, "queue": QUEUES, "third_s": THIRD_STARTS},
    quick_axes={"third_s": PLOTTED_STARTS},
    scenario=three_flows,
    reduce=three_flow_measures,
    seeds=SEEDS,
    quick_seeds=8,
)

BURST = Grid(
    name="burst",
    axes={**_BOTH, "classes": (1, 2), "queue": QUEUES, "udp_s": UDP_STARTS},
    quick_axes={"udp_s": (0, 2, 7, 18)},
    scenario=with_burst,
    reduce=udp_measures,
    seeds=SEEDS,
    quick_seeds=5,
)

SWEEPS = (
    THIRD,
    BURST,
    Grid(
        name="throughout",
        axes={**_BOTH, "classes": (1, 2), "queue": QUEUES, "udp_s": (0, 2, 7, 12)},
        quick_axes={"udp_s": (0, 7)},
        scenario=with_udp_throughout,
        reduce=udp_measures,
        seeds=SEEDS,
        quick_seeds=3,
    ),
    Grid(name="traces", axes={"plot": TRACED}, scenario=_traced, reduce=history, seeds=1),
    Grid(
        name="burst-traces",
        axes={"udp_s": TRACED_BURSTS},
        scenario=_traced_burst,
        reduce=history,
        seeds=1,
    ),
)

SENSITIVITY_SEEDS = 10

SENSITIVITY_SWEEPS = (
    Grid(
        name="third",
        axes={**THIRD.axes, "third_s": PLOTTED_STARTS},
        quick_axes={"third_s": (2, 5.5)},
        scenario=three_flows,
        reduce=three_flow_measures,
        seeds=SENSITIVITY_SEEDS,
        quick_seeds=2,
    ),
    Grid(
        name="burst",
        axes={**BURST.axes, "udp_s": (0, 2, 7, 18)},
        quick_axes={"udp_s": (0, 7)},
        scenario=with_burst,
        reduce=udp_measures,
        seeds=SENSITIVITY_SEEDS,
        quick_seeds=2,
    ),
)

# Other answers


def _leaves(table: dict[str, Any]) -> list[dict[str, Any]]:
    classes = table["links"][LINK]["queue"]["classes"].values()
    return [one["queue"] for one in classes if "queue" in one]


def delay(milliseconds: int) -> Change:
    """Another one-way propagation delay."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for name in (LINK, "back"):
            table["links"][name]["delay"] = f"{milliseconds}ms"
        return table

    return change


def _larger_kilobytes(table: dict[str, Any]) -> dict[str, Any]:
    for leaf in _leaves(table):
        for field, value in (("limit", "20480B"), ("min", "5120B"), ("max", "18432B")):
            if field in leaf and metrics.in_bytes(leaf[field]):
                leaf[field] = value
    return table


def _burst(packets: int) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for leaf in _leaves(table):
            if leaf["kind"] == "linux-red":
                leaf["burst"] = packets
        return table

    return change


def _maximum(probability: float) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for leaf in _leaves(table):
            if leaf["kind"] == "linux-red":
                leaf["probability"] = probability
        return table

    return change


def _other_initial_rto(table: dict[str, Any]) -> dict[str, Any]:
    return changed(table, {"tcp.rto.initial": "1s" if table["tcp"]["profile"] == "linux-2.4" else "3s"})


def _voice(size: int, gap_s: float = GAP_S) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        if "voice" in table["traffic"]:
            table["traffic"]["voice"].update(datagrams(size, gap_s))
        return table

    return change


def _without_ethernet(table: dict[str, Any]) -> dict[str, Any]:
    lengths = {"header": "40B", "syn_size": "52B", "ack_size": "40B"}
    table = changed(table, {f"tcp.connection.{name}": length for name, length in lengths.items()})
    return _voice(DATAGRAM - 14)(table)


def _fixed_shares(table: dict[str, Any]) -> dict[str, Any]:
    for one in table["links"][LINK]["queue"]["classes"].values():
        if "parent" in one:
            one["ceil"] = one["rate"]
    return table


def _stagger(time: str) -> Change:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for workload in table["traffic"].values():
            workload["stagger"] = time
        return table

    return change


def _at_once(table: dict[str, Any]) -> dict[str, Any]:
    table["host"] = {"jitter": "0s"}
    return table


def _old_buffers(table: dict[str, Any]) -> dict[str, Any]:
    for leaf in _leaves(table):
        if leaf["kind"] == "drop-tail":
            leaf["admits"] = "until-beyond"
    return table


def _kernels_old(table: dict[str, Any]) -> dict[str, Any]:
    if table["tcp"]["profile"] == "linux-2.4":
        old = {"rto.initial": "3s", "recovery.kind": "sack", "recovery.frto": "off"}
        table["tcp"] = changed(_KERNEL, old)
        for leaf in _leaves(table):
            if leaf["kind"] == "linux-red":
                leaf["kernel"] = "6.1"
    return table


def _of_today(table: dict[str, Any]) -> dict[str, Any]:
    if table["tcp"]["profile"] == "linux-6":
        table["tcp"] = {"profile": "linux-6"}
    return table


VARIANTS = (
    Variant(name="as decided", what="The main reading on fewer replications.", change=keep),
    *(
        Variant(name=f"delay {one} ms", what="One-way propagation delay.", change=delay(one))
        for one in (10, 50, 200, 300)
    ),
    Variant(
        name="kB of 1024 bytes",
        what="5120, 18432 and 20480 B; RED of Linux 2.4 then drops with half the probability.",
        change=_larger_kilobytes,
    ),
    Variant(
        name="Tail Drop of Linux 2.4",
        what="A queue that admits every packet until more than its limit waits, and then none.",
        change=_old_buffers,
    ),
    Variant(name="max_p 0.05", what="RED drops half as often.", change=_maximum(0.05)),
    Variant(name="weight 1/16", what="RED's average moves half as fast: burst 8.", change=_burst(8)),
    Variant(name="weight 1/4", what="RED's average moves twice as fast: burst 5.", change=_burst(5)),
    Variant(
        name="initial RTO swapped",
        what="1 s with linux-2.4, 3 s with linux-6.",
        change=_other_initial_rto,
    ),
    Variant(name="UDP 70 kb/s", what="Datagrams of 175 B without Ethernet.", change=_voice(189)),
    Variant(
        name="UDP of 500 B",
        what="25 datagrams a second of 500 B, at the same 100 kb/s.",
        change=_voice(514, 2 * GAP_S),
    ),
    Variant(
        name="HTB reading B",
        what="Two classes of 70 kb/s that lend each other nothing.",
        change=_fixed_shares,
    ),
    Variant(name="IP lengths", what="Packets without 14 bytes of Ethernet.", change=_without_ethernet),
    Variant(name="starts in 0.5 s", what="Starts at random within 0.5 s.", change=_stagger("500ms")),
    Variant(name="hosts at once", what="Hosts answer at once.", change=_at_once),
    Variant(
        name="the kernel's `old`",
        what="In place of linux-2.4 what the kernel's runs beside it were: 6.1 without RACK, probes, F-RTO.",
        change=_kernels_old,
    ),
    Variant(
        name="linux-6 as it is",
        what="CUBIC, initial window 10, timestamps; linux-2.4 as decided.",
        change=_of_today,
    ),
)
