"""Queries in SQL over everything in a store, by DuckDB. Nothing is written, whatever the query says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from aqmlab.store import tables as store_tables

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from aqmlab.store.store import Store


class QueryError(ValueError):
    """A query that DuckDB refuses: says why."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The columns of an answer and its rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def query(store: Store, sql: str) -> Answer:
    """Answers a query over `runs`, `values`, `scenarios`, `sweeps`, `points`, and a table for each sweep, of
    its name, with its labels, the seed and a column for each measure. Raises `QueryError`."""
    import duckdb

    tables = _tables(store)
    # Without access to files, a query can neither change the store nor read what is none of it.
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        try:
            connection.execute("SET enable_progress_bar = false")  # It would stand amid the answer.
            everything = re.search(r"\b(show|information_schema|duckdb_\w+)\b", sql, re.IGNORECASE)
            for name, make in tables.items():
                # What the query does not name need not be made.
                if everything or name.lower() in sql.lower():
                    _give(connection, name, make())
            connection.execute("SET lock_configuration = true")
            _refuse_changes(connection, sql)
            answer = connection.execute(sql)
            if answer is None or answer.description is None:
                raise QueryError("the query is empty: write, for example, SELECT * FROM runs")
            return Answer(columns=[one[0] for one in answer.description], rows=answer.fetchall())
        except duckdb.Error as error:
            said = str(error)
            if "Table with name" in said:  # What DuckDB proposes then are tables of its own.
                said = f"{said.partition(chr(10))[0]} There is {_listed(tables)}"
            raise QueryError(f"the query cannot be answered: {said}") from None


def _refuse_changes(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuses statements that answer nothing, such as `DROP TABLE`: they would change copies of tables."""
    import duckdb

    answering = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.PRAGMA)
    for statement in connection.extract_statements(sql):
        if statement.type not in answering:
            raise QueryError(
                f"the query holds a statement of the kind {statement.type.name}: a store is only read; write "
                "SELECT, for example SELECT * FROM runs"
            )


def _tables(store: Store) -> dict[str, Callable[[], pl.DataFrame]]:
    of_sweeps = store_tables.sweeps(store)
    wide = {
        name: partial(store_tables.wide, store, sweep)
        for sweep, name in store_tables.names(of_sweeps).items()
    }
    return wide | {
        "runs": store.runs,
        "values": store.values,
        "scenarios": lambda: store_tables.scenarios(store),
        "sweeps": lambda: of_sweeps,
        "points": lambda: store_tables.points(store),
    }


@dataclass(frozen=True)
class _Stream:
    """A table as Arrow alone, which DuckDB reads without more packages."""

    frame: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def _give(connection: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame) -> None:
    """Makes a table of DuckDB's own: some versions read a stream only once."""
    connection.register("aqmlab_stream", _Stream(frame))
    connection.execute(f"CREATE TABLE {_quoted(name)} AS FROM aqmlab_stream")
    connection.unregister("aqmlab_stream")


def _listed(tables: Iterable[str]) -> str:
    """Names of tables as a query has them."""
    return ", ".join(name if re.fullmatch(r"[A-Za-z_]\w*", name) else _quoted(name) for name in tables)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
