"""The content of a link file, read with limits on its size, and access to JSON values with the paths that
error messages need."""

from __future__ import annotations

import gzip
import io
import json
import math
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

MOST_BYTES = 64 * 2**20
"""Maximum size of a text or JSON file after decompression. cake-autorate rotates its log at 2 MB, and a
Flent file of an hour with socket statistics has about 20 MB, so the limit stops only wrong files and
decompression bombs. aqmlab's choice."""

STANDARD_INPUT = "-"
"""The path with which commands read standard input."""

HEAD_BYTES = 4096
"""Number of bytes from which a format is recognised."""

GZIP_MAGIC = b"\x1f\x8b"

_SHOWN = 40
"""Maximum length of a wrong value in an error message."""


class LinkFileError(ValueError):
    """The exception for an invalid link file. The message contains the place, the problem and the remedy."""


def shown(value: Any) -> str:
    """Returns a wrong value for an error message, shortened to one short line."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def number_in(text: str, line: int, quantity: str) -> float:
    """Returns a number of at least 0 that a line of a file contains."""
    try:
        value = float(text)
    except ValueError:
        raise LinkFileError(f"line {line}: {quantity} must be a number (got `{shown(text)}`)") from None
    if not math.isfinite(value) or value < 0:
        raise LinkFileError(
            f"line {line}: {quantity} must be a finite number of at least 0 (got `{shown(text)}`)"
        )
    return value


class Content:
    """The content of a file, which may be compressed with gzip. `raw` replaces what the file contains."""

    def __init__(self, path: Path, raw: bytes | None = None) -> None:
        self.path = path
        self._raw = raw

    @cached_property
    def head(self) -> bytes:
        """The first bytes of the file after decompression."""
        return self._read(HEAD_BYTES, whole=False)

    @cached_property
    def data(self) -> bytes:
        """The whole content after decompression. Raises `LinkFileError` if the content exceeds
        `MOST_BYTES`."""
        data = self._read(MOST_BYTES + 1, whole=True)
        if len(data) > MOST_BYTES:
            raise LinkFileError(
                f"contains more than {MOST_BYTES // 2**20} MiB (after decompression): cut the part that "
                "describes the line out of the file"
            )
        return data

    @cached_property
    def text(self) -> str:
        """The content as text."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            raise LinkFileError(
                f"byte {problem.start}: is not text in UTF-8; the formats that aqmlab reads are listed by "
                "`aqmlab link formats`"
            ) from None

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text."""
        return self.text.splitlines()

    @cached_property
    def json(self) -> Node:
        """The content as one JSON value. Raises `LinkFileError` with line and column."""
        return parse_json(self.text)

    @cached_property
    def top(self) -> Node | None:
        """The content as a JSON object, or `None` if the content is anything else."""
        if self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return None
        try:
            return self.json
        except LinkFileError:
            return None

    def open(self) -> BinaryIO:
        """Opens the file for reading after decompression."""
        try:
            if self._raw is None and str(self.path) != STANDARD_INPUT and self.path.is_file():
                file: BinaryIO = self.path.open("rb")
            else:
                file = io.BytesIO(self._stream())
        except OSError as problem:
            raise LinkFileError(f"cannot be read: {problem.strerror}") from None
        magic = file.read(2)
        rest = io.BufferedReader(_Joined(magic, file))
        return cast(BinaryIO, gzip.GzipFile(fileobj=rest)) if magic == GZIP_MAGIC else rest

    def _stream(self) -> bytes:
        """Returns the content of standard input or of a pipe, which can be read only once."""
        if self._raw is None:
            if str(self.path) == STANDARD_INPUT:
                self._raw = sys.stdin.buffer.read(MOST_BYTES + 1)
            else:
                with self.path.open("rb") as pipe:
                    self._raw = pipe.read(MOST_BYTES + 1)
        return self._raw

    def _read(self, most: int, *, whole: bool) -> bytes:
        with self.open() as file:
            try:
                return file.read(most)
            except (gzip.BadGzipFile, zlib.error):
                problem = "is a damaged gzip file"
            except EOFError:
                problem = "is a truncated gzip file"
            except OSError as error:
                problem = f"cannot be read: {error.strerror}"
        if whole:
            raise LinkFileError(problem)
        return b""


class _Joined(io.RawIOBase):
    """Bytes that were read before, followed by the rest of a file. The file need not be seekable."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first[: len(buffer)] or self._rest.read(len(buffer))
        self._first = self._first[len(data) :] if self._first else b""
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._rest.close()
        super().close()


def parse_json(text: str, place: str = "") -> Node:
    """Parses JSON. `place` precedes the position in error messages, for example `line 3: `."""
    try:
        return Node(json.loads(text), place.rstrip(": "))
    except json.JSONDecodeError as problem:
        at = place or f"line {problem.lineno}, column {problem.colno}: "
        raise LinkFileError(f"{at}is not valid JSON: {problem.msg}") from None
    except RecursionError:
        raise LinkFileError(f"{place}is nested too deeply to be a measurement") from None
    except ValueError:
        # Python rejects whole numbers of more than 4300 digits.
        raise LinkFileError(f"{place}contains a number that is too long") from None


@dataclass(frozen=True)
class Node:
    """A JSON value and its path."""

    value: Any
    path: str = ""

    def error(self, problem: str) -> LinkFileError:
        """Returns an error about this value."""
        return LinkFileError(f"{self.path}: {problem}" if self.path else problem)

    def find(self, *keys: str) -> Node | None:
        """Returns the value at a path of keys, or `None` if an object on the path lacks the key or if the
        value is null."""
        node = self
        for key in keys:
            if not isinstance(node.value, dict) or node.value.get(key) is None:
                return None
            node = Node(node.value[key], f"{node.path}.{key}" if node.path else key)
        return node

    def at(self, *keys: str) -> Node:
        """Returns the value at a path of keys. Raises `LinkFileError` if the value is missing."""
        found = self.find(*keys)
        if found is None:
            path = ".".join(keys)
            raise self.error(f"has no value `{path}`" if self.path else f"{path}: is missing")
        return found

    def has(self, *keys: str) -> bool:
        """Returns whether this value is an object that has all keys."""
        return isinstance(self.value, dict) and all(key in self.value for key in keys)

    def items(self) -> Iterator[Node]:
        """Yields the elements of a list. Raises `LinkFileError` if the value is not a list."""
        if not isinstance(self.value, list):
            raise self.error(f"must be a list (got {shown(self.value)})")
        for number, value in enumerate(self.value):
            yield Node(value, f"{self.path}[{number}]")

    def text(self) -> str:
        """Returns the value as text."""
        if not isinstance(self.value, str):
            raise self.error(f"must be a text (got {shown(self.value)})")
        return self.value

    def number(self, *, least: float = 0.0, most: float = 1e15) -> float:
        """Returns the value as a number from `least` to `most`."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"must be a number (got {shown(value)})")
        if not (math.isfinite(value) if isinstance(value, float) else abs(value) < 10**300):
            raise self.error(f"must be a finite number (got {shown(value)})")
        if not least <= value <= most:
            raise self.error(f"must be a number from {least:g} to {most:g} (got {shown(value)})")
        return float(value)
