"""The values of runs as a file, from which a study is judged again."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Cli
from small_study import MAIN, STUDY, TIME, FakeScenario, run, slower

from aqmlab.results.rule import every, mean_of, ratio, statistic
from aqmlab.stats import mean_interval
from aqmlab.study import points as study_points
from aqmlab.study import run as study
from aqmlab.study import values as study_values
from aqmlab.study.experiment import Form
from aqmlab.study.publication import Claim, Decision, Study, StudyResult, Variant


def total(values: Any, level: float) -> Any:
    """Told the lists of a measure along an axis, as a claim about a distribution is."""
    return mean_interval([sum(one) for one in values[0]], level)


VARIED = dataclasses.replace(
    STUDY,
    experiments=(dataclasses.replace(MAIN, varied=Form()),),
    claims=(
        STUDY.claims[0],
        Claim(
            id="C-3",
            statement="Each is faster, and all together take a second or so.",
            source="page 3",
            rule=every(
                ratio(MAIN[TIME], queue=("SHRED", "RED")) < 1,
                statistic("total", total, MAIN[TIME].at(queue="RED").along("load")) > 0.5,
            ),
        ),
    ),
    decisions=(
        Decision(
            question="Which?",
            decision="This.",
            reason="Why not.",
            variants=(Variant(name="slow SHRED", what="SHRED is slow.", change=slower),),
        ),
    ),
)


def found(result: StudyResult) -> Any:
    return (
        [(one.id, one.evidence) for one in result.judged],
        [
            (variant.name, [(one.id, one.evidence) for one in verdicts])
            for variant, verdicts in result.sensitivity
        ],
        result.level,
    )


def small(out: Path, chosen: Study = VARIED, **more: Any) -> StudyResult:
    FakeScenario.made = 0
    return run(out, chosen, **more)


@pytest.mark.parametrize("quick", [False, True])
def test_judging_again_gives_the_same_verdicts_with_the_same_numbers(tmp_path: Path, quick: bool) -> None:
    result = small(tmp_path, quick=quick)
    made = FakeScenario.made
    again = study.judge(VARIED, tmp_path / study_values.FILE)
    assert found(again) == found(result)
    assert again.quick == quick
    assert FakeScenario.made == made, "no run is made"
    assert again.warnings == ()


def test_a_row_names_run_scenario_and_version_of_the_measure(tmp_path: Path) -> None:
    small(tmp_path)
    path = tmp_path / study_values.FILE
    frame = pl.read_parquet(path)
    assert frame.schema == study_values.SCHEMA
    row = frame.filter(pl.col("point") == '["RED", 0.5]', pl.col("seed") == 3, pl.col("variant") == "")
    (only,) = row.iter_rows(named=True)
    assert (only["experiment"], only["measure"], only["value"]) == ("main", TIME.key, 3.0)
    (point,) = [one for one in MAIN.sweep("full").points() if one.labels == {"queue": "RED", "load": 0.5}]
    assert only["scenario"] == MAIN.sweep("full").scenario_of(point).digest
    about = study_values.metadata_of(path)
    assert about.keys() == {"study", "live", "quick", "level", "version", "results_version"}
    assert (about["study"], about["level"]) == ("small", "0.95")
    assert frame["variant"].unique().sort().to_list() == ["", "slow SHRED"]


def test_values_of_another_study_or_of_another_version_of_a_measure_are_refused(tmp_path: Path) -> None:
    small(tmp_path)
    path = tmp_path / study_values.FILE
    with pytest.raises(ValueError, match="contains values of the study small, not of other"):
        study.judge(dataclasses.replace(VARIED, name="other"), path)
    frame = pl.read_parquet(path).with_columns(measure=pl.lit("time_s@0"))
    frame.write_parquet(path, metadata=study_values.metadata_of(path))
    with pytest.raises(
        ValueError, match=f"does not contain measures that claims of small use: main: {TIME.key}"
    ):
        study.judge(VARIED, path)


def test_runs_of_other_scenarios_are_told(tmp_path: Path) -> None:
    small(tmp_path)
    scenario = {**MAIN.scenario, "duration": "11s"}
    other = dataclasses.replace(MAIN, scenario=scenario, varied=Form())
    longer = dataclasses.replace(VARIED, experiments=(other,))
    (warning,) = study.judge(longer, tmp_path / study_values.FILE).warnings
    assert warning == "4 points were run with scenarios that differ from the study's present scenarios"


def test_some_claims_are_judged_by_the_runs_that_they_need(tmp_path: Path) -> None:
    at_half = Claim(
        id="C-4",
        statement="",
        source="",
        rule=ratio(MAIN[TIME].at(load=0.5), queue=("SHRED", "RED")) < 1,
    )
    chosen = dataclasses.replace(VARIED, claims=(*VARIED.claims, at_half))
    result = small(tmp_path, chosen, claims=["C-4"])
    assert result.verdicts == {"C-4": "holds"}
    assert FakeScenario.made == 2 * MAIN.seeds
    assert len(result.drawn) == len(result.sensitivity) == 0
    with pytest.raises(KeyError, match="small has no claim `C-9`: did you mean C-4, C-3, C-1"):
        study_points.chosen(chosen, ["C-9"])


def test_a_claim_is_judged_under_variants_only_if_all_its_points_are_run_there() -> None:
    half = dataclasses.replace(MAIN, varied=Form(axes={"load": (1.0,)}))
    at_full = Claim(
        id="C-5",
        statement="",
        source="",
        rule=ratio(MAIN[TIME].at(load=1.0), queue=("SHRED", "RED")) < 1,
    )
    chosen = dataclasses.replace(VARIED, experiments=(half,), claims=(*VARIED.claims, at_full))
    ((claim, _, points),) = study_points.varied(chosen, quick=False)
    assert claim.id == "C-5"
    assert points == {("main", ("RED", 1.0)), ("main", ("SHRED", 1.0))}


def test_variants_may_leave_out_values_and_nothing_else() -> None:
    for form in (Form(seeds=2), Form(changes={"duration": "5s"})):
        with pytest.raises(
            ValueError, match="main: varied may select values of axes, but must not set seeds or changes"
        ):
            dataclasses.replace(MAIN, varied=form)


def test_the_command_judges_a_file_and_says_where_it_looked(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    tests = str(Path(__file__).parent)
    file.write_text(f"import sys\nsys.path.insert(0, {tests!r})\nfrom small_study import STUDY\n")
    run(tmp_path / "out")
    result = cli("study", "judge", file, "--values", tmp_path / "out/values.parquet")
    assert result.returncode == 0, result.stderr
    assert "C-1" in result.stdout
    assert "Judged from" in result.stdout
    missing = cli("study", "judge", "shred", "--values", tmp_path / "none.parquet")
    assert missing.returncode == 2
    assert "shred: no values were found in" in missing.stderr


def test_points_that_a_condition_leaves_out_are_no_parts_of_a_claim(tmp_path: Path) -> None:
    one = dataclasses.replace(MAIN, where="NOT (queue = 'SHRED' AND load = 0.5)")
    claim = Claim(id="C-1", statement="Each takes a second or so.", rule=mean_of(one[TIME]) > 0.0)
    some = dataclasses.replace(
        STUDY, experiments=(one,), claims=(claim,), figures=(), tables=(), decisions=(), variants=()
    )
    result = small(tmp_path, some)
    (judged,) = result.judged
    conditions = [part.where for part in judged.evidence.parts]
    assert {"queue": "RED", "load": 0.5} in conditions
    assert {"queue": "SHRED", "load": 0.5} not in conditions
    again = study.judge(some, tmp_path / study_values.FILE)
    assert found(again) == found(result)


def test_a_study_that_can_get_no_more_seeds_looks_once(tmp_path: Path) -> None:
    growing = dataclasses.replace(STUDY, experiments=(dataclasses.replace(MAIN, most_seeds=16),))
    assert small(tmp_path / "fixed", STUDY).level == 0.95
    assert small(tmp_path / "growing", growing).level == 0.9875
