"""The output of `tc -j -s -d qdisc show` and `tc class show`, as disciplines and classes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aqmlab._support.names import hint

CURE = "run `tc -j -s -d qdisc show dev DEVICE`"
"""Command whose output can be read."""

_CLASS_LINE = re.compile(r"class (\S+) (\S+) (?:root|parent (\S+))(.*)")
_WORD = re.compile(r"(rate|ceil|burst|cburst|prio|quantum) (\S+)")
_RATE = re.compile(r"(\d+)([KMGT]?)bit")
_SIZE = re.compile(r"(\d+)([KM]?)b(?:/\d+)?")
_POWERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"": 1, "K": 2**10, "M": 2**20}


class TcError(ValueError):
    """An output of `tc` that cannot be read. The message contains the file, the position and the cure."""


@dataclass(frozen=True)
class Entry:
    """An object of the output: a discipline or a class."""

    at: str
    """Position of the object, for error messages."""
    fields: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.fields["kind"])

    @property
    def handle(self) -> str:
        return str(self.fields.get("handle", ""))

    @property
    def device(self) -> str:
        return str(self.fields.get("dev", ""))

    @property
    def parent(self) -> str | None:
        """Class to which the discipline belongs, such as `1:3`; `None` for a discipline at the root."""
        return None if self.fields.get("root") else str(self.fields.get("parent", ""))


@dataclass
class Document:
    """The disciplines and classes of an output, in their order."""

    file: str
    disciplines: list[Entry] = field(default_factory=list)
    classes: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def error(self, at: str, problem: str) -> TcError:
        return TcError(f"{self.file}: {at}: {problem}" if at else f"{self.file}: {problem}")

    def of_device(self, device: str | None) -> Document:
        """Returns the part of the document that belongs to one device. If `device` is `None`, the document
        must contain only one device with a queue."""
        devices = list(dict.fromkeys(entry.device for entry in self.disciplines))
        if device is None:
            idle = {
                entry.device for entry in self.disciplines if entry.parent is None and entry.kind == "noqueue"
            }
            busy = [one for one in devices if one not in idle] or devices
            if len(busy) > 1:
                raise self.error("", f"contains several devices: choose one with --dev: {', '.join(busy)}")
            device = busy[0]
        elif devices != [""] and device not in devices:
            raise self.error("", f"contains no device `{device}`: {hint(device, devices)}")
        chosen = (device, "")
        return Document(
            self.file,
            [one for one in self.disciplines if one.device in chosen],
            [one for one in self.classes if one.device in chosen],
            self.notes,
        )

    def children(self, outer: Entry) -> list[Entry]:
        """Returns the disciplines of the classes of `outer`."""
        major = outer.handle.partition(":")[0]
        inside = [one for one in self.disciplines if one is not outer and one.parent is not None]
        return [one for one in inside if major and (one.parent or "").partition(":")[0] == major]

    def classes_of(self, outer: Entry) -> list[Entry]:
        """Returns the classes of `outer`."""
        major = outer.handle.partition(":")[0]
        return [one for one in self.classes if one.handle.partition(":")[0] == major]


def parse(text: str, file: str) -> Document:
    """Parses one or more outputs of `tc`, one after the other. Raises `TcError` if the text is not an output
    of `tc -j`."""
    document = Document(file)
    decoder = json.JSONDecoder(parse_constant=_reject_constant)
    position, number = 0, 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            break
        line = text.count("\n", 0, position) + 1
        if text[position] == "[":
            try:
                entries, position = decoder.raw_decode(text, position)
            except json.JSONDecodeError as error:
                at = f"line {error.lineno}, column {error.colno}"
                raise document.error(at, f"is not valid JSON: {error.msg}; {CURE}") from None
            except (ValueError, RecursionError) as error:
                raise document.error(f"line {line}", f"is not valid JSON: {error}; {CURE}") from None
            for entry in entries:
                _add(document, str(number), entry)
                number += 1
            continue
        end = text.find("\n", position)
        words = text[position : end if end >= 0 else len(text)]
        if found := _CLASS_LINE.match(words):
            # `tc -j class show` of iproute2 6.1 prints the classes of htb as text.
            _add_line(document, f"line {line}", found)
        elif words.startswith("qdisc "):
            raise document.error(f"line {line}", f"is the output of tc without -j; {CURE}")
        elif document.classes and text[position - 1 : position] in " \t":
            pass
        else:
            raise document.error(f"line {line}", f"is not an output of tc (got {words[:40]!r}); {CURE}")
        position = end if end >= 0 else len(text)
    if not document.disciplines:
        raise document.error("", f"contains no queue discipline; {CURE}")
    return document


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _add(document: Document, at: str, entry: Any) -> None:
    if not isinstance(entry, dict):
        raise document.error(at, f"must be an object (got {shown(entry)}); {CURE}")
    if not entry:
        return
    names = ("kind", "handle", "dev", "parent", "class")
    for name in names:
        if name in entry and not isinstance(entry[name], str):
            raise document.error(f"{at}.{name}", f"must be a text (got {shown(entry[name])}); {CURE}")
    if "class" in entry:
        document.classes.append(Entry(at, {**entry, "kind": entry["class"]}))
    elif "kind" not in entry:
        raise document.error(f"{at}.kind", f"is missing; {CURE}")
    elif entry["kind"] in ("clsact", "ingress"):
        document.notes.append(f"skipped {entry['kind']}, which contains filters and no queue")
    else:
        document.disciplines.append(Entry(at, entry))


def _add_line(document: Document, at: str, found: re.Match[str]) -> None:
    kind, handle, parent, rest = found.groups()
    fields: dict[str, Any] = {"kind": kind, "handle": handle}
    if parent:
        fields["parent"] = parent
    for name, word in _WORD.findall(rest):
        if match := _RATE.fullmatch(word):
            fields[name] = int(match[1]) * _POWERS[match[2]] // 8
        elif match := _SIZE.fullmatch(word):
            fields[name] = int(match[1]) * _BINARY[match[2]]
        elif word.isdecimal() and len(word) < 20:
            fields[name] = int(word)
    document.classes.append(Entry(at, fields))


def shown(value: Any) -> str:
    """Returns a value for an error message, in at most 40 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."
