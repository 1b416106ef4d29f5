"""Makes a line from answers of the user and from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aqmlab._support.files import write_text
from aqmlab._support.mistakes import Mistakes
from aqmlab._support.names import hint
from aqmlab._support.quantities import value_of
from aqmlab.links import household
from aqmlab.links.access import KINDS
from aqmlab.links.access.kind import Access, Side, rate_text
from aqmlab.links.buffer import Buffer
from aqmlab.links.content import STANDARD_INPUT
from aqmlab.links.line import LEAST_BPS, LEAST_RTT_S, MOST_BPS, MOST_RTT_S, Line, Written, scenario_of
from aqmlab.links.measured import PAYLOAD_TO_IP, Direction, Measured

T = TypeVar("T")

RECORDED = "plain"
"""Kind of access if a file describes the line and the user names no kind."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Values of the options of `aqmlab link new`, as texts. `None` means that the option is not given."""

    access: str | None = None
    down: str | None = None
    up: str | None = None
    rtt: str | None = None
    buffer_down: str | None = None
    buffer_up: str | None = None
    household: str | None = None
    goodput: bool = False
    """Whether `down` and `up` are rates of payload, as speed tests report."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file and its content."""

    path: Path
    measured: Measured


def rate(text: str) -> float:
    """Returns a rate in bit/s. Raises `ValueError`."""
    bps = value_of(text, "bps", "rate, such as 50Mbps", positive=True)
    if not LEAST_BPS <= bps <= MOST_BPS:
        raise ValueError(f"must be a rate from {rate_text(LEAST_BPS)} to {rate_text(MOST_BPS)} (got {text})")
    return bps


def round_trip(text: str) -> float:
    """Returns a round-trip time in seconds. Raises `ValueError`."""
    seconds = value_of(text, "s", "time, such as 20ms", positive=True)
    if not LEAST_RTT_S <= seconds <= MOST_RTT_S:
        raise ValueError(f"must be a time from {1e3 * LEAST_RTT_S:g}ms to {MOST_RTT_S:g}s (got {text})")
    return seconds


def access(text: str) -> Access:
    """Returns a kind of access. Raises `ValueError`."""
    if text not in KINDS:
        raise ValueError(f"no kind of access is named `{text}`: {hint(text, KINDS)}")
    return KINDS[text]


def missing(answers: Answers, files: Sequence[Source]) -> list[str]:
    """Returns the options that are required and neither given nor determined by a file."""
    given = {
        "--access": answers.access is not None or bool(files),
        "--down": answers.down is not None or _measured_rate(files, Direction.DOWNLOAD) is not None,
        "--up": answers.up is not None or _measured_rate(files, Direction.UPLOAD) is not None,
        "--rtt": answers.rtt is not None or _idle(files) is not None,
    }
    return [option for option, is_given in given.items() if not is_given]


def line_of(answers: Answers, files: Sequence[Source]) -> Line:
    """Returns the line. Nothing may be `missing`. Raises `ValueError` with a line for each invalid option."""
    mistakes = Mistakes()
    kind = mistakes.attempt(lambda: _option("--access", access, answers.access or RECORDED))
    if answers.rtt is None:
        rtt_s, rtt_source = min(max(_idle(files) or 0.0, LEAST_RTT_S), MOST_RTT_S), "measured without load"
    else:
        given = answers.rtt
        rtt_s, rtt_source = mistakes.attempt(lambda: _option("--rtt", round_trip, given), 0.0), "given"
    texts = {
        Direction.DOWNLOAD: (answers.down, answers.buffer_down),
        Direction.UPLOAD: (answers.up, answers.buffer_up),
    }
    sides = {
        direction: _side(mistakes, direction, *texts[direction], answers.goodput, rtt_s, files)
        for direction in Direction
    }
    activities = mistakes.attempt(
        lambda: _option("--household", household.activities_of, answers.household or household.DEFAULT)
    )
    mistakes.finish()
    return Line(
        access=kind,
        down=sides[Direction.DOWNLOAD],
        up=sides[Direction.UPLOAD],
        rtt_s=rtt_s,
        rtt_source=rtt_source,
        activities=activities,
        measured=[one.measured for one in files],
        sources=[sentence(one) for one in files],
    )


def _side(
    mistakes: Mistakes,
    direction: Direction,
    text: str | None,
    size: str | None,
    goodput: bool,
    rtt_s: float,
    files: Sequence[Source],
) -> Side:
    short = "down" if direction is Direction.DOWNLOAD else "up"
    buffer = _measured_buffer(files, direction, rtt_s)
    if size is not None:
        buffer = mistakes.attempt(lambda: _option(f"--buffer-{short}", Buffer.parse, size))
    if text is None:
        bps = _measured_rate(files, direction) or 0.0
    else:
        bps = mistakes.attempt(lambda: _option(f"--{short}", rate, text), 0.0)
        bps *= PAYLOAD_TO_IP if goodput else 1.0
    return Side(direction=direction, bps=bps, is_ip=text is None or goodput, rtt_s=rtt_s, buffer=buffer)


def write(line: Line, path: Path) -> Written:
    """Writes the scenario of a line and the files to which it refers. Raises `ValueError` if a file
    exists."""
    written = scenario_of(line, path.stem)
    others = {path.parent / name: content for name, content in written.files.items()}
    check_absent(path, *others)
    for other, content in others.items():
        write_text(other, content)
    write_text(path, written.scenario)
    return written


def check_absent(*paths: Path) -> None:
    """Raises `ValueError` if a file exists."""
    for path in paths:
        if path.exists():
            raise ValueError(f"{path}: already exists: choose another name, or remove the file")


def sentence(source: Source) -> str:
    """Returns a comment that states what a file contains."""
    notes = "".join(f" {note[:1].upper()}{note[1:]}." for note in source.measured.notes)
    name = "standard input" if str(source.path) == STANDARD_INPUT else source.path.name
    return f"From {name} ({source.measured.source}).{notes}"


def _option(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _measured_rate(files: Sequence[Source], direction: Direction) -> float | None:
    """Returns the rate of IP packets that the first file with this direction contains."""
    rates = (one.measured.way(direction).ip_bps for one in files)
    found = next((bps for bps in rates if bps), None)
    return None if found is None else min(max(found, LEAST_BPS), MOST_BPS)


def _measured_buffer(files: Sequence[Source], direction: Direction, rtt_s: float) -> Buffer | None:
    """Returns the buffer that the first file with this direction shows. `rtt_s` is the round-trip time
    without load."""
    sizes = (one.measured.buffer_s(direction, rtt_s) for one in files)
    found = next((size for size in sizes if size is not None), None)
    return None if found is None else Buffer(seconds=min(found, MOST_RTT_S))


def _idle(files: Sequence[Source]) -> float | None:
    """Returns the shortest round-trip time of all files."""
    return min((one.measured.idle_rtt_s for one in files if one.measured.idle_rtt_s), default=None)
