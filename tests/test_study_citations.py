"""An interval in prose is that of the full run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from aqmlab.studies.docs import citations as study_citations

FOLDER = Path(__file__).parent.parent / "docs/studies"
PART: dict[str, Any] = {"context": "Web", "what": "median, FQ-CoDel/RED", "where": {"flows": 10}}
CLAIM: dict[str, Any] = {"id": "C-1, FQ-CoDel", "claim": "C-1", "value": 0.5, "interval": [0.45, 0.55]}
RESULTS: dict[str, Any] = {
    "study": "small-today",
    "claims": [
        {
            **CLAIM,
            "parts": [
                {**PART, "value": 0.5, "interval": [0.45, 0.55]},
                {**PART, "where": {"flows": 40}, "value": 0.7, "interval": None},
                {"one_of": [{**PART, "what": "mean", "value": 0.8, "interval": [0.78, 0.82]}]},
            ],
        }
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small-today.json").write_text(json.dumps(RESULTS))
    return tmp_path


def test_a_citation_is_written_anew_from_the_results(folder: Path) -> None:
    cited = (
        'Twice as fast: [9 [8, 9]](small-today.md "C-1, FQ-CoDel"); '
        '[1 [1,\n1]](small-today.md\n"C-1, FQ-CoDel: mean").'
    )
    assert study_citations.renewed(cited, folder) == (
        'Twice as fast: [0.500 [0.450, 0.550]](small-today.md "C-1, FQ-CoDel"); '
        '[0.800 [0.780, 0.820]](small-today.md "C-1, FQ-CoDel: mean").'
    )


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("C-2, FQ-CoDel", "small-today has C-1"),
        ("C-1, FQ-CoDel: median", "must identify one number, not 2"),
        ("C-1, FQ-CoDel: flows 90", "must identify one number, not 0"),
        ("C-1, FQ-CoDel: flows 40", "without an interval"),
    ],
)
def test_a_citation_that_means_no_number_is_refused(folder: Path, title: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        study_citations.renewed(f'[0 [0, 0]](small-today.md "{title}")', folder)


def test_a_name_that_is_the_beginning_of_another_name_can_be_cited(folder: Path) -> None:
    parts = [
        {**PART, "where": {"sender": sender}, "value": value, "interval": [value - 0.05, value + 0.05]}
        for sender, value in (("CUBIC", 0.5), ("CUBIC+ECN", 0.25))
    ]
    (folder / "small-today.json").write_text(json.dumps({**RESULTS, "claims": [{**CLAIM, "parts": parts}]}))
    cited = '[0 [0, 0]](small-today.md "C-1, FQ-CoDel: sender CUBIC")'
    assert "[0.500 [0.450, 0.550]]" in study_citations.renewed(cited, folder)


def test_a_citation_of_results_that_are_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        study_citations.renewed('[0 [0, 0]](other.md "C-1")', folder)


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_pages_cite_what_full_runs_found(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert study_citations.renewed(text, FOLDER / "results") == text, (
        "python -m aqmlab.studies.docs.pages docs/studies"
    )


def test_every_sentence_of_the_answers_cites_an_interval() -> None:
    text = (FOLDER / "senders-of-the-papers.md").read_text(encoding="utf-8")
    answers = text[text.index("## ") :]
    prose = [
        part
        for part in re.split(r"\n\s*\n|\n- ", answers)
        if not part.lstrip().startswith(("#", "|", "```", "!"))
    ]
    sentences = [one for part in prose for one in re.split(r"(?<=[.?])\s+(?=[A-Z])", part.strip()) if one]
    assert len(sentences) > 10
    assert not [one for one in sentences if not study_citations.CITATION.search(one)]
