"""Sensitivity analysis of scenarios: samples run through the campaign, and indices of known functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.campaign import Local, Outcome, Task
from aqmlab.cli import tuning as tuning_cli
from aqmlab.measures import Measure, View
from aqmlab.store import Store
from aqmlab.tuning import sensitivity_run
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.sensitivity_run import Sensitivity, run_sensitivity

FACTORS = [
    Factor.between("bottleneck.queue.max_p", 0.001, 1.0),
    Factor.between("bottleneck.queue.weight", 0.001, 1.0),
    Factor.between("bottleneck.queue.limit", "20p", "40p"),
]


def slope(view: View) -> float:
    """Three times one parameter and once another, and chance that is the same for all samples."""
    queue = view.run.manifest["scenario"]["bottleneck"]["queue"]
    return float(3 * queue["max_p"] + queue["weight"] + view.run.manifest["seed"])


SLOPE = Measure(name="slope", compute=slope, unit="ms")


class Until:
    """Makes so many runs, and is interrupted then."""

    def __init__(self, runs: int) -> None:
        self.left = runs

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], None],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        def counted(task: Task, made: Outcome) -> None:
            self.left -= 1
            done(task, made)

        wanted = islice(iter(tasks), self.left)
        Local(jobs=1).each(wanted, counted, total=total, already=already, label=label)
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture
def scenario(small: Path) -> al.Scenario:
    return al.Scenario.load(small, {"duration": "1s", "warm_up": "0s"})


def analysed(scenario: al.Scenario, store: Store | None = None, **given: Any) -> Sensitivity:
    return run_sensitivity(
        scenario, FACTORS, [SLOPE], **({"samples": 16, "replications": 2} | given), store=store
    )


def test_the_factors_of_a_plane_matter_as_much_as_their_slopes(scenario: al.Scenario) -> None:
    found = analysed(scenario, samples=64, replications=1).indices["slope"]
    assert found["factor"].to_list() == [factor.path for factor in FACTORS]
    assert found["S1"].to_list() == pytest.approx([0.9, 0.1, 0.0], abs=0.08)
    assert found["ST"].to_list() == pytest.approx([0.9, 0.1, 0.0], abs=0.08)
    effects = analysed(scenario, method="morris", samples=4).indices["slope"]
    assert effects["mu_star"].to_list() == pytest.approx([3.0, 1.0, 0.0], abs=0.02)


def test_all_samples_share_their_seeds_so_that_chance_common_to_all_is_no_noise(
    scenario: al.Scenario,
) -> None:
    found = analysed(scenario)
    assert found.plan.trials.seeds == (3, 4)
    assert found.noise("slope") == pytest.approx(0.0, abs=1e-12)
    assert analysed(scenario, seed=9).plan.trials.seeds == (9, 10)


def test_noise_is_the_share_of_the_variance_that_other_seeds_would_change(scenario: al.Scenario) -> None:
    def chance(view: View) -> float:
        mixed = hash((slope(view), view.run.manifest["seed"])) % 1000
        return mixed / 1000

    lone = Measure(name="chance", compute=chance)
    found = run_sensitivity(scenario, FACTORS, [lone, SLOPE], samples=16, replications=4)
    assert found.noise("chance") > 0.5
    assert found.noise("slope") == pytest.approx(0.0, abs=1e-12)


def test_a_second_call_makes_no_run_again_and_says_the_same(scenario: al.Scenario, tmp_path: Path) -> None:
    with Store(tmp_path / "kept") as store, pytest.raises(KeyboardInterrupt):
        analysed(scenario, store, executor=Until(30))
    with Store(tmp_path / "kept") as store:
        assert store.runs().height == 30
        first = analysed(scenario, store)
        assert store.runs().height == first.plan.runs == 160
        planned = first.plan
        assert planned.trials.stored(planned.scenarios, store) == 160
        again = analysed(scenario, store, executor=Nobody())
    assert again.table().equals(first.table())
    assert again.table().equals(analysed(scenario).table())


class Nobody:
    """Is never asked for a run."""

    def each(self, tasks: Iterable[Task], *_: object, **__: object) -> None:
        raise AssertionError(f"{next(iter(tasks)).name} would be made again")


def test_a_measure_without_indices_does_not_hide_the_others(scenario: al.Scenario) -> None:
    still = Measure(name="still", compute=lambda _: 1.0)
    lacking = Measure(name="lacking", compute=lambda view: slope(view) if slope(view) > 5 else None)
    found = run_sensitivity(scenario, FACTORS, [still, lacking, SLOPE], samples=4, replications=1)
    assert list(found.indices) == ["slope"]
    assert "no variance" in found.problems["still"]
    assert "11 of 20 are missing" in found.problems["lacking"]
    assert found.table()["measure"].unique().to_list() == ["slope"]


def test_runs_that_fail_are_told_and_tried_again(scenario: al.Scenario) -> None:
    broken = {4}

    def unlucky(view: View) -> float:
        if view.run.manifest["seed"] in broken:
            raise RuntimeError("unlucky")
        return slope(view)

    store, one = Store.in_memory(), Measure(name="slope", compute=unlucky)
    first = run_sensitivity(scenario, FACTORS, [one], samples=2, replications=2, store=store)
    assert len(first.failures) == 10
    assert "unlucky" in first.failures[0].problem
    assert "10 of 10 are missing" in first.problems["slope"]
    broken.clear()
    assert not run_sensitivity(scenario, FACTORS, [one], samples=2, replications=2, store=store).problems


@pytest.mark.parametrize(
    ("vary", "given", "told"),
    [
        ([], {}, "--vary: must name a parameter"),
        (["bottleneck.queue.max_p"], {}, "must have the form PATH=LOW..HIGH"),
        (["bottleneck.queue.max_p=0.5..0.1"], {}, "low must be less than high"),
        (["bottleneck.queue.max_p=a..b"], {}, "'a' is not a number"),
        (["bottleneck.queue.max_p=0..1:log"], {}, "low must be greater than 0 for a log scale"),
        (["bottleneck.queue.max_p=0.1..0.5:cubic"], {}, "must be linear or log"),
        (["bottleneck.queue.max_q=0.1..0.5"], {}, "unknown key `max_q`"),
        (["bottleneck.queue.min_th=1p..5ms"], {}, "must have the same unit"),
        (["bottleneck.queue.min_th=1ms..5ms"], {}, "bottleneck.queue.min_th"),
        (["queues.short.limit=1p..5p"], {}, "belongs to no link"),
        (["seed=1..5"], {}, "is not a factor"),
        (
            ["bottleneck.queue.min_th=1p..30p", "bottleneck.queue.max_th=20p..40p"],
            {},
            "all values are compatible",
        ),
        (["bottleneck.queue.max_p=0.1..0.5"], {"samples": 10}, "samples: .* power of 2"),
        (["bottleneck.queue.max_p=0.1..0.5"], {"measure": ["web.p90"]}, "did you mean web.p90"),
        (["bottleneck.queue.max_p=0.1..0.5"], {"measure": []}, "--measure: must name a measure"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(
    small: Path, tmp_path: Path, vary: list[str], given: dict[str, Any], told: str
) -> None:
    words = {"measure": ["bottleneck.drops"], "store": tmp_path / "kept"} | given
    with pytest.raises(ValueError, match=told):
        tuning_cli.sensitivity(small, vary=vary, **words)
    assert not (tmp_path / "kept").exists()


VARIED = ["bottleneck.queue.max_p=0.01..0.5:log", "bottleneck.queue.limit=10p..40p"]


def test_the_command_prints_a_table_for_each_measure_and_draws_it(cli: Cli, small: Path) -> None:
    words = ["sensitivity", small, "--set", "duration=4s", "--replications", "2", "--samples", "4"]
    for one in VARIED:
        words += ["--vary", one]
    told = cli(*words, "--measure", "bottleneck.utilisation", "--out", "drawn")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("16 samples of 2 parameters, 2 seeds each: 32 runs, 0 in the store\n")
    assert "bottleneck.queue.max_p" in told.stdout and "0.01 to 0.5, log" in told.stdout
    assert "Random share: " in told.stdout
    assert "use more --samples" in told.stderr
    drawn = {path.name for path in (small.parent / "drawn").iterdir()}
    assert {"samples.csv", "indices.csv", "sensitivity-bottleneck.utilisation.png"} <= drawn
    assert (small.parent / "drawn" / "samples.csv").read_text().count("\n") == 17


def test_a_program_gets_json_or_csv_and_a_dry_run_makes_nothing(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(**given: Any) -> str:
        tuning_cli.sensitivity(
            small,
            vary=VARIED,
            measure=["web.goodput", "bottleneck.drops"],
            settings=["duration=4s"],
            samples=2,
            store=tmp_path / "kept",
            **given,
        )
        return capsys.readouterr().out

    assert told(dry_run=True) == "8 samples of 2 parameters, 3 seeds each: 24 runs, 0 in the store\n"
    assert not (tmp_path / "kept").exists()
    found = json.loads(told(as_json=True))
    assert [one["name"] for one in found["measures"]] == ["web.goodput", "bottleneck.drops"]
    assert told(dry_run=True).endswith("24 runs, 24 in the store\n")
    rows = told(method=tuning_cli.Method.MORRIS, csv=True).splitlines()
    assert rows[0] == "measure,unit,factor,mu,mu_star,mu_star_conf,sigma"
    assert len(rows) == 5


def test_a_sweep_file_gives_its_scenario_and_its_measures(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = small.parent / "sweep.toml"
    file.write_text(
        'scenario = "small.toml"\nmeasures = ["web.goodput"]\nset.duration = "4s"\n'
        '[axes]\n"bottleneck.rate" = ["1Mbps", "2Mbps"]\n',
        encoding="utf-8",
    )
    tuning_cli.sensitivity(file, vary=VARIED, samples=2, as_json=True, store=tmp_path / "kept")
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["measures"]] == ["web.goodput"]
    effective = Store(tmp_path / "kept", read_only=True).records("scenario")[0]["given"]
    assert effective["duration"] == "4s"


def test_a_chart_has_a_bar_for_each_factor_and_index(scenario: al.Scenario) -> None:
    chart = analysed(scenario).chart("slope")
    assert chart.table["factor"].to_list() == ["max_p", "weight", "limit"] * 2
    assert chart.table.filter(chart.table["low"] > chart.table["value"]).height == 0
    effects = analysed(scenario, method="morris", samples=2).chart("slope")
    assert effects.table["index"].unique(maintain_order=True).to_list() == ["size (mu*)", "spread (sigma)"]


def test_nothing_to_measure_is_refused(scenario: al.Scenario) -> None:
    with pytest.raises(ValueError, match="measures: must name at least one"):
        sensitivity_run.plan(scenario, FACTORS, [])
