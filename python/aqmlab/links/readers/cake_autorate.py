"""Reads the logs of cake-autorate.

A log contains the configured shaper rate and the achieved rate in records of `cake-autorate.sh` such as
`LOAD; ...`. For each kind of record, the log has a header that names the columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from aqmlab.links.content import Content, LinkFileError, number_in
from aqmlab.links.format import Columns, Format, Options
from aqmlab.links.measured import Direction, Measured, RateKind, Way
from aqmlab.links.quantiles import quantile
from aqmlab.links.rate_steps import Recording, recording_of

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

_BASELINES = ("DL_OWD_BASELINE", "UL_OWD_BASELINE")
"""Columns of the smallest recent one-way delays, in microseconds. With ICMP echo, each of them is half of the
round-trip time."""


def _recognises(content: Content) -> bool:
    lines = content.head.decode(errors="replace").lstrip("\ufeff").splitlines()
    first = next((line for line in lines if line.strip()), "")
    return _AUTORATE.match(first) is not None


def _read(content: Content, options: Options) -> Measured:
    if options.columns != Columns():
        raise LinkFileError(
            "is a cake-autorate log, whose columns have fixed names and units: select the rate with "
            "--direction and --take"
        )
    ways: dict[Direction, Way] = {}
    recording = _autorate(content.lines, options.direction, options.rate)
    ways[options.direction] = _way(recording)
    other = next(one for one in Direction if one is not options.direction)
    # A log may lack the column of the other direction.
    with suppress(LinkFileError):
        ways[other] = _way(_autorate(content.lines, other, options.rate))
    return Measured(
        source=recording.source,
        down=ways.get(Direction.DOWNLOAD, Way()),
        up=ways.get(Direction.UPLOAD, Way()),
        idle_rtt_s=_baseline(content.lines),
        notes=recording.notes,
    )


def _way(recording: Recording) -> Way:
    return Way(rate_bps=max(recording.bps), is_payload=False, recording=recording)


def _baseline(lines: Sequence[str]) -> float | None:
    """Returns the median of the round-trip times without queueing delay that DATA records contain."""
    names: list[str] = []
    found = []
    for line in lines:
        if not line.startswith("DATA"):
            continue
        fields = [one.strip() for one in line.split(";")]
        if fields[0] == "DATA_HEADER":
            names = fields
        elif len(fields) == len(names):
            row = dict(zip(names, fields, strict=True))
            with suppress(LinkFileError):
                found.append(sum(number_in(row.get(name, ""), 0, name) for name in _BASELINES))
    return quantile(found, 0.5) / 1e6 if found else None


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
            raise LinkFileError(
                f"line {number}: the {kind} record is not preceded by a {kind}_HEADER: export the log from "
                "its beginning"
            )
        if len(fields) != len(names):
            if number == len(lines):
                notes.append(f"line {number}, the last line, is truncated and therefore ignored")
                continue
            raise LinkFileError(
                f"line {number}: the {kind} record must have {len(names)} fields, the same number as its "
                f"header (got {len(fields)})"
            )
        row = dict(zip(names, fields, strict=True))
        if column not in row:
            raise LinkFileError(f"line {number}: {kind} records have no column {column}")
        time_name = "LOG_TIMESTAMP" if "LOG_TIMESTAMP" in row else "PROC_TIME_US"
        # The shell writes times in the number format of its locale.
        time = number_in(row.get(time_name, "").replace(",", "."), number, time_name)
        time = time / 1e6 if time > 1e12 else time
        found[kind].append((number, time, 1e3 * number_in(row[column], number, column)))
    chosen = next((kind for kind in _KINDS if len(found[kind]) > 1), None)
    if chosen is None:
        raise LinkFileError(
            "contains fewer than two LOAD, DATA or SUMMARY records: set output_load_stats=1 in the "
            "configuration of cake-autorate"
        )
    content = f"{direction}, {_RATE_WORDS[rate_kind]}"
    return recording_of(f"cake-autorate log, {chosen} records, {content}", found[chosen], notes)


FORMAT = Format(
    name="cake-autorate",
    summary="Log of cake-autorate: rates over time of both directions and the round-trip time.",
    recognises=_recognises,
    read=_read,
)
