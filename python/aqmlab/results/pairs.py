"""Pairs of runs: runs of two points with equal seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def by_seed(ours: Mapping[int, T], theirs: Mapping[int, T]) -> tuple[list[T], list[T]]:
    """The values for the seeds that exist in both mappings, in the order of `ours`: two lists of equal
    length."""
    both = [seed for seed in ours if seed in theirs]
    return [ours[seed] for seed in both], [theirs[seed] for seed in both]
