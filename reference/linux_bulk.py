"""Reno and CUBIC flows of the Linux 6.1 kernel through a FIFO and RED, with a band of 5 %; all held out.

Path and hosts are those of the single flows whose windows are compared (`linux-window.toml`), with other
rates, round trips, queues and flows; no setting is based on these runs. Each recorded replication (8 or 20 of
60 s) is compared with a run of aqmlab whose flows begin at the same times, measured from 10 s on. The flow
with the longer round trip of two has the difference in the access links of its hosts, in the recorded run in
the path of its acknowledgements.

In one condition 240 short CUBIC transfers compete with two long ones, in three replications. Each is run ten
times with other phases of the clock, which is the only possible difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import HELD_OUT, Measures, Quantity, Row, of_runs, of_schedules

WHERE = data.LINUX / "bulk"
BAND = 0.05
CONDITION = re.compile(
    r"(bulk|mice)_(?P<rate>\d+)m_(?P<round_trip>\d+)(\+(?P<far>\d+))?ms_(?P<queue>[a-z]+)(?P<size>\d?)(_|$)"
)
"""The parts of a condition's name."""
PFIFO = {
    ("2", "20", "4"): 12,
    ("2", "60", "1"): 10,
    ("2", "60", "4"): 40,
    ("2", "160", "1"): 26,
    ("10", "20", "1"): 17,
    ("10", "20", "4"): 68,
    ("10", "20+160", "1"): 66,
    ("10", "60", "1"): 50,
    ("10", "60", "2"): 100,
    ("10", "60", "4"): 200,
}
"""Limits in packets by rate in Mbit/s, round trip in ms, and size in bandwidth-delay products."""
RED = {"2": ("5000B", "15000B", "60000B", 7), "10": ("25000B", "75000B", "300000B", 29)}
"""`min`, `max`, `limit` and `burst` by rate in Mbit/s."""
TODAY: Mapping[str, Mapping[str, Any]] = {
    "codel": {"kind": "codel"},
    "codelecn": {"kind": "codel", "ecn": True},
    "fqcodel": {"kind": "fq-codel", "start": "fresh", "ecn": False},
    "fqcodelecn": {"kind": "fq-codel", "start": "fresh"},
    "pie": {"kind": "pie", "start": "fresh"},
    "pieecn": {"kind": "pie", "start": "fresh", "ecn": True},
    "cake": {"kind": "cake", "start": "fresh", "diffserv": "besteffort", "flows": "flows"},
    "cakeshaper": {
        "kind": "cake",
        "start": "fresh",
        "diffserv": "besteffort",
        "flows": "flows",
        "bandwidth": "2Mbps",
    },
    "step": {"kind": "codel", "limit": "1000p", "target": "1s", "interval": "5s", "ce_threshold": "2ms"},
}
"""Modern queues by their name in a condition; each was created when its run began."""
ROOTS = ("cakeshaper",)
"""Queues that shape by themselves, without HTB."""
SHORT = "mice_10m_60ms_pfifo2"
SEGMENTS, MSS = (10, 50, 200), 1448
"""Sizes of the short transfers in segments, and the MSS in bytes."""
REPEATS = 10
ACCESS_LINKS = 4
"""Number of access links in a round trip."""


def cases() -> list[Case]:
    """Every recorded condition of Reno and CUBIC through a FIFO or RED, except the one that is used."""
    names = dict.fromkeys(row["condition"] for row in data.rows("held_reps", WHERE))
    return [*(bulk_case(name) for name in names if name != SHORT), short_case()]


def bulk_case(condition: str) -> Case:
    """The flows of a condition through its queue."""
    name = f"{HELD_OUT}linux {condition}"
    theirs = recorded(condition)

    def jobs() -> list[Job]:
        return [
            Job(scenario=scenario(condition, flows), seed=number + 1, measure=measures)
            for number, flows in starts_of(condition).items()
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        return of_runs(name, [Quantity(name=key, share=BAND) for key in theirs[0]], theirs, measured)

    return Case(name=name, jobs=jobs, judge=judge)


def short_case(repeats: int = REPEATS) -> Case:
    """Short transfers that compete with two long ones."""
    name = f"{HELD_OUT}linux {SHORT}"

    def jobs() -> list[Job]:
        return [
            Job(
                scenario=with_short(scenario(SHORT, flows), short(number), phase),
                seed=1,
                measure=short_measures,
            )
            for number, flows in starts_of(SHORT).items()
            for phase in range(repeats)
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        theirs = [
            run | times_of([(int(row["segs"]), float(row["completion_s"])) for row in short(number)])
            for number, run in enumerate(recorded(SHORT))
        ]
        quantities = [Quantity(name=key, share=BAND) for key in theirs[0]]
        by_schedule = [measured[at : at + repeats] for at in range(0, len(measured), repeats)]
        return of_schedules(name, quantities, theirs, by_schedule)

    return Case(name=name, jobs=jobs, judge=judge)


def short(number: int) -> list[dict[str, str]]:
    """The short transfers of a replication."""
    return [row for row in data.rows("held_short", WHERE) if int(row["rep"]) == number]


def with_short(base: Scenario, transfers: Sequence[Mapping[str, str]], phase: int) -> Scenario:
    """A run of aqmlab with short transfers, which begin at the recorded times."""
    lines = (f"{row['start_s']} {MSS * int(row['segs'])}\n" for row in transfers)
    replay = {"kind": "replay", "file": "short.txt", "from": "client", "to": "server"}
    changes = {
        "duration": "150s",
        "tcp.rto.tick_phase": f"{100 * phase}us",
        "tcp.connection.close": "none",
        "traffic.short": replay,
    }
    return base.with_(changes, files={"short.txt": "".join(lines)})


def short_measures(run: Run) -> Measures:
    """The compared quantities of a run with short transfers."""
    done = run.transfers.filter(pl.col("traffic").cast(pl.String) == "short")
    times = [(round(size / MSS), time) for size, time in done.select("size_bytes", "duration_s").iter_rows()]
    return measures(run) | times_of(times)


def times_of(transfers: Sequence[tuple[int, float]]) -> Measures:
    """Mean and median time of each size, from the first SYN to the arrival of the last byte."""
    found: Measures = {}
    for segments in SEGMENTS:
        times = [time for length, time in transfers if length == segments]
        found |= {
            f"{segments} segments, mean_s": mean(times),
            f"{segments} segments, median_s": median(times),
        }
    return found


def recorded(condition: str) -> list[Measures]:
    """The recorded replications; for two different flows with the goodput of each."""
    shares: dict[str, Measures] = {}
    for row in data.rows("held_flows", WHERE):
        if row["condition"] == condition:
            shares.setdefault(row["rep"], {})[f"flow{row['flow']}_mbps"] = float(row["goodput_mbps"])
    flows = next(iter(starts_of(condition).values()))
    unlike = len({control for control, _ in flows}) > 1
    names = ["goodput_mbps", "loss_share", "mean_q_pkts", *(["jain"] if len(flows) > 1 else [])]
    return [
        {name: float(row[name]) for name in names} | (shares[row["rep"]] if unlike else {})
        for row in data.rows("held_reps", WHERE)
        if row["condition"] == condition
    ]


def starts_of(condition: str, kept: str = "held_flows") -> dict[int, list[tuple[str, float]]]:
    """The flows of each replication: congestion control, with `@2` for a longer round trip, and start."""
    runs: dict[int, list[tuple[str, float]]] = {}
    for row in data.rows(kept, WHERE):
        if row["condition"] == condition:
            runs.setdefault(int(row["rep"]), []).append((row["cc"], float(row["start_s"])))
    return runs


def scenario(condition: str, flows: Sequence[tuple[str, float]]) -> Scenario:
    """The corresponding run of aqmlab."""
    found = CONDITION.match(condition)
    assert found is not None, condition
    rate, round_trip, far = found["rate"], found["round_trip"], found["far"]
    round_trips = f"{round_trip}+{far}" if far else round_trip
    base = Scenario.load(data.SCENARIOS / "linux-window.toml")
    ours = queue(rate, round_trips, found)
    shaped = {
        "links.forth.queue.classes.all.rate": f"{rate}Mbps",
        "links.forth.queue.classes.all.queue": ours,
    }
    changes: dict[str, Any] = {
        "duration": "60s",
        "warm_up": "10s",
        **({"links.forth.queue": ours} if found["queue"] in ROOTS else shaped),
        "links.back.delay": f"{round_trip}ms",
        "traffic.bulk": None,
        "record.senders": [],
        "record.queue_every": "0s",
    }
    for index, (control, start) in enumerate(flows, 1):
        kind, _, second = control.partition("@")
        changes[f"traffic.flow{index}"] = {
            "kind": "ftp",
            "flows": 1,
            "start": f"{round(start * 1e6)}us",
            "stagger": "0s",
            "from": "client",
            "to": "server",
            "tcp": {"congestion_control": {"kind": kind}},
        }
        if second:
            more = (int(far) - int(round_trip)) / ACCESS_LINKS
            changes[f"traffic.flow{index}"]["access"] = {"rate": "10Gbps", "delay": f"{more:g}ms"}
    return base.with_(changes)


def queue(rate: str, round_trips: str, found: re.Match[str]) -> Mapping[str, Any]:
    """The queue of a condition, from its name."""
    if found["queue"] in TODAY:
        return TODAY[found["queue"]]
    if found["queue"] == "pfifo":
        return {"kind": "drop-tail", "limit": f"{PFIFO[rate, round_trips, found['size']]}p"}
    least, most, limit, burst = RED[rate]
    return {
        "kind": "linux-red",
        "min": least,
        "max": most,
        "probability": 0.1,
        "burst": burst,
        "limit": limit,
        "avpkt": "1500B",
        "bandwidth": f"{rate}Mbps",
    }


def measures(run: Run) -> Measures:
    """The compared quantities of a run of aqmlab."""
    link = run.links.row(0, named=True)
    flows = run.flows.with_columns(pl.col("traffic").cast(pl.String)).filter(pl.col("traffic") != "short")
    rates = {row["traffic"]: row["goodput_bps"] / 1e6 for row in flows.iter_rows(named=True)}
    total = sum(rates.values())
    return {
        "goodput_mbps": total,
        "loss_share": link["drop_fraction"],
        "mean_q_pkts": link["mean_queue_packets"],
        "jain": total**2 / (len(rates) * sum(rate**2 for rate in rates.values())),
        **{f"{name}_mbps": rate for name, rate in rates.items()},
    }
