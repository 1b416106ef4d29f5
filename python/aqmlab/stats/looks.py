"""Looks: the allowed error is divided if the results are examined more than once.

An experimenter who examines the runs, adds some and examines them again tends to stop when chance helps. Each
look therefore gets an equal part of the allowed error (Bonferroni): the intervals of all looks jointly
contain their numbers with the required probability, and so does the interval of the last look, whatever the
reason to stop. Equal parts are one of the spending functions of Lan and DeMets ("Discrete sequential
boundaries for clinical trials", Biometrika 70(3), 1983).
"""

from __future__ import annotations

from aqmlab.stats.intervals import LEVEL, simultaneous_level


def look_level(looks: int, numbers: int = 1, level: float = LEVEL) -> float:
    """The level of each interval at each of at most `looks` looks: 0.9875 for four looks at one number.

    The intervals of `numbers` numbers at all looks jointly hold with at least the probability `level`.
    Raises `ValueError` if `looks` or `numbers` is below 1.
    """
    for name, count in (("looks", looks), ("numbers", numbers)):
        if count < 1:
            raise ValueError(f"{name}: must be 1 or more (got {count})")
    return simultaneous_level(level, numbers * looks)
