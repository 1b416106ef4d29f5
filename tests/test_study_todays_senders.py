"""The study `todays-senders`: senders, queues with and without ECN, and claims for each sender."""

from __future__ import annotations

import pytest
from study_checks import check_every_scenario, judged, runs

from aqmlab import studies
from aqmlab.studies import todays_senders as study
from aqmlab.studies.mice_elephants import measures as of_mice
from aqmlab.studies.shred import measures as of_shred


def test_the_study_is_registered_and_every_scenario_passes_the_checks_of_the_core() -> None:
    assert studies.load("todays-senders") is study.STUDY
    check_every_scenario(study.STUDY)


@pytest.mark.parametrize(("sender", "header"), study.HEADER_BYTES.items())
def test_full_packets_have_the_length_of_the_publications_packets(sender: str, header: int) -> None:
    for experiment, length in ((study.pages, study.WEB_PACKET), (study.files, of_mice.PACKET)):
        sweep = experiment.sweep("full")
        for point in sweep.points():
            if point.labels["sender"] == sender:
                connection = sweep.scenario_of(point).effective["tcp"]["connection"]
                assert connection["header"] == f"{header}B"
                assert connection["mss"] == f"{length - header}B"


def test_senders_use_ecn_where_the_publication_does_except_bbr() -> None:
    sweep = study.files.sweep("full")
    for point in sweep.points():
        is_on = point.labels["queue"] != "Drop Tail" and point.labels["sender"] != study.BBR
        assert sweep.scenario_of(point).effective["tcp"]["ecn"]["mode"] == ("on" if is_on else "off")


def test_the_initial_windows_are_exchanged() -> None:
    sweep = study.pages.sweep("full")
    windows = {
        point.labels["sender"]: sweep.scenario_of(point).effective["tcp"]["cwnd"]["initial"]
        for point in sweep.points()
    }
    old, new = 2, 10
    assert windows == {
        study.PAPERS: old,
        **dict.fromkeys((study.CUBIC, study.BBR, study.QUIC), new),
        study.PAPERS_IW_10: new,
        study.CUBIC_IW_2: old,
    }


def test_each_claim_is_judged_for_each_sender_except_those_about_the_initial_window() -> None:
    for claim in study.CLAIMS:
        names = [one.name for one in study.STUDY.readings_of(claim)]
        judged_for = [one for one in study.SENDERS if one != study.QUIC or claim.id not in study.WITHOUT_QUIC]
        assert names == ([""] if claim.id.startswith("TS-IW") else judged_for)


def test_a_claim_about_pages_compares_the_queues_with_one_sender() -> None:
    times = {study.CUBIC: {"SHRED": 2.0, "RED": 1.0}, study.BBR: {"SHRED": 1.0, "RED": 2.0}}
    found = runs(
        study.pages,
        {
            of_shred.RESPONSE: lambda at, seed: (
                times.get(str(at["sender"]), {}).get(str(at["queue"]), 1.0) + seed / 1e3
            )
        },
    )
    verdicts = {
        sender: judged(study.CLAIMS, "TS-SH-1", (study.pages, found), sender=sender).verdict
        for sender in times
    }
    assert verdicts == {study.CUBIC: "fails", study.BBR: "holds"}
