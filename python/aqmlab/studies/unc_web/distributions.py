"""Distributions of response times held against each other, seed by seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aqmlab import stats
from aqmlab.metrics.response_times import Crossing, Floats, crossings, zero_between
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, axes_of, common_values, product, seeds_of
from aqmlab.stats import Interval, bands, modality
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.experiments import adaptive_red, drop_tail
from aqmlab.studies.unc_web.measures import GRID

Values = Sequence[Sequence[Any]]
"""Of some variables the values of all seeds: a distribution each, or `None`."""

LEAST = 0.01
"""A difference of two distribution functions that counts: one response in a hundred."""

cdf: dict[str, Variable] = {
    "Drop Tail": drop_tail[measures.CDF],
    "ARED": adaptive_red[measures.CDF].at(queue="ARED"),
    "ARED+ECN": adaptive_red[measures.CDF].at(queue="ARED+ECN"),
}
"""The distributions of response times, by queue."""

PAIRINGS = (("ARED", "Drop Tail"), ("ARED+ECN", "ARED"), ("ARED+ECN", "Drop Tail"))
"""The talk's pairings of queues, the challenger first."""


def seed_by_seed(several: Sequence[Variable], results: ExperimentResults) -> Iterator[tuple[Labels, Values]]:
    """The values of some variables at each point that all of them have."""
    seeds = seeds_of(several, results)
    for labels in product({label: common_values(several, label, results) for label in axes_of(several)}):
        yield labels, [one.values(results, labels, seeds) for one in several]


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> Floats:
    """How much larger a share of the one's responses than of the other's has arrived: a row for each seed
    that has both, a column for each value of the grid."""
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return np.array([np.subtract(a, b) for a, b in both]).reshape(len(both), GRID.size)


def quick(difference: Floats) -> int:
    """The place in the grid where the one leads most, on average."""
    return int(difference.mean(axis=0).argmax()) if difference.size else 0


def slow(difference: Floats) -> int:
    """The place beyond it where the other leads most, on average."""
    first = quick(difference)
    return first + int(difference.mean(axis=0)[first:].argmin()) if difference.size else 0


def certain_crossings(
    ours: Sequence[Any], theirs: Sequence[Any], *, level: float = stats.LEVEL
) -> list[Crossing]:
    """Where the two cross, each by at least a response in a hundred, with certainty of this level."""
    difference = differences(ours, theirs)
    return crossings(difference, np.zeros_like(difference), GRID, least=LEAST, level=level)


def crossing_times(difference: Floats) -> list[float]:
    """When the two cross between `quick` and `slow`, seed by seed; NaN of a seed where they do not."""
    places = slice(quick(difference), slow(difference) + 1)
    return [
        zero_between(GRID[places], one) if one[0] > 0 > one[-1] else math.nan for one in difference[:, places]
    ]


def apart(*curves: Sequence[float]) -> float:
    """The largest distance of any two distribution functions."""
    return max(float(np.abs(np.subtract(*two)).max()) for two in itertools.combinations(curves, 2))


# What `statistic` takes


def leads(values: Values, level: float) -> Interval:
    """By how much the first is ahead at the time that the other seeds choose: for *somewhere more than*."""
    return bands.chosen_by_others(differences(*values), quick, level)


def lags(values: Values, level: float) -> Interval:
    """By how much the first is behind where it is so most: for *nowhere more than*."""
    ours, theirs = values
    return bands.largest(differences(theirs, ours), level)


def lags_beyond(values: Values, level: float) -> Interval:
    """By how much the first is behind beyond where it is ahead, at the time that the other seeds choose: for
    *somewhere more than*."""
    ours, theirs = values
    return bands.chosen_by_others(differences(theirs, ours), lambda others: slow(-others), level)


def crosses(values: Values, level: float) -> Interval:
    """How often they cross with certainty of this level: a count, whose interval is a point."""
    ours, theirs = values
    count = float(len(certain_crossings(ours, theirs, level=level)))
    return Interval(value=count, low=count, high=count, count=len(differences(*values)), level=level)


def later(values: Values, level: float) -> Interval:
    """When the first crosses the last over when the second does, of the seeds that all have."""
    known = [seed for seed in zip(*values, strict=True) if all(one is not None for one in seed)]
    first, second, base = ([seed[place] for seed in known] for place in range(3))
    return modality.paired_ratio(
        crossing_times(differences(first, base)), crossing_times(differences(second, base)), level
    )
