"""What is printed of a live run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aqmlab import stats
from aqmlab.cli import run_text, table_text
from aqmlab.live_agreement import agreement
from aqmlab.scenario.run import Run
from aqmlab.study import StudyResult

_FEATURES = {
    "fifo": "real-time priority",
    "locked_memory": "memory that stays in memory",
    "timer_slack": "exact timers",
}

INVALID = 3
"""Exit status of a live run that was disturbed."""


def lines(result: Run, name: str) -> Iterator[str]:
    """A live run in a few lines: what was found, as of a simulation, and how much it may be believed."""
    live = result.manifest["live"]
    yield f"{name}: live for {live['ended_s']:.1f} s, seed {result.manifest['seed']}"
    yield from run_text.found_lines(result)
    if live["congestion_control"]:
        yield f"  congestion control {live['congestion_control']} of the kernel, in place of the one in [tcp]"
    for workload, ends in live["congestion_controls"].items():
        yield from _controls(workload, ends)
    differing: dict[tuple[str, ...], list[str]] = {}
    for workload, shortfalls in live["tcp_shortfalls"].items():
        differing.setdefault(tuple(shortfalls), []).append(workload)
    for shortfalls, workloads in differing.items():
        for shortfall in shortfalls:
            yield f"  the kernel's TCP differs for {', '.join(workloads)}: {shortfall}"
    for workload, facts in live["load"]["workloads"].items():
        for reason, count in facts["failures"].items():
            yield f"  {workload}: {count} failed: {reason}"
    for workload, ended in live["servers_ended"].items():
        yield f"  the server of {workload} ended with status {ended['status']} after {ended['at_s']:.2f} s"
    if live["hints"] and live["hints"]["data_packets"]:
        yield f"  windows of senders: {_hints(live['hints'])}"
    for feature, grant in live["realtime"].items():
        if grant["granted"] == "no":
            yield f"  without {_FEATURES[feature]}: {grant['why']}"
    lateness = live["lateness"]
    yield (
        f"  late by {lateness['p50_us']:.0f} us (median), {lateness['p99_us']:.0f} us (99 %), "
        f"{lateness['max_us']:.0f} us (most) of {lateness['packets']} packets"
    )
    if live["valid"]:
        yield "  valid"
    for objection in live["objections"]:
        yield f"  NOT VALID: {objection}"


def print_agreement(result: StudyResult) -> None:
    """A line for each point: each measure simulated and live. Below stands what is not equivalent, and how
    many are."""
    found = agreement.compared(result)
    table = agreement.tabulated(found)
    axes = len(result.study.experiments[0].labels)
    rows = [["" if cell is None else str(cell) for cell in row] for row in table.iter_rows()]
    title = f"Simulated | live, means of {result.study.experiments[0].seeds} runs"
    table_text.print_table(title, table.columns, rows, left=axes)
    print(agreement.legend())
    for one in found:
        if one.verdict != "equivalent":
            print(agreement.sentence(one))
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in stats.AGREEMENT_SIGNS}
    print(f"{len(found)} comparisons: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    facts = result.provenance["live"]
    if facts:
        print(
            f"{facts['runs']} live runs on Linux {', '.join(facts['kernels'])}, all of them valid; "
            f"{facts['repeated']} were not and were made again"
        )


def _controls(workload: str, ends: dict[str, Any]) -> Iterator[str]:
    """Which congestion controls the connections of programs used, at both ends, as far as was seen."""
    connections = ends["connections"]
    for end in ("server", "client"):
        found = [f"{count} used {name}" for name, count in ends[end].items()]
        unseen = connections - sum(ends[end].values())
        if unseen > 0:
            found.append(f"{unseen} too short to be seen")
        if found:
            yield f"  connections of {workload} at the {end}: {', '.join(found)}"


def _hints(hints: dict[str, Any]) -> str:
    """How a queue heard of the windows of senders, and whether they were right."""
    told = f"of {hints['told']} of {hints['data_packets']} packets with data"
    if hints["kind"] == "polled":
        newest, oldest = hints["newest_s"], hints["oldest_s"]
        age = "" if newest is None else f", {1e3 * newest:.1f} to {1e3 * oldest:.1f} ms old"
        return f"polled, {told}{age}"
    return f"in packets, {told}; the kernel's at {hints['agreeing']} of {hints['compared']} looks"
