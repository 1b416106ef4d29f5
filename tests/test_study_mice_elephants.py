"""The study `mice-elephants`: its scenarios are accepted, its reductions and claims say what they should."""

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
    runs,
    together,
)

from aqmlab import metrics, study
from aqmlab.grid import Row, Runs
from aqmlab.scenario import Scenario
from aqmlab.studies import mice_elephants, mice_elephants_figures, mice_elephants_runs
from aqmlab.studies.latency_model import Path as NetworkPath
from aqmlab.studies.latency_model import latency

STUDY = mice_elephants.STUDY


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_the_grid_is_that_of_the_talk() -> None:
    sweeps = {sweep.name: sweep for sweep in STUDY.sweeps}
    assert tuple(sweeps["exp-1"].axes["ito"]) == (3, 1)
    assert (sweeps["exp-1"].seeds, sweeps["exp-2"].seeds) == (20, 20)
    table = sweeps["exp-1"].scenario(queue="RED", ito=3, end=4000)
    assert (table["duration"], table["warm_up"]) == ("4000s", "2000s")
    red = table["bottleneck"]["queue"]
    assert (red["min_th"], red["max_th"], red["limit"]) == ("75p", "250p", "500p")
    assert sweeps["exp-2"].scenario(queue="Drop Tail", files="long", end=4000)["bottleneck"]["queue"] == {
        "kind": "drop-tail",
        "limit": "180p",
    }


def test_every_figure_table_and_claim_of_the_talk_is_there() -> None:
    figures = {figure.id for figure in STUDY.figures}
    assert {"1a", "1b", "2", "6a", "6b", "7a", "7b", "8a", "8b", "9a", "9b", "drop-functions"} <= figures
    assert {"table-1", "table-1-search", "table-4", "parameters"} <= {table.id for table in STUDY.tables}
    assert [claim.id for claim in STUDY.claims] == [f"MI-{k}" for k in range(1, 15)]


def test_each_variant_changes_something_and_the_first_nothing() -> None:
    check_variants(STUDY)


def test_queues_meet_the_same_files() -> None:
    found = []
    for queue in mice_elephants_runs.QUEUES:
        table = mice_elephants_runs._exp_1(queue=queue, ito=3, end=40)
        transfers = Scenario.from_dict(table).run(seed=2).transfers
        web = transfers.filter(pl.col("traffic").cast(pl.String) == "web")
        found.append(web.sort("start_s").select("start_s", "size_bytes"))
    first, *others = found
    assert first.height > 1000
    for other in others:
        assert other.equals(first)


@pytest.fixture(scope="module")
def web_run() -> dict[str, Any]:
    table = mice_elephants_runs._exp_1(queue="RIO-PS", ito=3, end=260)
    run = Scenario.from_dict(table).run(seed=1)
    return {"run": run, "values": mice_elephants_runs.web_measures(run)}


def test_the_reduction_of_a_web_run_agrees_with_its_summary(web_run: dict[str, Any]) -> None:
    values, summary = web_run["values"], web_run["run"].summary
    web = summary["transfers"]["web"]
    assert (values["files"], values["unfinished"]) == (web["count"], web["unfinished"])
    assert values["response_s"] == pytest.approx(web["mean_s"])
    assert values["mean_active"] == pytest.approx(web["mean_active"])
    bins = np.array(values["bins"])
    assert bins[:, 0].sum() == web["count"]
    assert bins[:, 2].sum() / bins[:, 1].sum() == pytest.approx(web["mean_s"])
    flows = summary["flows"].values()
    packets = sum(flow["goodput_bps"] for flow in flows) * 130 / (8 * mice_elephants_runs.PACKET)
    assert values["goodput_packets"] == pytest.approx(packets)


def test_batches_are_told_apart_and_measured_after_the_warm_up(web_run: dict[str, Any]) -> None:
    short = web_run["values"]["short"]
    assert [batch[0] for batch in short] == pytest.approx([150.0, 175.0, 200.0, 225.0], abs=0.1)
    for _, mean_s, jain, slowest_s in short:
        assert 0.1 < mean_s <= slowest_s
        assert 0.1 <= jain <= 1.0


def test_the_edge_marks_no_packet_of_a_file_below_its_least_threshold_long() -> None:
    table = mice_elephants_runs._exp_1(queue="RIO-PS", ito=3, end=60)
    table["edges"]["left"] |= {"threshold_rule": "static", "threshold": 20, "expiry": None}
    run = Scenario.from_dict(table).run(seed=1)
    bins = mice_elephants_runs._by_size(run.transfers.filter(pl.col("segments") >= 4))
    below = [row for size, row in zip(mice_elephants_runs.SIZE_BINS[1:], bins, strict=False) if size <= 12]
    assert sum(row[4] for row in below) <= 0.01 * sum(row[3] for row in below)
    assert sum(row[4] for row in bins) > 0.3 * sum(row[3] for row in bins)


def test_losses_take_longer_and_the_model_of_a_round_agrees_with_the_packets() -> None:
    run = Scenario.from_dict(mice_elephants_runs._random_loss(loss=0.02)).run(seed=1)
    values = mice_elephants_runs.loss_measures(run)
    for size in mice_elephants_runs.TRANSFER_SIZES:
        model = latency(size, 0.02, NetworkPath())
        assert values[f"unfinished_{size}"] == 0
        assert values[f"mean_{size}"] == pytest.approx(model.mean_s, rel=0.2)
        assert values[f"variation_{size}"] == pytest.approx(model.variation, rel=0.4)


@pytest.mark.parametrize(("packets", "rounds"), [(2, 1), (6, 2), (14, 3), (100, 6)])
def test_without_losses_the_model_is_slow_start(packets: int, rounds: int) -> None:
    path = NetworkPath(rtt_s=0.1)
    found = latency(packets, 0.0, path, transfers=3)
    assert found.mean_s == pytest.approx(0.1 * (1 + rounds) - 0.05)
    assert found.variation == pytest.approx(0.0, abs=1e-12)


def test_the_model_of_one_packet_is_the_sum_of_its_back_offs() -> None:
    """Time-outs that double with each loss in a row, of the SYN from 3 s and of the packet from 1 s on."""
    path = NetworkPath(time_out_s=1.0)
    loss, kept = 0.1, 0.9
    syn = 3.0 * (kept / (1 - 2 * loss) - 1)
    # The back-off of a lost SYN is where the packet's time-outs begin.
    first = kept * 1.0 + 3.0 * (kept / (1 - 2 * loss) - kept)
    waits = loss * first * (2 * kept / (1 - 2 * loss) - 1)
    found = latency(1, loss, path, transfers=400_000)
    assert found.mean_s == pytest.approx(0.1 + syn + waits + 0.1 - 0.05, rel=0.02)


def test_the_largest_files_carry_most() -> None:
    sizes = np.array([1] * 90 + [91] * 10)
    assert metrics.carried_by_largest(sizes, (0.1, 0.5, 1.0)) == pytest.approx([0.91, 0.95, 1.0])
    assert math.isnan(metrics.carried_by_largest(np.array([]), (0.1,))[0])


def packets(order: list[tuple[str, int, int]]) -> pl.DataFrame:
    """Events of packets of 500 B by event, flow and first byte."""
    rows = [(event, flow, sequence, 500) for event, flow, sequence in order]
    return pl.DataFrame(rows, schema=["event", "flow", "sequence_bytes", "size_bytes"], orient="row")


def test_overtaking_is_seen_within_a_flow_and_not_between_flows() -> None:
    came = [("enqueue", 1, 0), ("enqueue", 2, 0), ("enqueue", 1, 500), ("enqueue", 1, 0)]
    fair = [("start", 1, 0), ("start", 1, 500), ("start", 1, 0), ("start", 2, 0)]
    unfair = [("start", 1, 500), ("start", 1, 0), ("start", 2, 0), ("start", 1, 0)]
    assert mice_elephants_runs.overtaken(packets(came + fair)) == 0
    assert mice_elephants_runs.overtaken(packets(came + unfair)) == 1


def noisy(value: float) -> list[float]:
    """Three seeds about a value."""
    return [value, value * 1.01, value * 0.99]


def times(rio: float, red: float, drop_tail: float, **labels: Any) -> Runs:
    values = {"RIO-PS": rio, "RED": red, "Drop Tail": drop_tail}
    return runs({queue: {"short_file_s": noisy(value)} for queue, value in values.items()}, **labels)


@pytest.mark.parametrize(("rio", "verdict"), [(0.5, "holds"), (1.5, "fails"), (1.2, "fails")])
def test_mi_5_needs_rio_ps_faster_than_both(rio: float, verdict: str) -> None:
    assert mice_elephants.mi_5({"exp-1": times(rio, 1.0, 1.4, ito=3)}).verdict == verdict


@pytest.mark.parametrize(("rio_at_1", "verdict"), [(0.9, "holds"), (0.3, "fails"), (1.1, "fails")])
def test_mi_7_needs_a_gain_at_1_s_that_is_smaller_than_at_3_s(rio_at_1: float, verdict: str) -> None:
    found = together(times(0.5, 1.0, 1.0, ito=3), times(rio_at_1, 1.0, 1.0, ito=1))
    assert mice_elephants.mi_7({"exp-1": found}).verdict == verdict


@pytest.mark.parametrize(("rio", "verdict"), [(0.3, "holds"), (0.8, "fails")])
def test_mi_14_compares_gains_one_way_and_both_ways(rio: float, verdict: str) -> None:
    results = {"exp-1": times(0.5, 1.0, 1.0, ito=3), "two-way": times(rio, 1.0, 1.0)}
    assert mice_elephants.mi_14(results).verdict == verdict


def goodput(drop_tail_short: float, rio_long: float) -> dict[str, Runs]:
    parts = []
    for mbps in (1.25, 1.5):
        values = {
            "Drop Tail": {"short": drop_tail_short, "long": 112_000.0},
            "RED": {"short": 49_900.0, "long": 104_000.0},
            "RIO-PS": {"short": 49_900.0, "long": rio_long},
        }
        parts.append(
            runs({q: {k: [v, v + 20, v - 20] for k, v in m.items()} for q, m in values.items()}, mbps=mbps)
        )
    return {"table-1": together(*parts)}


def test_mi_1_has_the_bands_of_table_1() -> None:
    assert mice_elephants.mi_1(goodput(41_000.0, 104_500.0)).verdict == "holds"
    assert mice_elephants.mi_1(goodput(49_000.0, 104_500.0)).verdict == "fails"
    assert mice_elephants.mi_1(goodput(41_000.0, 90_000.0)).verdict == "fails"


def test_the_search_prints_every_set_up_below_the_published_goodput_nearest_first() -> None:
    def found(rtt_ms: int, factor: float) -> Runs:
        parts = []
        for (mbps, queue), theirs in mice_elephants_figures.PUBLISHED.items():
            values = {name: [factor * packets] for name, packets in theirs.items()}
            labels = {"mbps": mbps, "pattern": "some", "rtt_ms": rtt_ms, "buffer": 0.5}
            parts.append(runs({queue: values}, **labels))
        return together(*parts)

    results = {"table-1-search": together(found(40, 1.1), found(160, 1.02))}
    distances = mice_elephants_figures.search(results)
    assert distances["RTT (ms)"].to_list() == [160, 40]
    assert distances["off, Drop Tail (%)"].to_list() == pytest.approx([2.0, 10.0])
    table = mice_elephants_figures.search_goodput(results)
    assert table["short flows"].to_list() == ["published", "some", "some"] * 2
    assert table["RTT (ms)"].to_list() == [None, 160, 40] * 2
    assert table["Drop Tail, short"].to_list()[:3] == [40_973, round(1.02 * 40_973), round(1.1 * 40_973)]
    assert table["RIO-PS, long"].to_list()[3:] == [133_164, round(1.02 * 133_164), round(1.1 * 133_164)]


def test_the_laws_of_the_threshold_are_judged_by_the_bands_of_mi_12() -> None:
    def found(law: str, files: str, time: float) -> Runs:
        alike = {"goodput_packets": noisy(1e6), "mean_queue": noisy(50.0)}
        bins, threshold = [[[1.0, 1.0, 1.0, 8.0, 2.0]]] * 3, [[[10.0, 99.0, 5], [60.0, 30.0, 5]]] * 3
        values = {
            "RED": {"response_s": noisy(1.0), **alike},
            "RIO-PS": {"response_s": noisy(time), "bins": bins, "threshold": threshold, **alike},
        }
        return runs(values, law=law, files=files, end=100)

    laws = list(mice_elephants_runs.LAWS)
    times = dict(zip(laws, (1.2, 1.0, 1.04, 0.9), strict=True))
    results = {"exp-2-laws": together(*(found(law, "long", times[law]) for law in laws))}
    table = mice_elephants_figures._laws(results)
    assert table["law of L_t"].to_list() == laws
    assert table["MI-12"].to_list() == ["fails", "holds", "holds", "fails"]
    assert table["mean L_t (packets)"].to_list() == ["30"] * 4, "after the warm-up"
    assert table["packets that came as long (%)"].to_list() == ["25"] * 4


def test_the_laws_in_the_main_grid_are_runs_of_the_sensitivity_analysis() -> None:
    sweeps = {sweep.name: sweep for sweep in STUDY.sweeps}
    again = next(sweep for sweep in STUDY.sensitivity_sweeps if sweep.name == "exp-2")
    there = {
        Scenario.from_dict(variant.change(again.scenario(**labels))).digest
        for variant in STUDY.sensitivity
        for labels in again.points()
    }
    laws = sweeps["exp-2-laws"]
    assert {Scenario.from_dict(laws.scenario(**labels)).digest for labels in laws.points()} <= there
    assert (laws.reduce, laws.seeds, laws.quick_seeds) == (again.reduce, again.seeds, again.quick_seeds)


def batches(index: float) -> list[list[list[float]]]:
    return [[[100.0, 1.0, index * noise, 2.0]] * 4 for noise in (1.0, 1.01, 0.99)]


@pytest.mark.parametrize(("short", "long", "verdict"), [(0.9, 0.9, "holds"), (0.6, 0.9, "fails"),
                                                        (0.9, 0.5, "fails")])  # fmt: skip
def test_mi_8_compares_jains_index_of_batches(short: float, long: float, verdict: str) -> None:
    values = {
        "RIO-PS": {"short": batches(short), "long": batches(long)},
        "RED": {"short": batches(0.7), "long": batches(0.8)},
        "Drop Tail": {"short": batches(0.6), "long": batches(0.8)},
    }
    assert mice_elephants.mi_8({"exp-1": runs(values, ito=3)}).verdict == verdict


def test_relative_times_are_ratios_of_the_same_bins() -> None:
    def bins(time: float) -> list[list[list[float]]]:
        return [[[10.0, 10.0, 10.0 * time * noise, 50.0, 0.0]] * len(mice_elephants_runs.SIZE_BINS)
                for noise in (1.0, 1.1, 0.9)]  # fmt: skip

    found = mice_elephants_figures.relative_times(
        runs({"RED": {"bins": bins(3.0)}, "RIO-PS": {"bins": bins(2.0)}}), "RIO-PS"
    )
    red = found.filter(pl.col("queue") == "RED")
    assert red["value"].to_list() == pytest.approx([1.5] * len(mice_elephants_runs.SIZE_BINS))
    assert red["low"].to_list() == pytest.approx(red["value"].to_list())


def test_the_mean_of_a_part_of_a_run_counts_each_file_once() -> None:
    counts, sums = [10.0, 30.0, 20.0, 20.0], [10.0, 90.0, 20.0, 60.0]
    row = Row(labels={}, seed=1, values={"settling": [counts, sums]})
    step = mice_elephants_runs.SETTLING_BIN_S
    assert mice_elephants_figures.mean_of_short_files(row, 0.0, 2 * step) == pytest.approx(2.5)
    assert mice_elephants_figures.mean_of_short_files(row, 2 * step, 2 * step) == pytest.approx(2.0)


def test_the_drop_functions_are_those_of_table_3() -> None:
    table = mice_elephants_figures._drop_functions({}).table
    check_drop_functions(
        table,
        ("short packets", 74, 0.0),
        ("short packets", 125, 0.025),
        ("long packets", 125, 0.1 * 50 / 175),
        ("long packets", 249, 0.1 * 174 / 175),
        ("short packets", 350, 1.0),
        ("long packets", 500, 1.0),
    )


def test_a_small_study_runs_end_to_end_on_real_runs(tmp_path: Path) -> None:
    """Experiment 1, cut to a few short runs, all the way to the page."""

    def short(sweep: Any) -> Any:
        axes = {**sweep.axes, "end": (260,), "ito": (3,)}
        return dataclasses.replace(sweep, axes=axes, seeds=2, quick_axes={})

    tables = ("exp-1-ito-3", "warm-up", "largest-table")
    figures = ("6a", "7a", "7b", "8a", "9b", "settling", "threshold", "largest")
    chosen = dataclasses.replace(
        STUDY,
        sweeps=tuple(short(sweep) for sweep in STUDY.sweeps if sweep.name == "exp-1"),
        figures=tuple(figure for figure in STUDY.figures if figure.id in figures),
        tables=tuple(table for table in STUDY.tables if table.id in tables),
        claims=tuple(claim for claim in STUDY.claims if claim.id in ("MI-5", "MI-11")),
        answer=lambda evidence: [],
        sensitivity=(),
    )
    result = study.run(chosen, tmp_path)
    check_result(result, figures=len(figures))
