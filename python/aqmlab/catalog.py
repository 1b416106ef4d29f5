"""Everything that has a name: queues, TCP, its profiles, traffic, flow level, traces, tables, studies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

from aqmlab import _core

FAMILIES = {
    "queues": "queue discipline",
    "tcp": "TCP",
    "recoveries": "TCP recovery",
    "aliases": "TCP alias",
    "profiles": "TCP profile",
    "traffic": "traffic",
    "edges": "edge",
    "sections": "scenario section",
    "flow-level": "flow-level section",
    "sizes": "size law",
    "trace": "trace section",
    "trace-sources": "trace source",
    "tables": "table",
}
"""What `aqmlab list` takes, and the family it lists."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One named thing.

    `parameters` are rows of name, doc, default, source and what may be written: its `type`, whether it is
    `optional`, and where they apply `units`, `choices` (rows of word and doc), the `family` of a plug-in,
    `several` (`list`, `one-or-list` or `by-name`) and the nested `fields`. A table's rows are its columns.
    Profiles, aliases and recoveries have `values` instead: a `[tcp]` table.
    `sources` says, by dotted path, where a profile's values come from that differ from the first profile's.
    """

    name: str
    family: str
    about: str
    parameters: tuple[dict[str, Any], ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


@cache
def catalog() -> tuple[Entry, ...]:
    """Every entry, by family in the order of `FAMILIES`.

    A name is unique in its family; `cubic` is a congestion control and an alias, and a study may be named
    after the queue it studies.
    """
    entries = [
        Entry(
            name=one["name"],
            family=one["family"]["title"],
            about=one["about"],
            parameters=tuple(one["parameters"]),
        )
        for one in json.loads(_core.catalog())
    ]
    entries += [
        Entry(
            name=one["name"],
            family=FAMILIES["profiles"],
            about=one["about"],
            values=one["parameters"],
            sources=dict(one["sources"]),
        )
        for one in json.loads(_core.profiles())
    ]
    entries += [
        Entry(
            name=one["name"],
            family=FAMILIES["aliases"],
            about=one["about"],
            values=json.loads(_core.transport(one["name"])),
        )
        for one in json.loads(_core.aliases())
    ]
    entries += [
        Entry(
            name=one["word"],
            family=FAMILIES["recoveries"],
            about=one["doc"],
            values={"recovery": {"kind": one["word"]}},
        )
        for one in _parameter_of_tcp(entries, "recovery", "kind")["choices"]
    ]
    entries += [
        Entry(
            name=one["name"],
            family=FAMILIES["tables"],
            about=one["doc"].strip(),
            parameters=tuple(one["columns"]),
        )
        for one in json.loads(_core.table_catalog())
    ]
    order = list(FAMILIES.values())
    return tuple(sorted(entries, key=lambda one: order.index(one.family)))


def entries(name: str) -> list[Entry]:
    """The entries of this name, one of a family; raises `LookupError` that suggests the nearest names."""
    found = [one for one in catalog() if one.name == name]
    if found:
        return found
    names = list(dict.fromkeys(one.name for one in catalog()))
    near = get_close_matches(name, names, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"there is {', '.join(names)}"
    raise LookupError(f"nothing is named `{name}`: {hint}")


def entry(name: str) -> Entry:
    """The first entry of this name in the order of `FAMILIES`; raises as [`entries`] does."""
    return entries(name)[0]


def base_profile() -> Entry:
    """The profile whose values hold where a scenario names none."""
    return next(one for one in catalog() if one.family == FAMILIES["profiles"])


def _parameter_of_tcp(entries: list[Entry], *path: str) -> dict[str, Any]:
    rows: Iterable[dict[str, Any]] = next(one for one in entries if one.name == "tcp").parameters
    for name in path:
        found = next(row for row in rows if row["name"] == name)
        rows = found.get("fields", ())
    return found


def studies() -> dict[str, str]:
    """The title of every study, by name."""
    from aqmlab import study
    from aqmlab.studies import STUDIES

    return {name: study.load(name).title for name in STUDIES}
