"""Looks: how the allowed error is spent where runs are looked at more than once.

Whoever looks at the runs, adds some and looks again, stops by preference where chance helps. So each look
gets an equal part of the error that is allowed, and the parts are added up (Bonferroni): the intervals of all
looks contain their numbers together with the probability that is asked, and so does the interval of the look
at which it ends, whatever was the reason to end. Equal parts are one of the spending functions of Lan and
DeMets ("Discrete sequential boundaries for clinical trials", Biometrika 70(3), 1983).
"""

from __future__ import annotations

from aqmlab.stats.intervals import LEVEL, simultaneous_level


def look_level(looks: int, numbers: int = 1, level: float = LEVEL) -> float:
    """The level of each interval at each of at most `looks` looks: 0.9875 for four looks at one number.

    The intervals of `numbers` numbers at all looks hold together with at least the probability `level`.
    Raises `ValueError` unless there is one look and one number, or more.
    """
    for name, count in (("looks", looks), ("numbers", numbers)):
        if count < 1:
            raise ValueError(f"{name} = {count} must be 1 or more")
    return simultaneous_level(level, numbers * looks)
