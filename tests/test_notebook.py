"""What a notebook shows is tables, on light pages and on dark ones."""

from __future__ import annotations

import re
from pathlib import Path

import aqmlab as al
from aqmlab import notebook, study


def headings(page: str) -> list[str]:
    return re.findall(r"<th[^>]*>([^<]*)</th>", page)


def test_numbers_stand_at_the_right_and_what_is_not_there_is_a_dash() -> None:
    page = notebook.table(("name", "value"), [("a", 1.23456), ("b", None), ("c", float("nan")), ("d", "<x>")])
    assert re.findall(r"text-align: (\w+)[^>]*>([^<]*)</td>", page) == [
        ("left", "a"),
        ("right", "1.235"),
        ("left", "b"),
        ("left", "–"),
        ("left", "c"),
        ("right", "–"),
        ("left", "d"),
        ("left", "&lt;x&gt;"),
    ]


def test_colours_are_those_of_the_page() -> None:
    page = notebook.section("Title", notebook.table(("a",), [(1,)]), notebook.folded("More"))
    for style in re.findall(r'style="([^"]*)"', page):
        said = dict(re.split(r": *", one) for one in re.split(r"; *", style) if one)
        assert {said.get("background", "none"), said.get("color", "inherit")} == {"none", "inherit"}


def test_a_comparison_shows_estimates_and_the_parameters_that_differ(small: Path) -> None:
    found = al.compare(al.Scenario.load(small), ["short", "drop-tail"], replications=2)
    page = found._repr_html_()
    assert headings(page) == [
        "quantity",
        "short",
        "drop-tail",
        "quantity",
        "drop-tail",
        "parameter",
        "short",
        "drop-tail",
    ]
    assert ">limit</td>" in page and "±" in page
    assert ">admits</td>" not in page, "both queues admit alike"


def test_a_study_shows_its_claims() -> None:
    page = study.load("shred")._repr_html_()
    assert headings(page) == ["claim", "statement"]
    assert ">SH-1</td>" in page
