"""Packet traces replayed through a queue, and recorded lines turned into scenarios."""

from aqmlab.traces.trace import PUBLISHED_MOST_ACTIVE, active_flows, charts, generated, of_file, write

__all__ = ["PUBLISHED_MOST_ACTIVE", "active_flows", "charts", "generated", "of_file", "write"]
