"""The study `bbr-cases`: its scenarios are valid, and its measures compute what they say on short runs. Seen
from outside, a sender has the phases and numbers of its tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from study_checks import check_every_scenario

from aqmlab import studies
from aqmlab.measures import View
from aqmlab.scenario import Scenario
from aqmlab.studies import bbr_cases
from aqmlab.studies.bbr_cases import network as net
from aqmlab.studies.bbr_cases import outside as form
from aqmlab.studies.bbr_cases.measures import application, link, states
from aqmlab.studies.bbr_cases.measures import outside as seen
from aqmlab.studies.bbr_cases.measures.sender import CRUISE, DOWN, DRAIN, STARTUP, UP, Sender
from aqmlab.study import queues


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


# From outside


def test_from_outside_the_phases_and_numbers_are_those_of_the_sender() -> None:
    view = sender(net.NORMAL, "4s")
    inside, outside = view.once(Sender), view.once(seen.Outside)
    names = {"PROBE_BW_REFILL": CRUISE}
    known: list[str] = []
    for phase in inside.phases:
        name = names.get(phase.state, phase.state)
        # The DOWN phase after Drain lasts for one acknowledgement.
        if phase.duration_s > 0.001 and known[-1:] != [name]:
            known.append(name)
    assert [one.state for one in outside.phases] == known == [STARTUP, DRAIN, CRUISE, UP, DOWN, CRUISE]
    assert outside.base_rtt == pytest.approx(float(inside.min_rtt[-1]), rel=0.01)
    for measure in (states.STARTUP_PLATEAU, states.UP_ROUNDS, states.DRAIN_GAIN, states.DOWN_GAIN):
        assert seen.outside(measure).of(view) == pytest.approx(measure.of(view))
    for measure in (states.ESTIMATE, states.DRAIN_INFLIGHT, states.DOWN_INFLIGHT):
        assert seen.outside(measure).of(view) == pytest.approx(measure.of(view), rel=0.005)
    assert seen.KEPT_BANDWIDTH.of(view) == pytest.approx(1.0)
    assert max(seen.SENT_RATE.of(view)[160:175]) == pytest.approx(1.25 * 50, rel=0.03)


def test_the_state_is_the_state_with_the_nearest_gain() -> None:
    gains = (2.77, 1.25, 1.12, 1.0, 0.91, 0.5, 0.35, math.nan)
    assert [seen.state_of(gain) for gain in gains] == [
        *(STARTUP, UP, UP, CRUISE, DOWN, DRAIN, DRAIN, STARTUP)
    ]


def test_losses_do_not_stop_the_rounds_and_the_floor_of_the_window_counts_packets() -> None:
    lossy = sender(net.LOSSY, "4s").once(seen.Outside)
    assert lossy.dropped_at.size > 0
    rounds = list(lossy.rounds(1.0, 2.0))
    assert len(rounds) == pytest.approx(1.0 / lossy.base_rtt, abs=3)
    assert seen.LEAST_PACKETS.of(sender(net.SUB_PACKET, "20s")) == 4


def test_a_guest_gets_the_application_of_a_case() -> None:
    table = form.with_guest("noq", "bbr3", net.LIMITED)
    assert "tcp" not in table
    assert table["traffic"][net.FLOW]["options"] == {"model": True, "burst": 125_000, "interval_s": 0.1}
    assert form.with_guest("noq", "bbr3", net.NORMAL)["traffic"][net.FLOW]["options"] == {"model": True}


def test_the_rate_falls_when_drain_begins_and_the_application_pauses_before_up() -> None:
    labels = {"sender": "bbr3"}
    table = form.slower_at_drain("45Mbps")(net.SLOWER_IN_DRAIN, labels, 1)
    (step,) = table["bottleneck"]["rate_steps"]
    drain = sender(net.NORMAL, "1s").once(Sender).first(DRAIN)
    assert drain is not None
    assert float(step["at"].removesuffix("s")) == pytest.approx(drain.begin_s, abs=1e-3)
    paused = sender(form.pause_before_up(net.PAUSED, labels, 1), "3500ms")
    assert seen.PAUSES.of(paused) == 1
    assert application.LIMITED_REFILLS.of(paused) == 1
    assert seen.PAUSE_BANDWIDTH.of(paused) == pytest.approx(1.0)


def test_the_form_from_outside_judges_each_case_for_each_sender() -> None:
    study = queues.with_senders(bbr_cases.STUDY, "noq:bbr3")
    assert study.name == "bbr-cases-noq-bbr3"
    cases = [f"BBR-{at}" for at in range(1, 23)]
    assert [one.id for one in study.claims if one.origin == "paper"] == cases
    assert {len(study.readings_of(one)) for one in study.claims} == {3}
    check_every_scenario(study)
    with pytest.raises(ValueError, match="no sender with BBR version 3 is named `noq:bbr`"):
        queues.with_senders(bbr_cases.STUDY, "noq:bbr")
