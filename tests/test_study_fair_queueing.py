"""The study `fair-queueing`: its scenarios are accepted, its reductions and claims say what they should."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from study_checks import check_every_scenario, check_result, check_variants, together

from aqmlab import metrics, study
from aqmlab.grid import Row, Runs
from aqmlab.scenario import Scenario
from aqmlab.studies import fair_queueing, fair_queueing_figures, fair_queueing_runs
from aqmlab.studies.fair_queueing_runs import BLOCKS, PAIRS, RECOVERIES, RIVALS

STUDY = fair_queueing.STUDY


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_each_variant_changes_something_and_the_first_nothing() -> None:
    check_variants(STUDY)


def test_every_block_figure_and_claim_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    assert {f"{block.lower()}-{what}" for block in "ABCDEFGHIJK" for what in ("windows", "utilisation")} <= (
        figures
    )
    assert {"flows-in-progress", "regime-paths", "example", "active-flows", "alone"} <= figures
    claims = [claim.id for claim in STUDY.claims]
    assert {f"R{number}" for number in range(1, 22)} <= set(claims)
    assert len(set(claims)) == len(claims)
    assert {"R1", "R1-reno", "R1-sack", "R8b", "R8b-reno", "R8b-sack"} <= set(claims)


def test_the_link_is_that_of_the_talk() -> None:
    table = fair_queueing_runs.scenario(
        flows="4 HighSpeed", background_kind="packets", queue="FQ", buffer=625, recovery="sack", end=520
    )
    effective = Scenario.from_dict(table).effective
    assert effective["bottleneck"]["rate"] == "50Mbps"
    assert effective["bottleneck"]["queue"]["limit"] == "625p"
    assert effective["bottleneck"]["queue"]["drop"] == "longest-front"
    round_trip_s = 2 * sum(
        metrics.seconds(table[line]["delay"]) for line in ("bottleneck", "access", "access")
    )
    assert round_trip_s * 50e6 / (8 * fair_queueing_runs.PACKET) == pytest.approx(625)
    assert effective["traffic"]["highspeed"]["flows"] == 4
    assert len(PAIRS) == len(RIVALS) * (len(RIVALS) - 1) / 2 == 10
    assert [buffer for _, buffer, _ in BLOCKS["A"][1]] == [20, 100, 625]


# Reductions


def test_rates_on_the_wire_add_up_to_what_the_line_sends() -> None:
    for kind in fair_queueing_runs.BACKGROUNDS:
        table = fair_queueing_runs.scenario(
            flows="HighSpeed + Reno", background_kind=kind, queue="FQ", buffer=100, recovery="sack", end=40
        )
        values = fair_queueing_runs.measures(Scenario.from_dict(table).run(seed=1))
        ours = values["highspeed_mbps"] + values["reno_mbps"]
        assert values["available"] == pytest.approx(ours / 25)
        sent = ours + values["background_mbps"]
        # Repairs that came twice and the start of slow start are all that is not counted.
        assert sent == pytest.approx(50 * values["utilisation"], rel=0.01)
        assert values["background_loss"] == 0.0
        assert 0.5 < values["jain"] <= 1.0


def test_paths_have_a_window_for_each_flow_and_the_use_that_the_line_tells() -> None:
    table = fair_queueing_runs._path(plot=("packets", "HighSpeed + Reno", 20, "FIFO"), recovery="newreno")
    run = Scenario.from_dict(table).run(seed=1)
    values = fair_queueing_runs.path_measures(run)
    assert [law for law, _ in values["windows"]] == ["highspeed", "reno"]
    for _, window in values["windows"]:
        assert len(window) == 499
        assert 0 < max(window) < 1000
    measured = values["use"][fair_queueing_runs.WARM_UP_S :]
    told = metrics.link(run.tables["links"], "bottleneck")["utilisation"]
    assert sum(measured) / len(measured) == pytest.approx(told, abs=0.01)


def test_poisson_packets_alone_wait_as_in_a_queue_with_equal_services() -> None:
    """M/D/1 at a load of one half: half a service, 0.08 ms; in any order, since the packets are equal."""
    waits = {}
    for queue in ("FIFO", "FQ"):
        table = fair_queueing_runs._delay(
            flows="none", background="packets", buffer=625, queue=queue, recovery="newreno", end=60
        )
        values = fair_queueing_runs.delay_measures(Scenario.from_dict(table).run(seed=1))
        assert values["packets"] == pytest.approx(40 * 3125, rel=0.02)
        waits[queue] = values["mean_ms"]
    assert waits["FIFO"] == pytest.approx(0.08, rel=0.05)
    assert waits["FQ"] == pytest.approx(waits["FIFO"], rel=0.01)


def test_the_share_of_the_time_with_so_many_flows_adds_up_to_their_mean() -> None:
    table = fair_queueing_runs._number(load=0.5, sizes="exponential", end=2000)
    values = fair_queueing_runs.number_measures(Scenario.from_dict(table).run(seed=1))
    tail = values["tail"]
    assert tail[0] == pytest.approx(1.0)
    assert all(a >= b for a, b in itertools.pairwise(tail))
    assert sum(tail[1:]) == pytest.approx(values["mean"])
    assert values["mean"] == pytest.approx(1.0, rel=0.1)


def test_active_flows_are_counted_where_fair_queueing_tells_them_apart() -> None:
    table = fair_queueing_runs._scale(mix="1 Mb/s flows", load=0.85, scale=1, end=60)
    values = fair_queueing_runs.active_measures(Scenario.from_dict(table).run(seed=1))
    assert 0 < values["active"] <= values["active_p999"] <= values["active_most"]
    assert values["active"] <= values["waiting"]


# Theory


def test_the_formula_of_the_deck_does_not_give_what_the_deck_prints() -> None:
    chance = fair_queueing_figures.bottlenecked_law(0.6, 0.5, 6)[5]
    assert chance == pytest.approx(0.00032)
    assert chance < fair_queueing_figures.PRINTED / 9


def test_two_periodic_sources_meet_as_often_as_their_phases_do() -> None:
    assert fair_queueing_figures.periodic_wait(1, 50) == 0.0
    assert fair_queueing_figures.periodic_wait(2, 50) == pytest.approx(0.5 / 50, rel=0.01)


def test_the_wait_behind_periodic_sources_is_that_of_a_run() -> None:
    """45 streams of 1 Mb/s with phases at random, which a run keeps: averaged over 40 runs."""
    table = fair_queueing_runs.link(queue="FIFO", buffer=625, recovery="newreno", end=21)
    table["traffic"] = {
        "streams": {"kind": "udp", "flows": 45, "rate": "1Mbps"}
        | {"access": {"rate": "100Gbps", "delay": "1ms"}}
    }
    scenario = Scenario.from_dict(table)
    waits = [
        metrics.link(scenario.run(seed=seed).tables["links"], "bottleneck")["mean_queue_delay_s"]
        for seed in range(1, 41)
    ]
    services = sum(waits) / len(waits) / fair_queueing_runs.PACKET_S
    assert services == pytest.approx(fair_queueing_figures.periodic_wait(45, 50), rel=0.1)


def test_a_modulated_queue_waits_longer_than_one_with_the_mean_load() -> None:
    service_ms = 1000 * fair_queueing_runs.PACKET_S
    mean_only = service_ms * 0.5 / (2 * 0.5)
    found = fair_queueing_figures.modulated_wait_ms(0.5, periodic=False)
    assert mean_only < found < 2 * mean_only
    assert fair_queueing_figures.modulated_wait_ms(0.5, periodic=True) < found
    assert fair_queueing_figures.full_share(0.5) < 1e-4 < fair_queueing_figures.full_share(0.9)


# Claims on numbers made by hand


def made(labels: dict[str, Any], **values: Any) -> Runs:
    """Four seeds that differ by a thousandth."""
    rows = [
        Row(
            labels=labels,
            seed=seed,
            values={k: v * (1 + seed / 1000) if isinstance(v, float) else v for k, v in values.items()},
        )
        for seed in (1, 2, 3, 4)
    ]
    return Runs(rows=tuple(rows))


def one(queue: str, buffer: int, flows: str = "1 Reno", **values: float) -> Runs:
    labels = {"flows": flows, "background": "flows", "queue": queue, "buffer": buffer}
    return made({**labels, "recovery": "sack"}, **values)


@pytest.mark.parametrize(("rate", "verdict"), [(0.4, "holds"), (0.6, "fails"), (0.2, "fails")])
def test_r1_asks_for_about_40_percent(rate: float, verdict: str) -> None:
    results = {"one": one("FIFO", 20, available=rate)}
    assert fair_queueing.r_1("flows")(results, "sack").verdict == verdict


@pytest.mark.parametrize(("largest", "verdict"), [(0.95, "holds"), (0.85, "fails"), (0.6, "fails")])
def test_r2_asks_for_an_order_and_a_full_link(largest: float, verdict: str) -> None:
    runs = together(
        one("FIFO", 20, available=0.4),
        one("FIFO", 100, available=0.7),
        one("FIFO", 625, available=largest),
    )
    assert fair_queueing.r_2({"one": runs}, "sack").verdict == verdict


@pytest.mark.parametrize(
    ("gain", "loss", "verdict"), [(0.1, 3e-3, "holds"), (0.02, 3e-3, "fails"), (0.1, 1e-3, "fails")]
)
def test_r3_asks_for_throughput_and_for_loss(gain: float, loss: float, verdict: str) -> None:
    runs = together(
        one("FIFO", 100, available=0.7, background_loss=1e-3),
        one("FIFO", 100, "1 HighSpeed", available=0.7 + gain, background_loss=loss),
    )
    assert fair_queueing.r_3({"one": runs}, "sack").verdict == verdict


@pytest.mark.parametrize(
    ("loss", "rate", "verdict"), [(0.0, 0.45, "holds"), (1e-4, 0.45, "fails"), (0.0, 0.6, "fails")]
)
def test_r4_asks_for_no_loss_and_the_same_rate(loss: float, rate: float, verdict: str) -> None:
    runs = together(
        one("FIFO", 20, available=0.4, background_loss=3e-4),
        one("FQ", 20, available=rate, background_loss=loss),
    )
    assert fair_queueing.r_4({"one": runs}, "sack").verdict == verdict


@pytest.mark.parametrize(
    ("ratio", "verdicts"),
    [
        (1.0, ("fails", "holds", "fails")),
        (1.02, ("fails", "holds", "holds")),
        (2.0, ("holds", "fails", "holds")),
    ],
)
def test_fair_and_ahead_can_both_be_so(ratio: float, verdicts: tuple[str, str, str]) -> None:
    claims = {claim.id: claim for claim in STUDY.claims}
    runs = Runs(rows=())
    for queue in ("FIFO", "FQ"):
        labels = {"flows": "HighSpeed + Reno", "queue": queue, "buffer": 625, "recovery": "reno"}
        rows = made(labels, highspeed_mbps=12.0 * ratio, reno_mbps=12.0)
        runs = together(runs, rows)
    found = tuple(
        claims[name].judge({"several": runs}).verdict for name in ("R6-reno", "R8-reno", "R8b-reno")
    )
    assert found == verdicts


def test_claims_look_at_their_own_recovery_only() -> None:
    labels = {"flows": "4 HighSpeed", "queue": "FIFO"}
    runs = together(
        *(
            made({**labels, "recovery": recovery}, available=rate)
            for recovery, rate in (("newreno", 0.9), ("sack", 1.0))
        )
    )
    claims = {claim.id: claim for claim in STUDY.claims}
    assert claims["R12"].judge({"windows": runs}).verdict == "holds"
    assert claims["R12-sack"].judge({"windows": runs}).verdict == "fails"
    assert claims["R12-reno"].judge({"windows": runs}).verdict == "undecided"


@pytest.mark.parametrize(("fair", "verdict"), [(0.2, "holds"), (0.9, "fails")])
def test_r18_compares_what_the_flow_adds_to_the_wait(fair: float, verdict: str) -> None:
    def wait(flows: str, queue: str, mean: float) -> Runs:
        labels = {"flows": flows, "background": "flows", "queue": queue, "buffer": 20, "recovery": "sack"}
        return made(labels, mean_ms=mean)

    runs = together(
        wait("none", "FIFO", 0.1),
        wait("none", "FQ", 0.1),
        wait("1 Reno", "FIFO", 5.1),
        wait("1 Reno", "FQ", 0.1 + fair),
    )
    assert fair_queueing.r_18(20)({"delay": runs}, "sack").verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(12.4, "holds"), (10.0, "fails")])
def test_r19_asks_every_pair(share: float, verdict: str) -> None:
    runs = Runs(rows=())
    for pair in PAIRS:
        rates = {f"{pair[0]}_mbps": share if pair == PAIRS[-1] else 12.5, f"{pair[1]}_mbps": 12.5}
        runs = together(runs, made({"pair": pair, "queue": "FQ", "recovery": "newreno"}, **rates))
    evidence = fair_queueing.r_19({"pairs": runs}, "newreno")
    assert (evidence.verdict, len(evidence.parts)) == (verdict, 10)


@pytest.mark.parametrize(("rates", "verdict"), [((0.4, 0.4), "holds"), ((0.4, 0.5), "fails")])
def test_r17_compares_with_drr(rates: tuple[float, float], verdict: str) -> None:
    runs = Runs(rows=())
    for name in fair_queueing_runs.CASES:
        for queue in fair_queueing_runs.ORDERS:
            rate = rates[1] if (name, queue) == ("K", "RR") else rates[0]
            labels = {"case": name, "queue": queue, "recovery": "sack"}
            runs = together(runs, made(labels, available=rate, jain=0.999, background_loss=0.0))
    assert fair_queueing.r_17({"orders": runs}, "sack").verdict == verdict


@pytest.mark.parametrize(("grown", "verdict"), [(10.5, "holds"), (20.0, "fails")])
def test_r15_asks_every_link_that_is_larger(grown: float, verdict: str) -> None:
    runs = together(
        *(
            made({"mix": "1 Mb/s flows", "load": 0.85, "scale": scale}, active=active, active_p999=50.0)
            for scale, active in ((1, 10.0), (4, 8.0), (16, grown))
        )
    )
    assert fair_queueing.r_15("1 Mb/s flows")({"scale": runs}).verdict == verdict


@pytest.mark.parametrize(
    ("chance", "verdicts"),
    [(0.00032, ("fails", "holds")), (0.003, ("holds", "fails")), (0.001, ("fails", "fails"))],
)
def test_the_printed_chance_and_the_formula_exclude_each_other(
    chance: float, verdicts: tuple[str, str]
) -> None:
    runs = together(
        *(made({"background": name}, at_least_5=chance) for name in fair_queueing_runs.EXAMPLE_BACKGROUNDS)
    )
    results = {"example": runs}
    found = (fair_queueing.r_21(results).verdict, fair_queueing.r_21b(fast=True)(results).verdict)
    assert found == verdicts


def test_a_background_that_offers_something_else_is_told() -> None:
    def behind(rate: float) -> Runs:
        labels = {"flows": "none", "queue": "FIFO", "buffer": 625, "background": "packets"}
        rows = made(labels, background_mbps=rate).rows
        # Two seeds on either side.
        return Runs(
            rows=tuple(
                dataclasses.replace(row, values={"background_mbps": rate + (-1) ** row.seed * 0.1})
                for row in rows
            )
        )

    assert fair_queueing._checks({"baseline": behind(25.0)}) == []
    (said,) = fair_queueing._checks({"baseline": behind(20.0)})
    assert "instead of 25" in said


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    shortest = {"number": 400, "example": 400, "regimes": 60, "scale": 25, "alone": 30}
    blocks = ("G",)
    plots = {(kind, *plot) for kind, chosen in (BLOCKS[block] for block in blocks) for plot in chosen}

    def short(sweep: Any) -> Any:
        axes = dict(sweep.axes) | dict(sweep.quick_axes)
        if "end" in axes:
            axes["end"] = (shortest.get(sweep.name, 24),)
        if sweep.name == "paths":
            axes["plot"] = tuple(plot for plot in axes["plot"] if plot in plots)
        return dataclasses.replace(sweep, axes=axes, seeds=min(2, sweep.seeds), quick_axes={})

    others = {"flows-in-progress", "number-of-flows", "example", "available", "pairs", "alone"}
    figures = {f"{block.lower()}-{what}" for block in blocks for what in ("windows", "utilisation")} | others
    claims = [claim for claim in STUDY.claims if not claim.id.endswith(RECOVERIES[1:])]
    chosen = dataclasses.replace(
        STUDY,
        sweeps=tuple(short(sweep) for sweep in STUDY.sweeps),
        figures=tuple(figure for figure in STUDY.figures if figure.id in figures),
        # Within so short a run some flows never lose, and without 100 flows there is no such share.
        claims=tuple(claim for claim in claims if claim.id not in ("R3", "R4", "R14", "R18", "R18b")),
        answer=lambda evidence: [],
        sensitivity=(),
    )
    result = study.run(chosen, tmp_path)
    check_result(result, figures=len(figures))
    assert math.isfinite(result.provenance["cpu_s"])
