"""The forms of studies that ask today's queues: which there are; each claim is judged for each queue."""

from __future__ import annotations

import pytest

from aqmlab import studies
from aqmlab.studies import STUDIES
from aqmlab.study import queues

ASKED = [name for name in STUDIES if studies.load(name).with_queues is not None]
"""The studies that judge claims of their own for other queues."""


def test_the_five_publications_are_asked_of_other_queues() -> None:
    assert {"shred", "mice-elephants", "unc-web", "fair-queueing", "helsinki"} <= set(ASKED)


def test_a_study_judges_its_claims_for_the_queues_that_are_named() -> None:
    form = queues.beside(studies.load("shred"), queues.named(["codel", "blue"]))
    assert (form.name, [one.name for one in form.readings]) == ("shred-queues", ["CoDel", "blue"])
    assert "blue" in form.experiments[0].values("queue")


@pytest.mark.parametrize("name", ASKED)
def test_each_claim_is_judged_for_each_of_todays_queues(name: str) -> None:
    form = studies.load(name, today=True)
    assert form.name == f"{name}-today"
    for claim in form.claims:
        judged = [reading.name for reading in form.readings_of(claim)]
        assert judged == [reading.name for reading in form.readings]
        assert set(queues.TODAY) <= set(judged)


@pytest.mark.parametrize("name", ASKED)
def test_every_scenario_with_todays_queues_is_accepted(name: str) -> None:
    for experiment in studies.load(name, today=True).experiments:
        sweep = experiment.sweep("quick")
        digests = {point.description: sweep.scenario_of(point).digest for point in sweep.points()}
        assert len(set(digests.values())) == len(digests), experiment.name


def test_an_unknown_study_is_refused_with_the_nearest_name_or_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no study is named `sherd`: did you mean shred\\?"):
        studies.load("sherd", today=True)
    with pytest.raises(KeyError, match="no study is named `x`: available: shred, mice-elephants, "):
        studies.load("x")
