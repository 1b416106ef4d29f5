"""Other queues in a study: those of today by name, changes that put them at links, and a reading for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aqmlab.study.publication import Queues, Reading, Verdicts
from aqmlab.sweep import Changes

TODAY: Mapping[str, dict[str, Any]] = {
    "CoDel": {"kind": "codel"},
    "FQ-CoDel": {"kind": "fq-codel"},
    "PIE": {"kind": "pie"},
    "CAKE": {"kind": "cake"},
    "CAKE by flows": {"kind": "cake", "flows": "flows"},
    "DualPI2": {"kind": "dualpi2"},
}
"""As Linux has them when nobody sets anything, by the names of figures. CAKE is fair to hosts first, and so
not to flows where many of them share a host, as the Web's do in some studies: it is asked a second time."""


def at(queues: Queues, *links: str, **more: Any) -> Changes:
    """Each of some queues at these links, with other changes that all share."""
    return Changes(
        {name: {**{f"{link}.queue": table for link in links}, **more} for name, table in queues.items()}
    )


def readings(queues: Iterable[str]) -> tuple[Reading, ...]:
    """A reading for each of some queues: claims that leave the axis `queue` open are judged for each."""
    return tuple(Reading(name=name, labels={"queue": name}, suffix=f", {name}") for name in queues)


def counted(found: Verdicts, what: str) -> list[str]:
    """How many of the claims hold for each queue, in words."""
    by_queue: dict[str, list[str]] = {}
    for one in found:
        by_queue.setdefault(one.reading.name, []).append(one.evidence.verdict)
    return [
        f"{queue} does {verdicts.count('holds')} of {len(verdicts)} {what}; {verdicts.count('fails')} it "
        "does not, "
        f"and {verdicts.count('undecided')} stay undecided."
        for queue, verdicts in by_queue.items()
    ]
