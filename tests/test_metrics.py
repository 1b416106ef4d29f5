"""Measures on tables small enough to work out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from aqmlab import metrics
from aqmlab.metrics import summary

MANIFEST: dict[str, Any] = {"scenario": {"duration": "10s", "warm_up": "2s"}}


def transfers(*rows: tuple[float, float | None], size: int = 5000, **columns: Any) -> pl.DataFrame:
    """Transfers given by start and duration."""
    count = len(rows)
    table = {
        "flow": list(range(count)),
        "traffic": ["web"] * count,
        "start_s": [start for start, _ in rows],
        "size_bytes": [size] * count,
        "segments": [5] * count,
        "duration_s": [duration for _, duration in rows],
        "packets_sent": [10] * count,
        "packets_dropped": [0] * count,
        "timeouts": [0] * count,
        "complete": [duration is not None for _, duration in rows],
    }
    return pl.DataFrame(
        table | columns, schema_overrides={"duration_s": pl.Float64, "traffic": pl.Categorical}
    )


def flows(*goodput: float, **columns: Any) -> pl.DataFrame:
    count = len(goodput)
    table = {
        "flow": list(range(count)),
        "traffic": ["ftp"] * count,
        "start_s": [0.0] * count,
        "end_s": [None] * count,
        "goodput_bps": list(goodput),
        "packets_sent": [100] * count,
        "packets_dropped": [1] * count,
        "datagrams_received": [None] * count,
        "mean_delay_s": [None] * count,
        "retransmitted": [3] * count,
        "timeouts": [2] * count,
        "fast_retransmits": [1] * count,
    }
    missing = {"end_s": pl.Float64, "datagrams_received": pl.UInt64, "mean_delay_s": pl.Float64}
    return pl.DataFrame(table | columns, schema_overrides=missing)


def drops(*rows: tuple[float, int, int]) -> pl.DataFrame:
    """Drops given by time, flow and number of the arrival."""
    return pl.DataFrame(
        rows,
        schema={"time_s": pl.Float64, "flow": pl.Int64, "arrival": pl.Int64},
        orient="row",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("160s", 160.0), ("60ms", 0.06), ("1.5us", 1.5e-6), ("2min", 120.0), ("7ns", 7e-9), (3, 3.0)],
)
def test_times_are_read_as_scenarios_write_them(text: str | float, value: float) -> None:
    assert metrics.seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "10", "s", "10 parsecs"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        metrics.seconds(text)


def test_a_quantity_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"time: must have the unit s .got '10Mbps'"):
        metrics.seconds("10Mbps")
    with pytest.raises(ValueError, match=r"rate: must have the unit bps \(got '10s'\)"):
        metrics.bits_per_second("10s")
    assert metrics.bits_per_second("1Tbps") == 1e12
    assert [metrics.in_bytes(text) for text in ("20kB", "20p")] == [True, False]


def test_only_completed_transfers_begun_after_warm_up_have_times() -> None:
    table = transfers((1.9, 0.5), (2.0, 0.25), (3.0, None), (4.0, 1.5))
    assert metrics.completed_times(table, 2.0).tolist() == [0.25, 1.5]


def test_mean_active_counts_the_part_of_each_transfer_within_the_window() -> None:
    # From 2 to 10: 1 s of the first, all 3 s of the second, 1 s of the unfinished one, none of the last.
    table = transfers((1.0, 2.0), (4.0, 3.0), (9.0, None), (0.5, 1.0))
    assert metrics.mean_active(table, 2.0, 10.0) == pytest.approx(5.0 / 8.0)


def test_the_series_of_active_transfers_agrees_with_counting() -> None:
    table = transfers((0.5, 2.0), (1.0, 1.0), (2.5, None))
    assert metrics.active_series(table, 1.0, 5.0).tolist() == [0, 2, 1, 1, 1]


def test_the_mean_of_the_series_is_little_s_law() -> None:
    rng = np.random.default_rng(7)
    starts = np.sort(rng.uniform(0, 1000, 5000))
    table = transfers(*zip(starts, rng.exponential(2.0, 5000), strict=True))
    arrivals, time = 5000 / 1000, table["duration_s"].mean()
    assert metrics.mean_active(table, 20.0, 990.0) == pytest.approx(arrivals * float(time or 0), rel=0.05)
    series = metrics.active_series(table, 0.25, 990.0)[80:]
    assert series.mean() == pytest.approx(metrics.mean_active(table, 20.0, 990.0), rel=0.02)


def test_the_ideal_time_counts_the_rounds_of_slow_start() -> None:
    # With two segments at first: 2 in one round, 6 in two, 14 in three; 7 need a third.
    segments = pl.DataFrame({"segments": [1, 2, 3, 6, 7, 14, 15]})
    found = segments.select(metrics.ideal_time(pl.col("segments"), 0.1, 2)).to_series().to_list()
    assert found == pytest.approx([0.15, 0.15, 0.25, 0.25, 0.35, 0.35, 0.45])


def test_slowdown_weighs_every_object_alike() -> None:
    table = transfers((0.0, 0.25), (0.0, 0.75), (1.0, None), segments=[2, 6, 100])
    assert metrics.slowdown(table, 0.1, 2) == pytest.approx((0.25 / 0.15 + 0.75 / 0.25) / 2)


def test_percent_drops_per_flow_is_a_mean_of_shares() -> None:
    table = transfers((2.0, 1.0), (3.0, 1.0), packets_sent=[10, 1000], packets_dropped=[5, 0])
    assert metrics.drop_percent_per_flow(table) == pytest.approx(25.0)


def test_time_outs_are_counted_for_short_transfers_only() -> None:
    table = transfers(
        (2.0, 1.0), (3.0, 1.0), (3.0, 1.0), size_bytes=[100, 10_000, 10_001], timeouts=[1, 2, 9]
    )
    assert metrics.short_timeouts(table) == pytest.approx(1.5)


def test_distribution_and_tail_add_up_to_one() -> None:
    grid = np.array([0.5, 1.0, 2.0])
    times = np.array([1.0, 1.5, 3.0, 0.2])
    assert metrics.cdf(times, grid).tolist() == [0.25, 0.5, 0.75]
    assert (metrics.cdf(times, grid) + metrics.tail(times, grid)).tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(metrics.cdf(np.array([]), grid)).all()


def test_without_unfinished_transfers_survival_is_the_tail() -> None:
    rng = np.random.default_rng(3)
    grid = np.geomspace(0.1, 20.0, 40)
    times = rng.exponential(1.0, 500)
    ended, censored = metrics.histograms(transfers(*((0.0, t) for t in times)), grid, 1e9)
    assert sum(ended) == 500
    assert sum(censored) == 0
    assert metrics.survival(ended, censored) == pytest.approx(metrics.tail(times, grid))


def test_survival_is_right_where_leaving_out_the_unfinished_is_not() -> None:
    rng = np.random.default_rng(4)
    starts = rng.uniform(0, 10, 20_000)
    times = rng.exponential(3.0, 20_000)
    rows = [(s, t if s + t <= 10 else None) for s, t in zip(starts, times, strict=True)]
    table = transfers(*rows)
    grid = np.linspace(0.1, 8.0, 80)
    beyond = metrics.survival(*metrics.histograms(table, grid, 10.0))
    truth = np.exp(-grid / 3.0)
    naive = metrics.tail(metrics.completed_times(table, 0.0), grid)
    assert np.abs(beyond - truth).max() < 0.02
    assert np.abs(naive - truth).max() > 0.1


def test_a_time_on_the_grid_counts_as_not_longer() -> None:
    grid = np.array([1.0, 2.0])
    ended, _ = metrics.histograms(transfers((0.0, 1.0), (0.0, 1.5), (0.0, 9.0)), grid, 100.0)
    assert ended == [1, 1, 1]
    assert metrics.survival(ended, [0, 0, 0]).tolist() == pytest.approx([2 / 3, 1 / 3])


def test_the_area_between_distributions_is_the_difference_of_means() -> None:
    grid = np.linspace(0.0, 10.0, 20_001)
    fast, slow = np.array([1.0, 2.0]), np.array([2.0, 5.0])
    found = metrics.area_between(metrics.cdf(fast, grid), metrics.cdf(slow, grid), grid)
    assert found == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize(("rates", "index"), [([1.0, 1.0, 1.0], 1.0), ([5.0, 0.0], 0.5), ([1.0, 3.0], 0.8)])
def test_jain_is_one_for_equal_rates_and_one_over_n_for_one_taker(rates: list[float], index: float) -> None:
    assert flows(*rates).select(metrics.jain(pl.col("goodput_bps"))).item() == pytest.approx(index)


def test_loss_events_begin_with_a_drop_and_last_one_round_trip() -> None:
    times = [0.0, 0.05, 0.0999, 0.1, 0.15, 0.5]
    assert metrics.loss_events(times, 0.1) == [(0, 3), (3, 5), (5, 6)]
    assert metrics.loss_events([], 0.1) == []


def test_steady_loss_is_many_events_and_not_one_without_end() -> None:
    times = [0.01 * k for k in range(1000)]
    assert len(metrics.loss_events(times, 0.1)) == pytest.approx(100, abs=2)


def test_synchronisation_is_the_share_of_active_flows_hit() -> None:
    table = flows(1.0, 1.0, 1.0, 1.0, end_s=[None, None, None, 4.0])
    # Event at 3: flows 0 and 1 of four. Event at 5: flow 0 of the three still open. Before warm-up: ignored.
    lost = drops((1.0, 3, 0), (3.0, 0, 1), (3.01, 0, 2), (3.02, 1, 3), (5.0, 0, 4))
    assert metrics.loss_synchronisation(lost, table, 0.1, 2.0) == pytest.approx((2 / 4 + 1 / 3) / 2)
    assert math.isnan(metrics.loss_synchronisation(drops(), table, 0.1, 2.0))


def test_drop_runs_are_consecutive_arrivals_refused() -> None:
    lost = drops(
        (1.0, 0, 1), (3.0, 0, 10), (3.1, 1, 11), (3.2, 0, 12), (4.0, 0, 14), (9.0, 0, 20), (9.1, 0, 21)
    )
    assert metrics.drop_runs(lost, 2.0).tolist() == [3, 1, 2]
    assert metrics.drop_runs(drops(), 2.0).tolist() == []


def test_the_largest_burst_is_a_rise_without_a_drop_within_a_round_trip() -> None:
    queue = pl.DataFrame(
        {"time_s": [0.0, 2.0, 2.05, 2.1, 2.15, 2.2, 9.0], "length_packets": [0, 1, 4, 9, 30, 5, 200]}
    )
    # 4 to 9 and 1 to 9 are whole; 9 to 30 has a drop in it; 5 to 200 takes too long.
    found = metrics.largest_burst(queue, drops((2.12, 0, 3)), 0.1, 1.0)
    assert found == 8.0


def test_mser5_cuts_a_transient_and_leaves_a_steady_series_alone() -> None:
    rng = np.random.default_rng(5)
    steady = rng.normal(10.0, 1.0, 400)
    rising = steady - 10.0 * np.exp(-np.arange(400) / 15.0)
    assert metrics.mser5(steady) in range(60)
    assert metrics.mser5(rising) in range(20, 120)
    assert metrics.mser5(np.linspace(0.0, 1.0, 400)) is None
    assert metrics.mser5([1.0] * 10) is None


def test_the_warm_up_ends_at_the_time_where_mser5_cuts() -> None:
    values = np.concatenate([np.linspace(0.0, 1.0, 100), np.ones(500)])
    cut = metrics.mser5(values)
    assert cut is not None
    assert metrics.warm_up_end(np.arange(600) * 0.1 + 5.0, values) == pytest.approx(5.0 + 0.1 * cut)
    assert metrics.warm_up_end(np.arange(400.0), np.linspace(0.0, 1.0, 400)) is None


@pytest.mark.parametrize(
    ("times", "values", "told"),
    [
        ([0.0, 1.0, 2.0], [1.0, 1.0], ".got 3 and 2"),
        ([0.0, 1.0, 3.0], [1.0, 1.0, 1.0], "evenly spaced"),
        ([0.0, 1.0, 2.0], [1.0, math.nan, 1.0], "finite"),
    ],
)
def test_a_series_that_mser5_cannot_judge_is_refused(
    times: list[float], values: list[float], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        metrics.warm_up_end(times, values)


def test_the_warm_up_warning_speaks_only_when_it_was_too_short() -> None:
    rng = np.random.default_rng(6)
    starts = np.sort(rng.uniform(0, 400, 40_000))
    table = transfers(*zip(starts, np.full(40_000, 20.0), strict=True))
    manifest = {"scenario": {"duration": "400s", "warm_up": "5s"}}
    assert "MSER-5" in str(metrics.warm_up_warning({"transfers": table}, manifest))
    manifest["scenario"]["warm_up"] = "150s"
    assert metrics.warm_up_warning({"transfers": table}, manifest) is None
    assert metrics.warm_up_warning({"transfers": transfers()}, manifest) is None


def test_the_warm_up_of_a_run_with_few_transfers_is_not_judged() -> None:
    # Open transfers only grow in number, so that they never settle; enough of them are told so.
    manifest = {"scenario": {"duration": "400s", "warm_up": "5s"}}
    for count, judged in ((metrics.LEAST_TRANSFERS - 1, False), (metrics.LEAST_TRANSFERS, True)):
        table = transfers(*((start, None) for start in np.linspace(0, 399, count)))
        said = metrics.warm_up_warning({"transfers": table}, manifest)
        assert (said is not None) == judged


def links() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "link": ["bottleneck"],
            "utilisation": [0.9],
            "drop_fraction": [0.01],
            "mark_fraction": [0.0],
            "mean_queue_packets": [12.5],
            "mean_queue_delay_s": [0.01],
        }
    )


def classes() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "link": ["bottleneck"],
            "class": ["voice"],
            "throughput_bps": [80e3],
            "drop_fraction": [0.0],
            "mean_queue_packets": [0.5],
            "mean_queue_delay_s": [0.001],
        }
    )


def test_the_summary_has_the_shape_that_json_promises() -> None:
    ours = transfers((1.0, 2.0), (3.0, 1.0), (4.0, 3.0), (9.0, None))
    table = flows(4e6, 2e6, packets_dropped=[1, 3])
    found = summary.of_tables(
        {"links": links(), "classes": classes(), "flows": table, "transfers": ours}, MANIFEST
    )
    assert found["links"] == {"bottleneck": links().drop("link").row(0, named=True)}
    assert found["classes"] == {"bottleneck": {"voice": classes().drop("link", "class").row(0, named=True)}}
    assert found["flows"]["ftp"] == {
        "count": 2,
        "goodput_bps": 6e6,
        "jain": pytest.approx(0.9),
        "drop_fraction": pytest.approx(0.02),
        "mean_delay_s": None,
        "retransmitted": 6,
        "timeouts": 4,
        "fast_retransmits": 2,
    }
    web = found["transfers"]["web"]
    assert (web["count"], web["unfinished"], web["mean_s"], web["p50_s"]) == (3, 1, 2.0, 2.0)
    assert web["p90_s"] == pytest.approx(2.8)
    assert web["mean_active"] == pytest.approx((1 + 1 + 3 + 1) / 8)


def test_a_summary_of_nothing_says_none_and_not_nan() -> None:
    table = flows(0.0, 0.0, packets_sent=[0, 0], packets_dropped=[0, 0])
    found = summary.of_tables(
        {"links": links(), "classes": classes(), "flows": table, "transfers": transfers((9.0, None))},
        MANIFEST,
    )
    assert found["transfers"]["web"]["mean_s"] is None
    assert found["flows"]["ftp"]["drop_fraction"] is None
    assert found["flows"]["ftp"]["jain"] is None


def test_the_delay_of_datagrams_is_that_of_all_that_arrived() -> None:
    table = flows(1.0, 1.0, 1.0, datagrams_received=[1, 3, 0], mean_delay_s=[0.1, 0.5, None])
    assert metrics.mean_delay_s(table) == pytest.approx(0.4)


def test_flows_that_ended_before_the_warm_up_are_not_counted() -> None:
    table = flows(1.0, 1.0, end_s=[1.5, 5.0])
    assert metrics.measured_flows(table, "ftp", 2.0).height == 1


def test_an_unknown_link_is_named() -> None:
    with pytest.raises(KeyError, match="backbone"):
        metrics.link(links(), "backbone")
