"""The beginning of a study: a TOML file that runs, to be changed."""

from __future__ import annotations

import os
from pathlib import Path

from aqmlab import measures
from aqmlab._support.files import write_text
from aqmlab.measures import Measure
from aqmlab.scenario import Scenario

LIKELY = ("mean-time", "mean-queue-delay", "mean-delay", "goodput", "utilisation")
"""Endings of measures that a first study is about, the likeliest first."""

INLINE = ("web.mean-time", "bulk.goodput")
"""The measures of the scenario that a study without a scenario of its own gets."""


def write(name: str, folder: Path, scenario: Path | None = None) -> Path:
    """Writes `name.toml` into a folder: a study of the scenario, or of a small one that stands in the file.

    Raises `ValueError` if the name is malformed, the file is there already, or the scenario has no measure
    that a study could be about.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
        raise ValueError(f"NAME: may hold letters, digits, `-` and `_`, is {name!r}")
    path = folder / f"{name}.toml"
    if path.exists():
        raise ValueError(f"{path}: is there already: choose another name")
    if scenario is None:
        wanted, title = list(INLINE), "the mean time of Web objects"
    else:
        found = _likely(Scenario.load(scenario))
        wanted, title = [one.name for one in found], found[0].title
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
        title=title,
        measures=wanted,
        measures_of=scenario or f"{name}.toml",
        scenario="" if scenario is None else os.path.relpath(scenario, folder),
    )
    write_text(path, text)
    return path


def _likely(scenario: Scenario) -> list[Measure]:
    """A measure of each likely kind, two at most."""
    known = measures.of_scenario(scenario)
    found = [
        next(one for one in known.values() if one.name.endswith(f".{ending}"))
        for ending in LIKELY
        if any(name.endswith(f".{ending}") for name in known)
    ]
    if not found:
        raise ValueError(f"{scenario.name}: has none of the measures that a study begins with")
    return found[:2]
