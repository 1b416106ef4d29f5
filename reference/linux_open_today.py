"""Open loops of a FIFO and of modern queues through the HTB of the Linux 6.1 kernel: datagrams at fixed times
without responses, so that every difference is due to the queues.

Deterministic queues are compared packet by packet: the same number of packets must be dropped or marked, and
the same packets up to one position, because the kernel's clock moves by 256 ns with each reading. (Two runs
of the kernel's CoDel have 45 of 239 drops one position apart.) The kernel also sent a few packets of its own,
for IPv6 autoconfiguration; they are added where the recorded departures leave a gap. The kernel ran random
queues five times; for these, quantities of each flow are compared, with a band of 5 %.

To add a queue, add an element of `LOOPS` and a table of `queues` in the scenario.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import Measures, Quantity, Recorded, Row, exact, of_runs

WHERE = data.LINUX / "open"
SEEDS = 30
BAND = 0.05
ETHERNET = 14
"""Bytes that the kernel's queues count in addition to those of IP."""
QUANTILES = {"median_ms": 0.5, "p95_ms": 0.95, "max_ms": 1.0}
FLOORS = {"dropped": 2.0, "ce": 2.0}
DELAYS = ("mean_ms", *QUANTILES)
CLOCK, CLOCK_MS = 0.01, 0.05
"""Largest differences of delays (share, ms) for deterministic queues: the kernel's clock moves by some 300 ns
with each reading, and so does the phase of packets that hardly wait."""
ROUND_MS = 2 * 0.9712
"""Transmission time of the largest packets of two flows: the difference of delays if a drop is one off."""
PLACES = 0.02
"""Share of drops that may be elsewhere; in two runs of the kernel, 5 of 593 and 8 of 422 were."""
CE = 3
"""The ECN bits of a marked packet."""
BYTE_NS = 800
"""Time of HTB per byte, in nanoseconds."""
LEAST_OWN, MOST_OWN = 60, 90
"""Sizes in bytes of the kernel's own packets including Ethernet's: at least an IPv6 header with the shortest
ICMPv6 message, a router solicitation without options (62), and at most a report of one multicast address (90,
RFC 3810)."""


@dataclass(frozen=True)
class Stream:
    """Datagrams of one size at a constant rate; `start_us` is relative to the begin of the load."""

    start_us: float
    count: int
    gap_ns: int
    ip_bytes: int
    ecn: bool = False

    def traffic(self, begin_us: float) -> dict[str, Any]:
        """The workload of a scenario."""
        size = self.ip_bytes + ETHERNET
        start = begin_us + self.start_us
        return {
            "kind": "udp",
            "rate": f"{8e9 * size / self.gap_ns:g}bps",
            "sizes": {"kind": "constant", "value": f"{size}B"},
            "phase": "zero",
            "start": f"{start:.1f}us",
            "stop": f"{start + (self.count - 0.5) * self.gap_ns / 1e3:.1f}us",
            "ecn": self.ecn,
            "from": "sender",
            "to": "receiver",
            "access": {"rate": "100Gbps", "delay": "0s"},
        }


@dataclass(frozen=True)
class Load:
    """The traffic of the sender, and its begin by the kernel's clock."""

    begin_us: float
    streams: tuple[Stream, ...]


def _early(*, ecn: bool) -> Load:
    return Load(510_050.3, (Stream(0, 4000, 640_000, 1000, ecn),))


def _load(*streams: Stream) -> Load:
    # A second after the queue was created, and the time of the sender's system call.
    return Load(1_000_001.7, streams)


EARLY, EARLY_ECT = _early(ecn=False), _early(ecn=True)
ONE, ONE_ECT = (_load(Stream(0, 4000, 640_000, 1000, ecn)) for ecn in (False, True))
THREE = _load(
    Stream(0, 4000, 1_000_000, 1000), Stream(137, 2500, 1_600_000, 1200), Stream(333, 200, 20_000_000, 200)
)
BURSTS = _load(
    Stream(0, 4000, 1_000_000, 1000, True),
    *(Stream(start, 80, 400_000, 1000, True) for start in (500_137, 1_500_137, 2_500_137)),
)


@dataclass(frozen=True)
class Loop:
    """One of the kernel's open loops. Its `record` is a file in `linux/open` with every packet, or a name in
    the summary of the runs there."""

    record: str
    queue: str
    load: Load
    draws: bool = False
    """Whether the queue is random, or a packet of the kernel's own shifts all later ones."""
    root: bool = False
    """Whether the queue shapes by itself, without HTB."""
    by_flow: bool = False
    """Whether flows have their own queues, so that a packet of the kernel's own hardly waits."""

    @property
    def name(self) -> str:
        """The record without its file type."""
        return self.record.partition(".")[0]


LOOPS = (
    Loop("open_pfifo.txt", "pfifo", EARLY),
    Loop("open_codel.txt", "codel", EARLY),
    Loop("open_codel_ecn.txt", "codel-ecn", EARLY_ECT),
    Loop("open_codel_ce.csv", "codel-ce", ONE_ECT),
    Loop("open_codel_ce_bursts.csv", "codel-ce", BURSTS),
    Loop("open_fqcodel_one.txt", "fq-codel", EARLY, by_flow=True),
    Loop("open_fqcodel.csv", "fq-codel", THREE, by_flow=True),
    Loop("open_pie", "pie", ONE, draws=True),
    Loop("open_pie_ecn", "pie-ecn", ONE_ECT, draws=True),
    Loop("open_pie_100hz.txt", "pie-100hz", EARLY, draws=True),
    Loop("open_fqpie", "fq-pie", THREE, draws=True),
    Loop("open_choke", "choke", THREE, draws=True),
    Loop("open_cake.csv", "cake", THREE, by_flow=True),
    Loop("open_cake_shaper.csv", "cake-shaper", THREE, root=True, by_flow=True),
    Loop("open_sfq.csv", "sfq", THREE, draws=True),
    Loop("open_sfb", "sfb", THREE, draws=True),
)


@dataclass(frozen=True, kw_only=True)
class Fates:
    """The fates of the datagrams of a flow, by number."""

    sent: int
    delays_ms: Mapping[int, float]
    marked: frozenset[int]

    @property
    def dropped(self) -> frozenset[int]:
        """The datagrams that did not arrive."""
        return frozenset(range(self.sent)) - self.delays_ms.keys()

    def measures(self) -> Measures:
        """The quantities of the kernel's summary, with its names and its definition of quantiles."""
        delays = sorted(self.delays_ms.values())
        quantile = {name: delays[int(share * (len(delays) - 1))] for name, share in QUANTILES.items()}
        mean = sum(delays) / len(delays)
        return {
            "dropped": float(len(self.dropped)),
            "ce": float(len(self.marked)),
            "mean_ms": mean,
            **quantile,
        }


def cases() -> list[Case]:
    """Every recorded loop."""
    return [*map(loop_case, LOOPS)]


def loop_case(loop: Loop, seeds: int = SEEDS) -> Case:
    """A loop, with `seeds` runs if its queue is random."""
    name = f"linux today {loop.name}"

    def jobs() -> list[Job]:
        runs = range(1, seeds + 1 if loop.draws else 2)
        return [Job(scenario=scenario(loop), seed=seed, measure=_fates) for seed in runs]

    def judge(measured: Sequence[Sequence[Fates]]) -> list[Row]:
        rows = []
        own_ms = sum(one.ip_bytes + ETHERNET for one in own_packets(loop)) * BYTE_NS / 1e6
        for flow in range(len(loop.load.streams)):
            ours = [fates[flow] for fates in measured]
            if loop.draws:
                of_flow = _quantities(name, _runs(loop, flow), ours)
            else:
                of_flow = _packets(name, recorded(loop)[flow], ours[0], own_ms=own_ms)
            rows += [replace(row, quantity=_prefix(loop, flow) + row.quantity) for row in of_flow]
        return rows

    return Case(name=name, jobs=jobs, judge=judge)


def scenario(loop: Loop) -> Scenario:
    """The queue in HTB, and the datagrams."""
    base = Scenario.load(data.SCENARIOS / "linux-open.toml")
    traffic = {f"flow-{n}": one.traffic(loop.load.begin_us) for n, one in enumerate(loop.load.streams, 1)}
    traffic |= {f"own-{n}": one.traffic(0) for n, one in enumerate(own_packets(loop), 1)}
    place = "links.line.queue" if loop.root else "links.line.queue.classes.all.queue"
    return base.with_({place: base.queues[loop.queue], "traffic": traffic, "duration": "8s"})


def _prefix(loop: Loop, flow: int) -> str:
    return f"flow {flow + 1}, " if len(loop.load.streams) > 1 else ""


def _packets(case: str, theirs: Fates, ours: Fates, *, own_ms: float) -> list[Row]:
    """Rows of a flow in a deterministic queue; marks only if there are any. The kernel's own packets, with a
    transmission time of `own_ms`, may have arrived one position earlier or later."""
    rows = []
    for what, their, our in (("drops", theirs.dropped, ours.dropped), ("marks", theirs.marked, ours.marked)):
        if their or our or what == "drops":
            count, there = float(len(their)), len(their) - len(_elsewhere(their, our))
            rows.append(exact(case, what, count, float(len(our)), 0.0))
            rows.append(exact(case, f"{what} in the recorded places", count, float(there), PLACES * count))
    apart = max(
        abs(theirs.delays_ms[one] - ours.delays_ms[one]) for one in theirs.delays_ms.keys() & ours.delays_ms
    )
    rows.append(exact(case, "a packet's delay, most apart (ms)", 0.0, apart, ROUND_MS + own_ms))
    expected, measured = theirs.measures(), ours.measures()
    rows += [
        exact(case, name, expected[name], measured[name], max(CLOCK * expected[name], CLOCK_MS))
        for name in DELAYS
    ]
    return rows


def _elsewhere(theirs: frozenset[int], ours: frozenset[int]) -> frozenset[int]:
    """Recorded packets that are neither equal nor adjacent to one of aqmlab's."""
    return theirs - {place for number in ours for place in (number - 1, number, number + 1)}


def _quantities(case: str, theirs: Sequence[Recorded], ours: Sequence[Fates]) -> list[Row]:
    """Rows of a flow whose queue is random."""
    measured = [fates.measures() for fates in ours]
    names = [name for name in measured[0] if any(float(run[name]) for run in (*theirs, *measured))]
    return of_runs(
        case,
        [Quantity(name=name, share=BAND, floor=FLOORS.get(name, CLOCK_MS)) for name in names],
        theirs,
        measured,
    )


def _runs(loop: Loop, flow: int) -> list[Recorded]:
    """The quantities of a flow in each run of the kernel."""
    if loop.name != loop.record:
        return [recorded(loop)[flow].measures()]
    rows = data.rows("open_summary", WHERE)
    return [row for row in rows if row["name"] == loop.name and row["flow"] == str(flow + 1)]


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A datagram that arrived in the kernel; times by its clock, in nanoseconds."""

    flow: int
    number: int
    sent: int
    left: int
    ecn: int


def recorded(loop: Loop) -> list[Fates]:
    """The fates of the datagrams in the kernel, flow by flow."""
    arrivals = _arrivals(loop)
    return [
        Fates(
            sent=stream.count,
            delays_ms={one.number: (one.left - one.sent) / 1e6 for one in arrivals if one.flow == flow},
            marked=frozenset(one.number for one in arrivals if one.flow == flow and one.ecn == CE),
        )
        for flow, stream in enumerate(loop.load.streams, 1)
    ]


def own_packets(loop: Loop) -> list[Stream]:
    """Packets of the kernel's own, as datagrams: each left a gap between two others that waited.

    In a FIFO the packet arrived between them; in a queue of its own it hardly waited. In a gap for more than
    one packet the first is a report. Random queues have none, because their quantities are compared.
    """
    if loop.draws:
        return []
    arrivals = sorted(_arrivals(loop), key=lambda one: one.left)
    bytes_of = {n: stream.ip_bytes + ETHERNET for n, stream in enumerate(loop.load.streams, 1)}
    first = min(one.sent for one in arrivals)
    found = []
    for one, other in itertools.pairwise(arrivals):
        free = one.left + bytes_of[one.flow] * BYTE_NS
        size = round((other.left - free) / BYTE_NS)
        if other.sent < one.left and size >= LEAST_OWN:
            entered = (one.left + free) / 2 if loop.by_flow else (one.sent + other.sent) / 2
            sizes = [MOST_OWN, size - MOST_OWN] if size >= MOST_OWN + LEAST_OWN else [size]
            at = loop.load.begin_us + (entered - first) / 1e3
            found += [Stream(at, 1, 1_000_000, one - ETHERNET) for one in sizes]
    return found


def _arrivals(loop: Loop) -> list[Arrival]:
    with gzip.open(WHERE / f"{loop.record}.gz", "rt", encoding="utf-8", newline="") as file:
        if loop.record.endswith("csv"):
            rows = [[int(cell) for cell in row] for row in list(csv.reader(file))[1:]]
        else:
            words = [line.split() for line in file]
            rows = [[1, *map(int, line)] for line in words if len(line) == 4 and all(map(str.isdigit, line))]
    return [Arrival(flow=row[0], number=row[1], sent=row[2], left=row[3], ecn=row[4]) for row in rows]


def _fates(run: Run) -> list[Fates]:
    """The fates in aqmlab; the kernel's receiver gets a packet when its transmission begins."""
    flows = run.flows.select("flow", pl.col("traffic").cast(pl.String)).filter(
        pl.col("traffic").str.starts_with("flow-")
    )
    packets = run.tables["packets"].select(
        "flow", "time_s", pl.col("event", "ecn").cast(pl.String), number="sequence_bytes"
    )
    return [_of_flow(packets.filter(pl.col("flow") == flow)) for flow, _ in sorted(flows.rows(), key=_name)]


def _name(row: tuple[int, str]) -> str:
    return row[1]


def _of_flow(packets: pl.DataFrame) -> Fates:
    entered = packets.filter(pl.col("event") == "enqueue").select("number", came_s="time_s")
    left = packets.filter(pl.col("event") == "start").join(entered, on="number")
    delays = left.select("number", (pl.col("time_s") - pl.col("came_s")) * 1e3).rows()
    marked = left.filter(pl.col("ecn") == "ce")["number"].to_list()
    return Fates(sent=packets["number"].n_unique(), delays_ms=dict(delays), marked=frozenset(marked))
