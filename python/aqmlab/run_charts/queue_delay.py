"""Charts of queueing delay over time, together with changes of the link's rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.metrics.waits import waits

if TYPE_CHECKING:
    from aqmlab.measures import Run
    from aqmlab.scenario import Scenario

MOST_STEPS = 8
"""Maximum number of rate steps that a chart shows. If there are more steps, the chart shows none of them."""


def recorded(scenario: Scenario, link: str) -> Scenario:
    """Returns the scenario without warm-up, in which all packet events at a link are recorded."""
    return scenario.with_({"record.packets": [link], "warm_up": "0s"})


def chart(
    runs: Mapping[str, Run],
    link: str,
    *,
    every_s: float,
    traffic: str | None = None,
    steps: Sequence[tuple[float, str]] = (),
) -> Chart:
    """Returns a chart of the queueing delay of data packets over time, with a curve for each named run. The
    runs must have recorded the packets of `link`. The curves show means over intervals of `every_s` seconds,
    with bands from the minimum to the maximum. With `traffic`, only the packets of this workload are
    considered. `steps` contains times, and the link's rate from each of these times on."""
    if not every_s > 0:
        raise ValueError(f"--every: must be greater than 0s (got {every_s:g}s)")
    wait = 1000 * pl.col("wait_s")
    chosen = pl.col("link") == link
    if traffic is not None:
        chosen &= pl.col("traffic") == traffic
    of_runs = [
        waits(run)
        .filter(chosen)
        .group_by((pl.col("time_s") / every_s).floor().alias("part"))
        .agg(wait.mean().alias("wait_ms"), wait.min().alias("low"), wait.max().alias("high"))
        .sort("part")
        .with_columns(pl.lit(name).alias("queue"), ((pl.col("part") + 0.5) * every_s).alias("time_s"))
        .select("queue", "time_s", "wait_ms", "low", "high")
        for name, run in runs.items()
    ]
    guides: dict[str, float] = {}
    for at, rate in steps:
        guides[f"{rate} at {at:g} s" if rate in guides else rate] = at
    return Chart(
        kind="curve",
        table=pl.concat(of_runs),
        x="time_s",
        y="wait_ms",
        by="queue",
        x_label="time (s)",
        y_label="queueing delay (ms)" if traffic is None else f"queueing delay of {traffic} (ms)",
        guides=guides,
    )


def rate_steps(scenario: Scenario, link: str) -> list[tuple[float, str]]:
    """Returns the times and new rates of a link's rate steps. The result is empty for more than `MOST_STEPS`
    steps."""
    found = scenario.plan.rate_steps(link, MOST_STEPS + 1)
    return found if len(found) <= MOST_STEPS else []
