"""Report cards: measures of a run, the room of queues, words for intervals, and pages from values."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from aqmlab import stats
from aqmlab.cli.app import app
from aqmlab.measures import View
from aqmlab.metrics.waits import passages, waits
from aqmlab.report_card import Characterisation, Values, measures, pages, parameters, queues, tables, values
from aqmlab.report_card.characterisation import MARGIN, word
from aqmlab.report_card.experiments import SECTIONS, congesting, parameter_experiment
from aqmlab.report_card.network import DOWN, DROP_TAIL, room_of, scenario
from aqmlab.report_card.properties import OVERVIEW, PROPERTIES
from aqmlab.report_card.queues import EQUAL, NO_CARD, SHIPPED
from aqmlab.report_card.report import render
from aqmlab.scenario import Scenario
from aqmlab.scenario.catalog import members

ROOT = Path(__file__).parent.parent
TWO = {"codel": {"kind": "codel"}, "red": {"kind": "red"}}


def test_every_measure_of_every_section_is_found_with_every_value_of_its_axes() -> None:
    for section in SECTIONS:
        experiment = section.experiment(TWO, EQUAL) if section.refusal(TWO["red"], EQUAL) is None else None
        experiment = experiment or section.experiment({"codel": TWO["codel"]}, EQUAL)
        sweep = experiment.sweep("quick")
        scenarios = {point.said: sweep.scenario_of(point) for point in sweep.points()}
        assert len({one.digest for one in scenarios.values()}) == len(scenarios), section.number
        # With the last values all workloads are there.
        run = list(scenarios.values())[-1].run(seed=1)
        found = {one.name: one.of(View(run)) for one in experiment.measures}
        assert all(value is not None for value in found.values()), (section.number, found)


def test_every_comparison_is_of_a_measure_that_its_section_has() -> None:
    known = {one.number: {measure.name for measure in one.measures} for one in SECTIONS}
    varied = parameter_experiment(TWO)
    assert varied is not None
    known[values.PARAMETERS] = {measure.name for measure in varied.measures}
    for one in PROPERTIES:
        for compared in one.compared:
            for name in (*compared.measures, *filter(None, [compared.against])):
                assert f"{measures.PREFIX}{name}" in known[compared.section], (one.name, name)
    assert set(OVERVIEW) < {one.name for one in PROPERTIES}


def test_waits_are_those_of_single_packets_and_fit_the_mean_of_the_link() -> None:
    table = scenario(
        {"long": {"kind": "ftp", "flows": 4}, "web": {"kind": "web", "load": 0.3}}, duration_s=30.0
    )
    run = Scenario.from_dict(table, name="waits").run(seed=3)
    waited = waits(run)
    row = run.tables["links"].filter(pl.col("link") == DOWN)
    assert waited["wait_s"].min() == 0.0
    assert waited["wait_s"].mean() == pytest.approx(row["mean_queue_delay_s"][0], rel=0.02)
    by_traffic = waited.group_by("traffic").len()
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
    waited = waits(_run(rows, flows=2))["wait_s"].to_list()
    assert waited == [0.25, 0.0, 0.0, 0.5, 0.0, 1.0, 0.75]
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
        if (why := values.room_refusal(table, EQUAL)) is not None
    }
    # PI holds 200 packets with its defaults, which 84 packets of room do not allow.
    assert set(refused) == {"pi", "pisa", "pimc"}
    assert all("q_ref" in why for why in refused.values())
    assert all(values.room_refusal(table, SHIPPED) is None for table in queues.every_kind().values())


def test_a_queue_holds_no_more_than_its_equal_room() -> None:
    flood = scenario({"datagrams": {"kind": "udp", "rate": "30Mbps"}}, duration_s=4.0, warm_up_s=1.0)
    for kind in ("drop-tail", "cake", "linux-red", "fq-codel", "fq", "drr", "dualpi2"):
        table = queues.axis({kind: {"kind": kind}}, EQUAL)[kind](Scenario.from_dict(flood, name="f").given)
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
    assert "`htb` gets no report card" in str(refused.exception)
    assert "give the kind of a leaf" in str(refused.exception)


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
    ("ratios", "better", "expected"),
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
def test_the_interval_of_the_ratio_decides_the_word(ratios: list[float], better: str, expected: str) -> None:
    ours = [20 * one for one in ratios]
    assert word(ours, [20.0] * len(ours), better=better) == expected


def test_values_are_alike_up_to_the_ends_of_the_margin() -> None:
    ratios = (1 / MARGIN - 0.01, 1 / MARGIN + 0.01, MARGIN - 0.01, MARGIN + 0.01)
    found = [word([20.0 * one] * 3, [20.0] * 3, better="less") for one in ratios]
    assert found == ["better", "alike", "alike", "worse"]


def test_small_delays_are_alike_within_the_time_of_a_packet_and_zeros_have_no_ratio() -> None:
    ours, theirs = [1.5, 1.6, 1.7], [1.0, 1.1, 1.2]
    assert word(ours, theirs, better="less") == "worse"
    assert word(ours, theirs, better="less", floor=1.2) == "alike"
    assert word([0.0, 0.0], [0.0, 0.0], better="less") == "alike"
    assert word([0.4, 0.5, 0.6], [0.0] * 3, better="less") == "worse"
    assert word([0.0, 0.0, 0.6], [0.0] * 3, better="less") == "undecided"


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


def _short(*numbers: str) -> list:
    return [
        dataclasses.replace(one, scenario={**one.scenario, "duration": "12s", "warm_up": "2s"})
        for one in SECTIONS
        if one.number in numbers
    ]


def test_cards_are_drawn_from_values_that_a_file_keeps(tmp_path: Path) -> None:
    some = {name: {"kind": name} for name in ("codel", "pi", DROP_TAIL)}
    measured, failures = values.measure(
        some, tmp_path / "out", replications=3, sections=_short("4.4", "4.5", "8.2.3")
    )
    assert failures == ()
    assert measured.cards == ["codel", "drop-tail", "pi"]
    written = pages.write(measured, tmp_path)
    assert [path.name for path in written] == ["index.md", "codel.md", "drop-tail.md", "pi.md"]
    kept = Values.read(tmp_path / values.FILE)
    assert kept.frame.equals(measured.frame)
    assert (kept.queues, kept.refused, kept.runs) == (measured.queues, measured.refused, measured.runs)

    found = Characterisation(kept)
    codel, drop_tail, pi = found.cards
    by_name = {one.property.name: one for one in codel.findings}
    assert set(by_name["queueing delay"].words(EQUAL)) == {"better"}
    delay = by_name["queueing delay"].rows[0].cells[EQUAL]
    assert delay.reference is not None and delay.ratio is not None
    assert delay.ratio.value == pytest.approx(delay.value.value / delay.reference.value, rel=1e-6)
    assert "Drop Tail's" in by_name["queueing delay"].rows[0].scenario
    # Parameters are compared with the queue's own defaults, ECN with the same queue without.
    assert {row.scenario for row in by_name["parameters"].rows} >= {"target at half", "interval at double"}
    assert by_name["ECN"].rows[0].cells[EQUAL].reference is not None
    # Drop Tail with equal room is what others are compared with, so only its other column has words.
    own = {one.property.name: one for one in drop_tail.findings}
    assert own["queueing delay"].words(EQUAL) == {}
    assert set(own["queueing delay"].words(SHIPPED)) <= {"worse", "undecided"}
    assert "ECN" not in own
    assert list(pi.rooms) == [SHIPPED]
    assert any("cannot have Drop Tail's room" in note and "q_ref" in note for note in pi.notes)

    card = (tmp_path / "codel.md").read_text(encoding="utf-8")
    words = " ".join(card.split())
    assert "3 replications of each scenario" in words and "level 95 %" in words
    assert '- **Equal room**: `limit = "84p"`' in card and "](codel.svg)" in card
    index = written[0].read_text(encoding="utf-8")
    assert f"| Queue | {' | '.join(OVERVIEW)} |" in index
    assert [line.split(" |")[0] for line in index.splitlines() if line.startswith("| ")][2:] == [
        "| codel",
        "| drop-tail",
        "| pi \\*",
    ]
    page = render(found)
    assert '<h2 id="codel">' in page and "data:image/svg+xml" in page
    assert all(one.property.about.replace("*", "").split("(")[0][:40] in page for one in codel.findings)
    shown = tables.details(by_name["losses"])
    assert shown.head == (
        *("RFC 7928", "Scenario", "Measure", "Drop Tail"),
        *("Equal room", "Equal room: ratio", "As shipped", "As shipped: ratio"),
    )
    assert all(len(row) == len(shown.head) for row in shown.rows)


def test_a_file_without_values_is_refused(tmp_path: Path) -> None:
    other = tmp_path / values.FILE
    pl.DataFrame({"value": [1.0]}).write_parquet(other)
    with pytest.raises(ValueError, match="no values of report cards"):
        Values.read(other)
    with pytest.raises(ValueError, match="no values of report cards"):
        Values.read(tmp_path / "missing.parquet")


def test_a_table_of_another_queue_cannot_take_the_name_of_drop_tail(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rename the table"):
        values.measure({DROP_TAIL: {"kind": "red"}}, tmp_path, replications=2)


def test_the_table_of_the_documentation_is_that_of_its_values() -> None:
    folder = ROOT / "docs" / "report-cards"
    found = Characterisation(Values.read(folder / values.FILE))
    assert (folder / "index.md").read_text(encoding="utf-8") == pages.overview(found)
