"""The study `shred`: its scenarios are accepted, its measures and claims say what they should."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from study_checks import check_drop_functions, check_every_scenario, check_variants, cut, judged, runs

from aqmlab import metrics
from aqmlab.measures import Measure, View
from aqmlab.scenario import Scenario
from aqmlab.studies.shred import (
    STUDY,
    ftp_mixed,
    ftp_only,
    lost_packet,
    measures,
    mixed,
    normalised,
    web_mixed,
    web_only,
)
from aqmlab.studies.shred.network import QUEUES, UNCONGESTED, dumbbell, web
from aqmlab.study import run as study


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    by_name = {one.name: one for one in STUDY.experiments}
    assert by_name["web-mixed"].values("load") == (0.4, 0.5, 0.6, 0.7, 0.8)
    assert by_name["ftp-mixed"].values("flows") == (0, 5, 10, 20, 30, 40)
    assert by_name["ftp-only"].values("flows") == tuple(range(10, 101, 10))
    assert by_name["web-only-pages"].values("objects") == (8, 16, 32)
    assert {one.seeds for one in STUDY.experiments if one.name not in ("long", "lost-packet")} == {10}


def test_every_figure_and_table_of_the_talk_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    assert {"3a", "3b", "4a", "4b", "5", "6", "7", "8", "table-1", "table-2"} <= figures


def test_each_variant_changes_something() -> None:
    check_variants(STUDY)


def test_queues_meet_the_same_arrivals_and_the_uncongested_line_meets_them_too() -> None:
    found = {}
    sweep = dataclasses.replace(web_mixed.sweep("full"), where="load = 0.7")
    for point in sweep.points():
        run = sweep.scenario_of(point).with_({"duration": "25s"}).run(seed=4)
        objects = run.transfers.filter(pl.col("traffic").cast(pl.String) == "web")
        found[point.labels["queue"]] = objects.sort("start_s").select("start_s", "size_bytes")
    assert set(found) == {*QUEUES, UNCONGESTED}
    first, *others = found.values()
    assert first.height > 1000
    for other in others:
        assert other["size_bytes"].equals(first["size_bytes"])
        assert (other["start_s"] - first["start_s"]).abs().max() < 1e-6  # type: ignore[operator]


@pytest.fixture(scope="module")
def web_run() -> Any:
    ftp = {"kind": "ftp", "flows": 5, "stagger": "10s"}
    return Scenario.from_dict(dumbbell(web=web(0.8), ftp=ftp) | {"duration": "60s"}).run(seed=1)


def test_the_measures_of_a_web_run_agree_with_its_summary(web_run: Any) -> None:
    view, summary = View(web_run), web_run.summary
    values = {one: one.of(view) for one in measures.WEB if isinstance(one, Measure)}
    found = summary["transfers"]["web"]
    *_, per_second = measures.OFFERED
    assert values[per_second] * 40 == pytest.approx(found["count"])
    assert values[measures.MEAN_TIME] == pytest.approx(found["mean_s"])
    assert values[measures.P90] == pytest.approx(found["p90_s"])
    assert values[measures.MEAN_ACTIVE] == pytest.approx(found["mean_active"])
    assert values[measures.RESPONSE] == pytest.approx(found["mean_s"]), "one object to a page"
    goodput = sum(summary["flows"][name]["goodput_bps"] for name in ("web", "ftp"))
    assert values[measures.GOODPUT] == pytest.approx(goodput / 1e6)
    assert sum(values[measures.ENDED]) + sum(values[measures.CENSORED]) == found["count"]
    place = measures.GRID.tolist().index(1.0)
    beyond = metrics.tail(metrics.completed_times(web_run.transfers, 20.0), measures.GRID)[place]
    assert values[measures.BEYOND[0]] == pytest.approx(beyond, abs=0.02)


def test_the_measures_of_an_ftp_run_tell_of_losses() -> None:
    table = dumbbell(ftp={"kind": "ftp", "flows": 20, "stagger": "10s"}, drops=True, queue_every="20ms")
    run = Scenario.from_dict(table).run(seed=1)
    view = View(run)
    goodput = run.summary["flows"]["ftp"]["goodput_bps"]
    assert measures.FTP_ALONE.of(view) == pytest.approx(goodput / 1e6)
    drops = run.tables["drops"].filter(pl.col("time_s") >= 20.0).sort("time_s")
    events: list[tuple[float, set[int]]] = []
    for time_s, flow in drops.select("time_s", "flow").iter_rows():
        if not events or time_s - events[-1][0] >= 0.124:
            events.append((time_s, set()))
        events[-1][1].add(flow)
    shares = [len(hit) / 20 for _, hit in events]
    assert len(events) > 100
    assert measures.SYNCHRONISATION.of(view) == pytest.approx(sum(shares) / len(shares))
    runs = [0]
    for before, after in itertools.pairwise([-1, *drops["arrival"].sort()]):
        if after != before + 1:
            runs.append(0)
        runs[-1] += 1
    assert measures.DROP_RUN.of(view) == pytest.approx(drops.height / (len(runs) - (runs[0] == 0)))
    assert 1 < measures.LARGEST_BURST.of(view) <= 225


def test_losing_the_syn_costs_the_initial_time_out_and_a_middle_packet_almost_nothing() -> None:
    sweep = lost_packet.sweep("full")
    views = {
        point.labels["lost"]: View(sweep.scenario_of(point).run(seed=1))
        for point in sweep.points()
        if point.labels["lost"] in ("none", "SYN", "4", "10")
    }
    time_s = {lost: lost_packet["object.mean-time"].measure.of(view) for lost, view in views.items()}
    assert time_s["SYN"] - time_s["none"] == pytest.approx(3.0, abs=0.3)
    assert measures.LOST_TIMEOUTS.of(views["10"]) == 1, "the last packet has no duplicate ACKs after it"
    assert time_s["4"] < time_s["10"]


def test_normalising_divides_by_the_uncongested_run_of_the_same_seed_and_load() -> None:
    def time_s(labels: Any, seed: int) -> float:
        return float((0.3 if labels["queue"] == UNCONGESTED else 0.9) * labels["load"] * seed)

    found = {"web-mixed": runs(web_mixed, {measures.MEAN_TIME: time_s})}
    (ratio,) = normalised(mixed).values(found, {"queue": "RED", "load": 0.5}, [2])
    assert ratio == pytest.approx(3.0)


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
    times = {"SHRED": shred_time, "RED": red_time, "Drop Tail": 1.0, UNCONGESTED: 0.3}
    found = runs(web_mixed, {measures.MEAN_TIME: times})
    assert judged(STUDY.claims, "SH-4.2", (web_mixed, found)).verdict == verdict


@pytest.mark.parametrize(("growth", "verdict"), [(0.5, "holds"), (-0.5, "fails")])
def test_sh_5_asks_whether_the_advantage_grows(growth: float, verdict: str) -> None:
    def drops(label: str, step: float) -> Any:
        def percent(labels: Any, seed: int) -> float:
            red = 3.0 + growth * labels[label] / step + 0.05 * seed
            return float(red if labels["queue"] == "RED" else 1.0)

        return {measures.DROP_PERCENT: percent}

    found = (web_mixed, runs(web_mixed, drops("load", 0.1))), (ftp_mixed, runs(ftp_mixed, drops("flows", 10)))
    assert judged(STUDY.claims, "SH-5", *found).verdict == verdict


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, "holds"), (1.05, "holds"), (0.9, "fails")])
def test_sh_8_calls_more_goodput_no_harm(ratio: float, verdict: str) -> None:
    goodput = {"SHRED": 9.0 * ratio, "RED": 9.0, "Drop Tail": 9.0}
    found = runs(ftp_only, {measures.FTP_ALONE: goodput, measures.JAIN: 0.99})
    assert judged(STUDY.claims, "SH-8.2", (ftp_only, found)).verdict == verdict


def test_harm_at_a_single_number_of_flows_is_harm() -> None:
    def goodput(labels: Any, seed: int) -> float:
        return 8.0 if labels == {"flows": 100, "queue": "SHRED"} else 9.0 + 0.01 * seed

    found = runs(ftp_only, {measures.FTP_ALONE: goodput, measures.JAIN: 0.99})
    evidence = judged(STUDY.claims, "SH-8.2", (ftp_only, found))
    assert evidence.verdict == "fails"
    assert [part.where for part in evidence.parts if part.verdict == "fails"] == [{"flows": 100}]


def test_the_drop_functions_are_those_of_the_sheet() -> None:
    (figure,) = (figure for figure in STUDY.figures if figure.id == "drop-functions-near")
    check_drop_functions(
        figure.chart({}).table,
        ("RED", 60, 0.05),
        ("SHRED, r = 1", 60, 0.05),
        ("SHRED, r = 0.5", 60, 0.0),
        ("SHRED, r = 0.5", 75, 0.025),
        ("SHRED, r = 0.25", 89, 0.1 * 14 / 60),
        ("SHRED, r = 1.5", 30, 0.05),
        ("SHRED, r = 2", 30, 0.05),
    )


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    """An experiment of the study, cut to a few short runs, all the way to the page."""
    chosen = dataclasses.replace(
        STUDY,
        experiments=(cut(web_only, "40s"),),
        figures=tuple(figure for figure in STUDY.figures if figure.id in ("3a", "3b")),
        tables=(),
        claims=tuple(dataclasses.replace(one, figures=("3a",)) for one in STUDY.claims if one.id == "SH-1.2"),
        answer=lambda found: [],
        checks=lambda results: [],
        decisions=(),
    )
    result = study.run(chosen, tmp_path, quick=True)
    assert result.failures == ()
    assert [drawn.problem for drawn in result.drawn] == ["", ""]
    evidence = result.judged[0].evidence
    assert len(evidence.parts) == 6
    assert all(math.isfinite(part.value) for part in evidence.parts)
    numbers = pl.read_csv(tmp_path / "figures" / "figure-3a.csv")
    for _, curve in numbers.group_by("queue"):
        assert curve.sort("time_s")["value"].is_sorted()
    assert result.report.stat().st_size > 50_000
