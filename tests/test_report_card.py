"""Report cards: what is measured of a run, what fits a queue to a line, and that every section runs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from aqmlab import report_card, stats, study
from aqmlab.measure import View
from aqmlab.report_card import measures, network, pages
from aqmlab.report_card.experiments import SECTIONS, congesting
from aqmlab.report_card.network import DOWN, DROP_TAIL
from aqmlab.scenario import Scenario

TWO = {"red": {"kind": "red"}, "drr": {"kind": "drr"}}


def test_every_measure_of_every_section_is_found_with_every_value_of_its_axes() -> None:
    for section in SECTIONS:
        experiment = section.experiment(network.queues(TWO))
        sweep = experiment.sweep("quick")
        scenarios = {point.said: sweep.scenario_of(point) for point in sweep.points()}
        assert len({one.digest for one in scenarios.values()}) == len(scenarios), section.number
        # With the last values all workloads are there.
        run = list(scenarios.values())[-1].run(seed=1)
        found = {one.name: one.of(View(run)) for one in experiment.measures}
        assert all(value is not None for value in found.values()), (section.number, found)


def test_waits_are_those_of_single_packets_and_fit_the_mean_of_the_link() -> None:
    table = network.scenario(
        {"long": {"kind": "ftp", "flows": 4}, "web": {"kind": "web", "load": 0.3}}, duration_s=30.0
    )
    run = Scenario.from_dict(table, name="waits").run(seed=3)
    waits = measures.waits(run)
    row = run.tables["links"].filter(pl.col("link") == DOWN)
    assert waits["wait_s"].min() == 0.0
    assert waits["wait_s"].mean() == pytest.approx(row["mean_queue_delay_s"][0], rel=0.02)
    by_traffic = waits.group_by("traffic").len()
    assert set(by_traffic["traffic"]) == {"long", "web"}


def test_a_packet_that_is_sent_again_waits_from_when_it_joined_last() -> None:
    rows = [(1.0, "enqueue"), (1.5, "drop"), (2.0, "enqueue"), (2.25, "start"), (3.0, "start")]
    rows += [(4.0, "enqueue"), (4.5, "drop"), (5.0, "start")]
    packets = pl.DataFrame(
        {
            "time_s": [time for time, _ in rows],
            "event": [event for _, event in rows],
            "link": DOWN,
            "flow": 0,
            "backward": False,
            "sequence_bytes": [0, 0, 0, 0, 1448, 2896, 2896, 2896],
        }
    )

    run = SimpleNamespace(
        tables={"packets": packets, "flows": pl.DataFrame({"flow": [0], "traffic": ["long"]})},
        manifest={"scenario": {"warm_up": "0s", "duration": "10s"}},
    )
    waits = measures.waits(run)
    # What finds no packet that joined, or one that was dropped, went to the line at once.
    assert waits["wait_s"].to_list() == [0.25, 0.0, 0.0]


def test_a_queue_gets_the_room_of_drop_tail_where_it_can() -> None:
    assert network.fitted({"kind": "red"}, "83p", "10Mbps") == {"kind": "red", "limit": "83p"}
    assert network.fitted({"kind": "red", "limit": "30p"}, "83p", "10Mbps")["limit"] == "30p"
    # PI holds 200 packets as it comes, and SHRED's limit is RED's.
    assert network.fitted({"kind": "pi"}, "83p", "10Mbps") == {"kind": "pi"}
    assert network.fitted({"kind": "shred"}, "83p", "10Mbps") == {"kind": "shred"}
    assert network.buffer() == "84p"


def test_a_queue_marks_where_its_parameter_allows_most() -> None:
    assert network.with_ecn({"kind": "red"}) == {"kind": "red", "ecn": "always"}
    assert network.with_ecn({"kind": "drop-tail"}) is None
    assert network.with_ecn({"kind": "sfq"}) is None, "marks come with a RED for each flow"


def test_congestion_is_that_of_the_rfc() -> None:
    # S = 83.3 packets of path and 84 of buffer.
    assert [congesting(word) for word in ("mild", "medium", "heavy")] == [6, 14, 19]


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


def test_every_requirement_has_a_verdict_for_each_queue_and_a_line_on_its_card(tmp_path: Path) -> None:
    made = report_card.report_card(TWO | {DROP_TAIL: {"kind": DROP_TAIL}})
    assert [one.name for one in made.readings] == ["red", "drr"]
    for claim in made.claims:
        # Fair queueing by itself never marks.
        marking = ["red"] if claim.id == "4.5 ecn" else ["red", "drr"]
        assert [one.name for one in made.readings_of(claim)] == marking, claim.id
    with pytest.raises(ValueError, match="beside drop-tail"):
        report_card.report_card({DROP_TAIL: {"kind": DROP_TAIL}})


def test_a_card_is_written_for_each_queue_and_a_table_over_all(tmp_path: Path) -> None:
    short = {"duration": "12s", "warm_up": "2s"}
    sections = [
        dataclasses.replace(one, scenario={**one.scenario, **short})
        for one in SECTIONS
        if one.number in ("5.1.1", "5.2")
    ]
    result = study.run(report_card.report_card(TWO, sections), tmp_path / "out", quick=True)
    assert result.failures == ()
    written = pages.write(result, tmp_path / "pages")
    assert {path.name for path in (tmp_path / "pages").iterdir()} - {path.name for path in written} == {
        "red.svg",
        "drr.svg",
    }
    assert [path.name for path in written] == ["index.md", "red.md", "drr.md"]
    overview = written[0].read_text(encoding="utf-8")
    assert "| Queue | ✓ | ✗ | 5.1.1 delay | 5.1.1 goodput | 5.2 delay | 5.2 goodput |" in overview
    card = written[1].read_text(encoding="utf-8")
    assert card.count("| **5.") == 4
    assert "| long: goodput (Mb/s) | symmetric |" in card
    assert "](red.svg)" in card and "of 3 replications" in card
