"""The runner of studies, on a simulator that is a few lines of arithmetic."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from aqmlab import stats, study, sweep
from aqmlab.campaign import Store
from aqmlab.plot import Chart
from aqmlab.stats import Evidence
from aqmlab.study import Claim, Decision, Figure, Study, Table, Variant
from aqmlab.sweep import Results, Row, Runs, Sweep


@dataclasses.dataclass(frozen=True)
class FakeRun:
    tables: Mapping[str, pl.DataFrame]
    manifest: Mapping[str, Any]
    performance: Mapping[str, Any]


class FakeScenario:
    """Time is `slow` times the seed; counts how often it was run."""

    made = 0
    lock = threading.Lock()

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = dict(table)
        self.digest = json.dumps(self.table, sort_keys=True)

    def run(self, seed: int | None = None) -> FakeRun:
        with FakeScenario.lock:
            FakeScenario.made += 1
        if seed in self.table.get("breaks", []):
            raise RuntimeError(f"seed {seed} is unlucky")
        if seed == self.table.get("interrupts"):
            os.kill(os.getpid(), signal.SIGINT)
            # The main thread is to hear of it where it waits, not in some later clean-up that swallows it.
            time.sleep(0.2)
        table = pl.DataFrame({"time_s": [float(self.table["slow"] * (seed or 0))]})
        return FakeRun({"transfers": table}, {"scenario": self.table, "digest": self.digest}, {"cpu_s": 0.5})


@pytest.fixture(autouse=True)
def count() -> None:
    FakeScenario.made = 0


def reduce(run: sweep.Run) -> dict[str, Any]:
    return {"time_s": run.tables["transfers"]["time_s"].item()}


def scenario(*, queue: str, load: float) -> dict[str, Any]:
    return {"slow": {"RED": 2.0, "SHRED": 1.0}[queue] * load, "queue": queue}


def chart(results: Results) -> Chart:
    rows = [(row.labels["queue"], row.labels["load"], row.values["time_s"]) for row in results["main"].rows]
    table = pl.DataFrame(rows, schema=["queue", "load", "time_s"], orient="row")
    return Chart(
        kind="line", table=table, x="load", y="time_s", by="queue", x_label="load", y_label="time (s)"
    )


def faster(results: Results) -> Evidence:
    pairs = results["main"].pair("time_s", {"queue": "SHRED"}, {"queue": "RED"})
    return stats.judge("SHRED/RED", stats.paired_ratio(*pairs), stats.below(1))


def nonsense(results: Results) -> Any:
    raise ZeroDivisionError("nothing to divide by")


def counted(results: Results) -> pl.DataFrame:
    return pl.DataFrame({"runs": [len(results["main"].rows)]})


def slower(table: dict[str, Any]) -> dict[str, Any]:
    return table | ({"slow": 9.0} if table["queue"] == "SHRED" else {})


MAIN = Sweep(
    name="main",
    axes={"queue": ("RED", "SHRED"), "load": (0.5, 1.0)},
    scenario=scenario,
    reduce=reduce,
    seeds=4,
    quick_axes={"load": (1.0,)},
    quick_seeds=2,
)

STUDY = Study(
    name="small",
    title="A small study",
    paper="Nobody",
    question="Is one smaller than two?",
    sweeps=(MAIN,),
    figures=(
        Figure(id="1", title="Times", caption="They grow.", chart=chart),
        Figure(id="broken", title="None", caption="It cannot be drawn.", chart=nonsense),
    ),
    tables=(Table(id="runs", title="Runs", caption="How many.", table=counted),),
    claims=(
        Claim(id="C-1", statement="SHRED is faster.", rule="Ratio below 1.", judge=faster),
        Claim(id="C-2", statement="Anything.", rule="None.", judge=nonsense),
    ),
    decisions=(Decision(question="Which?", decision="This.", reason="Why not."),),
    answer=lambda evidence: [f"C-1 {evidence['C-1'].verdict}."],
)


def run(out: Path, chosen: Study = STUDY, **more: Any) -> study.StudyResult:
    return study.run(chosen, out, prepare=FakeScenario, **more)


def test_a_sweep_is_the_product_of_its_axes() -> None:
    assert MAIN.points() == [
        {"queue": "RED", "load": 0.5},
        {"queue": "RED", "load": 1.0},
        {"queue": "SHRED", "load": 0.5},
        {"queue": "SHRED", "load": 1.0},
    ]
    assert MAIN.points(quick=True) == [{"queue": "RED", "load": 1.0}, {"queue": "SHRED", "load": 1.0}]
    assert (MAIN.replications(), MAIN.replications(quick=True)) == (4, 2)


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


def test_the_quick_form_is_smaller_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, quick=True)
    assert FakeScenario.made == 4
    assert "quick form" in result.report.read_text()


@pytest.mark.parametrize("jobs", [1, 5])
def test_results_do_not_depend_on_the_number_of_threads(jobs: int, tmp_path: Path) -> None:
    run(tmp_path / "one", jobs=1)
    run(tmp_path / "other", jobs=jobs)
    for name in ("claims.json", "figures/figure-1.csv", "figures/figure-1.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


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


def test_runs_pair_by_seed_and_a_missing_partner_is_nan() -> None:
    measured = {
        ("a", 1, 1): 1.0,
        ("a", 2, 1): 3.0,
        ("a", 1, 2): 5.0,
        ("a", 2, 2): 7.0,
        ("b", 1, 1): 10.0,
        ("b", 2, 1): 20.0,
        ("b", 1, 2): 30.0,
    }
    rows = [
        Row(labels={"queue": queue, "load": load}, seed=seed, values={"m": value})
        for (queue, load, seed), value in measured.items()
    ]
    ours, theirs = Runs(rows=tuple(rows)).pair("m", {"queue": "a"}, {"queue": "b"})
    assert ours == [2.0, 6.0]
    assert theirs[0] == 15.0
    assert theirs[1] != theirs[1], "a seed with a failed run must not be averaged over fewer loads"


def test_an_unknown_study_is_answered_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="shred"):
        study.load("shed")
