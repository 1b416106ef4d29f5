"""Replays packet traces through a queue, and imports recorded links."""

from aqmlab.traces.trace import PUBLISHED_MOST_ACTIVE, active_flows, charts, generated, of_file, write

__all__ = ["PUBLISHED_MOST_ACTIVE", "active_flows", "charts", "generated", "of_file", "write"]
