"""Claims of sweep files: the rules that tables become, and verdicts that are those of studies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import aqmlab as al
from aqmlab.results.rule import AnyRule, anywhere, difference, every, mean_of, ratio
from aqmlab.results.table import Results
from aqmlab.stats.precision import Precision
from aqmlab.study.experiment import Experiment
from aqmlab.sweep import Stopping, Sweep
from aqmlab.sweep import claims as claim_tables
from aqmlab.sweep import file as sweep_file
from aqmlab.sweep.claims import Claim, Swept
from aqmlab.sweep.run_sweep import run_sweep

QUEUES = ["red", "drop-tail", "short"]
LOADS = [0.2, 0.3, 0.4]
TIME, BUSY = "web.mean-time", "bottleneck.utilisation"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("claims")


@pytest.fixture
def sweep(small: Path) -> Sweep:
    scenario = al.Scenario.load(small, {"duration": "6s"})
    axes = {"queue": QUEUES, "traffic.web.load": LOADS}
    return Sweep(scenario=scenario, axes=axes, measures=[TIME, BUSY], replications=4, first_seed=3)


@pytest.fixture
def swept(sweep: Sweep) -> Swept:
    return Swept(sweep=sweep, written={})


@pytest.fixture
def result(sweep: Sweep) -> Results:
    return run_sweep(sweep, jobs=2)


def read(swept: Swept, **table: Any) -> AnyRule:
    return claim_tables.read("claims.0", {"says": "so", **table}, swept).rule


def test_a_sweep_file_and_a_study_find_the_same_verdict_interval_and_words(
    swept: Swept, result: Results
) -> None:
    sweep = swept.sweep
    experiment = Experiment(
        name=sweep.name,
        title=sweep.name,
        scenario=sweep.scenario.given,
        axes=dict(sweep.axes),
        measures=sweep.wanted,
        seeds=4,
        first_seed=3,
    )
    time, busy = (experiment[one] for one in sweep.wanted)
    pairs: list[tuple[dict[str, Any], AnyRule]] = [
        (
            {"measure": TIME, "ratio": {"queue": ["short", "red"]}, "below": 1},
            ratio(time, queue=("short", "red")) < 1,
        ),
        (
            {"measure": BUSY, "difference": {"queue": ["short", "red"]}, "within": [-2, 2]},
            difference(busy, queue=("short", "red")).within(-2, 2),
        ),
        ({"measure": BUSY, "at": {"queue": "red"}, "above": 30}, mean_of(busy.at(queue="red")) > 30),
        (
            {"grows": {"measure": BUSY, "along": {"load": LOADS}}},
            every(*(ratio(busy, load=pair) > 1 for pair in ((0.3, 0.2), (0.4, 0.3)))),
        ),
        (
            {"falls": {"measure": TIME, "along": {"queue": ["red", "short"]}, "at": {"load": 0.4}}},
            ratio(time.at(load=0.4), queue=("short", "red")) < 1,
        ),
        (
            {
                "any": [
                    {"measure": TIME, "ratio": {"queue": ["short", "red"]}, "at_most": 0.9},
                    {"measure": TIME, "ratio": {"queue": ["red", "drop-tail"]}, "at_most": 0.9},
                ]
            },
            anywhere(
                ratio(time, queue=("short", "red")) <= 0.9, ratio(time, queue=("red", "drop-tail")) <= 0.9
            ),
        ),
        (
            {
                "all": [
                    {
                        "measure": TIME,
                        "ratio": {"queue": ["short", "red"]},
                        "where": "load > 0.25",
                        "below": 1,
                    },
                    {"measure": BUSY, "at": {"queue": "red"}, "at_least": 10},
                ]
            },
            every(
                ratio(time, queue=("short", "red")).where("load > 0.25") < 1,
                mean_of(busy.at(queue="red")) >= 10,
            ),
        ),
    ]
    axes = {label: experiment.values(label) for label in experiment.labels}
    runs = Results.of_rows(result.rows, axes)
    for table, rule in pairs:
        ours = read(swept, **table)
        (judged,) = claim_tables.judge([Claim(says="so", rule=ours)], result)
        assert judged.evidence == rule.judge({experiment.name: runs})
        assert (ours.text, ours.definition) == (rule.text, rule.definition)
    verdicts = {rule.judge({experiment.name: runs}).verdict for _, rule in pairs}
    assert len(verdicts) > 1  # A law that finds one verdict for all would agree as well.


def test_another_claim_of_the_file_does_not_change_a_verdict(swept: Swept, result: Results) -> None:
    one = Claim(says="", rule=read(swept, measure=BUSY, ratio={"load": [0.4, 0.2]}, above=1.7))
    other = Claim(says="", rule=read(swept, measure=TIME, ratio={"queue": ["red", "short"]}, above=1))
    assert claim_tables.judge([one, other], result)[0] == claim_tables.judge([one], result)[0]


def test_a_point_that_a_filter_leaves_out_is_no_part_of_a_claim(sweep: Sweep) -> None:
    less = dataclasses.replace(sweep, where="queue != 'short' OR load > 0.3")
    swept, result = Swept(sweep=less, written={}), run_sweep(less, jobs=2)
    rule = read(swept, measure=BUSY, ratio={"queue": ["short", "red"]}, below=2)
    (judged,) = claim_tables.judge([Claim(says="", rule=rule)], result)
    assert [part.where for part in judged.evidence.parts] == [{"load": 0.4}]
    assert judged.evidence.verdict == "holds"


def test_a_claim_about_a_value_that_a_command_line_left_out_is_undecided(sweep: Sweep) -> None:
    less = dataclasses.replace(sweep, axes={**sweep.axes, "queue": ["red"]})
    swept, result = Swept(sweep=less, written={"queue": QUEUES}), run_sweep(less, jobs=2)
    rule = read(swept, measure=BUSY, ratio={"queue": ["short", "red"]}, below=2)
    (judged,) = claim_tables.judge([Claim(says="", rule=rule)], result)
    assert (judged.evidence.verdict, judged.evidence.parts) == ("undecided", ())


def test_a_single_long_run_is_judged_by_batch_means(small: Path) -> None:
    scenario = al.Scenario.load(small, {"duration": "60s"})
    lone = Sweep(
        scenario=scenario, axes={"queue": ["red"]}, measures=["bottleneck.mean-queue"], replications=1
    )
    swept, result = Swept(sweep=lone, written={}), run_sweep(lone)
    rule = read(swept, measure="bottleneck.mean-queue", above=0)
    (judged,) = claim_tables.judge([Claim(says="", rule=rule)], result)
    row = result.intervals().row(0, named=True)
    assert (judged.evidence.value, judged.evidence.low) == (row["mean"], row["low"])
    assert judged.evidence.verdict == "holds"


def test_looks_at_the_runs_widen_the_intervals_of_claims(sweep: Sweep) -> None:
    rule = Precision(relative=0.5, least=4, most=9)
    looked = dataclasses.replace(sweep, precision=Stopping(rule=rule, measures=[BUSY]))
    swept, result = Swept(sweep=looked, written={}), run_sweep(looked, jobs=2)
    (judged,) = claim_tables.judge([Claim(says="", rule=read(swept, measure=BUSY, above=1))], result)
    assert {part.level for part in judged.evidence.parts} == {1 - 0.05 / len(rule.looks())}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "claims.0: must have exactly one of the keys measure, grows, falls, all, any"),
        ({"measure": TIME, "grows": {}}, "claims.0: must have exactly one of the keys measure"),
        ({"measure": TIME}, "claims.0: must have exactly one of the keys below, above"),
        ({"measure": "web.maen-time", "below": 1}, "claims.0.measure: `web.maen-time` is not measured"),
        ({"measure": TIME, "below": 1, "at": {"lod": 0.2}}, "claims.0.at: no axis is named `lod`"),
        ({"measure": TIME, "below": 1, "at": {"load": 0.5}}, "claims.0.at: load has no value 0.5"),
        ({"measure": TIME, "below": 1, "at": 0.5}, "claims.0.at: must be a table such as { load = 0.9 }"),
        ({"measure": TIME, "below": 1, "where": "lod < 1"}, "claims.0.where: "),
        ({"grows": {"measure": TIME}}, "claims.0.grows.along: must be a table such as"),
        (
            {"grows": {"measure": TIME, "along": {"load": [0.2]}}},
            "claims.0.grows.along.load: must be a list of at least 2 values",
        ),
        ({"grows": {"measure": TIME, "alnog": {}}}, "claims.0.grows.alnog: is unknown: did you mean along?"),
        ({"all": [{"measure": TIME, "below": 1}]}, "claims.0.all: must be a list of at least two tables"),
        (
            {"any": [{"measure": TIME, "below": 1}, {"measure": TIME, "belw": 1}]},
            "claims.0.any.1.belw: is unknown: did you mean below?",
        ),
        ({"all": [], "below": 1}, "claims.0.all: cannot be combined with `below`"),
    ],
)
def test_what_is_wrong_in_a_claim_is_told_with_its_place(
    table: dict[str, Any], told: str, swept: Swept
) -> None:
    with pytest.raises(ValueError) as error:
        read(swept, **table)
    assert str(error.value).startswith(told)


def test_measures_of_a_claim_need_not_be_named_again(small: Path) -> None:
    path = small.parent / "claims.toml"
    path.write_text(
        f"""
scenario = "{small.name}"
measures = ["{BUSY}"]
axes = {{ queue = ["red", "short"] }}
[[claims]]
says = "Both"
all = [
    {{ measure = "{TIME}", ratio = {{ queue = ["short", "red"] }}, below = 1 }},
    {{ grows = {{ measure = "web.p90-time", along = {{ queue = ["red", "short"] }} }} }},
]
"""
    )
    assert [one.name for one in sweep_file.load(path).sweep.wanted] == [BUSY, TIME, "web.p90-time"]
