"""Writes a template for a new study, which is a complete TOML file to edit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from aqmlab import measures
from aqmlab._support.files import write_text
from aqmlab._support.toml_writer import inline
from aqmlab.measures import Measure
from aqmlab.scenario import Scenario

LIKELY_ENDINGS = ("mean-time", "mean-queue-delay", "mean-delay", "goodput", "utilisation")
"""Endings of the names of measures that are useful in a first study, beginning with the most useful
ending."""

INLINE = ("web.mean-time", "bulk.goodput")
"""Measures of the template's own scenario, which is used if no scenario file is given."""


def write(name: str, folder: Path, scenario: Path | None = None) -> Path:
    """Writes the file `name.toml` into a folder. The file contains a study of the scenario, or of a small
    scenario inside the file.

    Raises `ValueError` if the name is malformed, if the file already exists, or if the scenario has no
    measure that is suitable for a first study.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
        raise ValueError(f"NAME: must consist of letters, digits, `-` and `_` (got {name!r})")
    path = folder / f"{name}.toml"
    if path.exists():
        raise ValueError(f"{path}: already exists: choose another name")
    if scenario is None:
        wanted, link, own = list(INLINE), "bottleneck", '{ kind = "drop-tail", limit = "100p" }'
    else:
        loaded = Scenario.load(scenario)
        wanted = [one.name for one in _likely(loaded)]
        link, own = _own_queue(loaded)
    environment = Environment(
        loader=PackageLoader("aqmlab", "templates"),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    text = environment.get_template("study.toml.jinja").render(
        name=name,
        heading=name.replace("-", " ").replace("_", " ").capitalize(),
        link=link,
        own=own,
        measures=wanted,
        measures_of=scenario or f"{name}.toml",
        scenario="" if scenario is None else os.path.relpath(scenario, folder),
    )
    write_text(path, text)
    return path


def _likely(scenario: Scenario) -> list[Measure]:
    """Returns at most two measures. Each measure has a different one of the useful endings."""
    known = measures.of_scenario(scenario)
    found = [
        next(one for one in known.values() if one.name.endswith(f".{ending}"))
        for ending in LIKELY_ENDINGS
        if any(name.endswith(f".{ending}") for name in known)
    ]
    if not found:
        raise ValueError(f"{scenario.name}: has no measure that is suitable for a first study")
    return found[:2]


def _own_queue(scenario: Scenario) -> tuple[str, str]:
    """Returns the path of the first managed link of a scenario, and the link's queue as an inline table."""
    if not scenario.managed_links:
        raise ValueError(f"{scenario.name}: has no link with a queue to change")
    link, _ = scenario.links[scenario.managed_links[0]]
    table: Any = scenario.given
    for key in (*link.split("."), "queue"):
        table = table.get(key, {}) if isinstance(table, dict) else {}
    if isinstance(table, str):
        table = scenario.given.get("queues", {}).get(table, {"kind": table})
    found = table or {"kind": scenario.links[scenario.managed_links[0]][1]["queue"]["kind"]}
    return link, inline(found)
