"""The comparison with recorded ns-2 runs: a part that is fast, and that its judge catches what is wrong."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import agreement
import data
import judge
import micro
import queueing
import scenario_a
from aqmlab.scenario import Scenario
from case import Case, Cause
from judge import Quantity, Row

PAIR = ([1.0, 1.01, 0.99, 1.0, 1.02], [1.001, 1.0, 1.02, 0.99, 1.01])


def verdicts(rows: list[Row]) -> dict[str, str]:
    return {row.quantity: row.verdict for row in rows}


@pytest.mark.parametrize("case", micro.cases(), ids=lambda case: case.name)
def test_micro_traces_agree_event_by_event(case: Case) -> None:
    rows = agreement.compare([case])
    assert set(verdicts(rows).values()) == {"agrees"}
    assert all(row.note in ("", "exact to the end") for row in rows)


def test_another_phase_of_the_clock_shifts_what_follows_the_first_timeout_and_nothing_before() -> None:
    scenario = Scenario.load(data.SCENARIOS / "micro-reno.toml")
    shifted = scenario.with_({"bottleneck.queue": scenario.queues["limit30"], "tcp.tick_phase": "1ms"})
    events, _ = micro.reno_trace(shifted.run())
    first = micro.first_timeout(micro.their_variables(30))
    rows = micro.judge_events("shifted", micro.their_events(30), events, first)
    assert verdicts(rows) == {
        "events in the same order": "agrees",
        "shift up to the first time-out (s)": "agrees",
        "largest shift (s)": "misses",
    }


def test_a_wrong_trace_misses() -> None:
    theirs = micro.their_events(10)
    late = [(time + (0.0001 if time > 1 else 0), event, number) for time, event, number in theirs]
    swapped = [*theirs[:100], *theirs[104:]]
    assert (
        verdicts(micro.judge_events("late", theirs, late, 9e9))["shift up to the first time-out (s)"]
        == "misses"
    )
    assert (
        verdicts(micro.judge_events("swapped", theirs, swapped, 9e9))["events in the same order"] == "misses"
    )
    assert set(verdicts(micro.judge_events("same", theirs, theirs, 9e9)).values()) == {"agrees"}


def test_a_small_case_of_permanent_flows_agrees_and_another_queue_does_not() -> None:
    rows = agreement.compare([scenario_a.ftp_case("red", 20, seeds=4)])
    assert "misses" not in verdicts(rows).values()
    ours = scenario_a.ftp_case("red_nowait", 20, seeds=4).jobs()
    measured = [job() for job in ours]
    wrong = verdicts(list(scenario_a.ftp_case("red", 20, seeds=4).judge(measured)))
    assert {"goodput_payload_mbps", "drop_frac", "mean_queue", "timeouts_per_flow"} <= {
        name for name, verdict in wrong.items() if verdict == "misses"
    }


def test_a_single_queue_agrees_with_its_formula_and_not_with_another() -> None:
    [row] = [row for row in data.rows("micro/mg1") if row["kind"] == "md1" and row["rho"] == "0.5"]
    case = queueing.queue_case(row, seeds=6)
    assert set(verdicts(agreement.compare([case])).values()) == {"agrees"}
    wrong = queueing.queue_case({**row, "theory_waiting_pkts": "0.27"}, seeds=6)
    assert set(verdicts(agreement.compare([wrong])).values()) == {"misses"}


def test_the_interval_of_the_difference_must_meet_the_band() -> None:
    theirs, ours = PAIR
    for rule in (judge.independent, judge.paired):
        assert rule("", Quantity(name="near"), theirs, [1.02 * value for value in ours]).verdict == "agrees"
        far = rule("", Quantity(name="far"), theirs, [1.2 * value for value in ours])
        assert far.verdict == "misses" and far.difference == pytest.approx(0.2, abs=0.01)
    assert judge.single("", Quantity(name="near"), 1.0, ours).verdict == "agrees"
    assert judge.single("", Quantity(name="far"), 1.1, ours).verdict == "misses"
    assert judge.single("", Quantity(name="far", judged=False), 1.1, ours).verdict == "printed"
    assert judge.independent("", Quantity(name="floor", floor=0.5), theirs, [1.4] * 5).verdict == "agrees"


def test_the_misses_that_chance_gives_follow_from_the_width_of_the_interval() -> None:
    theirs, ours = PAIR
    tight = judge.independent("", Quantity(name="tight"), theirs, ours)
    wide = judge.independent("", Quantity(name="wide"), [0.5, 1.5, 1.0, 0.2], [1.9, 0.1, 1.0, 1.2])
    assert tight.chance < 1e-3 and not tight.wide
    assert 0.01 < wide.chance < 0.06 and wide.wide


def miss(case: str = "case") -> Row:
    return judge.exact(case, "quantity", 1.0, 2.0, 0.1)


def test_a_miss_without_a_cause_fails_and_one_with_a_cause_does_not() -> None:
    agrees = judge.exact("case", "other", 1.0, 1.0, 0.0)
    assert judge.summary([agrees])[1] == 0
    text, status = judge.summary([agrees, miss()])
    assert status == 1 and text.endswith("2 judged, 1 agree, 0 miss with a cause, 1 miss without")
    text, status = judge.summary([agrees, replace(miss(), cause="a switch")])
    assert status == 0 and text.endswith("1 miss with a cause, 0 miss without")


def test_a_cause_counts_only_if_its_experiment_removes_the_miss() -> None:
    def case(row: Row) -> Case:
        return Case(name="case", jobs=list, judge=lambda _: [row])

    removed = judge.exact("case", "quantity", 2.0, 2.0, 0.1)
    for again, told in ((removed, True), (miss(), False)):
        cause = Cause(why="a switch", switch="it set", again=case(again))
        one = replace(case(miss()), causes=(cause,))
        [row] = agreement.with_causes(one, [], lambda jobs: [job() for job in jobs])
        assert row.explained is told


def test_the_command_leaves_its_rows_and_says_what_it_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agreement.main(["--only", "micro red", "--json", "--out", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["rows"] == json.loads((tmp_path / "agreement.json").read_text())
    assert (tmp_path / "agreement.csv").read_text().count("\n") == len(printed["rows"]) + 1
    assert agreement.main(["--only", "nonsense", "--out", str(tmp_path)]) == 2


@pytest.mark.parametrize("path", sorted(data.SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_reference_scenario_loads(path: Path) -> None:
    assert Scenario.load(path).effective["traffic"]
