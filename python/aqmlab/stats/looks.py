"""Looks: if results are examined more than once, the allowed error is divided among the examinations.

An experimenter who examines the runs, adds runs and examines the results again tends to stop when the results
are favourable by chance. Each examination (look) therefore gets an equal part of the allowed error
(Bonferroni). The intervals of all looks then jointly contain the true values with the required probability.
The interval of the last look also contains the true value with this probability, regardless of the reason for
stopping. Dividing the error equally is one of the spending functions of Lan and DeMets ("Discrete sequential
boundaries for clinical trials", Biometrika 70(3), 1983).
"""

from __future__ import annotations

from aqmlab.stats.intervals import LEVEL, simultaneous_level


def look_level(looks: int, numbers: int = 1, level: float = LEVEL) -> float:
    """Returns the confidence level of each interval at each of at most `looks` looks, for example 0.9875 for
    four looks at one number.

    The intervals of `numbers` numbers at all looks jointly contain the true values with at least the
    probability `level`. Raises `ValueError` if `looks` or `numbers` is less than 1.
    """
    for name, count in (("looks", looks), ("numbers", numbers)):
        if count < 1:
            raise ValueError(f"{name}: must be 1 or more (got {count})")
    return simultaneous_level(level, numbers * looks)
