"""What the core says of a workload, for all who look at what it left in the tables of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqmlab import _core


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload with the parameters that it has in a scenario."""

    sends_datagrams: bool
    """Whether it sends datagrams rather than over TCP."""
    fetches_pages: bool
    """Whether its transfers are parts of pages."""
    shares_connections: bool
    """Whether the objects of a page share connections."""
    is_endless: bool
    """Whether its transfers never end."""
    connection_rate: str | None
    """The parameter that says how many connections begin in a second, if it has one."""
    call: Mapping[str, Any] | None = None
    """Of calls, the `codec` and the voice of a datagram, `frame_s`."""
    video: Mapping[str, Any] | None = None
    """Of adaptive video, the fields of a `metrics.video.Player`."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Workload:
        """The workload of a table in `[traffic]`; parameters that the table leaves out have their defaults.
        Raises `ScenarioError` if the table is wrong."""
        return cls(**json.loads(_core.describe_workload(json.dumps(table))))


def workloads(scenario: Mapping[str, Any]) -> dict[str, Workload]:
    """The workloads of a scenario of the packet level in full, by name."""
    return {name: Workload.of(table) for name, table in scenario["traffic"].items()}
