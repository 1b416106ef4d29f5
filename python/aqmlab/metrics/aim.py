"""Computes the scores of Cloudflare's AIM (Aggregated Internet Measurement) for streaming, gaming and
real-time communication.

Each measured value gives points, the points of a score are added, and the sum has one of five names.
Thresholds and points: @cloudflare/speedtest 1.14.1 (MIT licence), `dist/speedtest.js`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAMES = ("bad", "poor", "average", "good", "great")
"""Names of the bands of a score, in ascending order."""

_DELAY = ((0.010, 0.020, 0.050, 0.100, 0.500), (20, 10, 5, 0, -10, -20))

POINTS: Mapping[str, tuple[Sequence[float], Sequence[int]]] = {
    "loss": ((0.01, 0.05, 0.25, 0.50), (10, 5, 0, -10, -20)),
    "latency": _DELAY,
    "increase": _DELAY,
    "jitter": ((0.010, 0.020, 0.100, 0.500), (10, 5, 0, -10, -20)),
    "download": ((1e6, 1e7, 5e7, 1e8), (0, 5, 10, 20, 30)),
}
"""Thresholds and points by the name of the value. A value that is equal to or larger than the first `n`
thresholds has the points number `n`. Times are in seconds, rates are in bits per second, and the loss is a
share."""


@dataclass(frozen=True)
class Score:
    """The values of which a score is the sum, and the lowest points of each band except the first."""

    values: Sequence[str]
    bands: Sequence[int]

    def of(self, line: Line) -> int:
        """Returns the points of a line, which are at least 0."""
        return max(0, sum(points(name, getattr(line, name)) for name in self.values))

    def name_of(self, total: float) -> str:
        """Returns the name of the band of these points, for example `good`."""
        return NAMES[bisect_right(self.bands, total)]


SCORES: Mapping[str, Score] = {
    "streaming": Score(("latency", "loss", "download", "increase"), (15, 20, 40, 60)),
    "gaming": Score(("latency", "loss", "increase"), (5, 15, 25, 30)),
    "rtc": Score(("latency", "jitter", "loss", "increase"), (5, 15, 25, 40)),
}
"""The scores by name."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """The values of a speed test. Times are in seconds, `loss` is a share, and `download` is in bits per
    second."""

    latency: float
    """Latency of the idle line."""
    jitter: float
    """Mean difference between successive latencies of the idle line."""
    loss: float
    download: float
    increase: float
    """Latency of the loaded line minus the latency of the idle line; the larger value of both directions."""


def points(name: str, value: float) -> int:
    """Returns the points of a value."""
    thresholds, found = POINTS[name]
    return found[bisect_right(thresholds, value)]
