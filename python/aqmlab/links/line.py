"""A home line, and the scenario that describes the line with its assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqmlab._core import __version__
from aqmlab.links.access import plain
from aqmlab.links.access.kind import Access, Entry, Link, Side, Table, rate_text
from aqmlab.links.household import Activity
from aqmlab.links.measured import Direction, Measured, Way
from aqmlab.links.rate_steps import Steps, decimal, steps
from aqmlab.links.scenario_text import Text

DURATION, WARM_UP = "60s", "10s"

LEAST_BPS, MOST_BPS = 16e3, 100e9
"""Minimum and maximum of a rate: a modem of the 1990s and the fastest access network. aqmlab's choice."""

LEAST_RTT_S, MOST_RTT_S = 1e-4, 10.0
"""Minimum and maximum of a round-trip time. aqmlab's choice."""

LEAST_ACCESS_BPS = 1e9
FULL_PACKET_BITS = 8 * 1500
MOST_JITTER_S = 1e-3


@dataclass(frozen=True, kw_only=True)
class Line:
    """A home line."""

    access: Access
    down: Side
    up: Side
    rtt_s: float
    rtt_source: str
    """Origin of the round-trip time, such as `given`."""
    activities: Mapping[str, Activity]
    measured: Sequence[Measured] = ()
    """The files from which values were read."""
    sources: Sequence[str] = ()
    """Sentences that state from which file or option each value comes."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """A scenario and the files to which it refers."""

    scenario: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of the files, by name."""
    alternatives: Sequence[str] = ()
    """Names of alternative queues of the upload direction in `[queues]`."""


def scenario_of(line: Line, stem: str) -> Written:
    """Returns the scenario of a line. `stem` is the beginning of the names of files to which the scenario
    refers."""
    links = {side.direction: _access(line, side.direction).link(side) for side in (line.down, line.up)}
    queues = _queues(links[Direction.UPLOAD], _is_recorded(line, Direction.UPLOAD))
    alternatives = list(queues) if len(queues) > 1 else [*queues, "fq-codel"]
    files: dict[str, str] = {}
    text = Text()
    _add_head(text, line, stem, alternatives)
    for direction in Direction:
        entries = _entries(line, direction, links[direction], stem, files)
        _add_link(text, line, direction, links[direction], entries)
    _add_hosts(text, max(line.down.bps, line.up.bps))
    _add_traffic(text, line.activities)
    _add_queues(text, queues)
    return Written(scenario=str(text), files=files, alternatives=alternatives)


def _queues(up: Link, is_recorded: bool) -> dict[str, Table]:
    """Returns queues of the upload direction for comparisons, beginning with the queue as it is. A recorded
    rate varies, so that a shaper with a constant rate would be useless."""
    queues = {"as-is": up.queue}
    if up.shaped is not None and not is_recorded:
        queues |= {f"sqm-{kind}": up.shaped(kind) for kind in ("fq-codel", "cake")}
    return queues


def _add_head(text: Text, line: Line, stem: str, alternatives: Sequence[str]) -> None:
    text.comment(
        f"A home line, written by `aqmlab link new` (aqmlab {__version__}). {line.access.comment} The node "
        "`left` is the Internet, and the node `right` is the home: [bottleneck] is the download direction, "
        "and [bottleneck.reverse] is the upload direction. Every value that is not known is an assumption, "
        "and its comment names the source."
    )
    for source in line.sources:
        text.comment(source)
    names = ",".join(alternatives)
    text.command(f"aqmlab run {stem}.toml")
    text.command(f"aqmlab compare {stem}.toml --at bottleneck-back --queues {names} --replications 3")
    text.entry("duration", DURATION)
    text.entry("warm_up", WARM_UP)
    text.entry("seed", 1)


def _add_link(text: Text, line: Line, direction: Direction, link: Link, entries: Sequence[Entry]) -> None:
    is_down = direction is Direction.DOWNLOAD
    text.table("bottleneck" if is_down else "bottleneck.reverse")
    for entry in entries:
        text.entry(entry.key, entry.value, entry.comment)
    half = "Half" if is_down else "The other half"
    comment = f"{half} of the round trip of {1e3 * line.rtt_s:.4g} ms ({line.rtt_source})."
    text.entry("delay", f"{decimal(line.rtt_s / 2)}s", comment)
    text.entry("queue", link.queue, link.queue_comment)


def _add_hosts(text: Text, fastest_bps: float) -> None:
    text.table("access")
    text.entry(
        "rate",
        rate_text(max(LEAST_ACCESS_BPS, 10 * fastest_bps)),
        "The network at home and the servers are faster than the line and add no delay: aqmlab's choice.",
    )
    text.entry("delay", "0s")
    text.table("host")
    jitter_s = min(FULL_PACKET_BITS / fastest_bps, MOST_JITTER_S)
    text.entry(
        "jitter",
        f"{max(round(1e6 * jitter_s), 1)}us",
        "Hosts take up to the time of a full packet on the faster direction, but at most 1 ms, to process a "
        "packet, which prevents phase effects (Floyd & Jacobson 1992).",
    )
    text.table("tcp")
    text.entry("profile", "linux-6", "CUBIC with RACK-TLP, as in Linux 6.")


def _add_traffic(text: Text, activities: Mapping[str, Activity]) -> None:
    voices = [name for name, activity in activities.items() if activity.has_voice]
    if voices:
        text.table("record")
        text.entry("histories", voices, "The quality of calls is computed from the delay of each datagram.")
    for name, activity in activities.items():
        text.table(f"traffic.{name}", activity.comment)
        for key, value in activity.table.items():
            text.entry(key, value)


def _add_queues(text: Text, queues: Mapping[str, Table]) -> None:
    shapers = ", and shapers in the home router at 95 % of the rate, so that the queue is in the router"
    text.comment(
        "Queues of the upload direction to compare, with --at bottleneck-back: the queue as it is"
        f"{shapers if len(queues) > 1 else ''}."
    )
    for name, queue in queues.items():
        text.table(f"queues.{name}")
        for key, value in queue.items():
            text.entry(key, value)


def _is_recorded(line: Line, direction: Direction) -> bool:
    return any(way.recording or way.opportunities for way in _ways(line, direction))


def _access(line: Line, direction: Direction) -> Access:
    """Returns the kind of access. A recording describes the rate of IP packets, so it replaces a shaper that
    models the framing of a line."""
    return plain.ACCESS if line.access.is_framed and _is_recorded(line, direction) else line.access


def _entries(line: Line, direction: Direction, link: Link, stem: str, files: dict[str, str]) -> list[Entry]:
    """Returns the keys of a link. Recorded rates and delivery opportunities replace those of the kind of
    access."""
    short = "down" if direction is Direction.DOWNLOAD else "up"
    opportunities = _opportunities(line, direction)
    if opportunities is not None:
        name = f"{stem}.{short}.trace"
        files[name] = "".join(f"{time}\n" for time in opportunities)
        comment = "Recorded delivery opportunities, which repeat after their end."
        return [Entry(key="opportunities", value={"file": name}, comment=comment)]
    recorded = _steps(line, direction)
    if recorded is not None:
        name = f"{stem}.{short}.csv"
        files[name] = recorded.csv()
        comment = "Recorded rates over time, which repeat after their end."
        return [
            Entry(key="rate_file", value=name, comment=comment),
            Entry(key="rate_repeat", value=f"{decimal(recorded.duration_s)}s", comment=""),
        ]
    files |= {f"{stem}.{ending}": content for ending, content in link.files.items()}
    return [_with_files(entry, stem, link.files) for entry in link.entries]


def _with_files(entry: Entry, stem: str, files: Mapping[str, str]) -> Entry:
    """Adds the beginning of the name to the files in a value."""
    value: Any = entry.value
    if isinstance(value, dict) and value.get("file") in files:
        value = {**value, "file": f"{stem}.{value['file']}"}
    return Entry(key=entry.key, value=value, comment=entry.comment)


def _ways(line: Line, direction: Direction) -> list[Way]:
    return [one.way(direction) for one in line.measured]


def _opportunities(line: Line, direction: Direction) -> Sequence[int] | None:
    return next((way.opportunities for way in _ways(line, direction) if way.opportunities), None)


def _steps(line: Line, direction: Direction) -> Steps | None:
    recording = next((way.recording for way in _ways(line, direction) if way.recording), None)
    return None if recording is None else steps(recording)
