"""The comparison with public L4S runs: the translation of their set-up, and the comparison of medians."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import agreement
import data
import l4s_fabric
import l4s_namespaces
import l4s_path
from judge import Quantity
from l4s_fabric import Cell

CELL = Cell(
    other_cc="cubic",
    other_ecn="none",
    prague_fallback="0",
    rtt_ms="10",
    queue="fifo",
    threshold_ms="5",
    n_bdp="2",
)
GOODPUT = Quantity(name="goodput", share=0.05)


def test_every_recorded_row_has_a_case() -> None:
    names = [case.name for case in agreement.all_cases() if case.name.startswith("l4s ")]
    assert len(names) == len(set(names)) == 90 + 120 + 72 + 12 + 5 + 18
    cells = {name: l4s_fabric.recorded_cells(name) for name in ("two_flow", "many_flow")}
    assert {name: len(found) for name, found in cells.items()} == {"two_flow": 90, "many_flow": 120}
    assert {len(trials) for found in cells.values() for trials in found.values()} == {10}


def test_a_recorded_delay_is_the_smoothed_round_trip_without_the_path() -> None:
    trials = l4s_fabric.recorded(replace(CELL, threshold_ms=""))
    assert l4s_path.mean([run["l4s_mbps"] for run in trials]) == pytest.approx(54.357, abs=0.001)
    assert l4s_path.mean([run["other_queue_ms"] for run in trials]) == pytest.approx(14.816, abs=0.001)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("fifo", {"kind": "drop-tail", "limit": "250000B"}),
        ("step_single", {"limit": "167p", "flow_limit": "167p", "orphan_mask": 0, "ce_threshold": "5ms"}),
        ("pie_drop", {"limit": "167p", "target": "5ms"}),
        ("codel_ecn", {"kind": "codel", "ecn": True, "target": "5ms"}),
        ("fq_codel_l4s", {"ce_threshold": "1ms", "ce_threshold_selector": 1, "ce_threshold_mask": 1}),
        ("dualpi2", {"kind": "dualpi2", "target": "5ms"}),
    ],
)
def test_a_queue_has_the_parameters_of_its_tc_line(queue: str, expected: dict[str, object]) -> None:
    translated = l4s_fabric.queue(replace(CELL, queue=queue))
    assert translated.items() >= expected.items()
    assert "limit" in translated or queue == "dualpi2"


@pytest.mark.parametrize("queue", sorted({cell.queue for cell in l4s_fabric.recorded_cells("two_flow")}))
def test_every_queue_of_the_testbed_is_accepted(queue: str) -> None:
    l4s_fabric.scenario(replace(CELL, queue=queue), offset_ms=10)


def test_every_queue_of_the_namespaces_is_accepted() -> None:
    for case in l4s_namespaces.cases():
        assert len(case.jobs()) == l4s_namespaces.REPEATS


def test_the_round_trip_is_split_in_halves_and_the_other_flows_begin_later() -> None:
    effective = l4s_fabric.scenario(replace(CELL, rtt_ms="2"), offset_ms=12.5).effective
    assert {
        effective["links"][f"{way}-{side}"]["delay"] for way in ("to-router", "back") for side in "ab"
    } == {"1ms"}
    assert effective["traffic"]["a"]["start"] == "0s"
    assert effective["traffic"]["b"]["start"] == "12500us"


@pytest.mark.parametrize(
    ("control", "ecn", "expected"),
    [
        ("cubic", "none", {"congestion_control": {"kind": "cubic"}}),
        (
            "cubic",
            "ecn",
            {"congestion_control": {"kind": "cubic"}, "ecn": {"mode": "on", "feedback": "classic"}},
        ),
        (
            "bbrv3",
            "ecn_low",
            {
                "congestion_control": {"kind": "bbr3", "profile": "linux", "ecn": "low"},
                "ecn": {"mode": "on", "feedback": "dctcp"},
            },
        ),
    ],
)
def test_the_other_flows_negotiate_ecn_as_recorded(
    control: str, ecn: str, expected: dict[str, object]
) -> None:
    assert l4s_fabric.other_tcp(replace(CELL, other_cc=control, other_ecn=ecn)) == expected


def test_without_ecn_cubic_fills_a_step_queue_and_with_ecn_prague_does() -> None:
    cell = replace(CELL, queue="step_single")
    shares = []
    for ecn in ("none", "ecn"):
        scenario = l4s_fabric.scenario(replace(cell, other_ecn=ecn), offset_ms=10)
        run = scenario.with_({"duration": "15s", "warm_up": "5s", "record.senders": []}).run(seed=1)
        rates = l4s_path.goodput_mbps(run, "a"), l4s_path.goodput_mbps(run, "b")
        shares.append(rates[0] / sum(rates))
    assert shares[0] < 0.1
    assert shares[1] > 0.8


def test_a_quantity_with_two_modes_is_compared_by_its_median() -> None:
    scattered = [10.0, 11.0, 10.5, 9.5, 10.2, 49.0, 50.0, 51.0, 50.5, 49.5]
    same = l4s_path.of_trials("c", [GOODPUT], [{"goodput": x} for x in scattered], [{"goodput": 50.0}] * 8)
    assert [(row.verdict, row.note) for row in same] == [("compatible", "medians")]
    beyond = l4s_path.of_trials("c", [GOODPUT], [{"goodput": x} for x in scattered], [{"goodput": 90.0}] * 8)
    assert beyond[0].verdict == "miss"
    assert not l4s_path.has_modes([50.0, 50.5, 51.0, 49.5, 50.2, 49.8, 50.6, 50.1, 49.6, 50.3])


def test_the_experiments_change_the_receivers_of_prague_and_its_growth() -> None:
    cell = next(iter(l4s_fabric.recorded_cells("two_flow")))
    (acks,) = l4s_fabric.cell_case(cell, 1).causes
    receivers = acks.again.jobs()[0].scenario.effective["traffic"]
    assert receivers["a"]["tcp"]["receiver"]["delayed_ack"] == "off"
    assert receivers["b"]["tcp"]["receiver"]["delayed_ack"] == "adaptive"
    for case in l4s_namespaces.cases():
        changed = [cause.again.jobs()[0].scenario.effective["traffic"] for cause in case.causes]
        controls = [flows[side]["tcp"]["congestion_control"] for flows in changed for side in flows]
        dependent = [
            control["rtt_independence"] is False for control in controls if control["kind"] == "prague"
        ]
        assert all(dependent)
        assert bool(dependent) == ("prague" in case.name)


def test_the_tables_have_no_rows_of_senders_or_queues_that_aqmlab_lacks() -> None:
    others = {
        row["other_cc"] for name in ("two_flow", "many_flow") for row in data.rows(name, l4s_path.WHERE)
    }
    assert others == {"cubic", "bbrv1", "bbrv3"}
    assert {row["queue"] for row in data.rows("heistp_s1", l4s_path.WHERE)} <= l4s_namespaces.QUEUES.keys()
