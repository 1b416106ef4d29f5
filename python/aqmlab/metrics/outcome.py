"""Computes the Quality of Outcome (QoO): how close a network is to the optimal performance of an application.

The score is 100 if the network meets the requirements for optimal performance (ROP), and 0 if the network
fails a condition at the point of unacceptable performance (CPUP). Between these points, the score is
interpolated. Source: B. I. Teigen Monclair, M. Olden, I. Kunze, "Quality of Outcome", draft-ietf-ippm-qoo,
section "Calculating QoO".

The draft does not define how a percentile is computed. aqmlab's choice: the smallest value that is not
exceeded by the given share of the packets (nearest rank). A lost packet counts in the share of lost packets
only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aqmlab.metrics.tables import Floats


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The requirements of an application. Times are in seconds, and losses are shares of the packets."""

    title: str
    latency: Mapping[float, tuple[float, float]]
    """Optimal and unacceptable latency, by percentile (0 to 100)."""
    loss: tuple[float, float]
    """Optimal and unacceptable share of lost packets."""
    rate_bps: float = 0.0
    """Least required throughput, in bits per second."""


def _libreqos(title: str, optimal_ms: float, unacceptable_ms: float, loss: tuple[float, float]) -> Profile:
    return Profile(
        title=title,
        latency={95.0: (optimal_ms / 1e3, unacceptable_ms / 1e3)},
        loss=(loss[0] / 100, loss[1] / 100),
    )


PROFILES: Mapping[str, Profile] = {
    "web": _libreqos("Web browsing", 50, 100, (0.5, 1.0)),
    "streaming": _libreqos("video streaming", 50, 100, (0.1, 1.0)),
    "conferencing": _libreqos("video conferencing", 50, 100, (0.1, 0.5)),
    "audio": _libreqos("audio streaming", 50, 100, (0.1, 1.0)),
    "backup": _libreqos("online backup", 100, 150, (0.1, 1.0)),
    "gaming": _libreqos("real-time gaming", 50, 100, (0.5, 1.0)),
}
"""Profiles by name. The numbers are those of LibreQoS (`src/qoo_profiles.json`, schema version 2, commit
03ba9979), which applies the profiles to round-trip times. These profiles require no throughput."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The scores of a network, from 0 to 100."""

    latency: float
    loss: float
    throughput: float

    @property
    def score(self) -> float:
        """The QoO, which is the smallest of the three scores."""
        return min(self.latency, self.loss, self.throughput)


def percentile(sorted_values: Sequence[float] | Floats, percent: float) -> float:
    """Returns a percentile (nearest rank) of values in ascending order."""
    # The subtraction prevents a rounding error of the product from changing the rank.
    rank = math.ceil(percent / 100 * len(sorted_values) - 1e-9)
    return float(sorted_values[max(rank, 1) - 1])


def outcome(delays_s: Floats, lost: float, profile: Profile, rate_bps: float = math.inf) -> Outcome:
    """Returns the scores of a network with these delays (s) of the packets that arrived, this share of lost
    packets, and this throughput.

    The delays and the profile must be of the same kind: round trips, or one way in the same direction. If no
    packet arrived, the latency score is 0.
    """
    at = np.sort(delays_s)
    of_latency = min(
        _score(percentile(at, percent), limits) if at.size else 0.0
        for percent, limits in profile.latency.items()
    )
    enough = 100.0 if rate_bps >= profile.rate_bps else 0.0
    return Outcome(latency=of_latency, loss=_score(lost, profile.loss), throughput=enough)


def _score(value: float, limits: tuple[float, float]) -> float:
    optimal, unacceptable = limits
    return 100 * min(max(1 - (value - optimal) / (unacceptable - optimal), 0.0), 1.0)
