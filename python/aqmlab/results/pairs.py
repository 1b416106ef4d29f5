"""Pairs of runs: the runs of two points that have the same seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def by_seed(ours: Mapping[int, T], theirs: Mapping[int, T]) -> tuple[list[T], list[T]]:
    """The values of the seeds that both have, in the order of ours: two lists of the same length."""
    both = [seed for seed in ours if seed in theirs]
    return [ours[seed] for seed in both], [theirs[seed] for seed in both]
