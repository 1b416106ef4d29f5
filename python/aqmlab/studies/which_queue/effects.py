"""Effects of the study `which-queue`: ratios of page times between queues, and the linear model behind them.

The model describes the logarithm of the page time by a block for each seed, by the row of the array, the
sender, the queue, and by interactions. The design is a full product of senders, queues and rows. In such a
design, the least-squares estimate of an effect of the queue is the mean, over rows and senders, of the
differences of logarithms between two queues. `effect` computes this mean for each seed. The interval is the
Student-t interval of these means over the seeds. It describes what other random numbers would change, and it
does not describe what other lines, loads or pages would change; the spread over the rows describes the
latter.

`anova` fits the whole model with `numpy`, and reports how much of the variance each term explains and how
large the residuals are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from aqmlab import stats
from aqmlab.metrics import Floats
from aqmlab.results.rule import Estimate, statistic
from aqmlab.results.table import ExperimentResults, Results
from aqmlab.results.variable import Variable
from aqmlab.stats import Interval
from aqmlab.studies.which_queue import network as net


def _differences(values: Sequence[Sequence[Any]]) -> list[float]:
    """The differences of two logarithms by seed or, with four logarithms, the differences of differences."""
    columns = np.array(
        [[math.nan if one is None else one for one in several] for several in values], dtype=float
    )
    while len(columns) > 1:
        columns = columns[0::2] - columns[1::2]
    found: list[float] = columns[0].tolist()
    return found


def _ratio(values: Sequence[Sequence[Any]], level: float) -> Interval:
    found = stats.mean_interval(_differences(values), level)
    low, value, high = (math.exp(one) for one in (found.low, found.value, found.high))
    return replace(found, value=value, low=low, high=high)


def effect(ours: Variable, theirs: Variable, title: str) -> Estimate:
    """The ratio of two geometric means of page times, from logarithms of page times, paired by seed."""
    return statistic("ratio of geometric means of page times", _ratio, ours, theirs, title=title)


def interaction(ours: tuple[Variable, Variable], theirs: tuple[Variable, Variable], title: str) -> Estimate:
    """The ratio of two effects, each of which is given by its two logarithms of page times."""
    how = "ratio of two ratios of geometric means of page times"
    return statistic(how, _ratio, *ours, *theirs, title=title)


# The linear model

Coded = Mapping[str, Sequence[Any]]
"""The value of each factor in each run."""

TERMS: Mapping[str, tuple[str, ...]] = {
    "seed": ("seed",),
    "row of the array": ("row",),
    "sender": ("sender",),
    "queue": ("queue",),
    "sender x queue": ("sender", "queue"),
    "queue x load": ("queue", "load"),
    "queue x line": ("queue", "line"),
    "queue x HTTP": ("queue", "http"),
    "queue x round trip": ("queue", "rtt"),
    "sender x load": ("sender", "load"),
    "sender x line": ("sender", "line"),
    "sender x HTTP": ("sender", "http"),
}
"""The terms of the model, in the order in which the model adds the terms. The term `row of the array`
contains the effects of all factors of the array and their interactions."""


def columns_of(coded: Coded, factors: Sequence[str]) -> Floats:
    """Indicator columns for each combination of the factors' values."""
    keys = list(zip(*(coded[one] for one in factors), strict=True))
    columns = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    found = np.zeros((len(keys), len(columns)))
    found[np.arange(len(keys)), [columns[key] for key in keys]] = 1.0
    return found


def explained(coded: Coded, y: Floats) -> tuple[dict[str, tuple[int, float]], Floats]:
    """The degrees of freedom and the sum of squares that each term adds, and the residuals of the model."""
    basis = np.full((y.size, 1), y.size**-0.5)
    residuals = y - basis @ (basis.T @ y)
    found: dict[str, tuple[int, float]] = {}
    for name, factors in TERMS.items():
        columns = columns_of(coded, factors)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            columns = columns - basis @ (basis.T @ columns)
        vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
        new = vectors[:, sizes > 1e-8]
        along = new.T @ residuals
        found[name] = (new.shape[1], float(along @ along))
        residuals = residuals - new @ along
        basis = np.hstack([basis, new])
    return found, residuals


def observed(runs: Results, measure: str) -> tuple[Coded, Floats]:
    """The values of a measure in the runs of the product of sender, queue and row, with the factors of each
    run. Runs without a value are left out."""
    found: list[dict[str, Any]] = []
    y: list[float] = []
    senders, queues, rows = (runs.axes[label] for label in ("sender", "queue", "row"))
    for sender in senders:
        for queue in queues:
            for row in rows:
                point = tuple({"sender": sender, "queue": queue, "row": row}[label] for label in runs.axes)
                seeds = sorted(runs.seeds_at(point))
                for seed, value in zip(seeds, runs.at_point(measure, point, seeds), strict=True):
                    if value is not None and math.isfinite(value):
                        factors = {"seed": seed, "sender": sender, "queue": queue, "row": row}
                        found.append({**factors, **net.ROWS[str(row)]})
                        y.append(value)
    coded = {name: [one[name] for one in found] for name in found[0]} if found else {}
    return coded, np.array(y)


def anova(experiment: str, measure: str) -> Callable[[ExperimentResults], pl.DataFrame]:
    """The table of the model's terms: degrees of freedom, share of the variance, and the root mean square of
    the term as a factor of the page time."""

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        coded, y = observed(results[experiment], measure)
        if not coded:
            return pl.DataFrame(schema=["term", "degrees of freedom", "share of variance (%)"])
        terms, residuals = explained(coded, y)
        total = float(((y - y.mean()) ** 2).sum())
        left = y.size - 1 - sum(freedom for freedom, _ in terms.values())
        rows = [*terms.items(), ("residual", (left, float(residuals @ residuals)))]
        return pl.DataFrame(
            [
                (name, freedom, f"{100 * square / total:.2f}", f"{math.exp(math.sqrt(square / y.size)):.3f}")
                for name, (freedom, square) in rows
            ],
            schema=["term", "degrees of freedom", "share of variance (%)", "typical factor"],
            orient="row",
        )

    return tabulate


def residuals_by_queue(experiment: str, measure: str) -> Callable[[ExperimentResults], pl.DataFrame]:
    """The table of the model's residuals by queue: as factors of the page time, the typical residual, the
    99th percentile of their sizes, and the row and sender with the largest mean residual over the seeds."""

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        coded, y = observed(results[experiment], measure)
        if not coded:
            return pl.DataFrame(schema=["queue", "typical", "99 %", "worst", "where"])
        _, residuals = explained(coded, y)
        names = ("sender", "queue", "row", "load", "line")
        table = pl.DataFrame({name: list(map(str, coded[name])) for name in names}).with_columns(
            pl.Series("residual", residuals)
        )
        cells = table.group_by(names, maintain_order=True).agg(pl.col("residual").mean())
        rows = []
        for queue in dict.fromkeys(coded["queue"]):
            sizes = table.filter(pl.col("queue") == queue)["residual"].to_numpy()
            worst = cells.filter(pl.col("queue") == queue).sort(pl.col("residual").abs()).row(-1, named=True)
            rows.append(
                (
                    queue,
                    f"{math.exp(float(np.sqrt((sizes**2).mean()))):.2f}",
                    f"{math.exp(float(np.quantile(np.abs(sizes), 0.99))):.2f}",
                    f"{math.exp(worst['residual']):.2f}",
                    f"{worst['sender']}, {worst['load']}, {worst['line']}",
                )
            )
        return pl.DataFrame(rows, schema=["queue", "typical", "99 %", "worst", "where"], orient="row")

    return tabulate
