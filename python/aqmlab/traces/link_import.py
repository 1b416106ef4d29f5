"""Recorded links: rates over time, read from logs, as the steps of a line.

Two forms are read, each packed with gzip or not. The log of cake-autorate (its `cake-autorate.sh`: records
such as `LOAD; ...`, each kind with a header that names its columns) has the rate that its shaper was set to,
and the rate that was carried. A plain CSV file has a column of times and one of rates.
"""

from __future__ import annotations

import gzip
import itertools
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from aqmlab._support.files import write_text


class Direction(StrEnum):
    """Which way a log of cake-autorate is asked about."""

    DOWNLOAD = "download"
    UPLOAD = "upload"


class RateKind(StrEnum):
    """Which of its rates is taken."""

    SHAPER = "shaper"
    """What its shaper was set to."""
    ACHIEVED = "achieved"
    """What was carried."""


LEAST_BPS, MOST_BPS = 16, 10**13
"""What a line may send at, or nothing."""

LONG_GAP = 10
"""So many usual intervals without a record are told."""

_AUTORATE = re.compile(r"(DATA|LOAD|SUMMARY|REFLECTOR|CPU|CPU_RAW|SHAPER|DEBUG|INFO|SYSLOG|ERROR)(_HEADER)?;")
_KINDS = ("LOAD", "DATA", "SUMMARY")
"""Its records with rates; the first come at even intervals."""

_RATE_COLUMNS: Mapping[tuple[Direction, RateKind], str] = {
    (Direction.DOWNLOAD, RateKind.SHAPER): "CAKE_DL_RATE_KBPS",
    (Direction.UPLOAD, RateKind.SHAPER): "CAKE_UL_RATE_KBPS",
    (Direction.DOWNLOAD, RateKind.ACHIEVED): "DL_ACHIEVED_RATE_KBPS",
    (Direction.UPLOAD, RateKind.ACHIEVED): "UL_ACHIEVED_RATE_KBPS",
}
_TOLD: Mapping[RateKind, str] = {
    RateKind.SHAPER: "the rate that its shaper was set to",
    RateKind.ACHIEVED: "the rate that was carried",
}

_TIMES: Mapping[str, float] = {"s": 1, "sec": 1, "seconds": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60}
_BITS: Mapping[str, float] = {
    unit: factor
    for prefix, factor in (("", 1.0), ("k", 1e3), ("m", 1e6), ("g", 1e9))
    for unit in (f"{prefix}bps", f"{prefix}bit/s")
}
_BYTES: Mapping[str, float] = {"B/s": 8, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9}
_RATES = {**_BITS, **_BYTES}
_TIME_NAMES = ("time", "timestamp", "date", "datetime", "t")
_RATE_NAMES = ("rate", "bitrate", "bandwidth", "throughput", "goodput", "capacity", "speed")


class RecordingError(ValueError):
    """What is wrong with a recording, with its file and line."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where a plain file has times and rates, by name or by number from 1, and in which units; `None` for
    what its header says."""

    time: str | None = None
    rate: str | None = None
    time_unit: str | None = None
    rate_unit: str | None = None


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The rates of a link over time."""

    source: str
    """What they are, in words."""
    times_s: Sequence[float]
    """When each was recorded, since the first; they rise."""
    bps: Sequence[float]
    notes: Sequence[str] = ()
    """What is doubtful."""

    @property
    def interval_s(self) -> float:
        """The usual time between two records."""
        between = sorted(b - a for a, b in itertools.pairwise(self.times_s))
        return between[len(between) // 2]

    @property
    def duration_s(self) -> float:
        """How long it lasts: the last record counts for the usual time."""
        return self.times_s[-1] + self.interval_s

    def gaps(self) -> Iterator[str]:
        """What is to be said of times without records."""
        usual = self.interval_s
        for before, after in itertools.pairwise(self.times_s):
            if after - before > LONG_GAP * usual:
                yield f"no record for {after - before:.6g} s from {before:.6g} s on: the rate of before holds"


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What a line does: from when it has which rate, for how long in all."""

    times_s: list[float] = field(default_factory=list)
    bps: list[int] = field(default_factory=list)
    duration_s: float

    @property
    def mean_bps(self) -> float:
        """The mean rate."""
        ends = [*self.times_s[1:], self.duration_s]
        sent = sum(bps * (until - at) for at, until, bps in zip(self.times_s, ends, self.bps, strict=True))
        return sent / self.duration_s

    def write(self, path: Path) -> None:
        """Writes the file that `rate_file` names."""
        rows = (f"{_decimal(at)},{bps}\n" for at, bps in zip(self.times_s, self.bps, strict=True))
        write_text(path, "time_s,rate_bps\n" + "".join(rows))

    def toml(self, path: Path, link: str) -> str:
        """What a scenario writes to have this line, and again after its end."""
        name = str(path).replace("\\", "\\\\").replace('"', '\\"')
        return f'[{link}]\nrate_file = "{name}"\nrate_repeat = "{_decimal(self.duration_s)}s"'


def read(
    path: Path,
    *,
    direction: Direction = Direction.DOWNLOAD,
    taken: RateKind = RateKind.SHAPER,
    columns: Columns = Columns(),
) -> Recording:
    """Reads a recording; raises `RecordingError` with the line at fault and what is allowed there."""
    lines = _lines(path)
    first = next((line for line in lines if line.strip()), "")
    try:
        if _AUTORATE.match(first):
            if columns != Columns():
                raise RecordingError(
                    "is a log of cake-autorate, whose columns have names and units: choose with --direction "
                    "and --take"
                )
            return _autorate(lines, direction, taken)
        return _plain(lines, columns)
    except RecordingError as problem:
        raise RecordingError(f"{path}: {problem}") from None


def steps(
    recording: Recording,
    *,
    start_s: float = 0.0,
    until_s: float | None = None,
    every_s: float | None = None,
) -> Steps:
    """A part of a recording as steps, as it is or as the means of equal times."""
    whole = recording.duration_s
    end = whole if until_s is None else until_s
    if not 0 <= start_s < end:
        raise ValueError(f"--from {start_s:g}s must be before the end, {end:g}s")
    if end > whole:
        raise ValueError(f"--until {end:g}s is after the end of the recording, {whole:.6g} s")
    pieces = list(_pieces(recording, start_s, end))
    if every_s is not None:
        if not every_s > 0:
            raise ValueError("--every must be more than 0s")
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
        raise RecordingError(f"has no rate of {LEAST_BPS} bps or more: such a line never sends")
    return found


def _pieces(recording: Recording, start: float, end: float) -> Iterator[tuple[float, float]]:
    """The rates from `start` to `end`, with their times since then."""
    times = [*recording.times_s, recording.duration_s]
    for (at, until), bps in zip(itertools.pairwise(times), recording.bps, strict=True):
        if until > start and at < end:
            yield max(at - start, 0.0), bps


def _means(
    pieces: Sequence[tuple[float, float]], whole: float, every: float
) -> Iterator[tuple[float, float]]:
    """The mean of each time of this length."""
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


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig").splitlines()
    except (gzip.BadGzipFile, zlib.error):
        raise RecordingError(f"{path}: is packed with gzip, and damaged") from None
    except OSError as problem:
        raise RecordingError(f"{path}: cannot be read: {problem.strerror}") from None
    except EOFError:
        raise RecordingError(f"{path}: is packed with gzip, and cut off") from None
    except UnicodeDecodeError:
        raise RecordingError(f"{path}: is not text: give a log of cake-autorate or a CSV file") from None


def _autorate(lines: Sequence[str], direction: Direction, taken: RateKind) -> Recording:
    """Reads a log of cake-autorate: what its headers name, of one kind of record."""
    headers: dict[str, list[str]] = {}
    found: dict[str, list[tuple[int, float, float]]] = {kind: [] for kind in _KINDS}
    notes = []
    column = _RATE_COLUMNS[direction, taken]
    for number, line in enumerate(lines, start=1):
        fields = [one.strip() for one in line.split(";")]
        kind = fields[0]
        if kind.endswith("_HEADER"):
            headers[kind.removesuffix("_HEADER")] = fields
        if kind not in found:
            continue
        names = headers.get(kind)
        if names is None:
            raise RecordingError(
                f"line {number}: a {kind} record without a {kind}_HEADER above it; "
                "export the log from its beginning"
            )
        if len(fields) != len(names):
            if number == len(lines):
                notes.append(f"line {number}, the last one, is cut off and passed over")
                continue
            raise RecordingError(
                f"line {number}: a {kind} record of {len(fields)} fields; its header has {len(names)}"
            )
        row = dict(zip(names, fields, strict=True))
        if column not in row:
            raise RecordingError(f"line {number}: {kind} records have no column {column}")
        time_name = "LOG_TIMESTAMP" if "LOG_TIMESTAMP" in row else "PROC_TIME_US"
        # The shell writes times as its locale does.
        time = _number(row.get(time_name, "").replace(",", "."), number, time_name)
        time = time / 1e6 if time > 1e12 else time
        found[kind].append((number, time, 1e3 * _number(row[column], number, column)))
    chosen = next((kind for kind in _KINDS if len(found[kind]) > 1), None)
    if chosen is None:
        raise RecordingError(
            "has no LOAD, DATA or SUMMARY records to speak of: set output_load_stats=1 in its configuration"
        )
    what = f"{direction}, {_TOLD[taken]}"
    return _recording(f"cake-autorate's log, {chosen} records, {what}", found[chosen], notes)


def _plain(lines: Sequence[str], columns: Columns) -> Recording:
    """Reads a plain file of times and rates."""
    rows = []
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if text:
            rows.append((number, _fields(text)))
    if not rows:
        raise RecordingError("is empty: write a time and a rate on each line")
    if all(len(fields) == 1 and fields[0].isdigit() for _, fields in rows[:100]):
        raise RecordingError(
            "has one number on each line, as a trace of Mahimahi has: name it as it is, "
            '`file = "..."` in a table [bottleneck.opportunities]'
        )
    names = rows[0][1] if any(_is_name(one) for one in rows[0][1]) else None
    if names:
        del rows[0]
    width = len(names or rows[0][1])
    time_at = _column("time", columns.time, names, width, _TIME_NAMES, 0)
    rate_at = _column("rate", columns.rate, names, width, _RATE_NAMES, 1)
    if time_at == rate_at:
        raise RecordingError(
            "has times and rates in the same column: choose with --time-column, --rate-column"
        )
    time_unit = _unit_of(names, time_at, columns.time_unit, _TIMES, "time") or 1.0
    rate_unit = _unit_of(names, rate_at, columns.rate_unit, _RATES, "rate")
    found = []
    for number, fields in rows:
        if len(fields) != width:
            raise RecordingError(f"line {number}: has {len(fields)} columns, the first line has {width}")
        time = _time(fields[time_at], time_unit, number)
        found.append((number, time, _rate(fields[rate_at], rate_unit, number)))
    return _recording(f"a file of {len(found)} rates", found, [])


def _fields(text: str) -> list[str]:
    separator = next((one for one in ";,\t" if one in text), None)
    return [one.strip().strip('"') for one in text.split(separator)]


def _is_name(text: str) -> bool:
    """Whether this names a column: it is neither a number, nor one with a unit, nor a moment."""
    return bool(text) and not text[0].isdigit() and text[0] not in "+-." and not _is_moment(text)


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _column(
    what: str, chosen: str | None, names: list[str] | None, width: int, usual: Sequence[str], place: int
) -> int:
    """The place of the column of times or rates."""
    option = f"--{what}-column"
    told = ", ".join(names) if names else f"1 to {width}"
    if chosen is not None:
        if names and chosen in names:
            return names.index(chosen)
        if chosen.isdigit() and 1 <= int(chosen) <= width:
            return int(chosen) - 1
        raise RecordingError(f"has no column `{chosen}` ({option}); there is {told}")
    if names is None:
        if width == 2:
            return place
        raise RecordingError(f"has {width} columns and no header: choose with {option}, one of {told}")
    words = [re.split(r"[^a-z]+", name.lower()) for name in names]
    found = [number for number, name in enumerate(words) if any(word in usual for word in name)]
    if len(found) == 1:
        return found[0]
    several = "no" if not found else "more than one"
    raise RecordingError(f"has {several} column of {what}s by its name: choose with {option}, one of {told}")


def _unit_of(
    names: list[str] | None, place: int, given: str | None, units: Mapping[str, float], what: str
) -> float | None:
    """The unit that is given, or else the one that the name of the column ends with."""
    if given is not None:
        found = _unit(given, units)
        if found is None:
            raise RecordingError(f"--{what}-unit {given}: unknown, expected one of {', '.join(units)}")
        return found
    if names is None:
        return None
    return _unit(re.split(r"[\s_()\[\]]+", names[place].strip(" )]"))[-1], units)


def _unit(text: str, units: Mapping[str, float]) -> float | None:
    # A capital B is bytes; else capitals do not matter, so that Mbps and mbps are the same.
    return units.get(text) or units.get(text.lower() if text not in _BYTES else "")


def _number(text: str, line: int, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise RecordingError(f"line {line}: {what} `{text}` is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise RecordingError(f"line {line}: {what} `{text}` must be a finite number, zero or more")
    return value


def _time(text: str, unit: float, line: int) -> float:
    if re.match(r"\d{4}-\d\d-\d\d", text) and _is_moment(text):
        return datetime.fromisoformat(text).timestamp()
    found = _with_unit(text, _TIMES, "time: write for example `1.5s`", line)
    return _number(text, line, "the time") * unit if found is None else found


def _rate(text: str, unit: float | None, line: int) -> float:
    found = _with_unit(text, _RATES, "rate: write for example `10Mbps`", line)
    if found is not None:
        return found
    value = _number(text, line, "the rate")
    if unit is None:
        raise RecordingError(
            f"line {line}: the rate `{text}` has no unit: call the column rate_kbps or the like, or give "
            "--rate-unit, such as Mbps"
        )
    return value * unit


def _with_unit(text: str, units: Mapping[str, float], wanted: str, line: int) -> float | None:
    """The value of a number with a unit; `None` if there is no unit beside it."""
    parts = re.fullmatch(r"([-+.\d]+(?:[eE][-+]?\d+)?)\s*([A-Za-z/]+)", text)
    if parts is None:
        return None
    unit = _unit(parts[2], units)
    if unit is None:
        raise RecordingError(f"line {line}: `{text}` is no {wanted}")
    return _number(parts[1], line, "the number") * unit


def _recording(source: str, rows: Sequence[tuple[int, float, float]], notes: Sequence[str]) -> Recording:
    """What was read: line, time, rate. Of two rates of one moment the second one holds."""
    times: list[float] = []
    rates: list[float] = []
    for line, time, bps in rows:
        if bps > MOST_BPS:
            raise RecordingError(
                f"line {line}: {bps:g} bps is more than any line has, 10Tbps: is the unit right?"
            )
        # Seconds since 1970 as a float are not exact to a microsecond.
        since = round(time - rows[0][1], 6)
        if times and since < times[-1]:
            raise RecordingError(
                f"line {line}: its time is {times[-1] - since:.6g} s before that of the record above; "
                "cut the file where the clock was set"
            )
        if times and since == times[-1]:
            rates[-1] = bps
            continue
        times.append(since)
        rates.append(bps)
    if len(times) < 2:
        raise RecordingError("has a single moment: at least two are needed to know how long it lasts")
    recording = Recording(source=source, times_s=times, bps=rates)
    return Recording(source=source, times_s=times, bps=rates, notes=[*notes, *recording.gaps()])


def _decimal(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
