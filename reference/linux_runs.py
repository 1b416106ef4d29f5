"""Runs of the Linux 6.1 kernel's own TCP and queues in virtual time, at a band of 5 %.

One run of each was recorded, so it is one more draw beside twenty of ours, which differ in when the four
flows begin (within 10 ms). Sampled and counted as there: the queue each 250 ms over the first 60 s, half a
second of which is over when data begins to flow; packets and drops of the whole run, in which HTB sent
for 60.66 s. So long after the beginning ours end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

import data
from aqmlab.run import Run
from aqmlab.scenario import Scenario
from case import Case, Job, left_out_case
from judge import Quantity, Row, among

SEEDS = 20
BAND = 0.05
SAMPLED = 60.0
SENDING = 60.66
KNOWN = {"tcp_pfifo": ("pfifo", "reno"), "tcp_red": ("red", "reno"), "tcp_red_cubic": ("red", "cubic")}
"""The queue and the window law of each closed loop that is compared."""
LATER = {"tcp_codel": "CoDel", "tcp_fqcodel": "FQ-CoDel", "tcp_pie": "PIE", "tcp_cake": "CAKE"}
QUANTITIES = (
    Quantity(name="goodput_mbps", share=BAND),
    Quantity(name="mean_queue", share=BAND),
    Quantity(name="drops", share=BAND),
    Quantity(name="packets", share=BAND),
)

Measures = dict[str, float]


def cases() -> list[Case]:
    """The closed loops that were recorded."""
    later = [left_out_case(f"linux {name}", "not yet", why) for name, why in LATER.items()]
    return [*(bulk_case(name) for name in KNOWN), *later]


def bulk_case(result: str, seeds: int = SEEDS) -> Case:
    """Four bulk flows through one queue."""
    name = f"linux {result}"
    queue, control = KNOWN[result]

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "linux-bulk.toml")
        changes = {
            "links.forth.queue.classes.all.queue": scenario.queues[queue],
            "tcp.congestion_control.kind": control,
        }
        return [
            Job(scenario=scenario.with_(changes), seed=seed, measure=_measures)
            for seed in range(1, seeds + 1)
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = recorded(data.linux_text(result))
        return [
            among(name, quantity, theirs[quantity.name], [run[quantity.name] for run in measured])
            for quantity in QUANTITIES
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def recorded(lines: Sequence[str]) -> Measures:
    """What a run of `tcp.sh` printed: samples of the queue, iperf3's sums, and the counters of the queue."""
    queue = [float(line.split()[2].removesuffix("p")) for line in lines if line.startswith("q ")]
    [received] = [line for line in lines if line.startswith("[SUM]") and line.endswith("receiver")]
    packets, drops = re.findall(r" bytes (\d+) pkt \(dropped (\d+)", lines[-1])[-1]
    return {
        "goodput_mbps": float(received.split()[5]),
        "mean_queue": sum(queue) / len(queue),
        "drops": float(drops),
        "packets": float(packets),
    }


def _measures(run: Run) -> Measures:
    link = run.links.row(0, named=True)
    queue = run.tables["queue"].filter((pl.col("time_s") > 0) & (pl.col("time_s") <= SAMPLED))
    return {
        "goodput_mbps": float(run.flows["delivered_bytes"].sum()) * 8 / SENDING / 1e6,
        "mean_queue": float(queue["length_packets"].to_numpy().mean()),
        "drops": float(link["drops"]),
        "packets": float(link["departures"]),
    }
