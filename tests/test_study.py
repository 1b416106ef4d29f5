"""The runner of studies: figures, claims, verdicts and what it writes."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Cli
from small_study import MAIN, STUDY, TIME, FakeRun, FakeScenario, chart, found, run, slower

from aqmlab import studies
from aqmlab.campaign import live as live_runs
from aqmlab.measures import Reduction
from aqmlab.results.rule import digest, ratio
from aqmlab.scenario import Scenario
from aqmlab.store import Store
from aqmlab.study import Claim, Figure, Study, Table, stacked
from aqmlab.study import run as study
from aqmlab.study.experiment import Form
from aqmlab.study.publication import Decision, StudyResult, Variant


@pytest.fixture(autouse=True)
def count() -> None:
    FakeScenario.made = 0


def test_a_study_writes_its_report_claims_and_figures(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert FakeScenario.made == 16
    assert {path.name for path in tmp_path.iterdir()} == {
        "report.html",
        "claims.json",
        "values.parquet",
        "store",
        "figures",
    }
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"figure-1.svg", "figure-1.png", "figure-1.csv", "runs.csv"}
    assert result.verdicts == {"C-1": "holds", "C-2": "undecided"}


def test_a_study_without_figures_has_its_tables(tmp_path: Path) -> None:
    claims = tuple(dataclasses.replace(claim, figures=()) for claim in STUDY.claims)
    result = run(tmp_path, dataclasses.replace(STUDY, figures=(), claims=claims), quick=True)
    assert [type(table) for _, table in result.tables] == [pl.DataFrame]
    assert (tmp_path / "figures" / "runs.csv").exists()


def test_claims_are_told_with_verdict_measure_and_interval(tmp_path: Path) -> None:
    run(tmp_path, quick=True)
    written = json.loads((tmp_path / "claims.json").read_text())
    assert (written["study"], written["quick"]) == ("small", True)
    first, second = written["claims"]
    found = {"verdict": "holds", "value": 0.5, "interval": [0.5, 0.5]}
    measured = "time, ratio of SHRED to RED: 0.500 [0.500, 0.500], claimed below 1"
    assert first == {
        "id": "C-1",
        "claim": "C-1",
        "reading": "",
        "statement": "SHRED is faster.",
        "source": "page 1",
        "origin": "paper",
        "rule": "Web alone, averaged over load: time, ratio of SHRED to RED must be below 1",
        "digest": digest(STUDY.claims[0].rule.definition),
        **found,
        "one_is_enough": False,
        "parts": [
            {
                "what": "time, ratio of SHRED to RED",
                "context": "Web alone, averaged over load",
                "where": {},
                "claimed": "below 1",
                **found,
                "seeds": 2,
                "known_to": None,
                "measured": measured,
            }
        ],
    }
    assert second["verdict"] == "undecided"
    assert "nothing to divide by" in second["parts"][0]["measured"]
    assert second["interval"] is None


def test_a_claim_without_figures_is_shown_by_those_that_draw_its_measures_and_little_else() -> None:
    other = Reduction(prefix="small", of=found).measure("other_s", "another time", "s")
    main = dataclasses.replace(MAIN, measures=[TIME, other])
    claim = Claim("C-1", "SHRED is faster.", ratio(main[TIME], queue=("SHRED", "RED")) < 1)
    figures = (
        Figure("both", "Both", stacked("measure", [main[TIME], main[other]])),
        Figure("time", "Time", main[TIME]),
        Figure("by-hand", "Time, drawn by a function", chart),
    )
    small = Study.of("small", "Small", main, claim, *figures, Table("times", "Times", main[TIME]))
    assert small.figures_of(claim) == ("time", "times")
    assert small.figures_of(dataclasses.replace(claim, figures=("by-hand",))) == ("by-hand",)
    assert dataclasses.replace(small, figures=figures[:1], tables=()).figures_of(claim) == ("both",)
    assert dataclasses.replace(small, figures=figures[2:], tables=()).figures_of(claim) == ()


def test_a_claim_is_shown_by_the_figures_that_its_source_names() -> None:
    figures = [Figure(id, "Time", MAIN[TIME]) for id in ("1", "8a", "8b")]
    small = Study.of("small", "Small", MAIN, *figures)

    def shown(source: str) -> tuple[str, ...]:
        return small.figures_of(Claim("C-1", "", ratio(MAIN[TIME], queue=("SHRED", "RED")) < 1, source))

    assert shown("figures 8b and 8a; page 1") == ("8b", "8a")
    assert shown("slide 1, of figure 8a, in the middle") == ("8a",)
    assert shown("figure 9") == shown("slide 1") == ("1", "8a", "8b")


def test_the_quick_form_is_smaller_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, quick=True)
    assert FakeScenario.made == 4
    assert "quick form" in result.report.read_text()


def test_sensitivity_judges_again_and_leaves_the_main_verdicts_alone(tmp_path: Path) -> None:
    slow = Variant(name="slow SHRED", what="SHRED is slow.", change=slower)
    varied = dataclasses.replace(
        STUDY,
        experiments=(dataclasses.replace(MAIN, varied=Form()),),
        claims=STUDY.claims[:1],
        decisions=(Decision(question="Which?", decision="This.", reason="Why not.", variants=(slow,)),),
    )
    result = run(tmp_path, varied)
    assert [variant.name for variant, _ in result.sensitivity] == ["slow SHRED"]
    assert [verdicts.of("C-1").verdict for _, verdicts in result.sensitivity] == ["fails"]
    assert [one.evidence.count for _, verdicts in result.sensitivity for one in verdicts] == [4]
    assert result.verdicts["C-1"] == "holds"
    # RED is the same under both.
    assert FakeScenario.made == 16 + 8


def test_an_unknown_study_is_answered_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="shred"):
        studies.load("shed")


def test_a_file_may_hold_a_study(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from small_study import STUDY\n")
    assert studies.load(str(file)).name == "small"
    file.write_text("X = 1\n")
    with pytest.raises(ValueError, match=r"mine.py: must define STUDY"):
        studies.load(str(file))
    with pytest.raises(ValueError, match=r"none.py: no such file"):
        studies.load(str(tmp_path / "none.py"))


def test_a_study_without_a_live_form_is_answered_with_those_that_have_one(cli: Cli) -> None:
    with pytest.raises(KeyError, match="`shred` has no live form; available: helsinki"):
        studies.load("shred", live=True)
    result = cli("study", "run", "shred", "--live")
    assert result.returncode == 2
    assert "`shred` has no live form" in result.stderr


# Live runs


class FakeLive:
    """In place of live runs, all of which are valid but those whose number is `disturbed`."""

    def __init__(self, *disturbed: int) -> None:
        self.disturbed, self.made = disturbed, 0
        self.lock = threading.Lock()

    def run(self, scenario: Scenario, seed: int, **options: Any) -> FakeRun:
        assert options["nearest_tcp"]
        assert options["until_done"]
        with self.lock:
            self.made += 1
            valid = self.made not in self.disturbed
        found = {
            "valid": valid,
            "objections": [] if valid else ["the router stood still"],
            "ended_s": 2.0,
            "lateness": {"p99_us": 100.0, "max_us": 1000.0 + seed},
            "tcp_shortfalls": {"a": ["tcp.rto.tick: must be 4ms"], "b": ["tcp.rto.tick: must be 4ms"]},
        }
        table = pl.DataFrame({"time_s": [float(seed)]})
        manifest = {"scenario": scenario.effective, "digest": scenario.digest, "live": found}
        return FakeRun({"transfers": table}, manifest, {"cpu_s": 0.5})


def later(table: dict[str, Any], labels: Any, seed: int) -> dict[str, Any]:
    return table | {"duration": f"{seed}s"}


LIVE = dataclasses.replace(
    STUDY, experiments=(dataclasses.replace(MAIN, of_seed=later, live=True),), claims=STUDY.claims[:1]
)


def live_study(monkeypatch: pytest.MonkeyPatch, fake: FakeLive, out: Path) -> StudyResult:
    monkeypatch.setattr(live_runs.live, "run", fake.run)
    monkeypatch.setattr(live_runs, "need", lambda scenarios: None)
    return study.run(LIVE, out, jobs=1)


def test_a_live_study_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = FakeLive()
    result = live_study(monkeypatch, first, tmp_path)
    assert first.made == 16
    assert "aqmlab study run small --live" in result.report.read_text()
    (log,) = (tmp_path / "store" / "logs").iterdir()
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:10]))
    again = FakeLive()
    assert live_study(monkeypatch, again, tmp_path).verdicts == result.verdicts
    assert again.made == 6
    # A study that is complete needs no live run, and so no machine that can make one.
    monkeypatch.setattr(live_runs, "need", lambda scenarios: pytest.fail("nothing is to be run"))
    assert study.run(LIVE, tmp_path).provenance["live"]["runs"] == 16


def test_an_invalid_run_is_made_again_and_only_the_valid_one_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeLive(2, 5, 6)
    result = live_study(monkeypatch, fake, tmp_path)
    assert fake.made == 16 + 3
    assert result.failures == ()
    records = Store(tmp_path / "store", read_only=True).runs()
    assert sorted(len(json.loads(live)["repeated"]) for live in records["live"]) == 14 * [0] + [1, 2]
    found = result.provenance["live"]
    assert (found["runs"], found["repeated"]) == (16, 3)
    assert (found["late_p99_us"], found["late_max_us"]) == (100.0, 1004.0)
    assert found["shortfalls"] == ["tcp.rto.tick: must be 4ms"]
    page = result.report.read_text()
    assert "3 further runs were not valid and were repeated: the router stood still" in page
    assert "tcp.rto.tick: must be 4ms" in page


def test_a_run_that_is_never_valid_fails_and_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeLive(*range(1, live_runs.ATTEMPTS + 1))
    result = live_study(monkeypatch, fake, tmp_path)
    (failure,) = result.failures
    assert failure.problem.endswith(
        "all 4 live runs were invalid; the last run was invalid because: the router stood still"
    )
    statuses = Store(tmp_path / "store", read_only=True).runs()["status"]
    assert sorted(statuses) == 15 * ["done"] + ["failed"]
    again = FakeLive()
    assert live_study(monkeypatch, again, tmp_path).failures == ()
    assert again.made == 1


def test_a_live_run_is_not_taken_for_a_simulated_one() -> None:
    (live,) = LIVE.experiments
    both = (live, dataclasses.replace(live, live=False))
    tasks = [task for one in both for _, task in one.plan(one.sweep("quick")).tasks({})]
    assert len({task.run for task in tasks}) == 8
    assert len({task.scenario.digest for task in tasks}) == 8, "each seed has a scenario of its own"


def test_a_live_study_is_refused_where_live_runs_are_impossible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = {"namespaces": None, "tun": "there is no /dev/net/tun"}
    monkeypatch.setattr(live_runs.live, "privileges", lambda: refused)
    with pytest.raises(
        live_runs.live.NotLive, match=r"possible on this machine: tun: there is no /dev/net/tun"
    ):
        study.run(LIVE, tmp_path)
