"""The subject of a commit begins with the room it changes, as CONTRIBUTING says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SINCE = "66df36d"
"""Commits after this one are held to the rule."""

MOST = 100
"""Characters in a subject."""


def rooms() -> list[str]:
    """The rooms that CONTRIBUTING lists."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(r"The rooms are (.*?)\.", text, re.DOTALL)
    assert found is not None
    return re.findall(r"`([a-z]+)`", found[1])


def begins_with_a_room(subject: str) -> bool:
    room = "|".join(rooms())
    return re.match(rf"(?:{room})(?:, (?:{room}))*: \S", subject) is not None and len(subject) <= MOST


def test_every_subject_begins_with_its_room() -> None:
    command = ["git", "log", "--no-merges", "--format=%s", f"{SINCE}..HEAD"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip("there is no history here, or not all of it")
    wrong = [subject for subject in told.stdout.splitlines() if not begins_with_a_room(subject)]
    assert not wrong, f"begin with a room and have at most {MOST} characters: {wrong}"


def test_a_subject_without_a_room_or_without_an_end_is_found() -> None:
    assert begins_with_a_room("queue, tcp: what both need")
    assert not begins_with_a_room("fix stuff")
    assert not begins_with_a_room("cellar: sweep")
    assert not begins_with_a_room(f"queue: {'x' * 100}")
