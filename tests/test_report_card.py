"""Report cards: measures of a run, the room of queues, words for intervals, and pages from values."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from aqmlab import stats
from aqmlab.cli.app import app
from aqmlab.measures import Measure, View
from aqmlab.metrics.waits import passages, waits
from aqmlab.report_card import Card, estimates, measures, of_card, pages, parameters, queues, study, tables
from aqmlab.report_card.card import MARGIN, word
from aqmlab.report_card.estimates import over
from aqmlab.report_card.experiments import PARAMETERS, SECTIONS, Section, congesting
from aqmlab.report_card.measures import named
from aqmlab.report_card.network import DOWN, DROP_TAIL, room_of, scenario
from aqmlab.report_card.properties import OVERVIEW, PROPERTIES, Better
from aqmlab.report_card.queues import EQUAL, NO_CARD, REFERENCE, SHIPPED
from aqmlab.scenario import Scenario
from aqmlab.scenario.catalog import members
from aqmlab.study import StudyResult, run_study
from aqmlab.study import values as study_values

ROOT = Path(__file__).parent.parent
CODEL = {"kind": "codel"}


def test_every_measure_of_every_section_is_found_where_its_workload_is() -> None:
    for section in SECTIONS:
        # In 25 s after the longest warm-up, every workload sends.
        brief = dataclasses.replace(section, scenario={**section.scenario, "duration": "45s"})
        experiment = brief.experiment(CODEL)
        assert experiment is not None
        sweep = experiment.sweep("quick")
        scenarios = {point.description: sweep.scenario_of(point) for point in sweep.points()}
        # With the last values all workloads are there.
        run = list(scenarios.values())[-1].run(seed=1)
        found = {one.name: one.of(View(run)) for one in experiment.wanted}
        assert all(value is not None for value in found.values()), (section.number, found)


def test_workloads_that_an_axis_takes_away_are_compared_where_they_are() -> None:
    (bursts,) = (one for one in SECTIONS if one.number == "7.2")
    assert bursts.labels_of("film") == {"case": ["case III", "case IV"]}
    assert bursts.labels_of("pages") == bursts.labels_of(measures.ALL) == {}


def test_every_comparison_is_of_a_measure_that_its_section_has() -> None:
    card = Card("codel", CODEL)
    for one in PROPERTIES:
        for compared in one.compared:
            wanted = [named(name) for name in (*compared.measures, *filter(None, [compared.against]))]
            known = {measure.name for measure in card.experiments[compared.section].wanted}
            names = {measure.name if isinstance(measure, Measure) else measure for measure in wanted}
            assert names <= known, one.name
    assert set(OVERVIEW) < {one.name for one in PROPERTIES}


def test_waits_are_those_of_single_packets_and_fit_the_mean_of_the_link() -> None:
    table = scenario(
        {"long": {"kind": "ftp", "flows": 4}, "web": {"kind": "web", "load": 0.3}}, duration_s=30.0
    )
    run = Scenario.from_dict(table, name="waits").run(seed=3)
    found = waits(run)
    row = run.tables["links"].filter(pl.col("link") == DOWN)
    assert found["wait_s"].min() == 0.0
    assert found["wait_s"].mean() == pytest.approx(row["mean_queue_delay_s"][0], rel=0.02)
    by_traffic = found.group_by("traffic").len()
    assert set(by_traffic["traffic"]) == {"long", "web"}


def _run(rows: list[tuple[float, str, int, int]], flows: int = 1) -> SimpleNamespace:
    """A run of which only events of packets at a link are known: time, event, flow and sequence number."""
    packets = pl.DataFrame(
        {
            "time_s": [time for time, *_ in rows],
            "event": [event for _, event, _, _ in rows],
            "link": DOWN,
            "flow": [flow for *_, flow, _ in rows],
            "backward": False,
            "sequence_bytes": [sequence for *_, sequence in rows],
        }
    )
    return SimpleNamespace(
        tables={
            "packets": packets,
            "flows": pl.DataFrame({"flow": list(range(flows)), "traffic": ["long"] * flows}),
        },
        manifest={"scenario": {"warm_up": "0s", "duration": "10s"}},
    )


def test_a_packet_that_is_sent_again_waits_from_when_it_joined_last() -> None:
    rows = [(1.0, "enqueue", 0, 0), (1.5, "drop", 0, 0), (2.0, "enqueue", 0, 0), (2.25, "start", 0, 0)]
    rows += [(3.0, "start", 0, 1448)]
    rows += [(4.0, "enqueue", 0, 2896), (4.5, "drop", 0, 2896), (5.0, "start", 0, 2896)]
    # Lost behind this link: the packet goes to the line at once when it comes again.
    rows += [(6.0, "enqueue", 0, 4344), (6.5, "start", 0, 4344), (7.0, "start", 0, 4344)]
    # Two packets of one number wait: a SYN and the first data, say.
    rows += [(8.0, "enqueue", 1, 0), (8.5, "enqueue", 1, 0), (9.0, "start", 1, 0), (9.25, "start", 1, 0)]
    passed = passages(_run(rows, flows=2))
    # What finds no packet that joined, or one that was dropped, went to the line at once.
    found = waits(_run(rows, flows=2))["wait_s"].to_list()
    assert found == [0.25, 0.0, 0.0, 0.5, 0.0, 1.0, 0.75]
    assert passed.filter("lost").select("arrived_s", "time_s").rows() == [(1.0, 1.5), (4.0, 4.5)]


def test_loss_patterns_are_those_of_flows_in_the_order_of_arrival() -> None:
    rows = []
    for place, (flow, lost) in enumerate([(0, 1), (0, 1), (1, 0), (0, 0), (1, 1), (0, 0), (0, 1)]):
        rows.append((1.0 + 0.03 * place, "drop" if lost else "start", flow, 1448 * place))
    found = measures._of_losses(passages(_run(rows, flows=2)))
    # Flow 0 loses two packets in a row, then one; flow 1 one: four losses in three runs.
    assert found["run"] == pytest.approx(4 / 3)
    # Losses at 0, 30, 120 and 180 ms: two events of 100 ms, of one flow and of both.
    assert found["synchronisation"] == pytest.approx(100 * (1 / 2 + 2 / 2) / 2)
    assert found["gap"] == pytest.approx(60.0)
    assert measures._of_losses(passages(_run([(1.0, "start", 0, 0)]))) == {}


def test_equal_room_is_the_same_number_of_full_packets_for_every_queue() -> None:
    assert room_of() == 84
    assert queues.with_room({"kind": "red"}, 84) == {"kind": "red", "limit": "84p"}
    assert queues.with_room({"kind": "red", "limit": "30p"}, 84)["limit"] == "84p"
    assert queues.with_room({"kind": "linux-red"}, 84)["limit"] == "126000B"
    assert queues.with_room({"kind": "cake"}, 84)["memlimit"] == "193536B"
    assert queues.with_room({"kind": "shred"}, 84) == {"kind": "shred", "red": {"limit": "84p"}}
    assert [one["limit"] for one in queues.with_room({"kind": "gred"}, 84)["vqs"]] == ["126000B"] * 3
    # A batch of 64 would take half of the buffer.
    assert queues.with_room({"kind": "fq-codel"}, 84)["drop_batch"] == 1
    assert queues.with_room({"kind": "fq-codel"}, 10_240)["drop_batch"] == 64


def test_every_queue_has_the_equal_room_or_a_reason() -> None:
    refused = {
        name: why
        for name, table in queues.every_kind().items()
        if (why := queues.room_refusal(table, EQUAL)) is not None
    }
    # PI holds 200 packets with its defaults, which 84 packets of room do not allow.
    assert set(refused) == {"pi", "pisa", "pimc"}
    assert all("q_ref" in why for why in refused.values())
    assert all(queues.room_refusal(table, SHIPPED) is None for table in queues.every_kind().values())


def test_a_queue_holds_no_more_than_its_equal_room() -> None:
    flood = scenario({"datagrams": {"kind": "udp", "rate": "30Mbps"}}, duration_s=4.0, warm_up_s=1.0)
    for kind in ("drop-tail", "cake", "linux-red", "fq-codel", "fq", "drr", "dualpi2"):
        table = queues.at_every_link({"kind": kind}, EQUAL)(Scenario.from_dict(flood, name="f").given)
        table["record"]["queue_every"] = "1ms"
        run = Scenario.from_dict(table, name=kind).run(seed=1)
        longest = run.tables["queue"].filter(pl.col("link") == DOWN)["length_packets"].max()
        assert isinstance(longest, int) and longest <= room_of(), kind


def test_a_queue_marks_where_its_parameter_allows_most() -> None:
    assert queues.with_ecn({"kind": "red"}) == {"kind": "red", "ecn": "always"}
    assert queues.with_ecn({"kind": "shred"}) == {"kind": "shred", "red": {"ecn": "always"}}
    assert queues.with_ecn({"kind": "drop-tail"}) is None
    assert queues.with_ecn({"kind": "sfq"}) is None, "marks come with a RED for each flow"
    # These mark without a parameter that says so.
    assert queues.with_ecn({"kind": "cake"}) == {"kind": "cake"}
    assert queues.with_ecn({"kind": "dualpi2"}) == {"kind": "dualpi2"}


def test_kinds_that_manage_no_queue_get_no_card_and_a_reason() -> None:
    kinds = {one.name for one in members("queues")}
    assert set(NO_CARD) < kinds
    assert set(queues.every_kind()) == kinds - set(NO_CARD)
    refused = CliRunner().invoke(app, ["report-card", "htb"])
    assert isinstance(refused.exception, ValueError)
    assert "`htb` has no report card" in str(refused.exception)
    assert "name the kind of a leaf" in str(refused.exception)


def test_congestion_is_that_of_the_rfc() -> None:
    # S = 83.3 packets of path and 84 of buffer.
    assert [congesting(word) for word in ("mild", "medium", "heavy")] == [6, 14, 19]


def test_main_parameters_are_varied_to_half_and_double() -> None:
    found = parameters.variants({"kind": "codel"}, "10Mbps").tables
    assert found["target at half"] == {"kind": "codel", "target": "2.5ms"}
    assert found["interval at double"] == {"kind": "codel", "interval": "200ms"}
    red = parameters.variants({"kind": "red", "min_th": "20p"}, "10Mbps").tables
    assert red["min_th and max_th at half"] == {"kind": "red", "min_th": "10p", "max_th": "45p"}
    pie = parameters.variants({"kind": "pie"}, "10Mbps")
    assert "must be a multiple" in pie.refused["beta at double"]
    # Its thresholds follow from the limit here, and half of a limit's default would be no half.
    linux_red = parameters.variants({"kind": "linux-red", "limit": "100kB"}, "10Mbps")
    assert set(linux_red.refused) == {"max"}
    assert set(parameters.MAIN) == set(queues.every_kind()), "a kind without a main parameter, or none such"


@pytest.mark.parametrize(
    ("ratios", "better", "said"),
    [
        ([0.5, 0.52, 0.51], "less", "better"),
        ([0.5, 0.52, 0.51], "more", "worse"),
        ([0.5, 0.52, 0.51], "", "less"),
        ([0.99, 1.01, 1.0], "less", "alike"),
        # Different from 1 for sure, and by less than the margin.
        ([1.04, 1.05, 1.06], "less", "alike"),
        ([0.7, 1.4, 1.0], "less", "undecided"),
        ([2.0], "less", "undecided"),
    ],
)
def test_the_interval_of_the_ratio_decides_the_word(ratios: list[float], better: Better, said: str) -> None:
    assert _word([20 * one for one in ratios], [20.0] * len(ratios), better) == said


def _word(ours: list[float], theirs: list[float], better: Better = "less", floor: float = 0.0) -> str:
    pairs = list(zip(ours, theirs, strict=True))
    return word(over(pairs), over(pairs, floor=floor), better)


def test_values_are_alike_up_to_the_ends_of_the_margin() -> None:
    ratios = (1 / MARGIN - 0.01, 1 / MARGIN + 0.01, MARGIN - 0.01, MARGIN + 0.01)
    found = [_word([20.0 * one] * 3, [20.0] * 3) for one in ratios]
    assert found == ["better", "alike", "alike", "worse"]


def test_small_delays_are_alike_within_the_time_of_a_packet_and_zeros_have_no_ratio() -> None:
    ours, theirs = [1.5, 1.6, 1.7], [1.0, 1.1, 1.2]
    assert _word(ours, theirs) == "worse"
    assert _word(ours, theirs, floor=1.2) == "alike"
    assert _word([0.0, 0.0], [0.0, 0.0]) == "alike"
    assert _word([0.4, 0.5, 0.6], [0.0] * 3) == "worse"
    assert _word([0.4, 0.5, 0.6], [0.0] * 3, floor=1.2) == "alike"
    assert _word([0.0, 0.0, 0.6], [0.0] * 3) == "undecided"
    assert _word([], []) == "undecided"


CALM, COLLAPSED = [7.4, 7.5, 7.6, 7.7, 7.8, 7.45, 7.55, 7.65], [1.8, 1.6, 1.4, 1.7, 1.9, 1.5, 1.3, 1.2]


@pytest.mark.parametrize("collapsed", [1, 2, 4, 6, 7])
def test_runs_that_fall_into_groups_have_a_median_in_place_of_a_mean(collapsed: int) -> None:
    ours = COLLAPSED[:collapsed] + CALM[collapsed:]
    found = estimates.mean(ours)
    assert found.median
    assert (found.value, found.low, found.high) == (sorted(ours)[3], min(ours), max(ours))
    ratio = estimates.ratio(ours, CALM)
    least = min(a / b for a, b in zip(ours, CALM, strict=True))
    assert (ratio.median, ratio.low, ratio.high) == (True, least, 1.0)
    # The interval reaches from the worst run to the best one, so no word follows.
    assert _word(ours, CALM, "more") == "undecided"


def test_runs_in_one_group_have_the_mean_and_the_interval_of_student() -> None:
    for runs in (CALM, COLLAPSED, [9.56] * 8, [0.0, 0.0, 0.0, 1.0, 4.0, 0.0, 2.0, 9.0], []):
        found, mean = estimates.mean(runs), stats.mean_interval(runs)
        assert not found.median and (found.count, str(found)) == (mean.count, str(mean))
    assert estimates.ratio(CALM, COLLAPSED) == stats.paired_ratio(CALM, COLLAPSED)
    assert estimates.difference(CALM, CALM[::-1]) == stats.paired_difference(CALM, CALM[::-1])


def test_values_that_rounding_made_equal_are_tested_for_groups() -> None:
    found = estimates.mean([60.97, 61.1, 61.17, 97.77, 97.81, 97.81, 97.89, 97.95])
    assert (found.median, found.value, found.low, found.high) == (True, 97.77, 60.97, 97.95)
    # Rounded values of one group stay in one group.
    assert not estimates.mean([9.561, 9.562, 9.562, 9.562, 9.563, 9.563, 9.564, 9.565]).median


def test_an_ellipse_is_the_normal_distribution_of_its_points() -> None:
    rng = np.random.default_rng(1)
    points = rng.multivariate_normal([10.0, 5.0], [[4.0, 1.5], [1.5, 1.0]], 20_000)
    (part, *centre), *contour = stats.ellipse([tuple(one) for one in points])
    assert part == "centre"
    assert centre == pytest.approx([10.0, 5.0], abs=0.05)
    xs, ys = (np.array([one[place] for one in contour]) for place in (1, 2))
    assert (xs.max() - xs.min(), ys.max() - ys.min()) == pytest.approx((4.0, 2.0), rel=0.03)
    assert stats.ellipse([(1.0, 2.0), (math.nan, 1.0)]) == [("centre", 1.0, 2.0)]
    assert stats.ellipse([]) == []


def _short(*numbers: str) -> tuple[Section, ...]:
    return tuple(
        dataclasses.replace(one, scenario={**one.scenario, "duration": "12s", "warm_up": "2s"})
        for one in SECTIONS
        if one.number in numbers
    )


def _measured(kind: str, out: Path, **more: Any) -> tuple[Card, StudyResult]:
    card = Card(kind, {"kind": kind}, 3, _short("4.4", "4.5", "8.2.3"))
    return card, run_study(of_card(card), out / kind, store_at=out / "store", jobs=2, **more)


def test_the_card_of_a_queue_is_a_study(tmp_path: Path) -> None:
    card, result = _measured("codel", tmp_path)
    assert result.failures == () and result.level == 0.95
    assert all(isinstance(frame, pl.DataFrame) for _, frame in result.tables)
    assert result.drawn[0].chart is not None
    assert set(result.verdicts) == {
        *(f"{id}-{room}" for room in ("equal-room", "as-shipped") for id in _ids(card) - {"parameters"}),
        "parameters",
    }
    assert result.verdicts["queueing-delay-equal-room"] == "holds"
    assert result.verdicts["bias-by-packet-size-equal-room"] in ("fails", "undecided")
    assert not [one for one in result.judged if one.evidence.measured.startswith("could not")]
    assert not [part for one in result.judged for part in one.evidence.parts if part.lacks]

    read = pages.read(tmp_path / "codel" / study_values.FILE, card)
    assert read.replications == 3
    by_name = {one.property.name: one for one in card.findings(read.results)}
    assert set(by_name["queueing delay"].words(EQUAL)) == {"better"}
    delay = by_name["queueing delay"].rows[0].cells[EQUAL]
    assert delay.reference is not None and delay.ratio is not None
    assert delay.ratio.value == pytest.approx(delay.value.value / delay.reference.value, rel=1e-6)
    assert "Drop Tail's" in by_name["queueing delay"].rows[0].scenario
    # Parameters are compared with the queue's own defaults, ECN with the same queue without.
    assert {row.scenario for row in by_name["parameters"].rows} >= {"target at half", "interval at double"}
    assert by_name["ECN"].rows[0].cells[EQUAL].reference is not None
    shown = tables.details(by_name["losses"])
    assert shown.columns == [
        *("RFC 7928", "Scenario", "Measure", REFERENCE),
        *("Equal room", "Equal room: ratio", "As shipped", "As shipped: ratio"),
    ]
    page = pages.page(read)
    words = " ".join(page.split())
    assert "3 replications of each scenario" in words and "level 95 %" in words
    assert '- **Equal room**: `limit = "84p"`' in page and "](codel.svg)" in page


def _ids(card: Card) -> set[str]:
    return {one.id for one in card.properties}


def test_one_property_needs_its_runs_only_and_queues_share_those_of_drop_tail(tmp_path: Path) -> None:
    _, result = _measured("codel", tmp_path, claims=("losses",))
    assert set(result.verdicts) == {"losses-equal-room", "losses-as-shipped"}
    # Drop Tail and both columns on both lines, three replications.
    assert result.provenance["runs"] == 3 * 2 * 3
    _, drawn = _measured("codel", tmp_path, figures=("losses", "ellipses"))
    assert drawn.provenance["runs"] == 3 * 2 * 3
    _, other = _measured("red", tmp_path, claims=("losses",))
    assert other.provenance["timing"]["main runs"]["made now"] == 2 * 2 * 3


def test_drop_tail_is_compared_with_nothing_where_it_is_what_others_are_compared_with(tmp_path: Path) -> None:
    card, result = _measured(DROP_TAIL, tmp_path)
    assert "queueing-delay-equal-room" not in result.verdicts
    assert "queueing-delay-as-shipped" in result.verdicts
    assert "bias-by-packet-size-equal-room" in result.verdicts
    assert "ECN" not in _ids(card), "Drop Tail marks nothing"
    read = pages.read(tmp_path / DROP_TAIL / study_values.FILE, card)
    own = {one.property.name: one for one in read.findings}
    assert own["queueing delay"].words(EQUAL) == {}
    assert set(own["queueing delay"].words(SHIPPED)) <= {"worse", "undecided"}


def test_a_queue_without_the_equal_room_has_its_defaults_and_a_note() -> None:
    card = Card("pi", {"kind": "pi"}, 3, _short("4.4", "8.2.3"))
    assert list(card.columns) == [SHIPPED] and card.main_room == SHIPPED
    assert any("cannot have Drop Tail's room" in note and "q_ref" in note for note in card.notes())
    equal, shipped = of_card(card).readings
    assert set(equal.leaves_out) == _ids(card) - {"parameters"}
    assert shipped.leaves_out == {}


def test_pages_are_drawn_from_published_values(tmp_path: Path) -> None:
    kept = ROOT / "docs" / "report-cards" / pages.VALUES
    made = [(Card(kind, {"kind": kind}), kept / f"{kind}.parquet") for kind in ("codel", DROP_TAIL)]
    index = pages.write(made, tmp_path)
    text = index.read_text(encoding="utf-8")
    words_of, numbers = text.split("Numbers of one scenario")
    assert [line.split(" |")[0] for line in words_of.splitlines() if line.startswith("| ")][2:] == [
        "| codel",
        "| drop-tail",
    ]
    rows = [line.split(" | ") for line in numbers.splitlines() if line.startswith(("| codel", "| drop"))]
    assert [len(row) for row in rows] == [7, 7]
    assert rows[1][2] == rows[1][4] == "", "Drop Tail is not compared with itself"
    assert (tmp_path / "codel.md").exists() and (tmp_path / "codel.svg").exists()
    values = pl.read_parquet(tmp_path / pages.VALUES / "codel.parquet")["value"].to_list()
    assert values == [float(f"{one:.4g}") for one in values]
    assert pages.overview(pages.read_all(tmp_path)) == text


def test_a_file_without_values_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "codel.parquet"
    pl.DataFrame({"value": [1.0]}).write_parquet(other)
    with pytest.raises(ValueError, match="does not contain values of a report card"):
        pages.read(other)
    with pytest.raises(ValueError, match="does not contain values of a report card"):
        pages.read(tmp_path / "missing.parquet")


def test_a_property_that_a_card_lacks_is_refused_before_any_run(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["report-card", "codel", "--claim", "godput", "--out", str(tmp_path)])
    assert isinstance(refused.exception, KeyError) and "goodput" in str(refused.exception)
    assert not list(tmp_path.iterdir())


def test_every_card_is_a_study_whose_claims_have_points() -> None:
    for kind in queues.every_kind():
        made = study(kind, {"kind": kind})
        assert made.claims and all(made.readings_of(claim) or kind == DROP_TAIL for claim in made.claims), (
            kind
        )
        assert (f"rfc7928-{PARAMETERS}" in {one.name for one in made.experiments}) == bool(
            parameters.variants(queues.shipped({"kind": kind}), "10Mbps").tables
        )
