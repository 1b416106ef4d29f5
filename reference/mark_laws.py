"""Models of senders whose packets are marked at random: the rules of a response to marks, without a network.

If each packet is marked with probability p, and marks reduce the window in every round trip, DCTCP's window
is 2/p segments, because the growth of one segment per round trip equals the reduction by p/2 of the window.
For Prague, whose window grows with unmarked segments only, the window is 2(1 - p)/p segments; with
independence of the round trip, a flow with a round trip below 25 ms has the rate of a flow with 25 ms.

A sender responds to marks at most once per round trip (RFC 8257, section 3.3; draft-briscoe-iccrg-prague-
congestion-control-04). After a reduction, no mark counts for a round trip, and the next mark
arrives 1/p packets later on average. With reductions every 1 + 1/(pW) round trips, W p/2 = 1 + 1/(pW), and W
is (1 + sqrt 3)/p. The models below apply this rule packet by packet. The mean of a model has a standard error
of up to 0.5 %.
"""

from __future__ import annotations

import math
import random
from collections import deque
from functools import cache

GAIN = 1 / 16
"""Weight of a new value in the average share of marked packets (RFC 8257, section 4.2)."""
TARGET = 0.025
"""Prague's round trip whose rate flows with shorter round trips reach, in seconds."""
PACKETS = 2_000_000
WARM_UP = 0.1
"""Share of the packets before the measurement."""
OVERHEAD = (960 + 52) / 960
"""Prague's pacing rate in payloads per second, in units of the window per round trip: the rate counts the
headers of a packet, the departure times do not (tcp_prague.c: `tcp_mss_to_mtu`; Linux:
`tcp_update_skb_after_send`)."""


def every_round_trip(p: float) -> float:
    """The ideal window of DCTCP, in segments; of Prague with the factor 1 - p."""
    return 2 / p


def once_per_round_trip(p: float) -> float:
    """The window if a sender waits for the first mark after a round trip; of Prague with the factor 1 - p."""
    return (1 + math.sqrt(3)) / p


@cache
def dctcp_window(p: float, packets: int = PACKETS, seed: int = 1) -> float:
    """The mean number of DCTCP's packets in flight; a round trip is the unit of time."""
    chance = random.Random(seed).random
    window, share = every_round_trip(p), p
    acked = sent = marked = counted = round_end = reduced_up_to = 0
    flight: deque[float] = deque()
    now = start = 0.0
    first = int(WARM_UP * packets)
    while sent < packets:
        while len(flight) < int(window):
            flight.append(now)
            sent += 1
        now = flight.popleft() + 1
        acked += 1
        if acked == first:
            start = now
        is_marked = chance() < p
        counted += 1
        marked += is_marked
        if acked >= round_end:
            share += GAIN * (marked / counted - share)
            marked = counted = 0
            round_end = sent
        if is_marked and acked > reduced_up_to:
            window -= window * share / 2
            reduced_up_to = sent
        if len(flight) + 1 >= int(window):
            window += 1 / window
    return (acked - first) / (now - start)


@cache
def prague_rate(
    p: float, round_trip: float, independent: bool, packets: int = PACKETS, seed: int = 1
) -> float:
    """Prague's packets per second with a constant round trip in seconds, without independence of the round
    trip or with independence in effect."""
    chance = random.Random(seed).random
    growth = min(1.0, (round_trip / TARGET) ** 2) if independent else 1.0
    pause = TARGET if independent else 0.0
    window = every_round_trip(p) * (min(1.0, round_trip / TARGET) if independent else 1.0)
    share, marked, counted = p, 0, 0
    delivered = sent = round_end = cwr_end = 0
    reduced_at = updated_at = -math.inf
    flight: deque[tuple[float, int]] = deque()
    now = departure = start = 0.0
    first = int(WARM_UP * packets)
    while sent < packets:
        arrival = flight[0][0] + round_trip if flight else math.inf
        if len(flight) < math.ceil(window) and departure <= arrival:
            now = max(now, departure)
            gap = round_trip / (window * OVERHEAD)
            # Late departures are made up for at up to twice the rate (Linux: tcp_update_skb_after_send).
            departure = now + gap - min(gap / 2, now - departure)
            flight.append((now, delivered))
            sent += 1
            continue
        now, before = arrival, flight.popleft()[1]
        delivered += 1
        if delivered == first:
            start = now
        is_marked = chance() < p
        if is_marked and before >= cwr_end:
            cwr_end = delivered
            if now - reduced_at >= pause:
                window -= window * share / 2
                reduced_at = now
        if not is_marked:
            window += growth / math.ceil(window)
        counted += 1
        marked += is_marked
        if before >= round_end:
            round_end = delivered
            if now - updated_at >= pause:
                share += GAIN * (marked / counted - share)
                marked = counted = 0
                updated_at = now
    return (delivered - first) / (now - start)
