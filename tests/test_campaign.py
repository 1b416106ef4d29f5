"""A campaign makes each run once, keeps it at once, and loses nothing when something fails."""

from __future__ import annotations

import dataclasses
import errno
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_study import MAIN, STUDY, FakeScenario, reduce, run, scenario

from aqmlab import study
from aqmlab.campaign import Store


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
    def unlucky(**labels: Any) -> dict[str, Any]:
        return scenario(**labels) | {"breaks": [3]}

    broken = dataclasses.replace(STUDY, sweeps=(dataclasses.replace(MAIN, scenario=unlucky),))
    result = run(tmp_path, broken)
    assert len(result.failures) == 4
    assert {failure.seed for failure in result.failures} == {3}
    assert "seed 3 is unlucky" in result.failures[0].problem
    assert result.verdicts["C-1"] == "holds"
    assert "seed 3 is unlucky" in result.report.read_text()
    FakeScenario.made = 0
    run(tmp_path, broken)
    assert FakeScenario.made == 4


def test_a_scenario_that_is_refused_loses_only_its_own_runs(tmp_path: Path) -> None:
    def picky(table: Mapping[str, Any]) -> FakeScenario:
        if table["slow"] == 0.5:
            raise ValueError("slow: must not be 0.5")
        return FakeScenario(table)

    result = study.run(STUDY, tmp_path, prepare=picky)
    assert {(failure.labels["queue"], failure.labels["load"]) for failure in result.failures} == {
        ("SHRED", 0.5)
    }
    assert len(result.failures) == 4
    assert FakeScenario.made == 12


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    def interrupted(**labels: Any) -> dict[str, Any]:
        return scenario(**labels) | ({"interrupts": 2} if labels == {"queue": "SHRED", "load": 1.0} else {})

    chosen = dataclasses.replace(STUDY, sweeps=(dataclasses.replace(MAIN, scenario=interrupted),))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, chosen, jobs=1)
    made = FakeScenario.made
    assert 14 <= made <= 16
    assert len(Store(tmp_path / "runs.jsonl").known) == made
    FakeScenario.made = 0
    run(tmp_path)
    # Digests of the scenarios without the interrupt are the same: only the four of the other are made.
    assert FakeScenario.made == 4


def test_a_line_cut_off_by_a_crash_is_ignored_and_written_again(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    FakeScenario.made = 0
    run(tmp_path)
    assert FakeScenario.made == 1
    assert len(Store(path).known) == 16


def test_other_numbers_are_not_taken_from_the_store(tmp_path: Path) -> None:
    run(tmp_path)
    FakeScenario.made = 0
    other = dataclasses.replace(STUDY, sweeps=(dataclasses.replace(MAIN, reduce=lambda run: reduce(run)),))
    run(tmp_path, other)
    assert FakeScenario.made == 16


def test_a_run_that_two_sweeps_ask_for_is_made_once(tmp_path: Path) -> None:
    twin = dataclasses.replace(MAIN, name="twin")
    result = run(tmp_path, dataclasses.replace(STUDY, sweeps=(MAIN, twin)))
    assert FakeScenario.made == 16
    assert result.provenance["seeds"] == {"main": [1, 2, 3, 4], "twin": [1, 2, 3, 4]}


@pytest.mark.parametrize("jobs", [1, 5])
def test_results_do_not_depend_on_the_number_of_threads(jobs: int, tmp_path: Path) -> None:
    run(tmp_path / "one", jobs=1)
    run(tmp_path / "other", jobs=jobs)
    for name in ("claims.json", "figures/figure-1.csv", "figures/figure-1.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


class Full(io.StringIO):
    """A file on a full disk."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        pass


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.jsonl") as store:
        store._file.close()
        store._file = Full()
        with pytest.raises(OSError, match=r"No space left on device: .*runs\.jsonl"):
            store.add({"key": "one"})
