"""The queues of report cards: the kinds that have a card, the room of each kind, and the parameters that
enable marking.

A card has two columns. With *equal* room, a queue has room for the same number of full packets as the Drop
Tail queue that it is compared with. As *shipped*, a queue has its default room."""

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
"""The queue with which other queues are compared. This queue has equal room."""

REFERENCE_TABLE: Table = {"kind": DROP_TAIL}

TRUESIZE = 2304
"""Memory in bytes that Linux counts for a full Ethernet packet (`skb->truesize`, see `truesize.rs`)."""

SHIPPED_TABLES: Mapping[str, Table] = {DROP_TAIL: {"kind": DROP_TAIL, "limit": "1000p"}}
"""Parameters of queues in Linux, for kinds whose defaults in aqmlab are taken from a paper. The queue limit
of an Ethernet device is 1000 packets (`DEFAULT_TX_QUEUE_LEN`)."""

ROOM_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "cake": ("memlimit",),
    "fq": ("limit", "flow_limit"),
    "gred": ("vqs.limit",),
    "pimc": ("pi.limit",),
    "pisa": ("pi.limit",),
    "self-configuring-red": ("red.limit",),
    "shred": ("red.limit",),
}
"""The parameters that limit the room of these kinds. All other kinds have the parameter `limit`."""

IN_MEMORY = frozenset({"cake"})
"""Kinds whose room is counted in memory as in Linux, and not in bytes of packets."""

BATCH, BATCH_LIMIT = 64, 10_240
"""With a limit of 10,240 packets, FQ-CoDel drops up to 64 packets at once, but at most half of the longest
queue (RFC 8290, section 4.1)."""

ALWAYS_MARK = frozenset({"cake", "dualpi2"})
"""Kinds that mark every ECN-capable packet instead of dropping the packet, and have no parameter for
marking."""

NO_CARD: Mapping[str, str] = {
    "ack-filter": "ack-filter removes acknowledgements and leaves congestion to the inner queue; compare a "
    "scenario with and without the filter with `aqmlab compare`",
    "ce-threshold": "ce-threshold marks packets before a queue and does not manage a queue; name the kind "
    "of the inner queue",
    "drop-nth": "drop-nth is a test instrument that drops packets by number; use `aqmlab run`",
    "drop-random": "drop-random is a test instrument that drops packets at random; use `aqmlab run`",
    "htb": "htb is a shaper with classes, and its leaves manage the queues; name the kind of a leaf",
    "stab": "stab changes the counted sizes of packets before the inner queue; name the kind of that queue",
    "policer": "policer has no queue to manage; run a scenario with a policer with `aqmlab run`",
    "wifi": "wifi is an access point whose inner queues manage the packets; name the kind of an inner queue",
}
"""Kinds that do not manage a queue, with the reason and an alternative."""


def every_kind() -> dict[str, Table]:
    """Returns every kind that has a card, with its defaults, by name."""
    kinds = sorted(one.name for one in members("queues") if one.name not in NO_CARD)
    return {kind: {"kind": kind} for kind in kinds}


def check(name: str, queue: Table) -> None:
    """Raises `ValueError` if a kind of queue has no card."""
    why = NO_CARD.get(queue["kind"])
    if why is not None:
        raise ValueError(f"`{name}` has no report card: {why}")


def shipped(queue: Table) -> Table:
    """Returns a queue with the default parameters of Linux or of the discipline's source."""
    return SHIPPED_TABLES.get(queue["kind"], queue) if set(queue) == {"kind"} else queue


def with_room(queue: Table, packets: int) -> Table:
    """Returns a queue with room for this number of full packets. Raises the same `ValueError` as `bounds`."""
    made = queue
    for path, value in bounds(queue, packets).items():
        made = put(made, path, partial(_replacement, value))
    return made


def bounds(queue: Table, packets: int) -> dict[str, Any]:
    """Returns the parameters, by path and in their own units, that limit a queue to this number of full
    packets.

    Raises `ValueError` if the kind has no such parameter. FQ-CoDel's drop batch is scaled with the room: 64
    packets are a small part of 10,240 packets, but most of 84 packets, and an unscaled batch would drop up to
    half of the 84 packets."""
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
    """Returns the queue with marking enabled, or `None` if the queue cannot mark packets or needs an
    additional parameter to do so."""
    kind = queue["kind"]
    if kind in ALWAYS_MARK:
        return queue
    made = queue
    paths = [path for path in _rows(kind) if path.split(".")[-1] == "ecn"]
    for path in paths:
        words = [choice["word"] for choice in _rows(kind)[path].get("choices") or ()]
        # By convention, the first word means "no", and the last word enables marking in all cases in which
        # marking is possible.
        made = put(made, path, partial(_replacement, words[-1] if words else True))
    return made if paths and refusal(made, f"{RATE_MBPS:g}Mbps") is None else None


def at_every_link(queue: Table, room: str) -> Callable[[Table], Table]:
    """Returns a change that sets a queue, with the room of a column, at every managed link."""

    def change(table: Table) -> Table:
        for link in table["links"].values():
            if "queue" in link:
                link["queue"] = in_room(queue, room, packets_of(link["queue"]))
        return table

    return change


def is_reference(queue: Table, room: str) -> bool:
    """Returns whether a queue in a column is the reference queue, with which other queues are compared."""
    return room == EQUAL and queue == REFERENCE_TABLE


def in_room(queue: Table, room: str, packets: int) -> Table:
    """Returns a queue with the room of a column. `packets` is the equal room, in packets."""
    return with_room(queue, packets) if room == EQUAL else shipped(queue)


def packets_of(queue: Table) -> int:
    """Returns the room of a scenario's Drop Tail queue, in packets."""
    return int(str(queue["limit"]).removesuffix("p"))


def put(table: Table, path: str, change: Callable[[Any], Any]) -> Table:
    """Returns a table with a changed value at a dotted path. If the path contains a list, the value in each
    table of the list is changed. The old value of an omitted parameter is the kind's default."""
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
    """Returns the parameters of a kind by dotted path, including the parameters of nested tables."""
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
    """Returns the reason why a queue cannot have the room of a column on the main link, or `None` if it
    can."""
    try:
        return refusal(in_room(queue, room, room_of()), f"{RATE_MBPS:g}Mbps")
    except ValueError as problem:
        return str(problem)


def refusal(queue: Table, rate: str) -> str | None:
    """Returns the reason why a queue cannot be used on a link of this rate, or `None` if it can."""
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
