"""The class `Scenario`, which loads, changes, checks and runs scenarios. The Rust core defines all
parameters; this module uses only plain tables."""

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
from aqmlab.scenario.guests_program import guests_program
from aqmlab.scenario.run import Run
from aqmlab.scenario.workloads import Workload, workloads

Table = dict[str, Any]

STANDARD_INPUT = "-"
"""The path that stands for standard input."""

_CHANGE = '{"bottleneck.queue.max_p": 0.2}'
"""Example of a change, for error messages."""


class ScenarioFileError(ValueError):
    """The exception for an unreadable or invalid scenario file. The message contains the file, the field and
    a remedy."""

    @classmethod
    def of(cls, path: object, error: Exception) -> ScenarioFileError:
        """Returns the error with the path of the file before the message. If there are several errors, each
        error is on an indented line of its own."""
        import textwrap

        text = str(error)
        return cls(f"{path}:\n{textwrap.indent(text, '  ')}" if "\n" in text else f"{path}: {text}")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A checked, immutable scenario. At packet level, a scenario describes a network with its queues and
    traffic; at flow level, a shared link with its traffic. At trace level, a scenario describes a trace and
    the queue through which the trace is replayed.

    `given` is the table that the author wrote, and `effective` is the table with all defaults. `files` maps
    the names of files that the scenario uses to the files' contents. Use `load` or `from_dict` to create
    scenarios, and `with_` to create changed copies.
    """

    given: Table
    plan: _core.Plan = field(repr=False, compare=False)
    """The scenario's object in the Rust core."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = "scenario"

    @classmethod
    def load(
        cls, path: str | Path, changes: Mapping[str, Any] | None = None, *, changed_by: str = "--set"
    ) -> Scenario:
        """Reads and checks a TOML file and the files that it names. Paths of these files are relative to the
        folder of the TOML file. `changes` are applied as by `with_`. `path` may also be the name of a
        packaged scenario, such as `hello`, or `-` for standard input. With `-`, paths of files are relative
        to the current directory.

        Raises `ScenarioFileError`, whose message contains the file, the origin of changes (`changed_by`), the
        fields, the values and the allowed values.
        """
        if not isinstance(path, str | Path):
            raise ValueError(f"path: must be the path of a file or the name of a scenario (got {path!r})")
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
        """Creates a scenario from a plain table with the structure of a TOML file. `files` maps names of
        files to the files' contents."""
        arguments.table("table", table, '{"duration": "60s", ...}')
        return cls._read(plain(table), dict(files or {}), name)

    @classmethod
    def _read(cls, given: Table, files: dict[str, str], name: str) -> Scenario:
        plan = _core.Document.of_json(_json(given)).plan(files)
        return cls(given=given, plan=plan, files=files, name=name)

    def with_(self, changes: Mapping[str, Any], *, files: Mapping[str, str] | None = None) -> Scenario:
        """Returns a copy with other values at some dotted paths: `{"bottleneck.queue.max_p": 0.2}`. A table
        replaces the whole table, `None` removes the key, and a word for a queue (`{"bottleneck.queue":
        "codel"}`) stands for the table `[queues.NAME]`, or otherwise for a kind with its defaults. Raises
        `ScenarioError` if the result is invalid.
        """
        arguments.table("changes", changes, _CHANGE)
        return self._read(changed(self.given, changes), {**self.files, **(files or {})}, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        # The plan is not transferred to other processes, which rebuild the plan from the tables.
        return _rebuilt, (self.given, dict(self.files), self.name)

    @property
    def level(self) -> str:
        """`packet`, `flow` or `trace`."""
        return self.plan.level

    @cached_property
    def effective(self) -> Table:
        """The scenario with all defaults."""
        full: Table = json.loads(self.plan.effective)
        return full

    def to_toml(self) -> str:
        """Returns the scenario with all defaults as TOML. Reading this text results in the same scenario. A
        parameter without a value is omitted, or is `"none"` if the parameter's default is a value."""
        from aqmlab._support import toml_writer

        short = _core.Document.of_toml(toml_writer.written(self.effective), "")
        filled = json.loads(short.plan(dict(self.files)).effective)
        return toml_writer.written(_with_none(self.effective, filled))

    @cached_property
    def derived(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Returns values that queues compute from other parameters, such as a threshold that depends on the
        rate of the link. The keys are the link and the parameter. Each value has the keys `value` and
        `unit`."""
        chosen: dict[str, dict[str, dict[str, Any]]] = json.loads(self.plan.derived)
        return chosen

    @cached_property
    def digest(self) -> str:
        """The digest that identifies the result of the scenario. The digest covers all parameters, the
        contents of files (including a trace and the programs of guests, which are read to compute the
        digest), the seed and the results version."""
        return self.plan.digest()

    @property
    def warnings(self) -> list[str]:
        """Warnings about values that are allowed but doubtful. Each sentence begins with the field."""
        return self.plan.warnings

    @property
    def queues(self) -> Table:
        """The queues in `[queues.NAME]` with all defaults, by name."""
        return dict(self.effective.get("queues", {}))

    @cached_property
    def workloads(self) -> dict[str, Workload]:
        """The workloads by name. At levels other than packet level, there are no workloads."""
        return workloads(self.effective) if self.level == "packet" else {}

    @property
    def managed_links(self) -> list[str]:
        """At packet level, the names of the links that have a queue discipline."""
        return [name for name, (_, link) in self.links.items() if link.get("queue")]

    @property
    def links(self) -> dict[str, tuple[str, Table]]:
        """At packet level, the links between routers by name. The value is the dotted path of the link's
        table, and the table. The reverse link of a dumbbell is included if the scenario describes this
        link."""
        full = self.effective
        if "bottleneck" not in full:
            return {name: (f"links.{name}", link) for name, link in full.get("links", {}).items()}
        found = {"bottleneck": ("bottleneck", full["bottleneck"])}
        if "reverse" in full["bottleneck"]:
            found["bottleneck-back"] = ("bottleneck.reverse", full["bottleneck"]["reverse"])
        return found

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """Runs the scenario. `seed` replaces the scenario's seed. Other threads continue during the run, and
        can observe the progress or stop the run through `watch`. In the main thread, Ctrl-C stops the run.

        Raises `RunError` if a guest violates its contract, and `ScenarioError` if the scenario needs a
        transport library and the program `aqmlab-guests` was not found.
        """
        from aqmlab._support.parallel import interruptible

        seed = arguments.count_or_none("seed", seed, 0)
        guests = guests_program()
        return interruptible(lambda watch: Run.of(lambda: self.plan.run(watch, seed, guests)), watch)

    def _repr_html_(self) -> str:
        from aqmlab._support import notebook

        written, full = (notebook.parameters(flat(one)) for one in (self.given, self.effective))
        return notebook.section(f"Scenario {self.name}", written, notebook.folded("With all defaults", full))


def _rebuilt(given: Table, files: dict[str, str], name: str) -> Scenario:
    return Scenario.from_dict(given, files=files, name=name)


def _json(given: Table) -> str:
    return json.dumps(given, allow_nan=False)


def _with_none(value: Any, filled: Any) -> Any:
    """Returns a value of a scenario with all defaults, in which `None` is replaced by the word `none` where
    `filled` has a value."""
    if isinstance(value, Mapping):
        return {key: _with_none(inner, filled[key]) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_none(inner, other) for inner, other in zip(value, filled, strict=True)]
    return "none" if value is None and filled is not None else value


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the values of nested tables by dotted path."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def parse_setting(text: str) -> tuple[str, Any]:
    """Splits `path=value` from a command line. The value is parsed as TOML. If the value is not valid TOML,
    the value is plain text."""
    import tomllib

    path, separator, value = text.partition("=")
    if not separator or not path.strip():
        raise ValueError(f"`{text}`: must have the form path=value, such as bottleneck.queue.max_p=0.2")
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value.strip()


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Returns the changes that a list of `path=value` settings contains, in order."""
    return dict(parse_setting(text) for text in texts)


def plain(table: Mapping[str, Any]) -> Table:
    """Returns a copy of a table of plain values. Raises `ScenarioError` if the table contains other
    values."""
    check_plain("", dict(table))
    return copy.deepcopy(dict(table))


def changed(given: Table, changes: Mapping[str, Any]) -> Table:
    """Returns a copy with other values at some dotted paths. `None` removes the key, and the name of a queue
    is replaced by the queue's table."""
    given = copy.deepcopy(given)
    for path, value in changes.items():
        check_plain(path, value)
        is_queue = path.rsplit(".", 1)[-1] == "queue" and isinstance(value, str)
        _put(given, path, copy.deepcopy(_queue(given, path, value) if is_queue else value))
    return given


def is_given(given: Mapping[str, Any], path: str) -> bool:
    """Returns whether the table has a value at a dotted path."""
    *parents, last = path.split(".")
    table: Any = given
    for key in parents:
        table = table.get(key) if isinstance(table, Mapping) else None
    return isinstance(table, Mapping) and last in table


def _queue(given: Table, path: str, name: str) -> Table:
    """Returns the table of the queue that a change names."""
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


def _error(path: str, problem: str) -> _core.ScenarioError:
    error = _core.ScenarioError(f"{path}: {problem}")
    error.path, error.problem, error.problems = path, problem, [(path, problem)]
    error.without_effect = []
    return error


def check_plain(path: str, value: Any) -> None:
    """Raises `ScenarioError` for values that scenarios cannot contain: dates, infinity, NaN and Python
    objects."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_plain(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            check_plain(f"{path}.{number}", inner)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _error(path, f"must be a finite number (got {value})")
    elif not isinstance(value, str | int | float | bool | None):
        raise _error(
            path,
            f"must be a string, a number, a Boolean, a list or a table (got {value} of the "
            f"type {type(value).__name__})",
        )


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
            raise ScenarioFileError(f"{path}: is neither a file nor a packaged scenario: {known}") from None
        raise ScenarioFileError(f"{path}: cannot be read: {error.strerror}") from None
