"""Measures of tests of responsiveness, by hand and from runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aqmlab as al
from aqmlab import measures
from aqmlab.cli import line_test_text
from aqmlab.measures import View
from aqmlab.metrics.line_tests import LineTest, Settings, summary
from aqmlab.metrics.outcome import PROFILES
from aqmlab.scenario.catalog import members
from aqmlab.scenario.workloads import workloads
from aqmlab.sweep import Sweep

ROOT = Path(__file__).parent.parent
BOTH = Settings(
    directions=("download", "upload"),
    has_idle=True,
    has_echoes=True,
    tls=True,
    window_s=4.0,
    intervals=4,
    trim=0.95,
)
Row = tuple[float, str, str, float | None, float | None, float | None]


def probes(rows: list[Row]) -> pl.DataFrame:
    names = ("time_s", "phase", "probe", "tcp_s", "tls_s", "response_s")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    times = dict.fromkeys(("time_s", "tcp_s", "tls_s", "response_s"), pl.Float64)
    return pl.DataFrame({"traffic": ["test"] * len(rows), **columns}, schema_overrides=times)


def intervals(rows: list[tuple[float, str, float, bool, bool]]) -> pl.DataFrame:
    names = ("time_s", "phase", "goodput_bps", "goodput_stable", "rpm_stable")
    return pl.DataFrame(
        {
            "traffic": ["test"] * len(rows),
            **{name: [row[at] for row in rows] for at, name in enumerate(names)},
        }
    )


def line_test(
    rows: list[Row], ends: list[tuple[float, str, float, bool, bool]], settings: Settings = BOTH
) -> LineTest:
    tables = {"test_probes": probes(rows), "test_intervals": intervals(ends)}
    return LineTest.of(tables, "test", settings)


IDLE: list[Row] = [(0.1 * k, "idle", "foreign", 0.020, 0.021, 0.022 + 0.001 * (k % 2)) for k in range(4)]
DOWNLOAD: list[Row] = [
    # Before the window.
    (1.0, "download", "foreign", 9.0, 9.0, 9.0),
    (2.0, "download", "foreign", 0.050, 0.060, 0.070),
    (3.0, "download", "self", None, None, 0.100),
    (3.5, "download", "foreign", 0.030, 0.040, 0.050),
    # Not complete.
    (4.0, "download", "foreign", 0.030, None, None),
    (4.5, "download", "self", None, None, None),
]
ENDS = [(float(at), "download", 1e6 * at, False, False) for at in range(2, 7)]


def test_a_direction_counts_the_complete_probes_of_its_last_intervals() -> None:
    found = line_test(DOWNLOAD, ENDS)
    rounds = found.rounds("download")
    assert rounds.tcp.tolist() == [0.050, 0.030]
    assert rounds.http.tolist() == [0.070, 0.050]
    assert found.rpm("download") == pytest.approx((60 / 0.050 + 600) / 2)
    assert (found.rate_bps("download"), found.rpm("upload"), found.rate_bps("upload")) == (6e6, None, None)


def test_the_latency_is_the_median_and_the_increase_that_of_the_worse_direction() -> None:
    upload: list[Row] = [(8.0, "upload", "foreign", 0.5, 0.5, 0.5)]
    found = line_test(IDLE + DOWNLOAD + upload, [*ENDS, (10.0, "upload", 1e6, False, False)])
    assert found.latency_s("idle") == pytest.approx(0.0225)
    assert found.jitter_s() == pytest.approx(0.001)
    assert found.latency_s("download") == pytest.approx(0.060)
    assert found.increase_s() == pytest.approx(0.5 - 0.0225)
    assert line_test(IDLE + DOWNLOAD, ENDS).increase_s() is None, "a direction is missing"


def test_the_parts_of_the_latency() -> None:
    found = line_test(IDLE + DOWNLOAD, ENDS)
    assert found.base_s() == pytest.approx(0.020)
    assert found.queue_s("download") == pytest.approx(0.040 - 0.020)
    assert found.own_queue_s("download") == pytest.approx(0.100 - 0.060)
    assert found.host_s() == pytest.approx(0.0025)


def test_echoes_after_the_last_answer_are_under_way() -> None:
    sent: list[Row] = [
        (2.0 + 0.1 * k, "download", "echo", None, None, None if k in (1, 8, 9) else 0.060) for k in range(10)
    ]
    found = line_test(sent, ENDS)
    times, lost = found.echoes(["download"])
    assert (times.size, lost) == (7, pytest.approx(1 / 8))
    # Of the latencies, 80 % of the range is left between 50 and 100 ms, but a loss of 12.5 % is unacceptable.
    assert found.outcome(PROFILES["web"]) == 0
    assert line_test([], ENDS).loss() is None
    silent = line_test([(2.0, "download", "echo", None, None, None)], ENDS)
    assert silent.loss() == 1 and silent.outcome(PROFILES["web"]) == 0


@pytest.mark.parametrize(
    ("stable", "rpm_stable", "confidence"),
    [(0, False, "low"), (4, False, "low"), (5, False, "medium"), (5, True, "high")],
)
def test_confidence_follows_the_draft(stable: int, rpm_stable: bool, confidence: str) -> None:
    ends = [(float(at), "download", 1e6, at > 8 - stable, rpm_stable and at == 8) for at in range(1, 9)]
    assert line_test([], ends).confidence("download") == confidence


def scenario(queue: dict[str, Any], **more: Any) -> al.Scenario:
    line = {"rate": "10Mbps", "delay": "10ms", "queue": queue}
    test = {"kind": "responsiveness", "interval": "1s", "limit": "6s", **more}
    table = {
        "duration": "18s",
        "tcp": {"profile": "linux-6"},
        "bottleneck": {**line, "reverse": line},
        "access": {"rate": "10Gbps", "delay": "0s"},
        "traffic": {"test": test},
    }
    return al.Scenario.from_dict(table, name="test")


@pytest.fixture(scope="module")
def run() -> al.Run:
    return scenario({"kind": "drop-tail", "limit": "100p"}).run(seed=1)


def values(of: al.Run, one: al.Scenario) -> dict[str, float]:
    view = View(of)
    return {each.name: each.of(view) for each in measures.named(one, ["test.*"])}


def test_the_tables_of_a_test_are_those_of_the_catalogue(run: al.Run) -> None:
    for name in ("test_probes", "test_intervals"):
        (described,) = (one for one in members("tables") if one.name == name)
        assert run.tables[name].columns == [row["name"] for row in described.parameters]


def test_the_responsiveness_is_that_of_which_the_test_judged_the_stability(run: al.Run) -> None:
    settings = workloads(run.manifest["scenario"])["test"].responsiveness
    assert settings is not None
    found = LineTest.of(run.tables, "test", settings)
    for direction in ("download", "upload"):
        last = found.intervals.filter(pl.col("phase") == direction)["rpm"][-1]
        assert found.rpm(direction) == pytest.approx(last, rel=1e-9)


def test_drop_tail_has_worse_scores_than_fq_codel(run: al.Run) -> None:
    deep = values(run, scenario({"kind": "drop-tail", "limit": "100p"}))
    short = scenario({"kind": "fq-codel"})
    fair = values(short.run(seed=1), short)
    assert all(value is not None and math.isfinite(value) for value in (*deep.values(), *fair.values()))
    # A full queue of 100 packets takes 120 ms.
    assert 60 < deep["test.latency-increase"] < 125 and fair["test.latency-increase"] < 20
    assert deep["test.grade"] == 3 and fair["test.grade"] <= 1
    assert deep["test.rpm"] < 0.6 * fair["test.rpm"]
    assert deep["test.qoo-conferencing"] < 20 < 80 < fair["test.qoo-conferencing"]
    assert deep["test.aim-gaming"] < fair["test.aim-gaming"]
    # One queue delays all connections, while FQ-CoDel delays the connection that fills the queue most. The
    # ratio of the two delays is 0.14 to 0.46 in runs with ten seeds.
    assert abs(deep["test.download-own-queue"]) < 0.5 * deep["test.download-queue"]
    assert fair["test.download-own-queue"] > fair["test.download-queue"]
    # The hosts add jitter.
    assert deep["test.base-delay"] == pytest.approx(20.5, abs=0.5)


def test_the_summary_has_the_results(run: al.Run) -> None:
    found = run.summary["line_tests"]["test"]
    lines = list(line_test_text.lines("test", found))
    assert lines[1].startswith("    download: ") and " RPM (" in lines[1]
    assert lines[3].startswith("    bufferbloat: grade C, latency increased by ")
    assert lines[-1].startswith("    AIM: streaming ")
    hello = al.Scenario.load(ROOT / "scenarios/hello.toml", {"duration": "2s", "warm_up": "0s"})
    assert "line_tests" not in hello.run(seed=1).summary


def test_a_run_that_ends_before_the_load_has_no_results() -> None:
    one = scenario({"kind": "fq-codel"}).with_({"duration": "2s"})
    run = one.run(seed=1)
    assert values(run, one)["test.rpm"] is None
    settings = workloads(run.manifest["scenario"])["test"].responsiveness
    lines = list(line_test_text.lines("test", summary(LineTest.of(run.tables, "test", settings or {}))))
    assert lines[1] == "    download: the run is too short for a result"


@pytest.mark.parametrize(
    ("name", "more", "problem"),
    [
        ("test.aim-rtc", {"directions": "upload"}, r'needs both directions \(`directions = "both"`\)'),
        ("test.aim-rtc", {"echo_every": "0s", "idle_probes": 0}, r"\(`idle_probes`\) and echoes"),
        ("test.qoo-web", {"echo_every": "0s"}, r"needs echoes \(`echo_every`\) of the workload test"),
        ("test.grade", {"idle_probes": 0}, r"needs requests on the idle line \(`idle_probes`\)"),
        ("test.download-rpm", {"directions": "upload"}, r"needs the direction download \(`directions`\)"),
        ("test.upload-rmp", {}, r"no measure is named `test.upload-rmp`: did you mean"),
    ],
)
def test_a_score_that_the_test_cannot_have_is_refused(name: str, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        measures.named(scenario({"kind": "fq-codel"}, **more), [name])


def test_sweeps_store_the_tables_of_probes_if_there_are_tests() -> None:
    axes = {"bottleneck.delay": ("10ms",)}
    sweep = Sweep(scenario({"kind": "pie"}), axes=axes, measures=["test.rpm"], tables=["tables"])
    assert {"tables/test_probes", "tables/test_intervals"} <= {one.name for one in sweep.wanted}
    hello = al.Scenario.load(ROOT / "scenarios/hello.toml")
    with pytest.raises(ValueError, match="no table is named `test_probes`"):
        Sweep(hello, axes=axes, measures=["bottleneck.utilisation"], tables=["test_probes"])


# Datagrams with a deadline, and the parts of their delay


def game(**more: Any) -> al.Scenario:
    table = {
        "duration": "10s",
        "warm_up": "1s",
        "bottleneck": {
            "rate": "1Mbps",
            "delay": "20ms",
            "queue": {"kind": "drop-tail", "limit": "20p"},
        },
        "access": {"rate": "10Gbps", "delay": "0s"},
        "host": {"jitter": "0s"},
        "traffic": {
            "game": {"kind": "udp", "rate": "100kbps", "deadline": "50ms", **more},
            "rest": {"kind": "udp", "load": 0.7, "gaps": {"kind": "exponential"}},
        },
        "record": {"histories": ["game"], "packets": ["bottleneck"]},
    }
    return al.Scenario.from_dict(table, name="game")


def test_late_datagrams_are_those_that_are_lost_or_exceed_the_deadline() -> None:
    one = game()
    run = one.run(seed=1)
    found = {each.name: each.of(View(run)) for each in measures.named(one, ["game.*"])}
    packets = run.tables["packets"].with_columns(pl.col("event").cast(pl.String))
    ends = packets.filter(pl.col("link").is_null() & (pl.col("time_s") >= 1))
    sent = ends.filter(pl.col("event") == "send").select("sequence_bytes", sent_s="time_s")
    received = ends.filter(pl.col("event") == "receive").select("sequence_bytes", received_s="time_s")
    took = (
        sent.join(received, on="sequence_bytes").select(pl.col("received_s") - pl.col("sent_s")).to_series()
    )
    assert found["game.late"] == pytest.approx(100 * float((took > 0.05).mean()), abs=1e-9)
    assert 0 < found["game.late"] < 50


def test_the_parts_of_a_delay_are_its_sum() -> None:
    one = game()
    view = View(one.run(seed=1))
    parts = [
        each.of(view)
        for each in measures.named(
            one, ["game.queueing-delay", "game.transmission-delay", "game.propagation-delay"]
        )
    ]
    (whole,) = (each.of(view) for each in measures.named(one, ["game.delay"]))
    # 1000 B at 1 Mb/s take 8 ms.
    assert parts[1:] == pytest.approx([8, 20], abs=0.01)
    assert sum(parts) == pytest.approx(whole, rel=0.02)
    only_ends = one.with_({"record.packets": []})
    with pytest.raises(ValueError, match=r"no measure is named `game\.queueing-delay`"):
        measures.named(only_ends, ["game.queueing-delay"])
