"""Single queues with Poisson arrivals, compared with closed forms: M/D/1, M/M/1 and both with room for K.

L. Kleinrock, "Queueing Systems", 1975. A mean over twenty long runs may differ by three standard errors, and
its interval is compared with a band of 3 % around the exact value. The exact values are in the reference's
own table, where they were computed without a simulator. "waiting" excludes the packet in transmission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Job
from judge import BAND, Row, formula

SEEDS = 20


def cases() -> list[Case]:
    """One case for each system and load that was recorded."""
    return [queue_case(row) for row in data.rows("micro/mg1")]


SIZES = {"mm": {"kind": "exponential", "mean": "1000B"}, "md": {"kind": "constant", "value": "1000B"}}
"""Service times of the systems M/M/1 and M/D/1."""


def queue_case(row: Mapping[str, str], seeds: int = SEEDS) -> Case:
    """One system at one load."""
    bounded = row["kind"].endswith("k")
    name = f"{row['kind']} rho={row['rho']}" + (f" K={row['limit']}" if bounded else "")

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "mg1.toml")
        scenario = scenario.with_(
            {
                "traffic.udp.load": float(row["rho"]),
                "traffic.udp.sizes": SIZES["mm" if row["kind"].startswith("mm") else "md"],
                "bottleneck.queue": scenario.queues["k10" if bounded else "infinite"],
            }
        )
        return [Job(scenario=scenario, seed=seed, measure=_measures) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[tuple[float, float]]) -> list[Row]:
        drops, waiting = zip(*measured, strict=True)
        rows = [formula(name, "waiting", float(row["theory_waiting_pkts"]), waiting, BAND)]
        if bounded:
            rows.append(formula(name, "drop fraction", float(row["theory_drop_frac"]), drops, BAND))
        return rows

    return Case(name=name, jobs=jobs, judge=judge)


def _measures(run: Run) -> tuple[float, float]:
    link = run.links.row(0, named=True)
    return link["drop_fraction"], link["mean_queue_packets"]
