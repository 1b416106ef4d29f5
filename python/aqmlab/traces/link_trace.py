"""Generates synthetic traces of delivery opportunities in Mahimahi's format, for links such as cellular
links.

The rate varies randomly between 0 and twice the mean rate, and delivery opportunities occur randomly at this
rate. The model is based on K. Winstein, A. Sivaraman and H. Balakrishnan, "Stochastic Forecasts Achieve High
Throughput and Low Delay over Cellular Networks", 2013, who model the deliveries of a cellular link as a
Poisson process whose rate is a Brownian motion. The numbers are aqmlab's choice and do not describe a
measured link. The code uses only sums and products, so that a seed produces the same trace on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

BYTES = 1500
"""Size of the packet that one opportunity can deliver, as measured at the queue."""

STEP_MS = 20
"""Interval between changes of the rate."""

WANDERS = 0.2
"""Standard deviation of the change of the rate within a second, relative to the maximum rate."""

PARTS = 8
"""Number of parts into which a millisecond is divided. Each part contains at most one opportunity."""


def opportunities(rate_bps: float, duration_s: float, seed: int) -> Iterator[int]:
    """Yields the milliseconds at which opportunities occur. The mean number of opportunities corresponds to
    the rate."""
    most = 2 * rate_bps / (8 * BYTES)  # The maximum rate in opportunities per second.
    if most > 1000 * PARTS / 2:
        raise ValueError(
            f"--rate: must be at most {1000 * PARTS / 4 * 8 * BYTES / 1e6:g}Mbps (got {rate_bps / 1e6:g}Mbps)"
        )
    rng = random.Random(seed)
    moves = most * WANDERS * (STEP_MS / 1000) ** 0.5
    now = most / 2
    for millis in range(1, round(duration_s * 1000) + 1):
        if millis % STEP_MS == 0:
            now = abs(now + moves * (sum(rng.random() for _ in range(12)) - 6))
            now = min(now, 2 * most - now)
        chance = now / (1000 * PARTS)
        yield from (millis for _ in range(PARTS) if rng.random() < chance)
