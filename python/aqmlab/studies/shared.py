"""Common parts of studies: changes of scenarios, kinds of claims, and small computations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Run
from aqmlab.results.labels import Labels, Value
from aqmlab.results.rule import AnyRule, every, ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, points_of, seeds_of
from aqmlab.scenario import changed
from aqmlab.study.experiment import Form

TableChange = Callable[[dict[str, Any]], dict[str, Any]]
"""A change of a scenario's table by a function."""


def tcp_with(changes: Mapping[str, Any]) -> TableChange:
    """A change of parameters of the common TCP, by their paths within `[tcp]`."""
    paths = {f"tcp.{path}": value for path, value in changes.items()}
    return lambda table: changed(table, paths)


def queue_with(kind: str, **changes: Any) -> TableChange:
    """A change of parameters of every queue of this kind, at the bottleneck or at named links."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        links = [table["bottleneck"]] if "bottleneck" in table else table["links"].values()
        for link in links:
            if link["queue"]["kind"] == kind:
                link["queue"].update(changes)
        return table

    return change


def constant(size_bytes: int) -> dict[str, Any]:
    """A distribution of sizes with a single value."""
    return {"kind": "constant", "value": f"{size_bytes}B"}


def frame(rows: Iterable[Sequence[Any]], *columns: str) -> pl.DataFrame:
    """A table from rows and names of columns."""
    return pl.DataFrame(list(rows), schema=columns, orient="row")


def rows_of(run: Run, table: str, traffic: str) -> pl.DataFrame:
    """The rows of a table that belong to a workload."""
    return run.tables[table].filter(pl.col("traffic") == traffic)


def mean(values: metrics.Floats) -> float:
    """The mean; NaN for an empty array."""
    return float(values.mean()) if values.size else math.nan


def forms(
    quick: Mapping[str, Sequence[Value]] | None = None,
    variants: Mapping[str, Sequence[Value]] | None = None,
    seeds: int = 3,
) -> dict[str, Any]:
    """Fields of an experiment: a quick form with three seeds and the values of axes in `quick`. If `variants`
    is given, the experiment is also run with variants, whose quick form has these values of axes and this
    number of `seeds`."""
    tried = {} if variants is None else {"varied": Form(), "varied_quick": Form(seeds=seeds, axes=variants)}
    return {"quick": Form(seeds=3, axes=quick or {}), **tried}


def less(*variables: Variable, than: Sequence[str], queue: str | None = None) -> AnyRule:
    """The rule that each variable is smaller with a queue than with each of the queues in `than`. Without
    `queue`, the rule is judged for each queue of the free axis `queue`."""
    return every(
        *(
            ratio(one if queue is None else one.at(queue=queue), one.at(queue=other)) < 1
            for one in variables
            for other in than
        )
    )


def quantile(values: metrics.Floats, share: float) -> float:
    """A quantile; NaN for an empty array."""
    return float(np.quantile(values, share)) if values.size else math.nan


def steps(
    values: Iterable[float | None], step_s: float, first: float = 0.0, factor: float = 1.0
) -> Iterator[tuple[Labels, float]]:
    """Values at equal time steps, for `of_runs`; the time of the first value is `first` steps."""
    for index, value in enumerate(values):
        if value is not None:
            yield {"time_s": (index + first) * step_s}, value * factor


def settled_after(active: Sequence[Sequence[float]], step_s: float) -> float:
    """The time, in seconds, at which the warm-up of a series that is averaged over runs ends according to
    MSER-5; infinite if the series does not settle. `step_s` is the time between consecutive values."""
    if not active:
        return 0.0
    cut = metrics.mser5([math.fsum(values) / len(active) for values in zip(*active, strict=True)])
    return math.inf if cut is None else cut * step_s


def warm_up_warning(
    series: Sequence[Variable], results: ExperimentResults, step_s: float, given: str, warm_up_s: float
) -> list[str]:
    """A warning if the warm-up is too short according to MSER-5, applied to the number of open transfers,
    averaged over seeds."""
    cuts = []
    for variable in series:
        seeds = seeds_of([variable], results)
        for labels in points_of(variable, results):
            active = variable.values(results, labels, seeds)
            cuts.append(settled_after([one for one in active if one is not None], step_s))
    longer = [cut for cut in cuts if cut > warm_up_s]
    if not longer:
        return []
    never = sum(math.isinf(cut) for cut in longer)
    most = max((cut for cut in longer if math.isfinite(cut)), default=math.nan)
    text = (
        f"Warm-up: MSER-5 on the mean number of open transfers needs more than {given} at "
        f"{len(longer)} of {len(cuts)} points"
    )
    if math.isfinite(most):
        text += f", at most {most:g} s"
    if never:
        text += f"; at {never} of them the number does not settle within the run"
    return [text + ". With such heavy-tailed sizes the load itself fluctuates; all queues get the same load."]
