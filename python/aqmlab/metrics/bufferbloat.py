"""Grades bufferbloat with the letters that speed tests show: the grade depends on the increase of the latency
under load.

Limits: cloudflare-speed-cli 1.0.1, `src/constants.rs`, which has the limits of Waveform's bufferbloat test.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

LIMITS_S: Mapping[str, float] = {"A+": 0.005, "A": 0.030, "B": 0.060, "C": 0.200, "D": 0.400}
"""Largest increase of the latency (s) of each grade. A larger increase than the last limit has the grade
F."""

GRADES = (*LIMITS_S, "F")
"""The grades, from the best to the worst."""


def grade(increase_s: float) -> str:
    """Returns the grade for an increase of the latency, in seconds. The grade for a decrease is A+."""
    return GRADES[rank(increase_s)]


def rank(increase_s: float) -> int:
    """Returns the position of the grade in `GRADES`, from 0 (A+) to 5 (F)."""
    return bisect_left(list(LIMITS_S.values()), increase_s)
