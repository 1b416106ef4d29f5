"""Open loops through the HTB of the Linux 6.1 kernel, with a band of 5 %: datagrams at fixed times without
responses, so that every difference is due to the queues.

RED is random, so a run of the kernel is treated as one more run of aqmlab. The FIFO is in
`linux_open_today.py`, with all other deterministic queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import Quantity, Row, among

SENT = 4000
SEEDS = 100
BAND = 0.05
MEASURES = (
    Quantity(name="drops", share=BAND),
    Quantity(name="mean_delay_ms", share=BAND),
    Quantity(name="max_delay_ms", share=BAND),
    Quantity(name="first_drop", share=BAND),
)


@dataclass(frozen=True, kw_only=True)
class Fates:
    """The fates of the datagrams, by number."""

    delays_ms: tuple[float, ...]
    dropped: tuple[int, ...]

    def measures(self) -> dict[str, float]:
        """The judged quantities."""
        return {
            "drops": float(len(self.dropped)),
            "mean_delay_ms": sum(self.delays_ms) / len(self.delays_ms),
            "max_delay_ms": max(self.delays_ms),
            "first_drop": float(self.dropped[0]),
        }


def cases() -> list[Case]:
    """RED with a light and a heavy weight."""
    return [_case("red", "open_red"), _case("red_wq10", "open_red_wq10")]


def _case(queue: str, result: str) -> Case:
    name = f"linux {result}"

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "linux-open.toml")
        changed = scenario.with_({"links.line.queue.classes.all.queue": scenario.queues[queue]})
        return [Job(scenario=changed, seed=seed, measure=_fates) for seed in range(1, SEEDS + 1)]

    def judge(measured: Sequence[Fates]) -> list[Row]:
        theirs = recorded(data.linux_text(result))
        recorded_measures, ours = theirs.measures(), [fates.measures() for fates in measured]
        return [
            among(name, one, recorded_measures[one.name], [run[one.name] for run in ours]) for one in MEASURES
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def recorded(lines: Sequence[str]) -> Fates:
    """Parses the output of `open.sh`: number, times of sending and of arrival (ns) and ECN of each
    arrival."""
    words = [line.split() for line in lines]
    arrived = {
        int(line[0]): (int(line[2]) - int(line[1])) / 1e6
        for line in words
        if len(line) == 4 and all(word.isdigit() for word in line)
    }
    dropped = tuple(number for number in range(SENT) if number not in arrived)
    return Fates(delays_ms=tuple(arrived.values()), dropped=dropped)


def _fates(run: Run) -> Fates:
    packets = run.tables["packets"].select(
        pl.col("event").cast(pl.String), pl.col("sequence_bytes").alias("number"), "time_s"
    )
    entered = packets.filter(pl.col("event") == "enqueue").select("number", came_s="time_s")
    left = packets.filter(pl.col("event") == "start").select("number", left_s="time_s")
    delays = entered.join(left, on="number").select((pl.col("left_s") - pl.col("came_s")) * 1e3).to_series()
    dropped = packets.filter(pl.col("event") == "drop")["number"].sort().to_list()
    return Fates(delays_ms=tuple(delays.to_list()), dropped=tuple(dropped))
