"""The benchmark: what is read from programs, compared with the record, kept and drawn."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benches"))

import bench
import callgrind
import controls
import costs
import disciplines
import history
import instruction_counts
import page
import scale
import simulators
import store
import workloads
from history import Measured
from instruction_counts import Change
from program import Program
from samples import Sample, cost, counted, ratio
from simulators import Count
from startup import Start
from store import Kept

BENCHES = Path(bench.__file__).parent


def sample(
    subject: str = "aqmlab", *, turn: int = 0, cpu_s: float = 1.0, peak: int = 0, **more: str
) -> Sample:
    group, case = more.get("group", "peers"), more.get("case", "w1")
    return Sample(
        group=group,
        case=case,
        subject=subject,
        turn=turn,
        packets=1_000_000,
        events=None,
        cpu_s=cpu_s,
        peak_bytes=peak,
    )


def test_packets_and_events_are_read_from_what_each_simulator_prints() -> None:
    assert counted("w1.json: 203570 packets, 1068712 events\n") == (203570, 1068712)
    assert counted('RESULT {"events_scheduled": 2619656, "total_departures": 203570}') == (203570, 2619656)
    assert counted('{"packets": 203820, "events": 3385047}') == (203820, 3385047)
    with pytest.raises(RuntimeError, match="no number of packets"):
        counted("Segmentation fault")


def test_a_ratio_is_the_median_over_runs_made_in_turn_and_not_of_medians() -> None:
    # The machine was slow in the second turn, for both.
    runs = [sample(turn=turn, cpu_s=spent) for turn, spent in enumerate((1.0, 5.0, 1.0))]
    runs += [sample("ns-2", turn=turn, cpu_s=spent) for turn, spent in enumerate((10.0, 50.0, 40.0))]
    assert ratio(runs, "ns-2", "aqmlab") == 10.0
    assert ratio(runs, "ns-3", "aqmlab") is None
    assert cost(runs, subject="aqmlab") == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("now", "grew", "verdict"),
    [(102.1, True, "MORE"), (101.9, False, "unchanged"), (98.1, False, "unchanged"), (97.9, False, "less")],
)
def test_two_per_cent_more_instructions_are_too_many(now: float, grew: bool, verdict: str) -> None:
    change = Change(workload="w1", before=100.0, now=now)
    assert change.grew == grew
    assert change.verdict.startswith(verdict)


def test_the_check_fails_when_a_workload_grew_and_passes_once_that_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instruction_counts, "RECORD", tmp_path / "counts.json")
    program, counts, here = Program(tmp_path), {"w1": 2000.0, "w3": 1500.0}, {"rustc": "1"}
    monkeypatch.setattr(instruction_counts, "count", lambda _: dict(counts))
    monkeypatch.setattr(instruction_counts, "tools", lambda: dict(here))
    alone = {"drop-tail": 77.0, "drr": 350.0}
    monkeypatch.setattr(disciplines, "measure", lambda _: list(of_disciplines(alone)))
    assert instruction_counts.check(program, accept=False) == 0
    assert "add it with --accept" in capsys.readouterr().out
    assert instruction_counts.check(program, accept=True) == 0
    counts["w3"], here["rustc"] = 1600.0, "2"
    assert instruction_counts.check(program, accept=False) == 1
    printed = capsys.readouterr().out
    assert re.search(r"w3 +1,500\.0 +1,600\.0 +\+6\.7%  MORE", printed)
    assert "6 counts of disciplines are unchanged" in printed
    assert "rustc '1', now '2'" in printed
    assert instruction_counts.check(program, accept=True) == 0
    assert instruction_counts.check(program, accept=False) == 0
    alone["drr"] = 400.0
    assert instruction_counts.check(program, accept=False) == 1
    printed = capsys.readouterr().out
    assert re.search(r"drr, 100 flows +350\.0 +400\.0 +\+14\.3%  MORE", printed)
    assert "3 counts of disciplines are unchanged" in printed


def of_disciplines(alone: dict[str, float]) -> Iterator[Count]:
    """What is counted of disciplines that cost so much, however many flows there are."""
    for kind, value in alone.items():
        for flows in disciplines.FLOWS:
            yield Count(
                case=disciplines.case(flows),
                subject=kind,
                seconds=0.0,
                instructions=round(1000 * value),
                packets=1000,
                by_file={},
            )


def test_disciplines_are_shown_in_times_of_drop_tail_with_one_flow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = [*of_disciplines({"drop-tail": 80.0, "drr": 400.0})]
    bench.show(Measured(counts=counts))
    printed = capsys.readouterr().out
    assert re.search(r"drr +400 +5\.00 +5\.00 +5\.00\n", printed)
    assert "by the bottleneck" not in printed, "there are no workloads"


def test_the_record_has_the_workloads_that_are_counted() -> None:
    for kept in json.loads(instruction_counts.RECORD.read_text(encoding="utf-8")).values():
        assert list(kept[instruction_counts.COUNTS]) == [one.name for one in workloads.WORKLOADS]
        assert set(kept["tools"]) == set(instruction_counts.tools())
        alone = kept[instruction_counts.ALONE]
        assert alone.keys() <= set(disciplines.kinds()) and disciplines.BASE in alone
        assert {len(counts) for counts in alone.values()} == {len(disciplines.FLOWS)}


def test_a_profile_is_summed_by_file_without_what_calls_cost() -> None:
    lines = """events: Ir
fl=(1) /home/me/crates/aqm-sim/src/world/mod.rs
fn=(1) run
10 100
+2 50
fi=(2) /rustc/1/library/core/src/num.rs
7 5
cfi=(3) /home/me/crates/aqm-queue/src/red.rs
cfn=(2) enqueue
calls=3 20
* 1000
fe=(1)
12 1

fl=(3)
20 30
fl=(4) ./malloc/malloc.c
1 2
"""
    found = callgrind.self_cost_by_file(line + "\n" for line in lines.splitlines())
    assert found == {"aqm-sim/world/mod.rs": 151, "aqm-queue/red.rs": 30, "std": 5, "other": 2}


def test_files_of_the_history_keep_every_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    count = Count(
        case="w1", subject="aqmlab", seconds=20.0, instructions=6, packets=2, by_file={"aqm-queue/red.rs": 6}
    )
    found = Measured(
        samples=[sample(turn=turn, cpu_s=0.25) for turn in range(3)],
        counts=[count],
        starts=[Start(case="python", cpu_s=0.5, wall_s=1.0)],
        kept=[Kept(case="ls", runs=10, cpu_s=0.5, wall_s=1.0, peak_bytes=7)],
    )
    history.write(found, {"ns-2": "2.35"}, path)
    assert history.read(path) == found
    assert json.loads(path.read_text(encoding="utf-8"))["versions"]["ns-2"] == "2.35"


def test_the_history_says_where_and_with_what_it_was_made() -> None:
    assert history.whole()
    for path in history.whole():
        kept = json.loads(path.read_text(encoding="utf-8"))
        assert path.name.startswith(kept["date"][: len("2026-11-22")])
        assert {"architecture", "processor", "cpus", "kernel", "load"} <= set(kept["machine"])
        assert {"aqmlab", "commit", "rustc"} <= set(kept["versions"])
        cases = {one.case for one in history.read(path).samples if one.group == simulators.GROUP}
        assert cases == {"w1", "w2", "w3"}


def test_the_page_shows_the_newest_file_of_the_history(tmp_path: Path) -> None:
    page.main(["--docs", str(tmp_path)])
    text = page.PAGE.read_text(encoding="utf-8")
    assert history.whole()[-1].name in text
    assert (tmp_path / "background" / page.PAGE.name).read_text(encoding="utf-8") == text
    drawn = {path.name for path in (tmp_path / "images").iterdir()}
    assert drawn == set(re.findall(r"\.\./images/([\w-]+\.png)", text))


def test_a_file_without_a_part_is_not_put_into_the_page() -> None:
    text = "[runs](benches/history/old.json)\n```text\na\n1\n```\nand\n```text\nb\n```\n"
    assert page.with_tables(text, "c\n2\n\nd\n", "new.json") == (
        "[runs](benches/history/new.json)\n```text\nc\n2\n```\nand\n```text\nd\n```\n"
    )
    with pytest.raises(SystemExit, match=r"new\.json has 1 tables, but the page has 2"):
        page.with_tables(text, "c\n2\n", "new.json")


def test_every_source_file_belongs_to_a_part() -> None:
    assert page.part_of("aqm-sim/network.rs") == "lines and ports"
    assert page.part_of("aqm-sim/world/mod.rs") == "flows and hosts"
    assert page.part_of("aqm-queue/red.rs") == "queue disciplines"
    assert page.part_of("other") == "C library and others"


def test_a_million_flows_have_round_trips_of_10_to_100_ms() -> None:
    scenario = scale.dumbbell(scale.MILLION).effective
    assert scenario["bottleneck"]["rate"] == "100Gbps"
    one_way_ms = 3 + 2 * 1
    assert scenario["bottleneck"]["delay"] == "3ms"
    least, most = scenario["traffic"]["ftp"]["extra_delay"]
    assert (2 * one_way_ms, least, most) == (10, "0s", "45ms")


def test_what_grows_with_the_flows_leaves_out_packets_under_way() -> None:
    few, many = scale.FEW, 10_000
    peaks = {flows: 5_000_000 + 600 * flows + 88 * round(scale.in_flight(flows)) for flows in (few, many)}
    runs = [sample(group=scale.FLOWS, case=str(flows), peak=peak) for flows, peak in peaks.items()]
    assert scale.bytes_per_flow(runs, scale.FLOWS, many) == pytest.approx(600, abs=1)


def test_every_queue_that_needs_no_more_than_its_defaults_is_measured() -> None:
    kinds = [queue["kind"] for queue in costs.kinds("225p")]
    assert kinds[0] == costs.DROP_TAIL
    assert {"red", "shred", "pi", "drr", "wfq", "htb"} <= set(kinds)


def test_short_forms_are_the_workloads_cut_short() -> None:
    for workload in workloads.WORKLOADS:
        long = workloads.scenario(workload.name).effective
        short = workloads.scenario(workload.name, workload.counted_s).effective
        assert long["duration"] == f"{workload.seconds:g}s"
        differs = {key for key in long if long[key] != short[key]}
        assert differs - {"traffic"} == {"duration", "warm_up"}


def test_programs_for_ns3_and_htsim_have_the_lines_of_the_scenarios() -> None:
    ns3 = (BENCHES / "peers" / "ns3.cc").read_text(encoding="utf-8")
    htsim = (BENCHES / "peers" / "htsim.cc").read_text(encoding="utf-8")
    for name in ("w1", "w3"):
        scenario = workloads.scenario(name).effective
        line, access = scenario["bottleneck"], scenario["access"]
        assert f'{{"{line["rate"]}", "{line["delay"]}", "{access["rate"]}"' in ns3
        rate, delay = line["rate"].removesuffix("Mbps"), line["delay"].removesuffix("ms")
        assert f"{name.upper()} = {{{rate}, {delay}, " in htsim


def test_the_benchmark_of_the_store_measures_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    kept = store.measure(runs=20)
    assert [one.case for one in kept] == ["add", "ls, no index", "ls", "sql"]
    assert all(one.runs == 20 and one.wall_s > 0 and one.peak_bytes > 1e6 for one in kept)
    store.print_table(kept)
    assert capsys.readouterr().out.count("\n") == len(kept) + 1


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--only", "wheels"])
    assert "invalid choice: 'wheels'" in capsys.readouterr().err


def test_controls_are_compared_per_forwarded_and_per_sent_packet(capsys: pytest.CaptureFixture[str]) -> None:
    def count(subject: str, case: str, per_packet: int) -> Count:
        return Count(
            case=case, subject=subject, seconds=0.0, instructions=10 * per_packet, packets=10, by_file={}
        )

    names = [*controls.VARIANTS, controls.UNPACED, controls.PACED]
    counts = [count(name, controls.FORWARDED, 3000 if "bbr" in name else 2000) for name in names]
    counts += [count(name, controls.SENT, 2500 if "bbr" in name else 2000) for name in names]
    bench.show(Measured(counts=counts))
    lines = capsys.readouterr().out.splitlines()
    assert "bbr3/rack                         3,000    2,500" in lines
    assert "bbr3/rack / reno/rack                                  1.50     1.25     1.5" in lines
    assert not any("whole processes" in line for line in lines), "no count of another part is printed"


def test_packets_that_are_sent_arrive_at_the_link() -> None:
    one = workloads.scenario("w1", 3)
    arrivals = one.with_({"warm_up": "0s"}).run().links["arrivals"][0]
    assert controls.sent(one) >= arrivals > 0, "some packets are still on their access link"
