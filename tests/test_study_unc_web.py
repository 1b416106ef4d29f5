"""The study `unc-web`: its scenarios are accepted, its reductions and claims say what they should."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from study_checks import check_every_scenario, check_result, check_variants, together

from aqmlab import calibrate, study
from aqmlab.grid import Row, Runs
from aqmlab.scenario import Scenario
from aqmlab.studies import unc_web, unc_web_figures, unc_web_runs
from aqmlab.studies.unc_web_runs import DROP_TAIL, FULL_LOAD, GRID, QUEUES, TUNED

STUDY = unc_web.STUDY
FEW = 1500
"""Requests of runs that are made here."""


def hurried(table: dict[str, Any]) -> dict[str, Any]:
    """A scenario cut to a few seconds."""
    return table | {"duration": "15s", "warm_up": "3s"}


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_each_variant_changes_something_and_the_first_nothing() -> None:
    check_variants(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    sweeps = {sweep.name: sweep for sweep in STUDY.sweeps}
    grid = sweeps["web"]
    assert len(grid.points()) == 5 * 2 * 9
    assert (grid.seeds, grid.axes["pairs"]) == (5, (250_000,))
    table = grid.scenario(queue="ARED+ECN", tcp="SACK", load=80, pairs=250_000)
    rate = table["traffic"]["forward"]["connections_per_second"]
    assert rate == pytest.approx(0.8 * FULL_LOAD["as decided"])
    assert float(table["duration"][:-1]) == pytest.approx(120 + 250_000 / rate, abs=1)
    assert (table["tcp"]["recovery"]["kind"], table["tcp"]["ecn"]["mode"]) == ("sack", "on")
    assert grid.scenario(queue="ARED", tcp="Reno", load=80, pairs=1)["tcp"]["ecn"]["mode"] == "off"


def test_every_figure_and_claim_of_the_talk_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    pairings = {f"{letter}-{unit}" for letter in "cde" for unit in ("packets", "bytes")}
    assert {"a", "b", "b-tail"} | pairings | {f"{one}-tail" for one in pairings} <= figures
    ids = [claim.id for claim in STUDY.claims]
    assert {f"W{k}" for k in range(1, 11)} <= set(ids)
    assert {f"W{k}b" for k in (1, 5, 6, 7, 8, 9, 10)} == {id for id in ids if id.endswith("b")}
    assert set(STUDY.sensitivity_claims) <= set(ids)


def test_the_calibration_is_the_one_of_the_command() -> None:
    table = unc_web_runs.scenario(queue=DROP_TAIL, tcp="Reno", load=100, pairs=FEW)
    theirs = calibrate._uncongested(Scenario.from_dict(table), ("forward", "reverse"))
    ours = unc_web_runs._calibration(traffic="as decided", rate=FULL_LOAD["as decided"], pairs=FEW)
    assert Scenario.from_dict(ours).digest == theirs.digest


@pytest.mark.parametrize("name", ["ARED", "ARED, bytes", "ARED 60 ms"])
def test_the_thresholds_that_are_told_are_those_that_hold(name: str) -> None:
    told = {row[0]: row for row in unc_web_figures._parameters({}).rows()}[name]
    automatic = hurried(unc_web_runs.scenario(queue="ARED", tcp="Reno", load=100, pairs=FEW))
    table = unc_web_runs.DISCIPLINES[name]
    automatic["links"]["forward"]["queue"] = table
    if name != "ARED":  # Thresholds of packets that are not whole cannot be written into a scenario.
        low, high = (end.replace(" packets", "p").replace(" ", "") for end in told[2:4])
        automatic["links"]["reverse"]["queue"] = table
        changes = {"links.forward.queue": {**table, "min_th": low, "max_th": high}}
        by_hand = Scenario.from_dict(automatic).with_(changes)
        first, second = (one.run(seed=1).tables["drops"] for one in (Scenario.from_dict(automatic), by_hand))
        assert first.height > 10
        assert first.equals(second)
    else:
        assert told[2:4] == ("6.25 packets", "18.75 packets")


def test_queues_meet_the_same_requests() -> None:
    found = []
    for name in QUEUES:
        table = hurried(unc_web_runs.scenario(queue=name, tcp="Reno", load=60, pairs=FEW))
        transfers = Scenario.from_dict(table).run(seed=2).transfers
        found.append(transfers.sort("start_s", "traffic").select("start_s", "size_bytes"))
    first, *others = found
    assert first.height > 1000
    for other in others:
        assert other.equals(first)


@pytest.fixture(scope="module")
def web_run() -> dict[str, Any]:
    table = unc_web_runs.scenario(queue="ARED+ECN", tcp="SACK", load=95, pairs=4 * FEW)
    run = Scenario.from_dict(table | {"warm_up": "60s"}).run(seed=1)
    return {"run": run, "values": unc_web_runs.web_measures(run)}


def test_the_reduction_agrees_with_the_summary_of_the_run(web_run: dict[str, Any]) -> None:
    values, summary = web_run["values"], web_run["run"].summary
    for prefix, way in (("", "forward"), ("reverse_", "reverse")):
        web, line = summary["transfers"][way], summary["links"][way]
        assert (values[f"{prefix}count"], values[f"{prefix}unfinished"]) == (web["count"], web["unfinished"])
        assert values[f"{prefix}mean_s"] == pytest.approx(web["mean_s"])
        assert values[f"{prefix}utilisation"] == pytest.approx(line["utilisation"])
        assert values[f"{prefix}mean_queue"] == pytest.approx(line["mean_queue_packets"])
        assert sum(values[f"{prefix}class_count"]) == web["count"] - web["unfinished"]
    assert 0.8 < values["few_segments_share"] < 0.9
    assert 0.3 < values["small_drops"] < 1


def test_the_distribution_is_where_the_quantiles_are(web_run: dict[str, Any]) -> None:
    values = web_run["values"]
    unfinished = values["unfinished"] / values["count"]
    assert unfinished < 0.02
    for metric, share in (("median_s", 0.5), ("p95_s", 0.95)):
        # Quantiles leave out what is not finished, distributions do not.
        found = float(np.interp(values[metric], GRID, values["cdf"]))
        assert (1 - unfinished) * share - 0.002 <= found <= share + 0.002


def test_requests_not_finished_count_as_slow_ones() -> None:
    transfers = pl.DataFrame(
        {"start_s": [0.0] * 4, "duration_s": [0.5, 0.5, 0.5, None], "complete": [True] * 3 + [False]}
    )
    shares = unc_web_runs.distribution(transfers, end_s=10.0)
    assert shares[int(np.searchsorted(GRID, 1.0))] == pytest.approx(0.75)
    assert shares[-1] == pytest.approx(0.75)


# Claims on numbers made by hand


def exponential(mean_s: float, tail: float = 0.0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The distribution of times that are exponential, but for a share that takes a hundred times as long."""
    return 1 - (1 - tail) * np.exp(-GRID / mean_s) - tail * np.exp(-GRID / (100 * mean_s))


def web(curves: dict[tuple[str, str], Any], loads: tuple[int, ...] = (80, 105), **values: Any) -> Runs:
    """Four seeds whose distributions differ a little, the same way for all."""
    rows = []
    for load in loads:
        for (name, tcp), curve in curves.items():
            for seed in (1, 2, 3, 4):
                cdf = np.clip(curve + 0.0002 * seed * np.sin(GRID), 0, 1)
                labels = {"queue": name, "tcp": tcp, "load": load, "pairs": FEW}
                given = {key: one * (1 + seed / 1000) for key, one in values.items()}
                rows.append(Row(labels=labels, seed=seed, values={"cdf": cdf.tolist(), **given}))
    return Runs(rows=tuple(rows))


def reno(**curves: Any) -> dict[tuple[str, str], Any]:
    names = {"tail": DROP_TAIL, "ared": "ARED", "ecn": "ARED+ECN"}
    return {(names[key], "Reno"): curve for key, curve in curves.items()}


DROPPING = exponential(0.3)
QUICK_AND_SLOW = exponential(0.15, 0.05)
QUICK_AND_LESS_SLOW = exponential(0.15, 0.03)


@pytest.mark.parametrize(
    ("ared", "verdict"),
    [(QUICK_AND_SLOW, "holds"), (exponential(0.15), "fails"), (exponential(0.6), "fails")],
)
def test_w5_asks_for_a_lead_on_either_side(ared: Any, verdict: str) -> None:
    assert unc_web.w_5("packets")({"web": web(reno(tail=DROPPING, ared=ared))}).verdict == verdict


def test_w8_asks_for_a_later_crossing() -> None:
    for ecn, verdict in ((QUICK_AND_LESS_SLOW, "holds"), (exponential(0.15, 0.08), "fails")):
        found = unc_web.w_8("packets")({"web": web(reno(tail=DROPPING, ared=QUICK_AND_SLOW, ecn=ecn))})
        assert found.verdict == verdict, found.measured


def test_crossings_are_found_where_they_are() -> None:
    """Two exponentials, one of them with a tail: the zero of their difference, found by bisection."""
    runs = web(reno(tail=DROPPING, ared=QUICK_AND_SLOW))
    ours, theirs = unc_web_figures.queue("ARED"), unc_web_figures.queue(DROP_TAIL)
    pair = unc_web_figures.pairing(runs, 80, ours, theirs)
    low, high = 0.1, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        ahead = 0.95 * math.exp(-middle / 0.15) + 0.05 * math.exp(-middle / 15) < math.exp(-middle / 0.3)
        low, high = (middle, high) if ahead else (low, middle)
    (only,) = pair.crossings
    assert only.at_s == pytest.approx(low, rel=0.01)
    assert only.first_is_quicker_before
    assert pair.crossing_times == pytest.approx([low] * 4, rel=0.01)


@pytest.mark.parametrize(
    ("ecn", "verdict"),
    [(exponential(0.25), "holds"), (exponential(0.299), "fails"), (exponential(0.2, 0.05), "fails")],
)
def test_w6_asks_for_a_lead_and_no_lag(ecn: Any, verdict: str) -> None:
    assert unc_web.w_6("packets")({"web": web(reno(ared=DROPPING, ecn=ecn))}).verdict == verdict


@pytest.mark.parametrize(("other", "verdict"), [(0.31, "holds"), (0.5, "fails")])
def test_w1_compares_all_six(other: float, verdict: str) -> None:
    six = {(name, tcp): DROPPING for name in (DROP_TAIL, "ARED", "ARED+ECN") for tcp in ("Reno", "SACK")}
    found = web(six | {("ARED+ECN", "SACK"): exponential(other)}, loads=(50, 60, 80))
    evidence = unc_web.w_1("packets")({"web": found})
    assert (evidence.verdict, len(evidence.parts)) == (verdict, 2)


@pytest.mark.parametrize(("sack", "verdict"), [(0.3, "holds"), (0.36, "fails")])
def test_w2_compares_distances_and_medians(sack: float, verdict: str) -> None:
    runs = together(
        web(reno(tail=DROPPING), median_s=0.3),
        web({(DROP_TAIL, "SACK"): exponential(sack)}, median_s=sack),
    )
    assert unc_web.w_2({"web": runs}).verdict == verdict


def test_what_are_ratios_is_judged_by_ratios() -> None:
    def runs(metric: str, values: dict[tuple[str, str], float], load: int) -> Runs:
        return together(
            *(web({key: DROPPING}, loads=(load,), **{metric: value}) for key, value in values.items())
        )

    large = {(DROP_TAIL, "SACK"): 0.8, (DROP_TAIL, "Reno"): 1.0}
    assert unc_web.w_4({"web": runs("large_median_s", large, 95)}).verdict == "holds"
    again = {("ARED+ECN, bytes", "Reno"): 0.9, ("ARED, bytes", "Reno"): 1.0}
    assert unc_web.w_7("bytes")({"web": runs("retransmitted", again, 90)}).verdict == "fails"
    order = {("ARED", "Reno"): 10.0, (DROP_TAIL, "Reno"): 50.0}
    for between, verdict in ((40.0, "holds"), (60.0, "fails")):
        tuned = runs("mean_queue", {("ARED 60 ms", "Reno"): between}, 95)
        results = {"web": runs("mean_queue", order, 95), "tuning": tuned}
        assert unc_web.w_10("packets")(results).verdict == verdict


@pytest.mark.parametrize(("tuned", "verdict"), [(1.3, "holds"), (0.9, "fails")])
def test_w9_asks_for_one_change_of_sign(tuned: float, verdict: str) -> None:
    def runs(**times: float) -> Runs:
        names = {"ecn": "ARED+ECN", "tail": DROP_TAIL, "tuned": "ARED+ECN 60 ms"}
        return together(
            *(
                web({(names[key], "Reno"): DROPPING}, loads=(95, 105), median_s=time, p95_s=time)
                for key, time in times.items()
            )
        )

    results = {"web": runs(ecn=0.8, tail=1.0), "tuning": runs(tuned=tuned)}
    assert unc_web.w_9("packets")(results).verdict == verdict


def test_a_calibration_that_moved_is_told() -> None:
    def calibration(full: float) -> Runs:
        rows = [
            Row(
                labels={"traffic": traffic, "rate": rate, "pairs": FEW},
                seed=seed,
                values={"load": rate / (full * FULL_LOAD[traffic]) * (1 + (seed - 2) / 100)},
            )
            for traffic in FULL_LOAD
            for rate in (60, 120)
            for seed in (1, 2, 3)
        ]
        return Runs(rows=tuple(rows))

    settled = web(reno(tail=DROPPING))
    for row in settled.rows:
        row.values["active"] = [3.0, 4.0] * 200
    assert unc_web._checks({"calibration": calibration(1.0), "web": settled}) == []
    said = unc_web._checks({"calibration": calibration(1.2), "web": settled})
    assert [one.split(":")[0] for one in said] == [f"Calibration, {traffic}" for traffic in FULL_LOAD]


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    def short(sweep: Any) -> Any:
        axes = dict(sweep.axes) | {"pairs": (FEW,)}
        if sweep.name == "calibration":
            axes |= {"rate": (100, 140)}
        else:
            axes |= {"load": (105,)}
            axes["queue"] = QUEUES[:3] if sweep.name == "web" else TUNED[:2]
        made = sweep.scenario
        scenario = lambda **labels: hurried(made(**labels))  # noqa: E731
        return dataclasses.replace(sweep, axes=axes, seeds=2, quick_axes={}, scenario=scenario)

    figures = {"a", "b", "c-packets-tail", "difference-packets", "all-loads-packets-sack"}
    tables = {"calibration", "realised", "parameters", "median", "small-drops"}
    chosen = dataclasses.replace(
        STUDY,
        sweeps=tuple(short(sweep) for sweep in STUDY.sweeps),
        figures=tuple(figure for figure in STUDY.figures if figure.id in figures),
        tables=tuple(table for table in STUDY.tables if table.id in tables),
        claims=tuple(claim for claim in STUDY.claims if claim.id in ("W2", "W3", "W5", "W6", "W9", "W10")),
        answer=lambda evidence: [],
        sensitivity=(),
    )
    result = study.run(chosen, tmp_path)
    check_result(result, figures=len(figures))
