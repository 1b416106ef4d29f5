"""What is printed of a live run."""

from __future__ import annotations

from collections.abc import Iterator

from aqmlab import run_text
from aqmlab.run import Run

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
    differing: dict[tuple[str, ...], list[str]] = {}
    for workload, shortfalls in live["tcp_shortfalls"].items():
        differing.setdefault(tuple(shortfalls), []).append(workload)
    for shortfalls, workloads in differing.items():
        for shortfall in shortfalls:
            yield f"  the kernel's TCP differs for {', '.join(workloads)}: {shortfall}"
    for workload, facts in live["load"]["workloads"].items():
        for reason, count in facts["failures"].items():
            yield f"  {workload}: {count} failed: {reason}"
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
