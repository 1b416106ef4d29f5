"""The catalogue of all named entries, such as queues, TCPs, profiles, traffic, distributions, traces and
tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aqmlab import _core


@dataclass(frozen=True)
class Family:
    """A group of entries, with the group's name for `aqmlab list` and a title for the members."""

    name: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A named entry. `summary` is a description in one sentence, and `about` is the full description.

    Each row of `parameters` has the keys `name`, `doc`, `default`, `source`, `type` and `optional`, and
    optionally `units`, `choices` (rows with a word and its description), the `family` of a plug-in, `several`
    (`list`, `one-or-list` or `by-name`) and nested `fields`. For a table, the rows describe the table's
    columns. Profiles, aliases and recoveries have `values` instead, which is a `[tcp]` table. `sources` maps
    dotted paths to sources, for those values of a profile that differ from the first profile.
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
    """The name of the queue in Linux's command `tc`, if the entry is a queue that the kernel has."""


@cache
def catalog() -> tuple[Entry, ...]:
    """All entries, grouped by family.

    A name is unique within a family, but several families may have an entry with the same name. For example,
    `cubic` is both a congestion control and an alias.
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
    """Returns all families by name, in the order of the catalogue."""
    return {one.family.name: one.family for one in catalog()}


def members(family: str) -> list[Entry]:
    """Returns the entries of the family with this name."""
    return [one for one in catalog() if one.family.name == family]


def entries(name: str) -> list[Entry]:
    """Returns the entries with this name, at most one per family. Raises `LookupError`, which suggests
    similar names, if there is no such entry."""
    from aqmlab._support.names import hint

    found = [one for one in catalog() if one.name == name]
    if found:
        return found
    raise LookupError(f"nothing is named `{name}`: {hint(name, (one.name for one in catalog()))}")


def entry(name: str) -> Entry:
    """Returns the first entry with this name, in the order of the catalogue. Raises the same errors as
    `entries`."""
    return entries(name)[0]


def queue_table(own: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the table of the queue with this name. The name is looked up first in `own`, which is the
    `[queues]` table of a scenario. Otherwise, the name is a kind of queue with its defaults. For an unknown
    name, raises `ValueError`, which suggests similar names."""
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
    """Returns the name of the default profile."""
    return members("profiles")[0]
