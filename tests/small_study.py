"""A study for tests, on a simulator that is a few lines of arithmetic."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import _core
from aqmlab import measures as measure
from aqmlab.charts.chart import Chart
from aqmlab.measures import Reduction
from aqmlab.results.rule import ratio, statistic
from aqmlab.results.table import ExperimentResults
from aqmlab.scenario import Scenario
from aqmlab.study import run as study
from aqmlab.study.charts import line
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.publication import Claim, Decision, Figure, Study, StudyResult, Table
from aqmlab.sweep import Changes


@dataclasses.dataclass(frozen=True)
class FakeRun:
    tables: Mapping[str, pl.DataFrame]
    manifest: Mapping[str, Any]
    performance: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class FakeScenario:
    """In place of a run: time is the load times the seed, twice that with RED, nine times with a long delay.
    Counts how often it was run."""

    scenario: Scenario
    breaks: Callable[[Scenario, int], bool] = lambda _, seed: False
    interrupts: Callable[[Scenario, int], bool] = lambda _, seed: False

    made = 0
    lock = threading.Lock()

    @property
    def digest(self) -> str:
        return self.scenario.digest

    @property
    def effective(self) -> Mapping[str, Any]:
        return self.scenario.effective

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> FakeRun:
        with FakeScenario.lock:
            FakeScenario.made += 1
        assert seed is not None
        if self.breaks(self.scenario, seed):
            raise RuntimeError(f"seed {seed} is unlucky")
        if self.interrupts(self.scenario, seed):
            os.kill(os.getpid(), signal.SIGINT)
            # The main thread is to hear of it where it waits, not in some later clean-up that swallows it.
            time.sleep(0.2)
        line, web = self.effective["bottleneck"], self.effective["traffic"]["web"]
        slow = {"red": 2.0, "shred": 1.0}[line["queue"]["kind"]] if line["delay"] != "900ms" else 9.0
        table = pl.DataFrame({"time_s": [float(slow * web["load"] * seed)]})
        manifest = {"scenario": self.effective, "digest": self.digest}
        return FakeRun({"transfers": table}, manifest, {"cpu_s": 0.5})


def labels_of(scenario: Scenario) -> tuple[str, float]:
    """The queue and the load of a point."""
    queue = scenario.effective["bottleneck"]["queue"]["kind"]
    return queue, scenario.effective["traffic"]["web"]["load"]


def found(run: measure.Run) -> Mapping[str, Any]:
    return {"time_s": run.tables["transfers"]["time_s"].item()}


TIME = Reduction(prefix="small", of=found).measure("time_s", "time", "s")

THRESHOLDS = {"min_th": "5p", "max_th": "15p", "limit": "50p"}
RED = {"kind": "red", **THRESHOLDS}

MAIN = Experiment(
    name="main",
    title="Web alone",
    scenario={
        "duration": "10s",
        "bottleneck": {"rate": "1Mbps", "delay": "10ms", "queue": RED},
        "traffic": {"web": {"kind": "web", "load": 0.5}},
    },
    axes={
        "queue": Changes(
            {
                "RED": {"bottleneck.queue": RED},
                "SHRED": {"bottleneck.queue": {"kind": "shred", "red": THRESHOLDS}},
            }
        ),
        "traffic.web.load": (0.5, 1.0),
    },
    measures=[TIME],
    seeds=4,
    most_seeds=4,
    quick=Form(seeds=2, axes={"load": (1.0,)}),
)


def nonsense(_: Any, __: float = 0.0) -> Any:
    raise ZeroDivisionError("nothing to divide by")


def counted(results: ExperimentResults) -> pl.DataFrame:
    return pl.DataFrame({"runs": [len(results["main"].rows)]})


def slower(table: dict[str, Any]) -> dict[str, Any]:
    if table["bottleneck"]["queue"]["kind"] == "shred":
        table["bottleneck"]["delay"] = "900ms"
    return table


def chart(_: ExperimentResults) -> Chart:
    raise ZeroDivisionError("nothing to draw")


STUDY = Study(
    name="small",
    title="A small study",
    paper="Nobody",
    question="Is one smaller than two?",
    experiments=(MAIN,),
    figures=(
        Figure(
            id="1",
            title="Times",
            caption="They grow.",
            chart=line(MAIN[TIME], x="load", by="queue", x_label="load"),
        ),
        Figure(id="broken", title="None", caption="It cannot be drawn.", chart=chart),
    ),
    tables=(Table(id="runs", title="Runs", caption="How many.", table=counted),),
    claims=(
        Claim(
            id="C-1",
            statement="SHRED is faster.",
            source="page 1",
            rule=ratio(MAIN[TIME].averaged("load"), queue=("SHRED", "RED")) < 1,
            figures=("1",),
        ),
        Claim(
            id="C-2",
            statement="Anything.",
            source="page 2",
            rule=statistic("nothing", nonsense, MAIN[TIME].at(queue="RED", load=1.0)) > 0,
            origin="ours",
        ),
    ),
    decisions=(Decision(question="Which?", decision="This.", reason="Why not."),),
    answer=lambda found: [f"C-1 {found.of('C-1').verdict}."],
)


def run(out: Path, chosen: Study = STUDY, **more: Any) -> StudyResult:
    return study.run(chosen, out, **{"prepare": FakeScenario, **more})
