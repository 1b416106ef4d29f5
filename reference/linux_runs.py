"""Runs of the Linux 6.1 kernel's own TCP and queues in virtual time, with a band of 5 %.

Four CUBIC flows were recorded in eight replications that differ in the flows' starts within a second, on a
link of 10 Mbit/s, from 10 s to 60 s. The older single run with this name does not use CUBIC: its log begins
with the system's refusal to set it.

One run of each queue was recorded, so it is treated as one more run of aqmlab's twenty, which differ in the
starts of the four flows (within 10 ms). Sampling and counting are those of the record: the queue every 250 ms
over the first 60 s, of which half a second is over when data begins to flow; packets and drops of the whole
run, in which HTB sent for 60.66 s. aqmlab's runs end at this time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job, left_out_case
from judge import Quantity, Row, among, independent

SEEDS = 20
BAND = 0.05
SAMPLED = 60.0
SENDING = 60.66
KNOWN = {
    "tcp_pfifo": ("pfifo", "reno"),
    "tcp_red": ("red", "reno"),
    "tcp_codel": ("codel", "reno"),
    "tcp_fqcodel": ("fq-codel", "reno"),
    "tcp_pie": ("pie", "reno"),
    "tcp_cake": ("cake", "reno"),
}
"""The queue and the congestion control of each closed loop that is compared."""
CUBIC = "bulk_10m_60ms_red_cubic4"
CUBIC_SEEDS = 8
CUBIC_SCENARIO: Mapping[str, object] = {
    "duration": "60s",
    "warm_up": "10s",
    "links.forth.queue.classes.all.rate": "10Mbps",
    "links.forth.queue.classes.all.queue": {
        "kind": "linux-red",
        "min": "25000B",
        "max": "75000B",
        "probability": 0.1,
        "burst": 29,
        "limit": "300000B",
        "avpkt": "1500B",
        "bandwidth": "10Mbps",
    },
    "traffic.bulk.start": "0s",
    "traffic.bulk.stagger": "1s",
    "tcp.congestion_control.kind": "cubic",
    "tcp.rto.tick": "1ms",
    "tcp.receiver.first_window": 45,
}
"""Differences of the path and hosts from those of the others: RED set by the BDP, HZ = 1000."""
QUANTITIES = (
    Quantity(name="goodput_mbps", share=BAND),
    Quantity(name="mean_queue", share=BAND),
    Quantity(name="drops", share=BAND),
    Quantity(name="packets", share=BAND),
)

Measures = dict[str, float]


def cases() -> list[Case]:
    """The recorded closed loops."""
    no_cubic = left_out_case(
        "linux tcp_red_cubic",
        "excluded",
        "the log of the run shows that, contrary to its name, it did not use CUBIC",
    )
    return [*(bulk_case(name) for name in KNOWN), cubic_case(), no_cubic]


def cubic_case(seeds: int = CUBIC_SEEDS) -> Case:
    """Four CUBIC flows through RED."""
    name = f"linux {CUBIC}"

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "linux-bulk.toml").with_(CUBIC_SCENARIO)
        return [Job(scenario=scenario, seed=seed, measure=_after_warm_up) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = [
            {key: float(row[key]) for key in measured[0]} for row in data.rows(CUBIC, data.LINUX / "results")
        ]
        return [
            independent(
                name, Quantity(name=key, share=BAND), [a[key] for a in theirs], [b[key] for b in measured]
            )
            for key in measured[0]
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def _after_warm_up(run: Run) -> Measures:
    link = run.links.row(0, named=True)
    return {
        "goodput_mbps": run.summary["flows"]["bulk"]["goodput_bps"] / 1e6,
        "loss_share": link["drop_fraction"],
        "mean_q_pkts": link["mean_queue_packets"],
    }


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
    """Parses the output of `tcp.sh`: samples of the queue, iperf3's sums, and the counters of the queue."""
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
