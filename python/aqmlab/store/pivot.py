"""Converts runs with lists of numbers to a table with a column for each measure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab.results.table import DONE, Results, label_column
from aqmlab.store.index import Contents
from aqmlab.store.selection import Selection

JSON, INT = "json", "int"
"""The kinds of values that a column of `Float64` cannot represent unchanged."""

TABLE = "tables/"
"""Prefix of the names of measures that are complete tables of runs."""


def results(
    contents: Contents, selection: Selection, frame_there: Callable[[Mapping[str, Any]], bool]
) -> Results:
    """Returns a table of the selected runs that the store contains, in the order of the selection.

    `frame_there` returns whether the file of a stored table exists.
    """
    called = {key: one.name for key, one in selection.measures.items() if not key.startswith(TABLE)}
    rows = _rows(contents, selection)
    shapes = contents.shapes().filter(pl.col("shape").is_in(rows["shape"].unique().implode()))
    if selection.whole:
        rows = rows.filter(
            pl.Series(_whole(rows, shapes, list(selection.measures), frame_there), dtype=pl.Boolean)
        )
    points = [selection.runs[index].point for index in rows["at"].to_list()]
    labels = {
        label: label_column([point[index] for point in points], values)
        for index, (label, values) in enumerate(selection.axes.items())
    }
    of_runs = rows.select("seed", "status", "error", "scenario")
    columns = numbers(rows, shapes, called)
    return Results(
        pl.concat([pl.DataFrame(labels), of_runs, columns], how="horizontal"),
        axes={label: tuple(values) for label, values in selection.axes.items()},
        measures={called[key]: one for key, one in selection.measures.items() if key in called},
        name=selection.name,
        given_points=None if selection.points is None else tuple(selection.points),
        looks=selection.looks,
        precise=selection.precise,
        paths=selection.paths,
        own_seeds=tuple(selection.own_seeds),
        wanted=selection.wanted,
        too_wide=selection.too_wide,
        exact=_exact(rows, shapes, called),
    )


def _rows(contents: Contents, selection: Selection) -> pl.DataFrame:
    """Returns the stored runs with their index in the selection (`at`), sorted by index and seed."""
    selected = pl.DataFrame(
        {
            "at": range(len(selection.runs)),
            "scenario": [one.scenario for one in selection.runs],
            "first": [one.first_seed for one in selection.runs],
            "count": [one.count for one in selection.runs],
        },
        schema={"at": pl.UInt32, "scenario": pl.String, "first": pl.Int64, "count": pl.Int64},
    )
    within = (pl.col("seed") >= pl.col("first")) & (pl.col("seed") < pl.col("first") + pl.col("count"))
    return selected.join(contents.runs(), on="scenario", how="inner").filter(within).sort("at", "seed")


def numbers(rows: pl.DataFrame, shapes: pl.DataFrame, called: Mapping[str, str]) -> pl.DataFrame:
    """Returns a column of numbers for each key in `called`, which maps keys of measures to names of columns.
    A number is null where a run has no value. `rows` has the columns `shape` and `numbers` of the index, and
    determines the order of the numbers. `shapes` contains the shapes of these rows."""
    parts = [pl.DataFrame(schema={"row": pl.UInt32} | dict.fromkeys(called.values(), pl.Float64))]
    numbered = rows.select("shape", "numbers").with_row_index("row")
    for shape, keys, _, _, _ in shapes.iter_rows():
        columns = [
            pl.col("numbers").list.get(index).alias(called[key])
            for index, key in enumerate(keys)
            if key in called
        ]
        parts.append(numbered.filter(pl.col("shape") == shape).select("row", *columns))
    return pl.concat(parts, how="diagonal").sort("row").drop("row")


def _exact(rows: pl.DataFrame, shapes: pl.DataFrame, called: Mapping[str, str]) -> dict[str, tuple[Any, ...]]:
    """Returns, by measure, the original values of measures whose values are whole numbers or JSON."""
    kinds: dict[int, dict[str, tuple[int, str]]] = {}
    names: dict[str, None] = {}
    for shape, keys, _, _, of_keys in shapes.iter_rows():
        kinds[shape] = {
            called[key]: (index, kind)
            for index, (key, kind) in enumerate(zip(keys, of_keys, strict=True))
            if key in called
        }
        names |= {name: None for name, (_, kind) in kinds[shape].items() if kind in (JSON, INT)}
    if not names:
        return {}
    keys_of = {name: key for key, name in called.items()}
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for shape, values, text in rows.select("shape", "numbers", "structured").iter_rows():
        structured = json.loads(text) if text else {}
        for name in names:
            index, kind = kinds[shape].get(name, (0, ""))
            value = values[index] if kind and kind != JSON else structured.get(keys_of[name])
            columns[name].append(int(value) if kind == INT and value is not None else value)
    return {name: tuple(column) for name, column in columns.items()}


def _whole(
    rows: pl.DataFrame,
    shapes: pl.DataFrame,
    keys: Sequence[str],
    frame_there: Callable[[Mapping[str, Any]], bool],
) -> list[bool]:
    """Returns, for each run, whether the run succeeded and has a value or a table for each of these keys of
    measures."""
    lacking = {shape: set(keys) - set(known) for shape, known, _, _, _ in shapes.iter_rows()}

    def has_tables(shape: int, text: str | None) -> bool:
        frames = json.loads(text) if lacking[shape] and text else {}
        return all(key in frames and frame_there(frames[key]) for key in lacking[shape])

    return [
        status == DONE and has_tables(shape, frames)
        for status, shape, frames in rows.select("status", "shape", "frames").iter_rows()
    ]
