"""What studies share: changes of scenarios, from runs to small tables, and from numbers to text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab import metrics, stats
from aqmlab.grid import Runs
from aqmlab.measure import Run
from aqmlab.scenario import changed

Change = Callable[[dict[str, Any]], dict[str, Any]]
"""Another answer to a question that the source leaves open: changes a scenario."""


def keep(table: dict[str, Any]) -> dict[str, Any]:
    """The change that changes nothing."""
    return table


def tcp_with(changes: Mapping[str, Any]) -> Change:
    """Other parameters for the TCP of all, by their paths within `[tcp]`."""
    paths = {f"tcp.{path}": value for path, value in changes.items()}
    return lambda table: changed(table, paths)


def queue_with(kind: str, **changes: Any) -> Change:
    """Other parameters for every queue of this kind, at the bottleneck or at links by name."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        links = [table["bottleneck"]] if "bottleneck" in table else table["links"].values()
        for link in links:
            if link["queue"]["kind"] == kind:
                link["queue"].update(changes)
        return table

    return change


def constant(size_bytes: int) -> dict[str, Any]:
    """The distribution of sizes that are all equal."""
    return {"kind": "constant", "value": f"{size_bytes}B"}


def rows_of(run: Run, table: str, traffic: str) -> pl.DataFrame:
    """The rows of a table that belong to a workload."""
    return run.tables[table].filter(pl.col("traffic") == traffic)


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


def gain(runs: Runs, metric: str, ours: str, theirs: str, seeds: Sequence[int]) -> list[float]:
    """How much less a metric is under one queue than under another, in percent, seed by seed."""
    pairs = zip(
        runs.where(queue=ours).values(metric, seeds),
        runs.where(queue=theirs).values(metric, seeds),
        strict=True,
    )
    return [100 * (1 - a / b) if b > 0 else math.nan for a, b in pairs]


def estimates(rows: Iterable[tuple[str, Any, stats.Interval]], *, by: str, x: str) -> pl.DataFrame:
    """What a chart with intervals is drawn from: the group, where it stands, mean and interval."""
    flat = [(group, at, interval.value, interval.low, interval.high) for group, at, interval in rows]
    return pl.DataFrame(flat, schema=[by, x, "value", "low", "high"], orient="row")


def drop_functions(
    lines: Iterable[tuple[str, Mapping[str, Any], Sequence[Any]]], longest: int
) -> pl.DataFrame:
    """Drop probability at each average queue of up to `longest` packets, by the disciplines' own code.

    A line has a name, a discipline, and what `drop_curve` wants to know of the packet: its window over
    the average window, and its class.
    """
    from aqmlab._core import drop_curve

    averages = [float(length) for length in range(longest + 1)]
    frames = []
    for name, queue, packet in lines:
        curve = drop_curve(json.dumps(queue), averages, *packet)
        frames.append(pl.DataFrame({"line": name, "average_packets": averages, "probability": curve}))
    return pl.concat(frames)


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


def settled_after(runs: Runs, step_s: float) -> float:
    """When MSER-5 lets the series `active` begin, averaged over the runs, in seconds; infinity if it does
    not settle. `step_s` is the time from value to value."""
    series = [row.values["active"] for row in runs.rows]
    if not series:
        return 0.0
    cut = metrics.mser5([math.fsum(values) / len(series) for values in zip(*series, strict=True)])
    return math.inf if cut is None else cut * step_s


def tally(evidence: Mapping[str, stats.Evidence]) -> str:
    """How many claims hold, and which do not."""

    def named(verdict: str, said: str) -> str:
        ids = [claim for claim, one in evidence.items() if one.verdict == verdict]
        return f", {len(ids)} {said} ({', '.join(ids)})" if ids else ""

    holds = sum(one.verdict == "holds" for one in evidence.values())
    fails, undecided = named("fails", "fail"), named("undecided", "stay undecided")
    return f"Of {len(evidence)} claims, {holds} hold{fails}{undecided}."


Measure = tuple[str, str, int, float]
"""A line of an overview: its name, the metric, digits, and what to multiply by."""


def overview(runs: Runs, measures: Sequence[Measure]) -> pl.DataFrame:
    """Some measures, line by line, for each queue."""
    rows = {
        queue: [shown(runs.where(queue=queue), key, digits, scale) for _, key, digits, scale in measures]
        for queue in runs.axis("queue")
    }
    return pl.DataFrame({"measure": [name for name, *_ in measures], **rows})
