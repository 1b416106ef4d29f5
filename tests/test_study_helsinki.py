"""The study `helsinki`: its scenarios are accepted, its reductions and claims say what they should."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from study_checks import check_every_scenario, check_result, check_variants, together

from aqmlab import study
from aqmlab.grid import Results, Row, Runs
from aqmlab.measure import Run
from aqmlab.scenario import Scenario
from aqmlab.stats import Evidence
from aqmlab.studies import helsinki, helsinki_figures, helsinki_runs
from aqmlab.studies import helsinki_kernel as kernel
from aqmlab.studies.helsinki_runs import PLOTTED_STARTS, QUEUES, SYSTEMS

STUDY = helsinki.STUDY


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_each_variant_changes_something_and_the_first_nothing() -> None:
    check_variants(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    sweeps = {sweep.name: sweep for sweep in STUDY.sweeps}
    assert sweeps["third"].axes["third_s"] == (0, 1, 2, 3, 4, 5, 5.5, 6, 7)
    assert sweeps["burst"].axes["udp_s"] == (0, 2, 7, 12, 16, 18)
    assert {sweeps[name].seeds for name in ("third", "burst", "throughout")} == {20}
    for name in ("third", "burst", "throughout"):
        assert sweeps[name].axes["system"] == ("linux-2.4", "linux-6")
        assert sweeps[name].axes["queue"] == ("tail", "ptail", "red")
    assert {sweeps[name].axes["classes"] for name in ("burst", "throughout")} == {(1, 2)}


def test_every_claim_of_the_talk_is_judged_for_both_systems_and_both_units() -> None:
    ids = {claim.id for claim in STUDY.claims}
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 10):
        assert {f"RI-{number}{end}" for end in ("", "p", "-6", "p-6")} <= ids
    assert {"RI-9", "RI-9-6"} <= ids
    assert set(STUDY.sensitivity_claims) <= ids


# Reductions


def made(table: dict[str, Any], seed: int = 1) -> Run:
    return Scenario.from_dict(table).run(seed=seed)


@pytest.mark.parametrize("queue", QUEUES)
def test_the_first_case_is_reduced_to_what_its_tables_say(queue: str) -> None:
    run = made(helsinki_runs.three_flows(system="linux-2.4", queue=queue, third_s=5.5))
    values = helsinki_runs.three_flow_measures(run)
    transfers = run.tables["transfers"].sort("start_s")
    times = transfers["acknowledged_s"].to_list()
    assert sorted(times[:2]) == [values["fastest_s"], values["slowest_s"]]
    assert values["elapsed_s"] == times[2]
    assert values["handshake_s"] == transfers["handshake_s"].to_list()[2]
    sent_again = sum(values[f"retransmitted_{flow}"] for flow in ("fastest", "slowest", "third"))
    assert sent_again == transfers["retransmitted"].sum()
    # Both ends of the third flow's life lie within the run, so all of its losses are while it is active.
    came = helsinki_runs.Arrivals(run)
    third = transfers["flow"].to_list()[2]
    lost = int((came.dropped & (came.flow == third)).sum())
    assert lost == transfers["packets_dropped"].to_list()[2]
    data = came.carries_data & (came.flow == third)
    assert values["third_dropped"] == pytest.approx((came.dropped & data).sum() / data.sum())
    assert 0 < values["third_bytes"] < 1


def test_segments_that_came_before_are_known_as_sent_again() -> None:
    again = helsinki_runs._sent_again(np.array([0, 1460, 0, 2920, 1460, 1460]))
    assert again.tolist() == [False, False, True, False, True, True]


def test_two_classes_take_as_many_datagrams_as_the_kernel() -> None:
    """70 kbit/s of 105.6: the queue of 20 kB overflows by 3 datagrams, that of 13 packets by 65."""
    for queue, count in (("tail", 247), ("ptail", 185)):
        recorded = kernel.results()["burst"].where(system="linux-6", classes=2, queue=queue, udp_s=7)
        assert set(recorded.values("datagrams")) == {float(count)}
        table = helsinki_runs.with_burst(system="linux-6", classes=2, queue=queue, udp_s=7)
        assert helsinki_runs.udp_measures(made(table))["datagrams"] == pytest.approx(count, abs=1)


def test_a_burst_has_250_datagrams() -> None:
    table = helsinki_runs.with_burst(system="linux-6", classes=1, queue="tail", udp_s=0)
    table["links"][helsinki_runs.LINK]["queue"] = {"kind": "drop-tail", "limit": "1000p"}
    values = helsinki_runs.udp_measures(made(table))
    assert values["datagrams"] == 250
    assert values["udp_arrived"] == 1


def test_sharing_is_measured_while_both_are_active() -> None:
    table = helsinki_runs.with_udp_throughout(system="linux-6", classes=2, queue="tail", udp_s=0)
    values = helsinki_runs.udp_measures(made(table))
    # Both have 70 kb/s, and UDP more as long as TCP does not take all of its own.
    assert values["udp_share"] == pytest.approx(0.5, abs=0.02)
    assert values["jain"] == pytest.approx(1, abs=0.01)
    assert values["udp_arrived"] == pytest.approx(70 / 105.6, abs=0.05)


# The kernel's figures


def test_the_recorded_replications_have_the_published_means() -> None:
    third = kernel.results()["third"]
    for labels, metric, mean in (
        (("linux-2.4", "tail", 5.5), "elapsed_s", 26.5),
        (("linux-2.4", "red", 2), "handshake_s", 3.57),
        (("linux-6", "ptail", 0), "retransmitted_fastest", None),
        (("linux-6", "tail", 2), "retransmitted_third", 4.7),
    ):
        runs = third.where(**dict(zip(("system", "queue", "third_s"), labels, strict=True)))
        assert len(runs.rows) == 20
        if mean is not None:
            assert np.mean(runs.values(metric)) == pytest.approx(mean, abs=0.051)
    burst = kernel.results()["burst"].where(system="linux-2.4", classes=1, queue="ptail", udp_s=7)
    assert np.mean(burst.values("datagrams")) == pytest.approx(161.3)
    assert np.mean(burst.values("tcp_s")) == pytest.approx(23.80, abs=0.005)


@pytest.mark.parametrize(
    ("id", "system", "tail", "verdict"),
    [
        ("RI-1", "linux-2.4", "tail", "holds"),
        ("RI-2", "linux-2.4", "tail", "fails"),
        ("RI-2d", "linux-2.4", "tail", "holds"),
        ("RI-3", "linux-2.4", "tail", "fails"),
        ("RI-4", "linux-2.4", "tail", "fails"),
        ("RI-5", "linux-2.4", "tail", "fails"),
        ("RI-5d", "linux-2.4", "tail", "holds"),
        ("RI-7", "linux-2.4", "tail", "fails"),
        ("RI-8", "linux-2.4", "tail", "fails"),
        ("RI-10", "linux-6", "tail", "holds"),
        ("RI-10", "linux-6", "ptail", "fails"),
    ],
)
def test_our_rules_say_of_the_kernel_what_is_published_of_it(
    id: str, system: str, tail: str, verdict: str
) -> None:
    found = helsinki.kernel_evidence(id, system, tail)
    assert found.verdict == verdict, found.measured


def test_means_agree_within_a_tenth_or_where_intervals_overlap() -> None:
    assert kernel.agree([10.0, 10.001], [10.9, 10.901])
    assert not kernel.agree([10.0, 10.001], [11.5, 11.501])
    assert kernel.agree([8.0, 12.0], [9.0, 15.0])


# Claims on numbers made by hand

CASE = ("linux-2.4", "tail")


def third(queue: str, **measured: Any) -> Runs:
    """Eight seeds at the starts of the talk; a value is a number or a function of start and seed."""
    rows = [
        Row(
            labels={"system": CASE[0], "queue": queue, "third_s": start},
            seed=seed,
            values={
                name: value(start, seed) if callable(value) else value for name, value in measured.items()
            },
        )
        for start in PLOTTED_STARTS
        for seed in range(1, 9)
    ]
    return Runs(rows=tuple(rows))


def burst(queue: str, classes: int, **measured: Any) -> Runs:
    rows = [
        Row(
            labels={"system": CASE[0], "classes": classes, "queue": queue, "udp_s": start},
            seed=seed,
            values={name: value(start, seed) for name, value in measured.items()},
        )
        for start in (0, 2, 7, 18)
        for seed in range(1, 9)
    ]
    return Runs(rows=tuple(rows))


def judged(judge: helsinki.Judge, results: Results) -> Evidence:
    return judge(results, *CASE)


def noise(seed: int) -> float:
    return (seed % 4 - 1.5) / 20


@pytest.mark.parametrize(("slope", "verdict"), [(0.2, "holds"), (2.5, "fails")])
def test_ri_1_compares_spreads_over_the_starts(slope: float, verdict: str) -> None:
    tail = third("tail", elapsed_s=lambda start, seed: 10 + 2 * start + noise(seed))
    red = third("red", elapsed_s=lambda start, seed: 10 + slope * start + noise(seed))
    assert judged(helsinki.ri_1, {"third": together(tail, red)}).verdict == verdict


def test_ri_2_asks_at_two_seconds_and_ri_2d_anywhere() -> None:
    late = {"third": together(
        third("tail", elapsed_s=lambda start, seed: (25 if start == 5 else 10) + noise(seed)),
        third("red", elapsed_s=lambda start, seed: 10 + noise(seed)),
    )}  # fmt: skip
    assert judged(helsinki.ri_2, late).verdict == "fails"
    found = judged(helsinki.ri_2d, late)
    assert found.verdict == "holds"
    assert "start 5 s" in found.measured


def test_ri_3_is_of_each_start_and_ri_3d_of_all_together() -> None:
    results = {"third": together(
        third("tail", elapsed_s=lambda start, seed: 10 + 4 * start + seed / 100),
        third("red", elapsed_s=lambda start, seed: 10 + seed / 4),
    )}  # fmt: skip
    assert judged(helsinki.ri_3, results).verdict == "fails"
    assert helsinki.ri_3(results, *CASE, pooled=True).verdict == "holds"


@pytest.mark.parametrize(("lost", "red", "verdict"), [(3, 0.5, "holds"), (0, 0.5, "fails"), (3, 3, "fails")])
def test_ri_4_asks_for_long_handshakes_somewhere_and_short_ones_with_red(
    lost: float, red: float, verdict: str
) -> None:
    results = {"third": together(
        third("tail", handshake_s=lambda start, seed: (lost if start == 4 else 0) + 1 + noise(seed)),
        third("red", handshake_s=lambda start, seed: red + noise(seed)),
    )}  # fmt: skip
    assert judged(helsinki.ri_4, results).verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(0.1, "holds"), (0.3, "fails")])
def test_ri_5_asks_for_losses_and_for_a_small_share(share: float, verdict: str) -> None:
    runs = third(
        "tail",
        third_dropped=lambda start, seed: 0.12 if start == 5 else 0.04,
        others_dropped=lambda start, seed: 0.04 + noise(seed) / 100,
        third_bytes=lambda start, seed: share + noise(seed) / 100,
    )
    assert judged(helsinki.ri_5, {"third": runs}).verdict == "fails"
    assert judged(helsinki.ri_5d, {"third": runs}).verdict == verdict


@pytest.mark.parametrize(("with_red", "with_tail", "verdict"), [(3, 9, "holds"), (9, 9, "fails")])
def test_ri_6_compares_shares_of_retransmissions(with_red: float, with_tail: float, verdict: str) -> None:
    def retransmitted(queue: str, its: float) -> Runs:
        others = {"retransmitted_fastest": lambda start, seed: 18 + noise(seed), "retransmitted_slowest": 18}
        return third(queue, retransmitted_third=lambda start, seed: its + noise(seed), **others)

    results = {"third": together(retransmitted("red", with_red), retransmitted("tail", with_tail))}
    assert judged(helsinki.ri_6, results).verdict == verdict


@pytest.mark.parametrize(("fastest", "verdict"), [(36.5, "holds"), (34.0, "fails")])
def test_ri_7_asks_for_a_little_longer_and_closer_together(fastest: float, verdict: str) -> None:
    def initial(queue: str, first: float, last: float) -> Runs:
        times = {"fastest_s": lambda start, seed: first + noise(seed), "slowest_s": last}
        return third(queue, **times)

    results = {"third": together(initial("red", fastest, 37.6), initial("tail", 34.5, 37.5))}
    assert judged(helsinki.ri_7, results).verdict == verdict


@pytest.mark.parametrize(("slope", "verdict"), [(0.5, "holds"), (6, "fails")])
def test_ri_8_compares_spreads_over_the_starts_of_udp(slope: float, verdict: str) -> None:
    def runs(queue: str, slope: float) -> Runs:
        return burst(
            queue,
            1,
            datagrams=lambda start, seed: 200 + slope * start + noise(seed),
            tcp_s=lambda start, seed: 24 + slope * start / 10 + noise(seed) / 10,
        )

    results = {"burst": together(runs("tail", 3), runs("red", slope))}
    assert judged(helsinki.ri_8, results).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.02, "holds"), (0.8, "fails")])
def test_ri_9_and_ri_10_ask_for_the_same(factor: float, verdict: str) -> None:
    def runs(queue: str, classes: int, factor: float) -> Runs:
        return burst(
            queue,
            classes,
            datagrams=lambda start, seed: factor * 240 + noise(seed),
            tcp_s=lambda start, seed: factor * 24 + noise(seed),
        )

    two = runs("red", 2, 1)
    assert judged(helsinki.ri_9, {"burst": together(runs("red", 1, factor), two)}).verdict == verdict
    assert judged(helsinki.ri_10, {"burst": together(runs("tail", 2, factor), two)}).verdict == verdict


def test_a_replication_that_was_not_done_is_left_out_of_every_start() -> None:
    def broken(start: float, seed: int) -> float:
        return math.nan if (start, seed) == (2, 3) else 10 + start + noise(seed)

    results = {"third": together(third("tail", elapsed_s=broken), third("red", elapsed_s=broken))}
    found = judged(helsinki.ri_1, results)
    assert found.value == pytest.approx(1)


# Tables and figures


def test_boxes_are_the_quartiles_of_the_replications() -> None:
    assert helsinki_figures.five_numbers([4.0, 1.0, 3.0, 2.0, 5.0]) == (1, 2, 3, 4, 5)


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    few: dict[str, Any] = {"third_s": (2, 5.5), "udp_s": (2, 7)}

    def short(sweep: Any) -> Any:
        axes = {name: few.get(name, values) for name, values in sweep.axes.items()}
        return dataclasses.replace(sweep, axes=axes, seeds=min(sweep.seeds, 3), quick_axes={})

    chosen = dataclasses.replace(
        STUDY,
        sweeps=tuple(short(sweep) for sweep in STUDY.sweeps),
        figures=tuple(
            figure
            for figure in STUDY.figures
            if figure.id in ("elapsed", "boxes-linux-6", "datagrams", "lock-out", "burst-examples")
        ),
        sensitivity=(),
    )
    result = study.run(chosen, tmp_path)
    check_result(result, figures=5)
    tables = {table.id: frame for table, frame in result.tables}
    beside = tables["third-beside-kernel"]
    assert isinstance(beside, pl.DataFrame)
    assert beside.height == len(SYSTEMS) * len(QUEUES) * 2
    assert set(result.verdicts) == {claim.id for claim in STUDY.claims}
