"""Scenarios: loaded, changed, checked and run. The core owns every parameter; here are plain tables."""

from __future__ import annotations

import copy
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from aqmlab import _core
from aqmlab._support import arguments
from aqmlab._support.names import hint
from aqmlab._support.packaged import is_name, located, names
from aqmlab.scenario.run import Run
from aqmlab.scenario.workloads import Workload, workloads

Table = dict[str, Any]

STANDARD_INPUT = "-"
"""The path that stands for standard input."""

_CHANGE = '{"bottleneck.queue.max_p": 0.2}'
"""A change of a scenario, for messages."""


class ScenarioFileError(ValueError):
    """A scenario file that cannot be read or holds something wrong: names file, place and remedy."""

    @classmethod
    def of(cls, path: object, error: Exception) -> ScenarioFileError:
        """What is wrong in the file of this name: beside it, or each on a line below it if there is more."""
        import textwrap

        said = str(error)
        return cls(f"{path}:\n{textwrap.indent(said, '  ')}" if "\n" in said else f"{path}: {said}")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is to be run: at packet level one network, its queues and its traffic; at flow level a link and
    who shares it; or a trace and the queue it is replayed through. Frozen, and checked when it is made.

    `given` is what the author wrote; `effective` is the same with every default filled in. `files` holds the
    contents of the files it names. It is made by `load` or `from_dict`, and others from it by `with_`.
    """

    given: Table
    plan: _core.Plan = field(repr=False, compare=False)
    """What the core made of it, once."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = "scenario"

    @classmethod
    def load(
        cls, path: str | Path, changes: Mapping[str, Any] | None = None, *, changed_by: str = "--set"
    ) -> Scenario:
        """Reads a TOML file and the files it names (relative to itself), makes `changes` as `with_` does, and
        checks everything. `path` may be the name of a scenario that comes with aqmlab, such as `hello`, or
        `-` for standard input, whose files are relative to the current folder.

        Raises `ScenarioFileError`, which names the file, what changed it, the places, what is wrong and what
        is allowed.
        """
        if not isinstance(path, str | Path):
            raise ValueError(f"path: must be a file's path or a scenario's name, is {path!r}")
        if changes is not None:
            arguments.table("changes", changes, _CHANGE)
        if str(path) == STANDARD_INPUT:
            path, text = Path("standard input"), _read_standard_input()
        else:
            path = located(path)
            text = _read_text(path)
        try:
            document = _core.Document.of_toml(text, str(path.parent))
            given: Table = json.loads(document.json)
        except _core.ScenarioError as error:
            raise ScenarioFileError.of(path, error) from None
        try:
            if changes:
                given = changed(given, changes)
                document = _core.Document.of_json(_json(given))
            files = {name: _read_text(path.parent / name) for name in document.files}
            return cls(given=given, plan=document.plan(files), files=files, name=path.stem)
        except _core.ScenarioError as error:
            where = f"{path} with {changed_by}" if changes else path
            raise ScenarioFileError.of(where, error) from None

    @classmethod
    def from_dict(
        cls, table: Mapping[str, Any], *, files: Mapping[str, str] | None = None, name: str = "scenario"
    ) -> Scenario:
        """The scenario of a plain table of the form of a TOML file; `files` holds contents by name."""
        arguments.table("table", table, '{"duration": "60s", ...}')
        return cls._read(plain(table), dict(files or {}), name)

    @classmethod
    def _read(cls, given: Table, files: dict[str, str], name: str) -> Scenario:
        plan = _core.Document.of_json(_json(given)).plan(files)
        return cls(given=given, plan=plan, files=files, name=name)

    def with_(self, changes: Mapping[str, Any], *, files: Mapping[str, str] | None = None) -> Scenario:
        """A copy with the values at some dotted paths replaced: `{"bottleneck.queue.max_p": 0.2}`.

        A table replaces a table whole, `None` removes, and a word for a queue
        (`{"bottleneck.queue": "codel"}`) stands for the table of `[queues.NAME]`, or else for a kind with its
        defaults. Raises `ScenarioError` if the result is wrong.
        """
        arguments.table("changes", changes, _CHANGE)
        return self._read(changed(self.given, changes), {**self.files, **(files or {})}, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes make their own plan of the same tables.
        return _made_again, (self.given, dict(self.files), self.name)

    @property
    def level(self) -> str:
        """`packet`, `flow` or `trace`."""
        return self.plan.level

    @cached_property
    def effective(self) -> Table:
        """The scenario in full, every default filled in."""
        full: Table = json.loads(self.plan.effective)
        return full

    def to_toml(self) -> str:
        """The scenario in full as TOML, which reads back as the same scenario: a parameter without a value is
        left out, or is `"none"` where its default is a value."""
        from aqmlab._support import toml_writer

        short = _core.Document.of_toml(toml_writer.written(self.effective), "")
        filled = json.loads(short.plan(dict(self.files)).effective)
        return toml_writer.written(_with_none(self.effective, filled))

    @cached_property
    def derived(self) -> dict[str, dict[str, dict[str, Any]]]:
        """What its queues choose by themselves, such as a threshold that follows from the rate of the line,
        by link and parameter: each a `value` with its `unit`."""
        chosen: dict[str, dict[str, dict[str, Any]]] = json.loads(self.plan.derived)
        return chosen

    @cached_property
    def digest(self) -> str:
        """The name of its result: covers every parameter, file contents, seed and results version. A trace
        that it names is read for it."""
        return self.plan.digest()

    @property
    def warnings(self) -> list[str]:
        """What is allowed but suspicious, a sentence each that begins with the place."""
        return self.plan.warnings

    @property
    def queues(self) -> Table:
        """The alternatives of `[queues.NAME]`, complete."""
        return dict(self.effective.get("queues", {}))

    @cached_property
    def workloads(self) -> dict[str, Workload]:
        """What the core says of its workloads, by name; there are none but at packet level."""
        return workloads(self.effective) if self.level == "packet" else {}

    @property
    def managed_links(self) -> list[str]:
        """At packet level, the links with a queue discipline, by name."""
        return [name for name, (_, link) in self.links.items() if link.get("queue")]

    @property
    def links(self) -> dict[str, tuple[str, Table]]:
        """At packet level, the links between routers by name: where each is described, and how. Of a dumbbell
        the way back is among them if the scenario describes it."""
        full = self.effective
        if "bottleneck" not in full:
            return {name: (f"links.{name}", link) for name, link in full.get("links", {}).items()}
        found = {"bottleneck": ("bottleneck", full["bottleneck"])}
        if "reverse" in full["bottleneck"]:
            found["bottleneck-back"] = ("bottleneck.reverse", full["bottleneck"]["reverse"])
        return found

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """Runs it, with another seed if one is given. Other threads go on meanwhile, and may `watch` how far
        it is or stop it; in the main thread Ctrl-C stops it."""
        from aqmlab._support.parallel import interruptible

        seed = arguments.count_or_none("seed", seed, 0)
        return interruptible(lambda watch: Run.of(lambda: self.plan.run(watch, seed)), watch)

    def _repr_html_(self) -> str:
        from aqmlab._support import notebook

        written, full = (notebook.parameters(flat(one)) for one in (self.given, self.effective))
        return notebook.section(f"Scenario {self.name}", written, notebook.folded("With every default", full))


def _made_again(given: Table, files: dict[str, str], name: str) -> Scenario:
    return Scenario.from_dict(given, files=files, name=name)


def _json(given: Table) -> str:
    return json.dumps(given, allow_nan=False)


def _with_none(value: Any, filled: Any) -> Any:
    """A value of a scenario in full, with the word `none` for each `None` that `filled` has as a value."""
    if isinstance(value, Mapping):
        return {key: _with_none(inner, filled[key]) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_none(inner, other) for inner, other in zip(value, filled, strict=True)]
    return "none" if value is None and filled is not None else value


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
    import tomllib

    path, separator, value = text.partition("=")
    if not separator or not path.strip():
        raise ValueError(f"`{text}` is not of the form path=value, such as bottleneck.queue.max_p=0.2")
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """The changes that `path=value` settings ask for, in order."""
    return dict(parse_setting(text) for text in texts)


def plain(table: Mapping[str, Any]) -> Table:
    """A copy of a table of plain values; raises `ScenarioError` if it holds anything else."""
    check_plain("", dict(table))
    return copy.deepcopy(dict(table))


def changed(given: Table, changes: Mapping[str, Any]) -> Table:
    """A copy with the values at some dotted paths replaced; `None` removes, and a word for a queue stands for
    its table."""
    given = copy.deepcopy(given)
    for path, value in changes.items():
        check_plain(path, value)
        is_queue = path.rsplit(".", 1)[-1] == "queue" and isinstance(value, str)
        _put(given, path, copy.deepcopy(_queue(given, path, value) if is_queue else value))
    return given


def is_given(given: Mapping[str, Any], path: str) -> bool:
    """Whether a value stands at a dotted path, below tables only."""
    *parents, last = path.split(".")
    table: Any = given
    for key in parents:
        table = table.get(key) if isinstance(table, Mapping) else None
    return isinstance(table, Mapping) and last in table


def _queue(given: Table, path: str, name: str) -> Table:
    """The table of a queue that a change names."""
    from aqmlab.scenario.catalog import queue_table

    try:
        return queue_table(given.get("queues", {}), name)
    except ValueError as error:
        raise _error(path, str(error)) from None


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
    error.without_effect = []
    return error


def check_plain(place: str, value: Any) -> None:
    """Refuses what no scenario holds: dates, infinities, NaN, objects of a program."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_plain(f"{place}.{key}" if place else str(key), inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            check_plain(f"{place}.{number}", inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _error(place, f"`{value}` is not a finite number")
    elif not isinstance(value, str | int | float | bool | None):
        raise _error(place, f"`{value}` is a {type(value).__name__}, which no scenario holds")


def _read_standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioFileError(f"standard input: byte {error.start}: is not UTF-8 text") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioFileError(f"{path}: byte {error.start}: is not UTF-8 text") from None
    except OSError as error:
        if isinstance(error, FileNotFoundError) and is_name(path):
            known = hint(str(path), names())
            raise ScenarioFileError(
                f"{path}: is no file, and no scenario that comes with aqmlab: {known}"
            ) from None
        raise ScenarioFileError(f"{path}: cannot be read: {error.strerror}") from None
