"""The picture of a flow: the time-sequence graph, and beneath it the window and the queues that dropped or
marked its packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from aqmlab.charts.chart import Chart, Mark
from aqmlab.run_charts import time_sequence

if TYPE_CHECKING:
    from aqmlab.explain.story import Story

WINDOW, THRESHOLD = "congestion window", "slow-start threshold"
MARKED, RESPONSE = "marked (ECN)", "response to a mark"
QUEUE_COLOURS = ("#4C4C4C", "#8C6BB1", "#A6761D")
"""Colours of the queues; further queues repeat them."""

MARKS = {
    WINDOW: Mark(colour="#0072B2", shape="steps", width=1.2),
    THRESHOLD: Mark(colour="#D55E00", shape="steps", width=0.9, layer=2),
    RESPONSE: Mark(colour="#E6007E", shape="dot", width=4.0, layer=5),
}
OF_MARKS = Mark(colour="#E6007E", shape="dot", width=3.2, layer=6)


def chart(story: Story) -> Chart:
    """Returns the picture of a flow. The table contains the time-sequence graph, the window and the
    slow-start threshold in segments (for connections), and the lengths of the queues, in packets, that
    dropped or marked packets of the flow (or of all queues, if no queue did). A mark is drawn at the time at
    which the packet left the queue."""
    tables = story.run.tables
    sequence = time_sequence.time_sequence(tables["packets"], story.flow, name="sequence")
    first, last = sequence.table["time_s"].min(), sequence.table["time_s"].max()
    within = pl.col("time_s").is_between(first, last)
    columns = ["panel", "event", "time_s", "value", "end"]
    drawn = sequence.table.select(
        pl.lit("sequence").alias("panel"), "event", "time_s", pl.col(sequence.y).alias("value"), "end"
    )
    parts, marks, labels = [drawn], dict(time_sequence.MARKS), {"sequence": sequence.y_label}
    marked = [one for one in story.marked if not one.backward]
    if marked:
        unit = 1e-3 if sequence.y.endswith("_kB") else 1.0
        ends = [one.first_byte + (one.payload_bytes if unit < 1 else 1) for one in marked]
        parts.append(
            pl.DataFrame(
                {
                    "panel": "sequence",
                    "event": MARKED,
                    "time_s": [one.time_s for one in marked],
                    "value": [one.first_byte * unit for one in marked],
                    "end": [end * unit for end in ends],
                }
            )
        )
        marks[MARKED] = OF_MARKS
    senders = tables["senders"].filter(pl.col("flow") == story.flow)
    if senders.height:
        top = 2 * max(senders["cwnd_segments"].to_list())
        for name, column in ((WINDOW, "cwnd_segments"), (THRESHOLD, "ssthresh_segments")):
            # Before the first loss, the threshold is the receiver's window, which would dwarf the congestion
            # window.
            values = senders.filter(pl.col(column) <= top) if name == THRESHOLD else senders
            parts.append(_steps(values, "window", name, pl.col(column)))
        responses = [one.time_s for one in story.reactions if one.kind == "mark"]
        answered = senders.filter(pl.col("time_s").is_in(responses)).unique("time_s", keep="last")
        parts.append(_steps(answered.sort("time_s"), "window", RESPONSE, pl.col("cwnd_segments")))
        marks |= MARKS
        labels["window"] = "window (segments)"
    queue = tables["queue"].filter(within).with_columns(pl.col("link").cast(pl.String))
    active = {*(loss.link for loss in story.losses), *(mark.link for mark in story.marked)}
    names = [name for name in queue["link"].unique(maintain_order=True) if not active or name in active]
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
