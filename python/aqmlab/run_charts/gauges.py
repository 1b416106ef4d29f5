"""Gauges: what queue disciplines and edges show of their state, over time.

The table `gauges` has a row for each sample, with the name and the unit that the discipline tells. Nothing
here knows the name of any of them, so a new discipline's own gauge is drawn like the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from aqmlab.charts.chart import Chart

HOW_TO_RECORD = "the run has no samples of queues: record.queue_every of the scenario must not be 0s"


def at(gauges: pl.DataFrame, *, link: str | None = None, node: str | None = None) -> pl.DataFrame:
    """The gauges of the queue of a link, or of the edge at a node: `time_s`, and a column for each gauge."""
    place, name = ("node", node) if link is None else ("link", link)
    rows = gauges.filter(pl.col(place) == name).with_columns(pl.col("name").cast(pl.String))
    return rows.pivot(on="name", index="time_s", values="value").sort("time_s")


def chart(gauges: pl.DataFrame, name: str, *more: str, place: str | None = None) -> Chart:
    """A gauge over time: a line for each queue and edge that has it, or for the one at `place`. With `more`
    gauges there are panels, one beneath another: those of a unit share one, and those without have one each.

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
    for one in (name, *more):
        _expect("gauge", one, rows["name"])
    if more:
        return _several(rows, (name, *more))
    rows = rows.filter(pl.col("name") == name)
    units = [unit for unit in rows["unit"].unique(maintain_order=True) if unit is not None]
    return Chart(
        kind="curve",
        table=rows.select("place", "time_s", pl.col("value").alias(name)),
        x="time_s",
        y=name,
        by="place",
        x_label="time (s)",
        y_label=_label([name], units),
    )


def _several(rows: pl.DataFrame, names: tuple[str, ...]) -> Chart:
    """Gauges in panels in the order of their names; a line for each gauge and place.

    Those of one unit share a panel; those without have one each, as a count and a probability do not compare.
    """
    rows = pl.concat([rows.filter(pl.col("name") == name) for name in names])
    said = pl.col("name").str.replace_all("_", " ")
    if rows["place"].n_unique() > 1:
        said = pl.concat_str(pl.col("place"), said, separator=", ")
    shared = rows.with_columns(pl.coalesce("unit", "name").alias("panel"))
    labels = {
        panel: _label(of_panel["name"].unique(maintain_order=True), of_panel["unit"].drop_nulls().unique())
        for (panel,), of_panel in shared.group_by("panel", maintain_order=True)
    }
    return Chart(
        kind="curve",
        table=shared.select(pl.col("panel").replace_strict(labels), said.alias("gauge"), "time_s", "value"),
        x="time_s",
        y="value",
        by="gauge",
        x_label="time (s)",
        y_label="",
        panel="panel",
        beneath={label: label for label in labels.values()},
    )


def _label(names: Iterable[str], units: Iterable[str]) -> str:
    """What an axis says."""
    told = " or ".join(units)
    return ", ".join(name.replace("_", " ") for name in names) + (f" ({told})" if told else "")


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
