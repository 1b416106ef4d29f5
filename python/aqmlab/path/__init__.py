"""Network paths without I/O and clock. A path accepts datagrams with the times at which they are sent, and
returns the time at which each datagram arrives, or the reason for which the datagram was dropped."""

from aqmlab.path.path import Delivered, Dropped, Path

__all__ = ["Delivered", "Dropped", "Path"]
