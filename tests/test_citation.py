"""`CITATION.cff` names the software and the works that the studies reproduce, with their authors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from aqmlab import studies
from aqmlab.studies import STUDIES

ROOT = Path(__file__).parent.parent
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_what_the_format_requires_is_there() -> None:
    """The required keys of the Citation File Format 1.2.0."""
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION.keys() >= {"message", "title", "authors"}
    assert [set(one) for one in CITATION["authors"]] == [{"name"}], "the project names no persons"


def test_version_and_licence_are_those_of_the_project() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert CITATION["version"] == cargo["workspace"]["package"]["version"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert " OR ".join(CITATION["license"]) == project["license"]


@pytest.mark.parametrize("name", [name for name in STUDIES if studies.load(name).paper])
def test_each_reproduced_work_is_cited_as_its_study_names_it(name: str) -> None:
    (reference,) = (
        one for one in CITATION["references"] if one["notes"] == f"Reproduced by the study {name}."
    )
    paper = studies.load(name).paper
    assert reference["title"] in paper
    assert str(reference["year"]) in paper
    authors = [one["family-names"] for one in reference["authors"]]
    assert [one for one in authors if one not in paper] == []
    assert paper.index(authors[0]) == min(paper.index(one) for one in authors), (
        "in the order of the title page"
    )
    assert {"collection-title", "conference", "institution"} & reference.keys(), "where it appeared"
