"""Measures of the study `which-queue`.

The time of a page lasts from its first packet until the last byte of its last object has arrived. A page that
is incomplete when the run ends counts with the time until then, because the time would otherwise be missing
where the queue is worst. The mean of a run is that of all pages of the three Web users, who open their pages
at the same times with each queue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Reduction, Run, View
from aqmlab.metrics import calls
from aqmlab.studies.shared import mean, quantile
from aqmlab.studies.which_queue import network as net


def page_times(run: Run) -> pl.DataFrame:
    """The pages that began after the warm-up. `time_s` is the page time or, if the page is incomplete, the
    time from the start of the page to the end of the run."""
    warm_up_s, end_s = metrics.window(run.manifest)
    pages = run.tables["pages"]
    ours = pages.filter(pl.col("traffic").is_in(net.USERS) & (pl.col("start_s") >= warm_up_s))
    known = pl.when("complete").then("duration_s").otherwise(end_s - pl.col("start_s"))
    return ours.select("complete", known.alias("time_s"))


def _of_run(run: Run) -> Mapping[str, Any]:
    view, pages = View(run), page_times(run)
    times = pages["time_s"].to_numpy()
    warm_up_s, _ = view.window
    delays = calls.delays_of(run.tables["packets"], run.tables["flows"], net.CALL, warm_up_s)
    voices = calls.voices(delays, calls.CODECS[net.CODEC], 0.02)
    found: dict[str, Any] = {
        "page_s": mean(times),
        "log_page": math.log(mean(times)),
        "p95_s": quantile(times, 0.95),
        "unfinished": 100 * mean((~pages["complete"]).to_numpy().astype(np.float64)),
        "mos": min(one.mos for one in voices),
    }
    for workload, link in ((net.DOWN, net.DOWNLINK), (net.UP, net.UPLINK)):
        rates = run.tables["flows"].filter(pl.col("traffic") == workload)["goodput_bps"]
        row = view.link(link)
        found[f"{workload}_share"] = 100 * math.fsum(rates) / row["rate_bps"] if rates.len() else None
        found[f"{link}_ms"] = 1e3 * row["mean_queue_delay_s"]
    return found


_measure = Reduction(prefix="which-queue", of=_of_run).measure

PAGE = _measure("page_s", "page time", "s")
LOG_PAGE = _measure("log_page", "logarithm of the page time")
P95 = _measure("p95_s", "95 % of pages within", "s")
UNFINISHED = _measure("unfinished", "unfinished pages", "%")
MOS = _measure("mos", "call's opinion score")
DOWN_SHARE = _measure("down_share", "long download's share of the line", "%")
UP_SHARE = _measure("up_share", "long upload's share of the line", "%")
DOWN_DELAY = _measure("downlink_ms", "mean queueing delay down", "ms")
UP_DELAY = _measure("uplink_ms", "mean queueing delay up", "ms")

ALL = (PAGE, LOG_PAGE, P95, UNFINISHED, MOS, DOWN_SHARE, UP_SHARE, DOWN_DELAY, UP_DELAY)
