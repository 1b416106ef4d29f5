"""Pairs of runs: the two runs of a pair belong to different points and have the same seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def by_seed(ours: Mapping[int, T], theirs: Mapping[int, T]) -> tuple[list[T], list[T]]:
    """Returns two lists of equal length with the values for the seeds that exist in both mappings, in the
    order of `ours`."""
    both = [seed for seed in ours if seed in theirs]
    return [ours[seed] for seed in both], [theirs[seed] for seed in both]
