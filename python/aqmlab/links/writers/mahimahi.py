"""Writes the capacity of a link as a Mahimahi trace.

Source: mahimahi, src/frontend/link_queue.cc: each line is the millisecond of an opportunity of 1504 bytes,
of which a packet uses 4 bytes more than its IP length. A full packet of 1500 bytes fits exactly into an
opportunity, so one opportunity is written for each 1500 bytes of capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PACKET_BYTES = 1500
"""Length of the IP packet that an opportunity delivers."""

MOST_OPPORTUNITIES = 20_000_000
"""Maximum number of lines, about 200 MB of text. aqmlab's choice."""


def opportunities(steps: Sequence[tuple[float, float]], duration_s: float) -> Iterator[int]:
    """Yields the milliseconds of the opportunities of a link whose rate in bit/s changes at the given times.

    The first step must be at time 0. The time of the last opportunity is the duration, because the trace
    repeats after its last time; if the link has no capacity at the end, one opportunity at the end is too
    many. Raises `ValueError` if the trace would be empty or too long.
    """
    whole_ms = round(1000 * duration_s)
    if whole_ms < 1:
        raise ValueError(f"must last at least 1 ms (got {duration_s:g} s)")
    ends = [*(at for at, _ in steps[1:]), duration_s]
    total = sum(bps * max(min(end, duration_s) - at, 0) for (at, bps), end in zip(steps, ends, strict=True))
    if total > 8 * PACKET_BYTES * MOST_OPPORTUNITIES:
        raise ValueError(
            f"would have {total / 8 / PACKET_BYTES:.3g} lines, but must have at most {MOST_OPPORTUNITIES}: "
            "choose a shorter duration, because the trace repeats"
        )
    place, sent, before, last = 0, 0, 0.0, 0
    capacity = 0.0
    for millis in range(1, whole_ms + 1):
        now = millis / 1000
        while place + 1 < len(steps) and steps[place + 1][0] <= now:
            at = steps[place + 1][0]
            capacity += steps[place][1] * (at - before)
            before, place = at, place + 1
        capacity += steps[place][1] * (now - before)
        before = now
        # The tolerance hides the rounding of the sums.
        due = int(capacity / (8 * PACKET_BYTES) + 1e-6)
        yield from (millis for _ in range(due - sent))
        if due > sent:
            last = millis
        sent = due
    if last < whole_ms:
        yield whole_ms
