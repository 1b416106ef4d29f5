"""A study with four readings and ten variants, judged by made-up runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aqmlab.measures import Measure
from aqmlab.results.rule import anywhere, every, mean_of, ratio
from aqmlab.results.table import ExperimentResults, Results, Row
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Decision, Reading, Study, StudyResult, Table, Variant
from aqmlab.study.run import judged

AXES = {"flows": (1, 2), "delay": ("10ms", "20ms"), "load": (0.1, 0.5, 0.9)}

TIME = Measure(name="time", title="time", unit="s", compute=lambda view: 0.0)

TRIED = Experiment(
    name="tried",
    title="Tried",
    scenario={
        "duration": "10s",
        "bottleneck": {
            "rate": "1Mbps",
            "delay": "10ms",
            "queue": {"kind": "drop-tail", "limit": "9p"},
        },
        "traffic": {"ftp": {"kind": "ftp", "flows": 1}, "web": {"kind": "web", "load": 0.5}},
    },
    axes={
        "traffic.ftp.flows": AXES["flows"],
        "bottleneck.delay": AXES["delay"],
        "traffic.web.load": AXES["load"],
    },
    measures=[TIME],
)

READINGS = tuple(
    Reading(
        name=f"{flows} flows, {delay}",
        labels={"flows": flows, "delay": delay},
        suffix=f"-{flows}-{delay}",
        leaves_out={"D": "it was not measured"} if (flows, delay) == (2, "20ms") else {},
    )
    for flows in (1, 2)
    for delay in ("10ms", "20ms")
)

NEAR = TRIED[TIME].averaged("load")

CLAIMS = (
    Claim(
        id="A",
        statement="It takes less than a second.",
        source="slide 1",
        rule=mean_of(TRIED[TIME]) < 1,
        figures=("times",),
    ),
    Claim(
        id="B", statement="It does on average.", source="slide 2", rule=mean_of(NEAR.averaged("delay")) < 1
    ),
    Claim(
        id="C",
        statement="Delay does not matter.",
        source="slide 3",
        rule=ratio(TRIED[TIME].at(flows=1), delay=("20ms", "10ms")).within(0.9, 1.1),
        origin="ours",
    ),
    Claim(
        id="D",
        statement="It takes long somewhere, or at the highest load.",
        source="slide 4",
        rule=every(anywhere(mean_of(TRIED[TIME]) > 1, mean_of(NEAR) > 2), mean_of(TRIED[TIME]) > 0),
        origin="sheet",
    ),
)

VARIANTS = tuple(Variant(name=f"variant {n}", what=f"Number {n}.", change={}) for n in range(1, 11))

STUDY = Study(
    name="many",
    title="Many readings",
    paper="Nobody",
    question="Which?",
    experiments=(TRIED,),
    figures=(),
    tables=(Table(id="times", title="Times", caption="All.", table=lambda _: "none"),),  # type: ignore[arg-type, return-value]
    claims=CLAIMS,
    decisions=(Decision(question="Which?", decision="This.", reason="Why not.", variants=VARIANTS),),
    answer=lambda _: ["It depends."],
    readings=READINGS,
)

Time = Callable[[int, str, float], float]


def runs(time: Time) -> ExperimentResults:
    """Four seeds at every point; a value is that of the point and a little noise."""
    rows = [
        Row(
            labels={"flows": flows, "delay": delay, "load": load},
            seed=seed,
            values={"time": time(flows, delay, load) + seed / 1000},
        )
        for flows in AXES["flows"]
        for delay in AXES["delay"]
        for load in AXES["load"]
        for seed in (1, 2, 3, 4)
    ]
    return {"tried": Results.of_rows(rows=tuple(rows), axes=AXES)}


def by_load(flows: int, delay: str, load: float) -> float:
    """One flow is quick; two are slow at high loads, and behind a long delay always."""
    return load if flows == 1 else 3 * load if delay == "10ms" else 1 + load


def made(out: Path = Path()) -> StudyResult:
    """The results: under variant 3 all is slow, and under variant 7 everything takes the same."""
    times: dict[str, Time] = {one.name: by_load for one in VARIANTS}
    times["variant 3"] = lambda flows, delay, load: 2 + load
    times["variant 7"] = lambda flows, delay, load: 0.5
    return StudyResult(
        study=STUDY,
        quick=True,
        judged=judged(STUDY, CLAIMS, runs(by_load)),
        drawn=(),
        tables=tuple((table, "none") for table in STUDY.tables),
        sensitivity=tuple((one, judged(STUDY, CLAIMS, runs(times[one.name]))) for one in VARIANTS),
        failures=(),
        warnings=(),
        provenance={
            "version": "1",
            "python": "3",
            "polars": "1",
            "seeds": {"tried": [1, 2, 3, 4]},
            "scenarios": {},
            "runs": 48,
            "cpu_s": None,
            "timing": {},
            "seconds": 1.0,
            "live": None,
        },
        results={},
        report=out / "report.html",
    )
