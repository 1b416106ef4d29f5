"""The cost of many flows: CPU time per packet, memory per flow; and the memory for millions of Web objects.

W1 with a bottleneck rate, thresholds and a limit proportional to the number of flows. A million flows share
100 Gbit/s, with round-trip times from 10 to 100 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

import aqmlab as al
from program import Program
from samples import US, Sample, cost, distinct, shown
from workloads import scenario

FLOWS = "flows"
IDLE = "idle"
WEB = "web"
FEW = 50
MILLION = 1_000_000
SECONDS = {FEW: 160, 10_000: 12, 100_000: 4, MILLION: 1}
TARGET_RATIOS = {10_000: 1.6, 100_000: 2.2, MILLION: 3.0}
TARGET_BYTES = {FLOWS: 700, IDLE: 500}
IN_FLIGHT_BYTES = 88
"""Memory per packet in flight: its entries in a lane, in the packet store and in a queue."""

IDLE_FLOWS = 100_000
OBJECTS = (100_000, MILLION)
NO_ROWS: dict[str, object] = {"flow_columns": [], "transfer_columns": [], "page_columns": []}
KEPT: dict[str, dict[str, object]] = {
    US: {},
    "times kept": NO_ROWS | {"transfer_columns": ["traffic", "start_s", "duration_s", "complete"]},
    "no rows kept": NO_ROWS,
}
"""The recorded columns of Web objects by variant; default: all."""


def dumbbell(flows: int) -> al.Scenario:
    """W1 for this number of flows."""
    times = flows / FEW
    changes: dict[str, object] = {
        "duration": f"{SECONDS[flows]}s",
        "warm_up": "0.5s" if SECONDS[flows] == 1 else "1s",
        "bottleneck.rate": f"{10 * times:g}Mbps",
        "bottleneck.queue.min_th": f"{30 * times:.0f}p",
        "bottleneck.queue.max_th": f"{90 * times:.0f}p",
        "bottleneck.queue.limit": f"{225 * times:.0f}p",
        "traffic.ftp.flows": flows,
        "traffic.ftp.stagger": "1s",
        "record": {"drops": False, "queue_every": "0s"},
    }
    if flows == MILLION:
        changes |= {
            "bottleneck.rate": "100Gbps",
            "bottleneck.delay": "3ms",
            "traffic.ftp.extra_delay": ["0ms", "45ms"],
            "traffic.ftp.stagger": "0.5s",
        }
    return scenario("w1").with_(changes)


def idle(flows: int) -> al.Scenario:
    """Flows that have sent one packet and have not yet received an acknowledgement."""
    return dumbbell(FEW).with_(
        {
            "duration": "1s",
            "warm_up": "0.5s",
            "bottleneck.rate": "100Gbps",
            "access.rate": "100Gbps",
            "bottleneck.queue": {"kind": "drop-tail", "limit": f"{flows}p"},
            "tcp.cwnd.initial": 1,
            "traffic.ftp.flows": flows,
            "traffic.ftp.extra_delay": "100s",
        }
    )


def web(objects: int, kept: dict[str, object]) -> al.Scenario:
    """The Web traffic of W2 alone, at ten times the rate and with about this many objects."""
    rate_bps, load, object_wire_bytes = 100e6, 0.7, 10_700
    return scenario("w1").with_(
        {
            "duration": f"{objects * object_wire_bytes * 8 / (load * rate_bps):.0f}s",
            "bottleneck.rate": f"{rate_bps / 1e6:g}Mbps",
            "access.rate": "1Gbps",
            "record": {"drops": False, "queue_every": "0s", **kept},
            "traffic": {"web": {"kind": "web", "load": load}},
        }
    )


def measure(program: Program, turns: int, *, million: bool) -> list[Sample]:
    """Runs all sizes up to a hundred thousand, or up to a million with `million`."""
    largest = MILLION if million else 100_000
    counts = [flows for flows in SECONDS if flows <= largest]
    objects = [number for number in OBJECTS if number <= largest]
    found = []
    for turn in range(turns):
        # The largest case runs once: it takes long enough.
        for flows in counts:
            if turn == 0 or flows < MILLION:
                found.append(program.run(dumbbell(flows), group=FLOWS, case=str(flows), turn=turn))
    for flows in (FEW, IDLE_FLOWS):
        found.append(program.run(idle(flows), group=IDLE, case=str(flows)))
    for number in objects:
        for kept, columns in KEPT.items():
            found.append(program.run(web(number, columns), group=WEB, case=str(number), subject=kept))
    return found


def in_flight(flows: int) -> float:
    """Packets in flight in W1 for this number of flows: on the links in both directions and in the queue."""
    times = flows / FEW
    return 10e6 * times * 0.124 / 8 / 974 + 60 * times


def bytes_per_flow(samples: Sequence[Sample], group: str, flows: int) -> float | None:
    """Memory per flow without the program itself and packets in flight."""
    occupied = {}
    for one in samples:
        if one.group == group:
            packets = in_flight(int(one.case)) if group == FLOWS else int(one.case)
            occupied[int(one.case)] = one.peak_bytes - IN_FLIGHT_BYTES * packets
    if flows not in occupied or FEW not in occupied:
        return None
    return (occupied[flows] - occupied[FEW]) / (flows - FEW)


def print_table(samples: Sequence[Sample]) -> None:
    """Prints a row for each number of flows, and a line for each number of Web objects."""
    some = [one for one in samples if one.group == FLOWS]
    few = cost(some, case=str(FEW))
    print(f"{'flows':>9}{'ns/packet':>11}{'times':>7}{'target':>8}{'B/flow':>8}{'target':>8}{'peak MiB':>10}")
    for case in distinct(some, lambda one: one.case):
        spent, flows = cost(some, case=case), int(case)
        print(
            f"{flows:>9,}{shown(spent, '.0f'):>11}"
            f"{shown(spent / few if spent and few else None, '.2f'):>7}"
            f"{shown(TARGET_RATIOS.get(flows), 'g'):>8}"
            f"{shown(bytes_per_flow(some, FLOWS, flows) if FEW < flows < MILLION else None, '.0f'):>8}"
            f"{shown(TARGET_BYTES[FLOWS] if FEW < flows < MILLION else None, 'g'):>8}"
            f"{shown(peak(some, case), ',.0f'):>10}"
        )
    per_idle_flow = bytes_per_flow(samples, IDLE, IDLE_FLOWS)
    print(
        f"memory per idle flow, {IDLE_FLOWS:,} flows:"
        f" {shown(per_idle_flow, '.0f')} bytes (target {TARGET_BYTES[IDLE]}), without packets in flight"
    )
    for one in (one for one in samples if one.group == WEB):
        kept = "" if one.subject == US else f", {one.subject}"
        print(
            f"about {int(one.case):,} Web objects{kept}: peak {one.peak_bytes / 2**20:,.0f} MiB,"
            f" {one.ns_per_packet:.0f} ns per packet"
        )


def peak(samples: Sequence[Sample], case: str) -> float:
    """The peak memory of a case in MiB."""
    return max(one.peak_bytes for one in samples if one.case == case) / 2**20
