"""Imports recorded links: logs of rates over time are converted to rate steps of a link.

Two formats are supported. Files may be compressed with gzip. A cake-autorate log contains the configured
shaper rate and the achieved rate in records of `cake-autorate.sh` such as `LOAD; ...`. For each kind of
record, the log has a header that names the columns. A plain CSV file has a column of times and a column of
rates.
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
    """The direction to import from a cake-autorate log."""

    DOWNLOAD = "download"
    UPLOAD = "upload"


class RateKind(StrEnum):
    """The rate to import from a cake-autorate log."""

    SHAPER = "shaper"
    """The configured rate of the shaper."""
    ACHIEVED = "achieved"
    """The achieved rate."""


LEAST_BPS, MOST_BPS = 16, 10**13
"""Minimum and maximum of a link's rate. A rate may also be 0."""

LONG_GAP = 10
"""If no record exists for this number of usual intervals, a gap is reported."""

_AUTORATE = re.compile(r"(DATA|LOAD|SUMMARY|REFLECTOR|CPU|CPU_RAW|SHAPER|DEBUG|INFO|SYSLOG|ERROR)(_HEADER)?;")
_KINDS = ("LOAD", "DATA", "SUMMARY")
"""The kinds of records that contain rates, in order of preference. LOAD records are preferred because they
are evenly spaced in time."""

_RATE_COLUMNS: Mapping[tuple[Direction, RateKind], str] = {
    (Direction.DOWNLOAD, RateKind.SHAPER): "CAKE_DL_RATE_KBPS",
    (Direction.UPLOAD, RateKind.SHAPER): "CAKE_UL_RATE_KBPS",
    (Direction.DOWNLOAD, RateKind.ACHIEVED): "DL_ACHIEVED_RATE_KBPS",
    (Direction.UPLOAD, RateKind.ACHIEVED): "UL_ACHIEVED_RATE_KBPS",
}
_RATE_WORDS: Mapping[RateKind, str] = {
    RateKind.SHAPER: "configured shaper rate",
    RateKind.ACHIEVED: "achieved rate",
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
    """The exception for an invalid recording. The message contains the file and the line."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of times and rates in a plain file, by name or by number (beginning with 1), and the units
    of these columns. `None` means that the header determines the column or the unit."""

    time: str | None = None
    rate: str | None = None
    time_unit: str | None = None
    rate_unit: str | None = None


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

    def write(self, path: Path) -> None:
        """Writes a file that the parameter `rate_file` can read."""
        rows = (f"{_decimal(at)},{bps}\n" for at, bps in zip(self.times_s, self.bps, strict=True))
        write_text(path, "time_s,rate_bps\n" + "".join(rows))

    def toml(self, path: Path, link: str) -> str:
        """Returns the scenario table that uses these steps, and that repeats the steps after the last
        step."""
        name = str(path).replace("\\", "\\\\").replace('"', '\\"')
        return f'[{link}]\nrate_file = "{name}"\nrate_repeat = "{_decimal(self.duration_s)}s"'


def read(
    path: Path,
    *,
    direction: Direction = Direction.DOWNLOAD,
    kind: RateKind = RateKind.SHAPER,
    columns: Columns = Columns(),
) -> Recording:
    """Reads a recording. Raises `RecordingError`, whose message contains the line and the allowed values."""
    lines = _lines(path)
    first = next((line for line in lines if line.strip()), "")
    try:
        if _AUTORATE.match(first):
            if columns != Columns():
                raise RecordingError(
                    "is a cake-autorate log, whose columns have fixed names and units: select the rate with "
                    "--direction and --take"
                )
            return _autorate(lines, direction, kind)
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
        raise RecordingError(f"contains no rate of at least {LEAST_BPS} bps, so the link would never send")
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


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig").splitlines()
    except (gzip.BadGzipFile, zlib.error):
        raise RecordingError(f"{path}: is a damaged gzip file") from None
    except OSError as problem:
        raise RecordingError(f"{path}: cannot be read: {problem.strerror}") from None
    except EOFError:
        raise RecordingError(f"{path}: is a truncated gzip file") from None
    except UnicodeDecodeError:
        raise RecordingError(f"{path}: must be a cake-autorate log or a CSV file, but is not text") from None


def _autorate(lines: Sequence[str], direction: Direction, rate_kind: RateKind) -> Recording:
    """Reads a cake-autorate log: the values of one kind of record, in the columns that the log's headers
    name."""
    headers: dict[str, list[str]] = {}
    found: dict[str, list[tuple[int, float, float]]] = {kind: [] for kind in _KINDS}
    notes = []
    column = _RATE_COLUMNS[direction, rate_kind]
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
                f"line {number}: the {kind} record is not preceded by a {kind}_HEADER: export the log from "
                "its beginning"
            )
        if len(fields) != len(names):
            if number == len(lines):
                notes.append(f"line {number}, the last line, is truncated and therefore ignored")
                continue
            raise RecordingError(
                f"line {number}: the {kind} record must have {len(names)} fields, the same number as its "
                f"header (got {len(fields)})"
            )
        row = dict(zip(names, fields, strict=True))
        if column not in row:
            raise RecordingError(f"line {number}: {kind} records have no column {column}")
        time_name = "LOG_TIMESTAMP" if "LOG_TIMESTAMP" in row else "PROC_TIME_US"
        # The shell writes times in the number format of its locale.
        time = _number(row.get(time_name, "").replace(",", "."), number, time_name)
        time = time / 1e6 if time > 1e12 else time
        found[kind].append((number, time, 1e3 * _number(row[column], number, column)))
    chosen = next((kind for kind in _KINDS if len(found[kind]) > 1), None)
    if chosen is None:
        raise RecordingError(
            "contains fewer than two LOAD, DATA or SUMMARY records: set output_load_stats=1 in the "
            "configuration of cake-autorate"
        )
    content = f"{direction}, {_RATE_WORDS[rate_kind]}"
    return _recording(f"cake-autorate log, {chosen} records, {content}", found[chosen], notes)


def _plain(lines: Sequence[str], columns: Columns) -> Recording:
    """Reads a plain file with times and rates."""
    rows = []
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if text:
            rows.append((number, _fields(text)))
    if not rows:
        raise RecordingError("is empty: each line must contain a time and a rate")
    if all(len(fields) == 1 and fields[0].isdigit() for _, fields in rows[:100]):
        raise RecordingError(
            "has one number on each line, like a Mahimahi trace: Mahimahi traces need no import; set "
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
            "has times and rates in the same column: select columns with --time-column and --rate-column"
        )
    time_unit = _unit_of(names, time_at, columns.time_unit, _TIMES, "time") or 1.0
    rate_unit = _unit_of(names, rate_at, columns.rate_unit, _RATES, "rate")
    found = []
    for number, fields in rows:
        if len(fields) != width:
            raise RecordingError(
                f"line {number}: must have {width} columns, the same number as the first line (got "
                f"{len(fields)})"
            )
        time = _time(fields[time_at], time_unit, number)
        found.append((number, time, _rate(fields[rate_at], rate_unit, number)))
    return _recording(f"file with {len(found)} rates", found, [])


def _fields(text: str) -> list[str]:
    separator = next((one for one in ";,\t" if one in text), None)
    return [one.strip().strip('"') for one in text.split(separator)]


def _is_name(text: str) -> bool:
    """Returns whether the text is the name of a column, and not a number (with or without unit) or a date."""
    return bool(text) and not text[0].isdigit() and text[0] not in "+-." and not _is_date(text)


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _column(
    quantity: str, chosen: str | None, names: list[str] | None, width: int, usual: Sequence[str], default: int
) -> int:
    """Returns the index of the column of times or rates."""
    option = f"--{quantity}-column"
    available = ", ".join(names) if names else f"1 to {width}"
    if chosen is not None:
        if names and chosen in names:
            return names.index(chosen)
        if chosen.isdigit() and 1 <= int(chosen) <= width:
            return int(chosen) - 1
        raise RecordingError(f"has no column `{chosen}` ({option}); available: {available}")
    if names is None:
        if width == 2:
            return default
        raise RecordingError(
            f"has {width} columns and no header: select a column with {option}; available: {available}"
        )
    words = [re.split(r"[^a-z]+", name.lower()) for name in names]
    found = [number for number, name in enumerate(words) if any(word in usual for word in name)]
    if len(found) == 1:
        return found[0]
    matches = "no column name shows" if not found else "several column names show"
    raise RecordingError(
        f"{matches} that the column contains {quantity}s: select a column with {option}; available: "
        f"{available}"
    )


def _unit_of(
    names: list[str] | None, column: int, given: str | None, units: Mapping[str, float], quantity: str
) -> float | None:
    """Returns the given unit or, if no unit is given, the unit at the end of the column's name."""
    if given is not None:
        found = _unit(given, units)
        if found is None:
            raise RecordingError(f"--{quantity}-unit: must be one of {', '.join(units)} (got {given})")
        return found
    if names is None:
        return None
    return _unit(re.split(r"[\s_()\[\]]+", names[column].strip(" )]"))[-1], units)


def _unit(text: str, units: Mapping[str, float]) -> float | None:
    # A capital B means bytes. Otherwise case is ignored, so that Mbps and mbps are the same unit.
    return units.get(text) or units.get(text.lower() if text not in _BYTES else "")


def _number(text: str, line: int, quantity: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise RecordingError(f"line {line}: {quantity} must be a number (got `{text}`)") from None
    if not math.isfinite(value) or value < 0:
        raise RecordingError(f"line {line}: {quantity} must be a finite number of at least 0 (got `{text}`)")
    return value


def _time(text: str, unit: float, line: int) -> float:
    if re.match(r"\d{4}-\d\d-\d\d", text) and _is_date(text):
        return datetime.fromisoformat(text).timestamp()
    found = _with_unit(text, _TIMES, "time, such as `1.5s`", line)
    return _number(text, line, "the time") * unit if found is None else found


def _rate(text: str, unit: float | None, line: int) -> float:
    found = _with_unit(text, _RATES, "rate, such as `10Mbps`", line)
    if found is not None:
        return found
    value = _number(text, line, "the rate")
    if unit is None:
        raise RecordingError(
            f"line {line}: the rate `{text}` has no unit: use a column name that ends with the unit, such "
            "as rate_kbps, or specify the unit with --rate-unit Mbps"
        )
    return value * unit


def _with_unit(text: str, units: Mapping[str, float], expected: str, line: int) -> float | None:
    """Returns the value of a number with a unit, or `None` if the number has no unit."""
    parts = re.fullmatch(r"([-+.\d]+(?:[eE][-+]?\d+)?)\s*([A-Za-z/]+)", text)
    if parts is None:
        return None
    unit = _unit(parts[2], units)
    if unit is None:
        raise RecordingError(f"line {line}: must be a {expected} (got `{text}`)")
    return _number(parts[1], line, "the number") * unit


def _recording(source: str, rows: Sequence[tuple[int, float, float]], notes: Sequence[str]) -> Recording:
    """Converts rows of line, time and rate to a recording. If two rows have the same time, the second row is
    used."""
    times: list[float] = []
    rates: list[float] = []
    for line, time, bps in rows:
        if bps > MOST_BPS:
            raise RecordingError(
                f"line {line}: the rate must be at most 10Tbps (got {bps:g} bps): check the unit"
            )
        # A float cannot exactly represent the number of seconds since 1970 with a resolution of a
        # microsecond.
        since = round(time - rows[0][1], 6)
        if times and since < times[-1]:
            raise RecordingError(
                f"line {line}: the time is {times[-1] - since:.6g} s before the time of the previous "
                "record: split the file where the clock was set"
            )
        if times and since == times[-1]:
            rates[-1] = bps
            continue
        times.append(since)
        rates.append(bps)
    if len(times) < 2:
        raise RecordingError(
            "must contain records with at least two different times, because the duration is computed from "
            "the times (got one)"
        )
    recording = Recording(source=source, times_s=times, bps=rates)
    return Recording(source=source, times_s=times, bps=rates, notes=[*notes, *recording.gaps()])


def _decimal(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".")
