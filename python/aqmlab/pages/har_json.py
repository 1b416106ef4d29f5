"""Reads values of a HAR file with checks. An error message names the place of a value, but never contains the
value, because a HAR file contains cookies, tokens and private addresses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 256_000_000
"""Maximum size of a HAR file. A HAR file of this size is assumed to contain videos; aqmlab's choice."""

MOST_MS = 3_600_000.0
"""Maximum of a time in a HAR file: one hour. A longer time is assumed to be a mistake; aqmlab's choice."""

CURE = "export the HAR file again"


class HarError(ValueError):
    """The exception for an invalid HAR file. The message contains the file, the place and a remedy, but no
    value of the file."""


def kind_of(value: Any) -> str:
    """Returns a description of a value that does not reveal the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a Boolean"
    for types, word in (((int, float), "a number"), (str, "a string"), (list, "a list"), (dict, "a table")):
        if isinstance(value, types):
            return word
    return "nothing"


@dataclass(frozen=True)
class Node:
    """A value of a HAR file and its place."""

    value: Any
    place: str

    def fail(self, problem: str, *, got: bool = True) -> NoReturn:
        """Raises `HarError` for this value."""
        raise HarError(f"{self.place}: {problem}" + (f" (got {kind_of(self.value)})" if got else ""))

    def get(self, name: str) -> Node:
        """Returns a value of a table. The value is `None` if the table has no such value."""
        if not isinstance(self.value, dict):
            self.fail("must be a table")
        return Node(self.value.get(name), f"{self.place}.{name}" if self.place else name)

    def items(self) -> Iterator[Node]:
        """Yields the values of a list."""
        if not isinstance(self.value, list):
            self.fail("must be a list")
        for number, value in enumerate(self.value):
            yield Node(value, f"{self.place}.{number}")

    @property
    def missing(self) -> bool:
        """Whether there is no value."""
        return self.value is None

    def text(self) -> str:
        """Returns a string."""
        if not isinstance(self.value, str):
            self.fail("must be a string")
        return self.value

    def word(self) -> str:
        """Returns a string in lower case; an empty string if the value is not a string."""
        return self.value.lower() if isinstance(self.value, str) else ""

    def number(self, most: float) -> float | None:
        """Returns a number from 0 to `most`. Returns `None` if there is no value, or if a negative number
        states that the value is not known or does not apply."""
        if self.value is None:
            return None
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail("must be a number")
        if isinstance(self.value, float) and not math.isfinite(self.value):
            self.fail("must be a finite number", got=False)
        if self.value < 0:
            return None
        if self.value > most:
            self.fail(f"must be at most {most:.0f}", got=False)
        return float(self.value)

    def date(self) -> datetime:
        """Returns a date with a time zone."""
        text = self.text()
        with suppress(ValueError, OverflowError):
            date = datetime.fromisoformat(text)
            if date.tzinfo is not None:
                return date.astimezone(UTC)
        self.fail("must be a date and time with a time zone (ISO 8601)", got=False)


def load(path: Path) -> Node:
    """Reads the JSON of a file. Raises `HarError`, whose message begins with the file."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            limit = f"must be at most {MOST_BYTES / 1e6:.0f} MB (got {size / 1e6:.0f} MB)"
            raise HarError(f"{path}: {limit}: export the HAR file without contents")
        data = path.read_bytes()
    except OSError as error:
        raise HarError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HarError(f"{path}: byte {error.start}: is not UTF-8 text: {CURE}") from None
    try:
        value = json.loads(text, parse_constant=_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise HarError(f"{path}: {where}: is not valid JSON: {CURE}") from None
    except RecursionError:
        raise HarError(f"{path}: contains lists or tables that are nested too deeply: {CURE}") from None
    except ValueError:
        raise HarError(f"{path}: contains a number that is not valid: {CURE}") from None
    return Node(value, "")


def _constant(_: str) -> NoReturn:
    raise ValueError


def version_of(log: Node) -> str:
    """Returns the version of the format. Raises `HarError` for an unknown version."""
    version = log.get("version")
    if version.missing or version.value == "":
        return "1.1"
    text = version.text()
    if text not in ("1.1", "1.2"):
        shown = f"got {text}" if re.fullmatch(r"[0-9.]{1,8}", text) else "got another text"
        raise HarError(f"{version.place}: must be 1.1 or 1.2 ({shown}): {CURE} with a current browser")
    return text
