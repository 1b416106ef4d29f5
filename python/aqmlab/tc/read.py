"""Queues and links of a scenario from the output of `tc -j -s -d qdisc show`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aqmlab import _core
from aqmlab._support import toml_writer
from aqmlab.tc import htb_read, netem_read
from aqmlab.tc.document import Document, Entry, TcError, parse
from aqmlab.tc.kinds import READERS
from aqmlab.tc.options import Options, rate, size

__all__ = ["Reading", "TcError", "read"]

_OUTER = ("htb", "tbf", "netem", "mq", "mqprio")
"""Kinds that contain the queue."""

_COMMON = (
    *("kind", "handle", "dev", "parent", "root", "refcnt", "options", "stab"),
    *("deleted", "replaced", "added", "offloaded"),
)
"""Fields of a discipline that are not statistics."""

_UNKNOWN_RATE = "10Mbps"
"""Rate at which a queue is checked if the output contains no rate; aqmlab's default rate."""

_DEPTH = 16
"""Largest number of disciplines inside each other. The kernel allows 8 levels of classes."""


@dataclass(frozen=True)
class Reading:
    """A link, as `tc` shows it."""

    link: Mapping[str, Any]
    """The link's table: `queue`, and `rate`, `delay`, `loss` and `reordering` as far as the output contains
    them."""
    notes: tuple[str, ...]
    """What was skipped or assumed. Each note begins with the position in the output."""

    @property
    def queue(self) -> Mapping[str, Any]:
        """The table of the queue."""
        found: Mapping[str, Any] = self.link["queue"]
        return found

    def toml(self, link: str = "bottleneck") -> str:
        """Returns the table of the link as TOML."""
        table: dict[str, Any] = dict(self.link)
        for key in reversed(link.split(".")):
            table = {key: table}
        return toml_writer.written(table)


def read(text: str, *, file: str = "tc", dev: str | None = None, handle: str | None = None) -> Reading:
    """Reads the output of `tc -j -s -d qdisc show`, optionally followed by the output of `tc -j class show`,
    which contains the rates of `htb`. `dev` selects a device and `handle` a queue, such as `10:`; by default,
    the queue is the one at the root, or the only one inside `htb`, `tbf`, `netem` or `mq`. `file` is the name
    in error messages. Raises `TcError`."""
    document = parse(text, file).of_device(dev)
    reader = _Reader(document)
    link = reader.link(_root(document) if handle is None else _by_handle(document, handle), handle)
    _check(document, link, reader.at)
    reader.note_statistics()
    order = ("rate", "delay", "loss", "reordering", "queue")
    return Reading({key: link[key] for key in order if key in link}, tuple(dict.fromkeys(document.notes)))


def _root(document: Document) -> Entry:
    roots = [entry for entry in document.disciplines if entry.parent is None]
    if not roots:
        names = ", ".join(entry.handle for entry in document.disciplines)
        raise document.error("", f"contains no discipline at the root: choose one with --handle: {names}")
    return roots[0]


def _by_handle(document: Document, handle: str) -> Entry:
    wanted = handle if handle.endswith(":") else f"{handle}:"
    for entry in document.disciplines:
        if entry.handle == wanted:
            return entry
    names = ", ".join(entry.handle for entry in document.disciplines)
    raise document.error("", f"contains no discipline {wanted}: available: {names}")


class _Reader:
    """Follows the disciplines from the root, or from a chosen discipline, to the queue."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.at = ""
        self.seen: list[Entry] = []

    def link(self, entry: Entry, handle: str | None) -> dict[str, Any]:
        """Returns the table of the link. If `handle` selects the discipline, the disciplines that contain it
        contribute the rate and the delay."""
        link: dict[str, Any] = {}
        outer = self._containing(entry) if handle is not None else []
        for one, inner in pairwise([*outer, entry]):
            self._outer(link, one, inner)
        queue = self._queue(link, entry, len(outer))
        for one in reversed(self.seen):
            queue = self._with_size_table(one, queue)
        return link | {"queue": queue}

    def _containing(self, entry: Entry) -> list[Entry]:
        """Returns the disciplines that contain `entry`, from the root."""
        found: list[Entry] = []
        inner = entry
        while inner.parent is not None and len(found) < _DEPTH:
            outer = next(
                (one for one in self.document.disciplines if inner in self.document.children(one)), None
            )
            if outer is None or outer in found or outer is entry:
                break
            found.insert(0, outer)
            inner = outer
        return found

    def _queue(self, link: dict[str, Any], entry: Entry, depth: int) -> dict[str, Any]:
        document = self.document
        if depth > _DEPTH or entry in self.seen:
            raise document.error(entry.at, "must not be inside itself; choose a queue with --handle")
        if entry.kind == "htb" and len(htb_read.leaves(document, entry)) > 1:
            self.seen.append(entry)
            queue = htb_read.queue(entry, self._options(entry), lambda one: self._queue({}, one, depth + 1))
            self.at = entry.at
            return queue
        if entry.kind in _OUTER:
            inner = self._inside(entry)
            own = self._outer(link, entry, inner)
            return own if inner is None else self._queue(link, inner, depth + 1)
        self.seen.append(entry)
        self.at = entry.at
        if entry.kind not in READERS:
            raise document.error(f"{entry.at}.kind", self._unsupported(entry))
        options = self._options(entry)
        queue = READERS[entry.kind](options, _bytes_per_second(link))
        self._note_unknown(entry, options)
        children = document.children(entry)
        if entry.kind == "sfb" and children:
            queue["queue"] = self._queue(link, children[0], depth + 1)
            self.at = entry.at
        return queue

    def _options(self, entry: Entry) -> Options:
        values = entry.fields.get("options", {})
        if not isinstance(values, dict):
            raise self.document.error(f"{entry.at}.options", "must be an object")
        return Options(self.document, f"{entry.at}.options", values)

    def _unsupported(self, entry: Entry) -> str:
        names = ", ".join([*READERS, *_OUTER])
        inside = ", ".join(one.handle for one in self.document.children(entry))
        if inside:
            return f"`{entry.kind}` cannot be read; choose one of its queues with --handle: {inside}"
        cure = {
            "pfifo_fast": "; its three bands share the length of the device's queue (`ip link show`), so "
            "write a `drop-tail` with this limit",
            "noqueue": "; the device has no queue",
        }.get(entry.kind, "")
        return f"`{entry.kind}` cannot be read{cure}; available: {names}"

    def _inside(self, entry: Entry) -> Entry | None:
        """Returns the discipline inside an outer discipline, or `None` if the kernel's default FIFO is
        used."""
        inside = self.document.children(entry)
        if len(inside) > 1:
            alike = all(one.kind == inside[0].kind and self._same(one, inside[0]) for one in inside)
            if entry.kind not in ("mq", "mqprio") or not alike:
                names = ", ".join(f"{one.handle} ({one.kind})" for one in inside)
                raise self.document.error(
                    entry.at, f"contains {len(inside)} queues: choose one with --handle: {names}"
                )
            self.document.notes.append(
                f"{entry.at}: {entry.kind} has {len(inside)} equal queues, one for each hardware queue; "
                f"the first one was read"
            )
        return inside[0] if inside else None

    @staticmethod
    def _same(one: Entry, other: Entry) -> bool:
        return bool(one.fields.get("options") == other.fields.get("options"))

    def _outer(self, link: dict[str, Any], entry: Entry, inner: Entry | None) -> dict[str, Any]:
        """Adds what an outer discipline does to the link. Returns its own queue, which is used if the outer
        discipline contains no other queue."""
        if entry in self.seen:
            raise self.document.error(entry.at, "must not be inside itself; choose a queue with --handle")
        self.seen.append(entry)
        self.at = entry.at
        options = self._options(entry)
        queue: dict[str, Any] | None = None
        if entry.kind == "netem":
            queue = netem_read.add(link, options)
            self._note_unknown(entry, options)
        elif entry.kind == "tbf":
            queue = self._tbf(link, options)
        elif entry.kind == "htb":
            self._htb(link, entry, inner)
        if inner is None and queue is None:
            raise self.document.error(
                entry.at, f"`{entry.kind}` contains no queue; add one with `tc qdisc add`"
            )
        return queue or {}

    def _tbf(self, link: dict[str, Any], options: Options) -> dict[str, Any]:
        speed = options.speed("rate")
        _slow_down(link, speed)
        burst = re.match(r"\d{1,10}", str(options.values.get("burst", "")))
        latency = options.count("lat", 0)
        limit = speed * latency // 1_000_000 + (int(burst[0]) if burst else 0)
        self.document.notes.append(
            f"{options.at}.burst: skipped, because a link of aqmlab sends packets at its rate, without bursts"
        )
        return {"kind": "drop-tail", "limit": size(max(limit, 1))}

    def _htb(self, link: dict[str, Any], entry: Entry, inner: Entry | None) -> None:
        name = inner.parent if inner is not None else None
        own = next((one for one in self.document.classes_of(entry) if one.handle == name), None)
        if own is None:
            self.document.notes.append(
                f"{entry.at}: the rate of the htb is not in the output; append the output of "
                "`tc -j class show dev DEVICE`"
            )
            return
        speed, ceiling = htb_read.rates(self.document, own)
        _slow_down(link, speed)
        if ceiling != speed:
            self.document.notes.append(f"{own.at}.ceil: skipped; a link of aqmlab does not borrow")

    def _with_size_table(self, entry: Entry, queue: dict[str, Any]) -> dict[str, Any]:
        """Puts the queue behind a size table if the discipline has one."""
        if "stab" not in entry.fields:
            return queue
        table = Options(self.document, entry.at, entry.fields).table("stab")
        if table is None:
            return queue
        found = {
            "kind": "stab",
            "overhead": table.signed("overhead"),
            "mpu": size(table.count("mpu", 0)),
            "linklayer": table.word("linklayer", ("ethernet", "atm"), "ethernet"),
        }
        for name, usual in (("mtu", 2047), ("tsize", 512)):
            if table.count(name, usual) != usual:
                self.document.notes.append(f"{table.at}.{name}: skipped, because aqmlab always uses {usual}")
        return found | {"queue": queue}

    def _note_unknown(self, entry: Entry, options: Options) -> None:
        if unknown := options.unknown():
            self.document.notes.append(
                f"{options.at}: skipped options of {entry.kind} that aqmlab does not have: "
                f"{', '.join(unknown)}"
            )

    def note_statistics(self) -> None:
        """Adds a note about the statistics, which do not configure a queue."""
        names = [name for one in self.seen for name in one.fields if name not in _COMMON]
        if names:
            known = ", ".join(dict.fromkeys(names))
            self.document.notes.append(f"skipped statistics: {known}")


def _slow_down(link: dict[str, Any], speed: int) -> None:
    """Sets the rate of the link, unless the link is already slower."""
    if "rate" not in link or speed < _bytes_per_second(link):
        link["rate"] = rate(speed)


def _bytes_per_second(link: Mapping[str, Any]) -> int:
    return round(_core.quantity(link.get("rate", _UNKNOWN_RATE))[0]) // 8


def _check(document: Document, link: Mapping[str, Any], at: str) -> None:
    """Raises `TcError` if aqmlab rejects the queue."""
    try:
        _core.tc_qdisc(json.dumps(link["queue"]), link.get("rate", _UNKNOWN_RATE), "eth0", False, 1)
    except _core.ScenarioError as error:
        path, problem = error.problems[0]
        raise document.error(f"{at}.options", f"cannot be a queue of aqmlab: {path}: {problem}") from None
