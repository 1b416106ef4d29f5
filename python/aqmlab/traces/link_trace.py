"""Made-up traces of delivery opportunities, in the form of Mahimahi: a link such as a phone's.

The rate wanders at random between nothing and twice its mean, and opportunities come at random at that rate.
The idea is that of K. Winstein, A. Sivaraman and H. Balakrishnan, "Stochastic Forecasts Achieve High
Throughput and Low Delay over Cellular Networks", 2013, who take deliveries of a cellular link for a Poisson
process whose rate is a Brownian motion. The numbers are ours, and no measured link stands behind them. Only
sums and products are used, so that a seed gives the same trace everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

BYTES = 1500
"""Of a packet that leaves at an opportunity, as the queue measures it."""

STEP_MS = 20
"""How often the rate moves."""

WANDERS = 0.2
"""By what share of the highest rate it moves in a second: the standard deviation."""

PARTS = 8
"""Parts of a millisecond, in each of which there is an opportunity or none."""


def opportunities(rate_bps: float, duration_s: float, seed: int) -> Iterator[int]:
    """The milliseconds at which there is an opportunity, on average so many as the rate needs."""
    most = 2 * rate_bps / (8 * BYTES)  # In opportunities a second.
    if most > 1000 * PARTS / 2:
        raise ValueError(f"--rate: at most {1000 * PARTS / 4 * 8 * BYTES / 1e6:g}Mbps can be made up")
    rng = random.Random(seed)
    moves = most * WANDERS * (STEP_MS / 1000) ** 0.5
    now = most / 2
    for millis in range(1, round(duration_s * 1000) + 1):
        if millis % STEP_MS == 0:
            now = abs(now + moves * (sum(rng.random() for _ in range(12)) - 6))
            now = min(now, 2 * most - now)
        chance = now / (1000 * PARTS)
        yield from (millis for _ in range(PARTS) if rng.random() < chance)
