"""What the Linux 6.1 kernel does in the cases of the study `helsinki`: recorded, one row a replication."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

import polars as pl

from aqmlab import stats
from aqmlab.experiment import Experiment
from aqmlab.runs import Labels, Results, Row, Runs
from aqmlab.studies.helsinki.experiments import (
    BYTES,
    ONE_CLASS,
    PACKETS,
    RED,
    TAIL_DROP,
    TWO_CLASSES,
    burst,
    third,
)

BESIDE = {"linux-6.1 by counting": "linux-2.4", "linux-6.1": "linux-6"}
"""The systems that were recorded, and ours that each stands beside."""

QUEUES: Mapping[str, Mapping[str, str]] = {
    "tail": {"queue": TAIL_DROP, "unit": BYTES},
    "ptail": {"queue": TAIL_DROP, "unit": PACKETS},
    "red": {"queue": RED},
}
"""What the queues of the recorded replications are called in ours."""

SERVICES = {1: ONE_CLASS, 2: TWO_CLASSES}

STARTS = {
    "third": {name: f"{name}_start_s" for name in ("first", "second", "third")},
    "burst": {"file": "tcp_start_s", "voice": "udp_start_s"},
}
"""When the flows of a replication started, in its seconds, by case and workload."""

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
    """The kernel's replications in the form of ours, each labelled with the system of ours beside it."""
    return {"third": _runs(third, "third_s"), "burst": _runs(burst, "udp_s")}


def _runs(experiment: Experiment, start: str) -> Runs:
    path = resources.files("aqmlab.studies") / "data" / f"helsinki_kernel_{experiment.name}.csv"
    rows = []
    for record in pl.read_csv(path.read_bytes()).iter_rows(named=True):
        values = {one.name: record.get(one.name.rsplit(".", 1)[1]) for one in experiment.measures}
        begun = {name: record[name] for name in STARTS[experiment.name].values()}
        at = {"system": BESIDE[record["system"]], "start": record[start], **QUEUES[record["queue"]]}
        if "classes" in record:
            at["service"] = SERVICES[record["classes"]]
        for unit in [at["unit"]] if "unit" in at else (BYTES, PACKETS):
            labels = {label: {**at, "unit": unit}[label] for label in experiment.labels}
            rows.append(Row(labels=labels, seed=record["seed"], values=values | begun))
    axes = {label: tuple(dict.fromkeys(row.labels[label] for row in rows)) for label in experiment.labels}
    return Runs(rows=tuple(rows), axes=axes)


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
