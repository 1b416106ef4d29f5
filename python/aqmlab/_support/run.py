"""The interface of runs for metrics and measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import polars as pl


class Run(Protocol):
    """The data of a run that a measure may use."""

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The tables of the run by name."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The scenario with all defaults, the seed, the version, the digest, and facts about the run."""

    @property
    def performance(self) -> Mapping[str, Any]:
        """Numbers of packets and events, and CPU time in seconds."""
