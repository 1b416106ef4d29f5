"""Measures of coexistence: the share of the first congestion control, and for each control the queueing
delay, loss and marks of its endless flows, and the completion times of its short transfers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.coexistence.network import LINK, SIDES, short
from aqmlab.measures import Measure, Reduction, Run
from aqmlab.metrics.waits import waits

SHARE, FAIRNESS = "share", "jain"

OF_SIDE: Mapping[str, tuple[str, str]] = {
    "delay": ("queueing delay, mean", "ms"),
    "p95-delay": ("queueing delay, 95th percentile", "ms"),
    "drops": ("packets dropped", "%"),
    "marks": ("packets marked", "%"),
    "median-time": ("time of short transfers, median", "ms"),
    "p95-time": ("time of short transfers, 95th percentile", "ms"),
}
"""Titles and units of the measures of each side."""

UTILISATION = f"{LINK}.utilisation"


def _of_run(run: Run) -> Mapping[str, Any]:
    warm_up_s, _ = metrics.window(run.manifest)
    flows = run.tables["flows"].with_columns(pl.col("traffic").cast(pl.String))
    transfers = run.tables["transfers"].with_columns(pl.col("traffic").cast(pl.String))
    of_packets = waits(run)
    found: dict[str, Any] = {}
    goodputs = {}
    for side in SIDES:
        ours = flows.filter(pl.col("traffic") == side)
        goodputs[side] = ours["goodput_bps"]
        waits_ms = 1e3 * of_packets.filter(pl.col("traffic") == side)["wait_s"].to_numpy()
        times_ms = 1e3 * metrics.completed_times(
            transfers.filter(pl.col("traffic") == short(side)), warm_up_s
        )
        sent = int(ours["packets_sent"].sum())
        values = {
            "delay": float(waits_ms.mean()) if waits_ms.size else None,
            "p95-delay": _quantile(waits_ms, 0.95),
            "drops": 100 * ours["packets_dropped"].sum() / sent if sent else None,
            "marks": 100 * ours["packets_marked"].sum() / sent if sent else None,
            "median-time": _quantile(times_ms, 0.5),
            "p95-time": _quantile(times_ms, 0.95),
        }
        found |= {f"{side}.{name}": value for name, value in values.items()}
    first, second = (float(goodputs[side].sum()) for side in SIDES)
    rates = np.concatenate([goodputs[side].to_numpy() for side in SIDES])
    total = first + second
    found[SHARE] = 100 * first / total if total else None
    found[FAIRNESS] = metrics.jain_of(total, float((rates**2).sum()), rates.size) if total else None
    return found


def _quantile(values: Any, share: float) -> float | None:
    return float(np.quantile(values, share)) if values.size else None


_REDUCTION = Reduction(prefix="coexistence", of=_of_run)

MEASURES: Mapping[str, Measure] = {
    SHARE: _REDUCTION.measure(SHARE, "share of first", "%"),
    FAIRNESS: _REDUCTION.measure(FAIRNESS, "Jain's index"),
    **{
        f"{side}.{name}": _REDUCTION.measure(f"{side}.{name}", f"{side}: {title}", unit)
        for name, (title, unit) in OF_SIDE.items()
        for side in SIDES
    },
}
"""The measures by the names that `_of_run` returns."""
