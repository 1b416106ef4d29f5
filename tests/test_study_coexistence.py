"""The study `coexistence`: the recorded runs, the claims that follow from them, and the measures of short
runs."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import polars as pl
import pytest
from study_checks import check_every_scenario, check_variants

from aqmlab import studies
from aqmlab.measures import View
from aqmlab.results.table import Results, Row
from aqmlab.scenario import Scenario
from aqmlab.studies import coexistence
from aqmlab.studies.coexistence import measures as m
from aqmlab.studies.coexistence import network as net
from aqmlab.studies.coexistence import recorded
from aqmlab.studies.coexistence.recorded import Cell
from aqmlab.study.publication import Judged, Reading, Verdicts

ROOT = Path(__file__).parent.parent
CELLS = {coexistence.claim_id(cell): cell for cell in recorded.cells()}


def test_the_study_is_registered() -> None:
    assert studies.load("coexistence") is coexistence.STUDY


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(coexistence.STUDY)
    check_variants(coexistence.STUDY)


def test_the_recorded_runs_are_those_of_the_reference() -> None:
    """All cells with a buffer of two bandwidth-delay products, in the same order."""

    def key(row: dict[str, str], *names: str) -> tuple[str, ...]:
        return tuple(row.get(name, "1") for name in names)

    kept = (
        "other_cc",
        "other_ecn",
        "prague_fallback",
        "rtt_ms",
        "queue",
        "trial",
        "other_flows",
        "other_mbps",
    )
    theirs = []
    for name in ("two_flow", "many_flow"):
        with gzip.open(ROOT / f"reference/l4s/{name}.csv.gz", "rt") as file:
            rows = [row for row in csv.DictReader(file) if row["n_bdp"] == str(net.BUFFER_BDP)]
        theirs += [key(row, *kept, "l4s_flows", "l4s_mbps", "l4s_srtt_ms", "other_srtt_ms") for row in rows]
    with (ROOT / "python/aqmlab/studies/data/coexistence_fabric.csv").open() as file:
        names = (*kept, "prague_flows", "prague_mbps", "prague_srtt_ms", "other_srtt_ms")
        ours = [key(row, *names) for row in csv.DictReader(file)]
    assert ours == theirs


def test_the_grid_has_114_cells_of_ten_trials() -> None:
    assert len(CELLS) == 114
    assert {len(cell.shares) for cell in CELLS.values()} == {10}
    for name, experiment in coexistence.EXPERIMENTS.items():
        points = {tuple(point.labels.values()) for point in experiment.sweep("full").points()}
        assert {tuple(one.labels.values()) for one in CELLS.values() if one.experiment == name} == points


def test_the_shares_of_a_cell() -> None:
    fifo = CELLS["cubic-fifo"]
    assert fifo.shares[0] == pytest.approx(100 * 56.996 / (56.996 + 39.003))
    assert (fifo.known.value, fifo.deviation) == pytest.approx((56.9, 3.8), abs=0.05)
    assert fifo.band == pytest.approx((49.2, 64.6))
    assert CELLS["1x10-fifo"].fair == pytest.approx(100 / 11)


def cell(*shares: float, spread_mbps: float = 1.0) -> Cell:
    return replace(CELLS["cubic-fifo"], shares=shares, spread_mbps=spread_mbps)


def test_the_band_is_the_interval_and_five_points() -> None:
    low, high = cell(60.0, 62.0, 61.0, 61.0).band or (0.0, 0.0)
    half = 3.182 * stdev((60.0, 62.0, 61.0, 61.0)) / 2
    assert (low, high) == pytest.approx((61 - half - 5, 61 + half + 5), abs=0.06)
    assert cell(60.0, 62.0, 61.0, 61.0, spread_mbps=5.1).band is None


@pytest.mark.parametrize(
    ("shares", "spread_mbps", "sign"),
    [
        ((53.0, 53.1, 53.2), 1.0, 1),
        ((47.0, 46.9, 46.8), 1.0, -1),
        ((51.8, 51.9, 52.0), 1.0, 0),
        ((40.0, 70.0, 70.0), 1.0, 0),
        ((51.0, 80.0, 90.0), 20.0, 1),
        ((3.0, 49.0, 48.0), 20.0, -1),
        ((49.0, 80.0, 90.0), 20.0, 0),
    ],
)
def test_a_sign_is_claimed_if_the_records_have_it(
    shares: tuple[float, ...], spread_mbps: float, sign: int
) -> None:
    assert cell(*shares, spread_mbps=spread_mbps).sign == sign


def test_cells_with_several_modes_have_a_claim_of_the_sign_or_none() -> None:
    assert [id for id, one in CELLS.items() if one.is_bimodal] == [
        "bbr1-fifo",
        "bbr3-codel-ecn",
        "bbr3-fq-step",
    ]
    assert coexistence.WITHOUT_CLAIM == ("bbr1-fifo", "bbr3-fq-step")
    (claim,) = (one for one in coexistence.CLAIMS if one.id == "bbr3-codel-ecn")
    assert claim.rule.text.endswith("must be above 50")


def test_each_claim_tells_its_origin() -> None:
    assert {one.origin for one in coexistence.CLAIMS} == {"ours"}
    assert all(
        "aqmlab derived this claim from the ten recorded trials" in one.source for one in coexistence.CLAIMS
    )
    for one in coexistence.CLAIMS:
        found = CELLS[one.id]
        numbers = (
            (min(found.shares), max(found.shares))
            if found.is_bimodal
            else (found.known.value, found.deviation)
        )
        assert all(f"{number:.1f}" in one.statement for number in numbers)


def shifted(points: float) -> Results:
    """The recorded trials of two flows, with other shares."""
    theirs = recorded.results()[recorded.PAIRS]
    rows = [
        Row(labels=row.labels, seed=row.seed, values={**row.values, m.SHARE.name: row[m.SHARE] + points})
        for row in theirs.rows
    ]
    return Results.of_rows(rows, theirs.axes)


def test_the_claims_hold_of_the_recorded_runs_and_fail_of_others() -> None:
    assert {one.rule.judge(recorded.results()).verdict for one in coexistence.CLAIMS} == {"holds"}
    pairs = [one for one in coexistence.CLAIMS if CELLS[one.id].experiment == recorded.PAIRS]
    for points in (40.0, -40.0):
        found = {one.id: one.rule.judge({recorded.PAIRS: shifted(points)}).verdict for one in pairs}
        wrong_sign = CELLS["bbr3-codel-ecn"].known.value + points < 50
        assert found.pop("bbr3-codel-ecn") == ("fails" if wrong_sign else "holds")
        failed = {id for id, verdict in found.items() if verdict == "fails"}
        assert failed == {id for id in found if _outside(CELLS[id], points)}


def _outside(one: Cell, points: float) -> bool:
    """Whether the claim excludes shifted shares. Bands that begin below 0 or end above 100 have one end."""
    low, high = one.band or (0.0, 0.0)
    value = one.known.value + points
    if low <= 0:
        return value > high
    return value < low or (value > high and high < 100)


def test_the_answer_counts_verdicts_and_signs() -> None:
    claims = [one for one in coexistence.CLAIMS if one.id in ("cubic-fifo", "cubic-step", "cubic-fq-codel")]
    results = {recorded.PAIRS: shifted(10.0)}
    found = Verdicts(
        Judged(claim=one, reading=Reading(name=""), evidence=one.rule.judge(results)) for one in claims
    )
    assert coexistence.answer(found) == [
        "0 of 3 cells have the recorded share.",
        "Prague is on the recorded side of the fair share in 2 of 2 cells.",
        "Not confirmed: cubic-step, cubic-fq-codel.",
        "Undecided: cubic-fifo.",
    ]


def test_recorded_means_are_shown_with_their_standard_deviation() -> None:
    shown = recorded.with_deviation(coexistence.pairs[m.SHARE].at(other=net.CUBIC))
    (found,) = (one for labels, one in shown.find({}) if labels["queue"] == net.FIFO)
    shares = CELLS["cubic-fifo"].shares
    assert (found.value, found.half_width) == pytest.approx((fmean(shares), stdev(shares)))


def test_figures_show_recorded_means_beside_ours_for_all_cells() -> None:
    """Drawn from shifted records in place of aqmlab's runs."""
    results = {**recorded.results(), recorded.PAIRS: shifted(7.0)}
    figures = {one.id: one.draws(results).table for one in coexistence.STUDY.figures}
    bars = {id: table.height for id, table in figures.items()}
    assert sum(height for id, height in bars.items() if id.startswith("shares")) == 2 * len(CELLS)
    assert sum(height for id, height in bars.items() if id.startswith("delays")) == 4 * len(CELLS)
    cubic = figures["shares-cubic"].filter(other=net.CUBIC, queue="CoDel\n+ECN")
    mean = CELLS["cubic-codel-ecn"].known.value
    assert dict(zip(cubic["source"], cubic["value"], strict=True)) == pytest.approx(
        {"aqmlab": mean + 7, "recorded": mean}
    )


def test_the_tables_have_a_row_for_each_cell() -> None:
    tables = [one.tabulates(recorded.results()) for one in coexistence.STUDY.tables]
    assert sum(table.height for table in tables) == len(CELLS)
    first = tables[0].row(0, named=True)
    assert (first["other"], first["queue"], first["share (%), recorded"]) == ("CUBIC", "FIFO", "56.9 ± 3.8")


def test_buffers_have_two_bandwidth_delay_products() -> None:
    assert net.buffer_bytes(10) == 250_000
    assert [net.queues(rtt_ms)[net.CODEL]["limit"] for rtt_ms in (10, 2)] == ["167p", "34p"]


@pytest.fixture(scope="module")
def short() -> View:
    """A run of 3 s behind a FIFO."""
    return View(Scenario.from_dict(net.scenario(10) | {"duration": "3s"}, name="short").run(seed=1))


def test_measures_of_a_short_run(short: View) -> None:
    flows = short.run.tables["flows"]
    rates = dict(zip(flows["traffic"].to_list(), flows["goodput_bps"].to_list(), strict=True))
    assert m.GOODPUT.of(short) == pytest.approx(sum(rates.values()) / 1e6)
    assert m.SHARE.of(short) == pytest.approx(100 * rates[net.PRAGUE] / sum(rates.values()))
    assert 10 < m.PRAGUE_SRTT.of(short) < 10 + 8 * 250_000 / 1e5 + 2


def test_the_smoothed_round_trip_is_that_of_the_first_flow_at_the_given_times(short: View) -> None:
    rows = short.run.tables["senders"].filter(pl.col("traffic").cast(pl.String) == net.OTHER)
    at_2_s = rows.filter(rows["time_s"] <= 2)["srtt_s"].drop_nulls()[-1]
    assert m.srtt_ms(short.run, net.OTHER, [2.0]) == pytest.approx(1000 * at_2_s)
    assert m.srtt_ms(short.run, net.OTHER, [0.0, 2.0]) == pytest.approx(1000 * at_2_s)
    assert m.srtt_ms(short.run, net.OTHER, [0.0]) is None


def test_without_goodput_there_is_no_share() -> None:
    assert m.share(0.0, 0.0) is None
    assert m.share(1.0, 3.0) == 25
