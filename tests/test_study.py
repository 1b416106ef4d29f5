"""The runner of studies: figures, claims, verdicts and what it writes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from small_study import MAIN, STUDY, FakeScenario, run, slower

from aqmlab import study
from aqmlab.publication import Variant


@pytest.fixture(autouse=True)
def count() -> None:
    FakeScenario.made = 0


def test_a_study_writes_its_report_claims_and_figures(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert FakeScenario.made == 16
    assert {path.name for path in tmp_path.iterdir()} == {
        "report.html",
        "claims.json",
        "runs.jsonl",
        "figures",
    }
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"figure-1.svg", "figure-1.png", "figure-1.csv", "runs.csv"}
    assert result.verdicts == {"C-1": "holds", "C-2": "undecided"}


def test_claims_are_told_with_verdict_measure_and_interval(tmp_path: Path) -> None:
    run(tmp_path)
    first, second = json.loads((tmp_path / "claims.json").read_text())
    assert first == {
        "id": "C-1",
        "statement": "SHRED is faster.",
        "verdict": "holds",
        "measured": "SHRED/RED 0.500 [0.500, 0.500], claimed below 1",
        "interval": [0.5, 0.5],
    }
    assert second["verdict"] == "undecided"
    assert "nothing to divide by" in second["measured"]
    assert second["interval"] is None


def test_the_quick_form_is_smaller_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, quick=True)
    assert FakeScenario.made == 4
    assert "quick form" in result.report.read_text()


def test_sensitivity_judges_again_and_leaves_the_main_verdicts_alone(tmp_path: Path) -> None:
    varied = dataclasses.replace(
        STUDY,
        sensitivity=(
            Variant(name="as decided", what="Nothing else.", change=lambda table: table),
            Variant(name="slow SHRED", what="SHRED is slow.", change=slower),
        ),
        sensitivity_sweeps=(MAIN,),
        sensitivity_claims=("C-1",),
    )
    result = run(tmp_path, varied)
    assert [evidence["C-1"].verdict for _, evidence in result.sensitivity] == ["holds", "fails"]
    assert result.verdicts["C-1"] == "holds"
    # RED is the same under both; SHRED's changed scenario does not depend on the load.
    assert FakeScenario.made == 16 + 4


def test_an_unknown_study_is_answered_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="shred"):
        study.load("shed")
