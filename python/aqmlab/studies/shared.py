"""What studies share: from runs to small tables, and from numbers to text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from aqmlab import metrics, stats
from aqmlab.sweep import Run, Runs

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Another answer to a question that the source leaves open: changes a scenario."""


def keep(table: dict[str, Any]) -> dict[str, Any]:
    """The change that changes nothing."""
    return table


def rows_of(run: Run, table: str, traffic: str) -> pl.DataFrame:
    """The rows of a table that belong to a workload."""
    return run.tables[table].filter(pl.col("traffic").cast(pl.String) == traffic)


def mean(values: metrics.Floats) -> float:
    """The mean; NaN of nothing."""
    return float(values.mean()) if values.size else math.nan


def average(values: Sequence[float | None]) -> float:
    """The mean of the values that are known; NaN if none is."""
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else math.nan


def ratio(runs: Runs, metric: str, ours: str, theirs: str) -> stats.Interval:
    """The ratio of a metric under two queues, paired by seed."""
    return stats.paired_ratio(*runs.pair(metric, {"queue": ours}, {"queue": theirs}))


def means(runs: Runs, metric: str, *, by: str, x: str, scale: float = 1.0) -> pl.DataFrame:
    """Mean and interval of a metric for each value of `by` and `x`."""
    rows = []
    for group in runs.axis(by):
        for at in runs.where(**{by: group}).axis(x):
            chosen = runs.where(**{by: group, x: at})
            interval = stats.mean_interval([value * scale for value in chosen.values(metric)])
            rows.append((group, at, interval.value, interval.low, interval.high, interval.count))
    return pl.DataFrame(rows, schema=[by, x, "value", "low", "high", "seeds"], orient="row")


def shown(runs: Runs, metric: str, digits: int, scale: float = 1.0) -> str:
    """Mean and half of its interval, as a table shows them."""
    interval = stats.mean_interval([value * scale for value in runs.values(metric)])
    if not interval.decided:
        return f"{interval.value:.{digits}f}"
    return f"{interval.value:.{digits}f} ± {interval.half_width:.{digits}f}"


Measure = tuple[str, str, int, float]
"""A line of an overview: its name, the metric, digits, and what to multiply by."""


def overview(runs: Runs, measures: Sequence[Measure]) -> pl.DataFrame:
    """Some measures, line by line, for each queue."""
    rows = {
        queue: [shown(runs.where(queue=queue), key, digits, scale) for _, key, digits, scale in measures]
        for queue in runs.axis("queue")
    }
    return pl.DataFrame({"measure": [name for name, *_ in measures], **rows})
