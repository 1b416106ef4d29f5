"""Theoretical formulas that are compared with the runs of the study `fair-queueing`."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from aqmlab.flow_level import relative_load

RATE_MBPS = 50.0
PACKET = 1000
"""Packet size on the wire in bytes; the talk equates 625 packets with the bandwidth-delay product."""

PACKET_S = PACKET * 8 / (RATE_MBPS * 1e6)

PRINTED = 0.003
"""P(N >= 5) in the talk's example."""

FORMULA = 0.2**5
"""P(N >= 5) by the talk's own formula."""

MOST_SOURCES = round(RATE_MBPS)
"""Number of 1 Mb/s flows that fill the link."""

TRANSPARENT = 0.01
"""Maximum share of the time in which peak rates fill a transparent link."""


def bottlenecked_law(flows: int, load: float, background: float = 0.0) -> float:
    """P(N >= flows) with a background: the geometric distribution for the capacity left by the background."""
    return relative_load(load, background) ** flows


def full_share(load: float) -> float:
    """The share of the time in which a Poisson number of 1 Mb/s flows could fill the link."""
    mean = load * RATE_MBPS
    return 1 - math.fsum(_poisson(mean, number) for number in range(MOST_SOURCES))


def modulated_wait_ms(load: float, *, periodic: bool) -> float:
    """The mean waiting time of a packet if flows of 1 Mb/s arrive and depart, so that the number of flows
    changes slowly.

    For each number of flows that does not fill the link, the wait is that of M/G/1 with equal packets
    (Pollaczek and Khinchine), or that of the same number of periodic sources (J. Roberts and J. Virtamo, "The
    Superposition of Periodic Cell Arrival Streams in an ATM Multiplexer", 1991). The result is the average
    over packets.
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
    """The mean wait, in service times, of a packet from `sources` periodic sources with random phases, each
    of which sends one packet per `period` service times (with fewer sources than `period`)."""
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
