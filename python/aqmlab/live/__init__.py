"""Live runs: the scenario's network between real hosts, on Linux."""

from aqmlab.live.runs import LONGEST, SHELL, NotLive, check, privileges, run, status, with_command

__all__ = ["LONGEST", "SHELL", "NotLive", "check", "privileges", "run", "status", "with_command"]
