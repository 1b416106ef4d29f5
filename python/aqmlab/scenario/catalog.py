"""Everything that has a name: queues, TCP, profiles, traffic, distributions, traces, tables, studies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aqmlab import _core


@dataclass(frozen=True)
class Family:
    """A group of things with names: what `aqmlab list` calls it, and what one of its members is."""

    name: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One named thing. `summary` says in a sentence what it is, `about` says that and the rest.

    `parameters` are rows of name, doc, default, source and what may be written: its `type`, whether it is
    `optional`, and where they apply `units`, `choices` (rows of word and doc), the `family` of a plug-in,
    `several` (`list`, `one-or-list` or `by-name`) and the nested `fields`. A table's rows are its columns.
    Profiles, aliases and recoveries have `values` instead: a `[tcp]` table.
    `sources` says, by dotted path, where a profile's values come from that differ from the first profile's.
    """

    name: str
    family: Family
    summary: str
    about: str
    parameters: tuple[dict[str, Any], ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    module: str = ""
    """The Rust module that declares the parameters, such as `aqm_queue::red::shred`."""
    tc: str = ""
    """The kind of Linux's command `tc`, if the entry is a queue that the kernel has."""


@cache
def catalog() -> tuple[Entry, ...]:
    """Every entry, family by family.

    A name is unique in its family; `cubic` is a congestion control and an alias, and a study may be named
    after the queue it studies.
    """
    return tuple(
        Entry(
            name=one["name"],
            family=Family(family["name"], family["title"]),
            summary=one["summary"],
            about=one["about"],
            parameters=tuple(one["parameters"]),
            values=one.get("values", {}),
            sources=dict(one.get("sources", ())),
            module=one.get("module", ""),
            tc=one.get("tc", ""),
        )
        for family in json.loads(_core.catalog())
        for one in family["members"]
    )


def families() -> dict[str, Family]:
    """Every family by its name, in the order of the catalogue."""
    return {one.family.name: one.family for one in catalog()}


def members(family: str) -> list[Entry]:
    """The entries of the family of this name."""
    return [one for one in catalog() if one.family.name == family]


def entries(name: str) -> list[Entry]:
    """The entries of this name, one of a family; raises `LookupError` that suggests the nearest names."""
    from aqmlab._support.names import hint

    found = [one for one in catalog() if one.name == name]
    if found:
        return found
    raise LookupError(f"nothing is named `{name}`: {hint(name, (one.name for one in catalog()))}")


def entry(name: str) -> Entry:
    """The first entry of this name in the order of the catalogue; raises as [`entries`] does."""
    return entries(name)[0]


def queue_table(own: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The table of a queue: that of this name in `own`, the `[queues]` of a scenario, or else a kind with its
    defaults. Raises `ValueError`, which suggests the nearest names, if there is no such queue."""
    from aqmlab._support.names import hint

    kinds = [one.name for one in members("queues")]
    if name not in own and name not in kinds:
        raise ValueError(
            f"no queue is named `{name}`: {hint(name, [*own, *kinds])} "
            "(allowed: names of [queues] in the scenario, and kinds from `aqmlab list queues`)"
        )
    table: dict[str, Any] = own.get(name, {"kind": name})
    return table


def base_profile() -> Entry:
    """The profile whose values hold where a scenario names none."""
    return members("profiles")[0]
