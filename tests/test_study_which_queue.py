"""The study `which-queue`: its orthogonal array, its scenarios, its measures, and its effects."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from study_checks import check_variants

from aqmlab import studies
from aqmlab.results.table import Results, Row
from aqmlab.scenario import Scenario
from aqmlab.studies import which_queue
from aqmlab.studies.which_queue import effects
from aqmlab.studies.which_queue import measures as m
from aqmlab.studies.which_queue import network as net

BUSY = {"load": "download and upload", "http": "3", "line": "20/1", "rtt": 20, "room": "1 BDP"}


def test_the_study_is_registered() -> None:
    assert studies.load("which-queue") is which_queue.STUDY


def test_two_columns_of_the_array_contain_each_pair_of_levels_once() -> None:
    rows = net.array()
    for first, second in itertools.combinations(range(5), 2):
        pairs = Counter((row[first], row[second]) for row in rows)
        assert pairs == Counter(dict.fromkeys(itertools.product(range(4), repeat=2), 1))


def test_values_of_two_factors_occur_in_proportion_to_their_frequencies() -> None:
    for first, second in itertools.combinations(net.FACTORS, 2):
        alone = [Counter(row[one] for row in net.ROWS.values()) for one in (first, second)]
        together = Counter((row[first], row[second]) for row in net.ROWS.values())
        for a, b in itertools.product(*alone):
            assert together[a, b] * len(net.ROWS) == alone[0][a] * alone[1][b]


def test_the_room_of_a_bandwidth_delay_product() -> None:
    assert net.drop_tail(100e6, 1.0)["limit"] == "826p"  # 100 Mb/s x 0.1 s / (8 x 1514 B)
    assert net.drop_tail(1e6, 0.25)["limit"] == "2p"
    assert net.drop_tail(1e6, None)["limit"] == "1000p"


def test_equal_limits_are_equal_in_packets() -> None:
    table = net.base(BUSY, "4 BDP")
    packets = int(table["links"][net.UPLINK]["queue"]["limit"].removesuffix("p"))
    assert packets == 33
    assert net.limited(net.CODEL)(table)["links"][net.UPLINK]["queue"]["limit"] == "33p"
    assert net.managed(net.CAKE, packets)["memlimit"] == f"{33 * 2304}B"
    assert net.managed(net.RED, 2)["limit"] == "16p"


@pytest.mark.parametrize("sender", net.SENDERS)
def test_all_connections_have_one_congestion_control_and_one_setting_of_ecn(sender: str) -> None:
    table = net.sent_by(sender)(net.base(BUSY))
    pages = table["traffic"][net.NEAR]["tcp"]
    assert (pages["profile"], table["tcp"]["profile"]) == ("quic", "linux-6")
    assert pages["congestion_control"] == table["tcp"]["congestion_control"]
    assert pages["ecn"] == table["tcp"]["ecn"] == {"mode": "off" if sender in (net.CUBIC, net.BBR) else "on"}


def test_the_sender_of_the_pages_can_differ_from_that_of_the_household() -> None:
    table = net.household_by(net.BBR)(net.pages_by(net.CUBIC)(net.base({**BUSY, "http": "2"})))
    assert table["tcp"]["congestion_control"]["kind"] == "bbr3"
    assert table["traffic"][net.FAR]["tcp"]["congestion_control"]["kind"] == "cubic"


def test_the_core_accepts_every_row_with_every_queue_and_every_sender_with_some_queues() -> None:
    for row, queue in itertools.product(net.ROWS.values(), net.QUEUES):
        Scenario.from_dict(net.queued(queue)(net.sent_by(net.PRAGUE)(net.base(row))))
    for experiment in which_queue.EXPERIMENTS[3:]:
        for _, scenario in experiment.plan(experiment.sweep("full")).points:
            assert isinstance(scenario(1), Scenario)


def test_each_variant_changes_the_scenarios() -> None:
    check_variants(which_queue.STUDY)


def test_the_downlink_that_varies_has_a_mean_of_36_mbps() -> None:
    table = net.varying(BUSY)({})
    steps = table["links"][net.DOWNLINK]["rate_steps"]
    assert sum(float(one["rate"].removesuffix("Mbps")) for one in steps) / len(steps) == 36.25
    assert "rate_steps" not in table["links"][net.UPLINK]


@pytest.fixture(scope="module")
def run() -> Any:
    table = net.queued(net.TAIL[net.SHIPPED])(net.sent_by(net.CUBIC)(net.base(BUSY)))
    return Scenario.from_dict(table).run(seed=1)


def test_incomplete_pages_count_with_the_time_until_the_end_of_the_run(run: Any) -> None:
    pages = m.page_times(run)
    left = pages.filter(~pl.col("complete"))
    assert 0 < left.height < pages.height
    started = run.tables["pages"].filter(
        pl.col("traffic").is_in(net.USERS) & (pl.col("start_s") >= net.WARM_UP_S) & ~pl.col("complete")
    )["start_s"]
    assert left["time_s"].to_list() == pytest.approx((net.SECONDS - started).to_list())
    assert started.max() <= net.LAST_PAGE_S


def test_the_measures_of_a_run(run: Any) -> None:
    found = {one.name.rpartition(".")[2]: one.compute(m.View(run)) for one in m.ALL}
    pages = m.page_times(run)
    assert found["page_s"] == pytest.approx(pages["time_s"].mean())
    assert found["log_page"] == pytest.approx(math.log(found["page_s"]))
    assert found["unfinished"] == pytest.approx(100 * (1 - pages["complete"].mean()))
    upload = run.tables["flows"].filter(pl.col("traffic") == net.UP)["goodput_bps"].sum()
    assert found["up_share"] == pytest.approx(100 * upload / 1e6)
    assert 1 <= found["mos"] < 2 < found["uplink_ms"]  # a second of queue ends every call


def results(log: Any, senders: tuple[str, ...] = net.SENDERS) -> Results:
    """Made-up runs of the experiment on home lines: the logarithm of the page time is a function of the row,
    the sender, the queue and the seed."""
    axes = {"row": tuple(net.ROWS), "sender": senders, "queue": net.QUEUES}
    rows = tuple(
        Row(
            labels=dict(zip(axes, point, strict=True)),
            seed=seed,
            values={m.LOG_PAGE.name: log(*point, seed)},
        )
        for point in itertools.product(*axes.values())
        for seed in (1, 2, 3)
    )
    return Results.of_rows(rows=rows, axes=axes)


def additive(row: str, sender: str, queue: str, seed: int) -> float:
    return (
        0.1 * list(net.ROWS).index(row)
        + 0.2 * net.SENDERS.index(sender)
        + math.log(1 + net.QUEUES.index(queue))
        + 0.05 * seed
    )


def test_an_effect_is_the_ratio_of_geometric_means_paired_by_seed() -> None:
    runs = {which_queue.main.name: results(additive)}
    estimate = which_queue.pages(net.QUEUES[5], net.QUEUES[2], sender=net.CUBIC)
    found = estimate.interval(runs)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))  # 6 / 3 at every seed
    assert found.count == 3


def test_an_interaction_is_the_ratio_of_two_effects() -> None:
    def log(row: str, sender: str, queue: str, seed: int) -> float:
        doubles = sender == net.PRAGUE and queue == net.FQ_CODEL
        return additive(row, sender, queue, seed) - math.log(2) * doubles

    (claim,) = (one for one in which_queue.CLAIMS if one.id == "gain-prague")
    evidence = claim.rule.judge({which_queue.main.name: results(log)})
    assert evidence.value == pytest.approx(2.0)
    assert evidence.verdict == "fails"


def test_the_effects_are_those_of_least_squares() -> None:
    """In the product of senders, queues and rows, the least-squares estimate is the mean of differences."""
    draw = np.random.default_rng(1)
    noise = {}

    def log(*point: Any) -> float:
        return additive(*point) + float(noise.setdefault(point, draw.normal(0, 0.3)))

    runs = results(log)
    coded, y = effects.observed(runs, m.LOG_PAGE.name)
    columns = [effects.columns_of(coded, one) for one in (["seed"], ["row"], ["sender"], ["queue"])]
    found, *_ = np.linalg.lstsq(np.hstack(columns), y, rcond=None)
    of_queue = found[-len(net.QUEUES) :]
    ours = which_queue.pages(net.CAKE, of=which_queue.LOG.averaged("sender"))
    expected = of_queue[net.QUEUES.index(net.CAKE)] - of_queue[net.QUEUES.index(net.REFERENCE)]
    assert math.log(ours.interval({which_queue.main.name: runs}).value) == pytest.approx(expected)


def test_the_terms_of_the_model_explain_additive_runs_and_leave_noise_to_the_residuals() -> None:
    terms, residuals = effects.explained(*effects.observed(results(additive), m.LOG_PAGE.name))
    assert np.abs(residuals).max() < 1e-9
    assert terms["sender x queue"][1] == pytest.approx(0, abs=1e-9)
    assert [terms[name][0] for name in ("seed", "row of the array", "sender", "queue", "sender x queue")] == [
        2,
        15,
        4,
        11,
        44,
    ]
    draw = np.random.default_rng(2)
    table = effects.anova(which_queue.main.name, m.LOG_PAGE.name)(
        {which_queue.main.name: results(lambda *point: additive(*point) + float(draw.normal(0, 0.1)))}
    )
    assert float(table["typical factor"][-1]) == pytest.approx(math.exp(0.1), abs=0.01)


def test_the_fraction_is_compared_with_all_settings_in_their_frequencies() -> None:
    shares = Counter(net.row_of(one)["http"] for one in which_queue.LEVELS)
    assert {http: count / len(which_queue.LEVELS) for http, count in shares.items()} == {
        http: sum(row["http"] == http for row in net.ROWS.values()) / 16 for http in ("1.1", "2", "3")
    }
