"""A link of a scenario, with the values that a program on Linux needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aqmlab import _core
from aqmlab._support.names import hint
from aqmlab.scenario import Scenario

DIRECTIONS = ("forward", "reverse")
"""Directions of a link: from its first node to its second node, or back."""

_DEVICE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.:@-]{0,14}")

_REASONS: Mapping[str, str] = {
    "rate_steps": "the rate changes during a run; repeat `tc class change` with each rate at its time",
    "rate_file": "the rate changes during a run; repeat `tc class change` with each rate at its time",
    "opportunities": "the delivery opportunities of a trace; the shaper sends at the mean rate",
    "outages": "the link is down at some times; use `ip link set dev DEVICE down` and `up`",
    "random_outages": "the link is down at random times",
    "aggregation": "the link sends in bursts",
    "framing": "the shaper counts packets without framing; use the queue `stab`, or overhead of `cake`",
    "delay_steps": "the delay changes during a run; repeat `tc qdisc change` with each delay at its time",
}
"""Keys of a link that have no counterpart in `tc`, with the reason."""

_NO_COUNTERPART = "tc has no counterpart"

_WRITTEN = (
    *("rate", "delay", "loss", "reordering", "queue"),
    *("from", "to", "both_ways", "reverse", "rate_repeat", "delay_repeat"),
)
"""Keys that the commands contain, or that belong to another key or another link."""


@dataclass(frozen=True)
class Link:
    """A link of a scenario."""

    name: str
    path: str
    """Dotted path of the link's table."""
    table: Mapping[str, Any]
    """The link's table with all defaults."""

    @property
    def rate(self) -> str:
        """The rate, such as `10Mbps`."""
        return str(self.table["rate"])

    @property
    def bps(self) -> int:
        """The rate in bit/s, rounded down to whole bytes per second, as the kernel counts rates."""
        return round(_core.quantity(self.rate)[0]) // 8 * 8

    @property
    def delay_ns(self) -> int:
        """The propagation delay in nanoseconds."""
        return nanoseconds(self.table["delay"])

    @property
    def queue(self) -> Mapping[str, Any]:
        """The table of the queue."""
        found: Mapping[str, Any] = self.table["queue"]
        return found

    def qdisc(self, device: str, *, shape: bool = True) -> dict[str, Any]:
        """Returns the queue as `tc` creates it at the root of a device (see `_core.tc_qdisc`). Raises
        `ValueError` if Linux does not have the queue."""
        try:
            text = _core.tc_qdisc(json.dumps(self.queue), self.rate, device, shape)
        except _core.ScenarioError as error:
            lines = [f"{self.path}.queue.{path}: {problem}" for path, problem in error.problems]
            raise ValueError("\n".join(lines)) from None
        found: dict[str, Any] = json.loads(text)
        return found

    @property
    def left_to_netem(self) -> list[str]:
        """The keys of the link whose properties need a `netem`."""
        return [
            *(["delay"] if self.delay_ns else []),
            *(key for key in ("loss", "reordering") if self.table.get(key)),
        ]

    def limits(self, qdisc: Mapping[str, Any]) -> Iterator[str]:
        """Yields what `tc` cannot express about the link and about its queue, which is `qdisc`."""
        bps = round(_core.quantity(self.rate)[0])
        if bps % 8:
            yield (
                f"{self.path}.rate: the kernel counts whole bytes per second, so {bps}bit becomes "
                f"{self.bps}bit"
            )
        for key in dict.fromkeys([*_REASONS, *self.table]):
            if key not in _WRITTEN and self.table.get(key):
                yield f"{self.path}.{key}: {_REASONS.get(key, _NO_COUNTERPART)}"
        for at, why in qdisc["limits"]:
            yield f"{self.path}.queue.{at}: {why}"


def chosen(scenario: Scenario, name: str, direction: str = "forward", *, argument: str = "link") -> Link:
    """Returns a link of the scenario, or the reverse link of a link. Raises `ValueError` if no such link
    exists or if the link has no queue. `argument` is the name of the argument in error messages."""
    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name}: level: must be packet, because only this level has links (got "
            f"{scenario.level})"
        )
    if direction not in DIRECTIONS:
        raise ValueError(f"direction: must be forward or reverse (got {direction})")
    links = scenario.links
    wanted = f"{name}-back" if direction == "reverse" and not name.endswith("-back") else name
    with_queue = scenario.managed_links
    if name not in links:
        raise ValueError(f"{argument}: no link is named `{name}`: {hint(name, with_queue)}")
    if wanted not in links:
        raise ValueError(f"direction: the link `{name}` has no reverse link in the scenario; add its table")
    if wanted not in with_queue:
        raise ValueError(f"{argument}: {wanted} has no queue; available: {', '.join(with_queue)}")
    path, table = links[wanted]
    return Link(wanted, path, table)


def checked_device(option: str, device: str) -> str:
    """Returns the name of a network device. Raises `ValueError` unless Linux allows the name and a shell does
    not change it."""
    if not _DEVICE.fullmatch(device):
        raise ValueError(
            f"{option}: must be the name of a network device: at most 15 letters, digits and . _ : @ - "
            f"(got {device!r})"
        )
    return device


def nanoseconds(quantity: str) -> int:
    """Returns a time such as `60ms` in nanoseconds."""
    return round(_core.quantity(quantity)[0] * 1e9)
