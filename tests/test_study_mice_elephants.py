"""The study `mice-elephants`: its scenarios are accepted, its measures and claims say what they should."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from study_checks import (
    check_drop_functions,
    check_every_scenario,
    check_result,
    check_variants,
    judged,
    runs,
)

from aqmlab import metrics
from aqmlab.measures import View
from aqmlab.scenario import Scenario
from aqmlab.studies.mice_elephants import STUDY, measures, table_1, web
from aqmlab.studies.mice_elephants.network import LAWS, QUEUES
from aqmlab.studies.mice_elephants.random_loss import latency, random_loss
from aqmlab.studies.mice_elephants.web import exp_1, exp_2, exp_2_laws, lasting, two_way
from aqmlab.study import run as study
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.query import means


def scenario(experiment: Experiment, changes: dict[str, Any] | None = None, **labels: Any) -> Scenario:
    """That of a point."""
    sweep = experiment.sweep("full")
    (point,) = (one for one in sweep.points() if labels.items() <= one.labels.items())
    return sweep.scenario_of(point).with_(changes or {})


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    assert exp_1.values("ITO") == ("3 s", "1 s")
    assert (exp_1.seeds, exp_2.seeds) == (10, 10)
    red = scenario(exp_1, queue="RED", ITO="3 s").given
    assert (red["duration"], red["warm_up"]) == ("4000s", "2000s")
    queue = red["bottleneck"]["queue"]
    assert (queue["min_th"], queue["max_th"], queue["limit"]) == ("75p", "250p", "500p")
    drop_tail = scenario(exp_2, queue="Drop Tail", mix="long files").given
    assert drop_tail["bottleneck"]["queue"] == {"kind": "drop-tail", "limit": "180p"}


def test_buffers_of_table_1_are_shares_of_the_bandwidth_delay_product() -> None:
    """1.5 Mb/s and 160 ms are 60 packets of 500 B."""
    path = {"speed": "1.5 Mb/s", "rtt_ms": 160, "pattern": "10 every 10 s, whatever is under way"}
    for buffer, drop_tail, red in ((0.5, "30p", "50p"), (1.5, "90p", "150p")):
        for name, limit in (("Drop Tail", drop_tail), ("RED", red), ("RIO-PS", red)):
            found = scenario(table_1.table_1_search, queue=name, buffer=buffer, **path).given
            assert found["bottleneck"]["queue"]["limit"] == limit
    chosen = scenario(table_1.table_1, queue="RED", speed="1.5 Mb/s").given
    assert chosen["bottleneck"]["queue"]["limit"] == "50p"


def test_every_figure_and_table_of_the_talk_is_there() -> None:
    drawn = {figure.id for figure in STUDY.figures}
    assert {"1a", "1b", "2", "6a", "6b", "7a", "7b", "8a", "8b", "9a", "9b", "drop-functions"} <= drawn
    assert {"table-1", "table-1-search", "table-4", "parameters"} <= {table.id for table in STUDY.tables}


def test_each_variant_changes_something() -> None:
    check_variants(STUDY)


def test_queues_meet_the_same_files() -> None:
    found = []
    for queue in QUEUES:
        transfers = scenario(exp_1, lasting(40), queue=queue, ITO="3 s").run(seed=2).transfers
        web = transfers.filter(pl.col("traffic").cast(pl.String) == "web")
        found.append(web.sort("start_s").select("start_s", "size_bytes"))
    first, *others = found
    assert first.height > 1000
    for other in others:
        assert other.equals(first)


@pytest.fixture(scope="module")
def web_run() -> Any:
    return scenario(exp_1, lasting(260), queue="RIO-PS", ITO="3 s").run(seed=1)


def test_the_measures_of_a_web_run_agree_with_its_summary(web_run: Any) -> None:
    view, summary = View(web_run), web_run.summary
    web = summary["transfers"]["web"]
    assert measures.RESPONSE.of(view) == pytest.approx(web["mean_s"])
    bins = np.array(measures.BINS.of(view))
    assert bins[:, 0].sum() == web["count"] - web["unfinished"]
    assert bins[:, 1].sum() / bins[:, 0].sum() == pytest.approx(web["mean_s"])
    packets = sum(flow["goodput_bps"] for flow in summary["flows"].values()) * 130 / (8 * measures.PACKET)
    assert measures.GOODPUT.of(view) == pytest.approx(packets)


def test_batches_are_told_apart_and_measured_after_the_warm_up(web_run: Any) -> None:
    view = View(web_run)
    batches = measures.SHORT_BATCHES.of(view)
    assert [begun for begun, _, _ in batches] == pytest.approx([150.0, 175.0, 200.0, 225.0], abs=0.1)
    assert all(mean_s > 0.1 and 0.1 <= jain <= 1.0 for _, mean_s, jain in batches)
    assert measures.SHORT_JAIN.of(view) == pytest.approx(sum(jain for _, _, jain in batches) / 4)


def test_the_edge_marks_no_packet_of_a_file_below_its_least_threshold_long() -> None:
    edge = {"threshold_rule": "static", "threshold": 20, "expiry": None}
    changes = {**lasting(60), **{f"edges.left.{name}": value for name, value in edge.items()}}
    view = View(scenario(exp_1, changes, queue="RIO-PS", ITO="3 s").run(seed=1))
    bins = measures.BINS.of(view)
    below = [row for size, row in zip(measures.SIZE_BINS[1:], bins, strict=False) if size <= 12]
    assert sum(row[3] for row in below) <= 0.01 * sum(row[2] for row in below)
    assert measures.PACKETS_LONG.of(view) > 30


def test_losses_take_longer_and_the_model_of_a_round_agrees_with_the_packets() -> None:
    lossy = scenario(random_loss, loss=0.02)
    several = [lossy.run(seed=seed) for seed in range(1, 5)]
    assert all(run.transfers["complete"].all() for run in several)
    for size in measures.TRANSFER_SIZES:
        model = latency(size, 0.02)
        for measure, said in (
            (measures.TRANSFER_TIME[size], model.mean_s),
            (measures.VARIATION[size], model.variation),
        ):
            found = sum(measure.of(View(run)) for run in several) / len(several)
            assert found == pytest.approx(said, rel=0.15), measure.title


@pytest.mark.parametrize(("packets", "rounds"), [(2, 1), (6, 2), (14, 3), (100, 6)])
def test_without_losses_the_model_is_slow_start(packets: int, rounds: int) -> None:
    found = latency(packets, 0.0, transfers=3)
    assert found.mean_s == pytest.approx(0.1 * (1 + rounds) - 0.05)
    assert found.variation == pytest.approx(0.0, abs=1e-12)


def test_the_model_of_one_packet_is_the_sum_of_its_back_offs() -> None:
    """Time-outs that double with each loss in a row, of the SYN from 3 s and of the packet from 1 s on."""
    loss, kept = 0.1, 0.9
    syn = 3.0 * (kept / (1 - 2 * loss) - 1)
    # The back-off of a lost SYN is where the packet's time-outs begin.
    first = kept * 1.0 + 3.0 * (kept / (1 - 2 * loss) - kept)
    waits = loss * first * (2 * kept / (1 - 2 * loss) - 1)
    found = latency(1, loss, time_out_s=1.0, transfers=400_000)
    assert found.mean_s == pytest.approx(0.1 + syn + waits + 0.1 - 0.05, rel=0.02)


def test_the_largest_files_carry_most() -> None:
    sizes = np.array([1] * 90 + [91] * 10)
    assert metrics.carried_by_largest(sizes, (0.1, 0.5, 1.0)) == pytest.approx([0.91, 0.95, 1.0])
    assert math.isnan(metrics.carried_by_largest(np.array([]), (0.1,))[0])


def test_no_packet_overtakes_another_of_its_flow_although_marks_of_flows_change() -> None:
    """The abstract says that the scheme does not misorder packets; of one FIFO queue that is no claim."""
    run = scenario(table_1.table_1, queue="RIO-PS", speed="1.25 Mb/s").run(seed=1)
    as_long = pl.col("packets_long").fill_null(0)
    both = run.transfers.filter((as_long > 0) & (as_long < pl.col("packets_sent")))
    assert both.height > 100
    came, left = (
        run.tables["packets"]
        .filter(pl.col("event") == event)
        .group_by("flow", maintain_order=True)
        .agg(pl.col("sequence_bytes").alias(event))
        for event in ("enqueue", "start")
    )
    for _, arrived, started in came.join(left, on="flow").iter_rows():
        assert started == arrived[: len(started)]


def times(rio: float, red: float, drop_tail: float) -> dict[str, float]:
    return {"RIO-PS": rio, "RED": red, "Drop Tail": drop_tail}


@pytest.mark.parametrize(
    ("rio", "jain", "verdict"),
    [(0.5, 0.9, "holds"), (1.5, 0.9, "fails"), (1.2, 0.9, "fails"), (0.5, 0.6, "fails")],
)
def test_mi_5_needs_rio_ps_faster_and_fairer_than_both(rio: float, jain: float, verdict: str) -> None:
    times_s, index = times(rio, 1.0, 1.4), times(jain, 0.7, 0.6)
    found = runs(exp_1, {measures.SHORT_FILES: times_s, measures.SHORT_JAIN: index})
    assert judged(STUDY.claims, "MI-5.2", (exp_1, found)).verdict == verdict


@pytest.mark.parametrize(("rio", "verdict"), [(1.02, "holds"), (1.0, "undecided"), (0.98, "fails")])
def test_mi_17_judges_the_weak_claim_as_printed(rio: float, verdict: str) -> None:
    """That goodput is not lost, MI-10.2, is no answer to whether goodput is improved."""

    def goodput(labels: Any, seed: int) -> float:
        ours = labels["queue"] == "RIO-PS"
        noise = 1e-4 * math.sin(seed + 1.5 * ours)
        return (rio if ours else 1.0) * (1 + noise)

    found = runs(exp_1, {measures.GOODPUT: goodput}, seeds=4)
    assert judged(STUDY.claims, "MI-17", (exp_1, found)).verdict == verdict


def test_the_worst_case_counts_as_our_reading() -> None:
    (claim,) = (one for one in STUDY.claims if one.id == "MI-12.3")
    assert claim.origin == "sheet"


def short_files(rio_at_3_s: float, rio_at_1_s: float) -> Any:
    """Times of short files in Exp 1, 1 s under the other queues."""

    def time_s(labels: Any, seed: int) -> float:
        rio = rio_at_3_s if labels["ITO"] == "3 s" else rio_at_1_s
        return (rio if labels["queue"] == "RIO-PS" else 1.0) * (1 + 0.01 * seed)

    return exp_1, runs(exp_1, {measures.SHORT_FILES: time_s})


@pytest.mark.parametrize(("rio_at_1_s", "verdict"), [(0.9, "holds"), (0.3, "fails"), (1.1, "fails")])
def test_mi_7_needs_a_gain_at_1_s_that_is_smaller_than_at_3_s(rio_at_1_s: float, verdict: str) -> None:
    assert judged(STUDY.claims, "MI-7", short_files(0.5, rio_at_1_s)).verdict == verdict


@pytest.mark.parametrize(("rio", "verdict"), [(0.3, "holds"), (0.8, "fails")])
def test_mi_14_compares_gains_one_way_and_both_ways(rio: float, verdict: str) -> None:
    both_ways = runs(two_way, {measures.SHORT_FILES: times(rio, 1.0, 1.0)})
    assert judged(STUDY.claims, "MI-14", short_files(0.5, 0.5), (two_way, both_ways)).verdict == verdict


@pytest.mark.parametrize(
    ("red_short", "rio_long", "verdict"),
    [(0.998, 104_500.0, "holds"), (0.98, 104_500.0, "fails"), (0.998, 90_000.0, "fails")],
)
def test_mi_1_has_the_bands_of_table_1_but_for_drop_tail(
    red_short: float, rio_long: float, verdict: str
) -> None:
    short = {"RED": red_short, "RIO-PS": 0.998, "Drop Tail": 0.1}
    found = {
        measures.DEMAND_MET: lambda labels, seed: short[labels["queue"]] + 0.001 * seed,
        measures.CLASSES["long"]: times(rio_long, 104_000.0, 112_000.0),
    }
    assert judged(STUDY.claims, "MI-1.2", (table_1.table_1, runs(table_1.table_1, found))).verdict == verdict


@pytest.mark.parametrize(("beyond", "verdict"), [(3.0, "holds"), (0.5, "fails")])
def test_mi_4_asks_for_more_growth_beyond_3_percent_of_loss_than_before(beyond: float, verdict: str) -> None:
    def time_s(labels: Any, seed: int) -> float:
        loss = labels["loss"]
        return (1 + loss + (beyond - 1) * max(loss - 0.03, 0.0)) * (1 + 0.001 * seed)

    found = dict.fromkeys(measures.TRANSFER_TIME.values(), time_s)
    rises = {measures.VARIATION[10]: lambda labels, seed: labels["loss"] * (1 + 0.01 * seed)}
    assert judged(STUDY.claims, "MI-4.2", (random_loss, runs(random_loss, found | rises))).verdict == verdict


def test_the_search_prints_every_set_up_below_the_published_goodput_nearest_first() -> None:
    def goodput(name: str) -> Any:
        def packets(labels: Any, seed: int) -> float:
            nearest = (labels["rtt_ms"], labels["buffer"]) == (160, 0.5)
            theirs = table_1.PUBLISHED[labels["speed"], labels["queue"]][name]
            return theirs * (1.02 if nearest else 1.1)

        return packets

    made = runs(table_1.table_1_search, {measures.CLASSES[name]: goodput(name) for name in ("short", "long")})
    found = {table_1.table_1_search.name: made}
    distances = table_1.search(found)
    patterns = len(table_1.table_1_search.values("pattern"))
    assert distances["RTT (ms)"].to_list()[: patterns + 1].count(160) >= patterns
    off = distances["off, Drop Tail (%)"].to_list()
    assert off == pytest.approx([2.0] * patterns + [10.0] * (len(off) - patterns))
    table = table_1.search_goodput(found)
    assert table.height == 2 * (1 + distances.height)
    assert table["short flows"].to_list()[0] == "published"
    assert table["Drop Tail, short"].to_list()[:2] == [40_973, round(1.02 * 40_973)]
    assert table["RIO-PS, long"].to_list()[1 + distances.height] == 133_164


def test_the_laws_of_the_threshold_are_judged_by_the_margins_of_mi_12() -> None:
    ratios = dict(zip(LAWS, (1.2, 1.0, 1.04, 0.9), strict=True))

    def time_s(labels: Any, seed: int) -> float:
        rio = ratios[labels["law"]] if labels["queue"] == "RIO-PS" else 1.0
        return rio * (1 + 0.01 * seed)

    alike = {measures.GOODPUT: 1e6, measures.MEAN_QUEUE: 50.0}
    edge = {measures.MEAN_THRESHOLD: 30.0, measures.PACKETS_LONG: 25.0}
    found = runs(exp_2_laws, {measures.RESPONSE: time_s, **alike, **edge})
    (table,) = (one.tabulates({exp_2_laws.name: found}) for one in STUDY.tables if one.id == "exp-2-laws")
    assert table["law of L_t"].to_list() == list(LAWS) * 2
    assert table["MI-12.3"].to_list() == ["fails", "holds", "holds", "holds"] * 2
    assert table["mean L_t (packets)"].to_list() == [30] * 8


def test_the_laws_in_the_main_grid_are_runs_of_the_variants() -> None:
    def digests(sweep: Any) -> set[str]:
        return {sweep.scenario_of(point).digest for point in sweep.points()}

    varied = [exp_2.sweep("varied", variant.change) for variant in STUDY.all_variants]
    there = set().union(digests(exp_2.sweep("varied")), *map(digests, varied))
    laws = exp_2_laws.sweep("full")
    assert digests(laws) <= there
    assert laws.replications == varied[0].replications


@pytest.mark.parametrize(
    ("short", "long", "verdict"), [(0.9, 0.9, "holds"), (0.6, 0.9, "fails"), (0.9, 0.5, "fails")]
)
def test_mi_8_compares_jains_index_of_batches(short: float, long: float, verdict: str) -> None:
    found = {measures.SHORT_JAIN: times(short, 0.7, 0.6), measures.LONG_JAIN: times(long, 0.8, 0.8)}
    assert judged(STUDY.claims, "MI-8", (exp_1, runs(exp_1, found))).verdict == verdict


def test_relative_times_are_ratios_of_the_same_bins() -> None:
    def bins(labels: Any, seed: int) -> list[list[float]]:
        time_s = {"RED": 3.0, "RIO-PS": 2.0}.get(labels["queue"], 1.0) * (1 + 0.1 * seed)
        return [[10.0, 10.0 * time_s, 50.0, 0.0]] * len(measures.SIZE_BINS)

    variable = exp_1[measures.BINS].at(ITO="3 s")
    results = {exp_1.name: runs(exp_1, {measures.BINS: bins})}
    relative = web.relative_times(variable, "RIO-PS")
    red = means(relative, results, "queue", "packets").filter(pl.col("queue") == "RED")
    assert red["value"].to_list() == pytest.approx([1.5] * len(measures.SIZE_BINS))
    assert red["low"].to_list() == pytest.approx(red["value"].to_list())


def test_the_mean_of_a_part_of_a_run_counts_each_file_once() -> None:
    settling = [[10.0, 30.0, 20.0, 20.0], [10.0, 90.0, 20.0, 60.0]]
    warm_up_s = 2 * measures.SETTLING_STEP_S
    assert web.mean_of_part(0, 0.5).compute(settling, warm_up_s) == pytest.approx(2.5)
    assert web.mean_of_part(0.5, 1).compute(settling, warm_up_s) == pytest.approx(2.0)


def test_the_drop_functions_are_those_of_table_3() -> None:
    (figure,) = (one for one in STUDY.figures if one.id == "drop-functions")
    check_drop_functions(
        figure.draws({}).table,
        ("short packets", 74, 0.0),
        ("short packets", 125, 0.025),
        ("long packets", 125, 0.1 * 50 / 175),
        ("long packets", 249, 0.1 * 174 / 175),
        ("short packets", 350, 1.0),
        ("long packets", 500, 1.0),
    )


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    """Experiment 1, cut to a few short runs, all the way to the page."""
    quick = Form(seeds=2, axes={"ITO": ("3 s",)}, changes=lasting(260))
    drawn = ("6a", "7a", "7b", "8a", "9b", "settling", "threshold", "largest")
    wanted = {*drawn, "exp-1-ito-3", "warm-up", "largest-table"}
    chosen = dataclasses.replace(
        STUDY,
        experiments=(dataclasses.replace(exp_1, quick=quick, varied=None),),
        figures=tuple(figure for figure in STUDY.figures if figure.id in wanted),
        tables=tuple(table for table in STUDY.tables if table.id in wanted),
        claims=tuple(
            dataclasses.replace(claim, figures=())
            for claim in STUDY.claims
            if claim.id in ("MI-5.2", "MI-11.2")
        ),
        answer=lambda found: [],
        decisions=(),
    )
    result = study.run(chosen, tmp_path, quick=True)
    check_result(result, figures=len(drawn))
