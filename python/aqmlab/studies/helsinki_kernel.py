"""What the Linux 6.1 kernel does in the cases of the study `helsinki`: recorded, one row a replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.grid import Results, Row, Runs

LABELS = ("system", "queue", "classes", "third_s", "udp_s")

STARTS = ("first_start_s", "second_start_s", "third_start_s", "tcp_start_s", "udp_start_s")
"""When the flows of a replication started, in its seconds: those of the first case, and of the second."""

LOCK_OUT: Mapping[tuple[str, float], tuple[float, float, float]] = {
    ("tail", 2): (0.132, 0.126, 0.230),
    ("tail", 5): (0.112, 0.029, 0.128),
    ("tail", 5.5): (0.162, 0.029, 0.105),
    ("ptail", 2): (0.103, 0.088, 0.183),
    ("ptail", 5): (0.057, 0.036, 0.194),
    ("ptail", 5.5): (0.057, 0.037, 0.196),
    ("red", 2): (0.140, 0.122, 0.232),
    ("red", 5): (0.113, 0.098, 0.271),
    ("red", 5.5): (0.117, 0.083, 0.272),
}
"""While the third flow is active: the share of its packets that is dropped, of the others', and its share of
the bytes; beside `linux-2.4`. Means of 20 further replications with packet traces, by queue and start."""


@lru_cache(maxsize=1)
def results() -> Results:
    """The kernel's replications in the form of ours; the labels name the system of ours beside it."""
    return {name: _runs(f"helsinki_kernel_{name}.csv") for name in ("third", "burst")}


def _runs(file: str) -> Runs:
    path = resources.files("aqmlab.studies") / "data" / file
    rows = []
    for record in pl.read_csv(path.read_bytes()).iter_rows(named=True):
        labels = {name: record[name] for name in LABELS if name in record}
        values = {name: value for name, value in record.items() if name not in labels and name != "seed"}
        rows.append(Row(labels=labels, seed=record["seed"], values=values))
    return Runs(rows=tuple(rows))


def starts(sweep: str, seed: int, **labels: Any) -> list[float]:
    """When the flows of a replication started, in the order of `STARTS`."""
    (row,) = (row for row in results()[sweep].where(**labels).rows if row.seed == seed)
    return [row.values[name] for name in STARTS if name in row.values]


AGREE = 0.1
"""How far apart two means may be that agree, as a share of the kernel's."""


def agree(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether two means are within 10 % of the second, or their intervals overlap."""
    mine, its = stats.mean_interval(ours), stats.mean_interval(theirs)
    near = abs(mine.value - its.value) <= AGREE * abs(its.value)
    return near or (mine.low <= its.high and its.low <= mine.high)
