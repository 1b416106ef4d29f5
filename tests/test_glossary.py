"""The glossary names nothing that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from aqmlab.scenario import flat
from aqmlab.scenario.catalog import catalog

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/glossary.md"
DEFINED = re.compile(
    r"\b(?:struct|enum|trait|type|fn|mod|const|static|class|def) (\w+)"
    r"|^ +(?:pub(?:\(\w+\))? )?(\w+):|^ {4}(\w+)(?:\(.*\)|)(?: = \d+)?,$|^(\w+) =|\"([\w-]+)\" =>",
    re.MULTILINE,
)
"""Where a name is defined: types, functions and modules, fields, variants, constants, kinds."""


def rows(fields: Any, prefix: str = "") -> Iterator[str]:
    """The paths of parameters or columns, with those of tables within."""
    for field in fields:
        yield f"{prefix}{field['name']}"
        yield from rows(field.get("fields") or (), f"{prefix}{field['name']}.")


@cache
def names() -> frozenset[str]:
    """Every name that the source defines, a scenario may hold or a table has."""
    found: set[str] = set()
    for path in [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("python/aqmlab/**/*.py")]:
        found |= {
            name for groups in DEFINED.findall(path.read_text(encoding="utf-8")) for name in groups if name
        }
        found.add(path.stem)
    for one in catalog():
        paths = [*rows(one.parameters), *flat(one.values)]
        found |= {
            one.name,
            *(f"{one.name}.{path}" for path in paths),
            *(path.rpartition(".")[2] for path in paths),
        }
    return frozenset(found)


def unknown(text: str) -> list[str]:
    """The words in code font that are no names; a path with dots is one name."""
    words = [word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[\w.-]+", code)]
    return [word for word in words if word not in names() and word not in ALLOWED]


ALLOWED: Mapping[str, str] = {
    "traffic.NAME": "a table of scenarios",
    "tc-htb": "a manual page of Linux",
    "profile": "a key of `[tcp]`, which names values for the others",
    "p_b": "the paper's symbol",
    "p_a": "the paper's symbol",
}
"""What stands in code font and is no name of ours."""


def test_every_name_in_the_glossary_exists() -> None:
    assert unknown(PAGE.read_text(encoding="utf-8")) == []


def test_a_name_that_does_not_exist_is_found() -> None:
    text = "`QueueDiscipline` is not `Queuer`, and `tcp.rto.min` not `tcp.rto.least`"
    assert unknown(text) == ["Queuer", "tcp.rto.least"]


def test_terms_are_told_once_in_bold() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*:", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    entries = re.findall(r"^- ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(terms) == len(set(terms)) == len(entries) > 60
