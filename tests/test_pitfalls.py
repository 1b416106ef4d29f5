"""The page of pitfalls names tests that exist, and leaves no pitfall out."""

from __future__ import annotations

import re
from pathlib import Path

CRATE = Path(__file__).parent.parent / "crates/aqm-tcp"
PAGE = Path(__file__).parent.parent / "docs/background/pitfalls.md"
ENTRY = re.compile(r"^- \*\*(?P<id>T\d+)\.\*\* (?P<text>.+(?:\n  .+)*)", re.MULTILINE)
GUARD = re.compile(r"`(?P<file>(?:src|tests)/[\w/]+\.rs)`:\s+(?P<names>`\w+`(?:,\s+`\w+`)*)")


def guards(text: str) -> list[tuple[str, str]]:
    """The tests a text names, each with its file."""
    found = GUARD.finditer(text)
    return [(guard["file"], name) for guard in found for name in re.findall(r"`(\w+)`", guard["names"])]


def is_test(file: str, name: str) -> bool:
    """Whether the file has a test of that name."""
    path = CRATE / file
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    return re.search(rf"#\[test\]\n(?:\s*#\[.*\]\n)*\s*fn {name}\(", source) is not None


def test_every_pitfall_is_guarded_or_cannot_apply() -> None:
    entries = list(ENTRY.finditer(PAGE.read_text(encoding="utf-8")))
    assert [one["id"] for one in entries] == [f"T{number}" for number in range(1, 21)]
    bare = [one["id"] for one in entries if not guards(one["text"]) and "*Cannot apply*: " not in one["text"]]
    assert not bare, f"neither guarded nor explained: {bare}"


def test_every_test_named_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = guards(text)
    lost = [f"{file}: {name}" for file, name in named if not is_test(file, name)]
    assert not lost, f"named, but not there: {lost}"
    words = re.findall(r"`(\w*_\w*_\w*)`", text)
    assert len(words) == len(named), "a test is named without its file"
