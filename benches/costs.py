"""CPU time per packet with other TCPs, other queue disciplines and faster links.

Uses the workloads W1 and W3. Runs alternate with those of the base: TCP Reno, or Drop Tail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aqmlab as al
from program import Program
from samples import Sample, cost, distinct, ratio, shown
from workloads import scenario

TRANSPORTS = "transports"
QUEUES = "queues"
RATES = "rates"
CASES = ("w1", "w3")
RENO = "reno"
DROP_TAIL = "drop-tail"
TARGET_RATIO = 1.4
"""Target for the variants in `JUDGED`: at most this many times the cost with Reno or Drop Tail."""

JUDGED = ("reno/sack", "reno/rack", "cubic/sack", "cubic/rack", "drr", "rr", "stfq", "scfq", "wfq", "pfq")
LIMIT = {"w1": "225p", "w3": "625p"}
RUNS = 3
"""Transports and queues have this many times the runs of other parts, because their runs are short and their
differences small."""

RATES_MBPS = (1, 10, 100, 1_000, 10_000)
PACKETS = 400_000
"""Approximate number of packets forwarded at each rate."""

SCOREBOARD = {"tcp.sack.pipe": "scoreboard", "tcp.sack.at_timeout": "kept", "tcp.sack.dsack": "on"}
"""The counted pipe and the reset at a time-out are ns-2's; the scoreboard variants show the cost of SACK."""


def transports(program: Program, turns: int) -> list[Sample]:
    """Runs each workload with each TCP; the TCPs alternate."""
    variants: dict[str, Mapping[str, Any]] = {RENO: {}}
    for law in ("reno", "cubic"):
        for recovery in ("newreno", "sack", "rack"):
            control = {} if law == "reno" else {"tcp.congestion_control": {"kind": law}}
            variants[f"{law}/{recovery}"] = {**SCOREBOARD, "tcp.recovery.kind": recovery, **control}
    return [
        program.run(scenario(case).with_(changes), group=TRANSPORTS, case=case, subject=name, turn=turn)
        for case in CASES
        for turn in range(RUNS * turns)
        for name, changes in variants.items()
    ]


def queues(program: Program, turns: int) -> list[Sample]:
    """Runs each workload with each queue discipline that needs no settings; the disciplines alternate."""
    return [
        program.run(
            scenario(case).with_({"bottleneck.queue": queue}),
            group=QUEUES,
            case=case,
            subject=queue["kind"],
            turn=turn,
        )
        for case in CASES
        for turn in range(RUNS * turns)
        for queue in kinds(LIMIT[case])
    ]


def kinds(limit: str) -> list[dict[str, Any]]:
    """All kinds that run with their defaults, with this limit where they have one; Drop Tail first."""
    found = []
    for entry in al.catalog():
        if entry.family.name == "queues":
            has_limit = any(parameter["name"] == "limit" for parameter in entry.parameters)
            queue = {"kind": entry.name} | ({"limit": limit} if has_limit else {})
            try:
                _ = scenario("w1").with_({"bottleneck.queue": queue}).effective
            except al.ScenarioError:
                continue
            found.append(queue)
    return sorted(found, key=lambda queue: queue["kind"] != DROP_TAIL)


def rates(program: Program, turns: int) -> list[Sample]:
    """Runs W1 on links of other rates, with thresholds proportional to the rate."""
    found = []
    for rate in RATES_MBPS:
        times = rate / 10
        seconds = max(2.0, min(1600.0, PACKETS * 974 * 8 / (rate * 1e6)))
        changed = scenario("w1", seconds).with_(
            {
                "bottleneck.rate": f"{rate}Mbps",
                "access.rate": f"{10 * rate}Mbps",
                "bottleneck.queue.min_th": f"{max(3, round(30 * times))}p",
                "bottleneck.queue.max_th": f"{max(9, round(90 * times))}p",
                "bottleneck.queue.limit": f"{max(23, round(225 * times))}p",
                "traffic.ftp.stagger": f"{min(5.0, seconds / 4):g}s",
            }
        )
        found += [program.run(changed, group=RATES, case=str(rate), turn=turn) for turn in range(turns)]
    return found


def print_tables(samples: Sequence[Sample]) -> None:
    """Prints CPU time per packet in nanoseconds and relative to the base."""
    for group, base in ((TRANSPORTS, RENO), (QUEUES, DROP_TAIL)):
        some = [one for one in samples if one.group == group]
        if not some:
            continue
        head = "".join(f"{case.upper() + ' ns':>10}{'times':>7}" for case in CASES)
        print(f"{f'CPU time per packet (base: {base})':<36}{head}{'target':>8}")
        for subject in distinct(some, lambda one: one.subject):
            cells = "".join(
                f"{shown(cost(some, case=case, subject=subject), '.0f'):>10}"
                f"{shown(ratio(some, subject, base, case=case), '.2f'):>7}"
                for case in CASES
            )
            print(f"{subject:<36}{cells}{shown(TARGET_RATIO if subject in JUDGED else None, 'g'):>8}")
        print()
    lines = [one for one in samples if one.group == RATES]
    if lines:
        print(f"{'bottleneck of W1, Mbit/s':<26}{'ns/packet':>10}")
        for case in distinct(lines, lambda one: one.case):
            print(f"{int(case):<26,}{shown(cost(lines, case=case), '.0f'):>10}")
        print()
