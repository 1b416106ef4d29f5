"""Seeds are added where a verdict hangs on too few, and nowhere else."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from small_study import MAIN, STUDY, TIME, FakeRun, FakeScenario, labels_of, run

from aqmlab.results.rule import AnyRule, every, ratio
from aqmlab.store import Store
from aqmlab.study import seeds as study_seeds
from aqmlab.study.publication import Study


@dataclasses.dataclass(frozen=True)
class Noisy(FakeScenario):
    """SHRED takes nine tenths of RED's time at half the load, and as long as it at full load, with noise."""

    def run(self, seed: int | None = None, **options: object) -> FakeRun:
        run = super().run(seed)
        queue, load = labels_of(self.scenario)
        noise = 1 + 0.1 * random.Random(f"{queue}{load}{seed}").gauss(0, 1)
        time_s = (0.9 if (queue, load) == ("shred", 0.5) else 1.0) * noise
        return dataclasses.replace(
            run, tables={"transfers": run.tables["transfers"].with_columns(time_s=time_s)}
        )


def noisy(rule: AnyRule, most: int) -> Study:
    main = dataclasses.replace(MAIN, most_seeds=most)
    claims = (dataclasses.replace(STUDY.claims[0], rule=rule),)
    return dataclasses.replace(STUDY, experiments=(main,), claims=claims, answer=lambda found: [])


def seeds_by_point(out: Path) -> dict[tuple[str, float], int]:
    found: dict[tuple[str, float], int] = {}
    store = Store(out / "store", read_only=True)
    by_digest = {MAIN.sweep("full").scenario_of(point).digest: point for point in MAIN.sweep("full").points()}
    for digest in store.runs()["scenario"]:
        point = tuple(by_digest[digest].labels.values())
        found[point] = found.get(point, 0) + 1  # type: ignore[index, arg-type]
    return found


at_half = ratio(MAIN[TIME].at(load=0.5), queue=("SHRED", "RED")) < 1
at_full = ratio(MAIN[TIME].at(load=1.0), queue=("SHRED", "RED")) < 1


def test_points_of_a_claim_that_is_undecided_get_more_seeds_until_it_is_decided(tmp_path: Path) -> None:
    result = run(tmp_path, noisy(at_half, 32), prepare=Noisy)
    counts = seeds_by_point(tmp_path)
    assert result.verdicts["C-1"] == "holds"
    assert counts["RED", 0.5] == counts["SHRED", 0.5] > 4
    assert counts["RED", 1.0] == counts["SHRED", 1.0] == 4, "nothing is asked of them"


def test_an_experiment_has_no_more_seeds_than_its_most(tmp_path: Path) -> None:
    result = run(tmp_path, noisy(at_full, 10), prepare=Noisy)
    assert result.verdicts["C-1"] == "undecided"
    assert set(seeds_by_point(tmp_path).values()) == {4, 10}


def test_a_claim_that_fails_somewhere_needs_no_more_seeds(tmp_path: Path) -> None:
    never = ratio(MAIN[TIME].at(load=1.0), queue=("SHRED", "RED")) < 0.01
    run(tmp_path, noisy(every(at_half, never), 32), prepare=Noisy)
    assert set(seeds_by_point(tmp_path).values()) == {4}


def test_a_number_that_is_known_well_enough_gets_no_more_seeds(tmp_path: Path) -> None:
    close = at_full.estimate.to_within(0.5) < 1
    result = run(tmp_path, noisy(close, 32), prepare=Noisy)
    (judged,) = result.judged
    assert judged.evidence.verdict == "undecided"
    assert "undecided: near the limit, known to ±" in judged.evidence.measured
    assert set(seeds_by_point(tmp_path).values()) == {4}


def test_the_quick_form_looks_once_at_the_plain_level(tmp_path: Path) -> None:
    run(tmp_path, noisy(at_full, 32), prepare=Noisy, quick=True)
    assert set(seeds_by_point(tmp_path).values()) == {2}
    assert study_seeds.level(1) == 0.95


def test_intervals_of_all_looks_hold_together_with_95_percent() -> None:
    assert study_seeds.level(study_seeds.LOOKS) == pytest.approx(1 - 0.05 / 4)
