"""Google Congestion Control beside str0m: the record's phases, the settings, and some cases."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import agreement
import gcc_phases
from gcc_phases import Phase, Values

ALL = [(section, maximum) for maximum, sections in gcc_phases.SECTIONS.items() for section in sections]


def test_every_phase_has_five_repetitions_and_a_flow_of_the_run() -> None:
    for section, maximum in ALL:
        recorded = gcc_phases.recorded(section, maximum)
        assert recorded and {len(values) for values in recorded.values()} == {5}, section
    in_5_8 = {(phase.flow, phase.begin, phase.end) for phase in gcc_phases.recorded("5.8", 1500)}
    assert in_5_8 == {(flow, *times) for flow in "012" for times in ((0, 40), (40, 60), (60, 120))}


def test_the_overhead_of_a_packet_explains_the_recorded_rate_at_the_maximum() -> None:
    # A packet of audio every 20 ms has 80 B.
    audio = 8 * 50 * (80 + gcc_phases.OVERHEAD)
    most = max(gcc_phases.recorded("5.4", 1500)[Phase(flow="0", begin=0, end=20)]).rate
    assert most == pytest.approx((gcc_phases.ip_rate(1.5e6) + audio) / 1e3, rel=0.01)


def test_scenarios_have_the_settings_of_the_record() -> None:
    given = gcc_phases.scenario_of("5.3", 1500, {}).effective
    limits = [link["queue"]["limit"] for link in (given["bottleneck"], given["bottleneck"]["reverse"])]
    assert limits == ["37500B", "37500B"]
    given = gcc_phases.scenario_of("5.8", 4000, {"control": {"kind": "gcc", "probing": False}}).effective
    for number in (1, 2, 3):
        media = given["traffic"][f"media-{number}"]
        assert media["max_rate"] == f"{gcc_phases.ip_rate(4e6):.0f}bps" and media["audio"] == "opus-32"
        assert media["control"]["probing"] is False


def test_flows_have_the_names_of_the_record() -> None:
    run = gcc_phases.scenario_of("5.6", 1500, {"start": "5s"}).with_({"duration": "20s"}).run(seed=1)
    phases = [Phase(flow="tcp", begin=0, end=10), Phase(flow="0", begin=0, end=10)]
    found = gcc_phases.values(run, phases)
    tcp, media = (found[phase].rate for phase in phases)
    assert math.isnan(found[phases[0]].delay) and 50 < found[phases[1]].delay < 400
    # Before 5 s, TCP is alone.
    assert tcp > media > 300 and tcp + media == pytest.approx(2000, rel=0.05)


def test_a_sum_is_judged_where_flows_compete_and_each_flow_elsewhere() -> None:
    phases = [Phase(flow=flow, begin=0, end=40) for flow in ("0", "1")]
    theirs = {
        phase: [Values(one, 60.0), Values(other, 80.0)]
        for phase, one, other in zip(phases, (100.0, 200.0), (102.0, 198.0), strict=True)
    }
    ours = [
        {phases[0]: Values(rate, 90.0), phases[1]: Values(301.0 - rate, math.nan)} for rate in (150.0, 151.0)
    ]
    shared = [one.row("a") for one in gcc_phases.series("5.4", theirs, ours)]
    assert [(row.quantity, row.verdict) for row in shared] == [
        ("sum, 0 to 40 s", "equivalent"),
        ("flow 0, 0 to 40 s", "printed"),
        ("flow 1, 0 to 40 s", "printed"),
    ]
    assert (shared[0].theirs, shared[0].ours) == (300.0, 301.0)
    assert gcc_phases.series("5.4", theirs, ours)[0].delays == (70.0, 90.0)
    alone = [one.row("a") for one in gcc_phases.series("5.3", theirs, ours)]
    assert [row.verdict for row in alone] == ["miss", "miss"]


def test_5_1_does_not_miss_and_stands_on_the_page() -> None:
    case = gcc_phases.phases_case("5.1", 1500)
    measured = [job() for job in case.jobs()]
    assert {row.verdict for row in case.judge(measured)} <= {"equivalent", "compatible"}
    page = gcc_phases.PAGE.read_text(encoding="utf-8")
    for line in gcc_phases.table("5.1", 1500, measured):
        assert line in page, "python reference/gcc_phases.py --update-page"


def test_without_probes_5_3_misses() -> None:
    wrong = gcc_phases.phases_case(
        "5.3", 1500, seeds=4, changes={"control": {"kind": "gcc", "probing": False}}
    )
    verdicts = {row.quantity: row.verdict for row in agreement.compare([replace(wrong, causes=())])}
    assert verdicts["flow 0, 0 to 20 s"] == verdicts["flow 1, 0 to 35 s"] == "miss"


def test_the_table_replaces_the_lines_between_the_marks() -> None:
    text = f"a\n{gcc_phases.BEGIN}old\n{gcc_phases.END}b\n"
    renewed = gcc_phases.page(["| new |"], text)
    assert (
        "old" not in renewed
        and renewed.startswith(f"a\n{gcc_phases.BEGIN}| Case |")
        and renewed.endswith(f"{gcc_phases.END}b\n")
    )
    assert "| --- |\n| new |\n" in renewed
