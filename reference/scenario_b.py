"""Scenario B of the reference: permanent flows of different TCPs with Poisson datagrams, on 50 Mb/s.

The settings are those of `scenarios/reference/b.toml`. In addition:
- A letter represents each permanent flow: `r` is Reno, `s` Sack1, `h` HighSpeed TCP on Sack1 with limited
  slow start from 100 segments, `k` HighSpeed TCP on Reno without.
- Goodput includes headers, as in ns-2's sinks. Loss is given per packet sent.
- Timeouts and reductions of the window ("cuts") are counted from the start of the run, as in ns-2, all other
  quantities after the warm-up. For these counts, the first 20 s are run again: the same run, measured
  earlier.
- The smallest goodput of equal flows is printed, not judged, because it is an extreme.
- `fqdrr` is ns-2's DRR, `drr` here: a flow for each source, a quantum of one packet, a limit in bytes; the
  head of the longest queue is dropped. Of equally long queues, ns-2 takes the first one from the current flow
  on, `drr` that of the arriving packet.
- Packets clocked by acknowledgements arrive one service time apart, so many arrive exactly at the time of a
  departure. In ns-2, rounding decides their order. In the experiment on this, senders in aqmlab and ns-2 wait
  a random time of up to one packet (`overhead_`), so that there are no ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

import data
from aqmlab.metrics import jain_of
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Cause, Changes, Job
from judge import Measures, Quantity, Row, of_runs, since_start
from scenario_a import TIES

SEEDS = 20
WARM_UP = 20.0
WIRE = 1000 / 960
KINDS: dict[str, dict[str, Any]] = {
    "r": {},
    "s": {"recovery": {"kind": "sack"}},
    "h": {
        "recovery": {"kind": "sack"},
        "congestion_control": {"kind": "highspeed", "max_ssthresh": 100},
    },
    "k": {"congestion_control": {"kind": "highspeed"}},
}
"""Changes of the scenario's `[tcp]` for each kind of flow."""

RECORDED, MORE, WAITING = "b_fifo_fq_per_seed", "b_more_per_seed", "b_overhead_per_seed"
"""Records of ns-2: all cases, some with more seeds, and those with senders that wait."""

FEW = "few ns-2 runs were recorded, and their results vary strongly; more runs were made"

LINE = (
    Quantity(name="util"),
    Quantity(name="bg_loss", floor=1e-5, note="floor 1e-5"),
    Quantity(name="mean_queue"),
)
TOTAL = (
    Quantity(name="tcp_goodput_total_mbps"),
    Quantity(name="tcp_loss_mean"),
    Quantity(name="timeouts_total", floor=0.5, note="floor 0.5"),
    Quantity(name="cuts_total"),
)
EQUAL = (
    Quantity(name="max_flow_mbps"),
    Quantity(name="min_flow_mbps", judged=False, note="the value is an extreme, the minimum over all flows"),
    Quantity(name="jain"),
)
UNEQUAL = (Quantity(name="flow1_mbps"), Quantity(name="flow2_mbps"), Quantity(name="jain"))


def cases() -> list[Case]:
    """Every recorded case of scenario B."""
    known = {(row["q"], row["cc"], int(row["limit"])): None for row in data.rows(RECORDED)}
    return [flows_case(*case, causes=_causes(*case)) for case in sorted(known, key=lambda case: case[0])]


def quantities(flows: str) -> list[Quantity]:
    """The compared quantities with these flows."""
    if flows == "none":
        return list(LINE)
    several = () if len(flows) == 1 else EQUAL if len(set(flows)) == 1 else UNEQUAL
    return [*LINE, *TOTAL, *several]


def _causes(queue: str, flows: str, limit: int) -> tuple[Cause, ...]:
    """Possible causes of a miss, beginning with the experiment that needs no runs."""
    causes = []
    if _theirs(MORE, queue, flows, limit):
        again = flows_case(queue, flows, limit, recorded=MORE)
        causes.append(Cause(why=FEW, switch="more runs", again=again, same_runs=True))
    if _theirs(WAITING, queue, flows, limit):
        again = flows_case(queue, flows, limit, recorded=WAITING)
        causes.append(Cause(why=TIES, switch="waiting senders", again=again))
    return tuple(causes)


def _theirs(recorded: str, queue: str, flows: str, limit: int) -> list[dict[str, str]]:
    case = (queue, flows, str(limit))
    return [row for row in data.rows(recorded) if (row["q"], row["cc"], row["limit"]) == case]


def flows_case(
    queue: str,
    flows: str,
    limit: int,
    seeds: int = SEEDS,
    *,
    recorded: str = RECORDED,
    causes: tuple[Cause, ...] = (),
) -> Case:
    """Flows of these kinds through one queue, compared with one record; senders wait if they do there."""
    changes: Changes = {"tcp.connection.send_overhead": "160us"} if recorded == WAITING else {}
    theirs = _theirs(recorded, queue, flows, limit)
    name = f"b {queue} {flows} limit {limit}"

    def jobs() -> list[Job]:
        scenario = flows_scenario(queue, flows, limit).with_(changes)
        early = scenario.with_({"warm_up": "0s", "duration": f"{WARM_UP:g}s"})
        numbers = range(1, seeds + 1)
        return [
            *(Job(scenario=scenario, seed=seed, measure=_measures) for seed in numbers),
            *(Job(scenario=early, seed=seed, measure=_events) for seed in numbers),
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        runs = since_start(measured[:seeds], measured[seeds:])
        return of_runs(name, quantities(flows), theirs, runs)

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def flows_scenario(queue: str, flows: str, limit: int) -> Scenario:
    """The scenario with a workload for each kind of flow; limits as in ns-2."""
    scenario = Scenario.load(data.SCENARIOS / "b.toml")
    changes: dict[str, Any] = {"bottleneck.queue": scenario.queues[f"{queue}{limit}"], "traffic.r": None}
    for kind, count in Counter(flows if flows != "none" else "").items():
        changes[f"traffic.{kind}"] = {"kind": "ftp", "flows": count, "stagger": "1s", "tcp": KINDS[kind]}
    return scenario.with_(changes)


def _measures(run: Run) -> Measures:
    link = run.links.row(0, named=True)
    flows = run.flows.with_columns(pl.col("traffic").cast(pl.String))
    background = flows.filter(pl.col("traffic") == "background")
    permanent = flows.filter(pl.col("traffic") != "background").sort("traffic")
    rates = permanent["goodput_bps"].to_numpy() * WIRE / 1e6
    measures = {
        "util": link["utilisation"],
        "mean_queue": link["mean_queue_packets"],
        "bg_loss": int(background["packets_dropped"].sum()) / int(background["packets_sent"].sum()),
        **_events(run),
    }
    if rates.size:
        loss = permanent["packets_dropped"].to_numpy() / permanent["packets_sent"].to_numpy()
        measures |= {
            "tcp_goodput_total_mbps": float(rates.sum()),
            "tcp_loss_mean": float(loss.mean()),
            "max_flow_mbps": float(rates.max()),
            "min_flow_mbps": float(rates.min()),
            "flow1_mbps": float(rates[0]),
            "flow2_mbps": float(rates[-1]),
            "jain": float(jain_of(rates.sum(), np.square(rates).sum(), rates.size)),
        }
    return measures


def _events(run: Run) -> Measures:
    permanent = run.flows.filter(pl.col("traffic").cast(pl.String) != "background")
    timeouts = int(permanent["timeouts"].sum())
    return {
        "timeouts_total": float(timeouts),
        "cuts_total": float(timeouts + int(permanent["fast_retransmits"].sum())),
    }
