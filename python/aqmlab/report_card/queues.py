"""The queues of report cards: the kinds that get a card, the room of each, and how they are set to mark.

A card has two columns. With *equal* room, every queue has room for as many full packets as the Drop Tail
queue with which it is compared. As *shipped*, a queue has the room of its defaults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from aqmlab import _core
from aqmlab.report_card.network import DROP_TAIL, PACKET, RATE_MBPS, Table, room_of
from aqmlab.scenario.catalog import members

EQUAL, SHIPPED = "equal room", "as shipped"
ROOMS = (EQUAL, SHIPPED)
"""The columns of a card."""

REFERENCE = "Drop Tail"
"""The queue with which others are compared, with equal room."""

REFERENCE_TABLE: Table = {"kind": DROP_TAIL}

TRUESIZE = 2304
"""Memory in bytes that Linux counts for a full Ethernet packet (`skb->truesize`, see `truesize.rs`)."""

SHIPPED_TABLES: Mapping[str, Table] = {DROP_TAIL: {"kind": DROP_TAIL, "limit": "1000p"}}
"""Queues as Linux ships them, if aqmlab's defaults are those of a paper: the queue of an Ethernet device has
1000 packets (`DEFAULT_TX_QUEUE_LEN`)."""

ROOM_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "cake": ("memlimit",),
    "fq": ("limit", "flow_limit"),
    "gred": ("vqs.limit",),
    "pimc": ("pi.limit",),
    "pisa": ("pi.limit",),
    "self-configuring-red": ("red.limit",),
    "shred": ("red.limit",),
}
"""The parameters that limit the room of a kind; all other kinds have the parameter `limit`."""

IN_MEMORY = frozenset({"cake"})
"""Kinds whose room is counted as Linux counts memory, not as bytes of packets."""

BATCH, BATCH_LIMIT = 64, 10_240
"""FQ-CoDel drops up to 64 packets at once, but at most half of the longest queue, with a limit of 10,240
packets (RFC 8290, section 4.1)."""

ALWAYS_MARK = frozenset({"cake", "dualpi2"})
"""Kinds that mark every ECN-capable packet instead of dropping it, and have no parameter for marking."""

NO_CARD: Mapping[str, str] = {
    "ack-filter": "ack-filter removes acknowledgements and leaves congestion to the inner queue; compare a "
    "scenario with and without the filter with `aqmlab compare`",
    "ce-threshold": "ce-threshold marks before a queue and manages none; name the kind of the inner queue",
    "drop-nth": "drop-nth is a test instrument that drops packets by number; use `aqmlab run`",
    "drop-random": "drop-random is a test instrument that drops packets at random; use `aqmlab run`",
    "htb": "htb is a shaper with classes, and its leaves manage the queues; name the kind of a leaf",
    "stab": "stab changes the counted sizes of packets before the inner queue; name the kind of that queue",
    "policer": "policer has no queue to manage; run a scenario with a policer with `aqmlab run`",
}
"""Kinds that are not queue disciplines with a queue to manage, with the alternative."""


def every_kind() -> dict[str, Table]:
    """Every kind that gets a card, with its defaults, by name."""
    kinds = sorted(one.name for one in members("queues") if one.name not in NO_CARD)
    return {kind: {"kind": kind} for kind in kinds}


def check(name: str, queue: Table) -> None:
    """Raises `ValueError` if a queue gets no card."""
    why = NO_CARD.get(queue["kind"])
    if why is not None:
        raise ValueError(f"`{name}` gets no report card: {why}")


def shipped(queue: Table) -> Table:
    """A queue as Linux or the source of its discipline ships it."""
    return SHIPPED_TABLES.get(queue["kind"], queue) if set(queue) == {"kind"} else queue


def with_room(queue: Table, packets: int) -> Table:
    """A queue with room for this number of full packets. Raises `ValueError` as `bounds` does."""
    made = queue
    for path, value in bounds(queue, packets).items():
        made = put(made, path, partial(_replacement, value))
    return made


def bounds(queue: Table, packets: int) -> dict[str, Any]:
    """The parameters, by path and in their own units, that limit a queue to this number of full packets.

    Raises `ValueError` if the kind has no such parameter. FQ-CoDel's batch is scaled with the room: 64
    are a small part of 10,240 packets, but most of 84, of which an unscaled batch drops up to half."""
    kind = queue["kind"]
    found: dict[str, Any] = {}
    for path in ROOM_PARAMETERS.get(kind, ("limit",)):
        row = _rows(kind).get(path)
        if row is None:
            raise ValueError(f"{kind} has no parameter `{path}`")
        if kind in IN_MEMORY:
            found[path] = f"{packets * TRUESIZE}B"
        elif "p" in (row.get("units") or ()):
            found[path] = f"{packets}p"
        else:
            found[path] = f"{packets * PACKET}B"
    if kind == "fq-codel" and "drop_batch" not in queue:
        found["drop_batch"] = max(1, BATCH * packets // BATCH_LIMIT)
    return found


def with_ecn(queue: Table) -> Table | None:
    """A queue that marks if it can; `None` if it cannot mark, or only with a further parameter."""
    kind = queue["kind"]
    if kind in ALWAYS_MARK:
        return queue
    made = queue
    paths = [path for path in _rows(kind) if path.split(".")[-1] == "ecn"]
    for path in paths:
        words = [choice["word"] for choice in _rows(kind)[path].get("choices") or ()]
        # By convention the first word is "no", and the last word marks in all cases that allow marking.
        made = put(made, path, partial(_replacement, words[-1] if words else True))
    return made if paths and refusal(made, f"{RATE_MBPS:g}Mbps") is None else None


def at_every_link(queue: Table, room: str) -> Callable[[Table], Table]:
    """A change that sets a queue, with the room of a column, at every managed link."""

    def change(table: Table) -> Table:
        for link in table["links"].values():
            if "queue" in link:
                link["queue"] = in_room(queue, room, packets_of(link["queue"]))
        return table

    return change


def is_reference(queue: Table, room: str) -> bool:
    """Whether a queue in a column is the one with which others are compared."""
    return room == EQUAL and queue == REFERENCE_TABLE


def in_room(queue: Table, room: str, packets: int) -> Table:
    """A queue with the room of a column; equal room is this number of packets."""
    return with_room(queue, packets) if room == EQUAL else shipped(queue)


def packets_of(queue: Table) -> int:
    """The room of a scenario's Drop Tail queue, in packets."""
    return int(str(queue["limit"]).removesuffix("p"))


def put(table: Table, path: str, change: Callable[[Any], Any]) -> Table:
    """A table with a changed value at a dotted path. In a list, the value of each table is changed. The old
    value of a parameter that the table leaves out is the kind's default."""
    defaults = {name: row.get("default") for name, row in _rows(table["kind"]).items()}
    return _put(table, path.split("."), "", defaults, change)


def _replacement(value: Any, _: Any) -> Any:
    return value


def _put(
    table: Table, path: list[str], prefix: str, defaults: Mapping[str, Any], change: Callable[[Any], Any]
) -> Table:
    key, rest = path[0], path[1:]
    here = f"{prefix}{key}"
    value = table.get(key, defaults.get(here))
    if not rest:
        return {**table, key: change(value)}
    if isinstance(value, list):
        tables = [{name: given for name, given in one.items() if given is not None} for one in value]
        return {**table, key: [_put(one, rest, f"{here}.", defaults, change) for one in tables]}
    return {**table, key: _put(table.get(key, {}), rest, f"{here}.", defaults, change)}


@cache
def _rows(kind: str) -> Mapping[str, dict[str, Any]]:
    """The parameters of a kind, including those of nested tables, by dotted path."""
    found: dict[str, dict[str, Any]] = {}

    def add(rows: Any, prefix: str) -> None:
        for row in rows:
            found[f"{prefix}{row['name']}"] = row
            add(row.get("fields") or (), f"{prefix}{row['name']}.")

    for one in members("queues"):
        if one.name == kind:
            add(one.parameters, "")
    return found


def room_refusal(queue: Table, room: str) -> str | None:
    """The reason why a queue cannot have the room of a column on the main link; `None` if it can."""
    try:
        return refusal(in_room(queue, room, room_of()), f"{RATE_MBPS:g}Mbps")
    except ValueError as problem:
        return str(problem)


def refusal(queue: Table, rate: str) -> str | None:
    """The reason why a queue cannot be used on a link of this rate; `None` if it can."""
    return _refusal(json.dumps(queue), rate)


@cache
def _refusal(queue: str, rate: str) -> str | None:
    table = {
        "duration": "1s",
        "bottleneck": {"rate": rate, "delay": "1ms", "queue": json.loads(queue)},
        "traffic": {"one": {"kind": "ftp"}},
    }
    try:
        _core.Document.of_json(json.dumps(table)).plan({})
    except _core.ScenarioError as problem:
        return str(problem).splitlines()[0]
    return None
