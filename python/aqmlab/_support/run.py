"""What metrics and measures look at in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import polars as pl


class Run(Protocol):
    """What a measure may look at."""

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The run's tables, by name."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Effective scenario, seed, version, digest, facts."""

    @property
    def performance(self) -> Mapping[str, Any]:
        """Packets, events and CPU seconds."""
