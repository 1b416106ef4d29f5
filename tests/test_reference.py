"""The comparison with recorded runs: a part that is fast, and that its judge catches what is wrong."""

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
import linux_runs
import linux_windows
import micro
import ns3_runs
import queueing
import scenario_a
import scenario_b
import scenario_c
import scenario_d
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
    scenario = Scenario.load(data.SCENARIOS / "micro-tcp.toml")
    shifted = scenario.with_({"bottleneck.queue": scenario.queues["limit30"], "tcp.rto.tick_phase": "1ms"})
    events, _ = micro.tcp_trace(shifted.run())
    first = micro.first_timeout(micro.their_variables("reno", 30))
    rows = micro.judge_events("shifted", micro.their_events("reno", 30), events, first)
    assert verdicts(rows) == {
        "events in the same order": "agrees",
        "shift up to the first time-out (s)": "agrees",
        "largest shift (s)": "misses",
    }


def test_a_wrong_trace_misses() -> None:
    theirs = micro.their_events("reno", 10)
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


def test_a_small_case_of_two_kinds_of_flow_agrees_and_others_do_not() -> None:
    rows = agreement.compare([scenario_b.flows_case("droptail", "hr", 20, seeds=4)])
    assert "misses" not in verdicts(rows).values()
    measured = [job() for job in scenario_b.flows_case("droptail", "ss", 20, seeds=4).jobs()]
    wrong = verdicts(list(scenario_b.flows_case("droptail", "hr", 20, seeds=4).judge(measured)))
    assert {"util", "timeouts_total", "cuts_total", "flow2_mbps", "jain"} <= {
        name for name, verdict in wrong.items() if verdict == "misses"
    }


def test_a_small_case_of_fair_queueing_agrees_and_one_queue_for_all_does_not() -> None:
    case = scenario_b.flows_case("fqdrr", "hh", 20, seeds=4)
    assert "misses" not in verdicts(agreement.compare([case])).values()
    measured = [job() for job in scenario_b.flows_case("droptail", "hh", 20, seeds=4).jobs()]
    wrong = verdicts(list(case.judge(measured)))
    assert {"bg_loss", "mean_queue", "tcp_loss_mean"} <= {
        name for name, verdict in wrong.items() if verdict == "misses"
    }


def test_a_small_case_of_short_and_long_transfers_agrees_and_another_queue_does_not() -> None:
    case = scenario_c.queue_case("red", 3)
    assert "misses" not in verdicts(agreement.compare([case])).values()
    measured = [job() for job in scenario_c.queue_case("rioc", 3).jobs()]
    wrong = verdicts(list(case.judge(measured)))
    assert {"util", "drop_frac", "mean_queue", "ftp_total_mbps", "long_time_mean", "bg_time_mean"} <= {
        name for name, verdict in wrong.items() if verdict == "misses"
    }


def test_web_traffic_both_ways_agrees_and_another_queue_does_not() -> None:
    case = scenario_d.load_case("0.9", "Reno", replayed=True, seeds=4, only=("droptail", "ared_bytes"))
    rows = {(row.case.split()[-1], row.quantity): row.verdict for row in agreement.compare([case])}
    told = ("mean_queue_rev", "rsp_median_ms", "1461-10220 p25", "all p75")
    assert (
        {rows["droptail", name] for name in told} == {rows["ared_bytes", name] for name in told} == {"agrees"}
    )
    assert rows["replayed", "pairs of queues in the order of the mean"] == "agrees"
    jobs = case.jobs()
    swapped = [job() for job in (*jobs[4:], *jobs[:4])]
    wrong = {(row.case.split()[-1], row.quantity): row.verdict for row in case.judge(swapped)}
    assert {wrong["droptail", name] for name in ("drop_frac_rev", "mean_queue_rev", "rsp_mean_ms")} == {
        "misses"
    }
    assert wrong["replayed", "pairs of queues in the order of the mean"] == "misses"


def test_the_conversations_are_those_that_ns_2_drew() -> None:
    both = [[line.split(",") for line in data.conversations(way, 1).splitlines()] for way in (1, 2)]
    assert [len(lines) for lines in both] == [27670, 27388]
    assert [lines[0][:3] for lines in both] == [["0.000000", "2856", "436"], ["0.000000", "317", "428"]]
    again = data.conversations(1, 2).splitlines()[0].split(",")
    assert (again[:3], again[4]) == (both[0][0][:3], both[0][0][4]), "the server's times are drawn anew"
    assert again[3] != both[0][0][3] and again[5] != both[0][0][5]
    far = [sorted(line.split(",")[5] for line in data.conversations(1, seed).splitlines()) for seed in (1, 2)]
    assert far[0] == far[1], "its delays are the same, dealt out otherwise"
    thinks = [float(line[3]) for line in both[0]]
    # One over a Weibull variable of shape 0.63 and scale 305, at most 0.1 s: 11.1 % are at the bound.
    assert max(thinks) == 0.1 and 0.10 < sum(think == 0.1 for think in thinks) / len(thinks) < 0.12


def test_the_background_is_the_one_that_ns_2_drew() -> None:
    objects = [line.split() for line in data.background(1, 460).splitlines()]
    first = [(f"{float(start):.6f}", int(size) // 460) for start, size in objects[:4]]
    assert first == [("0.000000", 4), ("0.004549", 22), ("0.008697", 1), ("0.031617", 4)]
    # ns-2 counts 15032 transfers to the end: these, 600 short ones, 24 long ones and four that last.
    assert len(objects) + 600 + 24 + 4 == 15032


def test_runs_of_ns_3_and_linux_are_read_as_their_readmes_tell_them() -> None:
    [run] = [run for run in data.ns3_runs() if run["condition"] == "B pfifo limit=20 n=4 TcpNewReno"]
    told = ns3_runs.recorded(run)
    assert (told["util"], told["goodput_mbps"]) == pytest.approx((0.86760, 17.6456), abs=1e-4)
    assert (told["bg_loss_frac"], told["mean_q_pkts"]) == pytest.approx((0.001398, 2.59), abs=1e-2)
    linux = linux_runs.recorded(data.linux_text("tcp_pfifo"))
    assert linux == {
        "goodput_mbps": 1.91,
        "mean_queue": pytest.approx(48.4, abs=0.05),
        "drops": 172,
        "packets": 10058,
    }


@pytest.mark.parametrize("case", linux_windows.cases(), ids=lambda case: case.name)
def test_the_window_of_a_flow_is_the_kernels(case: Case) -> None:
    assert set(verdicts(agreement.compare([case])).values()) == {"agrees"}


def test_cubic_without_hystart_is_not_the_kernel_with_it() -> None:
    measured = [job() for job in linux_windows.jobs("cubic_nohystart")]
    assert verdicts(linux_windows.judge("cubic", measured)) == {
        "samples until slow start ends": "agrees",
        "end of slow start (s)": "misses",
        "ssthresh then (segments)": "misses",
        "sent again by 3 s": "misses",
        "windows apart, median (segments)": "misses",
        "first reduction (s)": "misses",
        "mean window after 3 s": "agrees",
    }


def test_four_cubic_flows_lose_as_many_as_the_kernels_and_with_rfc_9438_more() -> None:
    case = linux_runs.cubic_case(seeds=3)
    assert set(verdicts(agreement.compare([case])).values()) == {"agrees"}
    growth = {"tcp.congestion_control.growth": "fractions"}
    other = [replace(job, scenario=job.scenario.with_(growth)) for job in case.jobs()]
    assert verdicts(case.judge([job() for job in other]))["loss_share"] == "misses"


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
    near, far = ([factor * value for value in ours] for factor in (1.06, 1.1))
    assert judge.independent("", Quantity(name="ns-3", share=0.05), theirs, near).verdict == "agrees"
    assert judge.independent("", Quantity(name="ns-2"), theirs, near).verdict == "misses"
    assert judge.independent("", Quantity(name="ns-3", share=0.05), theirs, far).verdict == "misses"


def test_one_recorded_run_lies_among_ours_or_nearer_than_the_band() -> None:
    ours = [1 + 0.01 * place for place in range(20)]
    quantity = Quantity(name="one run", share=0.05)
    inside = judge.among("", quantity, 1.1, ours)
    assert (inside.verdict, inside.note) == ("agrees", "") and 0 < inside.chance < 0.05
    beside = judge.among("", quantity, 1.22, ours)
    assert beside.verdict == "agrees" and beside.note.startswith("outside the percentiles by 0.03")
    assert judge.among("", quantity, 1.3, ours).verdict == "misses"
    assert judge.among("", quantity, 0.9, ours).verdict == "misses"
    assert judge.among("", quantity, 1.0, [1.0] * 20).chance == 0.0


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


def test_what_is_left_out_is_listed_with_its_reason_and_fails_nothing() -> None:
    left = [
        judge.left_out(name, verdict, why)
        for name, verdict, why in (("a", "not yet", "X"), ("b", "not yet", "X"), ("c", "not used", "Y"))
    ]
    text, status = judge.summary([judge.exact("case", "other", 1.0, 1.0, 0.0), *left])
    assert status == 0 and "1 judged, 1 agree" in text and "0 quantities are printed" in text
    assert "2 cases not yet: X." in text and "1 case not used: Y." in text
    assert judge.table(left).splitlines()[-1].split() == ["c", "all", "not", "used", "Y"]


def test_every_recorded_case_has_a_row_of_its_own() -> None:
    names = [case.name for case in agreement.all_cases()]
    assert len(names) == len(set(names))
    recorded = {f"ns3 {run['condition']}" for run in data.ns3_runs()}
    assert recorded == {name for name in names if name.startswith("ns3 ")}
    pairs = {(row["q"], row["cc"], row["limit"]) for row in data.rows(scenario_b.RECORDED)}
    assert len(pairs) == sum(name.startswith("b ") for name in names)
    short_long = {row["q"] for row in (*data.rows("c_short_long_per_seed"), *data.rows("c_more_per_seed"))}
    assert {f"c {queue}" for queue in short_long} == {name for name in names if name.startswith("c ")}
    loads = {(row["tcp"], row["load"]) for row in data.rows("d_packmime")}
    assert {f"d {tcp} load {load}" for tcp, load in loads} == {
        name for name in names if name.startswith("d ") and not name.endswith("replayed")
    }
    results = {path.name.split(".")[0] for path in (data.LINUX / "results").iterdir()}
    helsinki = {path.name.split(".csv")[0] for path in (data.LINUX / "helsinki").glob("trace_*")}
    traces = {name for name in names if name.startswith("linux trace ")}
    assert {name.replace("trace_", "linux trace ") for name in helsinki} == traces
    replicated = {name for name in names if name.startswith(("linux transfers ", "linux datagrams "))}
    assert len(replicated) == 48 + 48
    windows = {name for name in names if name.startswith("linux window ")}
    kept = {path.name.split(".csv")[0] for path in linux_windows.WHERE.iterdir()}
    assert {f"linux window {name}" for name in kept} == windows
    of_linux = {name for name in names if name.startswith("linux ")} - traces - replicated - windows
    assert {f"linux {name}" for name in results} == of_linux


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
