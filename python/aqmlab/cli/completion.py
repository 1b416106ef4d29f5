"""Shell completion for the names of queues, TCPs, families, studies and scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Completer = Callable[[str], list[str]]


def one_of(family: str) -> Completer:
    """Returns a function that completes the name of a member of this family."""
    return lambda incomplete: _beginning(incomplete, _names(family))


def several_of(family: str) -> Completer:
    """Returns a function that completes the last name in a comma-separated list of this family's members."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + name for name in _beginning(last, _names(family))]

    return complete


def scenario(incomplete: str) -> list[str]:
    """Completes the name of a packaged scenario or the path of a TOML file."""
    from aqmlab._support import packaged

    folder, slash, last = incomplete.rpartition("/")
    here = Path(folder + slash or ".")
    entries = sorted(here.iterdir()) if here.is_dir() else []
    candidates = [entry for entry in entries if entry.is_dir() or entry.suffix == ".toml"]
    paths = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in candidates]
    matches = [folder + slash + name for name in _beginning(last, paths) if not name.startswith(".")]
    return [*_beginning(incomplete, packaged.names()), *matches]


def shown(incomplete: str) -> list[str]:
    """Completes a name that `aqmlab show` accepts."""
    from aqmlab.scenario.catalog import catalog

    return _beginning(incomplete, dict.fromkeys(one.name for one in catalog()))


def family(incomplete: str) -> list[str]:
    """Completes a family that `aqmlab list` accepts."""
    from aqmlab.scenario.catalog import families

    return _beginning(incomplete, [*families(), "scenarios", "studies"])


def _names(family: str) -> list[str]:
    from aqmlab.scenario.catalog import members
    from aqmlab.studies import titles

    return list(titles()) if family == "studies" else [one.name for one in members(family)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
