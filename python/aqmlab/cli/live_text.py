"""Output of live runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aqmlab import stats
from aqmlab.cli import run_text, table_text
from aqmlab.live_agreement import agreement
from aqmlab.scenario.run import Run
from aqmlab.study import StudyResult

_FEATURES = {
    "fifo": "real-time priority",
    "locked_memory": "locked memory",
    "timer_slack": "precise timers",
}

INVALID = 3
"""Exit status after a live run that is not valid."""


def lines(result: Run, name: str) -> Iterator[str]:
    """Yields a summary of a live run: first the results in the same format as for a simulation, then the
    information that decides whether the run is valid."""
    live = result.manifest["live"]
    virtual = live.get("virtual")
    kind = "" if virtual is None else f" in virtual time, {kernel_words(virtual)}"
    yield f"{name}: live for {live['ended_s']:.1f} s{kind}, seed {result.manifest['seed']}"
    yield from run_text.found_lines(result)
    if live["congestion_control"]:
        yield f"  congestion control {live['congestion_control']} of the kernel, instead of the one in [tcp]"
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
        yield f"  the server of {workload} exited with status {ended['status']} after {ended['at_s']:.2f} s"
    if live["hints"] and live["hints"]["data_packets"]:
        yield f"  senders' congestion windows: {_hints(live['hints'])}"
    for feature, grant in live["realtime"].items():
        if grant["granted"] == "no":
            yield f"  without {_FEATURES[feature]}: {grant['why']}"
    lateness = live["lateness"]
    yield (
        f"  late by {lateness['p50_us']:.0f} us (median), {lateness['p99_us']:.0f} us (99 %), "
        f"{lateness['max_us']:.0f} us (maximum) over {lateness['packets']} packets"
    )
    if virtual is not None:
        per_packet = 1e3 * virtual["cpu_s"] / max(1, lateness["packets"])
        yield (
            f"  cost: {virtual['cpu_s']:.1f} CPU s in {virtual['wall_s']:.1f} s of real time, "
            f"{per_packet:.2f} ms a packet"
        )
    if live["valid"]:
        yield "  valid"
    for objection in live["objections"]:
        yield f"  NOT VALID: {objection}"


def kernel_words(virtual: Mapping[str, Any]) -> str:
    """Returns the kernel of a run in virtual time, with its tick."""
    return f"Linux {virtual['kernel']}, tick {1e3 * virtual['tick_s']:g} ms"


def print_agreement(result: StudyResult) -> None:
    """Prints a row for each point, with the simulated and the live value of each measure. Then prints the
    comparisons whose verdict is not "equivalent", and the number of comparisons for each verdict."""
    found = agreement.compared(result)
    table = agreement.tabulated(found)
    virtual = result.provenance["virtual"]
    axes = len(result.study.experiments[0].labels) + (virtual is not None)
    rows = [["" if cell is None else str(cell) for cell in row] for row in table.iter_rows()]
    kinds = "Values of the two kinds of runs" if virtual else "Simulated | live"
    title = f"{kinds}, means of {result.study.experiments[0].seeds} runs"
    table_text.print_table(title, table.columns, rows, left=axes)
    print(agreement.legend(virtual is not None))
    for one in found:
        if one.verdict != "equivalent":
            print(agreement.sentence(one))
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in stats.AGREEMENT_SIGNS}
    print(f"{len(found)} comparisons: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    facts = result.provenance["live"]
    if facts:
        print(
            f"{facts['runs']} live runs on {_kernels(facts)}, all valid; "
            f"{facts['repeated']} invalid runs were repeated"
        )
    if virtual:
        print(f"{virtual['runs']} virtual runs on {_kernels(virtual)}")
    if virtual and facts:
        print(f"live/virtual: {noise(facts, virtual)}")


def noise(live: Mapping[str, Any], virtual: Mapping[str, Any]) -> str:
    """Returns the causes of a difference between live and virtual runs."""
    ticks = _milliseconds(live["ticks_s"]) != _milliseconds(virtual["ticks_s"])
    parts = [
        *(["the kernel"] if live["kernels"] != virtual["kernels"] else []),
        *(["the tick"] if ticks else []),
    ]
    if not parts:
        return "kernel and tick are the same, so differences are timing noise"
    verb = "differ" if len(parts) > 1 else "differs"
    return f"{' and '.join(parts)} {verb}, so differences are not timing noise alone"


def _milliseconds(ticks_s: Iterable[float]) -> list[float]:
    return [round(1e3 * tick_s, 3) for tick_s in ticks_s]


def _kernels(facts: Mapping[str, Any]) -> str:
    """Returns the kernels of runs and their ticks."""
    ticks = ", ".join(f"{tick:g} ms" for tick in _milliseconds(facts["ticks_s"]))
    return f"Linux {', '.join(facts['kernels'])}{f' (tick {ticks})' if ticks else ''}"


def _controls(workload: str, ends: dict[str, Any]) -> Iterator[str]:
    """Yields the congestion controls that were observed at both ends of the programs' connections."""
    connections = ends["connections"]
    for end in ("server", "client"):
        found = [f"{count} used {name}" for name, count in ends[end].items()]
        unseen = connections - sum(ends[end].values())
        if unseen > 0:
            found.append(f"{unseen} too short to observe")
        if found:
            yield f"  connections of {workload} at the {end}: {', '.join(found)}"


def _hints(hints: dict[str, Any]) -> str:
    """Returns text that describes how the queue obtained the senders' congestion windows, and how accurate
    the windows were."""
    known = f"known for {hints['known']} of {hints['data_packets']} data packets"
    if hints["kind"] == "polled":
        newest, oldest = hints["newest_s"], hints["oldest_s"]
        age = "" if newest is None else f", {1e3 * newest:.1f} to {1e3 * oldest:.1f} ms old"
        return f"polled, {known}{age}"
    return (
        f"in packets, {known}; equal to the kernel's window in {hints['agreeing']} of {hints['compared']} "
        "samples"
    )
