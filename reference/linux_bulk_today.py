"""Reno and CUBIC flows of the Linux 6.1 kernel through modern queues, with a band of 5 %; all held out.

Path and hosts are those of `linux_bulk.py`; no setting is based on these runs, either. Each recorded
replication is compared with several runs of aqmlab whose flows begin at the same times, with other phases of
the clock and other random numbers, measured from 10 s on. The queue is sampled every 47 ms. With ECN, a flow
of the kernel whose SYN was lost does not use ECN at all, in contrast to aqmlab; in conditions with marks,
replications with such a flow are left out.

In the conditions called `mice`, 240 short CUBIC transfers compete with two long flows, in three replications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

import data
import linux_bulk
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import HELD_OUT, Measures, Quantity, Row, of_schedules
from linux_bulk import BAND, CONDITION, SEGMENTS, TODAY, WHERE

KEPT = "today"
"""First part of the names of the recorded files."""
SACK_DELAY = "1.1ms"
"""The kernel's 1 ms, and 0.1 ms by which the timer may be late."""
REPEATS = 3
WARM_UP = 10.0
"""End of the warm-up, in seconds."""
SHORT_REPEATS = 10
Flow = tuple[str, float]
"""Congestion control and start of a flow."""
FLOORS = {"mean_q_pkts": 0.1, "p95_q_pkts": 1.0, "drops": 2.0, "marks": 2.0}
"""Half the width of the band of small values: 0.1 packets for the mean, and whole packets for counts."""


def cases() -> list[Case]:
    """Every recorded condition of Reno and CUBIC through a modern queue."""
    names = dict.fromkeys(row["condition"] for row in data.rows(f"{KEPT}_reps", WHERE))
    return [_case(name) for name in names]


def _case(condition: str) -> Case:
    found = CONDITION.match(condition)
    assert found is not None, condition
    assert found["queue"] in TODAY, condition
    return short_case(condition) if condition.startswith("mice") else bulk_case(condition)


def bulk_case(condition: str, repeats: int = REPEATS) -> Case:
    """The flows of a condition through its queue."""
    name = f"{HELD_OUT}linux today {condition}"
    return replicated_case(name, condition, starts_of(condition), KEPT, scenario, repeats)


def replicated_case(
    name: str,
    condition: str,
    runs: Mapping[int, Sequence[Flow]],
    kept: str,
    scenario: Callable[[str, Sequence[Flow]], Scenario],
    repeats: int,
) -> Case:
    """The recorded replications of a condition, each compared with `repeats` runs of aqmlab that differ in
    the phase of the clock and in their random numbers. The record consists of the files `KEPT_reps` and
    `KEPT_flows`. `runs` contains the flows of each replication by its number, and `scenario` returns
    aqmlab's scenario for a condition and these flows."""

    def jobs() -> list[Job]:
        return [
            Job(
                scenario=scenario(condition, flows).with_({"tcp.rto.tick_phase": f"{100 * repeat}us"}),
                seed=1 + number + 100 * repeat,
                measure=measures,
            )
            for number, flows in runs.items()
            for repeat in range(repeats)
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = replications(condition, runs, kept)
        by_start = [measured[at : at + repeats] for at in range(0, len(measured), repeats)]
        return of_schedules(name, quantities(theirs), theirs, by_start)

    return Case(name=name, jobs=jobs, judge=judge)


def short_case(condition: str, repeats: int = SHORT_REPEATS) -> Case:
    """Short transfers that compete with two long ones."""
    name = f"{HELD_OUT}linux today {condition}"
    runs = starts_of(condition)

    def jobs() -> list[Job]:
        return [
            Job(
                scenario=linux_bulk.with_short(scenario(condition, flows), short(condition, number), repeat),
                seed=1 + number + 100 * repeat,
                measure=short_measures,
            )
            for number, flows in runs.items()
            for repeat in range(repeats)
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = [
            run
            | times_of([(int(row["segs"]), float(row["completion_s"])) for row in short(condition, number)])
            for number, run in zip(runs, recorded(condition), strict=True)
        ]
        by_start = [measured[at : at + repeats] for at in range(0, len(measured), repeats)]
        return of_schedules(name, quantities(theirs), theirs, by_start)

    return Case(name=name, jobs=jobs, judge=judge)


def quantities(theirs: Sequence[Measures]) -> list[Quantity]:
    """The judged quantities; marks only if the kernel set some."""
    names = [name for name in theirs[0] if any(run[name] for run in theirs)]
    return [Quantity(name=name, share=BAND, floor=FLOORS.get(name, 0.0)) for name in names]


def starts_of(condition: str) -> dict[int, list[tuple[str, float]]]:
    """The flows of each replication, without replications with marks in which one of the flows got none."""
    marks = {
        row["rep"]: row["marks"] for row in data.rows(f"{KEPT}_reps", WHERE) if row["condition"] == condition
    }
    without = {
        int(row["rep"])
        for row in data.rows(f"{KEPT}_flows", WHERE)
        if row["condition"] == condition and row["ce_delivered"] == "0" and marks[row["rep"]] != "0"
    }
    runs = linux_bulk.starts_of(condition, f"{KEPT}_flows")
    return {number: flows for number, flows in runs.items() if number not in without}


def recorded(condition: str) -> list[Measures]:
    """The recorded replications; for two different flows with the goodput of each."""
    return replications(condition, starts_of(condition), KEPT)


def replications(condition: str, runs: Mapping[int, Sequence[Flow]], kept: str) -> list[Measures]:
    """The quantities of these replications from the files `KEPT_reps` and `KEPT_flows`."""
    shares: dict[int, Measures] = {}
    for row in data.rows(f"{kept}_flows", WHERE):
        if row["condition"] == condition:
            shares.setdefault(int(row["rep"]), {})[f"flow{row['flow']}_mbps"] = float(row["goodput_mbps"])
    flows = next(iter(runs.values()))
    unlike = len({control for control, _ in flows}) > 1
    alone = {"jain"} if len(flows) == 1 else set()
    return [
        {name: float(row[name]) for name in row if name not in {"condition", "rep"} | alone}
        | (shares[int(row["rep"])] if unlike else {})
        for row in data.rows(f"{kept}_reps", WHERE)
        if row["condition"] == condition and int(row["rep"]) in runs
    ]


def short(condition: str, number: int) -> list[dict[str, str]]:
    """The short transfers of a replication."""
    rows = data.rows(f"{KEPT}_short", WHERE)
    return [row for row in rows if row["condition"] == condition and int(row["rep"]) == number]


def scenario(condition: str, flows: Sequence[tuple[str, float]]) -> Scenario:
    """The corresponding run of aqmlab."""
    changes: dict[str, Any] = {"record.queue_every": "47ms", "tcp.receiver.sack_delay": SACK_DELAY}
    kind = condition.split("_")[3]
    if kind.endswith("ecn"):
        changes["tcp.ecn.mode"] = "on"
    return linux_bulk.scenario(condition, flows).with_(changes)


def measures(run: Run) -> Measures:
    """The compared quantities of a run of aqmlab."""
    link = run.links.row(0, named=True)
    samples = run.tables["queue"].filter(pl.col("time_s") >= WARM_UP)
    lengths = sorted(samples["length_packets"].to_list())
    return linux_bulk.measures(run) | {
        "drops": float(link["drops"]),
        "marks": float(link["marks"]),
        "p95_q_pkts": float(lengths[int(0.95 * (len(lengths) - 1))]),
    }


def short_measures(run: Run) -> Measures:
    """The compared quantities of a run with short transfers."""
    done = run.transfers.filter(pl.col("traffic").cast(pl.String) == "short")
    times = [
        (round(size / linux_bulk.MSS), time)
        for size, time in done.select("size_bytes", "duration_s").iter_rows()
    ]
    return measures(run) | times_of(times)


def times_of(transfers: Sequence[tuple[int, float]]) -> Measures:
    """Mean, median and 95 % quantile of the time of each size, from the first SYN to the last byte."""
    found = linux_bulk.times_of(transfers)
    for segments in SEGMENTS:
        times = sorted(time for length, time in transfers if length == segments)
        found[f"{segments} segments, p95_s"] = times[int(0.95 * (len(times) - 1))]
    return found
