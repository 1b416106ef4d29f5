"""Rates of a link over time, as a file records them, and their conversion to the rate steps of a scenario."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aqmlab._support.files import write_text
from aqmlab.links.content import LinkFileError

LEAST_BPS, MOST_BPS = 16, 10**13
"""Minimum and maximum of a link's rate. A rate may also be 0."""

LONG_GAP = 10
"""If no record exists for this number of usual intervals, a gap is reported."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The rates of a link over time."""

    source: str
    """Description of the source."""
    times_s: Sequence[float]
    """Times of the records in ascending order, relative to the first record."""
    bps: Sequence[float]
    notes: Sequence[str] = ()
    """Warnings about doubtful records."""

    @property
    def interval_s(self) -> float:
        """The usual interval between records, which is the median interval."""
        between = sorted(b - a for a, b in itertools.pairwise(self.times_s))
        return between[len(between) // 2]

    @property
    def duration_s(self) -> float:
        """The duration of the recording. The last record is assumed to be valid for the usual interval."""
        return self.times_s[-1] + self.interval_s

    def gaps(self) -> Iterator[str]:
        """Yields a warning for each long gap between records."""
        usual = self.interval_s
        for before, after in itertools.pairwise(self.times_s):
            if after - before > LONG_GAP * usual:
                yield f"no record for {after - before:.6g} s after {before:.6g} s: the previous rate is kept"


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The rate steps of a link, with times, rates and the total duration."""

    times_s: list[float] = field(default_factory=list)
    bps: list[int] = field(default_factory=list)
    duration_s: float

    @property
    def mean_bps(self) -> float:
        """The mean rate."""
        ends = [*self.times_s[1:], self.duration_s]
        sent = sum(bps * (until - at) for at, until, bps in zip(self.times_s, ends, self.bps, strict=True))
        return sent / self.duration_s

    def csv(self) -> str:
        """Returns the content of a file that the parameter `rate_file` can read."""
        rows = (f"{decimal(at)},{bps}\n" for at, bps in zip(self.times_s, self.bps, strict=True))
        return "time_s,rate_bps\n" + "".join(rows)

    def write(self, path: Path) -> None:
        """Writes a file that the parameter `rate_file` can read."""
        write_text(path, self.csv())

    def toml(self, path: Path, link: str) -> str:
        """Returns the scenario table that uses these steps, and that repeats the steps after the last
        step."""
        name = str(path).replace("\\", "\\\\").replace('"', '\\"')
        return f'[{link}]\nrate_file = "{name}"\nrate_repeat = "{decimal(self.duration_s)}s"'


def steps(
    recording: Recording,
    *,
    start_s: float = 0.0,
    until_s: float | None = None,
    every_s: float | None = None,
) -> Steps:
    """Converts a part of a recording to steps. The steps have either the original rates or mean rates over
    intervals of `every_s` seconds."""
    whole = recording.duration_s
    end = whole if until_s is None else until_s
    if not 0 <= start_s < end:
        raise ValueError(f"--from: must be before the end, which is {end:g}s (got {start_s:g}s)")
    if end > whole:
        raise ValueError(
            f"--until: must be at most {whole:.6g}s, which is the end of the recording (got {end:g}s)"
        )
    pieces = list(_pieces(recording, start_s, end))
    if every_s is not None:
        if not every_s > 0:
            raise ValueError(f"--every: must be greater than 0s (got {every_s:g}s)")
        pieces = list(_means(pieces, end - start_s, every_s))
    found = Steps(duration_s=round(end - start_s, 6))
    for at, bps in pieces:
        rate = 0 if bps < LEAST_BPS else round(bps)
        at = round(at, 6)
        if found.times_s and found.times_s[-1] == at:
            del found.times_s[-1], found.bps[-1]
        if not found.bps or found.bps[-1] != rate:
            found.times_s.append(at)
            found.bps.append(rate)
    if not any(found.bps):
        raise LinkFileError(f"contains no rate of at least {LEAST_BPS} bps, so the link would never send")
    return found


def _pieces(recording: Recording, start: float, end: float) -> Iterator[tuple[float, float]]:
    """Yields the rates from `start` to `end`, with their times relative to `start`."""
    times = [*recording.times_s, recording.duration_s]
    for (at, until), bps in zip(itertools.pairwise(times), recording.bps, strict=True):
        if until > start and at < end:
            yield max(at - start, 0.0), bps


def _means(
    pieces: Sequence[tuple[float, float]], whole: float, every: float
) -> Iterator[tuple[float, float]]:
    """Yields the mean rate in each interval of `every` seconds."""
    times = [at for at, _ in pieces] + [whole]
    piece = 0
    for number in range(math.ceil(whole / every - 1e-9)):
        begin, end = number * every, min((number + 1) * every, whole)
        sent, now = 0.0, begin
        while now < end:
            while times[piece + 1] <= now:
                piece += 1
            until = min(times[piece + 1], end)
            sent += pieces[piece][1] * (until - now)
            now = until
        yield begin, sent / (end - begin)


def recording_of(source: str, rows: Sequence[tuple[int, float, float]], notes: Sequence[str]) -> Recording:
    """Converts rows of line, time and rate to a recording. If two rows have the same time, the second row is
    used."""
    times: list[float] = []
    rates: list[float] = []
    for line, time, bps in rows:
        if bps > MOST_BPS:
            raise LinkFileError(
                f"line {line}: the rate must be at most 10Tbps (got {bps:g} bps): check the unit"
            )
        # A float cannot exactly represent the number of seconds since 1970 with a resolution of a
        # microsecond.
        since = round(time - rows[0][1], 6)
        if times and since < times[-1]:
            raise LinkFileError(
                f"line {line}: the time is {times[-1] - since:.6g} s before the time of the previous "
                "record: split the file where the clock was set"
            )
        if times and since == times[-1]:
            rates[-1] = bps
            continue
        times.append(since)
        rates.append(bps)
    if len(times) < 2:
        raise LinkFileError(
            "must contain records with at least two different times, because the duration is computed from "
            "the times (got one)"
        )
    recording = Recording(source=source, times_s=times, bps=rates)
    return Recording(source=source, times_s=times, bps=rates, notes=[*notes, *recording.gaps()])


def decimal(seconds: float) -> str:
    """Returns a time without trailing zeros, with a resolution of a microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
