"""The page: self-contained, complete, and safe against what it prints."""

from __future__ import annotations

import dataclasses
import html.parser
import re
from pathlib import Path

import polars as pl
import pytest
from test_study import STUDY, FakeScenario

from aqmlab import report, study
from aqmlab.plot import Chart
from aqmlab.publication import Decision


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    out: Path = tmp_path_factory.mktemp("study")
    return study.run(STUDY, out, prepare=FakeScenario).report.read_text(encoding="utf-8")


class Outline(html.parser.HTMLParser):
    """Collects ids, addresses, and tags that stay open."""

    void = frozenset({"meta", "img", "br", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.addresses += [value for key, value in attrs if key in ("href", "src") and value]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    found = Outline()
    found.feed(text)
    return found


def test_the_page_needs_no_other_file_and_no_network(page: str) -> None:
    found = outline(page)
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in found.addresses)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_the_page_is_well_formed_and_its_links_arrive(page: str) -> None:
    found = outline(page)
    assert found.open == []
    assert len(set(found.ids)) == len(found.ids)
    targets = {address[1:] for address in found.addresses if address.startswith("#")}
    missing = targets - set(found.ids)
    assert missing == {"sensitivity"} - targets or missing == set()


def test_the_page_holds_claims_figures_numbers_and_provenance(page: str) -> None:
    for text in (
        "Is one smaller than two?",
        "C-1 holds.",
        "SHRED/RED 0.500 [0.500, 0.500], claimed below 1",
        "Ratio below 1.",
        "could not be drawn: ZeroDivisionError",
        "They grow.",
        "Which?",
        "1, 2, 3, 4",
        "aqmlab study run small",
    ):
        assert text in page, text
    assert page.count("data:image/svg+xml") == 1
    assert '<td class="words">RED</td><td class="number">0.5</td><td class="number">4</td>' in page


def test_what_is_printed_cannot_break_the_page(tmp_path: Path) -> None:
    sly = dataclasses.replace(
        STUDY,
        decisions=(Decision(question="<script>alert(1)</script>", decision="a & b", reason="</table>"),),
    )
    text = study.run(sly, tmp_path, prepare=FakeScenario).report.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert outline(text).open == []


def test_parameters_are_told_once_where_all_share_them() -> None:
    scenarios = {
        "a": {
            "digest": "1",
            "scenario": {"duration": "1s", "queue": {"kind": "red", "max_p": 0.1}, "list": []},
        },
        "b": {"digest": "2", "scenario": {"duration": "1s", "queue": {"kind": "shred"}, "list": []}},
    }
    found = report.shared_parameters(scenarios)
    assert found["shared"] == {"duration": "1s", "list": []}
    assert found["own"]["a"] == {"digest": "1", "parameters": {"queue.kind": "red", "queue.max_p": 0.1}}
    assert found["own"]["b"] == {"digest": "2", "parameters": {"queue.kind": "shred"}}


def test_words_stand_at_the_left_numbers_at_the_right_and_prose_in_lines() -> None:
    table = pl.DataFrame(
        {
            "queue": ["RED", None],
            "count": [1, 2],
            "mean": ["–", "-0.2 ± 0.1"],
            "limit": ["555p", "10kB"],
            "who is ahead": ["RED", "RED serves the quick transfers better, SHRED the slow ones"],
        }
    )
    assert report.looks(table) == ["words", "number", "number", "number", "prose"]


def test_a_chart_of_many_panels_takes_the_whole_width() -> None:
    table = pl.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 2.0], "queue": ["a", "b", "c"]})
    chart = Chart(kind="line", table=table, x="x", y="y", by="queue", x_label="x", y_label="y", panel="queue")
    assert report.is_wide(chart)
    assert not report.is_wide(dataclasses.replace(chart, table=table.head(2)))
    assert not report.is_wide(dataclasses.replace(chart, panel=None))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "–"),
        (None, "–"),
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        ("RED", "RED"),
        (True, "True"),
    ],
)
def test_numbers_are_shown_as_people_read_them(value: object, text: str) -> None:
    assert report.number(value) == text
