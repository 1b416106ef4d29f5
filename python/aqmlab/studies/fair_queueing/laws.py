"""The theory that stands beside the runs of the study `fair-queueing`."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from aqmlab.flow_level import relative_load

RATE_MBPS = 50.0
PACKET = 1000
"""Bytes on the wire: 625 packets are said to be the product of bandwidth and round trip."""

PACKET_S = PACKET * 8 / (RATE_MBPS * 1e6)

PRINTED = 0.003
"""P(N >= 5) in the deck's example."""

FORMULA = 0.2**5
"""The same by the deck's own formula."""

MOST_SOURCES = round(RATE_MBPS)
"""Flows of 1 Mb/s that fill the link."""

TRANSPARENT = 0.01
"""The share of the time that peak rates may fill a transparent link."""


def bottlenecked_law(flows: int, load: float, background: float = 0.0) -> float:
    """P(N >= flows) beside a background: the geometric law of what the background leaves."""
    return relative_load(load, background) ** flows


def full_share(load: float) -> float:
    """How often flows of 1 Mb/s, Poisson in number, could fill the link."""
    mean = load * RATE_MBPS
    return 1 - math.fsum(_poisson(mean, number) for number in range(MOST_SOURCES))


def modulated_wait_ms(load: float, *, periodic: bool) -> float:
    """The mean wait of a packet where flows of 1 Mb/s come and go and their number moves slowly.

    Of each number of flows below that which fills the link, the wait of a packet: of M/G/1 with equal
    packets (Pollaczek and Khinchine), or of as many periodic sources (J. Roberts and J. Virtamo, "The
    Superposition of Periodic Cell Arrival Streams in an ATM Multiplexer", 1991); averaged over packets.
    """
    mean = load * RATE_MBPS
    numbers = range(1, MOST_SOURCES)
    weights = [number * _poisson(mean, number) for number in numbers]
    wait = periodic_wait if periodic else _md1_wait
    waits = [wait(number, MOST_SOURCES) for number in numbers]
    total = math.fsum(a * b for a, b in zip(weights, waits, strict=True))
    return 1000 * PACKET_S * total / math.fsum(weights)


def _poisson(mean: float, number: int) -> float:
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))


def _md1_wait(sources: int, period: int) -> float:
    load = sources / period
    return load / (2 * (1 - load))


@lru_cache(maxsize=256)
def periodic_wait(sources: int, period: int) -> float:
    """The mean wait, in services, of a packet of one of so many periodic sources with random phases that
    send once in so many services (fewer sources than services)."""
    others = sources - 1
    step = 0.05
    levels = np.arange(0.0, others + step, step)
    above = np.zeros(levels.size)
    for number in range(1, others + 1):
        below = levels < number
        left = number - levels[below]
        share = left / period
        chance = math.comb(others, number) * share**number * (1 - share) ** (others - number)
        above[below] += chance * (period - others + levels[below]) / (period - left)
    return float(np.trapezoid(above, levels)) if others else 0.0
