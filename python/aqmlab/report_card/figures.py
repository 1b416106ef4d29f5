"""The figure of a card: goodput against delay, an ellipse for each column (RFC 7928, section 4)."""

from __future__ import annotations

import polars as pl

from aqmlab import stats
from aqmlab.charts.chart import Chart
from aqmlab.report_card.characterisation import Characterisation
from aqmlab.report_card.experiments import SECTIONS
from aqmlab.report_card.network import DROP_TAIL
from aqmlab.report_card.queues import EQUAL, SHIPPED

PICTURED = ("5.1.1", "5.2", "8.2.3")
"""The sections whose ellipses, on the symmetric line, stand on a card."""


def ellipses(found: Characterisation, queue: str) -> Chart | None:
    """Goodput against mean delay, a panel for each scenario: the median of the runs, and the contour of one
    standard deviation of the normal distribution that fits them. Nothing if no such scenario was run."""
    series = {DROP_TAIL: (DROP_TAIL, EQUAL), "equal room": (queue, EQUAL), "as shipped": (queue, SHIPPED)}
    if queue == DROP_TAIL:
        del series["equal room"]
    rows = [
        (one.title, name, part, x, y)
        for one in SECTIONS
        if one.number in PICTURED
        for name, (of, room) in series.items()
        for part, x, y in stats.ellipse(
            found.runs(of, room, one.number, "symmetric", ("long.delay", "long.goodput"))
        )
    ]
    if not rows:
        return None
    return Chart(
        kind="ellipses",
        table=pl.DataFrame(rows, schema=["panel", "queue", "part", "delay_ms", "goodput_mbps"], orient="row"),
        x="delay_ms",
        y="goodput_mbps",
        by="queue",
        panel="panel",
        x_label="mean queueing delay (ms)",
        y_label="goodput (Mb/s)",
    )
