"""The picture of a flow: the time-sequence graph, and beneath it the window and the queues that dropped its
packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from aqmlab.charts.chart import Chart, Mark
from aqmlab.run_charts import time_sequence

if TYPE_CHECKING:
    from aqmlab.explain.story import Story

WINDOW, THRESHOLD = "congestion window", "slow-start threshold"
QUEUE_COLOURS = ("#4C4C4C", "#8C6BB1", "#A6761D")
"""Colours of the queues; further queues repeat them."""

MARKS = {
    WINDOW: Mark(colour="#0072B2", shape="steps", width=1.2),
    THRESHOLD: Mark(colour="#D55E00", shape="steps", width=0.9, layer=2),
}


def chart(story: Story) -> Chart:
    """Returns the picture of a flow. The table contains the time-sequence graph, the window and the
    slow-start threshold in segments (for connections), and the lengths of the queues, in packets, on which
    the flow lost packets (or of all queues, if the flow lost no packets)."""
    tables = story.run.tables
    sequence = time_sequence.time_sequence(tables["packets"], story.flow, name="sequence")
    first, last = sequence.table["time_s"].min(), sequence.table["time_s"].max()
    within = pl.col("time_s").is_between(first, last)
    columns = ["panel", "event", "time_s", "value", "end"]
    drawn = sequence.table.select(
        pl.lit("sequence").alias("panel"), "event", "time_s", pl.col(sequence.y).alias("value"), "end"
    )
    parts, marks, labels = [drawn], dict(time_sequence.MARKS), {"sequence": sequence.y_label}
    senders = tables["senders"].filter(pl.col("flow") == story.flow)
    if senders.height:
        top = 2 * max(senders["cwnd_segments"].to_list())
        for name, column in ((WINDOW, "cwnd_segments"), (THRESHOLD, "ssthresh_segments")):
            # Before the first loss, the threshold is the receiver's window, which would dwarf the congestion
            # window.
            values = senders.filter(pl.col(column) <= top) if name == THRESHOLD else senders
            parts.append(_steps(values, "window", name, pl.col(column)))
        marks |= MARKS
        labels["window"] = "window (segments)"
    queue = tables["queue"].filter(within).with_columns(pl.col("link").cast(pl.String))
    lossy = list(dict.fromkeys(loss.link for loss in story.losses))
    names = [name for name in queue["link"].unique(maintain_order=True) if not lossy or name in lossy]
    for index, name in enumerate(names):
        label = f"queue of {name}"
        parts.append(_steps(queue.filter(pl.col("link") == name), "queue", label, pl.col("length_packets")))
        marks[label] = Mark(
            colour=QUEUE_COLOURS[index % len(QUEUE_COLOURS)], shape="steps", width=1.0, layer=2
        )
        labels["queue"] = "queue (packets)"
    table = pl.concat([part.select(columns) for part in parts], how="vertical_relaxed")
    return Chart(
        kind="marks",
        table=table,
        x="time_s",
        y="value",
        by="event",
        x_label="time (s)",
        y_label="",
        panel="panel",
        marks=marks,
        beneath=labels,
    )


def _steps(rows: pl.DataFrame, panel: str, label: str, value: pl.Expr) -> pl.DataFrame:
    """Returns the rows of a stepped line."""
    return rows.select(
        pl.lit(panel).alias("panel"),
        pl.lit(label).alias("event"),
        "time_s",
        value.cast(pl.Float64).alias("value"),
        value.cast(pl.Float64).alias("end"),
    )
