"""The page: self-contained, complete, and safe against what it prints."""

from __future__ import annotations

import dataclasses
import html.parser
import re
from pathlib import Path

import polars as pl
import pytest
from many_readings import NEAR, TIME, TRIED, made, runs
from small_study import STUDY, run

from aqmlab import stats
from aqmlab.charts.chart import Chart
from aqmlab.results.rule import anywhere, digest, mean_of
from aqmlab.study import report
from aqmlab.study.publication import Decision
from aqmlab.study.report_claims import VerdictMatrix, groups, listed
from aqmlab.study.rules import retired


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("study")).report.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def matrix() -> VerdictMatrix:
    return VerdictMatrix(made())


@pytest.fixture(scope="module")
def large() -> str:
    return report.render(made())


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


def test_the_page_is_well_formed_and_its_links_arrive(page: str, large: str) -> None:
    for text in (page, large):
        found = outline(text)
        assert found.open == []
        assert len(set(found.ids)) == len(found.ids)
        assert {address[1:] for address in found.addresses if address.startswith("#")} <= set(found.ids)


def test_the_page_holds_claims_figures_numbers_and_provenance(page: str) -> None:
    for text in (
        "Is one smaller than two?",
        "C-1 holds.",
        "Web alone, averaged over load",
        "time, ratio of SHRED to RED, <b>claimed below 1</b>",
        "0.500 [0.500, 0.500]",
        "could not be judged: ZeroDivisionError",
        "could not be drawn: ZeroDivisionError",
        "They grow.",
        "Which?",
        "1, 2, 3, 4",
        "aqmlab study run small",
    ):
        assert text in page, text
    assert page.count("data:image/svg+xml") == 1
    row = ("RED</td>", "0.5</td>", "2.5</td>", "0.4457</td>", "4.554</td>", "4</td>")
    assert '<td class="words">' + '<td class="number">'.join(row) in page


def test_what_is_printed_cannot_break_the_page(tmp_path: Path) -> None:
    sly = dataclasses.replace(
        STUDY,
        decisions=(Decision(question="<script>alert(1)</script>", decision="a & b", reason="</table>"),),
    )
    text = run(tmp_path, sly).report.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert outline(text).open == []


# Claims


def test_each_verdict_of_the_matrix_opens_its_evidence_and_claims_their_figures_and_back(large: str) -> None:
    found = outline(large)
    for judged in made().judged:
        assert f"#verdict-{judged.id}" in found.addresses
        assert f"verdict-{judged.id}" in found.ids
        assert f"#under-3-{judged.id}" in found.addresses
        assert f"under-3-{judged.id}" in found.ids
    assert "#times" in found.addresses
    assert 'Judged by <a href="#claim-A">A</a>' in large
    assert large.count(">it was not measured<") + large.count('title="it was not measured"') == 1


def test_readings_that_make_no_difference_share_a_verdict_and_one_left_out_says_why(
    matrix: VerdictMatrix,
) -> None:
    told = {
        claim.id: [
            (cell.judged.id if cell.judged else cell.why, len(cell.readings)) for cell in matrix.cells(claim)
        ]
        for claim in matrix.claims
    }
    assert told == {
        "A": [("A-1-10ms", 1), ("A-1-20ms", 1), ("A-2-10ms", 1), ("A-2-20ms", 1)],
        "B": [("B-1-10ms", 2), ("B-2-10ms", 2)],
        "C": [("C", 4)],
        "D": [("D-1-10ms", 1), ("D-1-20ms", 1), ("D-2-10ms", 1), ("it was not measured", 1)],
    }
    assert matrix.by_reading[0] == {"holds": 3, "fails": 1, "undecided": 0}
    assert matrix.by_reading[3] == {"holds": 1, "fails": 2, "undecided": 0}


def test_claims_are_counted_apart_by_whose_they_are(matrix: VerdictMatrix, large: str) -> None:
    assert matrix.by_origin == {
        "Claims of the paper": {"holds": 2, "fails": 0, "undecided": 0},
        "aqmlab's interpretations of the paper": {"holds": 0, "fails": 1, "undecided": 0},
        "Claims of aqmlab": {"holds": 1, "fails": 0, "undecided": 0},
    }
    assert "Counted in the main reading, 1 flows, 10ms." in large


def test_what_turns_with_a_reading_or_a_variant_is_said_first(matrix: VerdictMatrix, large: str) -> None:
    told = {one.id: one.text for one in matrix.dependences()}
    assert told["B"] == "holds with “1 flows, 10ms”; fails with “2 flows, 10ms”"
    assert told["B-1-10ms"] == "holds as decided; fails with variant 3"
    assert told["A-2-20ms"] == "fails as decided; holds with variant 7"
    assert not any(id.startswith("C") for id in told)
    assert large.index("Verdicts that depend on a choice") < large.index('id="claims"')


def test_variants_are_compared_with_the_main_verdict() -> None:
    result = made()
    slow = dataclasses.replace(result.judged[0].evidence, verdict="fails")
    first, *others = result.judged
    judged = type(result.judged)([dataclasses.replace(first, evidence=slow), *others])
    matrix = VerdictMatrix(dataclasses.replace(result, judged=judged))
    told = {one.id: one.text for one in matrix.dependences()}
    assert told["A-1-10ms"].startswith("fails as decided; holds with variant 1, variant 2, variant 4")


def test_variants_say_how_many_verdicts_they_change_and_how(matrix: VerdictMatrix) -> None:
    assert [matrix.changes(claim) for claim in matrix.claims] == [
        *("2 of 10 differ", "2 of 10 differ", "all 10 the same", "2 of 10 differ")
    ]
    assert [reading.name for reading in matrix.varied_readings] == [one.name for one in matrix.columns]
    rows = {variant.name: row for variant, row in matrix.varied_in(matrix.columns[3])}
    assert len(rows) == 10
    assert [one and matrix.effect(one) for one in rows["variant 7"]] == ["turned", "turned", "same", None]
    assert [one and matrix.effect(one) for one in rows["variant 1"]] == ["same", "same", "same", None]


def test_evidence_stands_along_its_axis_on_one_scale_with_the_band() -> None:
    rule = mean_of(TRIED[TIME].at(flows=1, delay="10ms")) < 0.7
    (group,) = groups(rule.judge(runs(lambda flows, delay, load: load)))
    (lines,) = group.lines
    assert (group.context, lines.what, lines.claimed) == (
        "Tried, flows = 1, delay = 10ms",
        *("time (s)", "below 0.7"),
    )
    assert [line.label for line in lines.lines] == ["load = 0.1", "load = 0.5", "load = 0.9"]
    start, end = lines.band
    assert start == 0.0
    assert lines.ends == [(end, "0.7")]
    places = [line.strip.value for line in lines.lines if line.strip]
    assert places == sorted(places)
    inside = [line.strip.high <= end for line in lines.lines if line.strip and line.strip.high is not None]
    assert inside == [line.evidence.verdict == "holds" for line in lines.lines] == [True, True, False]


def test_an_average_is_called_so_and_has_its_points_beside_it() -> None:
    rule = mean_of(NEAR.at(flows=1, delay="10ms")) < 0.7
    (group,) = groups(rule.judge(runs(lambda flows, delay, load: load)))
    (lines,) = group.lines
    assert lines.average
    assert [(line.label, line.judged) for line in lines.lines] == [
        *(("average over load", True), ("load = 0.1", False), ("load = 0.5", False), ("load = 0.9", False))
    ]


def test_rules_one_of_which_is_enough_stand_together_in_the_order_of_the_axis() -> None:
    rule = anywhere(mean_of(TRIED[TIME].at(flows=1, delay="10ms")) > 0.7)
    outer = stats.together(rule.judge(runs(lambda flows, delay, load: load)))
    (group,) = groups(outer)
    assert group.evidence.one_of
    assert group.evidence.verdict == "holds"
    (inner,) = group.inner
    assert [line.label for line in inner.lines[0].lines] == ["load = 0.1", "load = 0.5", "load = 0.9"]


def test_rules_carry_their_digest_and_those_that_were_replaced_stand_with_the_reason(
    matrix: VerdictMatrix,
) -> None:
    shred = dataclasses.replace(made(), study=dataclasses.replace(made().study, name="shred"))
    page = report.render(shred)
    for claim in matrix.claims:
        assert f"<code>{digest(claim.rule.definition)}</code>" in page
    replaced = retired("shred")
    assert f"{len(replaced)} rules replaced, with reasons" in page
    assert all(f"<td>{id}</td>" in page for id in replaced)
    assert "replaced, with reasons" not in report.render(made())


def test_words_with_a_comma_are_quoted_in_lists() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c, d"]) == "a, b and “c, d”"


# The rest of the page


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
