"""The figures on the pages of studies are those that their runs drew; each picture says which run it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from aqmlab import studies
from aqmlab.studies.docs import images as study_images
from aqmlab.studies.docs import pages as study_pages
from aqmlab.studies.docs.images import Shown, source_of

FOLDER = Path(__file__).parent.parent / "docs/studies"
IMAGES = FOLDER.parent / "images"
SHOWN = list(study_images.shown(FOLDER))
SOURCES = {one: found for one in SHOWN if (found := source_of(IMAGES / one.file)) is not None}
"""What pictures say of their runs; those that were drawn before pictures said so are left out."""

MOST_BYTES = 60_000


@pytest.mark.parametrize("one", SHOWN, ids=lambda one: one.file)
def test_a_picture_is_a_figure_of_the_study_that_its_name_says(one: Shown) -> None:
    name, form = study_pages.study_of(one.page)
    assert one.figure in [figure.file for figure in studies.load(name, **form).figures]
    assert 0 < (IMAGES / one.file).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("one", SOURCES, ids=lambda one: one.file)
def test_a_picture_is_of_the_run_whose_results_stand_on_its_page(one: Shown) -> None:
    source = SOURCES[one]
    of_quick = source.startswith("quick form")
    assert ("quick form" in one.words) == of_quick, "the text of a picture says so if it is of the quick form"
    results = json.loads((FOLDER / "results" / f"{one.page}.json").read_text(encoding="utf-8"))
    if not of_quick:
        assert source == study_images.source(results["results_version"], results["commit"], False)


def test_every_study_with_figures_shows_one() -> None:
    stems = {path.stem.removesuffix("-today") for path in (FOLDER / "results").glob("*.json")}
    names = {stem: study_pages.study_of(stem) for stem in stems}
    with_figures = {stem for stem, (name, form) in names.items() if studies.load(name, **form).figures}
    assert with_figures <= {one.on for one in SHOWN}


def test_figures_are_taken_from_runs_with_a_palette_and_their_source(tmp_path: Path) -> None:
    pages, figures = tmp_path / "docs/studies", tmp_path / "out/small/figures"
    (pages / "results").mkdir(parents=True)
    (pages.parent / "images").mkdir()
    figures.mkdir(parents=True)
    for page in ("small", "small-today"):
        (pages / "results" / f"{page}.json").write_text("{}")
    (pages / "small.md").write_text(
        "![A line](../images/small-figure-5.png) ![Two\nlines](../images/small-today-tail.png)"
    )
    assert [one[2:] for one in study_images.shown(pages)] == [("small", "figure-5"), ("small-today", "tail")]
    Image.linear_gradient("L").convert("RGB").resize((400, 300)).save(figures / "figure-5.png")
    (figures.parent / "claims.json").write_text(json.dumps({"results_version": 7, "quick": True}))
    (taken,) = study_images.take(tmp_path / "out", pages, "abc")
    assert taken == pages.parent / "images/small-figure-5.png"
    assert source_of(taken) == "quick form, results version 7, commit abc"
    with Image.open(taken) as made:
        assert (made.size, made.mode) == ((400, 300), "P")


def test_a_picture_of_no_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results/small.json").write_text("{}")
    (tmp_path / "page.md").write_text("![A line](../images/other-line.png)")
    with pytest.raises(ValueError, match=r"page\.md: `other-line\.png` must begin with one of: small"):
        list(study_images.shown(tmp_path))
