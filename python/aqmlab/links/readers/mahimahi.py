"""Reads Mahimahi traces: the times of delivery opportunities, as whole milliseconds in ascending order.

Source: mahimahi, src/frontend/link_queue.cc (ae477d43): each line is one opportunity of 1504 bytes, and the
trace repeats after its last time, which must not be 0.
"""

from __future__ import annotations

from aqmlab.links.content import Content, LinkFileError, shown
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import Direction, Measured, Way

PACKET_BYTES = 1500
"""Length of the largest IP packet that one opportunity delivers."""

WINDOW_MS = 1000
"""Length of the window in which the highest rate is measured."""

MOST_MILLISECONDS = 7 * 86_400_000
"""Maximum duration of a trace, one week. Later times are usually times since 1970. aqmlab's choice."""

_MOST_DIGITS = 15


def _recognises(content: Content) -> bool:
    lines = content.head.split(b"\n")[:20]
    if len(lines) > 1:
        lines.pop()  # The last line may be incomplete.
    return all(line.strip().isdigit() for line in lines)


def _read(content: Content, options: Options) -> Measured:
    times: list[int] = []
    before = 0
    for number, line in enumerate(content.lines, start=1):
        text = line.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise LinkFileError(
                f"line {number}: must be a time as a whole number of milliseconds (got `{shown(text)}`)"
            )
        time = int(text)
        if time < before:
            raise LinkFileError(
                f"line {number}: the time {time} is before the time {before} of the previous line: sort the "
                "lines, or split the trace where the clock was set"
            )
        if time > MOST_MILLISECONDS:
            raise LinkFileError(
                f"line {number}: the time {time} is later than one week: subtract the time of the first line"
            )
        times.append(time)
        before = time
    if not times:
        raise LinkFileError("is empty: each line must contain a time in milliseconds")
    if times[-1] == 0:
        raise LinkFileError(
            f"line {len(times)}: the last time must be greater than 0, because the trace repeats after it"
        )
    way = Way(rate_bps=_highest_rate(times), is_payload=False, opportunities=times)
    mean = 8e3 * PACKET_BYTES * len(times) / times[-1]
    source = (
        f"Mahimahi trace, {len(times)} opportunities in {times[-1] / 1000:g} s, mean {mean / 1e6:.4g} Mbps"
    )
    if options.direction is Direction.UPLOAD:
        return Measured(source=source, up=way)
    return Measured(source=source, down=way)


def _highest_rate(times: list[int]) -> float:
    """Returns the highest rate of IP packets in any window of a second, or the mean rate of a shorter
    trace."""
    window = min(WINDOW_MS, times[-1])
    most = begin = 0
    for end, time in enumerate(times):
        while times[begin] <= time - window:
            begin += 1
        most = max(most, end + 1 - begin)
    return 8e3 * PACKET_BYTES * most / window


FORMAT = Format(
    name="mahimahi",
    summary="Mahimahi trace: delivery opportunities of one direction.",
    recognises=_recognises,
    read=_read,
)
