"""The runs of the study `helsinki`, live: the study's own scenarios at the starts that were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aqmlab.grid import Grid, Results, Row, Runs
from aqmlab.studies import helsinki_kernel as kernel
from aqmlab.studies import helsinki_runs as study
from aqmlab.studies.helsinki_runs import QUEUES

SYSTEM = "linux-6"

LIVE, SIMULATED, RECORDED = "live", "simulated", "recorded"
SOURCES = (LIVE, SIMULATED, RECORDED)
"""Where replications are from."""

DURATION = "60s"
"""The longest a replication may take; the longest that was recorded took 38 s."""

ETHERNET = 14
"""Bytes of each packet that are the header of the line, which the kernel's queues count."""

# Scenarios: those of the study, with flows that start when those of a recorded replication did


def three_flows(*, system: str, queue: str, third_s: float, seed: int) -> dict[str, Any]:
    """The first test case, as it was recorded; each flow is a workload."""
    table = study.three_flows(system=system, queue=queue, third_s=third_s)
    starts = kernel.starts("third", seed, system=system, queue=queue, third_s=third_s)
    initial, third = table["traffic"]["initial"] | {"flows": 1}, table["traffic"]["third"]
    return _at(table, {"first": initial, "second": initial, "third": third}, starts)


def with_burst(*, system: str, classes: int, queue: str, udp_s: float, seed: int) -> dict[str, Any]:
    """The second test case, as it was recorded."""
    table = study.with_burst(system=system, classes=classes, queue=queue, udp_s=udp_s)
    starts = kernel.starts("burst", seed, system=system, classes=classes, queue=queue, udp_s=udp_s)
    return _at(table, table["traffic"], starts)


def _at(table: dict[str, Any], traffic: Mapping[str, dict[str, Any]], starts: list[float]) -> dict[str, Any]:
    begun = {
        name: {**workload, "start": f"{start:.6f}s", "stagger": "0s"}
        for (name, workload), start in zip(traffic.items(), starts, strict=True)
    }
    host = table["host"] | {"link_header": f"{ETHERNET}B"}
    return table | {"duration": DURATION, "host": host, "traffic": begun}


TRACED = (("tail", 2), ("tail", 5))
"""Queue and start of the third flow."""


def _traced(*, plot: tuple[str, float], seed: int) -> dict[str, Any]:
    queue, third_s = plot
    table = three_flows(system=SYSTEM, queue=queue, third_s=third_s, seed=seed)
    return study.remembering(table, "third")


# Sweeps, each made twice

THIRD_STARTS = (0, 2, 5, 5.5)
UDP_STARTS = (0, 2, 7, 18)
"""The starts that were recorded, in seconds."""

_SWEEPS = (
    Grid(
        name="third",
        axes={"system": (SYSTEM,), "queue": QUEUES, "third_s": THIRD_STARTS},
        scenario=three_flows,
        reduce=study.three_flow_measures,
        seeds=20,
        quick_seeds=6,
        by_seed=True,
    ),
    Grid(
        name="burst",
        axes={"system": (SYSTEM,), "classes": (1, 2), "queue": QUEUES, "udp_s": UDP_STARTS},
        scenario=with_burst,
        reduce=study.udp_measures,
        seeds=10,
        quick_seeds=4,
        by_seed=True,
    ),
    Grid(
        name="traces",
        axes={"plot": TRACED},
        scenario=_traced,
        reduce=study.history,
        seeds=1,
        by_seed=True,
    ),
)


def sweep_of(source: str, sweep: str) -> str:
    """The name of a sweep whose runs are from a source."""
    return f"{sweep}-{source}"


SWEEPS = tuple(
    replace(sweep, name=sweep_of(source, sweep.name), live=source == LIVE)
    for source in (LIVE, SIMULATED)
    for sweep in _SWEEPS
)


def by_source(results: Results) -> dict[str, Results]:
    """The runs of each source, in the form that the study's rules take; the recorded ones are those
    replications that were made live, too."""
    found: dict[str, Results] = {
        source: {sweep.name: results[sweep_of(source, sweep.name)] for sweep in _SWEEPS}
        for source in (LIVE, SIMULATED)
    }
    recorded = kernel.results()
    found[RECORDED] = {name: _of_both(recorded[name], found[LIVE][name]) for name in recorded}
    return found


def _of_both(recorded: Runs, made: Runs) -> Runs:
    def key(row: Row) -> tuple[Any, ...]:
        return row.seed, frozenset(row.labels.items())

    known = {key(row) for row in made.rows}
    return Runs(rows=tuple(row for row in recorded.rows if key(row) in known))
