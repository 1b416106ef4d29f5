"""What the Linux 6.1 kernel does in the cases of the study `helsinki`: recorded, one row a replication."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

import polars as pl

from aqmlab import stats
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults, Results, Row
from aqmlab.studies.helsinki.experiments import (
    BYTES,
    ONE_CLASS,
    PACKETS,
    QUEUES,
    RED,
    TWO_CLASSES,
    burst,
    third,
)
from aqmlab.study.experiment import Experiment

BESIDE = {"linux-6.1 by counting": "linux-2.4", "linux-6.1": "linux-6"}
"""The systems that were recorded, and ours that each stands beside."""

_QUEUES = {"tail": "Tail Drop, bytes", "ptail": "Tail Drop, packets", "red": "RED"}
"""What the queues of the recorded replications are called in ours."""

SERVICES = {1: ONE_CLASS, 2: TWO_CLASSES}

STARTS = {
    "third": {name: f"{name}_start_s" for name in ("first", "second", "third")},
    "burst": {"file": "tcp_start_s", "voice": "udp_start_s"},
}
"""When the flows of a replication started, in its seconds, by case and workload."""

LOCK_OUT: Mapping[tuple[str, float], tuple[float, float, float]] = {
    ("Tail Drop, bytes", 2): (13.2, 12.6, 23.0),
    ("Tail Drop, bytes", 5): (11.2, 2.9, 12.8),
    ("Tail Drop, bytes", 5.5): (16.2, 2.9, 10.5),
    ("Tail Drop, packets", 2): (10.3, 8.8, 18.3),
    ("Tail Drop, packets", 5): (5.7, 3.6, 19.4),
    ("Tail Drop, packets", 5.5): (5.7, 3.7, 19.6),
    ("RED", 2): (14.0, 12.2, 23.2),
    ("RED", 5): (11.3, 9.8, 27.1),
    ("RED", 5.5): (11.7, 8.3, 27.2),
}
"""While the third flow is active, in percent: the share of its packets that is dropped, of the others', and
its share of the bytes; beside `linux-2.4`. Means of 20 further replications with packet traces, by queue and
start."""


@lru_cache(maxsize=1)
def results() -> ExperimentResults:
    """The kernel's replications in the form of ours, each labelled with the system of ours beside it."""
    return {"third": _runs(third, "third_s"), "burst": _runs(burst, "udp_s")}


def in_place(_: ExperimentResults) -> ExperimentResults:
    """The same, in the place of our runs."""
    return results()


def _runs(experiment: Experiment, start: str) -> Results:
    path = resources.files("aqmlab.studies") / "data" / f"helsinki_kernel_{experiment.name}.csv"
    rows = []
    for record in pl.read_csv(path.read_bytes()).iter_rows(named=True):
        values = {one.name: record.get(one.name.rsplit(".", 1)[1]) for one in experiment.wanted}
        begun = {name: record[name] for name in STARTS[experiment.name].values()}
        queue = _QUEUES[record["queue"]]
        labels = {"system": BESIDE[record["system"]], **QUEUES[queue], "start": record[start]}
        if "classes" in record:
            labels["service"] = SERVICES[record["classes"]]
        for unit in (BYTES, PACKETS) if queue == RED else (labels["unit"],):
            rows.append(Row(labels=labels | {"unit": unit}, seed=record["seed"], values=values | begun))
    axes = {label: tuple(dict.fromkeys(row.labels[label] for row in rows)) for label in experiment.labels}
    return Results.of_rows(rows=tuple(rows), axes=axes)


def starts(case: str, labels: Labels, seed: int) -> dict[str, float]:
    """When each workload of a replication started."""
    runs = results()[case]
    row = runs.by_point[tuple(labels[label] for label in runs.axes)][seed]
    return {workload: row.values[name] for workload, name in STARTS[case].items()}


AGREE = 0.1
"""How far apart two means may be that agree, as a share of the kernel's."""


def agree(ours: stats.Interval, theirs: stats.Interval) -> bool:
    """Whether two means are within 10 % of the second, or their intervals overlap."""
    near = abs(ours.value - theirs.value) <= AGREE * abs(theirs.value)
    return near or (ours.low <= theirs.high and theirs.low <= ours.high)
