"""Tuning scenarios: trials run through the campaign, limits, and a verdict on seeds that no trial saw."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import COMMAND, PATIENCE_S, Cli

import aqmlab as al
from aqmlab import stats
from aqmlab.campaign import Local, Outcome, Task
from aqmlab.cli import tuning as tuning_cli
from aqmlab.measures import Measure, View
from aqmlab.store import Store
from aqmlab.tuning import tune_run
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.tune_run import Tuning, TuningResult, run_tuning

FACTORS = [
    Factor.between("bottleneck.queue.max_p", 0.01, 1.0),
    Factor.between("bottleneck.queue.limit", "20p", "60p"),
]


def queue_of(view: View) -> dict[str, Any]:
    queue: dict[str, Any] = view.run.manifest["scenario"]["bottleneck"]["queue"]
    return queue


def bowl(view: View) -> float:
    """Zero where the probability is 0.6 and the limit 40 packets, and the seed beside, the same for all."""
    limit = float(str(queue_of(view)["limit"]).removesuffix("p"))
    probability = queue_of(view).get("max_p", 0.0)
    return float((probability - 0.6) ** 2 + ((limit - 40) / 40) ** 2 + view.run.manifest["seed"])


OWN = {
    "bowl": Measure(name="bowl", compute=bowl, unit="ms"),
    "probability": Measure(name="probability", compute=lambda view: queue_of(view)["max_p"]),
    "flat": Measure(name="flat", compute=lambda _: 1.0),
}


class Until:
    """Makes so many runs, and is interrupted when more are wanted."""

    def __init__(self, runs: float) -> None:
        self.left, self.made = runs, 0

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], None],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        wanted = list(tasks)
        now = wanted if self.left >= len(wanted) else list(islice(wanted, int(self.left)))
        Local(jobs=1).each(now, done, total=total, already=already, label=label)
        self.left -= len(now)
        self.made += len(now)
        if len(now) < len(wanted):
            raise KeyboardInterrupt


@pytest.fixture
def scenario(small: Path) -> al.Scenario:
    return al.Scenario.load(small, {"duration": "1s", "warm_up": "0s"})


def tuning(scenario: al.Scenario, **given: Any) -> Tuning:
    wanted = {"objective": "bowl", "trials": 24, "replications": 2, "fresh": 3, "own_measures": OWN}
    return Tuning(scenario=scenario, factors=FACTORS, **(wanted | given))


def told(found: TuningResult) -> Any:
    return [(answer.question.values, answer.value, answer.feasible) for answer in found.answers]


def test_the_bottom_of_a_bowl_is_found_and_judged_on_seeds_that_no_trial_has_seen(
    scenario: al.Scenario,
) -> None:
    store = Store.in_memory()
    found = run_tuning(tuning(scenario), store)
    assert found.tuning.seeds == (3, 4)
    assert found.tuning.fresh_seeds == (5, 6, 7)
    assert found.best is not None and found.best.value < 3.5 + 0.05
    assert len(found.answers) == found.feasible == 24
    verdict = found.verdict
    assert verdict is not None and verdict.rival == "as it was"
    assert found.outcome(verdict) == "better"
    assert verdict.tuned.value == pytest.approx(found.best.value - 3.5 + 6)
    assert verdict.difference.value == pytest.approx(found.best.value - found.before["bowl"])
    tuned = scenario.with_({"seed": 1, **found.settings}).digest
    assert {seed for digest, seed in store.runs_of([tuned]) if digest == tuned} == {3, 4, 5, 6, 7}


def test_a_tuning_that_was_stopped_goes_on_without_making_a_run_again(
    scenario: al.Scenario, tmp_path: Path
) -> None:
    whole = Until(math.inf)
    wanted = run_tuning(tuning(scenario), executor=whole)
    for stop in (15, 9):
        with Store(tmp_path / "kept") as store, pytest.raises(KeyboardInterrupt):
            run_tuning(tuning(scenario), store, executor=Until(stop))
    rest = Until(math.inf)
    with Store(tmp_path / "kept") as store:
        assert store.runs().height == 24
        found = run_tuning(tuning(scenario), store, executor=rest)
        again = run_tuning(tuning(scenario), store, executor=Until(0))
        assert store.runs().height == whole.made == 24 + rest.made
    assert told(found) == told(wanted) == told(again)
    assert found.comparisons == wanted.comparisons == again.comparisons


def test_more_trials_begin_with_those_that_are_known(scenario: al.Scenario) -> None:
    few, more = (told(run_tuning(tuning(scenario, trials=trials))) for trials in (12, 20))
    assert more[:12] == few
    assert told(run_tuning(tuning(scenario, trials=12, seed=8))) != few


def test_limits_are_kept_and_told_of_again_on_fresh_seeds(scenario: al.Scenario) -> None:
    found = run_tuning(tuning(scenario, limits={"probability": stats.at_most(0.3)}))
    assert found.best is not None
    assert found.best.measured["probability"] <= 0.3
    assert 0 < found.feasible < 24
    assert found.limit_verdict("probability") == "holds"
    rows = found.trials()
    assert rows.filter(~rows["feasible"])["probability"].min() > 0.3


def test_where_no_trial_keeps_the_limits_nothing_is_judged(scenario: al.Scenario) -> None:
    found = run_tuning(tuning(scenario, trials=5, limits={"probability": stats.above(2)}))
    assert found.best is None and found.verdict is None and found.settings == {}
    assert found.feasible == 0
    assert found.nearest is not None
    most = max(answer.measured["probability"] for answer in found.answers)
    assert found.nearest.measured["probability"] == most


@pytest.mark.parametrize(
    ("objective", "goal", "outcome"),
    [("flat", "minimise", "not distinguishable"), ("bowl", "maximise", "better")],
)
def test_what_is_no_better_is_said_to_be_so(
    scenario: al.Scenario, objective: str, goal: Any, outcome: str
) -> None:
    found = run_tuning(tuning(scenario, objective=objective, goal=goal, trials=10))
    assert found.verdict is not None
    assert found.outcome(found.verdict) == outcome
    sign = 1 if goal == "minimise" else -1
    worse = stats.mean_interval([sign * 1.0, sign * 1.1, sign * 1.2])
    assert found.outcome(dataclasses.replace(found.verdict, difference=worse)) == "worse"
    unclear = dataclasses.replace(found.verdict, difference=stats.mean_interval([-1.0, 1.1]))
    assert found.outcome(unclear) == "not distinguishable"


def test_trials_that_are_refused_or_fail_are_counted_and_said(scenario: al.Scenario) -> None:
    def unlucky(view: View) -> float:
        if queue_of(view)["max_p"] > 0.5:
            raise RuntimeError("unlucky")
        return bowl(view)

    factors = [
        Factor.between("bottleneck.queue.max_p", 0.01, 0.9),
        Factor.between("bottleneck.queue.min_th", "1p", "12p"),
        Factor.between("bottleneck.queue.max_th", "5p", "20p"),
    ]
    own = OWN | {"bowl": Measure(name="bowl", compute=unlucky)}
    found = run_tuning(dataclasses.replace(tuning(scenario), factors=factors, own_measures=own))
    refused = [number for number, why in found.problems.items() if "min_th" in why]
    failed = [number for number, why in found.problems.items() if "lacks a value" in why]
    assert refused and failed
    assert len(found.failures) == 2 * len(failed)
    assert all(math.isnan(found.answers[number].value) for number in refused + failed)
    assert found.best is not None and found.best.question.values["bottleneck.queue.max_p"] <= 0.5
    assert found.trials()["problem"].is_not_null().sum() == len(found.problems)


def test_other_queues_stand_beside_on_the_same_fresh_seeds(scenario: al.Scenario) -> None:
    found = run_tuning(tuning(scenario, trials=3, against=["short"], also=["flat"]))
    named = [(one.rival, one.measure.name) for one in found.comparisons]
    assert named == [("as it was", "bowl"), ("as it was", "flat"), ("short", "bowl"), ("short", "flat")]
    short = found.comparisons[2]
    assert short.other.value == pytest.approx(0.36 + (35 / 40) ** 2 + 6)
    assert short.difference.value == pytest.approx(short.tuned.value - short.other.value)


def test_the_chart_shows_trials_within_and_beyond_limits_and_the_best_so_far(scenario: al.Scenario) -> None:
    found = run_tuning(tuning(scenario, limits={"probability": stats.at_most(0.5)}))
    chart = found.chart()
    groups = dict(chart.table.group_by("group").len().iter_rows())
    assert groups["within limits"] == found.feasible
    assert groups["within limits"] + groups["beyond limits"] == 24
    best = chart.table.filter(chart.table["group"] == "best so far")["value"].to_list()
    assert best == sorted(best, reverse=True)
    assert found.best is not None and best[-1] == found.best.value
    assert chart.levels == {"as it was": found.before["bowl"]}


@pytest.mark.parametrize(
    ("text", "name", "band"),
    [
        ("bottleneck.drops<1", "bottleneck.drops", stats.below(1)),
        ("web.p90-time <= 0.5", "web.p90-time", stats.at_most(0.5)),
        ("a>=-2", "a", stats.at_least(-2)),
        ("a > 1e3", "a", stats.above(1000)),
    ],
)
def test_a_limit_is_written_as_in_a_formula(text: str, name: str, band: stats.Band) -> None:
    assert tune_run.limit(text) == (name, band)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"minimise": None}, "--minimise and --maximise: use exactly one of them"),
        ({"maximise": "web.goodput"}, "--minimise and --maximise: use exactly one of them"),
        ({"minimise": "web.p9-time"}, "did you mean .*web.p90-time"),
        ({"subject_to": ["bottleneck.drops"]}, "is not a valid limit: write MEASURE"),
        ({"subject_to": ["bottleneck.drops<low"]}, "is not a valid limit"),
        ({"subject_to": ["bottleneck.drop<1"]}, "did you mean bottleneck.drops"),
        ({"subject_to": ["bottleneck.drops<1", "bottleneck.drops>0"]}, "already has a limit"),
        ({"vary": []}, "--vary: must name a parameter"),
        ({"vary": ["bottleneck.queue.max_q=0.1..0.5"]}, "unknown key `max_q`"),
        ({"against": "purple"}, "no queue is named `purple`"),
        ({"measure": ["web"]}, "no measure is named `web`"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(
    small: Path, tmp_path: Path, given: dict[str, Any], told: str
) -> None:
    words = {
        "vary": ["bottleneck.queue.max_p=0.1..0.5"],
        "minimise": "web.p90-time",
        "store": tmp_path / "kept",
    }
    with pytest.raises(ValueError, match=told):
        tuning_cli.tune(small, **(words | given))
    assert not (tmp_path / "kept").exists()


WORDS = [
    *("--vary", "bottleneck.queue.max_p=0.01..0.5:log", "--vary", "bottleneck.queue.limit=20p..60p"),
    *("--minimise", "web.p90-time", "--subject-to", "bottleneck.utilisation>50"),
]


def test_the_command_prints_the_verdict_and_the_settings_that_use_it(cli: Cli, small: Path) -> None:
    few = ["--trials", "6", "--replications", "2", "--fresh", "3", "--set", "duration=6s"]
    said = cli("tune", small, *WORDS, *few, "--against", "short", "--out", "tuned")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("6 trials and the original scenario, 2 seeds each")
    assert "6 of 6 trials met bottleneck.utilisation above 50" in said.stdout
    assert "Fresh seeds 5 to 7" in said.stdout
    settings = said.stdout.splitlines()[-3]
    assert settings.startswith("--set bottleneck.queue.max_p=")
    assert (small.parent / "tuned" / "trials.csv").read_text().count("\n") == 7
    assert (small.parent / "tuned" / "tuning.png").exists()
    assert cli("check", small, *settings.split()).returncode == 0


def test_a_program_gets_json_and_a_dry_run_makes_nothing(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {
        "vary": ["bottleneck.queue.max_p=0.01..0.5"],
        "maximise": "web.goodput",
        "trials": 2,
        "replications": 1,
        "fresh": 2,
        "settings": ["duration=4s"],
        "store": tmp_path / "kept",
    }
    tuning_cli.tune(small, dry_run=True, **given)
    assert "7 runs" in capsys.readouterr().out
    assert not (tmp_path / "kept").exists()
    tuning_cli.tune(small, as_json=True, **given)
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] in ("better", "worse", "not distinguishable")
    assert found["fresh_seeds"] == [4, 5]
    assert set(found["best"]["values"]) == {"bottleneck.queue.max_p"}


def test_a_sweep_file_gives_its_scenario_and_the_measures_that_are_its_own(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = small.parent / "sweep.toml"
    file.write_text(
        'scenario = "small.toml"\n[set]\nduration = "4s"\n[axes]\n"bottleneck.rate" = ["1Mbps", "2Mbps"]\n'
        '[measure.longest]\nsql = "SELECT max(duration_s) FROM transfers"\nunit = "s"\n',
        encoding="utf-8",
    )
    tuning_cli.tune(
        file,
        vary=["bottleneck.queue.limit=20p..60p"],
        minimise="longest",
        trials=2,
        replications=1,
        fresh=2,
        as_json=True,
        store=tmp_path / "kept",
    )
    assert json.loads(capsys.readouterr().out)["objective"] == "longest"
    given = Store(tmp_path / "kept", read_only=True).records("scenario")[0]["given"]
    assert given["duration"] == "4s"


def test_ctrl_c_keeps_what_is_done_and_says_so(small: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "tune", str(small), *WORDS, "--trials", "2000", "--store", "kept"],
        cwd=small.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + PATIENCE_S
    while (
        not (small.parent / "kept").exists()
        or Store(small.parent / "kept", read_only=True).runs().height < 20
    ):
        assert time.monotonic() < until and child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130, said
    assert "the finished runs are in kept; repeat the command to continue" in said
    assert "Traceback" not in said
