"""The documentation builds as a site, without a warning, and no link within it is broken."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent

pytest.importorskip(
    "sphinx", reason="the site's tools are in docs/requirements.txt; `make test` installs them"
)


class Page(HTMLParser):
    """What a page of the site refers to, and what may be referred to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.targets |= {values[key] or "" for key in ("href", "src") if key in values}
        if values.get("id"):
            self.anchors.add(values["id"] or "")


def broken(site: Path) -> list[str]:
    """Links of the site's pages to files that are not in it and to anchors that their page has not."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    lost = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not there.exists() or (anchor and there in pages and anchor not in pages[there].anchors):
                lost.append(f"{path.relative_to(site)} -> {target}")
    return sorted(lost)


def test_the_site_builds_without_a_warning_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    # Furo writes the whole table of contents on each page, which takes a third of the time. The other theme
    # has the same links in the texts.
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "-b", "html"]
    command += ["-D", "html_theme=basic"]
    site = tmp_path / "site"
    cards = ROOT / "docs" / "report-cards" / "index.md"
    table = cards.read_text(encoding="utf-8")
    made = subprocess.run(
        [*command, "-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(site)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert broken(site) == []
    # The build writes the table of the report cards from the cards' values.
    assert cards.read_text(encoding="utf-8") == table


def test_a_broken_link_of_a_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="here">Here</h1> <a href="#here"></a> <a href="#there"></a> <a href="other.html"></a>'
    )
    assert broken(tmp_path) == ["index.html -> #there", "index.html -> other.html"]
