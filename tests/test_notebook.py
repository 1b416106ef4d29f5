"""What a notebook shows is tables, on light pages and on dark ones."""

from __future__ import annotations

import re
from pathlib import Path

import aqmlab as al
from aqmlab import studies
from aqmlab._support import notebook


def headings(page: str) -> list[str]:
    return re.findall(r"<th[^>]*>([^<]*)</th>", page)


def sides(page: str) -> list[tuple[str, str]]:
    """Where each cell stands, and its text."""
    return re.findall(r"text-align: (\w+)[^>]*>([^<]*)</t[dh]>", page)


def test_numbers_stand_at_the_right_and_what_is_not_there_is_a_dash() -> None:
    page = notebook.table(("name", "value"), [("a", 1.23456), ("b", None), ("c", float("nan")), ("d", "<x>")])
    assert sides(page) == [
        ("left", "name"),
        ("left", "value"),
        ("left", "a"),
        ("right", "1.235"),
        ("left", "b"),
        ("right", "–"),
        ("left", "c"),
        ("right", "–"),
        ("left", "d"),
        ("left", "&lt;x&gt;"),
    ]


def test_a_heading_stands_over_its_numbers() -> None:
    page = notebook.table(("name", "count", "rate"), [("a", 98487, 2.488e9), ("b", 7, float("inf"))])
    assert sides(page)[1:3] == [("right", "count"), ("right", "rate")]
    assert sides(page)[4:] == [
        ("right", "98,487"),
        ("right", "2,488,000,000"),
        ("left", "b"),
        ("right", "7"),
        ("right", "inf"),
    ]
    assert (notebook.shown(-0.0), notebook.shown(-0.5)) == ("0", "-0.5")
    assert sides(notebook.table(("name", "x"), [("a", "1 ± 2")], estimates=True))[1:] == [
        ("right", "x"),
        ("left", "a"),
        ("right", "1 ± 2"),
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
    page = studies.load("shred")._repr_html_()
    assert headings(page) == ["claim", "statement"]
    assert ">SH-1.2</td>" in page


def test_a_run_of_the_flow_level_names_each_traffic_once() -> None:
    scenario = al.Scenario.from_dict({"level": "flow", "duration": "20s", "traffic": {"web": {"load": 0.5}}})
    page = scenario.run()._repr_html_()
    assert headings(page).count("traffic") == 1
    assert page.count(">web</td>") == 1
