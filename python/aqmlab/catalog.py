"""Everything that has a name: queue disciplines, TCP, traffic, profiles, tables, studies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

from aqmlab import _core

FAMILIES = {
    "queues": "queue discipline",
    "tcp": "TCP",
    "traffic": "traffic",
    "profiles": "TCP profile",
    "sections": "scenario section",
    "tables": "table",
}
"""What `aqmlab list` takes, and the family it lists."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One named thing.

    `parameters` are rows of name, doc, kind (type and unit), default, source and nested `fields`; a
    table's rows are its columns; a profile has values instead.
    """

    name: str
    family: str
    about: str
    parameters: tuple[dict[str, Any], ...] = ()
    values: dict[str, Any] = field(default_factory=dict)


@cache
def catalog() -> tuple[Entry, ...]:
    """Every entry with parameters or columns, by family in the order of `FAMILIES`.

    Names are unique over all families. Studies have none of their own: one may be named after the
    queue it studies.
    """
    entries = [
        Entry(name=one["name"], family=one["family"], about=one["about"], parameters=tuple(one["parameters"]))
        for one in json.loads(_core.catalog())
    ]
    entries += [
        Entry(name=one["name"], family="TCP profile", about=one["about"], values=one["parameters"])
        for one in json.loads(_core.profiles())
    ]
    entries += [
        Entry(name=one["name"], family="table", about=one["doc"].strip(), parameters=tuple(one["columns"]))
        for one in json.loads(_core.table_catalog())
    ]
    order = list(FAMILIES.values())
    return tuple(sorted(entries, key=lambda one: order.index(one.family)))


def entry(name: str) -> Entry:
    """The entry of this name; raises `LookupError` that suggests the nearest names."""
    by_name = {one.name: one for one in catalog()}
    if name in by_name:
        return by_name[name]
    near = get_close_matches(name, by_name, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"there is {', '.join(by_name)}"
    raise LookupError(f"nothing is named `{name}`: {hint}")


def studies() -> dict[str, str]:
    """The title of every study, by name."""
    from aqmlab import study
    from aqmlab.studies import STUDIES

    return {name: study.load(name).title for name in STUDIES}
