"""The comparison with recorded runs: a part that is fast, and that its judge catches what is wrong."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import account
import agreement
import data
import judge
import linux_bulk
import linux_bulk_controls
import linux_bulk_today
import linux_helsinki
import linux_open_today
import linux_replay
import linux_runs
import linux_traces
import linux_windows
import micro
import ns3_runs
import queueing
import scenario_a
import scenario_b
import scenario_c
import scenario_d
from aqmlab.scenario import Scenario
from case import Case, Cause, Job
from judge import HELD_OUT, Quantity, Row

PAIR = ([1.0, 1.01, 0.99, 1.0, 1.02], [1.001, 1.0, 1.02, 0.99, 1.01])


def verdicts(rows: list[Row]) -> dict[str, str]:
    return {row.quantity: row.verdict for row in rows}


@pytest.mark.parametrize("case", micro.cases(), ids=lambda case: case.name)
def test_micro_traces_agree_event_by_event(case: Case) -> None:
    rows = agreement.compare([case])
    assert set(verdicts(rows).values()) == {"equivalent"}
    assert all(row.note in ("", "exact to the end") for row in rows)


def test_another_phase_of_the_clock_shifts_what_follows_the_first_timeout_and_nothing_before() -> None:
    scenario = Scenario.load(data.SCENARIOS / "micro-tcp.toml")
    shifted = scenario.with_({"bottleneck.queue": scenario.queues["limit30"], "tcp.rto.tick_phase": "1ms"})
    events, _ = micro.tcp_trace(shifted.run())
    first = micro.first_timeout(micro.their_variables("reno", 30))
    rows = micro.judge_events("shifted", micro.their_events("reno", 30), events, first)
    assert verdicts(rows) == {
        "events in the same order": "equivalent",
        "shift up to the first time-out (s)": "equivalent",
        "largest shift (s)": "miss",
    }


def test_a_wrong_trace_misses() -> None:
    theirs = micro.their_events("reno", 10)
    late = [(time + (0.0001 if time > 1 else 0), event, number) for time, event, number in theirs]
    swapped = [*theirs[:100], *theirs[104:]]
    assert (
        verdicts(micro.judge_events("late", theirs, late, 9e9))["shift up to the first time-out (s)"]
        == "miss"
    )
    assert verdicts(micro.judge_events("swapped", theirs, swapped, 9e9))["events in the same order"] == "miss"
    assert set(verdicts(micro.judge_events("same", theirs, theirs, 9e9)).values()) == {"equivalent"}


def test_a_small_case_of_permanent_flows_agrees_and_another_queue_does_not() -> None:
    rows = agreement.compare([scenario_a.ftp_case("red", 20, seeds=4)])
    assert "miss" not in verdicts(rows).values()
    ours = scenario_a.ftp_case("red_nowait", 20, seeds=4).jobs()
    measured = [job() for job in ours]
    wrong = verdicts(list(scenario_a.ftp_case("red", 20, seeds=4).judge(measured)))
    assert {"goodput_payload_mbps", "drop_frac", "mean_queue", "timeouts_per_flow"} <= {
        name for name, verdict in wrong.items() if verdict == "miss"
    }


def test_a_small_case_of_two_kinds_of_flow_agrees_and_others_do_not() -> None:
    rows = agreement.compare([scenario_b.flows_case("droptail", "hr", 20, seeds=4)])
    assert "miss" not in verdicts(rows).values()
    measured = [job() for job in scenario_b.flows_case("droptail", "ss", 20, seeds=4).jobs()]
    wrong = verdicts(list(scenario_b.flows_case("droptail", "hr", 20, seeds=4).judge(measured)))
    assert {"util", "timeouts_total", "cuts_total", "flow2_mbps", "jain"} <= {
        name for name, verdict in wrong.items() if verdict == "miss"
    }


def test_a_small_case_of_fair_queueing_agrees_and_one_queue_for_all_does_not() -> None:
    case = scenario_b.flows_case("fqdrr", "hh", 20, seeds=4)
    assert "miss" not in verdicts(agreement.compare([case])).values()
    measured = [job() for job in scenario_b.flows_case("droptail", "hh", 20, seeds=4).jobs()]
    wrong = verdicts(list(case.judge(measured)))
    assert {"bg_loss", "mean_queue", "tcp_loss_mean"} <= {
        name for name, verdict in wrong.items() if verdict == "miss"
    }


def test_a_small_case_of_short_and_long_transfers_agrees_and_another_queue_does_not() -> None:
    case = scenario_c.queue_case("red", 3)
    assert "miss" not in verdicts(agreement.compare([case])).values()
    measured = [job() for job in scenario_c.queue_case("rioc", 3).jobs()]
    wrong = verdicts(list(case.judge(measured)))
    assert {"util", "drop_frac", "mean_queue", "ftp_total_mbps", "long_time_mean", "bg_time_mean"} <= {
        name for name, verdict in wrong.items() if verdict == "miss"
    }


def test_web_traffic_both_ways_agrees_and_another_queue_does_not() -> None:
    case = scenario_d.load_case("0.9", "Reno", replayed=True, seeds=3, only=("droptail", "ared_bytes"))
    measured = [job() for job in case.jobs()]
    rows = {(row.case.split()[-1], row.quantity): row.verdict for row in case.judge(measured)}
    told = ("mean_queue_rev", "rsp_median_ms", "1461-10220 p25", "all p75")
    assert "miss" not in {rows[queue, name] for queue in ("droptail", "ared_bytes") for name in told}
    assert rows["replayed", "pairs of queues in the order of the mean"] == "equivalent"
    swapped = [*measured[3:], *measured[:3]]
    wrong = {(row.case.split()[-1], row.quantity): row.verdict for row in case.judge(swapped)}
    assert {wrong["droptail", name] for name in ("drop_frac_rev", "mean_queue_rev", "rsp_mean_ms")} == {
        "miss"
    }
    assert wrong["replayed", "pairs of queues in the order of the mean"] == "miss"


def test_the_conversations_are_those_that_ns_2_drew() -> None:
    both = [[line.split(",") for line in data.conversations(way, 1).splitlines()] for way in (1, 2)]
    assert [len(lines) for lines in both] == [27670, 27388]
    assert [lines[0][:3] for lines in both] == [["0.000000", "2856", "436"], ["0.000000", "317", "428"]]
    again = data.conversations(1, 2).splitlines()[0].split(",")
    assert (again[:3], again[4]) == (both[0][0][:3], both[0][0][4]), "the server's times are drawn anew"
    assert again[3] != both[0][0][3]
    starts, *_, clients, listed = data.connections(1)
    undropped = starts + clients
    arrivals = undropped.copy()
    arrivals[1] += 3_000_000
    dealt = [
        np.array([round(1e6 * float(line.split(",")[5])) for line in lines.splitlines()])
        for lines in (data.conversations(1, 1), data.conversations(1, 1, arrivals=arrivals))
    ]
    assert (dealt[0] == listed).all(), "without a dropped SYN"
    later = (undropped > undropped[1]) & (undropped < arrivals[1])
    assert (dealt[0] == dealt[1])[~later & (undropped != undropped[1])].all()
    before = np.argsort(undropped, kind="stable")
    moved = before[later[before]]
    assert (dealt[1][moved[1:]] == listed[moved[:-1]]).all(), "each has the delay of the one before"
    given = data.conversations(1, 1, servers=range(len(starts))).splitlines()
    assert [line.split(",")[5] for line in given[:2]] == ["0.000000", "0.000001"]
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
    assert set(verdicts(agreement.compare([case])).values()) == {"equivalent"}


def test_cubic_without_hystart_is_not_the_kernel_with_it() -> None:
    measured = [job() for job in linux_windows.jobs("cubic_nohystart")]
    assert verdicts(linux_windows.judge("cubic", measured)) == {
        "samples until slow start ends": "equivalent",
        "end of slow start (s)": "miss",
        "ssthresh then (segments)": "miss",
        "sent again by 3 s": "miss",
        "windows apart, median (segments)": "miss",
        "first reduction (s)": "miss",
        "mean window from 3 to 29.98 s": "equivalent",
    }


def test_the_states_of_cubic_and_reno_are_the_kernels_and_those_of_another_control_are_not() -> None:
    for trace in ("cubic", "step_cubic"):
        case = linux_traces.state_case(trace)
        assert set(verdicts(agreement.compare([case])).values()) == {"equivalent"}
    wrong = verdicts(linux_traces.judge("cubic", [job() for job in linux_traces.jobs("reno")]))
    misses = {"states", "states in order", "end of slow start (s)", "retransmissions"}
    assert misses <= {name for name, verdict in wrong.items() if verdict == "miss"}


def test_bbr_passes_through_the_kernels_states_at_its_levels_and_with_a_small_buffer_does_not() -> None:
    jobs = linux_traces.jobs("bbr")[:3]
    right = verdicts(linux_traces.judge("bbr", [job() for job in jobs]))
    assert set(right.values()) <= {"equivalent", "compatible"}
    changes = {"links.forth.queue.classes.all.queue.limit": "20p"}
    other = [replace(job, scenario=job.scenario.with_(changes))() for job in jobs]
    wrong = verdicts(linux_traces.judge("bbr", other))
    misses = {"srtt at the end of STARTUP (ms)", "retransmissions"}
    assert misses <= {name for name, verdict in wrong.items() if verdict == "miss"}
    assert wrong["bandwidth at the end of STARTUP (Mbit/s)"] == "equivalent"


def test_the_kernels_numbers_are_read_as_states() -> None:
    bbr = linux_traces.recorded("bbr").samples
    assert linux_traces.states(bbr) == ["STARTUP", "DRAIN", "PROBE_BW", *["PROBE_RTT", "PROBE_BW"] * 2]
    assert [linux_traces.bbr_state(*gains) for gains in ((739, 739), (88, 739), (320, 512), (256, 256))] == [
        "STARTUP",
        "DRAIN",
        "PROBE_BW",
        "PROBE_RTT",
    ]
    [last] = [sample for sample in bbr if sample.time == 0.92]
    assert (last.cwnd, last.pacing, last.bandwidth, last.min_rtt) == (152, 27.822576, 9.735488, 0.06)
    reno = linux_traces.recorded("reno")
    assert (
        linux_traces.states(reno.samples)[:4] == ["SLOW_START", *["RECOVERY", "CONGESTION_AVOIDANCE"] * 2][:4]
    )
    assert (reno.retransmissions, reno.marks) == (154, 0)
    dctcp = linux_traces.recorded("dctcp")
    assert linux_traces.states(dctcp.samples) == ["SLOW_START", "CONGESTION_AVOIDANCE"]
    assert (dctcp.samples[0].share, dctcp.marks) == (1.0, 2880)


def test_a_window_that_falls_in_steps_is_one_reduction() -> None:
    windows = [10, 11, 12, 12, 11, 11, 9, 9, 10, 11, 8, 8]
    samples = [
        linux_traces.Sample(time=0.02 * k, cwnd=window, ssthresh=9, srtt=0.06, state="CONGESTION_AVOIDANCE")
        for k, window in enumerate(windows)
    ]
    assert linux_traces.reductions(samples) == [12, 11]
    assert [linux_traces.nearest_gain(gain) for gain in (1.21, 0.8, 1.1)] == [1.25, 0.75, 1.0]


def test_behind_a_link_that_changes_its_rate_the_empty_round_trip_is_60_ms() -> None:
    segment = {"kind": "constant", "value": "1448B"}
    base = Scenario.load(data.SCENARIOS / "linux-window.toml").with_(linux_traces.FLOWS["step_reno"])
    for start in ("0s", "25s", "45s"):
        changes = {"traffic.bulk.start": start, "traffic.bulk.sizes": segment}
        [handshake] = base.with_(changes).run().transfers["handshake_s"]
        assert handshake == pytest.approx(0.06, abs=2e-5), start


def test_flows_with_bbr_and_dctcp_are_those_of_the_kernels_conditions() -> None:
    pair = "bulk_10m_60ms_codelecn_dctcp1_cubic1"
    for condition, means in (
        ("bulk_10m_60ms_pfifo1_cubic1_bbr1", (1.12, 8.23)),
        (pair, (8.83, 0.73)),
        (f"{pair}_allecn", (8.80, 0.77)),
    ):
        runs = linux_bulk_controls.starts_of(condition)
        theirs = linux_bulk_today.replications(condition, runs, linux_bulk_controls.KEPT)
        assert len(runs) == len(theirs) == 8
        for flow, expected in enumerate(means, 1):
            assert np.mean([run[f"flow{flow}_mbps"] for run in theirs]) == pytest.approx(expected, abs=0.006)
    table = {
        condition: linux_bulk_controls.scenario(condition, linux_bulk_controls.starts_of(condition)[0]).given
        for condition in (pair, f"{pair}_allecn", "bulk_10m_60ms_pfifo1_cubic1_bbr1_fq")
    }
    tcp = {name: [given["traffic"][f"flow{k}"]["tcp"] for k in (1, 2)] for name, given in table.items()}
    assert [flow.get("ecn") for flow in tcp[pair]] == [{"mode": "on"}, None]
    assert [flow["congestion_control"]["kind"] for flow in tcp[pair]] == ["dctcp", "cubic"]
    assert [flow["ecn"] for flow in tcp[f"{pair}_allecn"]] == [{"mode": "on"}] * 2
    paced = tcp["bulk_10m_60ms_pfifo1_cubic1_bbr1_fq"]
    assert [flow["congestion_control"]["kind"] for flow in paced] == ["cubic", "bbr1"]
    assert [flow["pacing"] for flow in paced] == [{"mode": "on"}] * 2


def test_four_bbr_flows_share_fq_codel_as_the_kernels_and_four_cubic_flows_do_not() -> None:
    case = linux_bulk_controls.bulk_case("bulk_2m_60ms_fqcodel_bbr4", repeats=1)
    assert "miss" not in verdicts(agreement.compare([case])).values()
    changes = {f"traffic.flow{k}.tcp.congestion_control.kind": "cubic" for k in range(1, 5)}
    other = [replace(job, scenario=job.scenario.with_(changes)) for job in case.jobs()]
    wrong = verdicts(list(case.judge([job() for job in other])))
    assert {"mean_q_pkts", "drops"} <= {name for name, verdict in wrong.items() if verdict == "miss"}


def test_four_cubic_flows_lose_as_many_as_the_kernels_and_with_rfc_9438_more() -> None:
    case = linux_runs.cubic_case()
    assert set(verdicts(agreement.compare([case])).values()) == {"equivalent"}
    growth = {"tcp.congestion_control.growth": "fractions"}
    other = [replace(job, scenario=job.scenario.with_(growth)) for job in case.jobs()]
    assert verdicts(case.judge([job() for job in other]))["loss_share"] == "miss"


EXACT = [loop for loop in linux_open_today.LOOPS if not loop.draws]


@pytest.mark.parametrize("loop", EXACT, ids=lambda loop: loop.name)
def test_a_queue_without_chance_does_with_each_packet_as_the_kernel(loop: linux_open_today.Loop) -> None:
    assert set(verdicts(agreement.compare([linux_open_today.loop_case(loop)])).values()) == {"equivalent"}


def test_another_target_or_quantum_is_not_the_kernels() -> None:
    for record, change in (
        ("open_codel", {"target": "6ms"}),
        ("open_codel_ce", {"ce_threshold": "6ms"}),
        ("open_fqcodel", {"quantum": "1000B"}),
        ("open_choke", {"min": "22p"}),
        ("open_sfb", {"max": "30p"}),
    ):
        [loop] = [one for one in linux_open_today.LOOPS if one.name == record]
        case = linux_open_today.loop_case(loop, seeds=4)
        changes = {f"links.line.queue.classes.all.queue.{name}": value for name, value in change.items()}
        jobs = [replace(job, scenario=job.scenario.with_(changes)) for job in case.jobs()]
        assert "miss" in verdicts(list(case.judge([job() for job in jobs]))).values(), record


@pytest.mark.parametrize("record", ["open_choke", "open_fqpie", "open_sfb"])
def test_a_queue_that_draws_treats_three_flows_as_the_kernels(record: str) -> None:
    [loop] = [one for one in linux_open_today.LOOPS if one.name == record]
    assert "miss" not in verdicts(agreement.compare([linux_open_today.loop_case(loop)])).values()


def test_packets_of_the_kernels_own_are_read_off_the_departures() -> None:
    by_name = {loop.name: linux_open_today.own_packets(loop) for loop in linux_open_today.LOOPS}
    sizes = {name: [one.ip_bytes + linux_open_today.ETHERNET for one in own] for name, own in by_name.items()}
    assert sizes["open_codel"] == [90, 70, 90], "a report and a solicitation at once, and a report"
    assert sizes["open_fqcodel"] == [86, 90, 90, 70, 90]
    assert not by_name["open_pie"], "it draws"


def test_short_transfers_behind_cake_take_the_kernels_time_and_without_ecn_do_not() -> None:
    case = linux_replay.replay_case("cake", seeds=1)
    assert set(verdicts(agreement.compare([case])).values()) == {"equivalent", "printed"}
    [job] = case.jobs()
    found = replace(job, scenario=job.scenario.with_({"tcp.ecn.mode": "off"}))()
    rows = linux_replay.early_rows("cake", [found])
    assert {row.verdict for row in rows} == {"miss"}


def test_behind_cake_short_transfers_collapse_and_behind_fq_codel_they_recover() -> None:
    ours = {name: linux_replay.replay_case(name, seeds=1).jobs()[0]() for name in ("cake", "fq_codel")}
    for name, run in ours.items():
        theirs = linux_replay.recorded_queues(name)
        assert [queues[-1] > 5000 for queues in (theirs, run.queues)] == [name == "cake"] * 2


def test_four_flows_share_fq_codel_as_the_kernels_and_with_another_target_do_not() -> None:
    case = linux_bulk_today.bulk_case("bulk_10m_60ms_fqcodel_cubic4", repeats=1)
    assert set(verdicts(agreement.compare([case])).values()) == {"equivalent"}
    changes = {"links.forth.queue.classes.all.queue.target": "10ms"}
    other = [replace(job, scenario=job.scenario.with_(changes)) for job in case.jobs()]
    wrong = verdicts(list(case.judge([job() for job in other])))
    assert {"mean_q_pkts", "p95_q_pkts"} <= {name for name, verdict in wrong.items() if verdict == "miss"}


def test_flows_that_lost_ecn_with_their_first_segment_are_left_out() -> None:
    condition = "bulk_2m_60ms_codelecn_reno4"
    assert len(linux_bulk_today.starts_of(condition)) == len(linux_bulk_today.recorded(condition)) == 12
    assert len(linux_bulk_today.starts_of("bulk_2m_60ms_pieecn_reno4")) == 8, "none gets a mark there"
    assert all(run["drops"] == 0 for run in linux_bulk_today.recorded(condition))


def test_a_single_queue_agrees_with_its_formula_and_not_with_another() -> None:
    [row] = [row for row in data.rows("micro/mg1") if row["kind"] == "md1" and row["rho"] == "0.5"]
    case = queueing.queue_case(row, seeds=6)
    assert set(verdicts(agreement.compare([case])).values()) == {"equivalent"}
    wrong = queueing.queue_case({**row, "theory_waiting_pkts": "0.27"}, seeds=6)
    assert set(verdicts(agreement.compare([wrong])).values()) == {"miss"}


def test_a_difference_is_equivalent_compatible_or_a_miss_by_its_interval_and_the_band() -> None:
    theirs, ours = PAIR

    def scaled(factor: float) -> list[float]:
        return [factor * value for value in ours]

    def independent(quantity: Quantity, factor: float) -> Row:
        return judge.independent("", quantity, theirs, scaled(factor))

    def paired(quantity: Quantity, factor: float) -> Row:
        return judge.paired("", quantity, theirs, [[value, value] for value in scaled(factor)])

    for rule in (independent, paired):
        assert rule(Quantity(name="same"), 1.0).verdict == "equivalent"
        assert rule(Quantity(name="at the edge"), 1.03).verdict == "compatible"
        far = rule(Quantity(name="far"), 1.2)
        assert far.verdict == "miss" and far.difference == pytest.approx(0.2, abs=0.01)
    assert judge.single("", Quantity(name="one draw"), 1.0, ours).verdict == "compatible"
    assert judge.single("", Quantity(name="alike"), 1.0, [1.0, 1.001] * 3).verdict == "equivalent"
    assert judge.single("", Quantity(name="far"), 1.1, ours).verdict == "miss"
    assert judge.single("", Quantity(name="far", judged=False), 1.1, ours).verdict == "printed"
    assert independent(Quantity(name="ns-3", share=0.05), 1.05).verdict == "compatible"
    assert independent(Quantity(name="ns-3", share=0.05), 1.1).verdict == "miss"
    assert [judge.exact("", "exact", 1.0, value, 0.1).verdict for value in (1.05, 1.2)] == [
        "equivalent",
        "miss",
    ]


def test_a_band_of_a_fifth_of_the_reference_is_loose_and_a_narrow_one_is_not() -> None:
    theirs, ours = PAIR
    floor = judge.independent("", Quantity(name="floor", floor=0.5), theirs, [1.4] * 5)
    assert (floor.verdict, floor.loose) == ("equivalent", True)
    assert not judge.independent("", Quantity(name="band"), theirs, ours).loose


def test_a_mean_misses_an_exact_formula_by_its_errors_however_wide_the_band_is() -> None:
    _, ours = PAIR
    assert judge.formula("", "near", 1.004, ours, 0.03).verdict == "equivalent"
    assert judge.formula("", "off", 0.98, ours, 0.05).verdict == "miss"
    assert judge.formula("", "noisy", 1.0, [0.9, 1.1, 1.0, 1.05, 0.95], 0.03).verdict == "compatible"


def test_one_recorded_run_is_equivalent_only_where_ours_hardly_vary() -> None:
    ours = [1 + 0.01 * place for place in range(20)]
    quantity = Quantity(name="one run", share=0.05)
    inside = judge.among("", quantity, 1.1, ours)
    assert (inside.verdict, inside.note) == ("compatible", "") and 0 < inside.chance < 0.05
    assert inside.held_up, "more runs of ours would not tell more"
    beside = judge.among("", quantity, 1.22, ours)
    assert beside.verdict == "compatible" and beside.note.startswith("outside the percentiles by 0.03")
    assert judge.among("", quantity, 1.3, ours).verdict == "miss"
    assert judge.among("", quantity, 0.9, ours).verdict == "miss"
    alike = [1 + 0.001 * place for place in range(20)]
    assert judge.among("", quantity, 1.01, alike).verdict == "equivalent"
    assert judge.among("", quantity, 1.0, [1.0] * 20).chance == 0.0


def test_what_holds_a_row_up_is_the_record_or_our_own_noise() -> None:
    few, many = [0.9, 1.1, 1.0], [1.0, 1.001] * 10
    by_record = judge.independent("", Quantity(name="few of theirs"), few, many)
    assert by_record.verdict == "compatible" and by_record.held_up
    by_ours = judge.independent("", Quantity(name="few of ours"), many, few)
    assert by_ours.verdict == "compatible" and not by_ours.held_up
    schedules = [1.0, 2.0, 3.0]
    noisy = [[value - 0.5, value + 0.5] for value in schedules]
    own = judge.paired("", Quantity(name="own"), [value + 0.1 * value for value in schedules], noisy)
    assert own.recorded == 0.0


def test_the_misses_that_chance_gives_follow_from_the_width_of_the_interval() -> None:
    theirs, ours = PAIR
    tight = judge.independent("", Quantity(name="tight"), theirs, ours)
    wide = judge.independent("", Quantity(name="wide"), [0.5, 1.5, 1.0, 0.2], [1.9, 0.1, 1.0, 1.2])
    assert tight.chance < 1e-3 and tight.verdict == "equivalent"
    assert 0.01 < wide.chance < 0.06 and wide.verdict == "compatible"


def miss(quantity: str = "quantity") -> Row:
    return judge.exact("tcp case", quantity, 1.0, 2.0, 0.1)


def same(quantity: str = "other") -> Row:
    return judge.exact("tcp case", quantity, 1.0, 1.0, 0.0)


def test_the_three_words_are_counted_apart_and_so_are_misses_with_a_cause_and_without() -> None:
    theirs, ours = PAIR
    near = judge.independent("a case", Quantity(name="near"), theirs, [1.03 * value for value in ours])
    floor = judge.independent("a case", Quantity(name="floor", floor=0.5), theirs, ours)
    summary = account.summarise([same(), near, floor, miss()])
    assert list(summary["cases"].values()) == [
        {"equivalent": 1, "compatible": 0, "loose": 0, "explained": 0, "unexplained": 1},
        {"equivalent": 0, "compatible": 1, "loose": 1, "explained": 0, "unexplained": 0},
    ]
    assert summary["unexplained"] == {"tcp case": ["quantity"]}
    assert "No cause known: tcp case, quantity\n" in account.description(summary)
    assert account.description(summary).endswith(
        "4 judged, 1 equivalent, 1 compatible, 1 that can hardly miss, 0 miss with a cause, "
        "1 miss without a cause"
    )
    explained = account.summarise([same(), replace(miss(), cause="a switch", again="equivalent")])
    assert explained["causes"] == {"a switch": {"equivalent": 1}} and not explained["unexplained"]
    assert "1 misses with a cause, then 1 equivalent: a switch." in account.description(explained)


def held_out(row: Row) -> Row:
    return replace(row, case=f"{HELD_OUT}d Reno load 0.9")


def test_what_is_held_out_is_counted_apart_and_told_first() -> None:
    summary = account.summarise([same(), held_out(same()), held_out(miss())])
    assert account.totals(summary) == {"equivalent": 1}
    assert account.totals(summary["held_out"]) == {"equivalent": 1, "unexplained": 1}
    assert account.everything(summary).total() == 3
    assert account.unexplained(summary) == {f"{HELD_OUT}d Reno load 0.9": ["quantity"]}
    assert "held out: 2 judged, 1 equivalent" in account.description(summary)
    made = account.page(summary, account.PAGE.read_text(encoding="utf-8"))
    first, second = (
        "| All held-out cases | 1 |  |  |  | 1 |",
        "| All cases, held-out cases included | 2 |  |  |  | 1 |",
    )
    assert 0 < made.find(first) < made.find(second)
    assert "\nMisses (the case, then the quantities): d Reno load 0.9, quantity.\n" in made
    assert "No cause known: held out" not in made


def test_the_page_takes_all_that_is_held_out_without_a_whole_run_and_no_part_of_it() -> None:
    whole = account.read()
    again = {**account.summarise([]), "held_out": whole["held_out"]}
    assert account.with_held_out(whole, again) == whole
    for part in (account.summarise([held_out(same())]), account.summarise([same()])):
        with pytest.raises(ValueError, match="a run of all held-out cases"):
            account.with_held_out(whole, part)


def test_no_condition_of_linux_is_both_used_and_held_out() -> None:
    for columns, name in (
        (("owd_ms", "tcp", "init_rto_s", "queue", "d_s"), "case1"),
        (("owd_ms", "tcp", "init_rto_s", "classes", "queue", "udp_start_s"), "case2"),
    ):
        used = linux_helsinki.conditions(f"{name}_reps", *columns)
        held = linux_helsinki.conditions(f"{name}_held_reps", *columns)
        assert used and held and not used.keys() & held.keys()
    assert linux_runs.CUBIC not in {row["condition"] for row in data.rows("held_reps", linux_bulk.WHERE)}


def test_what_is_held_out_of_linux_is_read_as_its_conditions_tell_it() -> None:
    far = linux_bulk.recorded("bulk_10m_20+160ms_pfifo1_reno1_reno1far")
    assert len(far) == 20
    assert sum(run["flow1_mbps"] for run in far) / 20 == pytest.approx(7.39, abs=0.005)
    assert sum(run["flow2_mbps"] for run in far) / 20 == pytest.approx(2.17, abs=0.005)
    [alike, *_] = linux_bulk.recorded("bulk_2m_60ms_pfifo1_reno4")
    assert alike == {"goodput_mbps": 1.9121, "loss_share": 0.06128, "mean_q_pkts": 6.824, "jain": 0.9954}
    assert "jain" not in linux_bulk.recorded("bulk_10m_60ms_pfifo1_reno1")[0]
    flows = linux_bulk.starts_of("bulk_10m_20+160ms_pfifo1_reno1_reno1far")[0]
    assert [control for control, _ in flows] == ["reno", "reno@2"]
    table = linux_bulk.scenario("bulk_10m_20+160ms_pfifo1_reno1_reno1far", flows).effective
    assert table["links"]["forth"]["queue"]["classes"]["all"]["queue"]["limit"] == "66p"
    assert table["traffic"]["flow2"]["access"]["delay"] == "35ms"
    times = [(int(row["segs"]), float(row["completion_s"])) for row in linux_bulk.short(0)]
    assert len(times) == 240
    assert linux_bulk.times_of([(10, 1.0), (10, 3.0), (50, 2.0), (200, 4.0)])["10 segments, mean_s"] == 2.0


def test_a_flow_that_is_far_has_the_longer_round_trip() -> None:
    condition = "bulk_10m_20+160ms_pfifo1_reno1_reno1far"
    scenario = linux_bulk.scenario(condition, [("reno", 0.0), ("reno@2", 10.0)])
    changes = {"duration": "12s", "warm_up": "0s", "record.senders": ["flow1", "flow2"]}
    sizes = {f"traffic.{flow}.sizes": {"kind": "constant", "value": "1448B"} for flow in ("flow1", "flow2")}
    near, far = scenario.with_({**changes, **sizes}).run().transfers["handshake_s"]
    assert (near, far) == pytest.approx((0.02, 0.16), abs=1e-3)


@pytest.mark.parametrize(
    ("held", "wrong"),
    [
        ("linux transfers tail old+stab 100 ms d=2, time-out 3 s", {"tcp.cwnd.initial": 10}),
        ("linux transfers red05 old+p0.05 100 ms d=2, time-out 3 s", {"tcp.cwnd.initial": 10}),
        (
            "linux datagrams tail old+udp70k 100 ms, classes 1, start 0, time-out 1 s",
            {"traffic.datagrams.rate": "105600bps"},
        ),
        ("linux bulk_10m_60ms_pfifo1_cubic4", {"links.back.delay": "160ms"}),
    ],
)
def test_a_held_out_case_does_not_miss_and_another_setting_does(held: str, wrong: dict[str, object]) -> None:
    [case] = [case for case in agreement.all_cases() if case.name == f"{HELD_OUT}{held}"]
    jobs = case.jobs()
    assert "miss" not in verdicts(list(case.judge([job() for job in jobs]))).values()
    other = [replace(job, scenario=job.scenario.with_(wrong)) for job in jobs]
    assert "miss" in verdicts(list(case.judge([job() for job in other]))).values()


def test_adaptive_red_for_5_ms_has_the_thresholds_that_ns_2_gives_it_and_six_runs_of_each_queue() -> None:
    case = scenario_d.held_out_case(seeds=1)
    queues = [job.scenario.effective["links"]["rightward"]["queue"] for job in case.jobs()]
    recorded = [(row["q"], row["draws"]) for row in data.rows("d_target")]
    names = ["ared_5ms", "aredecn_5ms", "ared_5ms_bytes", "aredecn_5ms_bytes"]
    assert recorded == [(name, str(draws)) for draws in range(1, 7) for name in names]
    assert [queue["ecn"] for queue in queues] == ["off", "unless-forced"] * 2
    assert [queue["limit"] for queue in queues] == ["555p", "555p", "277500B", "277500B"]
    assert [job.scenario.effective["tcp"]["ecn"]["mode"] for job in case.jobs()] == ["off", "on"] * 2


def test_what_is_left_out_is_listed_with_its_reason_and_fails_nothing() -> None:
    left = [
        judge.left_out(name, verdict, why)
        for name, verdict, why in (("a", "not yet", "X"), ("b", "not yet", "X"), ("c", "excluded", "Y"))
    ]
    summary = account.summarise([same(), *left])
    assert not summary["unexplained"] and account.totals(summary).total() == 1
    assert (summary["not yet"], summary["excluded"]) == ({"X": 2}, {"Y": 1})
    assert account.table(left).splitlines()[-1].split() == ["c", "all", "excluded", "Y"]


def test_every_case_has_one_line_in_the_table() -> None:
    for case in agreement.all_cases():
        # Rows of scenario D have the queue behind the name of their case.
        of_d = case.name.removeprefix(HELD_OUT).startswith("d ")
        for name in (case.name, f"{case.name} droptail") if of_d else (case.name,):
            lines = [pattern for pattern in account.GROUPS.values() if re.match(pattern, name)]
            assert len(lines) == 1, name


def test_the_page_and_the_readme_tell_the_committed_counts() -> None:
    summary = account.read()
    for path, make in ((account.PAGE, account.page), (account.README, account.readme)):
        text = path.read_text(encoding="utf-8")
        assert make(summary, text) == text, f"{path.name}: python reference/agreement.py --update-page"


def test_another_run_changes_the_page_and_the_readme() -> None:
    summary = account.summarise([same(), replace(miss(), cause="a switch", again="equivalent")])
    made = account.page(summary, account.PAGE.read_text(encoding="utf-8"))
    assert "| All of these cases | 1 |  |  | 1 |  |" in made and "| a switch | 1 | 1 |  |" in made
    told = " ".join(account.readme(summary, account.README.read_text(encoding="utf-8")).split())
    assert "compares 2 quantities" in told and "1 are equivalent, 0 compatible" in told
    assert "and 1 miss, 0 of them without a known cause" in told


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
    held = [name.removeprefix(HELD_OUT) for name in names if name.startswith(HELD_OUT)]
    assert sum(name.startswith(("linux transfers ", "linux datagrams ")) for name in held) == 108 + 92
    conditions = {row["condition"] for row in data.rows("held_reps", linux_bulk.WHERE)}
    of_today = {row["condition"] for row in data.rows("today_reps", linux_bulk_today.WHERE)}
    bulk = {f"linux {name}" for name in conditions} | {f"linux today {name}" for name in of_today}
    assert bulk <= set(held) and len(held) == 108 + 92 + len(bulk) + 1
    windows = {name for name in names if name.startswith("linux window ")}
    kept = {path.name.split(".csv")[0] for path in linux_windows.WHERE.iterdir()}
    modelled = {name for name in kept if name.endswith(("bbr", "dctcp"))}
    assert {f"linux window {name}" for name in kept - modelled} == windows
    states = {name for name in names if name.startswith("linux states ")}
    assert {f"linux states {name}" for name in kept} == states
    controls = {name for name in names if name.startswith("linux controls ")}
    of_controls = {row["condition"] for row in data.rows("controls_reps", linux_bulk.WHERE)}
    assert {f"linux controls {name}" for name in of_controls} == controls and len(controls) == 21
    today = {name for name in names if name.startswith("linux today ")}
    opened = {path.name.split(".")[0] for path in linux_open_today.WHERE.iterdir()} - {"open_summary"}
    opened |= {row["name"] for row in data.rows("open_summary", linux_open_today.WHERE)}
    assert {f"linux today {name}" for name in opened} == today
    replayed = {name for name in names if name.startswith("linux replay ")}
    not_repeated = {"cake_300", "cake_used"}
    runs = {row["run"] for row in data.rows("queue", linux_replay.WHERE)} - not_repeated
    assert {f"linux replay {name}" for name in runs} == replayed
    known = traces | replicated | windows | states | controls | today | replayed
    of_linux = {name for name in names if name.startswith("linux ")} - known
    assert {f"linux {name}" for name in results} == of_linux


def test_every_experiment_on_permanent_flows_can_be_made() -> None:
    cases = [*ns3_runs.cases(), *scenario_b.cases()]
    made = [
        cause.again.jobs()
        for case in cases
        if "web" not in case.name
        for cause in case.causes
        if not cause.same_runs
    ]
    assert made and all(made)


def with_cause(shown: list[Row], again: list[Row]) -> list[Row]:
    def case(rows: list[Row]) -> Case:
        return Case(name="case", jobs=list, judge=lambda _: rows)

    cause = Cause(why="a switch", switch="it set", again=case(again))
    one = replace(case(shown), causes=(cause,))
    return agreement.with_causes(one, [], lambda jobs: [job() for job in jobs])


def test_a_cause_counts_only_if_its_experiment_removes_the_miss() -> None:
    [removed] = with_cause([miss()], [same("quantity")])
    assert removed.explained and (removed.cause, removed.again) == ("a switch", "equivalent")
    [stays] = with_cause([miss()], [miss()])
    assert not stays.explained and not stays.again


def test_a_cause_that_mends_one_row_and_breaks_another_is_refused() -> None:
    mended, other = with_cause([miss(), same()], [same("quantity"), miss("other")])
    assert not mended.explained and other.verdict == "equivalent"
    assert mended.note == "refused as a cause: it set, which breaks other"


def test_a_cause_may_break_no_more_rows_than_chance_would() -> None:
    noisy = [replace(same(f"row {place}"), chance=0.02) for place in range(20)]
    broken = [replace(row, verdict="miss") if row.quantity == "row 3" else row for row in noisy]
    first, *_ = with_cause([miss(), *noisy], [same("quantity"), *broken])
    assert first.explained and first.note.endswith("row 3 missed by chance")
    sharp = [replace(row, chance=1e-4) for row in broken]
    first, *_ = with_cause([miss(), *noisy], [same("quantity"), *sharp])
    assert not first.explained and "refused" in first.note


def test_an_experiment_runs_each_job_as_the_job_says() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Twice(Job):
        def __call__(self) -> str:
            return "twice"

    scenario = Scenario.load(data.SCENARIOS / "a-ftp.toml")
    met: list[str] = []

    def judged(measured: Sequence[str]) -> list[Row]:
        met.extend(measured)
        return [same("quantity") if measured else miss()]

    jobs = [Twice(scenario=scenario, seed=1, measure=lambda run: run)]
    again = Case(name="again", jobs=lambda: jobs, judge=judged)
    case = Case(
        name="case", jobs=list, judge=judged, causes=(Cause(why="why", switch="switch", again=again),)
    )
    [row] = agreement.compare([case])
    assert row.explained and met == ["twice"]


def test_an_experiment_on_another_case_is_an_error() -> None:
    with pytest.raises(ValueError, match="with it set: the experiment has other rows than the case"):
        with_cause([miss()], [same()])


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
