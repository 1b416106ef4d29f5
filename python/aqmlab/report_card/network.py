"""The network of report cards: one line each way between servers and clients, and queues fitted to it.

RFC 7928, section 3: a dumbbell whose line is the same both ways, or ten times slower on the way back; every
queue has the same room, the bandwidth-delay product of the longest round trip."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from aqmlab import _core
from aqmlab.catalog import members
from aqmlab.sweep import Changes

Table = dict[str, Any]

RATE_MBPS = 10.0
ROUND_TRIP_MS = 100.0
PACKET = 1500
WARM_UP_S = 10.0
DURATION_S = 60.0

DROP_TAIL = "drop-tail"
"""What every queue is compared with (RFC 7928, section 1.1)."""

DOWN, UP = "down", "up"
"""The links: data go down, but where a scenario has some that go up."""

HOST_MS = 0.5
"""The delay of an access line."""

LINES = Changes({"symmetric": {}, "asymmetric": {f"links.{UP}.rate": "1Mbps"}})
"""The line, and one whose way back is ten times slower."""


def buffer(rate_mbps: float = RATE_MBPS, round_trip_ms: float = ROUND_TRIP_MS) -> str:
    """The bandwidth-delay product in full packets."""
    return f"{math.ceil(rate_mbps * 1e3 * round_trip_ms / 8 / PACKET)}p"


def scenario(
    traffic: Mapping[str, Table],
    *,
    rate_mbps: float = RATE_MBPS,
    round_trip_ms: float = ROUND_TRIP_MS,
    longest_ms: float | None = None,
    duration_s: float = DURATION_S,
    warm_up_s: float = WARM_UP_S,
    packets: tuple[str, ...] = (DOWN,),
) -> Table:
    """A line and its traffic, which goes down unless it says otherwise. Round trips are without queues;
    `longest_ms` is that of the flow farthest away, if it has delay of its own. What happens to packets of
    the links `packets` is recorded."""
    room = {"kind": DROP_TAIL, "limit": buffer(rate_mbps, longest_ms or round_trip_ms)}
    line = {"rate": f"{rate_mbps:g}Mbps", "delay": f"{round_trip_ms / 2 - 2 * HOST_MS:g}ms", "queue": room}
    return {
        "duration": f"{duration_s:g}s",
        "warm_up": f"{warm_up_s:g}s",
        "links": {
            DOWN: {"from": "servers", "to": "clients", **line},
            UP: {"from": "clients", "to": "servers", **line},
        },
        "access": {"rate": "1Gbps", "delay": f"{HOST_MS:g}ms"},
        "tcp": {"profile": "linux-6", "congestion_control": {"kind": "reno"}},
        "traffic": {name: {"from": "servers", "to": "clients", **table} for name, table in traffic.items()},
        "record": {"drops": False, "queue_every": "0s", "packets": list(packets)},
    }


def going_up(table: Mapping[str, Any]) -> Table:
    """Traffic whose data go up."""
    return {**table, "from": "clients", "to": "servers"}


def queues(tables: Mapping[str, Table]) -> Changes:
    """An axis of queues by name, at every managed link, each with the room that the scenario's own queue
    has."""

    def at_every_link(queue: Table) -> Any:
        def change(table: Table) -> Table:
            for link in table["links"].values():
                if "queue" in link:
                    link["queue"] = fitted(queue, link["queue"]["limit"], link["rate"])
            return table

        return change

    return Changes({name: at_every_link(table) for name, table in tables.items()})


def fitted(queue: Table, room: str, rate: str) -> Table:
    """A queue with a limit of so many packets, if it has such a parameter, does not say it itself, and can
    be so short."""
    if "limit" in queue:
        return queue
    with_limit = {**queue, "limit": room}
    return with_limit if _is_accepted(json.dumps(with_limit), rate) else queue


def with_ecn(queue: Table) -> Table | None:
    """A queue that marks where it may; `None` if it has no parameter for that, or one that needs another."""
    kinds = [one for one in members("queues") if one.name == queue["kind"]]
    rows = [row for one in kinds for row in one.parameters if row["name"] == "ecn"]
    if not rows:
        return None
    words = [choice["word"] for choice in rows[0].get("choices") or ()]
    # By convention the first says no, and the last marks wherever that is allowed.
    marking = {**queue, "ecn": words[-1] if words else True}
    return marking if _is_accepted(json.dumps(marking), f"{RATE_MBPS:g}Mbps") else None


@cache
def _is_accepted(queue: str, rate: str) -> bool:
    table = {
        "duration": "1s",
        "bottleneck": {"rate": rate, "delay": "1ms", "queue": json.loads(queue)},
        "traffic": {"one": {"kind": "ftp"}},
    }
    try:
        _core.Document.of_json(json.dumps(table)).plan({})
    except _core.ScenarioError:
        return False
    return True


def every_kind() -> dict[str, Table]:
    """Every queue discipline of the registry as it comes, but those that cannot be put on a line as they
    come and instruments of tests."""
    kinds = [one.name for one in members("queues")]
    return {kind: {"kind": kind} for kind in kinds if kind not in INSTRUMENTS}


INSTRUMENTS = frozenset({"drop-nth", "drop-random"})
"""Disciplines that drop by number or by chance, whatever happens: made for experiments with losses."""
