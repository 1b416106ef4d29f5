"""The summary of a packet-level run: the most important numbers about links, traffic classes, flows and
transfers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab.metrics.tables import (
    TIMED,
    Tables,
    completed_times,
    drop_fraction,
    finite,
    goodput_bps,
    jain,
    mean_active,
    mean_delay_s,
    measured,
    measured_flows,
    window,
)

_OF_FLOWS = frozenset(
    {
        *("traffic", "end_s", "goodput_bps", "packets_sent", "packets_dropped", "retransmitted", "timeouts"),
        *("fast_retransmits", "datagrams_received", "mean_delay_s"),
    }
)
"""Columns of the table of flows that the summary needs."""

_OF_DIRECTIONS = _OF_FLOWS | {"packets_marked"}
"""Columns of the table of flows that the summary needs for the flows of programs."""


def of_tables(tables: Tables, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `summary` of `aqmlab run --json`: numbers about links, traffic classes, flows and transfers
    after the warm-up.

    A live run of programs also has `directions`, which contains, by workload, the traffic to the client and
    from the client. A number that is undefined is `None`, for example the mean time if there are no
    transfers. Flows and transfers are omitted if the run did not record the necessary columns
    (`record.flow_columns`, `record.transfer_columns`).
    """
    warm_up_s, end_s = window(manifest)
    flows, of_flows = _with(_OF_FLOWS, tables["flows"])
    transfers, of_transfers = _with(TIMED, tables["transfers"])
    return {
        "links": {str(row["link"]): _link_summary(row) for row in tables["links"].iter_rows(named=True)},
        "classes": _class_summary(tables["classes"]),
        "flows": {name: _flow_summary(measured_flows(flows, name, warm_up_s)) for name in of_flows},
        **_directions(tables),
        "transfers": {
            name: _transfer_summary(_of(transfers, name), warm_up_s, end_s) for name in of_transfers
        },
    }


def _link_summary(row: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("utilisation", "drop_fraction", "mark_fraction", "mean_queue_packets", "mean_queue_delay_s")
    return {key: _plain(row[key]) for key in keys}


def _class_summary(classes: pl.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns summaries of traffic classes, by link and class."""
    keys = ("throughput_bps", "drop_fraction", "mean_queue_packets", "mean_queue_delay_s")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in classes.iter_rows(named=True):
        of_link = found.setdefault(str(row["link"]), {})
        of_link[str(row["class"])] = {key: _plain(row[key]) for key in keys}
    return found


def _flow_summary(flows: pl.DataFrame) -> dict[str, Any]:
    return {
        "count": flows.height,
        "goodput_bps": goodput_bps(flows),
        "jain": _plain(flows.select(jain(pl.col("goodput_bps"))).item()) if flows.height else None,
        "drop_fraction": _plain(drop_fraction(flows)),
        "mean_delay_s": _plain(mean_delay_s(flows)),
        **_repairs(flows.filter(pl.col("datagrams_received").is_null())),
    }


def _directions(tables: Tables) -> dict[str, Any]:
    """Returns the traffic of each workload's programs to the client and from the client. The result is empty
    if there are no programs."""
    if "from_client" not in tables or not set(tables["flows"].columns) >= _OF_DIRECTIONS:
        return {}
    ways = {"to_client": tables["flows"], "from_client": tables["from_client"]}
    names = sorted(ways["from_client"]["traffic"].cast(pl.String).unique().to_list())
    found = {name: {way: _direction(_of(table, name)) for way, table in ways.items()} for name in names}
    return {"directions": found}


def _direction(flows: pl.DataFrame) -> dict[str, Any]:
    """Returns a summary of one direction of these flows."""
    connections = flows.filter(pl.col("datagrams_received").is_null())
    return {
        "packets": int(flows["packets_sent"].sum()),
        "goodput_bps": goodput_bps(flows),
        "drop_fraction": _plain(drop_fraction(flows)),
        "marked": int(flows["packets_marked"].sum()),
        "mean_delay_s": _plain(mean_delay_s(flows)),
        "retransmitted": int(connections["retransmitted"].sum()) if connections.height else None,
    }


def _repairs(connections: pl.DataFrame) -> dict[str, int | None]:
    """Returns the numbers of retransmitted segments, timeouts and fast retransmits of all connections. A
    number is `None` if there are no connections, or if the kernel does not report the number."""
    names = ("retransmitted", "timeouts", "fast_retransmits")
    known = {name: connections[name].drop_nulls() for name in names}
    return {name: int(found.sum()) if found.len() else None for name, found in known.items()}


def _transfer_summary(transfers: pl.DataFrame, warm_up_s: float, end_s: float) -> dict[str, Any]:
    ours = measured(transfers, warm_up_s)
    times = completed_times(transfers, warm_up_s)
    p50, p90, p99 = np.quantile(times, [0.5, 0.9, 0.99]) if times.size else (math.nan,) * 3
    return {
        "count": ours.height,
        "unfinished": ours.height - int(times.size),
        "mean_active": mean_active(transfers, warm_up_s, end_s),
        "mean_s": _plain(times.mean() if times.size else math.nan),
        "p50_s": _plain(p50),
        "p90_s": _plain(p90),
        "p99_s": _plain(p99),
    }


def _with(columns: frozenset[str], table: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Returns the table and its workloads. There are no workloads if the table lacks one of the columns."""
    if not columns <= set(table.columns):
        return table, []
    return table, sorted(table["traffic"].cast(pl.String).unique().to_list())


def _of(table: pl.DataFrame, traffic: str) -> pl.DataFrame:
    return table.filter(pl.col("traffic") == traffic)


def _plain(value: Any) -> float | None:
    number: float | None = finite(None if value is None else float(value))
    return number
