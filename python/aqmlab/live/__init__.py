"""Live runs on Linux: the scenario's network between real hosts."""

from aqmlab.live.runs import LONGEST, SHELL, NotLive, check, privileges, run, status, with_command

__all__ = ["LONGEST", "SHELL", "NotLive", "check", "privileges", "run", "status", "with_command"]
