"""Sphinx: the pages are MyST Markdown, the theme is Furo. `make docs` builds the site."""

from importlib.metadata import version as version_of
from pathlib import Path

from aqmlab.report_card import pages

project = "aqmlab"
author = "the aqmlab authors"
copyright = f"2026, {author}"
release = version = version_of("aqmlab")

extensions = ["myst_parser"]
exclude_patterns = ["_build", "requirements.txt"]
html_theme = "furo"
html_title = f"aqmlab {release}"
myst_heading_anchors = 3


def setup(app):
    app.connect("builder-inited", lambda app: pages.draw(Path(app.srcdir) / "report-cards"))
