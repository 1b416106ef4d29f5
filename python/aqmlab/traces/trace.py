"""Traces: real packets, or made-up ones, replayed through a queue at a chosen rate of the line.

How many flows have a packet in a fair scheduler? A. Kortebi, L. Muscariello, S. Oueslati and J. Roberts,
"Evaluating the number of active flows in a scheduler realizing fair statistical bandwidth sharing", 2005,
found hundreds while tens of thousands are in progress; J. Roberts with J. Augé, "Fair queueing and
congestion control", 2005, say at most 500 below a load of 0.9. A flow is *active* while a packet of it
waits, and *in progress* from its first packet to its last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab._support.parallel import interruptible
from aqmlab.scenario import Scenario, changed

if TYPE_CHECKING:
    from aqmlab.charts.chart import Chart
    from aqmlab.scenario.run import Run

PUBLISHED_MOST_ACTIVE = 500
"""Active flows at most, below a load of 0.9, as the talk says."""


def of_file(
    path: str | Path,
    *,
    rate: str | None = None,
    queue: str | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Scenario:
    """The scenario that replays a capture (pcap, pcapng) or a list of flows (CSV), packed with gzip or not;
    the file is not read yet.

    `queue` is the kind of a discipline or its table, `changes` other values of the scenario by dotted path.
    Left out is what the core has as a default.
    """
    given: dict[str, Any] = {"level": "trace", "source": {"kind": "file", "path": str(path)}}
    if rate is not None:
        given["rate"] = rate
    if queue is not None:
        given["queue"] = {"kind": queue} if isinstance(queue, str) else dict(queue)
    return Scenario.from_dict(changed(given, changes or {}), name=Path(path).name)


def active_flows(
    path: str | Path,
    *,
    rate: str | None = None,
    queue: str | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Run:
    """Replays what [of_file] says: `active_flows("a.pcap", rate="2.5Gbps").summary`.

    Raises `TraceError` if the file is no trace.
    """
    return of_file(path, rate=rate, queue=queue, changes=changes).run()


def generated(changes: Mapping[str, Any]) -> Scenario:
    """The scenario of a made-up trace with published properties, with other values by dotted path."""
    given: dict[str, Any] = {"level": "trace", "source": {"kind": "generated"}}
    return Scenario.from_dict(changed(given, changes), name="made-up trace")


def write(scenario: Scenario, path: str | Path, *, watch: _core.Watch | None = None) -> dict[str, int]:
    """Writes a made-up trace as `.pcap` or `.csv`, with `.gz` behind it or not; returns how many `packets`
    (of a capture) and `flows`. Raises `TraceError` if the scenario is of anything else, or the file cannot be
    written."""
    text = interruptible(lambda watch: scenario.plan.write_trace(str(path), watch), watch)
    written: dict[str, int] = json.loads(text)
    return written


def charts(run: Run) -> dict[str, Chart]:
    """How often how many flows are active, and how active flows and those in progress go up and down."""
    import polars as pl

    from aqmlab.charts.chart import Chart

    distribution, active = run.tables["distribution"], run.tables["active"]
    in_progress = run.tables["in_progress"]
    share = distribution["active_share"]
    more = share.sum() - share.cum_sum()
    tail = pl.DataFrame({"flows": distribution["flows"], "share": more})
    # Rounding leaves a little behind the last.
    tail = tail.filter(pl.col("share") > 1e-12).with_columns(series=pl.lit("active"))
    found = {}
    if tail.height:
        found["active-tail"] = Chart(
            kind="curve",
            table=tail,
            x="flows",
            y="share",
            by="series",
            x_label="Active flows",
            y_label="Share of the time with more",
            log_y=True,
        )
    if active.height:
        each = active.select(
            "time_s", pl.col("most_flows").alias("most since the sample before"), sampled="flows"
        )
        found["active"] = Chart(
            kind="curve",
            table=each.unpivot(index="time_s", variable_name="series", value_name="flows"),
            x="time_s",
            y="flows",
            by="series",
            x_label="Time (s)",
            y_label="Active flows",
        )
    if in_progress.height:
        found["in-progress"] = Chart(
            kind="curve",
            table=in_progress.with_columns(series=pl.lit("in progress")),
            x="time_s",
            y="flows",
            by="series",
            x_label="Time (s)",
            y_label="Flows in progress",
        )
    return found
