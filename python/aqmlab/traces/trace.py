"""Replays captured or synthetic packet traces through a queue with a selected link rate.

The purpose is to count the flows that have a packet queued in a fair scheduler. A. Kortebi, L. Muscariello,
S. Oueslati and J. Roberts, "Evaluating the number of active flows in a scheduler realizing fair statistical
bandwidth sharing", 2005, found hundreds of such flows among tens of thousands of flows in progress. J.
Roberts with J. Augé, "Fair queueing and congestion control", 2005, state a maximum of 500 below a load of
0.9. A flow is *active* while at least one of its packets is queued, and *in progress* from its first packet
to its last packet.
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
"""Published maximum number of active flows below a load of 0.9 (Roberts and Augé)."""


def of_file(
    path: str | Path,
    *,
    rate: str | None = None,
    queue: str | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Scenario:
    """Returns the scenario that replays a capture (pcap, pcapng) or a list of flows (CSV). The file may be
    compressed with gzip. This function does not read the file.

    `queue` is the kind or the table of a queue discipline. `changes` contains other values of the scenario by
    dotted path. Values that are not given have the core's defaults.
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
    """Replays a file. The arguments are those of `of_file`: `active_flows("a.pcap", rate="2.5Gbps").summary`.

    Raises `TraceError` if the file is not a valid trace.
    """
    return of_file(path, rate=rate, queue=queue, changes=changes).run()


def generated(changes: Mapping[str, Any]) -> Scenario:
    """Returns the scenario of a synthetic trace with published properties. `changes` contains other values by
    dotted path."""
    given: dict[str, Any] = {"level": "trace", "source": {"kind": "generated"}}
    return Scenario.from_dict(changed(given, changes), name="synthetic trace")


def write(scenario: Scenario, path: str | Path, *, watch: _core.Watch | None = None) -> dict[str, int]:
    """Writes a synthetic trace as `.pcap` or `.csv`. The additional ending `.gz` selects compression. Returns
    the numbers of `packets` (for a capture) and `flows`. Raises `TraceError` if the scenario is not a
    synthetic trace, or if the file cannot be written."""
    text = interruptible(lambda watch: scenario.plan.write_trace(str(path), watch), watch)
    written: dict[str, int] = json.loads(text)
    return written


def charts(run: Run) -> dict[str, Chart]:
    """Returns charts of the distribution of the number of active flows, and of the numbers of active flows
    and flows in progress over time."""
    import polars as pl

    from aqmlab.charts.chart import Chart

    distribution, active = run.tables["distribution"], run.tables["active"]
    in_progress = run.tables["in_progress"]
    share = distribution["active_share"]
    more = share.sum() - share.cum_sum()
    tail = pl.DataFrame({"flows": distribution["flows"], "share": more})
    # Because of rounding errors, the last values are small instead of zero.
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
            "time_s", pl.col("most_flows").alias("maximum since the previous sample"), sampled="flows"
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
