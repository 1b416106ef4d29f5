"""The study `fair-queueing`: its scenarios are accepted, its measures and claims say what they should."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from study_checks import check_every_scenario, check_result, check_variants, cut, judged, runs

from aqmlab import metrics
from aqmlab.measures import Measure, View
from aqmlab.results.variable import measured
from aqmlab.scenario import Scenario
from aqmlab.stats import Evidence
from aqmlab.studies.fair_queueing import STUDY, laws, measures
from aqmlab.studies.fair_queueing.active_flows import example, number, scale
from aqmlab.studies.fair_queueing.blocks import BLOCKS
from aqmlab.studies.fair_queueing.bottlenecked import (
    PAIRS,
    RIVALS,
    baseline,
    delay,
    one,
    orders,
    pair_name,
    pairs,
    paths,
    several,
    windows,
)
from aqmlab.studies.fair_queueing.network import BACKGROUNDS, POISSON_FLOWS, WARM_UP_S, link
from aqmlab.study import points as study_points
from aqmlab.study import run as study
from aqmlab.study.experiment import Experiment


def scenario(experiment: Experiment, duration: str | None = None, **labels: Any) -> Scenario:
    """That of a point, or a shorter one."""
    sweep = experiment.sweep("full")
    for point in sweep.points():
        if point.labels == labels:
            return sweep.scenario_of(point).with_({"duration": duration} if duration else {})
    raise AssertionError(f"no point {labels}")


def told(experiment: Experiment, duration: str | None = None, **labels: Any) -> dict[Measure, Any]:
    """All measures of a run with the seed 1."""
    view = View(scenario(experiment, duration, **labels).run(seed=1))
    return {measure: measure.of(view) for measure in experiment.wanted}


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_each_variant_changes_something() -> None:
    check_variants(STUDY)


def test_every_block_figure_and_claim_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    assert {f"{block.lower()}-{what}" for block in "ABCDEFGHIJK" for what in ("windows", "utilisation")} <= (
        figures
    )
    assert {f"R{count}" for count in range(1, 22)} <= {claim.id.split(".")[0] for claim in STUDY.claims}
    assert [reading.suffix for reading in STUDY.readings_of(STUDY.claims[0])] == ["", "-reno", "-sack"]


def test_the_link_is_that_of_the_talk() -> None:
    case = scenario(several, flows="4 HighSpeed", queue="FQ", buffer=625, recovery="SACK").effective
    assert case["bottleneck"]["rate"] == "50Mbps"
    assert case["bottleneck"]["queue"]["limit"] == "625p"
    assert case["bottleneck"]["queue"]["drop"] == "longest-front"
    assert case["tcp"]["recovery"]["kind"] == "sack"
    round_trip_s = 2 * sum(
        metrics.seconds(case[line]["delay"]) for line in ("bottleneck", "access", "access")
    )
    assert round_trip_s * 50e6 / (8 * laws.PACKET) == pytest.approx(625)
    assert case["traffic"]["highspeed"]["flows"] == 4
    assert len(PAIRS) == len(RIVALS) * (len(RIVALS) - 1) / 2 == 10
    assert [plot.buffer for plot in BLOCKS["A"].plots] == [20, 100, 625]


# Measures


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_rates_on_the_wire_add_up_to_what_the_line_sends(background: str) -> None:
    case = scenario(several, flows="HighSpeed + Reno", queue="FQ", buffer=625, recovery="SACK")
    changes = {"duration": "40s", "traffic.background": BACKGROUNDS[background]}
    view = View(case.with_({**changes, "bottleneck.queue.limit": "100p"}).run(seed=1))
    found = {measure.name: measure.of(view) for measure in several.wanted}
    ours = found[measures.HIGHSPEED.name] + found[measures.RENO.name]
    assert (found[measures.FIRST.name], found[measures.SECOND.name]) == (
        found[measures.RENO.name],
        found[measures.HIGHSPEED.name],
    )
    assert found[measures.AVAILABLE.name] == pytest.approx(ours / 25)
    sent = ours + found[measures.BACKGROUND_RATE.name]
    # Repairs that came twice and the start of slow start are all that is not counted.
    assert sent == pytest.approx(50 * found["bottleneck.utilisation"] / 100, rel=0.01)
    assert found[measures.BACKGROUND_LOSS.name] == 0.0
    assert 0.5 < found[measures.JAIN.name] <= 1.0


def test_paths_have_a_window_for_each_flow_and_the_use_that_the_line_tells() -> None:
    run = scenario(paths, plot="HighSpeed + Reno, FIFO 20, Poisson packets").run(seed=1)
    windows, use = (measure.of(View(run)) for measure in measures.PATH)
    assert [law for law, _ in windows] == ["highspeed", "reno"]
    for _, window in windows:
        assert len(window) == 499
        assert 0 < max(window) < 1000
    measured = use[WARM_UP_S:]
    said = metrics.link(run.tables["links"], "bottleneck")["utilisation"]
    assert sum(measured) / len(measured) == pytest.approx(said, abs=0.01)


def test_poisson_packets_alone_wait_as_in_a_queue_with_equal_services() -> None:
    """M/D/1 at a load of one half: half a service, 0.08 ms; in any order, since the packets are equal."""
    case = {"flows": "none", "background": "Poisson packets", "buffer": 625, "recovery": "NewReno"}
    fifo, fair = (told(delay, "60s", **case, queue=queue) for queue in ("FIFO", "FQ"))
    assert fifo[measures.DELAYED] == pytest.approx(40 * 3125, rel=0.02)
    assert fifo[measures.MEAN_DELAY] == pytest.approx(0.08, rel=0.05)
    assert fair[measures.MEAN_DELAY] == pytest.approx(fifo[measures.MEAN_DELAY], rel=0.01)


def test_the_share_of_the_time_with_so_many_flows_adds_up_to_their_mean() -> None:
    found = told(number, "2000s", load=0.5, sizes="exponential")
    tail = found[measures.TAIL]
    assert tail[0] == pytest.approx(1.0)
    assert all(a >= b for a, b in itertools.pairwise(tail))
    assert sum(tail[1:]) == pytest.approx(found[measures.MEAN])
    assert found[measures.MEAN] == pytest.approx(1.0, rel=0.1)
    assert found[measures.MEAN_OVER_LAW] == pytest.approx(found[measures.MEAN])


def test_active_flows_are_counted_where_fair_queueing_tells_them_apart() -> None:
    found = told(scale, "60s", load=0.85, scale=1, mix="1 Mb/s flows")
    active, waiting = found[measures.ACTIVE], found[measures.WAITING]
    assert 0 < active <= waiting, "an active flow has a packet waiting"
    for mean, tail in ((active, found[measures.ACTIVE_TAIL]), (waiting, found[measures.WAITING_TAIL])):
        assert sum(tail[1:]) == pytest.approx(mean)
    assert found[measures.ACTIVE_TAIL][round(found[measures.ACTIVE_MOST])] > 0
    assert len(found[measures.ACTIVE_TAIL]) == found[measures.ACTIVE_MOST] + 1


# Theory


def test_the_formula_of_the_deck_does_not_give_what_the_deck_prints() -> None:
    chance = laws.bottlenecked_law(5, 0.6, 0.5)
    assert chance == pytest.approx(laws.FORMULA)
    assert chance < laws.PRINTED / 9


def test_two_periodic_sources_meet_as_often_as_their_phases_do() -> None:
    assert laws.periodic_wait(1, 50) == 0.0
    assert laws.periodic_wait(2, 50) == pytest.approx(0.5 / 50, rel=0.01)


def test_the_wait_behind_periodic_sources_is_that_of_a_run() -> None:
    """45 streams of 1 Mb/s with phases at random, which a run keeps: averaged over 40 runs."""
    streams = {"kind": "udp", "flows": 45, "rate": "1Mbps", "access": POISSON_FLOWS["access"]}
    many = Scenario.from_dict(link(streams, duration="21s"))
    waits = [
        metrics.link(many.run(seed=seed).tables["links"], "bottleneck")["mean_queue_delay_s"]
        for seed in range(1, 41)
    ]
    services = sum(waits) / len(waits) / laws.PACKET_S
    assert services == pytest.approx(laws.periodic_wait(45, 50), rel=0.1)


def test_a_modulated_queue_waits_longer_than_one_with_the_mean_load() -> None:
    service_ms = 1000 * laws.PACKET_S
    mean_only = service_ms * 0.5 / (2 * 0.5)
    found = laws.modulated_wait_ms(0.5, periodic=False)
    assert mean_only < found < 2 * mean_only
    assert laws.modulated_wait_ms(0.5, periodic=True) < found
    assert laws.full_share(0.5) < 1e-4 < laws.full_share(0.9)


# Claims on numbers made by hand


def claim(id: str, experiment: Experiment, recovery: str | None = "SACK", **values: Any) -> Evidence:
    """The evidence from made-up runs of an experiment; measures by the names they have in the module."""
    found = runs(experiment, {getattr(measures, name): value for name, value in values.items()}, seeds=4)
    return judged(STUDY.claims, id, (experiment, found), **({"recovery": recovery} if recovery else {}))


@pytest.mark.parametrize(("rate", "verdict"), [(0.4, "holds"), (0.5, "fails"), (0.3, "fails")])
def test_r1_asks_for_about_40_percent(rate: float, verdict: str) -> None:
    assert claim("R1.2", one, AVAILABLE=rate).verdict == verdict


@pytest.mark.parametrize(("largest", "verdict"), [(0.95, "holds"), (0.85, "fails"), (0.6, "fails")])
def test_r2_asks_for_an_order_and_a_full_link(largest: float, verdict: str) -> None:
    rates = {20: 0.4, 100: 0.7, 625: largest}
    found = claim("R2", one, AVAILABLE=lambda at, seed: rates[at["buffer"]] * (1 + seed / 1000))
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("gain", "loss", "verdicts"),
    [
        (0.1, 3e-3, ("holds", "holds")),
        (0.02, 1.5e-3, ("holds", "fails")),
        (-0.02, 3e-3, ("fails", "fails")),
        (0.1, 0.9e-3, ("fails", "fails")),
    ],
)
def test_r3_asks_for_throughput_and_for_loss(gain: float, loss: float, verdicts: tuple[str, str]) -> None:
    def of(reno: float, highspeed: float) -> Any:
        return lambda at, seed: {"1 Reno": reno, "1 HighSpeed": highspeed}[at["flows"]] * (1 + seed / 1000)

    values = {"AVAILABLE": of(0.7, 0.7 + gain), "BACKGROUND_LOSS": of(1e-3, loss)}
    assert tuple(claim(id, one, **values).verdict for id in ("R3.2", "R3b")) == verdicts


@pytest.mark.parametrize(
    ("loss", "rate", "verdict"), [(0.0, 0.45, "holds"), (1e-4, 0.45, "fails"), (0.0, 0.6, "fails")]
)
def test_r4_asks_for_no_loss_and_the_same_rate(loss: float, rate: float, verdict: str) -> None:
    found = claim("R4", one, AVAILABLE={"FIFO": 0.4, "FQ": rate}, BACKGROUND_LOSS={"FIFO": 3e-3, "FQ": loss})
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("ratio", "verdicts"),
    [
        (0.99, ("fails", "holds", "fails")),
        (1.0, ("fails", "holds", "fails")),
        (1.02, ("fails", "holds", "holds")),
        (2.0, ("holds", "fails", "holds")),
    ],
)
def test_fair_and_ahead_can_both_be_so(ratio: float, verdicts: tuple[str, str, str]) -> None:
    found = tuple(
        claim(id, several, HIGHSPEED=12.0 * ratio, RENO=12.0).verdict for id in ("R6", "R8", "R8b.2")
    )
    assert found == verdicts


def test_claims_look_at_their_own_recovery_only() -> None:
    rates = {"NewReno": 0.9, "Reno": math.nan, "SACK": 1.1}

    def available(at: Any, seed: int) -> float:
        return (1.0 if at["flows"] == "1 HighSpeed" else rates[at["recovery"]]) + seed / 1e4

    found = runs(windows, {measures.AVAILABLE: available}, seeds=4)
    chosen = dataclasses.replace(STUDY, claims=tuple(one for one in STUDY.claims if one.id == "R12.2"))
    verdicts = study.judged(chosen, chosen.claims, {"windows": found})
    assert {one.id: one.evidence.verdict for one in verdicts} == {
        "R12.2": "holds",
        "R12.2-sack": "fails",
        "R12.2-reno": "undecided",
    }


def test_sentences_of_the_talks_conclusions_count_as_the_sources() -> None:
    origins = {one.id: one.origin for one in STUDY.claims}
    assert [origins[id] for id in ("R12.2", "R15.3", "R18.2", "R18b.2", "R19.2")] == ["paper"] * 5


def test_r16_judges_bottlenecked_flows_below_90_percent_only() -> None:
    (claim,) = (one for one in STUDY.claims if one.id == "R16.4")
    of_number = [leaf for one in claim.rule.variables for leaf in measured(one) if leaf.experiment is number]
    assert [leaf.fewer["load"] for leaf in of_number] == [(0.5, 0.6, 0.7, 0.8)]


def test_variants_are_judged_for_the_recovery_that_they_are_run_with() -> None:
    varied = study_points.varied(STUDY, quick=False)
    assert [reading.name for claim, reading, _ in varied if claim.id == "R1.2"] == ["NewReno"]


@pytest.mark.parametrize(("fair", "verdict"), [(0.2, "holds"), (0.9, "fails")])
def test_r18_compares_what_the_flow_adds_to_the_wait(fair: float, verdict: str) -> None:
    def wait(at: Any, seed: int) -> float:
        added = {"FIFO": 5.0, "FQ": fair}[at["queue"]] if at["flows"] == "1 Reno" else 0.0
        return float((0.1 + added) * (1 + seed / 1000))

    assert claim("R18.2", delay, MEAN_DELAY=wait).verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(12.4, "holds"), (10.0, "fails")])
def test_r19_asks_every_pair(share: float, verdict: str) -> None:
    last = pair_name(PAIRS[-1])
    evidence = claim("R19.2", pairs, FIRST=lambda at, _: share if at["pair"] == last else 12.5, SECOND=12.5)
    assert (evidence.verdict, len(evidence.parts)) == (verdict, 10)


@pytest.mark.parametrize(("rate", "verdict"), [(0.4, "holds"), (0.5, "fails")])
def test_r17_compares_with_drr(rate: float, verdict: str) -> None:
    def available(at: Any, seed: int) -> float:
        return (rate if (at["case"], at["queue"]) == ("K", "RR") else 0.4) * (1 + seed / 1000)

    found = claim("R17", orders, AVAILABLE=available, JAIN=0.99, BACKGROUND_LOSS=0.0)
    assert (found.verdict, len(found.parts)) == (verdict, 12 + 12 + 9)


@pytest.mark.parametrize(("grown", "verdict"), [(10.5, "holds"), (20.0, "fails")])
def test_r15_asks_every_link_that_is_larger(grown: float, verdict: str) -> None:
    active = {1: 10.0, 4: 8.0, 16: grown}
    found = claim("R15.3", scale, None, ACTIVE=lambda at, seed: active[at["scale"]] * (1 + seed / 1000))
    assert (found.verdict, len(found.parts)) == (verdict, 2)


@pytest.mark.parametrize(("waiting", "verdict"), [(400, "holds"), (600, "fails")])
def test_r16_counts_what_is_so_in_99_9_percent_of_the_time(waiting: int, verdict: str) -> None:
    always, seldom = [1.0] * (waiting + 1), [1.0, *[0.0009] * 900]
    fluid = runs(number, {measures.TAIL: [0.999**i for i in range(10)]}, seeds=4)
    packets = {measures.WAITING_TAIL: always, measures.ACTIVE_TAIL: seldom}
    found = judged(STUDY.claims, "R16.4", (number, fluid), (scale, runs(scale, packets, seeds=4)))
    assert found.verdict == verdict
    assert {part.value for part in found.parts} == {9.0, float(waiting), 0.0}


@pytest.mark.parametrize(
    ("chance", "verdicts"),
    [(0.00032, ("fails", "holds")), (0.003, ("holds", "fails")), (0.001, ("fails", "fails"))],
)
def test_the_printed_chance_and_the_formula_exclude_each_other(
    chance: float, verdicts: tuple[str, str]
) -> None:
    assert tuple(claim(id, example, None, FIVE=chance).verdict for id in ("R21.2", "R21b")) == verdicts


def test_a_background_that_offers_something_else_is_told() -> None:
    def warned(rate: float) -> list[str]:
        offered = {measures.BACKGROUND_RATE: lambda _, seed: rate + (-1) ** seed * 0.1}
        return STUDY.checks({"baseline": runs(baseline, offered, seeds=4)})

    assert warned(25.0) == []
    said, _ = warned(20.0)
    assert "instead of 25" in said


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    shortest = {"number": "400s", "example": "400s", "regimes": "60s", "scale": "25s", "alone": "30s"}
    plots = [name for name in paths.values("plot") if str(name).startswith("HighSpeed + Reno")]

    fewer = {
        "paths": {"plot": plots},
        "steady": {"plot": plots},
        "orders": {"case": ("G, 20 packets", "K")},
        "alone": {"load": (0.5,)},
        "trace": {"load": (0.16,)},
    }

    def short(experiment: Experiment) -> Experiment:
        quick = experiment.quick
        axes = {**quick.axes, **fewer.get(experiment.name, {})}
        if experiment.seeds == 1 or experiment.name == "trace":
            return dataclasses.replace(experiment, quick=dataclasses.replace(quick, axes=axes), varied=None)
        return cut(experiment, shortest.get(experiment.name, "24s"), **axes)

    others = {"flows-in-progress", "number-of-flows", "example", "available", "pairs", "alone"}
    figures = {"g-windows", "g-utilisation", *others}
    # Within so short a run some flows never lose.
    claims = tuple(
        one for one in STUDY.claims if one.id not in ("R3.2", "R3b", "R4", "R14", "R18.2", "R18b.2")
    )
    chosen = dataclasses.replace(
        STUDY,
        experiments=tuple(short(experiment) for experiment in STUDY.experiments),
        figures=tuple(figure for figure in STUDY.figures if figure.id in figures),
        claims=tuple(dataclasses.replace(one, figures=()) for one in claims),
        readings=STUDY.readings[:1],
        answer=lambda found: [],
        decisions=(),
    )
    result = study.run(chosen, tmp_path, quick=True)
    check_result(result, figures=len(figures))
    (available,) = (drawn.chart for drawn in result.drawn if drawn.figure.id == "available")
    assert available is not None
    assert available.table[available.by].unique(maintain_order=True).to_list() == [
        *("1 Reno, FIFO", "1 Reno, FQ", "1 HighSpeed, FIFO", "1 HighSpeed, FQ")
    ]
    assert math.isfinite(result.provenance["cpu_s"])
