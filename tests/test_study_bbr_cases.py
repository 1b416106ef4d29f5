"""The study `bbr-cases`: its scenarios are valid, and its measures compute what they say on short runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from study_checks import check_every_scenario

from aqmlab import studies
from aqmlab.measures import View
from aqmlab.scenario import Scenario
from aqmlab.studies import bbr_cases
from aqmlab.studies.bbr_cases import network as net
from aqmlab.studies.bbr_cases.measures import application, link, states


def sender(table: dict[str, Any], duration: str, seed: int = 1) -> View:
    """A run of a case, cut to a short duration."""
    return View(Scenario.from_dict(table | {"duration": duration}, name="short").run(seed=seed))


def test_the_study_is_registered() -> None:
    assert studies.load("bbr-cases") is bbr_cases.STUDY


def test_the_study_has_a_claim_for_each_of_the_22_cases() -> None:
    assert [one.id for one in bbr_cases.CLAIMS if one.origin == "paper"] == [
        f"BBR-{at}" for at in range(1, 23)
    ]


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(bbr_cases.STUDY)


def test_rounds_and_gains_of_the_base_set_up() -> None:
    view = sender(net.NORMAL, "1s")
    assert states.STARTUP_PLATEAU.of(view) == 3
    assert states.ESTIMATE.of(view) == pytest.approx(1.0, abs=0.02)
    assert states.DRAIN_GAIN.of(view) == pytest.approx(0.5)
    assert states.DRAIN_BEFORE.of(view) > 1 >= states.DRAIN_INFLIGHT.of(view)


def test_without_a_phase_a_measure_has_no_value() -> None:
    view = sender(net.NORMAL, "300ms")
    assert [
        one.of(view) for one in (states.ESTIMATE, states.DRAIN_GAIN, states.UP_ROUNDS, states.DOWN_INFLIGHT)
    ] == [None] * 4


def test_a_limited_application_stays_in_startup_and_a_greedy_one_leaves() -> None:
    assert application.STAYS_IN_STARTUP.of(sender(net.LIMITED, "2s")) == 1
    assert application.STAYS_IN_STARTUP.of(sender(net.NORMAL, "2s")) == 0


def test_the_plateau_counts_rounds_after_the_last_growth_by_a_quarter() -> None:
    assert states.plateau_rounds([1, 2, 4, 4.9, 4.9, 4.9]) == 3
    assert states.plateau_rounds([4, 5, 6.25]) == 0


def test_the_growth_ratio_ends_with_the_first_smaller_increment() -> None:
    assert link.growth_ratio([68.0, 68.1, 70.1, 74.1, 82.1, 83.1, 99.1]) == pytest.approx(2.0)
    assert link.growth_ratio([68.0, 68.1]) is None


def test_the_rate_falls_when_down_begins() -> None:
    table = net.slower_at_down(net.SLOWER_IN_DOWN, {}, 1)
    (step,) = table["bottleneck"]["rate_steps"]
    assert float(step["at"].removesuffix("s")) == pytest.approx(
        net.entry("PROBE_BW_DOWN", 1.0, 1)[0], abs=1e-6
    )


def test_the_qlog_of_a_case_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bbr_cases, "EXPERIMENTS", (bbr_cases.sub_packet,))
    (path,) = bbr_cases.write_qlogs(tmp_path)
    assert path == tmp_path / "qlog" / "sub-packet" / "flow-flow0.sqlog"
    assert b"congestion_state_updated" in path.read_bytes()
