"""ARCHITECTURE's tables say where things are, and they are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "ARCHITECTURE.md"


def rows(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """The concepts of the tables of rooms: with the paths of their files, and the names to look for."""
    room = ""
    for line in text.splitlines():
        heading = re.match(r"### `([\w/-]+)`", line)
        row = re.fullmatch(r"\| (.+?) \| (`.+?) \|(?: (.*) )?\|", line)
        if heading:
            room = heading[1]
        elif row:
            files = [
                file if "/src/" in file else f"{home(room)}/{file}"
                for file in re.findall(r"`([^`]+)`", row[2])
            ]
            yield row[1], files, re.findall(r"`([^`]+)`", row[3] or "")


def home(room: str) -> str:
    return f"{room}/src" if room.startswith("crates/") else room


def lost(text: str) -> list[str]:
    """The concepts whose file is not there, or has not the name that is told, each with what is missing."""
    found = []
    for concept, files, names in rows(text):
        missing = [file for file in files if not (ROOT / file).exists()]
        found += [f"{concept}: {file}" for file in missing]
        if missing:
            continue
        source = "".join(text_of(ROOT / file) for file in files)
        found += [f"{concept}: {name} in {files}" for name in names if not re.search(rf"\b{name}\b", source)]
    return found


def text_of(path: Path) -> str:
    paths = [path] if path.is_file() else sorted(path.glob("*.py"))
    return "".join(one.read_text(encoding="utf-8") for one in paths)


def test_every_concept_is_where_the_tables_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert lost(text) == []
    assert len(list(rows(text))) > 110


def test_a_wrong_place_is_found() -> None:
    told = (
        "### `crates/aqm-queue`\n\n| RED | `blue.rs` | `Red` |\n| Reasons | `lib.rs` | `Cause`, `Reason` |\n"
    )
    assert lost(told) == [
        "RED: crates/aqm-queue/src/blue.rs",
        "Reasons: Cause in ['crates/aqm-queue/src/lib.rs']",
    ]


def test_every_file_of_a_room_has_a_place_in_the_tables() -> None:
    told = {Path(file).name for _, files, _ in rows(PAGE.read_text(encoding="utf-8")) for file in files}
    assert {path.name for path in (ROOT / "python/aqmlab").glob("*.py")} - told - {"__init__.py"} == set()
