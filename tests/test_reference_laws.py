"""Published tables and laws of congestion controls: the models without a network, and small cases."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import agreement
import bbr_laws
import closed_form
import control_laws
import mark_laws
import tcp_laws
from case import Case, Job
from judge import Row

RATE = 10e6 / (8 * bbr_laws.PACKET)
"""Packets per second of a link of 10 Mb/s."""


def of_rates(case: Case, per_second: list[float]) -> list[Row]:
    """The rows of a case for given packets per second."""
    return list(case.judge([closed_form.Rate(rate, 0.0, 0.0, 0.0) for rate in per_second]))


def test_the_tables_contain_the_windows_of_the_formulas() -> None:
    for p, window in control_laws.HIGHSPEED.items():
        if p <= 1e-3:
            assert tcp_laws.highspeed_window(round(1 / p)) == pytest.approx(window, rel=0.011)
    for (rtt, c), windows in control_laws.CUBIC.items():
        for p, window in windows.items():
            cubic = (c * 3.7 / 1.2) ** 0.25 * (rtt / p) ** 0.75
            assert max(cubic, 1.2 / p**0.5) == pytest.approx(window, rel=0.015)


@pytest.mark.parametrize("p", [0.02, 0.1])
def test_a_model_of_one_reduction_per_round_trip_is_near_its_law(p: float) -> None:
    window = mark_laws.dctcp_window(p, packets=200_000)
    assert window == pytest.approx(mark_laws.once_per_round_trip(p), rel=0.06)
    assert window > 1.2 * mark_laws.every_round_trip(p)
    of_prague = mark_laws.prague_rate(p, 0.1, False, packets=200_000) * 0.1
    assert of_prague == pytest.approx((1 - p) * mark_laws.once_per_round_trip(p), rel=0.06)


def test_a_model_with_independence_of_the_round_trip_has_nearly_equal_rates() -> None:
    rates = [mark_laws.prague_rate(0.1, trip, True, packets=100_000) for trip in (0.005, 0.025)]
    assert rates[0] == pytest.approx(rates[1], rel=0.1)
    dependent = mark_laws.prague_rate(0.1, 0.005, False, packets=100_000)
    assert dependent == pytest.approx(5 * rates[1], rel=0.1)


def test_the_repair_of_losses_matters_for_small_windows_only() -> None:
    assert tcp_laws.cubic_real_sender(100, 0.1, 0.4) < 0.95 * 12
    assert tcp_laws.cubic_real_sender(100_000, 0.1, 0.4) == pytest.approx(1054, rel=0.04)


def test_a_row_of_the_table_agrees_and_with_another_window_misses() -> None:
    case = control_laws.table_case("cubic", 0.01, 1e-3, 38)
    short = replace(case, jobs=lambda: [_shortened(job) for job in case.jobs()])
    assert [row.verdict for row in agreement.compare([short])] == ["equivalent"]
    other = control_laws.table_case("cubic", 0.01, 1e-3, 42)
    wrong = replace(other, jobs=short.jobs, causes=())
    assert [row.verdict for row in agreement.compare([wrong])] == ["miss"]


def _shortened(job: Job) -> Job:
    return replace(job, scenario=job.scenario.with_({"duration": "60s", "warm_up": "10s"}))


def test_a_window_of_the_ideal_law_of_marks_agrees_with_the_law_and_not_with_the_next_mark() -> None:
    case = control_laws.marks_case("dctcp", 0.1)
    assert [row.verdict for row in of_rates(case, [199, 200, 201])] == ["equivalent", "miss"]
    assert [row.verdict for row in of_rates(case, [272, 273, 274])] == ["miss", "equivalent"]


def test_a_dctcp_flow_has_the_models_window() -> None:
    case = control_laws.marks_case("dctcp", 0.2, seeds=1)
    [job] = case.jobs()
    rate = job.measure(job.scenario.with_({"duration": "300s"}).run(seed=1))
    assert rate.per_second * 0.1 == pytest.approx(mark_laws.dctcp_window(0.2, packets=200_000), rel=0.05)


def test_bbr_has_half_of_a_very_deep_queue_and_less_time_the_deeper_the_queue_is() -> None:
    # Without the time in ProbeRTT, the share is 1 - p of equation (9).
    silent = (1067 / RATE + 0.2 + 0.04) / 10
    share = bbr_laws.share_of_bbr(RATE, 0.04, 1067)
    assert share / (1 - silent) == pytest.approx(1 - (0.5 - 1 / 64 - 4 / 1067), rel=1e-4)
    assert bbr_laws.share_of_bbr(RATE, 0.04, 33) == pytest.approx(1 - (33 / RATE + 0.24) / 10)
    corrected = bbr_laws.share_of_bbr(RATE, 0.04, 67, path_is_full=False)
    assert corrected < bbr_laws.share_of_bbr(RATE, 0.04, 67)


def test_a_bbr_flow_beside_one_or_sixteen_flows_has_about_half_of_the_link() -> None:
    for flows in (1, 16):
        [job] = bbr_laws.share_case("reno", flows, 8, rate=10, seeds=1).jobs()
        run = job.scenario.with_({"duration": "100s", "warm_up": "40s"}).run(seed=1)
        assert 0.3 < job.measure(run) / 10e6 < 0.65


def test_the_kernels_conditions_have_the_round_trip_and_the_buffer_of_the_runs() -> None:
    for condition, (round_trip, limit) in bbr_laws.RECORDED.items():
        case = bbr_laws.recorded_case(condition)
        links = case.jobs()[0].scenario.effective["links"]
        assert links["forth"]["queue"]["classes"]["all"]["queue"]["limit"] == f"{limit}p"
        assert links["back"]["delay"] == f"{1000 * round_trip:g}ms"
