"""The study `shred`: its scenarios are accepted, its reductions and claims say what they should."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from study_checks import check_drop_functions, check_every_scenario, check_variants, runs, together

from aqmlab import metrics, stats, study
from aqmlab.grid import Runs
from aqmlab.scenario import Scenario
from aqmlab.studies import shred, shred_figures, shred_runs

STUDY = shred.STUDY


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    axes = {sweep.name: sweep.axes for sweep in STUDY.sweeps}
    assert tuple(axes["web-mixed"]["web"]) == (0.4, 0.5, 0.6, 0.7, 0.8)
    assert tuple(axes["ftp-mixed"]["ftp"]) == (0, 5, 10, 20, 30, 40)
    assert tuple(axes["ftp-only"]["ftp"]) == tuple(range(10, 101, 10))
    assert tuple(axes["web-only-pages"]["objects"]) == (8, 16, 32)
    assert {sweep.seeds for sweep in STUDY.sweeps if sweep.name not in ("long", "lost-packet")} == {10}


def test_every_figure_table_and_claim_of_the_talk_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    assert {"3a", "3b", "4a", "4b", "5", "6", "7", "8", "table-1", "table-2"} <= figures
    assert [claim.id for claim in STUDY.claims] == [*(f"SH-{k}" for k in range(1, 12)), "AQM-1"]


def test_each_variant_changes_something_and_the_first_nothing() -> None:
    check_variants(STUDY)


def test_queues_meet_the_same_arrivals_and_the_reference_meets_them_too() -> None:
    found = {}
    for queue in shred_runs.WITH_REFERENCE:
        table = shred_runs.scenario(queue=queue, web=0.7, ftp=5, duration="25s")
        web = (
            Scenario.from_dict(table).run(seed=4).transfers.filter(pl.col("traffic").cast(pl.String) == "web")
        )
        found[queue] = web.sort("start_s").select("start_s", "size_bytes")
    first, *others = found.values()
    assert first.height > 1000
    for other in others:
        assert other["size_bytes"].equals(first["size_bytes"])
        assert (other["start_s"] - first["start_s"]).abs().max() < 1e-6  # type: ignore[operator]


@pytest.fixture(scope="module")
def web_run() -> dict[str, Any]:
    run = Scenario.from_dict(shred_runs.scenario(queue="RED", web=0.8, ftp=5, duration="60s")).run(seed=1)
    return {"run": run, "values": shred_runs.web_measures(run)}


def test_the_reduction_of_a_web_run_agrees_with_its_summary(web_run: dict[str, Any]) -> None:
    values, summary = web_run["values"], web_run["run"].summary
    web = summary["transfers"]["web"]
    assert (values["count"], values["unfinished"]) == (web["count"], web["unfinished"])
    assert values["mean_time_s"] == pytest.approx(web["mean_s"])
    assert values["p90_s"] == pytest.approx(web["p90_s"])
    assert values["mean_active"] == pytest.approx(web["mean_active"])
    assert values["response_s"] == pytest.approx(web["mean_s"]), "one object to a page"
    flows = summary["flows"]
    assert values["goodput_bps"] == pytest.approx(flows["web"]["goodput_bps"] + flows["ftp"]["goodput_bps"])
    assert values["utilisation"] == summary["links"]["bottleneck"]["utilisation"]
    assert sum(values["ended"]) + sum(values["censored"]) == web["count"]
    assert values["beyond_1s"] == pytest.approx(
        metrics.tail(metrics.completed_times(web_run["run"].transfers, 20.0), shred_runs.GRID)[
            shred_runs.GRID.tolist().index(1.0)
        ],
        abs=0.02,
    )


def test_the_reduction_of_an_ftp_run_measures_losses() -> None:
    values = shred_runs.ftp_measures(
        Scenario.from_dict(
            shred_runs.scenario(queue="RED", ftp=20, record={"drops": True, "queue_every": "20ms"})
        ).run(seed=1)
    )
    assert 5.0 < values["goodput_mbps"] < 9.59
    assert 1 / 20 <= values["synchronisation"] <= 1.0
    assert 1.0 <= values["drop_run"] <= values["longest_drop_run"]
    assert values["largest_burst"] > 1


def test_losing_the_syn_costs_the_initial_time_out_and_a_middle_packet_almost_nothing() -> None:
    time = {
        lost: shred_runs.lost_measures(Scenario.from_dict(shred_runs._lost(lost=lost)).run(seed=1))
        for lost in ("none", "SYN", "4", "10")
    }
    assert (time["none"]["dropped"], time["SYN"]["dropped"]) == (0, 1)
    assert time["SYN"]["time_s"] - time["none"]["time_s"] == pytest.approx(3.0, abs=0.3)
    assert time["10"]["timeouts"] == 1, "the last packet has no duplicate acknowledgements after it"
    assert time["4"]["time_s"] < time["10"]["time_s"]


GOOD = {
    "SHRED": {"p50_s": [0.30, 0.31, 0.30], "p90_s": [1.0, 1.1, 1.0], "mean_time_s": [0.5, 0.52, 0.5]},
    "RED": {"p50_s": [0.40, 0.41, 0.41], "p90_s": [2.0, 2.1, 2.0], "mean_time_s": [0.7, 0.72, 0.71]},
    "Drop Tail": {"p50_s": [0.60, 0.62, 0.61], "p90_s": [2.9, 3.0, 2.9], "mean_time_s": [0.9, 0.93, 0.91]},
}


def swapped(values: dict[str, Any], one: str, other: str) -> dict[str, Any]:
    return {{one: other, other: one}.get(queue, queue): measured for queue, measured in values.items()}


def test_sh_1_holds_when_shred_is_best_and_fails_when_red_is() -> None:
    assert shred.sh_1({"web-only": runs(GOOD, web=1.0)}).verdict == "holds"
    assert shred.sh_1({"web-only": runs(swapped(GOOD, "SHRED", "RED"), web=1.0)}).verdict == "fails"


def mixed(shares: dict[str, float], metric: str = "mean_time_s") -> Runs:
    parts = []
    for load in (0.4, 0.8):
        values = {
            queue: {metric: [share * (1 + load) * noise for noise in (1.0, 1.02, 0.99)]}
            for queue, share in shares.items()
        }
        parts.append(runs(values, web=load))
    return together(*parts)


@pytest.mark.parametrize(
    ("shred_time", "red_time", "verdict"),
    [
        (0.96 * 0.92, 0.92, "holds"),
        (0.75 * 0.67, 0.67, "fails"),
        (0.92, 0.92, "fails"),
        (0.96 * 0.80, 0.80, "fails"),
    ],
)
def test_sh_4_has_the_bands_of_the_sheet(shred_time: float, red_time: float, verdict: str) -> None:
    found = mixed({"SHRED": shred_time, "RED": red_time, "Drop Tail": 1.0, "uncongested": 0.3})
    assert shred.sh_4({"web-mixed": found}).verdict == verdict


def test_normalising_divides_by_the_uncongested_run_of_the_same_seed_and_load() -> None:
    found = shred_figures.normalised(mixed({"RED": 0.9, "uncongested": 0.3}), "mean_time_s")
    assert [row.values["normalised"] for row in found.rows] == pytest.approx([3.0] * 6)
    assert found.axis("queue") == ["RED"]


def advantage(axis: str, values: tuple[Any, ...], growth: float) -> Runs:
    parts = []
    for place, value in enumerate(values):
        red = [3.0 + growth * place + noise for noise in (0.0, 0.1, 0.05)]
        parts.append(
            runs(
                {"RED": {"drop_percent": red}, "SHRED": {"drop_percent": [1.0, 1.05, 1.02]}}, **{axis: value}
            )
        )
    return together(*parts)


@pytest.mark.parametrize(("growth", "verdict"), [(0.5, "holds"), (-0.5, "fails")])
def test_sh_5_asks_whether_the_advantage_grows(growth: float, verdict: str) -> None:
    results = {
        "web-mixed": advantage("web", (0.4, 0.6, 0.8), growth),
        "ftp-mixed": advantage("ftp", (0, 20, 40), growth),
    }
    assert shred.sh_5(results).verdict == verdict


def test_sh_8_needs_equality_and_the_answer_tells_better_from_worse() -> None:
    def judged(ratio: float) -> stats.Evidence:
        values = {
            "RED": {"goodput_mbps": [9.0, 9.1, 9.05], "jain": [0.99, 0.98, 0.99]},
            "SHRED": {"goodput_mbps": [9.0 * ratio, 9.1 * ratio, 9.05 * ratio], "jain": [0.99, 0.99, 0.99]},
        }
        return shred.sh_8({"ftp-only": runs(values, ftp=10)})

    assert [judged(ratio).verdict for ratio in (1.0, 1.05, 0.9)] == ["holds", "fails", "fails"]
    fine = stats.Evidence(verdict="holds", measured="")
    assert "but better" in shred._harm({"SH-8": judged(1.05), "SH-9": fine})
    assert "does not get" in shred._harm({"SH-8": judged(0.9), "SH-9": fine})
    assert "about as well" in shred._harm({"SH-8": judged(1.0), "SH-9": fine})


@pytest.mark.parametrize(("red", "verdict"), [(0.2, "holds"), (0.6, "fails")])
def test_aqm_1_compares_synchronisation_and_drop_runs(red: float, verdict: str) -> None:
    values = {
        "RED": {"synchronisation": [red, red + 0.01, red], "drop_run": [1.1, 1.12, 1.1]},
        "Drop Tail": {"synchronisation": [0.4, 0.42, 0.41], "drop_run": [1.5, 1.4, 1.6]},
    }
    assert shred.aqm_1({"ftp-only": runs(values, ftp=10)}).verdict == verdict


def test_the_drop_functions_are_those_of_the_sheet() -> None:
    table = shred_figures._drop_functions(up_to=90, most=0.2)({}).table
    check_drop_functions(
        table,
        ("RED", 60, 0.05),
        ("SHRED, r = 1", 60, 0.05),
        ("SHRED, r = 0.5", 60, 0.0),
        ("SHRED, r = 0.5", 75, 0.025),
        ("SHRED, r = 0.25", 89, 0.1 * 14 / 60),
        ("SHRED, r = 1.5", 30, 0.05),
        ("SHRED, r = 2", 30, 0.05),
    )


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    """Two sweeps of the study, cut to a few short runs, all the way to the page."""

    def short(sweep: Any) -> Any:
        make = sweep.scenario
        return dataclasses.replace(
            sweep, scenario=lambda **labels: make(**labels) | {"duration": "40s"}, seeds=2, quick_axes={}
        )

    chosen = dataclasses.replace(
        STUDY,
        sweeps=tuple(short(sweep) for sweep in STUDY.sweeps if sweep.name == "web-only"),
        figures=tuple(figure for figure in STUDY.figures if figure.id in ("3a", "3b")),
        tables=(),
        claims=tuple(claim for claim in STUDY.claims if claim.id == "SH-1"),
        answer=lambda evidence: [],
        checks=lambda results: [],
        sensitivity=(),
    )
    result = study.run(chosen, tmp_path)
    assert result.failures == ()
    assert [drawn.problem for drawn in result.drawn] == ["", ""]
    evidence = result.judged[0].evidence
    assert len(evidence.parts) == 6
    assert all(math.isfinite(part.value) for part in evidence.parts)
    numbers = pl.read_csv(tmp_path / "figures" / "figure-3a.csv")
    for _, curve in numbers.group_by("queue"):
        assert curve.sort("time_s")["fraction"].is_sorted()
    assert result.report.stat().st_size > 50_000
