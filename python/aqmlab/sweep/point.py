"""The points of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aqmlab.results.labels import Value, format_labels


@dataclass(frozen=True, kw_only=True)
class Point:
    """One scenario of a sweep. A point is identified by its number and its labels."""

    number: int
    labels: Mapping[str, Value]
    first_seed: int

    @property
    def description(self) -> str:
        """Returns the labels as text."""
        return format_labels(self.labels)
