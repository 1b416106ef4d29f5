"""A point of a sweep: one scenario, with the labels that name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aqmlab.results.labels import Value, said


@dataclass(frozen=True, kw_only=True)
class Point:
    """One scenario of a sweep."""

    number: int
    labels: Mapping[str, Value]
    first_seed: int

    @property
    def said(self) -> str:
        """Its labels in words."""
        return said(self.labels)
