"""How long packets waited in a queue, over time, while the rate of the line steps."""

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
"""More steps of a rate are not written into a picture."""


def recorded(scenario: Scenario, link: str) -> Scenario:
    """The scenario with all that happens to the packets of a link recorded, from the beginning."""
    return scenario.with_({"record.packets": [link], "warm_up": "0s"})


def chart(
    runs: Mapping[str, Run],
    link: str,
    *,
    every_s: float,
    traffic: str | None = None,
    steps: Sequence[tuple[float, str]] = (),
) -> Chart:
    """Waits of packets that carry data over time, by the name of a run with the packets of `link` recorded:
    means of equal times, between the least wait and the longest. Only those of `traffic`, if it is named.
    `steps` are moments and the rate from then on."""
    if not every_s > 0:
        raise ValueError("--every must be more than 0s")
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
    told: dict[str, float] = {}
    for at, rate in steps:
        told[f"{rate} at {at:g} s" if rate in told else rate] = at
    return Chart(
        kind="curve",
        table=pl.concat(of_runs),
        x="time_s",
        y="wait_ms",
        by="queue",
        x_label="time (s)",
        y_label="queueing delay (ms)" if traffic is None else f"queueing delay of {traffic} (ms)",
        guides=told,
    )


def rate_steps(scenario: Scenario, link: str) -> list[tuple[float, str]]:
    """When the rate of a link changes in a run, and to what; nothing if that is too often to be told."""
    found = scenario.plan.rate_steps(link, MOST_STEPS + 1)
    return found if len(found) <= MOST_STEPS else []
