"""Gauges: what queue disciplines and edges show of their state, over time.

The table `gauges` has a row for each sample, with the name and the unit that the discipline tells. Nothing
here knows the name of any of them, so a new discipline's own gauge is drawn like the others.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from aqmlab.plot import Chart

HOW_TO_RECORD = "the run has no samples of queues: record.queue_every of the scenario must not be 0s"


def at(gauges: pl.DataFrame, *, link: str | None = None, node: str | None = None) -> pl.DataFrame:
    """The gauges of the queue of a link, or of the edge at a node: `time_s`, and a column for each gauge."""
    place, name = ("node", node) if link is None else ("link", link)
    rows = gauges.filter(pl.col(place) == name).with_columns(pl.col("name").cast(pl.String))
    return rows.pivot(on="name", index="time_s", values="value").sort("time_s")


def chart(gauges: pl.DataFrame, name: str, *, place: str | None = None) -> Chart:
    """A gauge over time: a line for each queue and edge that has it, or for the one at `place`.

    A place is a link or a node. Raises `LookupError`, which says what there is, if there is no such gauge.
    """
    rows = gauges.select(
        "time_s",
        pl.coalesce(pl.col("link").cast(pl.String), pl.col("node").cast(pl.String)).alias("place"),
        pl.col("name").cast(pl.String),
        "value",
        pl.col("unit").cast(pl.String),
    )
    if not rows.height:
        raise LookupError(HOW_TO_RECORD)
    if place is not None:
        _expect("link or node with a gauge", place, rows["place"])
        rows = rows.filter(pl.col("place") == place)
    _expect("gauge", name, rows["name"])
    rows = rows.filter(pl.col("name") == name)
    units = [unit for unit in rows["unit"].unique(maintain_order=True) if unit is not None]
    label = name.replace("_", " ") + (f" ({' or '.join(units)})" if units else "")
    return Chart(
        kind="curve",
        table=rows.select("place", "time_s", pl.col("value").alias(name)),
        x="time_s",
        y=name,
        by="place",
        x_label="time (s)",
        y_label=label,
    )


def load(folder: Path) -> pl.DataFrame:
    """The table that `aqmlab run --out` wrote; `ValueError` if it is not there."""
    path = folder / "gauges.parquet"
    if not path.is_file():
        raise ValueError(f"{folder}: holds no {path.name}: name a folder that `aqmlab run --out` wrote")
    return pl.read_parquet(path)


def _expect(what: str, name: str, names: pl.Series) -> None:
    if name not in names:
        known = ", ".join(names.unique(maintain_order=True))
        raise LookupError(f"there is no {what} named `{name}`; there is {known}")
