"""The study `rtc-cases`: its scenarios have the numbers of RFC 8867, and its measures are rates of phases."""

from __future__ import annotations

import pytest
from study_checks import check_every_scenario

from aqmlab import studies
from aqmlab.measures import View
from aqmlab.scenario import Scenario
from aqmlab.studies import rtc_cases
from aqmlab.studies.rtc_cases import measures as m


def test_the_study_is_registered_and_has_the_eight_cases() -> None:
    assert studies.load("rtc-cases") is rtc_cases.STUDY
    assert [case.section for case in rtc_cases.CASES] == [f"5.{number}" for number in range(1, 9)]


def test_every_scenario_of_the_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(rtc_cases.STUDY)


def test_every_queue_is_300_ms_long_at_the_reference_capacity() -> None:
    # RFC 8867, sections 5.1 to 5.8: the path reference capacity, in Mb/s.
    capacities = [1.0, 2.0, 1.0, 3.5, 4.0, 2.0, 2.0, 3.5]
    for case, mbps in zip(rtc_cases.CASES, capacities, strict=True):
        given = Scenario.load(rtc_cases.SCENARIOS / f"{case.name}.toml").effective
        limit = given["bottleneck"]["queue"]["limit"]
        assert limit in (f"{round(mbps * 1e6 * 0.3 / 8)}B", f"{round(mbps * 1e3 * 0.3 / 8)}kB"), case.section


def test_the_rates_of_phases_add_up_to_what_the_flow_received() -> None:
    scenario = Scenario.load(rtc_cases.SCENARIOS / "5-1.toml")
    view = View(scenario.run(seed=1))
    phases = [(0, 40), (40, 60), (60, 80), (80, 100)]
    rates = [m.rate(first, last).of(view) for first, last in phases]
    total = sum(rate * (last - first) for rate, (first, last) in zip(rates, phases, strict=True))
    delivered = view.run.tables["flows"]["delivered_bytes"].max()
    assert total * 1e6 / 8 == pytest.approx(delivered)
    # The rate follows the capacity of 1, 2.5, 0.6 and 1 Mb/s.
    assert 0.5 < rates[0] < 1 and 1 < rates[1] < 2.5 and 0.35 < rates[2] < 0.6 and 0.4 < rates[3] < 1
    assert m.DELAY.of(view) < 1000 and m.LOST.of(view) < 10
