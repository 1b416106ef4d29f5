"""Sweeps: a scenario varied along axes, each point run with several seeds."""

from aqmlab.sweep.sweep import Axis, Change, Changes, Point, Stopping, Sweep

__all__ = ["Axis", "Change", "Changes", "Point", "Stopping", "Sweep"]
