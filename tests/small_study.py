"""A study for tests, on a simulator that is a few lines of arithmetic."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import _core, measure, stats, study
from aqmlab.grid import Grid, Results
from aqmlab.plot import Chart
from aqmlab.publication import Claim, Decision, Figure, Study, StudyResult, Table
from aqmlab.stats import Evidence


@dataclasses.dataclass(frozen=True)
class FakeRun:
    tables: Mapping[str, pl.DataFrame]
    manifest: Mapping[str, Any]
    performance: Mapping[str, Any]


class FakeScenario:
    """Time is `slow` times the seed; counts how often it was run."""

    made = 0
    lock = threading.Lock()

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = dict(table)
        self.digest = json.dumps(self.table, sort_keys=True)

    @property
    def effective(self) -> Mapping[str, Any]:
        return self.table

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> FakeRun:
        with FakeScenario.lock:
            FakeScenario.made += 1
        if seed in self.table.get("breaks", []):
            raise RuntimeError(f"seed {seed} is unlucky")
        if seed == self.table.get("interrupts"):
            os.kill(os.getpid(), signal.SIGINT)
            # The main thread is to hear of it where it waits, not in some later clean-up that swallows it.
            time.sleep(0.2)
        table = pl.DataFrame({"time_s": [float(self.table["slow"] * (seed or 0))]})
        return FakeRun({"transfers": table}, {"scenario": self.table, "digest": self.digest}, {"cpu_s": 0.5})


def reduce(run: measure.Run) -> dict[str, Any]:
    return {"time_s": run.tables["transfers"]["time_s"].item()}


def scenario(*, queue: str, load: float) -> dict[str, Any]:
    return {"slow": {"RED": 2.0, "SHRED": 1.0}[queue] * load, "queue": queue}


def chart(results: Results) -> Chart:
    rows = [(row.labels["queue"], row.labels["load"], row.values["time_s"]) for row in results["main"].rows]
    table = pl.DataFrame(rows, schema=["queue", "load", "time_s"], orient="row")
    return Chart(
        kind="line", table=table, x="load", y="time_s", by="queue", x_label="load", y_label="time (s)"
    )


def faster(results: Results) -> Evidence:
    pairs = results["main"].pair("time_s", {"queue": "SHRED"}, {"queue": "RED"})
    return stats.judge("SHRED/RED", stats.paired_ratio(*pairs), stats.below(1))


def nonsense(results: Results) -> Any:
    raise ZeroDivisionError("nothing to divide by")


def counted(results: Results) -> pl.DataFrame:
    return pl.DataFrame({"runs": [len(results["main"].rows)]})


def slower(table: dict[str, Any]) -> dict[str, Any]:
    return table | ({"slow": 9.0} if table["queue"] == "SHRED" else {})


MAIN = Grid(
    name="main",
    axes={"queue": ("RED", "SHRED"), "load": (0.5, 1.0)},
    scenario=scenario,
    reduce=reduce,
    seeds=4,
    quick_axes={"load": (1.0,)},
    quick_seeds=2,
)

STUDY = Study(
    name="small",
    title="A small study",
    paper="Nobody",
    question="Is one smaller than two?",
    sweeps=(MAIN,),
    figures=(
        Figure(id="1", title="Times", caption="They grow.", chart=chart),
        Figure(id="broken", title="None", caption="It cannot be drawn.", chart=nonsense),
    ),
    tables=(Table(id="runs", title="Runs", caption="How many.", table=counted),),
    claims=(
        Claim(id="C-1", statement="SHRED is faster.", rule="Ratio below 1.", judge=faster),
        Claim(id="C-2", statement="Anything.", rule="None.", judge=nonsense),
    ),
    decisions=(Decision(question="Which?", decision="This.", reason="Why not."),),
    answer=lambda evidence: [f"C-1 {evidence['C-1'].verdict}."],
)


def run(out: Path, chosen: Study = STUDY, **more: Any) -> StudyResult:
    return study.run(chosen, out, prepare=FakeScenario, **more)
