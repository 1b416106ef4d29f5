"""Sweeps, which vary a scenario along axes and run each point with several seeds."""

from aqmlab.sweep.point import Point
from aqmlab.sweep.stopping import Stopping
from aqmlab.sweep.sweep import Axis, Change, Changes, Sweep

__all__ = ["Axis", "Change", "Changes", "Point", "Stopping", "Sweep"]
