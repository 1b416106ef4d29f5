"""Simulated and live runs side by side: a study of any scenario; what is compared, judged and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from live_rig import MIXED, NEEDED
from typer.testing import CliRunner

import aqmlab as al
from aqmlab import _core, kernel, live
from aqmlab.campaign import live as live_runs
from aqmlab.cli import live_text
from aqmlab.cli.app import app
from aqmlab.live_agreement import agreement
from aqmlab.scenario import Scenario
from aqmlab.store import Store
from aqmlab.study import Study, StudyResult, run_study

REPLICATIONS = 4
SHORT = {"duration": "8s", "warm_up": "2s"}
WEB = {"traffic.web": {"kind": "web", "load": 0.3}}
FAMILIES = ("drop-tail", "red", "shred", "rio-ps", "drr")


def scenario(**changes: Any) -> Scenario:
    return Scenario.load("live-agreement", {**SHORT, **changes})


def instead_of_live(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Simulated runs with some changes stand for live ones."""

    class Simulated(live_runs.ValidRuns):
        def __init__(self, scenario: Scenario) -> None:
            super().__init__(scenario.with_(changes))

        def run(self, seed: int | None = None, *, watch: Any = None) -> Any:
            run = self._scenario.run(seed, watch=watch)
            lateness = {"p99_us": 60.0, "max_us": 300.0}
            run.manifest["live"] = {
                "ended_s": 30.0,
                "lateness": lateness,
                "repeated": [],
                "tcp_shortfalls": {},
            }
            return run

    monkeypatch.setattr(live_runs, "ValidRuns", Simulated)
    monkeypatch.setattr(live_runs, "need", lambda scenarios=(): None)
    monkeypatch.setattr(live_runs, "APART_S", 0.0)


def instead_of_virtual(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Replaces runs in virtual time by simulated runs with some changes. The kernel has a tick of 4 ms."""
    used = kernel.Kernel(
        path=Path(__file__), release="6.1.99", hz=250, seeded=True, controls=("reno",), qdiscs=("codel",)
    )

    class Simulated(live_runs.VirtualRuns):
        def run(self, seed: int | None = None, *, watch: Any = None) -> Any:
            run = self._scenario.with_(changes).run(seed, watch=watch)
            run.manifest["live"] = {
                "ended_s": 30.0,
                "lateness": {"p99_us": 1.0, "max_us": 2.0},
                "repeated": [],
                "tcp_shortfalls": {},
                "virtual": {"kernel": used.release, "tick_s": used.tick_s},
            }
            return run

    monkeypatch.setattr(live_runs, "VirtualRuns", Simulated)
    monkeypatch.setattr(live_runs, "_virtual_kernel", lambda: used)


def study(**more: Any) -> Study:
    found = {"queues": ["red"], "replications": REPLICATIONS, **more}
    return agreement.study(scenario(**WEB), **found)


def run(out: Path, **more: Any) -> StudyResult:
    return run_study(study(**more), out)


# What is compared


def test_the_cases_of_the_page_are_scenarios_of_their_own() -> None:
    tcps = ("reno/rack", "cubic/rack")
    without = agreement.study(scenario(), queues=FAMILIES, tcps=tcps, vary={"traffic.ftp.flows": [1, 4, 10]})
    beside = agreement.study(scenario(**WEB), queues=FAMILIES, tcps=tcps, vary={"traffic.ftp.flows": [4]})
    digests = set()
    for one in (without, beside):
        simulated, of_live = (each.sweep("full") for each in one.experiments)
        for point, other in zip(simulated.points(), of_live.points(), strict=True):
            made = simulated.scenario_of(point)
            assert made.digest == of_live.scenario_of(other).digest
            assert made.effective["tcp"]["recovery"]["kind"] == "rack", "which the profile has"
            digests.add(made.digest)
    assert len(digests) == 40


@pytest.mark.parametrize(
    ("name", "of_links", "of_workloads"),
    [
        ("hello", ["bottleneck"], ["ftp.goodput", "web.mean-time"]),
        (
            "unresponsive",
            ["bottleneck"],
            ["flood.goodput", "flood.delay", "uploads.goodput", "web.mean-time"],
        ),
        (
            "page-load",
            ["bottleneck"],
            ["bulk.goodput", "cbr.goodput", "cbr.delay", "pages.mean-time", "pages.mean-page"],
        ),
        ("two-bottlenecks", ["first", "second"], ["across.goodput", "far.mean-time", "near.mean-time"]),
    ],
)
def test_measures_follow_from_the_links_and_the_workloads(
    name: str, of_links: list[str], of_workloads: list[str]
) -> None:
    wanted = [f"{link}.{what}" for link in of_links for what in ("drops", "mean-queue")]
    assert [one.name for one in agreement.measured(Scenario.load(name))] == [*wanted, *of_workloads]


def test_without_a_name_the_scenario_itself_is_run() -> None:
    found = agreement.study(Scenario.load("hello"))
    assert {one.labels for one in found.experiments} == {("case",)}
    (point,) = found.experiments[0].sweep("full").points()
    assert point.labels == {"case": "hello"}


def test_each_measure_is_a_claim_that_the_ratio_is_near_1() -> None:
    found = study()
    assert [one.rule.text for one in found.claims] == [
        "live and simulated, at each queue: packets dropped, ratio of live to simulated must be in "
        "[0.9, 1.1]",
        "live and simulated, at each queue: mean queue, ratio of live to simulated must be in [0.9, 1.1]",
        "live and simulated, at each queue: ftp goodput, ratio of live to simulated must be in [0.95, 1.05]",
        "live and simulated, at each queue: web time, mean, ratio of live to simulated must be in [0.9, 1.1]",
    ]
    assert [one.live for one in found.experiments] == [False, True]
    assert {(one.seeds, one.first_seed) for one in found.experiments} == {(REPLICATIONS, 1)}


# How runs are judged


def test_runs_that_are_the_same_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_live(monkeypatch)
    result = run(tmp_path, vary={"traffic.ftp.flows": [1, 4]})
    assert not result.failures
    assert set(result.verdicts.values()) == {"holds"}
    found = agreement.compared(result)
    assert len(found) == 2 * 4
    for one in found:
        assert (one.ratio, one.verdict) == (1.0, "equivalent")
        assert one.simulated == one.live > 0


def test_a_line_that_is_faster_does_not_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    four = agreement.study(scenario(), vary={"traffic.ftp.flows": [4]}, replications=REPLICATIONS)
    result = run_study(four, tmp_path)
    (goodput,) = (one for one in agreement.compared(result) if one.measure == "ftp.goodput")
    assert (goodput.at, goodput.verdict, goodput.tolerance) == ({"flows": 4}, "miss", 0.05)
    assert goodput.ratio == pytest.approx(1.2, abs=0.02)
    assert result.verdicts["ftp.goodput"] == "fails"
    assert f"{goodput.simulated:.3g} | {goodput.live:.3g} ≠" in result.report.read_text()


def test_a_point_is_judged_by_its_own_interval_and_a_claim_allows_for_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    rates = agreement.study(
        scenario(**{"traffic.ftp.flows": 4}),
        vary={"bottleneck.rate": ["10Mbps", "12Mbps"]},
        replications=REPLICATIONS,
    )
    result = run_study(rates, tmp_path)
    points = [one for one in agreement.compared(result) if one.measure == "ftp.goodput"]
    assert [one.verdict for one in points] == ["miss", "equivalent"]
    parts = result.judged.of("ftp.goodput").parts
    assert [one.wider for one in parts] == [True, False]
    assert parts[0].low < points[0].low < points[0].high < parts[0].high


def test_a_change_of_the_simulated_runs_shows_what_a_difference_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    result = run(tmp_path, simulated={"bottleneck.rate": "12Mbps"})
    assert {one.verdict for one in agreement.compared(result)} == {"equivalent"}


def test_runs_in_virtual_time_are_compared_with_simulated_and_with_live_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    instead_of_virtual(monkeypatch)
    result = run(tmp_path, virtual=True)
    assert result.failures == ()
    goodput = {one.pair: one for one in agreement.compared(result) if one.measure == "ftp.goodput"}
    assert list(goodput) == [("live", "simulated"), ("virtual", "simulated"), ("live", "virtual")]
    assert goodput["virtual", "simulated"].ratio == 1.0
    assert goodput["live", "virtual"].ratio == goodput["live", "simulated"].ratio > 1.1
    table = agreement.tabulated(agreement.compared(result))
    assert table["runs"].to_list() == ["simulated | live", "simulated | virtual", "virtual | live"]
    facts = result.provenance["virtual"]
    assert (facts["runs"], facts["kernels"], facts["ticks_s"]) == (REPLICATIONS, ["6.1.99"], [0.004])
    assert result.provenance["live"]["runs"] == REPLICATIONS
    assert run(tmp_path, virtual=True).provenance["timing"]["virtual"]["made now"] == 0


def test_a_difference_is_timing_noise_only_with_the_same_kernel_and_tick() -> None:
    virtual = {"kernels": ["6.1.99"], "ticks_s": [0.004]}
    for live_facts, words in (
        ({"kernels": ["6.1.99"], "ticks_s": [0.004]}, "kernel and tick are the same, so"),
        ({"kernels": ["6.18"], "ticks_s": [0.004]}, "the kernel differs, so"),
        ({"kernels": ["6.18"], "ticks_s": [0.001]}, "the kernel and the tick differ, so"),
    ):
        assert live_text.noise(live_facts, virtual).startswith(words)


def test_what_was_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_live(monkeypatch)
    first = run(tmp_path)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a run that was kept is made again")

    monkeypatch.setattr(Scenario, "run", refuse)
    again = run(tmp_path)
    assert agreement.compared(again) == agreement.compared(first)
    assert again.failures == ()


# The command


def command(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["live", "agree", *arguments])


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command does not run itself again in a user namespace."""
    monkeypatch.setattr(_core, "needs_user_namespace", lambda: False, raising=False)


OPTIONS = (
    *("--queues", "red,drr", "--tcp", "reno/rack", "--vary", "traffic.ftp.flows=2"),
    *("--set", "duration=8s", "--set", "warm_up=2s", "--replications", "2"),
)


@pytest.mark.usefixtures("as_root")
def test_the_command_prints_a_line_for_each_point_and_what_does_not_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    done = command("live-agreement", *OPTIONS, "--out", str(tmp_path))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert sum("| " in line and "reno/rack" in line and "│" in line for line in lines) == 2
    assert any(
        line.startswith("≠ queue = drr, tcp = reno/rack, flows = 2: ftp goodput, live/simulated 1.")
        for line in lines
    )
    assert "4 live runs on Linux" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert f"aqmlab live agree live-agreement {' '.join(OPTIONS[:4])}" in page
    asked = command("live-agreement", *OPTIONS, "--json", "--out", str(tmp_path))
    found = json.loads(asked.stdout)
    assert (found["replications"], found["live"]["runs"], found["failures"]) == (2, 4, [])
    assert found["compared"][0]["at"] == {"queue": "red", "tcp": "reno/rack", "flows": 2}
    assert {one["measure"] for one in found["compared"]} == {
        "bottleneck.drops",
        "bottleneck.mean-queue",
        "ftp.goodput",
    }


@pytest.mark.usefixtures("as_root")
def test_the_command_says_what_is_wrong_before_any_run(tmp_path: Path) -> None:
    for arguments, message in (
        (["hello", "--queues", "codle"], "no queue is named `codle`: did you mean codel"),
        (["hello", "--tcp", "cubick"], "did you mean `cubic`?"),
        (
            ["hello", "--at", "bottleneck"],
            "at: selects the links whose queues are replaced, but no replacement queue is given",
        ),
        (["hello", "--vary", "queue=red"], "vary: queue: is not a path of the scenario; use --queues"),
        (["hello", "--vary", "a=1", "--vary", "a=2"], "--vary a=2: the path a occurs twice"),
        (["hello", "--vary", "traffic.ftp.flows=0,4"], "point 0 (flows = 0): traffic.ftp.flows: must be"),
        (["hello", "--simulated", "nonsense=3"], "unknown key `nonsense`"),
    ):
        done = command(*arguments, "--out", str(tmp_path))
        said = str(done.exception) + done.stderr
        assert message in said
    assert not list((tmp_path / "store").rglob("*.log"))


def test_what_cannot_be_simulated_is_refused() -> None:
    program = {"traffic.wget": {"kind": "program", "client": ["true"]}}
    only_live = r"^hello cannot be simulated: traffic\.wget\.kind: can only be used in a live run"
    with pytest.raises(ValueError, match=only_live):
        agreement.study(Scenario.load("hello", program))
    elastic = Path(__file__).parent.parent / "scenarios/flow-level/elastic.toml"
    with pytest.raises(ValueError, match=r"has the level `flow`, but live runs need the level `packet`"):
        agreement.study(Scenario.load(elastic))
    with pytest.raises(ValueError, match=r"replications: must be a whole number of at least 2 \(got 1\)"):
        agreement.study(Scenario.load("hello"), replications=1)


@NEEDED
def test_what_cannot_be_run_live_is_refused_before_any_run(tmp_path: Path) -> None:
    live.check(Scenario.load("real-tcp"))
    one_way = r"traffic\.call\.kind: live runs support datagrams in only one direction"
    with pytest.raises(al.ScenarioError, match=one_way):
        live.check(Scenario.load("call"))
    with pytest.raises(al.ScenarioError, match=r"tcp\.recovery"):
        live.check(Scenario.load("real-tcp", {"tcp.recovery.kind": "tahoe"}))
    video = agreement.study(Scenario.load("video"), queues=["codel", "pie"])
    no_clients = r"^video cannot be run live: traffic\.film\.kind: live runs do not support clients"
    with pytest.raises(ValueError, match=no_clients):
        run_study(video, tmp_path)
    assert Store(tmp_path / "store", read_only=True).runs().height == 0


@NEEDED
def test_live_runs_are_compared_with_simulated_ones(tmp_path: Path) -> None:
    path = tmp_path / "mixed.toml"
    path.write_text(MIXED)
    mixed = agreement.study(Scenario.load(path), queues=["drop-tail", "codel"], replications=2)
    result = run_study(mixed, tmp_path / "out")
    assert result.failures == ()
    goodput = [one for one in agreement.compared(result) if one.measure == "ftp.goodput"]
    assert [one.at for one in goodput] == [{"queue": "drop-tail"}, {"queue": "codel"}]
    for one in goodput:
        assert 0.5 < one.ratio < 2
    assert result.provenance["live"]["runs"] == 4
