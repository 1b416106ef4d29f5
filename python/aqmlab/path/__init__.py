"""Network paths without I/O and clock. A path accepts datagrams with the times at which they are sent, and
returns the time at which each datagram arrives, or the reason for which the datagram was dropped. Guests are
transport implementations that run in virtual time at the ends of a path."""

from aqmlab._core import IsolationError
from aqmlab.path.guests import Admission, GuestError, GuestRun, check_guest, run_guests
from aqmlab.path.path import Delivered, Dropped, Path

__all__ = [
    "Admission",
    "Delivered",
    "Dropped",
    "GuestError",
    "GuestRun",
    "IsolationError",
    "Path",
    "check_guest",
    "run_guests",
]
