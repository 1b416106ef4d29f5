"""The classes of an `htb` from the output of `tc -j class show`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aqmlab.tc.document import Document, Entry
from aqmlab.tc.options import Options, packets, rate, size

_QUEUE_LENGTH = 1000
"""Length of a device's queue in packets, which limits the queue of a class without a discipline of its
own."""


def rates(document: Document, one: Entry) -> tuple[int, int]:
    """Returns the rate and the ceiling of a class in bytes per second."""
    options = Options(document, one.at, one.fields)
    speed = options.speed("rate")
    return speed, options.count("ceil", speed, most=2**60)


def leaves(document: Document, htb: Entry) -> list[Entry]:
    """Returns the classes of an `htb` that are not parents of other classes."""
    classes = document.classes_of(htb)
    parents = {one.fields.get("parent") for one in classes}
    return [one for one in classes if one.handle not in parents]


def queue(htb: Entry, options: Options, inside: Callable[[Entry], dict[str, Any]]) -> dict[str, Any]:
    """Returns an `htb` with several classes as a queue. `inside` reads the queue of a class."""
    document = options.document
    classes = {one.handle: one for one in document.classes_of(htb)}
    width = max(len(handle.partition(":")[2]) for handle in classes)
    names = {handle: f"class-{handle.partition(':')[2].rjust(width, '0')}" for handle in classes}
    ends = {one.handle for one in leaves(document, htb)}
    tables = {}
    for handle, one in classes.items():
        table = _class(document, one, names)
        if handle in ends:
            table |= _leaf(document, one, options, inside)
        tables[names[handle]] = table
    found: dict[str, Any] = {"kind": "htb", "classes": tables}
    default = _default(options, htb, ends)
    if default is None:
        default = min(ends)
        document.notes.append(
            f"{options.at}.default: names no leaf, so packets without a class enter {names[default]} "
            f"instead of bypassing the queues"
        )
    found["default"] = names[default]
    if options.has("r2q"):
        found["r2q"] = options.count("r2q")
    document.notes.append(
        f"{htb.at}: the filters that select the packets of a class are not in the output; add `match` to "
        f"the classes"
    )
    return found


def _class(document: Document, one: Entry, names: Mapping[str, str]) -> dict[str, Any]:
    speed, ceiling = rates(document, one)
    table: dict[str, Any] = {"rate": rate(speed)}
    if ceiling != speed:
        table["ceil"] = rate(ceiling)
    parent = one.fields.get("parent")
    if isinstance(parent, str) and parent in names and parent != one.handle:
        table["parent"] = names[parent]
    options = Options(document, one.at, one.fields)
    table |= {name: size(options.count(name)) for name in ("burst", "cburst") if options.has(name)}
    return table


def _leaf(
    document: Document, one: Entry, htb: Options, inside: Callable[[Entry], dict[str, Any]]
) -> dict[str, Any]:
    options = Options(document, one.at, one.fields)
    table: dict[str, Any] = {}
    if prio := options.count("prio", 0, most=7):
        table["priority"] = prio
    if quantum := options.count("quantum", 0):
        table["quantum"] = size(quantum)
    queues = [found for found in document.disciplines if found.parent == one.handle]
    if queues:
        return table | {"queue": inside(queues[0])}
    length = htb.count("direct_qlen", _QUEUE_LENGTH)
    return table | {"queue": {"kind": "drop-tail", "limit": packets(max(length, 1))}}


def _default(options: Options, htb: Entry, ends: set[str]) -> str | None:
    """Returns the class for packets without a class, or `None` if these packets bypass the queues."""
    text = options.values.get("default")
    options.skip("default")
    major = htb.handle.partition(":")[0]
    try:
        number = int(text, 16) if isinstance(text, str) and len(text) <= 10 else 0
    except ValueError:
        return None
    handle = f"{major}:{number:x}"
    return handle if handle in ends else None
