"""Recorded runs of the Linux 6.1 kernel in the cases of the study `helsinki`, one row per replication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import polars as pl

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels, Value
from aqmlab.results.table import ExperimentResults, Results, Row
from aqmlab.studies.helsinki import measures
from aqmlab.studies.helsinki.testbed import BYTES, ONE_CLASS, PACKETS, RED, TAIL_DROP, TWO_CLASSES

BESIDE = {"linux-6.1 by counting": "linux-2.4", "linux-6.1": "linux-6"}
"""Recorded systems, with the simulated system with which each is compared."""

_QUEUES = {"tail": (TAIL_DROP, (BYTES,)), "ptail": (TAIL_DROP, (PACKETS,)), "red": (RED, (BYTES, PACKETS))}
"""Queues of the recorded replications, and the units of the simulated queues with which each is compared."""

_START = "_start_s"
"""Suffix of columns with the starting time of a workload, in seconds since the replication began."""


def table(name: str, **options: Any) -> pl.DataFrame:
    """A file of recorded results."""
    file = resources.files("aqmlab.studies") / "data" / f"helsinki_kernel_{name}.csv"
    return pl.read_csv(file.read_bytes(), **options)


@lru_cache(maxsize=1)
def results() -> ExperimentResults:
    """The kernel's replications as results, each labelled with the corresponding simulated system."""
    return {
        "third": _runs("third", "third_s", measures.OF_THREE),
        "burst": _runs("burst", "udp_s", measures.WITH_UDP),
    }


def in_place(_: ExperimentResults) -> ExperimentResults:
    """The recorded runs. This function has the type of `Reading.runs`."""
    return results()


def _runs(case: str, start: str, wanted: Iterable[Measure]) -> Results:
    rows = []
    for record in table(case).iter_rows(named=True):
        values = {one.name: record.get(one.name.rsplit(".", 1)[1]) for one in wanted}
        start_times = {name: time_s for name, time_s in record.items() if name.endswith(_START)}
        queue, units = _QUEUES[record["queue"]]
        for unit in units:
            labels: dict[str, Value] = {"system": BESIDE[record["system"]]}
            if "classes" in record:
                labels["service"] = {1: ONE_CLASS, 2: TWO_CLASSES}[record["classes"]]
            labels |= {"unit": unit, "queue": queue, "start": record[start]}
            rows.append(Row(labels=labels, seed=record["seed"], values=values | start_times))
    axes = {label: tuple(dict.fromkeys(row.labels[label] for row in rows)) for label in rows[0].labels}
    return Results.of_rows(rows, axes)


def starts(case: str, labels: Labels, seed: int) -> Mapping[str, float]:
    """The starting time of each workload of a replication, in seconds from the start of the replication."""
    runs = results()[case]
    values = runs.by_point[tuple(labels[label] for label in runs.axes)][seed].values
    return {name.removesuffix(_START): value for name, value in values.items() if name.endswith(_START)}
