"""Simulated and live runs side by side: what is compared, and how it is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aqmlab.campaign import live as live_runs
from aqmlab.live_agreement import agreement as live_agreement
from aqmlab.live_agreement.agreement import LOADS, MEASURES, QUEUES, TCPS
from aqmlab.scenario import Scenario

REPLICATIONS = 4


class _Changed:
    """A scenario whose runs stand for live ones: simulated, with other hosts."""

    def __init__(self, scenario: Scenario, **changes: Any) -> None:
        self._scenario = scenario.with_(changes)

    @property
    def digest(self) -> str:
        return f"live-{self._scenario.digest}"

    def run(self, seed: int | None = None, *, watch: Any = None) -> Any:
        run = self._scenario.run(seed, watch=watch)
        lateness = {"p99_us": 60.0, "max_us": 300.0}
        run.manifest["live"] = {"ended_s": 30.0, "lateness": lateness, "repeated": [], "tcp_shortfalls": {}}
        return run


def _instead_of_live(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    def changed(scenario: Scenario) -> _Changed:
        return _Changed(scenario, **changes)

    monkeypatch.setattr(live_runs, "ValidRuns", changed)
    monkeypatch.setattr(live_runs, "need", lambda: None)
    monkeypatch.setattr(live_runs, "APART_S", 0.0)


def _run(out: Path, **more: Any) -> live_agreement.Comparison:
    only: dict[str, Any] = {"queues": ["red"], "loads": ["4", "4+web"], "tcps": ["reno"]}
    return live_agreement.run(out, **{**only, "replications": REPLICATIONS, **more})


def test_every_case_is_a_scenario_of_its_own() -> None:
    sweep = live_agreement.experiment("simulated").sweep("full")
    cases = [sweep.scenario_of(point).digest for point in sweep.points()]
    assert len(set(cases)) == len(cases) == len(QUEUES) * len(LOADS) * len(TCPS) == 40


def test_runs_that_are_the_same_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _instead_of_live(monkeypatch)
    found = _run(tmp_path)
    assert not found.failures
    assert [one.measure for one in found.compared] == [one.name for one in MEASURES[:3]] + [
        one.name for one in MEASURES
    ]
    for one in found.compared:
        assert (one.ratio, one.verdict) == (1.0, "equivalent")
        assert one.simulated == one.live > 0


def test_a_line_that_is_faster_does_not_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    goodput = [one for one in _run(tmp_path).compared if one.measure == "goodput"]
    assert [one.verdict for one in goodput] == ["miss", "miss"]
    assert goodput[0].ratio == pytest.approx(1.2, abs=0.02)


def test_a_change_of_the_simulated_runs_shows_what_a_difference_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    found = _run(tmp_path, simulated={"bottleneck.rate": "12Mbps"})
    assert {one.verdict for one in found.compared} == {"equivalent"}


def test_what_was_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _instead_of_live(monkeypatch)
    first = _run(tmp_path, loads=["4"])

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a run that was kept is made again")

    monkeypatch.setattr(Scenario, "run", refuse)
    assert _run(tmp_path, loads=["4"]) == first


def test_lines_tell_every_case_and_what_does_not_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _instead_of_live(monkeypatch, **{"bottleneck.rate": "12Mbps"})
    found = _run(tmp_path)
    text = "\n".join(live_agreement.lines(found))
    goodput = found.compared[0]
    assert f"{goodput.simulated:.2f} | {goodput.live:.2f} ≠" in text
    assert f"≠ red, 4, reno: goodput live/simulated {goodput.ratio:.3f}" in text
    assert f"{2 * REPLICATIONS} live runs on Linux" in text


def test_a_name_that_is_not_known_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no case is named `codel`: there is drop-tail, red, shred"):
        live_agreement.run(tmp_path, queues=["codel"])
