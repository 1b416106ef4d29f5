"""The queues that are compared: today's queue, and queues that Linux has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aqmlab._support import arguments
from aqmlab._support.names import hint
from aqmlab.scenario import Scenario
from aqmlab.scenario.catalog import members, queue_table

TODAY = "today"
"""Name of the queues that the scenario has."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "pfifo-1000": {"kind": "drop-tail", "limit": "1000p"},
    "pfifo-100": {"kind": "drop-tail", "limit": "100p"},
}
"""Drop Tail with the default length of Linux's devices (`txqueuelen`), and with a tenth of it (aqmlab's
choice)."""

DEFAULT_QUEUES = ("pfifo-1000", "pfifo-100", "codel", "pie", "sfq", "fq-codel", "fq-pie", "cake")
"""The candidates if the person names none: the queues of Linux that need neither a rate nor thresholds, and
that are not meant for hosts (`fq`) or for special senders (`dualpi2`)."""


def names_of(scenario: Scenario, queues: Sequence[str]) -> list[str]:
    """Returns the names of the candidates without `TODAY`. Raises `ValueError` for an unknown or repeated
    name, and for a queue that Linux does not have."""
    found = [name for name in arguments.names("--queues", list(queues)) if name != TODAY] or list(
        DEFAULT_QUEUES
    )
    arguments.unique("--queues", found)
    own = scenario.given.get("queues", {})
    of_linux = {one.name for one in members("queues") if one.tc}
    for name in found:
        kind = table_of(scenario, name)["kind"]
        if name not in own and kind not in of_linux:
            raise ValueError(
                f"--queues: Linux has no queue `{name}`: {hint(name, [*VARIANTS, *own, *sorted(of_linux)])}"
            )
    return found


def table_of(scenario: Scenario, name: str) -> Mapping[str, Any]:
    """Returns the table of a candidate: a name in `[queues]` of the scenario, a variant, or a kind with its
    defaults. Raises `ValueError` for an unknown name."""
    own = scenario.given.get("queues", {})
    if name in VARIANTS and name not in own:
        return VARIANTS[name]
    return queue_table(own, name)


def with_candidates(scenario: Scenario, queues: Mapping[str, str]) -> Scenario:
    """Returns the scenario with a candidate at each of these links. `TODAY` leaves the queue of a link
    unchanged."""
    return scenario.with_(changes(scenario, queues))


def changes(scenario: Scenario, queues: Mapping[str, str]) -> dict[str, Any]:
    """Returns the changes of the scenario that install a candidate at each of these links."""
    return {
        f"{scenario.links[link][0]}.queue": dict(table_of(scenario, name))
        for link, name in queues.items()
        if name != TODAY
    }
