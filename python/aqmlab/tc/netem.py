"""The propagation delay, the losses and the reordering of a link as `netem` creates them (tc-netem(8))."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aqmlab.tc.link import Link, nanoseconds

_SMALLEST = 64
"""Size of the smallest Ethernet frame in bytes. A `netem` holds all packets in flight, and drops packets
above its limit, so its limit counts the smallest frames that fit into the delay."""

_DEFAULT_LIMIT = 1000
"""Default of `netem`'s limit, in packets."""


def commands(link: Link, device: str) -> list[str]:
    """Returns the commands for the delay, loss and reordering of a link, or no commands if the link has none
    of these properties. Reordering needs a second `netem`, because `netem` sends reordered packets without
    any delay."""
    loss = _loss(link.table.get("loss"))
    base = [*(["delay", _time(link.delay_ns)] if link.delay_ns else []), *loss]
    stages = [(base, link.delay_ns)] if base else []
    reordering = link.table.get("reordering")
    if reordering:
        words, most_ns = _reordering(reordering)
        if words:
            stages.append((words, most_ns))
    lines = []
    for number, (words, most_ns) in enumerate(stages, 1):
        parent = "root" if number == 1 else f"parent {number - 1}:1"
        limit = _DEFAULT_LIMIT + math.ceil(link.bps * most_ns / 8e9 / _SMALLEST)
        lines.append(
            f"tc qdisc add dev {device} {parent} handle {number}: netem limit {limit} {' '.join(words)}"
        )
    return lines


def _loss(loss: Mapping[str, Any] | None) -> list[str]:
    if not loss:
        return []
    if loss.get("probability") is not None:
        return ["loss", "random", _percent(loss["probability"])]
    order = ("p", "r", "loss_in_bad", "loss_in_good")
    return ["loss", "gemodel", *(_percent(loss[key]) for key in order)]


def _reordering(table: Mapping[str, Any]) -> tuple[list[str], int]:
    """Returns the words for a `netem` that delays a fraction of the packets and sends the others at once, and
    the largest delay in nanoseconds."""
    delay, jitter = nanoseconds(table["delay"]), nanoseconds(table["jitter"])
    if delay + jitter == 0 or not table["probability"]:
        return [], 0
    # The jitter of netem extends from -jitter to +jitter around the delay.
    half = jitter // 2
    words = ["delay", _time(delay + half), *([_time(half)] if half else [])]
    if table["probability"] < 1:
        words += ["reorder", _percent(1 - table["probability"])]
    return words, delay + jitter


def _percent(share: float) -> str:
    return f"{100 * share:.10g}%"


def _time(nanos: int) -> str:
    for size, unit in ((1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")):
        if nanos >= size and nanos % size == 0:
            return f"{nanos // size}{unit}"
    return f"{nanos}ns"
