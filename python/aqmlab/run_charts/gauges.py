"""Charts of gauges, which are state variables of queue disciplines and edges over time.

The table `gauges` has a row for each sample. The discipline supplies the gauge's name and unit. This module
does not contain the names of gauges, so that a new discipline with different gauges does not require changes
here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from aqmlab.charts.chart import Chart

HOW_TO_RECORD = "the run has no samples of queues: set record.queue_every in the scenario to more than 0s"


def at(gauges: pl.DataFrame, *, link: str | None = None, node: str | None = None) -> pl.DataFrame:
    """Returns the gauges of a link's queue, or of the edge at a node, with the column `time_s` and a column
    for each gauge."""
    column, name = ("node", node) if link is None else ("link", link)
    rows = gauges.filter(pl.col(column) == name).with_columns(pl.col("name").cast(pl.String))
    return rows.pivot(on="name", index="time_s", values="value").sort("time_s")


def chart(gauges: pl.DataFrame, name: str, *more: str, location: str | None = None) -> Chart:
    """Returns a chart of a gauge over time, with a curve for each queue and edge that has the gauge. With
    `location` (a link or a node), the chart shows only the queue or edge at this location. With `more`
    gauges, the chart has several panels, one below the other: gauges with the same unit share a panel, and
    each gauge without a unit has its own panel.

    Raises `LookupError`, which lists the available names, for an unknown gauge or location.
    """
    rows = gauges.select(
        "time_s",
        pl.coalesce(pl.col("link").cast(pl.String), pl.col("node").cast(pl.String)).alias("location"),
        pl.col("name").cast(pl.String),
        "value",
        pl.col("unit").cast(pl.String),
    )
    if not rows.height:
        raise LookupError(HOW_TO_RECORD)
    if location is not None:
        _expect("link or node with a gauge", location, rows["location"])
        rows = rows.filter(pl.col("location") == location)
    for one in (name, *more):
        _expect("gauge", one, rows["name"])
    if more:
        return _panels(rows, (name, *more))
    rows = rows.filter(pl.col("name") == name)
    units = [unit for unit in rows["unit"].unique(maintain_order=True) if unit is not None]
    return Chart(
        kind="curve",
        table=rows.select("location", "time_s", pl.col("value").alias(name)),
        x="time_s",
        y=name,
        by="location",
        x_label="time (s)",
        y_label=_label([name], units),
    )


def _panels(rows: pl.DataFrame, names: tuple[str, ...]) -> Chart:
    """Returns panels in the order of `names`, with a curve for each gauge and location.

    Gauges with the same unit share a panel. Each gauge without a unit has its own panel, because gauges such
    as a count and a probability are not comparable.
    """
    rows = pl.concat([rows.filter(pl.col("name") == name) for name in names])
    label = pl.col("name").str.replace_all("_", " ")
    if rows["location"].n_unique() > 1:
        label = pl.concat_str(pl.col("location"), label, separator=", ")
    shared = rows.with_columns(pl.coalesce("unit", "name").alias("panel"))
    labels = {
        panel: _label(of_panel["name"].unique(maintain_order=True), of_panel["unit"].drop_nulls().unique())
        for (panel,), of_panel in shared.group_by("panel", maintain_order=True)
    }
    return Chart(
        kind="curve",
        table=shared.select(pl.col("panel").replace_strict(labels), label.alias("gauge"), "time_s", "value"),
        x="time_s",
        y="value",
        by="gauge",
        x_label="time (s)",
        y_label="",
        panel="panel",
        beneath={label: label for label in labels.values()},
    )


def _label(names: Iterable[str], units: Iterable[str]) -> str:
    """Returns the title of an axis."""
    unit = " or ".join(units)
    return ", ".join(name.replace("_", " ") for name in names) + (f" ({unit})" if unit else "")


def load(folder: Path) -> pl.DataFrame:
    """Reads the table from a folder that `aqmlab run --out` wrote. Raises `ValueError` if the file is
    missing."""
    path = folder / "gauges.parquet"
    if not path.is_file():
        raise ValueError(f"{folder}: contains no {path.name}: use a folder that `aqmlab run --out` wrote")
    return pl.read_parquet(path)


def _expect(kind: str, name: str, names: pl.Series) -> None:
    if name not in names:
        known = ", ".join(names.unique(maintain_order=True))
        raise LookupError(f"no {kind} is named `{name}`; available: {known}")
