"""The picture of a trade-off: each score over the goodput, with a point for each candidate."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from aqmlab.advice.choice import GOODPUT, Assessment
from aqmlab.advice.uses import Score
from aqmlab.charts.chart import Chart


def chart(scores: Sequence[Score], assessments: Sequence[Assessment]) -> Chart:
    """Returns the chart, with a panel for each score. The intervals of the scores are drawn; the table also
    contains those of the goodput (`goodput_low`, `goodput_high`)."""
    rows = [
        {
            "score": score.label,
            "queue": one.name,
            "goodput": one.means[GOODPUT].value,
            "goodput_low": one.means[GOODPUT].low,
            "goodput_high": one.means[GOODPUT].high,
            "value": one.means[score.measure].value,
            "low": one.means[score.measure].low,
            "high": one.means[score.measure].high,
        }
        for score in scores
        for one in assessments
    ]
    return Chart(
        kind="line",
        table=pl.DataFrame(rows, infer_schema_length=None),
        x="goodput",
        y="value",
        by="queue",
        x_label="goodput of all workloads (Mbps)",
        y_label="",
        panel="score",
        beneath={score.label: score.label for score in scores},
    )
