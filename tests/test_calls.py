"""The E-model against published points, and calls of a run against what queues did to them."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import aqmlab as al
from aqmlab import measures
from aqmlab.measures import View
from aqmlab.metrics import calls

ROOT = Path(__file__).parent.parent
G711 = calls.CODECS["g711"]


@pytest.mark.parametrize(
    ("rating", "score"),
    [
        (93.2, 4.41),
        (90, 4.34),
        (80, 4.03),
        (70, 3.60),
        (60, 3.10),
        (50, 2.58),
        (0, 1.0),
        (-5, 1.0),
        (100, 4.5),
    ],
)
def test_scores_are_those_of_g_107_annex_b_and_g_109(rating: float, score: float) -> None:
    # The table of annex B is rounded up.
    assert calls.mos(rating) == pytest.approx(score, abs=0.0065)


def test_no_score_is_below_one_and_scores_rise_with_the_rating_where_calls_are_possible() -> None:
    scores = [calls.mos(r) for r in np.linspace(0, 100, 1001)]
    assert min(scores) == 1.0
    assert all(a <= b for a, b in pairwise(scores[65:]))


def defaults_of_g_107() -> tuple[float, float, float]:
    """`No`, `Ro` and `Is` of all defaults of G.107's table 3, as its sections 7.2 and 7.3 make them."""
    slr, rlr, stmr, telr, ps, pr, ds, dr = 8, 2, 15, 65, 35, 35, 3, 3
    sent = ps - slr - ds - 100 + 0.004 * (ps - (slr + rlr) - ds - 14) ** 2
    heard = pr + 10 * math.log10(1 + 10 ** ((10 - (stmr + dr)) / 10))
    received = rlr - 121 + heard + 0.008 * (heard - 35) ** 2
    no = 10 * math.log10(sum(10 ** (level / 10) for level in (-70, sent, received, -64 + rlr)))
    ro = 15 - 1.5 * (slr + no)
    x = (slr + rlr + 0.2 * (64 + no - rlr)) / 8
    loud = 20 * ((1 + x**8) ** (1 / 8) - x)
    side = -10 * math.log10(10 ** (-stmr / 10) + 10 ** (-telr / 10))
    own = (
        12 * (1 + ((side - 13) / 6) ** 8) ** (1 / 8)
        - 28 * (1 + ((side + 1) / 19.4) ** 35) ** (1 / 35)
        - 13 * (1 + ((side - 3) / 33) ** 13) ** (1 / 13)
        + 29
    )
    g = 1.07 + 0.258 * 37 + 0.0602 * 37**2
    coded = 15 * math.log10(1 + 10 ** ((ro - 100) / 15 + 46 / 8.4 - g / 9) + 10 ** (46 / 30 - g / 40))
    return no, ro, loud + own + coded


def test_with_all_defaults_of_g_107_the_rating_is_93_2_and_the_score_4_41() -> None:
    no, ro, at_once = defaults_of_g_107()
    assert (no, ro, at_once) == pytest.approx((calls.NOISE_DB, calls.R_0, calls.IMPAIRED_AT_ONCE), abs=5e-4)
    best = calls.rating(0.0, 0.0, G711)
    assert best == pytest.approx(93.2, abs=0.05)
    assert calls.mos(best) == pytest.approx(4.41, abs=0.005)
    # A codec takes its `Ie` of it: G.113, table I.1.
    assert best - calls.rating(0.0, 0.0, calls.CODECS["g729a"]) == pytest.approx(11)


def test_delay_takes_what_cole_and_rosenbluth_say_up_to_300_ms_and_less_beyond() -> None:
    def lines(delay_s: float) -> float:
        return 0.024 * delay_s * 1e3 + 0.11 * max(0.0, delay_s * 1e3 - 177.3)

    for delay_s in (0.0, 0.025, 0.1, 0.15, 0.1773, 0.2, 0.25, 0.3):
        assert calls.delay_impairment(delay_s) == pytest.approx(lines(delay_s), abs=1.05)
    taken = [calls.delay_impairment(ms / 1000) for ms in range(5, 2000)]
    assert all(a <= b for a, b in pairwise(taken))
    assert lines(0.6) - calls.delay_impairment(0.6) > 15


def test_loss_takes_what_the_codec_cannot_conceal() -> None:
    plc = calls.CODECS["g711-plc"]
    assert calls.loss_impairment(0.0, G711) == 0
    assert calls.loss_impairment(0.01, G711) == pytest.approx(95 / 5.3)
    assert calls.loss_impairment(0.01, plc) == pytest.approx(95 / 26.1)
    # At Bpl per cent half of what is left is gone.
    assert calls.loss_impairment(0.19, calls.CODECS["g729a"]) == pytest.approx(11 + 84 / 2)
    # As measured (G.113 by way of Telektronikk 2/3.01, "Internet traffic engineering"): 25 a per cent without
    # concealment, 4 with it, while little is lost.
    assert calls.loss_impairment(1e-4, G711) == pytest.approx(0.25, rel=0.15)
    assert calls.loss_impairment(1e-4, plc) == pytest.approx(0.04, rel=0.06)
    # Longer bursts hurt more.
    assert calls.loss_impairment(0.05, G711, 2.0) == pytest.approx(95 * 5 / (2.5 + 4.3))


def test_the_burst_ratio_is_one_at_random_and_grows_with_runs() -> None:
    rng = np.random.default_rng(1)
    assert calls.burst_ratio(rng.random(200_000) < 0.1) == pytest.approx(1, abs=0.02)
    runs = np.tile(np.repeat([False, True], [36, 4]), 100)
    assert calls.burst_ratio(runs) == pytest.approx(4 * 0.9)
    assert calls.burst_ratio(np.zeros(5, dtype=bool)) == calls.burst_ratio(np.ones(5, dtype=bool)) == 1


def test_what_comes_later_than_the_buffer_is_long_is_as_good_as_lost() -> None:
    delays = np.array([0.03, 0.05, math.nan, 0.09, 0.0901, 0.03, 0.03, 0.03, 0.03, 0.03])
    heard = calls.voice(delays, G711, frame_s=0.02, jitter_buffer_s=0.06)
    assert heard is not None
    assert heard.delay_s == pytest.approx(0.02 + 0.03 + 0.06)
    assert (heard.lost, heard.late) == pytest.approx((0.1, 0.1))
    assert heard.rating == pytest.approx(93.2 - 0.024 * 110 - 95 * 20 / (20 + 4.3), abs=0.2)
    # Left to itself, the receiver waits for the last.
    patient = calls.voice(delays, G711, frame_s=0.02)
    assert patient is not None and patient.late == 0 and patient.rating > heard.rating
    assert patient.delay_s == pytest.approx(0.02 + 0.0901)
    assert calls.voice(np.array([math.nan]), G711, frame_s=0.02) is None


def test_a_receiver_gives_up_a_few_datagrams_for_a_shorter_delay() -> None:
    delays = np.full(2000, 0.05)
    delays[::400] = 1.0
    heard = calls.voice(delays, calls.CODECS["g711-plc"], frame_s=0.02)
    assert heard is not None
    assert (heard.delay_s, heard.late) == pytest.approx((0.07, 0.0025))
    # A third that comes so late is waited for: without it nothing can be understood.
    delays[::3] = 0.3
    heard = calls.voice(delays, G711, frame_s=0.02)
    assert heard is not None and heard.delay_s == pytest.approx(0.32)


def test_datagrams_are_found_by_flow_and_those_under_way_are_left_out() -> None:
    rows = [
        (0.0, "send", 1, 0),
        (1.0, "send", 1, 1),
        (1.2, "receive", 1, 1),
        (2.0, "send", 1, 2),
        (2.1, "drop", 1, 2),
        (3.0, "send", 1, 3),
        (3.0, "send", 2, 0),
        (3.5, "receive", 2, 0),
        (3.0, "send", 9, 0),
        (3.5, "receive", 9, 0),
    ]
    packets = pl.DataFrame(rows, ["time_s", "event", "flow", "sequence_bytes"], orient="row")
    flows = pl.DataFrame({"flow": [1, 2, 9], "traffic": ["a", "a", "b"]})
    found = calls.delays_of(packets, flows, "a", 0.5)
    assert list(found) == [1, 2]
    assert found[1] == pytest.approx([0.2, math.nan], nan_ok=True)
    assert calls.delay_quantile_s(found, 1.0) == pytest.approx(0.5)
    assert calls.delay_variation_s(found, 1.0) == 0
    assert math.isnan(calls.delay_quantile_s({}, 0.5)) and math.isnan(calls.delay_variation_s({}, 0.5))


def scenario_of(limit: str) -> al.Scenario:
    return al.Scenario.load(
        ROOT / "scenarios/call.toml", {"bottleneck.queue.limit": limit, "duration": "60s"}
    )


def test_a_call_behind_a_deep_buffer_sounds_worse_than_behind_a_short_one() -> None:
    found = {}
    for limit in ["15p", "200p"]:
        scenario = scenario_of(limit)
        run = scenario.run(1)
        view = View(run)
        values = {one.name: one.of(view) for one in measures.named(scenario, ["call.*"])}
        assert 1 <= values["call.least-mos"] <= values["call.mos"] <= 4.5
        assert values["call.delay"] <= values["call.p99-delay"]
        lost = np.isnan(np.concatenate(list(delays_of(run).values()))).mean()
        assert lost * 100 == pytest.approx(values["call.drops"], abs=0.1)
        # The way back is empty, so the end there hears well.
        assert values["call.mos"] > values["call.least-mos"] + 0.2
        found[limit] = values["call.least-mos"]
    assert found["15p"] > found["200p"]


def delays_of(run: al.Run) -> dict[int, calls.Floats]:
    return calls.delays_of(run.tables["packets"], run.flows, "call", 10.0)


def test_the_mean_of_the_datagrams_is_that_of_their_flows() -> None:
    run = scenario_of("50p").run(2)
    flows = run.flows.filter(pl.col("traffic") == "call")
    for row in flows.iter_rows(named=True):
        took = delays_of(run)[row["flow"]]
        assert float(np.nanmean(took)) == pytest.approx(row["mean_delay_s"], rel=2e-3)


def test_a_call_that_is_not_recorded_has_no_score_and_says_why() -> None:
    scenario = al.Scenario.load(ROOT / "scenarios/call.toml", {"record.histories": []})
    with pytest.raises(
        ValueError, match=r"call\.mos needs the history of each datagram: add call to record\.histories"
    ):
        measures.named(scenario, ["call.mos"])
    with pytest.raises(ValueError, match=r"no measure is named `call\.moss`"):
        measures.named(scenario, ["call.moss"])
