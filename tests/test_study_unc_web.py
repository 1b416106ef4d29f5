"""The study `unc-web`: its scenarios are accepted, its measures and claims say what they should."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from study_checks import check_every_scenario, check_result, check_variants, judged, runs

from aqmlab.comparison import calibrate
from aqmlab.measures import Measure, View
from aqmlab.results.labels import Labels
from aqmlab.results.table import Results
from aqmlab.scenario import Scenario
from aqmlab.studies.unc_web import STUDY, calibration, floors, measures
from aqmlab.studies.unc_web.distributions import (
    certain_crossings,
    crossing_times,
    differences,
    lags,
    later,
    leads,
)
from aqmlab.studies.unc_web.measures import GRID
from aqmlab.studies.unc_web.network import (
    FULL_LOAD,
    FULL_RATE,
    LOADS,
    PAIRS,
    adaptive_red,
    drop_tail,
    drop_tails,
    lasting,
    six_areds,
    tuning,
    two_areds,
)
from aqmlab.study import run as study
from aqmlab.study.experiment import Experiment, Form

FEW = 1500
"""Requests of runs that are made here."""


def scenario(experiment: Experiment, pairs: int = FEW, **labels: Any) -> Scenario:
    """The scenario of a point for so many requests."""
    sweep = experiment.sweep("full")
    sweep = dataclasses.replace(sweep, scenario=sweep.scenario.with_({"duration": lasting(pairs)}))
    (point,) = (point for point in sweep.points() if point.labels == labels)
    return sweep.scenario_of(point)


def hurried(made: Scenario) -> Scenario:
    """The same cut to a few seconds."""
    return made.with_({"duration": "15s", "warm_up": "3s"})


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_each_variant_changes_something() -> None:
    check_variants(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    assert LOADS == (50, 60, 70, 80, 85, 90, 95, 100, 105)
    assert len(drop_tail.sweep("full")) + len(adaptive_red.sweep("full")) == 5 * 2 * 9
    labels = {"unit": "packets", "tcp": "SACK", "load": 80}
    table = scenario(adaptive_red, PAIRS, queue="ARED+ECN", **labels).given
    rate = table["traffic"]["forward"]["connections_per_second"]
    assert rate == pytest.approx(0.8 * FULL_RATE)
    assert float(table["duration"][:-1]) == pytest.approx(120 + 125_000 / rate, abs=1)
    assert (table["tcp"]["recovery"]["kind"], table["tcp"]["ecn"]["mode"]) == ("sack", "on")
    assert scenario(adaptive_red, queue="ARED", **labels).given["tcp"]["ecn"]["mode"] == "off"


def test_every_figure_of_the_talk_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    pairings = {f"{letter}-{unit}" for letter in "cde" for unit in ("packets", "bytes")}
    assert {"a", "b", "b-tail"} | pairings | {f"{one}-tail" for one in pairings} <= figures


def test_the_calibration_is_the_one_of_the_command() -> None:
    table = scenario(drop_tail, tcp="Reno", load=100)
    theirs = calibrate._uncongested(table, ("forward", "reverse"))
    ours = scenario(calibration, traffic="as decided", rate=100)
    changes = {f"traffic.{way}.connections_per_second": 100 for way in measures.WAYS}
    same = theirs.with_({**changes, "duration": ours.given["duration"]})
    assert ours.digest == same.digest


@pytest.mark.parametrize(
    ("experiment", "queue", "unit"),
    [
        (adaptive_red, "ARED", "packets"),
        (adaptive_red, "ARED", "bytes"),
        (tuning, "ARED 60 ms", "packets"),
    ],
)
def test_the_thresholds_that_are_told_are_those_that_hold(
    experiment: Experiment, queue: str, unit: str
) -> None:
    (table,) = (one for one in STUDY.tables if one.id == "parameters")
    (told,) = (row[3:5] for row in table.table({}).rows() if row[:2] == (queue, unit))
    automatic = hurried(scenario(experiment, queue=queue, unit=unit, tcp="Reno", load=100))
    if any("." in end for end in told):
        # Thresholds of packets that are not whole cannot be written into a scenario.
        assert told == ("6.25 packets", "18.75 packets")
        return
    low, high = (end.replace(" packets", "p").replace(" ", "") for end in told)
    chosen = dict(automatic.given["links"]["forward"]["queue"])
    # The delay that thresholds follow from has no effect beside thresholds, and is refused there.
    chosen.pop("target_delay", None)
    by_hand = automatic.with_({"links.forward.queue": {**chosen, "min_th": low, "max_th": high}})
    first, second = (one.run(seed=1).tables["drops"] for one in (automatic, by_hand))
    assert first.height > 10
    assert first.equals(second)


def test_queues_meet_the_same_requests() -> None:
    wanted = [scenario(drop_tail, tcp="Reno", load=60)]
    wanted += [
        scenario(adaptive_red, queue=queue, unit=unit, tcp="Reno", load=60)
        for queue in ("ARED", "ARED+ECN")
        for unit in ("packets", "bytes")
    ]
    found = [
        hurried(one).run(seed=2).transfers.sort("start_s", "traffic").select("start_s", "size_bytes")
        for one in wanted
    ]
    assert found[0].height > 1000
    assert all(other.equals(found[0]) for other in found[1:])


# Measures


@pytest.fixture(scope="module")
def web_run() -> Any:
    labels = {"queue": "ARED+ECN", "unit": "packets", "tcp": "SACK", "load": 95}
    return scenario(adaptive_red, 4 * FEW, **labels).with_({"warm_up": "60s"}).run(seed=1)


def test_the_measures_agree_with_the_summary_of_the_run(web_run: Any) -> None:
    view, summary = View(web_run), web_run.summary
    values = {one: one.of(view) for one in measures.WEB if isinstance(one, Measure)}
    web, line = summary["transfers"]["forward"], summary["links"]["forward"]
    assert values[measures.COUNT] == web["count"]
    assert values[measures.MEDIAN] == pytest.approx(web["p50_s"])
    assert values[measures.QUEUE] == pytest.approx(line["mean_queue_packets"])
    assert values[measures.DROPPED] == pytest.approx(line["drop_fraction"])
    other_way = summary["links"]["reverse"]
    assert values[measures.DROPPED_REVERSE] == pytest.approx(other_way["drop_fraction"])
    assert 0.8 < values[measures.FEW] < 0.9
    assert values[measures.CLASS_MEDIANS] == sorted(values[measures.CLASS_MEDIANS])


def test_small_drops_are_those_that_hold_no_payload(web_run: Any) -> None:
    drops = web_run.tables["drops"].filter((pl.col("link") == "forward") & (pl.col("time_s") >= 60))
    share = float((drops["size_bytes"] < 100).mean())
    assert measures.SMALL_DROPS.of(View(web_run)) == pytest.approx(share)
    assert 0.3 < share < 1


def test_the_distribution_is_where_the_quantiles_are(web_run: Any) -> None:
    view = View(web_run)
    unfinished = drop_tail[measures.UNFINISHED].measure.of(view) / measures.COUNT.of(view)
    assert unfinished < 0.02
    for measure, share in ((measures.MEDIAN, 0.5), (measures.P95, 0.95)):
        # Quantiles leave out what is not finished, distributions do not.
        found = float(np.interp(measure.of(view), GRID, measures.CDF.of(view)))
        assert (1 - unfinished) * share - 0.002 <= found <= share + 0.002


def test_requests_not_finished_count_as_slow_ones() -> None:
    transfers = pl.DataFrame(
        {"start_s": [0.0] * 4, "duration_s": [0.5, 0.5, 0.5, None], "complete": [True] * 3 + [False]}
    )
    shares = measures.distribution(transfers, end_s=10.0)
    assert shares[int(np.searchsorted(GRID, 1.0))] == pytest.approx(0.75)
    assert shares[-1] == pytest.approx(0.75)


# Claims on numbers made by hand

Curve = npt.NDArray[np.float64]


def exponential(mean_s: float, tail: float = 0.0) -> Curve:
    """The distribution of times that are exponential, but for a share that takes a hundred times as long."""
    return 1 - (1 - tail) * np.exp(-GRID / mean_s) - tail * np.exp(-GRID / (100 * mean_s))


def made(experiment: Experiment, curve: Callable[[Labels], Curve]) -> tuple[Experiment, Results]:
    """Four seeds whose distributions differ a little, the same way for all."""

    def cdf(labels: Labels, seed: int) -> list[float]:
        found: list[float] = np.clip(curve(labels) + 0.0002 * seed * np.sin(GRID), 0, 1).tolist()
        return found

    return experiment, runs(experiment, {measures.CDF: cdf}, seeds=4)


def verdict(id: str, *, tail: Curve, ared: Curve, ecn: Curve) -> str:
    """The verdict for the reading in packets, all TCPs alike."""
    found = (
        made(drop_tail, lambda _: tail),
        made(adaptive_red, lambda labels: ecn if labels["queue"] == "ARED+ECN" else ared),
    )
    return judged(STUDY.claims, id, *found, unit="packets").verdict


DROPPING = exponential(0.3)
QUICK_AND_SLOW = exponential(0.15, 0.05)
QUICK_AND_LESS_SLOW = exponential(0.15, 0.03)


@pytest.mark.parametrize(
    ("ared", "expected"),
    [(QUICK_AND_SLOW, "holds"), (exponential(0.15), "fails"), (exponential(0.6), "fails")],
)
def test_w5_asks_for_a_lead_on_either_side(ared: Curve, expected: str) -> None:
    assert verdict("W5.2", tail=DROPPING, ared=ared, ecn=ared) == expected


@pytest.mark.parametrize(
    ("ecn", "expected"), [(QUICK_AND_LESS_SLOW, "holds"), (exponential(0.15, 0.08), "fails")]
)
def test_w11_asks_for_a_later_crossing_and_w8_for_none(ecn: Curve, expected: str) -> None:
    assert verdict("W11", tail=DROPPING, ared=QUICK_AND_SLOW, ecn=ecn) == expected
    assert verdict("W8.2", tail=DROPPING, ared=QUICK_AND_SLOW, ecn=ecn) == "holds"


@pytest.mark.parametrize(
    ("ecn", "expected"),
    [
        (exponential(0.25), "holds"),
        (exponential(0.25, 0.002), "holds"),
        (exponential(0.25, 0.02), "fails"),
        (exponential(0.299), "fails"),
        (exponential(0.2, 0.05), "fails"),
    ],
)
def test_w6_asks_for_a_lead_and_no_lag_that_counts(ecn: Curve, expected: str) -> None:
    assert verdict("W6.4", tail=DROPPING, ared=DROPPING, ecn=ecn) == expected


def test_equal_systems_have_a_largest_distance_and_lag_and_no_lead() -> None:
    """Steps of chance in each seed: the largest of them is above zero, the one that others choose is not."""
    rng = np.random.default_rng(1)
    lead, lag, largest = [], [], []
    for _ in range(100):
        noise = rng.normal(0.0, 0.02, size=(5, 2, 20)).repeat(10, axis=2)
        both = [list(noise[:, 0]), list(noise[:, 1])]
        lead.append(leads(both, 0.95).value)
        lag.append(lags(both, 0.95))
        largest.append(float(np.abs(noise[:, 0] - noise[:, 1]).max(axis=1).mean()))
    assert abs(np.mean(lead)) < 3 * np.std(lead) / 10
    assert np.mean([one.value for one in lag]) > 0.01
    assert np.mean([one.low <= 0 for one in lag]) >= 0.95
    assert np.mean(largest) > 0.05


def test_later_takes_the_seeds_that_all_three_systems_have() -> None:
    rng = np.random.default_rng(3)
    base = [exponential(0.3) + rng.normal(0.0, 1e-3) for _ in range(6)]
    ecn, red = (
        [one + height * np.sin(6 * np.linspace(0, 1, one.size)) for one in base] for height in (0.1, 0.2)
    )
    all_of_them = later((ecn[:4], red[:4], base[:4]), 0.95)
    assert all_of_them.count == 4
    with_gaps = later((ecn, [*red[:4], None, None], [*base[:5], None]), 0.95)
    assert with_gaps == all_of_them


def test_a_claim_below_what_equal_systems_show_is_told() -> None:
    def cdf(labels: Labels, seed: int) -> list[float]:
        shift = 0.06 * (seed % 3 - 1) * labels["draws"] if labels.get("load") == 70 else 0.0
        return [float(share) for share in np.clip(exponential(0.3) + shift, 0, 1)]

    found = {one.name: runs(one, {measures.CDF: cdf}) for one in (drop_tails, six_areds, two_areds)}
    found |= {one.name: made(one, lambda _: DROPPING)[1] for one in (drop_tail, adaptive_red)}
    apart = {(one.claim, one.where["load"]): one.equal.value for one in floors(found)}
    assert apart.keys() >= {("W1", 50), ("W1", 70), ("W2", 80), ("W2", 105), ("W6.4", 80)}
    assert apart["W1", 50] == 0
    assert apart["W1", 70] == pytest.approx(0.2, abs=0.05)
    (table,) = (one.table(found) for one in STUDY.tables if one.id == "floor")
    assert table.filter(pl.col("claim") == "W2")[
        "equal systems compared with the claim"
    ].unique().to_list() == ["within the claim"]


@pytest.mark.parametrize(("other", "expected"), [(0.31, "holds"), (0.5, "fails")])
def test_w1_compares_all_six_at_each_load_below_80(other: float, expected: str) -> None:
    def curve(labels: Labels) -> Curve:
        return exponential(other if labels["tcp"] == "SACK" and labels["load"] == 70 else 0.3)

    found = made(drop_tail, lambda _: DROPPING), made(adaptive_red, curve)
    evidence = judged(STUDY.claims, "W1", *found, unit="bytes")
    assert evidence.verdict == expected
    assert [part.where["load"] for part in evidence.parts] == [50, 60, 70]


@pytest.mark.parametrize(("sack", "expected"), [(0.3, "holds"), (0.36, "fails")])
def test_w2_compares_distances_and_medians(sack: float, expected: str) -> None:
    def cdf(labels: Labels, seed: int) -> list[float]:
        found: list[float] = exponential(sack if labels["tcp"] == "SACK" else 0.3).tolist()
        return found

    def median(labels: Labels, seed: int) -> float:
        return (sack if labels["tcp"] == "SACK" else 0.3) * (1 + seed / 1000)

    found = runs(drop_tail, {measures.CDF: cdf, measures.MEDIAN: median})
    assert judged(STUDY.claims, "W2", (drop_tail, found)).verdict == expected


def test_crossings_are_found_where_they_are() -> None:
    """Two exponentials, one of them with a tail: the zero of their difference, found by bisection."""
    values = [[curve + 0.0002 * seed * np.sin(GRID) for seed in (1, 2, 3, 4)]
              for curve in (QUICK_AND_SLOW, DROPPING)]  # fmt: skip
    low, high = 0.1, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        ahead = 0.95 * math.exp(-middle / 0.15) + 0.05 * math.exp(-middle / 15) < math.exp(-middle / 0.3)
        low, high = (middle, high) if ahead else (low, middle)
    (only,) = certain_crossings(*values)
    assert only.at_s == pytest.approx(low, rel=0.01)
    assert only.first_is_quicker_before
    assert crossing_times(differences(*values)) == pytest.approx([low] * 4, rel=0.01)


def test_seeds_that_lack_one_of_a_pair_are_left_out() -> None:
    one, none = DROPPING.tolist(), None
    assert differences([one, none, one], [one, one, none]).shape == (1, GRID.size)
    assert differences([none], [one]).shape == (0, GRID.size)


@pytest.mark.parametrize(
    ("id", "measure", "sack", "expected"),
    [
        ("W4", measures.CLASS_MEDIANS, [1.0, 1.0, 1.0, 0.8], "holds"),
        ("W4", measures.CLASS_MEDIANS, [0.8, 0.8, 0.8, 1.0], "fails"),
    ],
)
def test_w4_is_about_the_largest(id: str, measure: Any, sack: list[float], expected: str) -> None:
    def medians(labels: Labels, seed: int) -> list[float]:
        return sack if labels["tcp"] == "SACK" else [1.0] * 4

    assert judged(STUDY.claims, id, (drop_tail, runs(drop_tail, {measure: medians}))).verdict == expected


@pytest.mark.parametrize(("between", "expected"), [(40.0, "holds"), (60.0, "fails")])
def test_w10_orders_the_mean_queues(between: float, expected: str) -> None:
    found = [
        (one, runs(one, {measures.QUEUE: value}))
        for one, value in ((adaptive_red, 10.0), (tuning, between), (drop_tail, 50.0))
    ]
    assert judged(STUDY.claims, "W10", *found, unit="packets").verdict == expected


@pytest.mark.parametrize(("tuned", "expected"), [(1.3, "holds"), (0.9, "fails")])
def test_w9_asks_for_one_change_of_sign_at_one_load(tuned: float, expected: str) -> None:
    def seconds(labels: Labels, seed: int) -> float:
        return (tuned if labels["load"] == 95 else 0.9) * (1 + seed / 1000)

    times = {adaptive_red: 0.8, tuning: seconds, drop_tail: 1.0}
    found = [(one, runs(one, {measures.MEDIAN: time, measures.P95: time})) for one, time in times.items()]
    assert judged(STUDY.claims, "W9.2", *found, unit="packets").verdict == expected


def test_a_calibration_that_moved_is_told() -> None:
    def moved(full: float) -> Any:
        def load(labels: Labels, seed: int) -> float:
            return float(labels["rate"]) / (full * FULL_LOAD[str(labels["traffic"])]) * (1 + (seed - 2) / 100)

        return runs(calibration, {measures.OFFERED: load})

    curve = DROPPING.tolist()
    alike = {
        one.name: runs(one, {measures.CDF: curve}) for one in (adaptive_red, drop_tails, six_areds, two_areds)
    }
    alike["drop-tail"] = runs(drop_tail, {measures.ACTIVE: [3.0, 4.0] * 200, measures.CDF: curve})
    assert STUDY.checks({"calibration": moved(1.0), **alike}) == []
    said = STUDY.checks({"calibration": moved(1.2), **alike})
    assert [one.split(":")[0] for one in said] == [f"Calibration, {traffic}" for traffic in FULL_LOAD]


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    def short(one: Experiment) -> Experiment:
        axes = {"rate": (100, 140)} if one is calibration else {"load": (one.values("load")[-1],)}
        changes = {"duration": "15s", "warm_up": "3s"}
        return dataclasses.replace(one, quick=Form(seeds=2, axes=axes, changes=changes), varied=None)

    figures = {"a", "b", "c-packets-tail", "difference-packets", "all-loads-packets-sack"}
    tables = {
        "calibration",
        "realised",
        "parameters",
        "median",
        "small-drops",
        "both-ways",
        "crossings",
        "floor",
    }
    shown = figures | tables | {"queue"}
    claims = [claim for claim in STUDY.claims if claim.id in ("W2", "W3.2", "W5.2", "W6.4", "W9.2", "W10")]
    chosen = dataclasses.replace(
        STUDY,
        experiments=tuple(short(one) for one in STUDY.experiments),
        figures=tuple(figure for figure in STUDY.figures if figure.id in shown),
        tables=tuple(table for table in STUDY.tables if table.id in shown),
        claims=tuple(dataclasses.replace(claim, figures=()) for claim in claims),
        answer=lambda found: [],
        decisions=(),
    )
    result = study.run(chosen, tmp_path, quick=True)
    check_result(result, figures=len(figures))
    assert len(result.tables) == len(tables) + 1
    assert set(itertools.chain(*([one.id, one.reading.name] for one in result.judged))) >= {"W5.2b", "bytes"}
