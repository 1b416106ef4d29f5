"""Generates links similar to Starlink: slots of 15 s, each with a rate and a propagation delay, and a short
outage at each edge of a slot.

Sources:

- N. Mohan et al., "A Multifaceted Look at Starlink Performance", WWW 2024 (arXiv:2310.09242): all links are
  reconfigured every 15 s, at the same times, with substantial changes of latency and throughput.
- G. Huston, "A transport protocol's view of Starlink", APNIC blog, 2024-05-17: the minimum latency changes
  every 15 s, handovers add 30 ms to 50 ms, the worst change of a round-trip time is from 30 ms to 80 ms,
  throughput ranges from 10 Mb/s to 370 Mb/s, and 1 % to 2 % of packets are lost without congestion.
- D. Laniewski et al., "WetLinks", 2024 (arXiv:2402.16448): downloads range from 0 Mb/s to more than 400 Mb/s.

The rates of the slots are distributed uniformly, in proportion to Huston's range. The round-trip times of
the slots follow a triangular distribution from 25 ms to 60 ms with the mode 33 ms, the median that SpaceX
reported in March 2024. The shapes of these distributions are aqmlab's choice. Latency that varies within a
slot is not modelled. The code uses only sums, products and square roots, so that a seed produces the same
link on every machine.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

SLOT_S = 15
"""Length of a slot in seconds."""

RATES = (10 / 190, 370 / 190)
"""Lowest and highest rate of a slot, relative to the mean rate."""

ROUND_TRIPS_S = (0.025, 0.033, 0.060)
"""Lowest, most frequent and highest round-trip time of a slot, in seconds."""

OUTAGES_S = (0.030, 0.050)
"""Shortest and longest outage, in seconds."""

LOSS = 0.01
"""Fraction of packets lost without congestion."""


@dataclass(frozen=True, kw_only=True)
class Starlink:
    """A synthetic link: rate steps in bits per second and one-way propagation delays in seconds, by time in
    seconds. The rate is 0 during an outage."""

    rates: tuple[tuple[float, int], ...]
    delays: tuple[tuple[float, float], ...]

    @property
    def duration_s(self) -> float:
        """Duration of all slots, after which the link repeats."""
        return SLOT_S * len(self.delays)

    def csv(self) -> str:
        """Returns the contents of a rate file."""
        return "time_s,rate_bps\n" + "".join(f"{time:.3f},{bps}\n" for time, bps in self.rates)

    def toml(self, rate_file: str) -> str:
        """Returns the table of a scenario that uses the rate file."""
        steps = "".join(
            f'    {{ at = "{at:g}s", delay = "{1000 * delay:.1f}ms" }},\n' for at, delay in self.delays
        )
        return (
            f"[bottleneck]\nrate_file = {rate_file}\n"
            f'rate_repeat = "{self.duration_s:g}s"\ndelay = "{1000 * self.delays[0][1]:.1f}ms"\n'
            f'delay_repeat = "{self.duration_s:g}s"\ndelay_steps = [\n{steps}]\n'
            f"loss = {{ probability = {LOSS} }}"
        )


def link(rate_bps: float, duration_s: float, seed: int) -> Starlink:
    """Generates the slots of a link with this mean rate. The duration is rounded up to whole slots."""
    rng = random.Random(seed)
    rates: list[tuple[float, int]] = []
    delays: list[tuple[float, float]] = []
    for slot in range(max(1, math.ceil(duration_s / SLOT_S))):
        start = slot * SLOT_S
        outage_s = _between(OUTAGES_S, rng.random())
        rates += [(start, 0), (start + outage_s, round(rate_bps * _between(RATES, rng.random())))]
        delays.append((start, round(_triangular(ROUND_TRIPS_S, rng.random()) / 2, 4)))
    return Starlink(rates=tuple(rates), delays=tuple(delays))


def _between(ends: tuple[float, float], share: float) -> float:
    return ends[0] + share * (ends[1] - ends[0])


def _triangular(corners: tuple[float, float, float], share: float) -> float:
    """Returns the quantile of a triangular distribution."""
    low, mode, high = corners
    split = (mode - low) / (high - low)
    if share < split:
        return low + math.sqrt(share * (high - low) * (mode - low))
    return high - math.sqrt((1 - share) * (high - low) * (high - mode))
