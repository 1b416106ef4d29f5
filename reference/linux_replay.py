"""Short transfers at 90 % load through CAKE and FQ-CoDel of the Linux 6.1 kernel, with ECN.

The transfers, of 4 to 20 segments of 434 bytes, are those of a run of the study `mice-elephants`: 60 s of
transfers, whose starts and sizes the kernel replayed (`linux/jobs/replay.sh`). Transfers that start in the
first 8 s find a queue that may still be short, and only the hash of flows is random: they must take the
recorded times. Later, senders retransmit packets that are only delayed. In CAKE without a rate the queue then
grows without bound, in the kernel and in aqmlab; a collapse amplifies every difference, so those queues are
printed and not judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import Quantity, Row, exact, independent

WHERE = data.LINUX / "replay"
SEGMENT = 434
"""Payload in bytes of a packet of 500 bytes, with 52 bytes of IP and TCP and 14 of Ethernet."""
WINDOW = 4_194_304 // SEGMENT
"""Half of the receiver's buffer of 8 MB, in segments."""
QUICK_ACKS = (WINDOW - 65_535 // SEGMENT) // 2
"""The window grows to `WINDOW` from 64 kB by two segments per segment, each of which is acknowledged."""
JUDGED_S, END_S = 8.0, 60.0
NEAR_S = 0.005
"""Largest distance, in seconds, from the recorded time of a transfer that counts as equal: two packets at
6 Mbit/s take 1.3 ms, and a tick 1 ms."""
MOST_ELSEWHERE = 0.02
"""Share of transfers that may take another time: if a timer expires and an acknowledgement arrives at nearly
the same time, a tick decides which segments are retransmitted."""
MEAN_BAND = 0.01
"""The band of the mean time, for the effect of the few transfers that take another time."""
SEEDS = 4
STEP_S = 10
COLLAPSE = "the queue grows without end, which enlarges each difference"
BEST_EFFORT = {"kind": "cake", "start": "fresh", "diffserv": "besteffort", "flows": "flows"}
QUEUES: Mapping[str, Mapping[str, Any]] = {
    "cake": BEST_EFFORT,
    "fq_codel": {"kind": "fq-codel", "start": "fresh"},
    "fq_codel_300": {"kind": "fq-codel", "start": "fresh", "quantum": "300B"},
    "cake_noecn": BEST_EFFORT,
}
"""Queues of runs by their name in the record; without ECN if the name ends with `noecn`."""
ONE_BY_ONE = "cake"
"""The run whose transfers are compared one by one. In FQ-CoDel the flows that share a queue are random; in
CAKE hardly any flows share a queue."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A run of aqmlab: the time of each early transfer, and the mean queue in each period of ten seconds."""

    times: tuple[float, ...]
    queues: tuple[float, ...]


def cases() -> list[Case]:
    """Every recorded run that can be repeated here."""
    return [replay_case(name) for name in QUEUES]


def replay_case(name: str, seeds: int = SEEDS) -> Case:
    """The transfers through a queue, with this number of seeds."""
    title = f"linux replay {name}"

    def jobs() -> list[Job]:
        return [Job(scenario=scenario(name), seed=seed, measure=measure) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[Measured]) -> list[Row]:
        rows = early_rows(name, measured)
        for place, theirs in enumerate(recorded_queues(name)):
            what = f"mean queue, {STEP_S * place} to {STEP_S * (place + 1)} s"
            quantity = Quantity(name=what, judged=False, note=COLLAPSE)
            rows.append(independent(title, quantity, [theirs], [run.queues[place] for run in measured]))
        return rows

    return Case(name=title, jobs=jobs, judge=judge)


def early_rows(name: str, measured: Sequence[Measured]) -> list[Row]:
    """Rows of the early transfers, if they were recorded."""
    title, theirs = f"linux replay {name}", recorded_times(name)
    if not theirs:
        return []
    count, mean = float(len(theirs)), fmean(theirs)
    ours = fmean(fmean(run.times) for run in measured)
    rows = [exact(title, "mean time of early transfers (s)", mean, ours, MEAN_BAND * mean)]
    if name == ONE_BY_ONE:
        near = fmean(
            sum(abs(a - b) <= NEAR_S for a, b in zip(theirs, run.times, strict=True)) for run in measured
        )
        what = "early transfers that take the recorded time"
        rows.append(exact(title, what, count, near, MOST_ELSEWHERE * count))
    return rows


def scenario(name: str) -> Scenario:
    """The transfers through the queue of a run."""
    rows = data.rows("schedule", WHERE)
    lines = "".join(f"{row['start_s']} {SEGMENT * int(row['segments'])}\n" for row in rows)
    changes = {
        "duration": f"{END_S:g}s",
        "links.forth.queue.classes.all.rate": "6Mbps",
        "links.forth.queue.classes.all.queue": QUEUES[name],
        "links.back.delay": "80ms",
        "tcp.connection.mss": f"{SEGMENT}B",
        "tcp.connection.close": "none",
        "tcp.receiver.window": WINDOW,
        "tcp.receiver.quick_acks": QUICK_ACKS,
        "tcp.receiver.sack_delay": "1.1ms",
        "tcp.ecn.mode": "off" if name.endswith("noecn") else "on",
        "traffic.bulk": None,
        "traffic.replay": {"kind": "replay", "file": "schedule.txt", "from": "client", "to": "server"},
        "record.senders": [],
        "record.queue_every": "500ms",
    }
    base = Scenario.load(data.SCENARIOS / "linux-window.toml")
    return base.with_(changes, files={"schedule.txt": lines})


def recorded_times(name: str) -> list[float]:
    """The times of early transfers in the kernel, from the first SYN to the arrival of the last byte."""
    return [float(row["completion_s"]) for row in data.rows("transfers", WHERE) if row["run"] == name]


def recorded_queues(name: str) -> list[float]:
    """The mean length of the kernel's queue in each period of ten seconds, in packets."""
    samples = [
        (float(row["time_s"]), float(row["length_packets"]))
        for row in data.rows("queue", WHERE)
        if row["run"] == name
    ]
    return _by_step(samples)


def measure(run: Run) -> Measured:
    """The same quantities of a run of aqmlab."""
    early = run.transfers.sort("start_s").filter(pl.col("start_s") < JUDGED_S)
    samples = run.tables["queue"].filter(pl.col("link").cast(pl.String) == "forth")
    return Measured(
        times=tuple(early["duration_s"].to_list()),
        queues=tuple(_by_step(samples.select("time_s", "length_packets").rows())),
    )


def _by_step(samples: Sequence[tuple[float, float]]) -> list[float]:
    """Means of the samples in each period of ten seconds that has samples."""
    steps: dict[int, list[float]] = {}
    for at, length in samples:
        if at > 0:
            steps.setdefault(math.ceil(at / STEP_S), []).append(length)
    return [fmean(lengths) for _, lengths in sorted(steps.items())]
