"""The result that mach computes from the probes of a run (`src/nq_rpm/mod.rs` of cf-mach 0.4.0).

At the end of each second, mach computes a responsiveness from the probes that began in the four seconds
before the last second and are complete. Each trimmed mean keeps the smallest 95 % of the times, rounded down;
the draft rounds up. The result of a test is the last responsiveness for which there are times of all kinds.
"""

from __future__ import annotations

import numpy as np
import polars as pl

import aqmlab as al
from aqmlab.metrics.responsiveness import KEPT, Rounds

INTERVALS = 12
"""Number of intervals of one second in a direction."""
WINDOW_S = 4.0
LATER_S = 1.0
"""Time by which aqmlab's connections are opened later than mach's (`simulated.py`)."""


def result(run: al.Run, direction: str) -> Rounds | None:
    """The times that enter the result of a direction; `None` if mach has no result."""
    phase = run.tables["test_probes"].filter(pl.col("phase").cast(pl.String) == direction)
    time = pl.col("time_s") - phase["time_s"].min() - LATER_S
    took = pl.sum_horizontal("tcp_s", "tls_s", "response_s")
    complete = phase.filter(pl.col("response_s").is_not_null())
    probes = complete.with_columns(time_s=time, complete_s=time + took)
    for interval in reversed(range(INTERVALS)):
        began = pl.col("time_s").is_between(interval - WINDOW_S, interval)
        found = kept(probes.filter(began & (pl.col("complete_s") <= interval + 1)))
        if all(one.size for one in (found.tcp, found.tls, found.http, found.loaded)):
            return found
    return None


def kept(probes: pl.DataFrame) -> Rounds:
    """The times of probes that the trimmed means keep."""

    def smallest(kind: str, column: str) -> np.ndarray:
        times = probes.filter(pl.col("probe").cast(pl.String) == kind)[column].drop_nulls().to_numpy()
        return np.sort(times)[: int(KEPT * times.size)]

    foreign = {name: smallest("foreign", column) for name, column in FOREIGN.items()}
    return Rounds(**foreign, loaded=smallest("self", "response_s"))


FOREIGN = {"tcp": "tcp_s", "tls": "tls_s", "http": "response_s"}
"""Columns of the times of a foreign probe."""
