"""The interface through which metrics and measures read a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import polars as pl


class Run(Protocol):
    """The data of a run that a measure may use."""

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The tables of the run, by table name."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The scenario with all defaults, the seed, the program version, the scenario's digest, and other
        information about the run."""

    @property
    def performance(self) -> Mapping[str, Any]:
        """Number of packets, number of events, and CPU time in seconds."""
