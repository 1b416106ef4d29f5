"""The loads of recorded pages, from the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

TABLES = frozenset({"page_loads", "page_objects"})
"""The tables of a run that contains recorded pages."""


def loads(tables: Mapping[str, pl.DataFrame], traffic: str, since_s: float) -> pl.DataFrame:
    """Returns the rows of `page_loads` of the workload `traffic` whose loads begin at `since_s` or later."""
    import polars as pl

    rows = tables["page_loads"]
    return rows.filter((pl.col("traffic") == traffic) & (pl.col("start_s") >= since_s))
