"""The forms of studies that ask today's queues: which there are; each claim is judged for each queue."""

from __future__ import annotations

import pytest

from aqmlab import studies
from aqmlab.studies import STUDIES, TODAY
from aqmlab.study import queues


def test_every_study_has_a_form_with_todays_queues() -> None:
    assert list(TODAY) == list(STUDIES)


@pytest.mark.parametrize("name", TODAY)
def test_each_claim_is_judged_for_each_of_todays_queues(name: str) -> None:
    form = studies.load(name, today=True)
    assert form.name == f"{name}-today"
    for claim in form.claims:
        judged = [reading.name for reading in form.readings_of(claim)]
        assert judged == [reading.name for reading in form.readings]
        assert set(queues.TODAY) <= set(judged)


@pytest.mark.parametrize("name", TODAY)
def test_every_scenario_with_todays_queues_is_accepted(name: str) -> None:
    for experiment in studies.load(name, today=True).experiments:
        sweep = experiment.sweep("quick")
        digests = {point.said: sweep.scenario_of(point).digest for point in sweep.points()}
        assert len(set(digests.values())) == len(digests), experiment.name


def test_an_unknown_study_is_refused_with_the_nearest_name_or_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no study is named `sherd`: did you mean shred\\?"):
        studies.load("sherd", today=True)
    with pytest.raises(KeyError, match="no study is named `x`: there is shred, mice-elephants, "):
        studies.load("x")
