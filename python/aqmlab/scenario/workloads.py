"""Properties of workloads that are needed to evaluate the tables of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqmlab import _core


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The properties of a workload, which follow from its kind and its parameters in a scenario."""

    sends_datagrams: bool
    """Whether the workload sends datagrams instead of using TCP."""
    fetches_pages: bool
    """Whether the workload's transfers belong to pages."""
    records_pages: bool
    """Whether the workload records the loads of its pages and the times of their objects."""
    shares_connections: bool
    """Whether the objects of a page share connections."""
    has_guests: bool
    """Whether the workload consists of guests, which are transport implementations of other projects."""
    is_endless: bool
    """Whether the workload's transfers never end."""
    connection_rate: str | None
    """The name of the parameter for connections per second, if the workload has such a parameter."""
    call: Mapping[str, Any] | None = None
    """For calls: the `codec`, and `frame_s`, the duration of the speech in a datagram."""
    video: Mapping[str, Any] | None = None
    """For adaptive video: the fields of a `metrics.video.Player`."""
    video_call: Mapping[str, Any] | None = None
    """For video calls: the `frame_rate`, in frames per second."""
    deadline: Mapping[str, Any] | None = None
    """For datagrams with a deadline: `deadline_s`, the longest useful one-way delay in seconds."""
    responsiveness: Mapping[str, Any] | None = None
    """For tests of responsiveness: the fields of a `metrics.line_tests.Settings`."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Workload:
        """Creates the workload for a table in `[traffic]`. Omitted parameters have their default values.
        Raises `ScenarioError` if the table is invalid."""
        return cls(**json.loads(_core.describe_workload(json.dumps(table))))


def workloads(scenario: Mapping[str, Any]) -> dict[str, Workload]:
    """Returns the workloads of a packet-level scenario (with all defaults) by name."""
    return {name: Workload.of(table) for name, table in scenario["traffic"].items()}
