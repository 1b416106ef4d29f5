"""Three short transfers through HTB at 140 kb/s on the Linux 6.1 kernel, with a band of 10 %.

The traces of single runs must be the same packet by packet: flow, bytes, fate and time, to a tick of 10 ms.
The kernel also sent packets of its own, for IPv6 autoconfiguration; they are added where the recorded
departures leave a gap. The phase of the kernel's clock was not recorded; the phase that fits is used.

Replications of case 1 (two transfers, a third `d` seconds later) and case 2 (one transfer and datagrams)
begin at the recorded times. Each run of aqmlab has another phase of the clock. If a queue drops from its
tail, a difference of 256 ns in the kernel decides which packet is lost, so means are compared instead of
replications.

Replications with other delays, initial RTOs, lengths, rates and starts are held out: they were recorded with
the rest, and no profile and no case is based on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import HELD_OUT, Quantity, Row, exact, independent

WHERE = data.LINUX / "helsinki"
BAND = 0.10
FLOWS = ("first", "second", "third")
TCP: Mapping[str, Mapping[str, str]] = {
    "old": {},
    "modern": {"tcp.recovery.kind": "rack", "tcp.recovery.frto": "on"},
}
"""The kernel's TCP with old settings, and with its defaults."""
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "": {},
    "jit0.5": {},
    "p0.05": {},
    "udp70k": {},
    "stab": {
        "tcp.connection.header": "40B",
        "tcp.connection.syn_size": "52B",
        "tcp.connection.ack_size": "40B",
    },
}
"""Suffixes of a held-out condition's TCP: starts within half a second (as recorded), RED's `max_p` (a queue
of its own), smaller datagrams, and lengths without the 14 bytes of Ethernet."""
TRACES = {
    "tail_old_rto3s_d2": "408ms",
    "tail_old_rto3s_d5.5": "411ms",
    "ptail_old_rto3s_d2": "415ms",
    "tail_old_rto1s_d2": "407500us",
    "tail_modern_rto1s_d2": "409ms",
}
"""The traces, and the phase of the kernel's clock in each."""
RATE = 140_000
DATAGRAM, PER_SECOND = 264, 50
"""Bytes of a datagram including Ethernet's, and datagrams per second."""
DATAGRAMS = {"udp70k": 175 + 14, "stab": 250}
ETHERNET = 14
ACK_DELAY = 0.001
"""Time that an acknowledgement needs in addition to twice the one-way delay, in seconds."""
PHASES = 64
"""Number of ticks to which the kernel's timers may be aligned."""

TICK = 0.0125
"""A tick of the kernel's clock, with a margin, in seconds."""
TO_BOTTLENECK = 0.001 + 66 * 8 / 10e6
"""Time of a SYN to the bottleneck, in seconds."""
LEAST_GAP = 0.002
"""Smallest gap between departures, in seconds, that one more packet explains."""

Measures = dict[str, float]


def cases() -> list[Case]:
    """The traces, then case 1 and case 2 by condition, and both again with the held-out conditions."""
    traces = [trace_case(name, phase) for name, phase in TRACES.items()]
    return [*traces, *replicated(), *replicated(held_out=True)]


def replicated(*, held_out: bool = False) -> list[Case]:
    """Case 1 and case 2 by condition."""
    kept = "held_reps" if held_out else "reps"
    first = conditions(f"case1_{kept}", "owd_ms", "tcp", "init_rto_s", "queue", "d_s")
    second = conditions(f"case2_{kept}", "owd_ms", "tcp", "init_rto_s", "classes", "queue", "udp_start_s")
    return [
        *(transfers_case(condition, rows, held_out=held_out) for condition, rows in first.items()),
        *(datagrams_case(condition, rows, held_out=held_out) for condition, rows in second.items()),
    ]


@dataclass(frozen=True, kw_only=True)
class Packet:
    """A packet at the bottleneck."""

    time: float
    flow: int
    number: int
    bytes: int
    dropped: bool
    left: float = -1.0

    def matches(self, other: Packet, within: float) -> bool:
        """Whether both packets are the same, within `within` seconds."""
        same = (self.flow, self.number, self.bytes, self.dropped)
        return (
            same == (other.flow, other.number, other.bytes, other.dropped)
            and abs(self.time - other.time) < within
        )


def trace_case(name: str, phase: str) -> Case:
    """A recorded run, packet by packet."""
    theirs = recorded_packets(name)
    queue, tcp, rto, _ = name.split("_")
    own = syn_arrivals(theirs)
    changes = {
        **TCP[tcp],
        "links.last.queue.classes.all.queue": base().queues[queue],
        "tcp.rto.initial": rto.removeprefix("rto"),
        "tcp.rto.tick_phase": phase,
        **starts([own[flow] - TO_BOTTLENECK for flow in (1, 2, 3)]),
        **{f"traffic.own-{place}": packet for place, packet in enumerate(foreign(theirs))},
    }

    def judge(measured: Sequence[list[Packet]]) -> list[Row]:
        [ours] = measured
        pairs = zip(theirs, ours, strict=False)
        same = next((at for at, (a, b) in enumerate(pairs) if not a.matches(b, TICK)), len(ours))
        return [
            exact(f"linux trace {name}", "packets", len(theirs), len(ours), 0),
            exact(f"linux trace {name}", "the same from the first on", len(theirs), same, 0),
        ]

    job = Job(scenario=base().with_(changes), seed=1, measure=packets)
    return Case(name=f"linux trace {name}", jobs=lambda: [job], judge=judge)


def transfers_case(
    condition: tuple[str, ...], rows: Sequence[Mapping[str, str]], *, held_out: bool = False
) -> Case:
    """Case 1: two transfers of 292 kB, and one of 47 kB."""
    owd, tcp, rto, queue, late = condition
    name = f"linux transfers {queue} {tcp} {owd} ms d={late}"
    if held_out:
        name = f"{HELD_OUT}{name}, time-out {rto} s"
    runs = by_replication(rows)
    quantities = (
        "fastest_s",
        "slowest_s",
        "third_s",
        "fastest_again",
        "slowest_again",
        "third_again",
        "opening_s",
    )

    def jobs() -> list[Job]:
        changes = {"links.last.queue.classes.all.queue": base().queues[queue]}
        made = []
        for number, flows in runs.items():
            begin = [float(row["start_s"]) for row in flows]
            scenario = base().with_({**condition_changes(owd, tcp, rto, number), **changes, **starts(begin)})
            made.append(Job(scenario=scenario, seed=number + 1, measure=lambda run: transfers(run, owd)))
        return made

    def judge(measured: Sequence[list[Measures]]) -> list[Row]:
        theirs = [in_order([recorded_transfer(row) for row in flows]) for flows in runs.values()]
        ours = [in_order(flows) for flows in measured]
        return rows_of(name, quantities, theirs, ours)

    return Case(name=name, jobs=jobs, judge=judge)


def datagrams_case(
    condition: tuple[str, ...], rows: Sequence[Mapping[str, str]], *, held_out: bool = False
) -> Case:
    """Case 2: a transfer of 350 kB, and 250 datagrams at 100 kb/s; in one class, or in two classes."""
    owd, tcp, rto, classes, queue, late = condition
    name = f"linux datagrams {queue} {tcp} {owd} ms, classes {classes}, start {late}"
    if held_out:
        name = f"{HELD_OUT}{name}, time-out {rto} s"
    size = DATAGRAMS.get(variant_of(tcp), DATAGRAM)

    def jobs() -> list[Job]:
        leaf = base().queues[queue]
        made = []
        for number, row in enumerate(rows):
            begin = float(row["udp_start_exact"])
            changes: dict[str, Any] = {
                **condition_changes(owd, tcp, rto, number),
                "links.last.queue.classes": one_class(leaf) if classes == "1" else two_classes(leaf),
                "traffic.first.sizes.value": "350400B",
                "traffic.first.start": nanoseconds(float(row["start_s"])),
                "traffic.second": None,
                "traffic.third": None,
                "traffic.datagrams": datagrams(
                    size, begin, begin + 4.99, f"{size * 8 * PER_SECOND}bps", "client"
                ),
            }
            if classes == "2":
                changes["links.last.queue.default"] = "bulk"
            scenario = base().with_(changes)
            made.append(Job(scenario=scenario, seed=number + 1, measure=lambda run: both(run, owd)))
        return made

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = [
            {
                "transfer_s": float(row["elapsed_s"]),
                "again": float(row["data_retrans"]),
                "datagrams": float(row["udp_received"]),
            }
            for row in rows
        ]
        return rows_of(name, ("transfer_s", "again", "datagrams"), theirs, measured)

    return Case(name=name, jobs=jobs, judge=judge)


def rows_of(
    case: str, quantities: Sequence[str], theirs: Sequence[Measures], ours: Sequence[Measures]
) -> list[Row]:
    """A row for each quantity, with a band of at least half a packet or 0.01 s."""
    floors = {name: 0.01 if name.endswith("_s") else 0.5 for name in quantities}
    return [
        independent(
            case,
            Quantity(name=name, share=BAND, floor=floors[name]),
            [run[name] for run in theirs],
            [run[name] for run in ours],
        )
        for name in quantities
    ]


def base() -> Scenario:
    """The three transfers of the scenario file."""
    return Scenario.load(data.SCENARIOS / "linux-helsinki.toml")


def condition_changes(owd: str, tcp: str, rto: str, number: int) -> dict[str, Any]:
    """The changes of a condition, and of its replication `number`."""
    return {
        **TCP[tcp.split("+")[0]],
        **VARIANTS[variant_of(tcp)],
        "links.back.delay": f"{2 * int(owd) + 1}ms",
        "tcp.rto.initial": f"{rto}s",
        "tcp.rto.tick_phase": f"{73 * number % (10 * PHASES)}ms",
    }


def variant_of(tcp: str) -> str:
    """The suffix of a condition's TCP."""
    return tcp.partition("+")[2]


def starts(seconds: Sequence[float]) -> dict[str, str]:
    """The start of each transfer."""
    return {f"traffic.{flow}.start": nanoseconds(at) for flow, at in zip(FLOWS, seconds, strict=True)}


def nanoseconds(seconds: float) -> str:
    """A time in the notation of scenarios."""
    return f"{round(seconds * 1e9)}ns"


def datagrams(size: int, begin: float, end: float, rate: str, source: str) -> dict[str, Any]:
    """Datagrams of one flow at equal intervals."""
    return {
        "kind": "udp",
        "rate": rate,
        "sizes": {"kind": "constant", "value": f"{size}B"},
        "start": nanoseconds(begin),
        "stop": nanoseconds(end),
        "phase": "zero",
        "from": source,
        "to": "server",
    }


def one_class(leaf: Mapping[str, Any]) -> dict[str, Any]:
    """All traffic in one class."""
    return {"all": {**class_of("140kbps"), "quantum": "1514B", "queue": dict(leaf)}}


def two_classes(leaf: Mapping[str, Any]) -> dict[str, Any]:
    """Half of the link for the transfer, which may borrow the rest, and half for the datagrams."""
    bulk = {**class_of("70kbps"), "parent": "line", "ceil": "140kbps", "priority": 1, "quantum": "1514B"}
    prompt = {**class_of("70kbps"), "parent": "line", "ceil": "100kbps", "priority": 0, "quantum": "1514B"}
    return {
        "line": {**class_of("140kbps"), "ceil": "140kbps"},
        "bulk": {**bulk, "queue": dict(leaf)},
        "prompt": {**prompt, "queue": dict(leaf), "match": {"traffic": ["datagrams"]}},
    }


def class_of(rate: str) -> dict[str, Any]:
    """A class with a burst of little more than a packet."""
    return {"rate": rate, "burst": "1600B", "cburst": "1600B"}


def conditions(name: str, *columns: str) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """Recorded replications by condition."""
    sorted_out: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in data.rows(name, WHERE):
        sorted_out.setdefault(tuple(row[column] for column in columns), []).append(row)
    return sorted_out


def by_replication(rows: Sequence[Mapping[str, str]]) -> dict[int, list[Mapping[str, str]]]:
    """The flows of each replication, in their order."""
    runs: dict[int, list[Mapping[str, str]]] = {}
    for row in sorted(rows, key=lambda row: (int(row["rep"]), int(row["flow"]))):
        runs.setdefault(int(row["rep"]), []).append(row)
    return runs


def recorded_transfer(row: Mapping[str, str]) -> Measures:
    """A recorded transfer."""
    return {
        "elapsed": float(row["elapsed_s"]),
        "again": float(row["data_retrans"]),
        "opening": float(row["handshake_s"]),
    }


def in_order(flows: Sequence[Measures]) -> Measures:
    """The quantities of a replication: the first two transfers sorted by time, then the third."""
    fastest, slowest = sorted(flows[:2], key=lambda flow: flow["elapsed"])
    names = ("fastest", "slowest", "third")
    measures = {"opening_s": flows[2]["opening"]}
    for name, flow in zip(names, (fastest, slowest, flows[2]), strict=True):
        measures |= {f"{name}_s": flow["elapsed"], f"{name}_again": flow["again"]}
    return measures


def transfers(run: Run, owd: str) -> list[Measures]:
    """aqmlab's transfers in their order, until the last acknowledgement, as the kernel's are measured."""
    sent = run.tables["packets"].filter(
        pl.col("event").is_in(["enqueue", "drop"]) & (pl.col("payload_bytes") > 0)
    )
    counts = sent.group_by("flow").agg(pl.len() - pl.col("sequence_bytes").n_unique())
    again = dict(counts.iter_rows())
    back = 2 * int(owd) / 1000 + ACK_DELAY
    made = {
        str(row["traffic"]): {
            "elapsed": row["duration_s"] + back,
            "again": float(again[row["flow"]]),
            "opening": row["handshake_s"],
        }
        for row in run.transfers.iter_rows(named=True)
    }
    return [made[flow] for flow in FLOWS if flow in made]


def both(run: Run, owd: str) -> Measures:
    """aqmlab's transfer, and the number of datagrams that arrived."""
    [transfer] = transfers(run, owd)
    flow = run.flows.filter(pl.col("traffic") == "datagrams")
    arrived = float(flow.select(pl.col("packets_sent") - pl.col("packets_dropped")).sum().item())
    return {"transfer_s": transfer["elapsed"], "again": transfer["again"], "datagrams": arrived}


def packets(run: Run) -> list[Packet]:
    """The data packets of aqmlab's transfers as they arrive at the bottleneck."""
    arrived = run.tables["packets"].filter(pl.col("event").is_in(["enqueue", "drop"]))
    flows = {row["flow"]: FLOWS.index(str(row["traffic"])) + 1 for row in run.transfers.iter_rows(named=True)}
    return [
        Packet(
            time=row["time_s"],
            flow=flows[row["flow"]],
            number=0 if row["size_bytes"] == 66 else row["sequence_bytes"] + 1,
            bytes=row["size_bytes"],
            dropped=row["event"] == "drop",
        )
        for row in arrived.sort("time_s", maintain_order=True).iter_rows(named=True)
        if row["flow"] in flows
    ]


def recorded_packets(name: str) -> list[Packet]:
    """The recorded packets; a SYN has number 0, the first byte 1."""
    return [
        Packet(
            time=float(row["t_in_s"]),
            flow=int(row["flow"]),
            number=int(row["seq"]),
            bytes=int(row["ip_len"]) + ETHERNET,
            dropped=row["dropped"] == "1",
            left=float(row["t_out_s"]),
        )
        for row in data.rows(f"trace_{name}", WHERE)
    ]


def syn_arrivals(trace: Sequence[Packet]) -> dict[int, float]:
    """The arrival of the first SYN of each flow."""
    first: dict[int, float] = {}
    for packet in trace:
        first.setdefault(packet.flow, packet.time)
    return first


def foreign(trace: Sequence[Packet]) -> list[dict[str, Any]]:
    """Packets that are not in the trace, as workloads: each left a gap between two others."""
    left = sorted((packet for packet in trace if not packet.dropped), key=lambda packet: packet.left)
    found = []
    for one, other in itertools.pairwise(left):
        extra = other.left - one.left - one.bytes * 8 / RATE
        if other.time < one.left - LEAST_GAP and extra > LEAST_GAP:
            arrived = (one.time + other.time) / 2
            found.append(datagrams(round(extra * RATE / 8), arrived, arrived + 1e-6, "1kbps", "far"))
    return found
