"""A campaign makes each run once, keeps it at once, and loses nothing when something fails."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import pytest
from small_study import MAIN, STUDY, FakeScenario, found, labels_of, run

from aqmlab.measures import Reduction
from aqmlab.results.rule import ratio
from aqmlab.scenario import Scenario
from aqmlab.store import Store
from aqmlab.study import run as study


@pytest.fixture(autouse=True)
def count() -> None:
    FakeScenario.made = 0


def test_a_second_call_makes_no_run_again_and_finds_the_same(tmp_path: Path) -> None:
    first = run(tmp_path)
    claims = (tmp_path / "claims.json").read_bytes()
    FakeScenario.made = 0
    second = run(tmp_path)
    assert FakeScenario.made == 0
    assert second.judged == first.judged
    assert (tmp_path / "claims.json").read_bytes() == claims


def test_a_run_that_fails_loses_neither_the_others_nor_its_own_next_chance(tmp_path: Path) -> None:
    unlucky = partial(FakeScenario, breaks=lambda _, seed: seed == 3)
    result = run(tmp_path, prepare=unlucky)
    assert len(result.failures) == 4
    assert {failure.seed for failure in result.failures} == {3}
    assert {failure.name for failure in result.failures} >= {"main: queue = RED, load = 0.5"}
    assert "seed 3 is unlucky" in result.failures[0].problem
    assert result.verdicts["C-1"] == "holds"
    assert "seed 3 is unlucky" in result.report.read_text()
    FakeScenario.made = 0
    run(tmp_path, prepare=unlucky)
    assert FakeScenario.made == 4


def test_a_scenario_that_is_refused_loses_only_its_own_runs(tmp_path: Path) -> None:
    def picky(scenario: Scenario) -> FakeScenario:
        if labels_of(scenario) == ("shred", 0.5):
            raise ValueError("load: must not be 0.5")
        return FakeScenario(scenario)

    result = study.run(STUDY, tmp_path, prepare=picky)
    assert {failure.name for failure in result.failures} == {"main: queue = SHRED, load = 0.5"}
    assert len(result.failures) == 4
    assert FakeScenario.made == 12


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    interrupted = partial(
        FakeScenario,
        interrupts=lambda scenario, seed: seed == 2 and labels_of(scenario) == ("shred", 1.0),
    )
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, prepare=interrupted, jobs=1)
    made = FakeScenario.made
    assert 14 <= made <= 16
    assert kept(tmp_path) == made
    FakeScenario.made = 0
    run(tmp_path)
    assert FakeScenario.made == 16 - made


def test_other_numbers_are_not_taken_from_the_store(tmp_path: Path) -> None:
    run(tmp_path)
    FakeScenario.made = 0
    other = Reduction(prefix="small", of=found, version=2).measure("time_s", "time", "s")
    changed = dataclasses.replace(MAIN, measures=[other])
    rule = ratio(changed[other].averaged("load"), queue=("SHRED", "RED")) < 1
    claims = (dataclasses.replace(STUDY.claims[0], rule=rule, figures=()),)
    run(tmp_path, dataclasses.replace(STUDY, experiments=(changed,), claims=claims, figures=()))
    assert FakeScenario.made == 16


def test_a_run_that_two_experiments_ask_for_is_made_once(tmp_path: Path) -> None:
    twin = dataclasses.replace(MAIN, name="twin")
    result = run(tmp_path, dataclasses.replace(STUDY, experiments=(MAIN, twin)))
    assert FakeScenario.made == 16
    assert result.provenance["seeds"] == {"main": [1, 2, 3, 4], "twin": [1, 2, 3, 4]}


@pytest.mark.parametrize("jobs", [1, 5])
def test_results_do_not_depend_on_the_number_of_threads(jobs: int, tmp_path: Path) -> None:
    run(tmp_path / "one", jobs=1)
    run(tmp_path / "other", jobs=jobs)
    for name in ("claims.json", "figures/figure-1.csv", "figures/figure-1.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def kept(out: Path) -> int:
    """How many runs the store of a study holds."""
    return Store(out / "store", read_only=True).runs().height
