"""Runs SQL queries on the contents of a store with DuckDB. Queries cannot change the store."""

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
    """The exception for a query that DuckDB rejects. The message contains the reason."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a query: the names of the columns, and the rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def query(store: Store, sql: str) -> Answer:
    """Runs a query on the tables `runs`, `values`, `scenarios`, `sweeps` and `points`. Each sweep is an
    additional table, named after the sweep, with columns for the labels, the seed and each measure. Raises
    `QueryError`."""
    import duckdb

    tables = _tables(store)
    # Access to files is disabled, so that a query can neither change the store nor read other files.
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        try:
            # A progress bar would appear in the middle of the result.
            connection.execute("SET enable_progress_bar = false")
            everything = re.search(r"\b(show|information_schema|duckdb_\w+)\b", sql, re.IGNORECASE)
            for name, make in tables.items():
                # Tables that the query does not mention are not built.
                if everything or name.lower() in sql.lower():
                    _create_table(connection, name, make())
            connection.execute("SET lock_configuration = true")
            _refuse_changes(connection, sql)
            answer = connection.execute(sql)
            if answer is None or answer.description is None:
                raise QueryError("the query is empty: write a query such as SELECT * FROM runs")
            return Answer(columns=[one[0] for one in answer.description], rows=answer.fetchall())
        except duckdb.Error as error:
            message = str(error)
            if "Table with name" in message:  # The complete message would suggest DuckDB's internal tables.
                message = f"{message.partition(chr(10))[0]} Available: {_listed(tables)}"
            raise QueryError(f"the query failed: {message}") from None


def _refuse_changes(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Rejects statements without a result, such as `DROP TABLE`, because such statements would change only
    copies of tables."""
    import duckdb

    allowed = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.PRAGMA)
    for statement in connection.extract_statements(sql):
        if statement.type not in allowed:
            raise QueryError(
                f"the query contains a statement of the kind {statement.type.name}, but stores are "
                "read-only: write SELECT, for example SELECT * FROM runs"
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
    """A table that provides only the Arrow interface, which DuckDB can read without additional packages."""

    frame: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def _create_table(connection: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame) -> None:
    """Copies a frame to a DuckDB table, because some versions of DuckDB can read a stream only once."""
    connection.register("aqmlab_stream", _Stream(frame))
    connection.execute(f"CREATE TABLE {_quoted(name)} AS FROM aqmlab_stream")
    connection.unregister("aqmlab_stream")


def _listed(tables: Iterable[str]) -> str:
    """Returns the names of tables in SQL syntax."""
    return ", ".join(name if re.fullmatch(r"[A-Za-z_]\w*", name) else _quoted(name) for name in tables)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
