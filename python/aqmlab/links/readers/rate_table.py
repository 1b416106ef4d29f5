"""Reads plain files with a column of times and a column of rates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from aqmlab.links.content import Content, LinkFileError, number_in, shown
from aqmlab.links.format import Columns, Format, Options
from aqmlab.links.measured import Direction, Measured, Way
from aqmlab.links.rate_steps import Recording, recording_of

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

MOST_NAMES = 10
"""Maximum number of columns that an error message names."""


def _recognises(content: Content) -> bool:
    """Any text may be a table of rates, so this format is the last one that is tried."""
    return b"\x00" not in content.head and content.head.lstrip()[:1] not in (b"{", b"[")


def _read(content: Content, options: Options) -> Measured:
    recording = _recording(content.lines, options.columns)
    way = Way(rate_bps=max(recording.bps), is_payload=False, recording=recording)
    if options.direction is Direction.UPLOAD:
        return Measured(source=recording.source, up=way, notes=recording.notes)
    return Measured(source=recording.source, down=way, notes=recording.notes)


def _recording(lines: Sequence[str], columns: Columns) -> Recording:
    """Reads a plain file with times and rates."""
    rows = []
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if text:
            rows.append((number, _fields(text)))
    if not rows:
        raise LinkFileError("is empty: each line must contain a time and a rate")
    names = rows[0][1] if any(_is_name(one) for one in rows[0][1]) else None
    if names:
        del rows[0]
    width = len(names or rows[0][1])
    time_at = _column("time", columns.time, names, width, _TIME_NAMES, 0)
    rate_at = _column("rate", columns.rate, names, width, _RATE_NAMES, 1)
    if time_at == rate_at:
        raise LinkFileError(
            "has times and rates in the same column: select columns with --time-column and --rate-column"
        )
    time_unit = _unit_of(names, time_at, columns.time_unit, _TIMES, "time") or 1.0
    rate_unit = _unit_of(names, rate_at, columns.rate_unit, _RATES, "rate")
    found = []
    for number, fields in rows:
        if len(fields) != width:
            raise LinkFileError(
                f"line {number}: must have {width} columns, the same number as the first line (got "
                f"{len(fields)})"
            )
        time = _time(fields[time_at], time_unit, number)
        found.append((number, time, _rate(fields[rate_at], rate_unit, number)))
    return recording_of(f"file with {len(found)} rates", found, [])


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
    available = _names(names) if names else f"1 to {width}"
    if chosen is not None:
        if names and chosen in names:
            return names.index(chosen)
        if chosen.isdigit() and 1 <= int(chosen) <= width:
            return int(chosen) - 1
        raise LinkFileError(f"has no column `{chosen}` ({option}); available: {available}")
    if names is None:
        if width == 2:
            return default
        raise LinkFileError(
            f"has {width} columns and no header: select a column with {option}; available: {available}"
        )
    words = [re.split(r"[^a-z]+", name.lower()) for name in names]
    found = [number for number, name in enumerate(words) if any(word in usual for word in name)]
    if len(found) == 1:
        return found[0]
    matches = "no column name shows" if not found else "several column names show"
    raise LinkFileError(
        f"{matches} that the column contains {quantity}s: select a column with {option}; available: "
        f"{available}"
    )


def _names(names: Sequence[str]) -> str:
    """Returns the first names for an error message."""
    more = ", ..." if len(names) > MOST_NAMES else ""
    return ", ".join(map(shown, names[:MOST_NAMES])) + more


def _unit_of(
    names: list[str] | None, column: int, given: str | None, units: Mapping[str, float], quantity: str
) -> float | None:
    """Returns the given unit or, if no unit is given, the unit at the end of the column's name."""
    if given is not None:
        found = _unit(given, units)
        if found is None:
            raise LinkFileError(f"--{quantity}-unit: must be one of {', '.join(units)} (got {given})")
        return found
    if names is None:
        return None
    return _unit(re.split(r"[\s_()\[\]]+", names[column].strip(" )]"))[-1], units)


def _unit(text: str, units: Mapping[str, float]) -> float | None:
    # A capital B means bytes. Otherwise case is ignored, so that Mbps and mbps are the same unit.
    return units.get(text) or units.get(text.lower() if text not in _BYTES else "")


def _time(text: str, unit: float, line: int) -> float:
    if re.match(r"\d{4}-\d\d-\d\d", text) and _is_date(text):
        return datetime.fromisoformat(text).timestamp()
    found = _with_unit(text, _TIMES, "time, such as `1.5s`", line)
    return number_in(text, line, "the time") * unit if found is None else found


def _rate(text: str, unit: float | None, line: int) -> float:
    found = _with_unit(text, _RATES, "rate, such as `10Mbps`", line)
    if found is not None:
        return found
    value = number_in(text, line, "the rate")
    if unit is None:
        raise LinkFileError(
            f"line {line}: the rate `{shown(text)}` has no unit: use a column name that ends with the "
            "unit, such as rate_kbps, or specify the unit with --rate-unit Mbps"
        )
    return value * unit


def _with_unit(text: str, units: Mapping[str, float], expected: str, line: int) -> float | None:
    """Returns the value of a number with a unit, or `None` if the number has no unit."""
    parts = re.fullmatch(r"([-+.\d]+(?:[eE][-+]?\d+)?)\s*([A-Za-z/]+)", text)
    if parts is None:
        return None
    unit = _unit(parts[2], units)
    if unit is None:
        raise LinkFileError(f"line {line}: must be a {expected} (got `{shown(text)}`)")
    return number_in(parts[1], line, "the number") * unit


FORMAT = Format(
    name="rates",
    summary="CSV file with a column of times and a column of rates: rates over time of one direction.",
    recognises=_recognises,
    read=_read,
)
