"""Measures of the study `coexistence`, which are the quantities that the recorded runs have.

The share of a group is the group's goodput divided by the goodput of both groups, over the whole run with its
slow start, as `iperf3` reports the goodput. The smoothed round trip is that of the first flow of a group,
read once per second, because `iperf3` reads the kernel's `tcpi_rtt` once per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Reduction, Run
from aqmlab.studies.coexistence.network import OTHER, PRAGUE
from aqmlab.studies.shared import mean, rows_of


def share(prague: float, other: float) -> float | None:
    """Prague's share of the sum of two goodputs, in percent; `None` if the sum is zero."""
    total = prague + other
    return 100 * prague / total if total else None


def _of_run(run: Run) -> Mapping[str, Any]:
    rates = {group: math.fsum(rows_of(run, "flows", group)["goodput_bps"]) for group in (PRAGUE, OTHER)}
    _, end_s = metrics.window(run.manifest)
    times = np.arange(1.0, math.floor(end_s) + 1)
    return {
        "share": share(*rates.values()),
        "goodput": math.fsum(rates.values()) / 1e6,
        **{f"{group}-srtt": srtt_ms(run, group, times) for group in rates},
    }


def srtt_ms(run: Run, group: str, times_s: Sequence[float] | metrics.Floats) -> float | None:
    """The mean smoothed round trip of a group's first flow at some times, in ms. Times before the first value
    are left out; `None` without a value."""
    rows = rows_of(run, "senders", group)
    rows = rows.filter(pl.col("flow") == pl.col("flow").min()).drop_nulls("srtt_s")
    index = np.searchsorted(rows["time_s"].to_numpy(), np.asarray(times_s), side="right") - 1
    values = rows["srtt_s"].to_numpy()[index[index >= 0]]
    return 1e3 * mean(values) if values.size else None


_measure = Reduction(prefix="coexistence.fabric", of=_of_run).measure

SHARE = _measure("share", "Prague's share of the goodput", "%")
GOODPUT = _measure("goodput", "goodput of both groups", "Mb/s")
PRAGUE_SRTT = _measure(f"{PRAGUE}-srtt", "Prague's smoothed round trip", "ms")
OTHER_SRTT = _measure(f"{OTHER}-srtt", "other's smoothed round trip", "ms")

ALL = (SHARE, GOODPUT, PRAGUE_SRTT, OTHER_SRTT)
