"""The results on the pages of studies are those of full runs, to the digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from aqmlab import studies
from aqmlab.results.rule import digest
from aqmlab.studies.docs import citations as study_citations
from aqmlab.studies.docs import pages as study_pages
from aqmlab.study import rules
from aqmlab.study import values as study_values

FOLDER = Path(__file__).parent.parent / "docs/studies"
RESULTS = sorted((FOLDER / "results").glob("*.json"))

PART = {
    "what": "time, ratio of SHRED to RED",
    "context": "Web alone",
    "where": {"load": 0.5},
    "claimed": "below 1",
    "verdict": "holds",
    "value": 0.5,
    "interval": [0.45, 0.55],
    "seeds": 10,
    "known_to": None,
    "measured": "",
}
MADE_UP: dict[str, Any] = {
    "study": "small",
    "quick": False,
    "live": False,
    "results_version": 6,
    "commit": "0123456789abcdef",
    "runs": 1234,
    "claims": [
        {
            "id": f"C-1{suffix}",
            "claim": "C-1",
            "reading": reading,
            "statement": "It is faster.",
            "source": "page 1",
            "origin": "paper",
            "verdict": verdict,
            "value": 0.5,
            "interval": [0.45, 0.55],
            "one_is_enough": False,
            "parts": [PART, {**PART, "where": {"load": 1.0}, "value": 0.75, "verdict": "fails"}],
        }
        for reading, suffix, verdict in (("Reno", "", "holds"), ("SACK", "-sack", "fails"))
    ],
    "variants": {
        "quick": {"C-1": {"verdict": "holds", "value": 0.5, "interval": [0.4, 0.6]}},
        "slow": {"C-1": {"verdict": "fails", "value": 1.5, "interval": [1.4, 1.6]}},
        "slower": {"C-1": {"verdict": "fails", "value": 2.5, "interval": [2.4, 2.6]}},
        "quicker": {"C-1-sack": {"verdict": "holds", "value": 0.3, "interval": [0.2, 0.4]}},
    },
}
TEXT = f"# Small\n\n{study_pages.BEGIN}\nstale\n{study_pages.END}\n\nIt takes 0.75 of it, 25.0 % less.\n"


def results(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_page_has_the_results_of_its_full_run(path: Path) -> None:
    text = (FOLDER / f"{path.stem}.md").read_text(encoding="utf-8")
    name, form = study_pages.study_of(path.stem)
    retired, changes = ({}, []) if form else (rules.retired(name), rules.changes(name))
    found = results(path)
    newer, titles = study_pages.awaiting_run(found), study_pages.variant_titles(found)
    made = study_pages.page(text, found, retired, changes, newer, titles)
    assert text == made, "python -m aqmlab.studies.docs.pages docs/studies"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_are_of_a_full_run_judged_by_the_rules_of_today_or_by_retired_ones(path: Path) -> None:
    found = results(path)
    name, form = study_pages.study_of(path.stem)
    assert not found["quick"]
    assert study_pages.page_of(found) == path.stem
    assert len(found["commit"]) == 40
    ours = {claim.id: digest(claim.rule.definition) for claim in studies.load(name, **form).claims}
    retired = rules.retired(f"{name} today" if form.get("today") else name)
    replaced = {id: one["digest"] for id, one in retired.items() if id not in ours}
    for one in found["claims"]:
        assert one["digest"] == {**replaced, **ours}[one["claim"]], one["claim"]
    assert not [
        one["id"] for one in found["claims"] for part in one["parts"] if "could not" in part["measured"]
    ]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_no_figure_in_the_prose_after_the_results_is_without_its_source(path: Path) -> None:
    text = (FOLDER / f"{path.stem}.md").read_text(encoding="utf-8")
    assert study_citations.unfounded(text.partition(study_pages.END)[2], results(path)) == []


def test_a_page_tells_verdicts_by_reading_numbers_by_point_and_what_turns_round() -> None:
    titles = {"slow": "slow start"}
    page = study_pages.page(TEXT, MADE_UP, {"C-0": {"retired": "It was two-sided."}}, titles=titles)
    assert "stale" not in page
    assert "| Claim | Origin | Reno | SACK |" in page
    assert "| C-1 | source | **holds** 0.500 [0.450, 0.550] | **fails** 0.500" in page
    assert (
        "time, ratio of SHRED to RED: 0.500 [0.450, 0.550] with load = 0.5; "
        "0.750 [0.450, 0.550] ✗ with load = 1.0; claimed: below 1." in " ".join(page.split())
    )
    assert "| main verdict | H |" in page
    assert "| quick | H |" in page
    assert "| slow start | **F** |" in page
    flat = " ".join(page.split())
    assert (
        "Reversed verdicts: C-1 (main verdict: holds) fails with *slow start* and *slower*; C-1-sack "
        "(main verdict: fails) holds with *quicker*." in flat
    )
    assert "- **C-0**: It was two-sided." in page
    assert "1 234 runs" in page
    again = study_pages.page(page, MADE_UP, {"C-0": {"retired": "It was two-sided."}}, titles=titles)
    assert again == page


def test_a_page_names_the_claims_that_are_newer_than_its_run() -> None:
    page = study_pages.page(TEXT, MADE_UP, {}, awaiting=["C-1.2", "C-3"])
    assert "without a verdict until the next full run: C-1.2, C-3." in " ".join(page.split())


def test_a_page_says_how_many_verdicts_chance_alone_would_turn() -> None:
    page = " ".join(study_pages.page(TEXT, MADE_UP, {}).split())
    assert "Each of the 2 verdicts" in page
    assert (
        "Therefore, of the 2 verdicts *holds* or *fails* on this page, at most 0.1 are expected to be wrong"
        in page
    )


def test_an_interval_without_end_one_at_another_level_and_a_median_are_told() -> None:
    open_, wider, median = (
        {**PART, "interval": [0.45, None], "verdict": "fails"},
        {**PART, "level": 0.99833, "verdict": "undecided", "known_to": 0.05},
        {**PART, "median": True},
    )
    claims = [{**MADE_UP["claims"][0], "parts": [open_, wider, median]}]
    page = " ".join(study_pages.page(TEXT, {**MADE_UP, "claims": claims}, {}).split())
    assert "0.500 [0.450, ∞] ✗ with load = 0.5" in page
    undecided = "(undecided at the 99.83 % level, near the limit, known to ±0.05)"
    assert f"0.500 [0.450, 0.550] {undecided} with load = 0.5" in page
    assert "0.500 [0.450, 0.550] (median) with load = 0.5" in page


def test_a_page_has_what_equal_systems_show_and_what_was_changed_under_an_id() -> None:
    floor = {
        "claim": "C-1",
        "where": {"load": 80},
        "claimed": "at most 0.005",
        "measured": {"value": 0.001, "interval": [0.0005, 0.0015]},
        "equal": {"value": 0.002, "interval": [-0.001, 0.005]},
    }
    change = {
        "study": "small",
        "claims": ["C-1"],
        "field": "seeds",
        "was": 40,
        "is": 20,
        "date": "2026-11-23",
        "commit": "d17c584",
        "why": "To spare runs.",
    }
    page = study_pages.page(TEXT, {**MADE_UP, "floors": [floor]}, {}, [change])
    row = "| C-1 | load = 80 | 0.00100 [0.00050, 0.00150] | 0.0020 [-0.0010, 0.0050] | at most 0.005 |"
    assert row in page
    seeds = "- **seeds** of C-1: changed from *40* to *20* (2026-11-23, commit d17c584). To spare runs."
    assert seeds in page


def test_parts_that_are_enough_one_by_one_are_told_from_those_that_must_hold_together() -> None:
    both = [{**PART, "what": what} for what in ("time", "loss")]
    claim, _ = MADE_UP["claims"]
    for key, begins, word in (("one_of", "One of these", "or"), ("all_of", "All of these", "and")):
        several = {**claim, "parts": [{**PART, key: both}]}
        page = " ".join(study_pages.page(TEXT, {**MADE_UP, "claims": [several]}, {}).split())
        assert f"{begins} must hold: Web alone: time: 0.500" in page
        assert f"claimed: below 1, {word} loss: 0.500" in page


def test_the_page_of_a_form_tells_the_command_that_made_it() -> None:
    assert study_pages.study_of("helsinki-live") == ("helsinki", {"live": True})
    assert study_pages.study_of("shred-today") == ("shred", {"today": True})
    assert study_pages.study_of("mice-elephants") == ("mice-elephants", {})
    assert "`aqmlab study run small --live`" in study_pages.page(TEXT, {**MADE_UP, "live": True}, {})
    today = study_pages.page(TEXT, {**MADE_UP, "study": "small-today"}, {})
    assert "`aqmlab study run small --queues today`" in today


def test_cells_have_no_intervals_where_there_are_many_readings() -> None:
    claims = [{**MADE_UP["claims"][0], "reading": reading} for reading in "abcdef"]
    page = study_pages.page(TEXT, {**MADE_UP, "claims": claims}, {})
    assert f"| C-1 | source |{' **holds** 0.5 |' * 6}" in page
    assert page.count("- **C-1** holds: *It is faster* (page 1).") == 1, "those of the main reading only"


def test_a_page_tells_when_one_part_is_enough_and_why_there_is_no_number() -> None:
    none = {**PART, "value": None, "interval": None, "measured": "they never cross"}
    claims = [{**MADE_UP["claims"][0], "one_is_enough": True, "parts": [PART, none]}]
    page = study_pages.page(TEXT, {**MADE_UP, "claims": claims}, {})
    sentence = (
        "- **C-1** holds: *It is faster* (page 1). The claim holds if any one part holds. They never cross. "
        "Web alone: time"
    )
    assert sentence in page


def test_a_figure_in_prose_must_be_one_of_the_results() -> None:
    prose = TEXT.partition(study_pages.END)[2]
    assert study_citations.unfounded(prose, MADE_UP) == []
    assert study_citations.unfounded(f"{prose}0.76 and 26.0 %", MADE_UP) == ["0.76", "26.0 %"]


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the marks"):
        study_pages.page("# Small\n", MADE_UP, {})


def test_results_of_a_quick_form_are_no_results(tmp_path: Path) -> None:
    pages, runs = tmp_path / "pages", tmp_path / "runs"
    (runs / "small").mkdir(parents=True)
    pages.mkdir()
    (pages / "small.md").write_text(TEXT)
    (runs / "small/claims.json").write_text(json.dumps({**MADE_UP, "quick": True}))
    with pytest.raises(ValueError, match=r"quick form; run the full study"):
        study_pages.take(runs, pages, "abc")
    (runs / "small/claims.json").write_text(json.dumps(MADE_UP))
    pl.DataFrame({"seed": [1]}).write_parquet(runs / "small/values.parquet", metadata={"study": "small"})
    study_pages.take(runs, pages, "abc")
    assert results(pages / "results/small.json") == {**MADE_UP, "commit": "abc"}
    published = study_values.metadata_of(pages / "results/small.parquet")
    assert published == {"study": "small", "commit": "abc"}
