"""Scenarios: loaded, changed, checked and run. The core owns every parameter; here are plain tables."""

from __future__ import annotations

import copy
import json
import math
import textwrap
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aqmlab import _core

if TYPE_CHECKING:
    from aqmlab.run import Run

Table = dict[str, Any]


class ScenarioFileError(ValueError):
    """A scenario file that cannot be read or holds something wrong: names file, place and remedy."""

    @classmethod
    def of(cls, path: object, error: Exception) -> ScenarioFileError:
        """What is wrong in the file of this name: beside it, or each on a line below it if there is more."""
        said = str(error)
        return cls(f"{path}:\n{textwrap.indent(said, '  ')}" if "\n" in said else f"{path}: {said}")


@dataclass(frozen=True, kw_only=True)
class Given(ABC):
    """What scenarios of every level are: a table that an author wrote, checked by the core. Frozen.

    `given` is what the author wrote; `effective` is the same with every default filled in.
    """

    given: Table
    name: str = "scenario"

    @abstractmethod
    def with_(self, changes: Mapping[str, Any]) -> Self:
        """A copy with the values at some dotted paths replaced: `{"bottleneck.queue.max_p": 0.2}`.

        A table replaces a table whole; `None` removes. Raises `ScenarioError` if the result is wrong.
        """

    @abstractmethod
    def _check(self) -> tuple[str, str]:
        """The scenario in full as text, and its digest; raises `ScenarioError`."""

    @cached_property
    def _checked(self) -> tuple[Table, str]:
        full, digest = self._check()
        return json.loads(full), digest

    @cached_property
    def _text(self) -> str:
        return json.dumps(self.given, allow_nan=False)

    @property
    def effective(self) -> Table:
        """The scenario in full, every default filled in."""
        return self._checked[0]

    @property
    def digest(self) -> str:
        """The name of its result: covers every parameter, file contents, seed and results version."""
        return self._checked[1]

    def _repr_html_(self) -> str:
        from aqmlab import notebook

        written, full = (notebook.parameters(flat(one)) for one in (self.given, self.effective))
        title = f"{type(self).__name__} {self.name}"
        return notebook.section(title, written, notebook.folded("With every default", full))


@dataclass(frozen=True, kw_only=True)
class Scenario(Given):
    """One network, its queues and its traffic; `files` holds the contents of the files it names."""

    files: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Reads a TOML file and the files it names (relative to itself), and checks everything.

        Raises `ScenarioFileError`, which names the file, the place, what is wrong and what is allowed.
        """
        path = Path(path)
        given = read_toml(path)
        try:
            files = {name: _read_text(path.parent / name) for name in _core.files_of(json.dumps(given))}
            scenario = cls(given=given, files=files, name=path.stem)
            _ = scenario.effective
        except _core.ScenarioError as error:
            raise ScenarioFileError.of(path, error) from None
        return scenario

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], *, files: Mapping[str, str] | None = None) -> Scenario:
        """The scenario of a plain table of the form of a TOML file; `files` holds contents by name."""
        scenario = cls(given=plain(table), files=dict(files or {}))
        _ = scenario.effective
        return scenario

    def with_(self, changes: Mapping[str, Any], *, files: Mapping[str, str] | None = None) -> Scenario:
        """A copy with the values at some dotted paths replaced: `{"bottleneck.queue.max_p": 0.2}`.

        A table replaces a table whole; `None` removes. Raises `ScenarioError` if the result is wrong.
        """
        scenario = Scenario(
            given=changed(self.given, changes), files={**self.files, **(files or {})}, name=self.name
        )
        _ = scenario.effective
        return scenario

    @cached_property
    def _read(self) -> tuple[str, str, list[str]]:
        return _core.check(self._text, dict(self.files))

    def _check(self) -> tuple[str, str]:
        return self._read[:2]

    @property
    def warnings(self) -> list[str]:
        """What is allowed but hardly meant, a sentence each that begins with the place."""
        return self._read[2]

    @property
    def queues(self) -> Table:
        """The alternatives of `[queues.NAME]`, complete."""
        return dict(self.effective.get("queues", {}))

    def run(self, seed: int | None = None) -> Run:
        """Runs it, with another seed if one is given. Other threads go on meanwhile."""
        from aqmlab.run import run

        # Running checks it all again, so a copy with another seed need not be checked by itself.
        return run(self if seed is None else replace(self, given={**self.given, "seed": seed}))


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by dotted path."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def parse_setting(text: str) -> tuple[str, Any]:
    """Splits `path=value` as typed on a command line; the value is TOML, or else plain text."""
    path, separator, value = text.partition("=")
    if not separator or not path.strip():
        raise ValueError(f"`{text}` is not of the form path=value, such as bottleneck.queue.max_p=0.2")
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


S = TypeVar("S", bound=Given)


def with_settings(scenario: S, settings: Iterable[str]) -> S:
    """The scenario with `path=value` settings applied in order."""
    return scenario.with_(dict(parse_setting(text) for text in settings))


def plain(table: Mapping[str, Any]) -> Table:
    """A copy of a table of plain values; raises `ScenarioError` if it holds anything else."""
    _check_plain("", dict(table))
    return copy.deepcopy(dict(table))


def changed(given: Table, changes: Mapping[str, Any]) -> Table:
    """A copy with the values at some dotted paths replaced; `None` removes."""
    given = copy.deepcopy(given)
    for path, value in changes.items():
        _check_plain(path, value)
        _put(given, path, copy.deepcopy(value))
    return given


def _put(table: Table, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            raise _error(path, f"`{key}` is not a table")
        table = inner
    if value is None:
        table.pop(last, None)
    else:
        table[last] = value


def _error(place: str, problem: str) -> _core.ScenarioError:
    error = _core.ScenarioError(f"{place}: {problem}")
    error.place, error.problem, error.problems = place, problem, [(place, problem)]
    return error


def _check_plain(place: str, value: Any) -> None:
    """Refuses what no scenario holds: dates, infinities, NaN, objects of a program."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_plain(f"{place}.{key}" if place else str(key), inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check_plain(f"{place}.{number}", inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _error(place, f"`{value}` is not a finite number")
    elif not isinstance(value, str | int | float | bool | None):
        raise _error(place, f"`{value}` is a {type(value).__name__}, which no scenario holds")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioFileError(f"{path}: byte {error.start}: is not UTF-8 text") from None
    except OSError as error:
        raise ScenarioFileError(f"{path}: cannot be read: {error.strerror}") from None


def read_toml(path: Path) -> Table:
    """The table that a TOML file holds; raises `ScenarioFileError`."""
    text = _read_text(path)
    try:
        table: Table = json.loads(_core.toml_to_json(text))
    except _core.ScenarioError as error:
        raise ScenarioFileError.of(path, error) from None
    return table
