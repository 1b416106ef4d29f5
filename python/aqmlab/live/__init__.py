"""Live runs on Linux, in which real hosts are connected by the scenario's network."""

from aqmlab.live.runs import LONGEST, SHELL, NotLive, check, privileges, run, status, with_command

__all__ = ["LONGEST", "SHELL", "NotLive", "check", "privileges", "run", "status", "with_command"]
