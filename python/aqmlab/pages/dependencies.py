"""The dependencies, think times and delays of a recorded page.

The rules are:

- The client discovers an object when the browser wants to send the request: at the start of the entry and, if
  the version of HTTP lets requests share a connection, after the time that Chrome calls blocked. With
  HTTP/1.1, this time is mostly the wait for a connection, which the simulation reproduces.
- An object depends on the object that redirected to it, on its initiator (the document that refers to the
  object, or the script at the top of the stack), or, without either, on the object that ended last before
  this object started.
- The dependency begins with the end of the initiator or, if the object was discovered earlier, with the
  initiator's first byte or its request, because browsers parse documents while the documents arrive. The rest
  of the time is a recorded delay, which includes the work of the browser.
- If more than 50 ms pass after the end of the initiator, the object also depends on the object that ended
  last before the discovery. Examples are a request that follows the response to another request of the same
  script, and an image that Chrome holds back until the scripts in the head of the document have arrived.
- The think time of a server is the time from the request to the first byte, minus a round trip, minus the
  time in which other responses arrived. During that time, the response may have waited for the link, and the
  simulated link reproduces such waiting.
- The time for DNS, and the time by which a handshake exceeded its round trips, are added to the delay of the
  object that opened the connection. For the objects of HTTP/1.1 except the first, these times are added to
  the think time, because a later discovery would change the order in which objects get connections.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from pathlib import Path

from aqmlab.pages import entries as har_entries
from aqmlab.pages import fit
from aqmlab.pages.entries import Entry, Recording
from aqmlab.pages.page import Page, PageObject, Times

LONG_GAP_S = 0.05
"""Time after the end of the initiator, above which another object may have caused a request; aqmlab's
choice."""

DEFAULT_URGENCIES = {
    "document": 0,
    "style": 0,
    "script": 2,
    "font": 1,
    "data": 1,
    "image": 3,
    "media": 3,
    "other": 3,
}
"""Urgency of each kind of object, for HAR files without priorities: the usual urgency of Chrome."""

LATE_S = 0.005
"""Time after the load event up to which an object may end that delayed the event. Browsers' clocks for the
network and for the page differ by less; aqmlab's choice."""


def read_har(path: str | Path, page: int = 1) -> Page:
    """Reads a page of a HAR file; pages are counted from 1. The result contains sizes, times and numbers, but
    no address, header, cookie or content. Raises `HarError`, whose message contains the file, the place and a
    remedy, but no value of the file."""
    return page_of(har_entries.read(Path(path), page))


def page_of(recording: Recording) -> Page:
    """Returns the page of a recording."""
    found = recording.entries
    rtts = fit.round_trips(found)
    rtt, extra = fit.link_and_hosts(rtts)
    lead = fit.lead_s(found, rtts)
    discovered = _discoveries(found)
    labels = _labels(found)
    busy = _Busy(found)
    objects, ended = [], _Ended()
    for number, one in enumerate(found):
        after, event, delay = _dependency(found, discovered[number], number, ended)
        ended.add(one.end_s, number)
        setup = one.dns_s + _excess_s(one, rtts[one.host])
        awaited_by = _awaited_by(recording, number)
        urgency = DEFAULT_URGENCIES[one.kind] if one.urgency is None else one.urgency
        handshake = one.connect_s or 0.0
        is_later = number > 0 and one.version == "1.1"
        objects.append(
            PageObject(
                label=labels[number],
                host=one.host + 1,
                after=tuple(parent + 1 for parent in after),
                event=event,
                delay_s=delay + (0.0 if is_later else setup),
                request_bytes=one.request_bytes,
                think_s=_think_s(one, rtts[one.host], busy) + (setup if is_later else 0.0),
                response_bytes=one.response_bytes,
                urgency=urgency,
                awaited_by=awaited_by,
                recorded=Times(
                    discovered_s=discovered[number] + (lead if number else 0.0),
                    requested_s=one.requested_s - handshake + (lead if number else 0.0),
                    first_byte_s=one.first_byte_s + lead,
                    end_s=one.end_s + lead,
                ),
            )
        )
    sizes = dict.fromkeys(("1.1", "2", "3"), 0)
    for one in found:
        sizes[one.version] += one.response_bytes
    notes = [f"skipped: {count} {reason}" for reason, count in recording.skipped.items()]
    if lead > 0:
        notes.append(
            f"the browser opened the first connection {1000 * lead:.0f} ms before the request: the recorded "
            "times count from the opening"
        )
    if all(one.connect_s is None for one in found):
        notes.append("no connection was opened: the round-trip time is the shortest time to a response")
    return Page(
        objects=tuple(objects),
        extra_rtt_s=extra,
        http=max(sizes, key=lambda version: sizes[version]),
        tls=any(one.ssl_s for one in found) or any(one.version == "3" for one in found),
        rtt_s=rtt,
        least_rate_bps=fit.least_rate_bps(found, rtt),
        load_event_s=None if recording.load_event_s is None else recording.load_event_s + lead,
        lead_s=lead,
        skipped=recording.skipped,
        notes=notes,
    )


def _discoveries(found: Sequence[Entry]) -> list[float]:
    """Returns the time at which the browser wants to send each request."""
    ready: dict[int, float] = {}
    for one in found:
        if one.connection is not None and one.connect_s is not None:
            ready.setdefault(one.connection, one.requested_s)
    times = []
    for one in found:
        waits = one.version == "1.1" and one is not found[0]
        if (
            one.connect_s is None
            and one.connection is not None
            and one.start_s < ready.get(one.connection, 0.0)
        ):
            waits = True
        times.append(one.start_s if waits else one.start_s + one.blocked_s)
    return times


class _Ended:
    """The ends of the entries that precede an entry."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []

    def add(self, end: float, position: int) -> None:
        """Adds the end of the entry at a position."""
        bisect.insort(self._ends, (end, position))

    def last_before(self, time: float) -> int | None:
        """Returns the position of the entry that ended last, at or before a time."""
        at = bisect.bisect_right(self._ends, (time, len(self._ends)))
        return self._ends[at - 1][1] if at else None


def _dependency(
    found: Sequence[Entry], time: float, number: int, ended: _Ended
) -> tuple[tuple[int, ...], str, float]:
    """Returns the positions of the parents of an object that is discovered at `time`, the event of the
    parents, and the delay after the event."""
    one = found[number]
    if number == 0:
        return (), "end", time
    parent = one.initiator if one.initiator is not None else ended.last_before(one.start_s)
    cause = ended.last_before(time)
    if parent is not None and cause is not None and time - found[parent].end_s > LONG_GAP_S:
        # The object that ended last is the initiator, or an object that ended after the initiator.
        return tuple(sorted({parent, cause})), "end", time - found[cause].end_s
    if parent is None:
        parent = 0
    events = (
        ("end", found[parent].end_s),
        ("first-byte", found[parent].first_byte_s),
        ("request", found[parent].requested_s),
    )
    for event, at in events:
        if time >= at:
            return (parent,), event, time - at
    return (), "end", time


def _excess_s(one: Entry, rtt: float) -> float:
    """Returns the time by which the handshake of a connection exceeded its round trips."""
    if one.connect_s is None:
        return 0.0
    return max(0.0, one.connect_s - fit.handshake_trips(one) * rtt)


def _think_s(one: Entry, rtt: float, busy: _Busy) -> float:
    wait = one.wait_s - rtt
    return max(0.0, wait - busy.overlap(one.first_byte_s - one.wait_s, one.first_byte_s)) if wait > 0 else 0.0


class _Busy:
    """The intervals in which responses arrived."""

    def __init__(self, found: Sequence[Entry]) -> None:
        self._intervals: list[tuple[float, float]] = []
        for begin, end in sorted((one.first_byte_s, one.end_s) for one in found):
            if self._intervals and begin <= self._intervals[-1][1]:
                self._intervals[-1] = (self._intervals[-1][0], max(end, self._intervals[-1][1]))
            else:
                self._intervals.append((begin, end))

    def overlap(self, begin: float, end: float) -> float:
        """Returns the total time between `begin` and `end` in which responses arrived."""
        first = max(0, bisect.bisect_left(self._intervals, (begin, begin)) - 1)
        last = bisect.bisect_right(self._intervals, (end, end))
        overlaps = (min(end, until) - max(begin, since) for since, until in self._intervals[first:last])
        return sum(max(0.0, one) for one in overlaps)


def _labels(found: Sequence[Entry]) -> list[str]:
    counts: dict[str, int] = {}
    labels = []
    for one in found:
        counts[one.kind] = counts.get(one.kind, 0) + 1
        labels.append(f"{one.kind} {counts[one.kind]} (host {one.host + 1})")
    return labels


def _awaited_by(recording: Recording, number: int) -> str:
    """Returns the event of the page that waits for an object."""
    one = recording.entries[number]
    if number == 0 or (one.kind == "style" and (one.urgency is None or one.urgency <= 1)):
        return "render"
    # Chrome requests scripts that block the parser in the head of a document with the priority High.
    if one.kind == "script" and one.urgency is not None and one.urgency <= 1:
        return "render"
    event = recording.load_event_s
    is_late = event is not None and one.end_s > event + LATE_S
    return "nothing" if one.kind == "data" or is_late else "load"
