"""The page of pitfalls names tests that exist, and leaves no pitfall out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/background/pitfalls.md"
CRATES = {"T": "crates/aqm-tcp", "R": "crates/aqm-queue", "C": "crates/aqm-queue"}
"""Where the tests of an entry are, unless a path from the root says it; by the entry's letter."""

IDS = [
    f"{letter}{number}" for letter, last in (("T", 20), ("R", 14), ("C", 12)) for number in range(1, last + 1)
]
ENTRY = re.compile(r"^- \*\*(?P<id>[A-Z]\d+)\.\*\* (?P<text>.+(?:\n  .+)*)", re.MULTILINE)
GUARD = re.compile(
    r"`(?P<file>(?:crates/[\w-]+/)?(?:src|tests)/[\w/]+\.(?:rs|py))`:\s+(?P<names>`\w+`(?:,\s+`\w+`)*)"
)


def guards(text: str, crate: str) -> list[tuple[str, str]]:
    """The tests a text names, each with its file from the root."""
    found = GUARD.finditer(text)
    return [
        (file_of(guard["file"], crate), name)
        for guard in found
        for name in re.findall(r"`(\w+)`", guard["names"])
    ]


def file_of(path: str, crate: str) -> str:
    """The path from the root; Python's tests are at the root."""
    return path if path.startswith("crates/") or path.endswith(".py") else f"{crate}/{path}"


def is_test(file: str, name: str) -> bool:
    """Whether the file has a test of that name."""
    path = ROOT / file
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    test = rf"#\[test\]\n(?:\s*#\[.*\]\n)*\s*fn {name}\("
    return re.search(rf"^def {name}\(" if file.endswith(".py") else test, source, re.MULTILINE) is not None


def test_every_pitfall_is_guarded_or_cannot_apply() -> None:
    entries = list(ENTRY.finditer(PAGE.read_text(encoding="utf-8")))
    assert [one["id"] for one in entries] == IDS
    bare = [
        one["id"] for one in entries if not guards(one["text"], "") and "*Cannot apply*: " not in one["text"]
    ]
    assert not bare, f"neither guarded nor explained: {bare}"


def test_every_test_named_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = [
        guard for entry in ENTRY.finditer(text) for guard in guards(entry["text"], CRATES[entry["id"][0]])
    ]
    # What is told between the entries is of TCP.
    named += guards(ENTRY.sub("", text), CRATES["T"])
    lost = [f"{file}: {name}" for file, name in named if not is_test(file, name)]
    assert not lost, f"named, but not there: {lost}"
    words = re.findall(r"`(\w*_\w*_\w*)`", text)
    assert len(words) == len(named), "a test is named without its file"
