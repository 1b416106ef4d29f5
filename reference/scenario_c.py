"""Scenario C of the reference: short and long transfers with Web objects and permanent flows, on 10 Mb/s.

The settings are those of `scenarios/reference/c.toml`. In addition:
- Both programs use the same objects (reference/ns2/scripts/gen_background.py). Three runs of Drop Tail and of
  RED were given; more seeds of both, and those of RIO, are from the same script.
- An agent of ns-2 reads the time in ticks of 0.1 s from a random phase of its own (`boot_time_`). Here all
  flows of a run have one phase, and runs with the same objects have different phases.
- Times end when the sender receives the last acknowledgement, as in ns-2: the return path of an
  acknowledgement, 39.1355 ms, is added to aqmlab's times. They are of transfers that start in the measured
  time except its last 30 s and are complete at its end.
- Short transfers have 10 segments, long ones 1000. The share of transfers with retransmissions includes SYNs.
  Goodput includes headers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

import data
from aqmlab.metrics import jain_of
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Cause, Changes, Job
from judge import Measures, Quantity, Row, of_schedules
from scenario_a import AGENTS

TICK_PHASES = ("10ms", "30ms", "50ms", "70ms", "90ms")
"""Phases of the clock, each for a run of its own."""
ACK_WAY_BACK = 0.0391355
WIRE = 500 / 460
WARM_UP, END = 60.0, 300.0
TRANSFERS_BEFORE = 270.0
QUEUES = ("droptail", "red", "rioc")
KINDS = {"short": "short", "long": "long", "background": "bg"}
"""Workloads, with their names in the recorded tables."""

POLE = (
    "where the packet count times `p_b` jumps past 1, the drop probability of ns-2's dsRED "
    "becomes negative: dsRED then drops nothing until the average exceeds `max_th`, and "
    "afterwards drops every packet"
)

LINE = (
    Quantity(name="util"),
    Quantity(name="drop_frac"),
    Quantity(name="mean_queue"),
    Quantity(name="ftp_total_mbps"),
)
TRANSFERS = ("time_mean", "time_cv", "time_median", "time_p95", "jain", "frac_rexmit")


def quantities() -> list[Quantity]:
    """The compared quantities."""
    return [*LINE, *(Quantity(name=f"{kind}_{what}") for kind in KINDS.values() for what in TRANSFERS)]


def cases() -> list[Case]:
    """Every recorded queue."""
    return [queue_case(queue) for queue in QUEUES]


def recorded(queue: str, *, fresh: bool = False) -> list[dict[str, str]]:
    """Reference runs by seed; `fresh` is ns-2 without its defect."""
    given = [] if fresh else data.rows("c_short_long_per_seed")
    more = [
        row for row in data.rows("c_more_per_seed") if row["agents"] == ("fresh" if fresh else "recycled")
    ]
    return [row for row in (*given, *more) if row["q"] == queue]


def queue_case(
    queue: str,
    schedules: int | None = None,
    *,
    fresh: bool = False,
    changes: Changes | None = None,
) -> Case:
    """All transfers through one queue; `changes` is a switch in aqmlab."""
    theirs = recorded(queue, fresh=fresh)[:schedules]
    name = f"c {queue}"

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "c.toml")
        scenario = scenario.with_({"links.bottleneck.queue": scenario.queues[queue], **(changes or {})})
        made = []
        for number in (int(row["seed"]) for row in theirs):
            file = f"background_{number}.txt"
            background = {"kind": "replay", "file": file, "from": "edge", "to": "client"}
            files = {**scenario.files, file: data.background(number, 460)}
            for seed, phase in enumerate(TICK_PHASES, 1):
                replayed = scenario.with_(
                    {"traffic.background": background, "tcp.rto.tick_phase": phase}, files=files
                )
                made.append(Job(scenario=replayed, seed=seed, measure=_measures))
        return made

    def judge(measured: Sequence[Measures]) -> list[Row]:
        each = len(TICK_PHASES)
        by_schedule = [measured[at : at + each] for at in range(0, len(measured), each)]
        return of_schedules(name, quantities(), theirs, by_schedule)

    again = fresh or changes
    return Case(name=name, jobs=jobs, judge=judge, causes=() if again else _causes(queue, schedules))


def _causes(queue: str, schedules: int | None) -> tuple[Cause, ...]:
    fresh = queue_case(queue, schedules, fresh=True)
    agents = Cause(why=AGENTS, switch="fresh agents", again=fresh, same_runs=True)
    if queue != "rioc":
        return (agents,)
    unguarded = {"links.bottleneck.queue.spacing": "unguarded"}
    pole = queue_case(queue, schedules, changes=unguarded)
    both = queue_case(queue, schedules, fresh=True, changes=unguarded)
    return (
        agents,
        Cause(why=POLE, switch="ns-2's formula", again=pole),
        Cause(why=f"{POLE}; {AGENTS}", switch="both", again=both),
    )


def _measures(run: Run) -> Measures:
    [link] = run.links.filter(pl.col("link").cast(pl.String) == "bottleneck").to_dicts()
    ftp = run.flows.filter(pl.col("traffic").cast(pl.String) == "ftp")["goodput_bps"]
    values = {
        "util": link["utilisation"],
        "drop_frac": link["drop_fraction"],
        "mean_queue": link["mean_queue_packets"],
        "ftp_total_mbps": float(ftp.sum()) / 1e6 * WIRE,
    }
    known = run.transfers.with_columns(
        pl.col("duration_s") + ACK_WAY_BACK, kind=pl.col("traffic").cast(pl.String)
    )
    done = known.filter(
        pl.col("complete")
        & pl.col("start_s").is_between(WARM_UP, TRANSFERS_BEFORE, closed="left")
        & (pl.col("start_s") + pl.col("duration_s") < END)
    )
    for traffic, kind in KINDS.items():
        some = done.filter(pl.col("kind") == traffic)
        times = some["duration_s"].to_numpy()
        rates = some["segments"].to_numpy() / times
        again = (some["retransmitted"].to_numpy() > 0) | (some["timeouts"].to_numpy() > 0)
        values |= {
            f"{kind}_time_mean": float(times.mean()),
            f"{kind}_time_cv": float(times.std(ddof=1) / times.mean()),
            f"{kind}_time_median": float(np.quantile(times, 0.5)),
            f"{kind}_time_p95": float(np.quantile(times, 0.95)),
            f"{kind}_jain": float(jain_of(rates.sum(), np.square(rates).sum(), rates.size)),
            f"{kind}_frac_rexmit": float(again.mean()),
        }
    return values
