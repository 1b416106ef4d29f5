"""What is printed of a study: a line for each claim, readings as columns."""

from __future__ import annotations

import dataclasses

from many_readings import made

from aqmlab.cli.study_text import lines
from aqmlab.study.publication import Verdicts


def test_readings_are_columns_that_fit_a_terminal() -> None:
    printed = list(lines(made(), 90))
    assert printed[:5] == [
        "          1 flows, 10ms      1 flows, 20ms      2 flows, 10ms      2 flows, 20ms",
        "A         holds 0.103        holds 0.103        fails 1.5          fails 1.1",
        "B         holds 0.502 (all alike)               fails 1.5 (all alike)",
        "C         holds 1 (all alike)",
        "D         fails 0.903        fails 0.903        holds 2.7          -",
    ]
    assert "B         holds with “1 flows, 10ms”; fails with “2 flows, 10ms”" in printed
    assert printed[-3:] == [
        "Claims of the paper: 2 hold, 0 fail, 0 undecided",
        "aqmlab's interpretations of the paper: 0 hold, 1 fails, 0 undecided",
        "Claims of aqmlab: 1 holds, 0 fail, 0 undecided",
    ]


def test_a_narrow_terminal_shows_verdicts_alone() -> None:
    printed = list(lines(made(), 60))
    assert printed[:3] == [
        "          1 flows,   1 flows,   2 flows,   2 flows,",
        "          10ms       20ms       10ms       20ms",
        "A         holds      holds      fails      fails",
    ]


def test_a_single_reading_is_told_with_the_number_that_decides_and_cut_on_a_terminal_alone() -> None:
    result = made()
    one = dataclasses.replace(
        result,
        judged=Verdicts(judged for judged in result.judged if judged.id == "C"),
        study=dataclasses.replace(result.study, claims=result.study.claims[2:3], readings=()),
        sensitivity=(),
    )
    (line, *_) = lines(one)
    what = (
        "time, ratio of the value with delay = 20ms to the value with delay = 10ms, load = 0.1, "
        "claimed in [0.9, 1.1] (3 of 3 parts hold)"
    )
    assert line == f"C  holds      1.000 [1.000, 1.000]  {what}"
    (cut, *_) = lines(one, 40)
    assert len(cut) == 40
    assert cut == line[:39] + "…"
