"""Quantiles of the samples in a measurement."""

from __future__ import annotations

from collections.abc import Sequence

LOADED_SHARE = 0.95
"""Quantile of the round-trip times under load that counts as the round-trip time with a full buffer. A
loss-based sender fills a Drop Tail buffer only for moments, so a median would underestimate the buffer; the
largest time is often an outlier of the measuring host. aqmlab's choice."""


def quantile(values: Sequence[float], share: float) -> float:
    """Returns the value at a share of the sorted values (nearest rank). `values` must not be empty."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
