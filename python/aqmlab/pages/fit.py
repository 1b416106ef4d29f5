"""The round-trip times and the rate of a link that fits a recorded page."""

from __future__ import annotations

from collections.abc import Sequence

from aqmlab.links.measured import PAYLOAD_TO_IP
from aqmlab.pages.entries import Entry

LEAST_RTT_S = 0.0001
"""Minimum round-trip time. A shorter time is below the resolution of browsers' clocks; aqmlab's choice."""

NOISE = 0.2
"""Additional round-trip time of a host, as a fraction of the shortest round-trip time, below which the
difference is attributed to the noise of few samples; aqmlab's choice."""

LEAST_WINDOW_S, WINDOW_RTTS = 0.2, 5
"""Interval over which the rate is averaged: at least 200 ms and 5 round trips. In shorter intervals, the
resolution of the recorded times matters; aqmlab's choice."""

MOST_STARTS = 1000
"""Maximum number of intervals that are compared; aqmlab's choice."""

LEAST_BPS, MOST_BPS = 1e4, 1e10
"""Limits of the fitted rate, in bits per second; aqmlab's choice."""


def handshake_s(entry: Entry) -> float | None:
    """Returns the time that the entry's connection needed for one round trip; `None` if the connection was
    open.

    With TCP, the time of the TLS handshake is not included. QUIC's handshake includes TLS and takes one round
    trip.
    """
    if entry.connect_s is None:
        return None
    tcp = entry.connect_s - (entry.ssl_s or 0.0)
    return tcp if tcp > 0 and entry.version != "3" else entry.connect_s


def round_trips(entries: Sequence[Entry]) -> list[float]:
    """Returns the round-trip time of each host in seconds: the shortest handshake of TCP or QUIC, but at most
    the shortest time between a request and its response.

    The handshake of the first entry is not used, because browsers begin this handshake before the request. If
    a host has no other handshake, the round-trip time is the shortest of the TLS handshakes and of the times
    between a request and its response. A host without connections of its own has the shortest round-trip time
    of all hosts.
    """
    hosts = 1 + max(one.host for one in entries)
    bounds: list[list[float]] = [[] for _ in range(hosts)]
    connected = [False] * hosts
    for number, one in enumerate(entries):
        handshake = handshake_s(one)
        connected[one.host] |= handshake is not None
        of_entry = [one.wait_s, one.ssl_s or 0.0, (handshake or 0.0) if number > 0 else 0.0]
        bounds[one.host] += [time for time in of_entry if time > 0]
    known = [min(of_host) for of_host, has in zip(bounds, connected, strict=True) if of_host and has]
    every = [time for of_host in bounds for time in of_host]
    shortest = min(known or every or [LEAST_RTT_S])
    found = [min(bounds[host]) if bounds[host] and connected[host] else shortest for host in range(hosts)]
    return [max(LEAST_RTT_S, rtt) for rtt in found]


def handshake_trips(entry: Entry) -> int:
    """Returns the number of round trips that the handshakes of an entry take: one, and one more for TLS over
    TCP."""
    return 2 if entry.ssl_s and entry.version != "3" else 1


def lead_s(entries: Sequence[Entry], rtts: Sequence[float]) -> float:
    """Returns the time by which the browser began the first handshake before the request. The time follows
    from the round trips that the handshake takes."""
    first = entries[0]
    if first.connect_s is None:
        return 0.0
    return max(0.0, handshake_trips(first) * rtts[first.host] - first.connect_s)


def link_and_hosts(rtts: Sequence[float]) -> tuple[float, tuple[float, ...]]:
    """Returns the round-trip time of the link, which is that of the nearest host, and the additional
    round-trip time of each host."""
    shortest = min(rtts)
    extra = (rtt - shortest for rtt in rtts)
    return shortest, tuple(one if one > NOISE * shortest else 0.0 for one in extra)


def least_rate_bps(entries: Sequence[Entry], rtt_s: float) -> float:
    """Returns a lower bound of the link's rate, in bits per second on the wire: the largest rate at which
    responses arrived that were requested and complete within an interval, which is extended by one round
    trip. The rate of the link may be higher, because a page may not fill the link."""
    import numpy as np

    ends = np.array([one.end_s for one in entries])
    order = np.argsort(ends, kind="stable")
    ends = ends[order]
    requested = np.array([one.requested_s for one in entries])[order]
    sizes = np.array([float(one.response_bytes) for one in entries])[order]
    whole = max(float(ends[-1] - requested.min()) - rtt_s, 1e-6)
    window = min(whole, max(LEAST_WINDOW_S, WINDOW_RTTS * rtt_s))
    starts = np.unique(requested)
    # A page with very many objects has enough intervals that begin with every n-th object.
    most = 0.0
    for start in starts[:: max(1, len(starts) // MOST_STARTS)]:
        totals = np.cumsum(np.where(requested >= start, sizes, 0.0))
        lengths = ends - start - rtt_s
        long = lengths >= window * (1 - 1e-9)
        if long.any():
            most = max(most, float((totals[long] / lengths[long]).max()))
    return min(MOST_BPS, max(LEAST_BPS, 8 * PAYLOAD_TO_IP * most))
