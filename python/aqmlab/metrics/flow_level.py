"""Computes results of flow-level runs: the throughput of elastic flows, and the demand of flows."""

from __future__ import annotations

import math

import polars as pl

from aqmlab._support.run import Run
from aqmlab.metrics.tables import bits_per_second

ELASTIC = "elastic"
"""Name of all elastic flows together in the table `distribution`."""


def throughput_bps(run: Run) -> float:
    """Returns the number of bits that elastic flows carried, divided by the total time that the flows were in
    progress. Returns NaN if there are no elastic flows."""
    services = run.manifest["scenario"]["traffic"]
    elastic = [name for name, one in services.items() if one["service"] == "elastic"]
    ours = run.tables["classes"].filter(pl.col("traffic").cast(pl.String).is_in(elastic))
    at = run.tables["distribution"].filter(pl.col("traffic") == ELASTIC)
    area = float((at["flows"] * at["time_s"]).sum())
    return float(ours["carried_bytes"].sum()) * 8 / area if area > 0 else math.nan


def demand(run: Run) -> pl.DataFrame:
    """Returns, for each sample, the sum of the peak rates of the flows in progress divided by the capacity.
    For a flow without a peak rate, the capacity is used instead of the peak rate."""
    scenario = run.manifest["scenario"]
    capacity = bits_per_second(scenario["link"]["capacity"])
    demand_of_flow = {
        name: bits_per_second(one["peak_rate"]) / capacity if one["peak_rate"] else 1.0
        for name, one in scenario["traffic"].items()
    }
    share = pl.col("traffic").cast(pl.String).replace_strict(demand_of_flow, return_dtype=pl.Float64)
    samples = run.tables["in_progress"].with_columns(demand=share * pl.col("flows"))
    return samples.group_by("time_s", maintain_order=True).agg(pl.col("demand").sum())
