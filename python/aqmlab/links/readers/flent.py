"""Reads Flent data files (`.flent.gz`).

Source: Flent 2.3, doc/data-format.rst and flent/resultset.py: a JSON object with `metadata`, `version`,
`x_values` and `results`. Series of TCP streams have names such as `TCP upload::1`, in Mbit/s; pings have
names such as `Ping (ms) ICMP`, in ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from aqmlab.links.content import Content, LinkFileError, Node, shown
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import HALF, NOTHING, Measured, Way
from aqmlab.links.quantiles import LOADED_SHARE, quantile

VERSION = 4
"""Latest version of the format that aqmlab reads."""

LEAST_LOADED = 3
"""Minimum number of samples under load."""

_DERIVED = (" sum", " avg", " fairness")
_UPLOAD, _DOWNLOAD, _PING = "TCP upload", "TCP download", "Ping (ms)"

Series = Sequence[float | None]


def _recognises(content: Content) -> bool:
    top = content.top
    return top is not None and top.has("metadata", "x_values", "results")


def _read(content: Content, options: Options) -> Measured:
    top = content.json
    notes = []
    version = top.find("version")
    number = 1 if version is None else version.number(least=1)
    if number > VERSION and version is not None:
        raise version.error(
            f"must be at most {VERSION} (got {number:g}): convert the file with a Flent of 2026 or older"
        )
    if number < VERSION:
        notes.append(
            f"version {number:g} of the format is older than {VERSION}: only the series named as in "
            f"version {VERSION} are read"
        )
    times = [one.number(least=-1e9) for one in top.at("x_values").items()]
    results = top.at("results")
    if not isinstance(results.value, dict):
        raise results.error(f"must be an object of series (got {shown(results.value)})")
    names = list(results.value)
    up, down = (_sum(results, _streams(names, prefix), len(times)) for prefix in (_UPLOAD, _DOWNLOAD))
    pings = _pings(results, names, len(times))
    name = _title(top)
    if not any(map(_is_loaded, (up, down))):
        raise LinkFileError(
            f"results: contains no series of TCP streams with at least {LEAST_LOADED} samples above 0 "
            f"(series: {shown(', '.join(names) or 'none')}): use a file of a test such as tcp_1up, tcp_ndown "
            "or rrul"
        )
    known = [one for one in pings if one is not None and one > 0]
    idle = min(known) / 1e3 if known else None
    if idle is None:
        notes.append("the file contains no pings: the round trip and the buffers are unknown")
    both = _is_loaded(up) and _is_loaded(down)
    if both and idle is not None:
        notes.append(
            "both directions were under load at once, so each buffer is estimated from half of the increase "
            "of the round-trip time: tests of one direction (tcp_nup, tcp_ndown) measure each buffer"
        )
    return Measured(
        source=f"Flent data file, test {name}",
        up=_way(up, pings, HALF if both else 1.0),
        down=_way(down, pings, HALF if both else 1.0),
        idle_rtt_s=idle,
        notes=notes,
    )


def _title(top: Node) -> str:
    found = top.find("metadata", "NAME")
    if found is None or not isinstance(found.value, str):
        raise LinkFileError("metadata.NAME: is missing: Flent writes the name of the test there")
    return shown(found.value)


def _streams(names: Sequence[str], prefix: str) -> list[str]:
    """Returns the names of the series of single TCP streams: not sums, means or socket statistics."""
    found = [name for name in names if name.startswith(prefix)]
    return [name for name in found if not name.endswith(_DERIVED) and "::tcp_" not in name]


def _values(results: Node, name: str, length: int) -> list[float | None]:
    series = Node(results.value[name], f"results.{shown(name)}")
    values = [None if one.value is None else one.number(most=1e9) for one in series.items()]
    if len(values) != length:
        raise series.error(f"must have {length} values, as many as x_values (got {len(values)})")
    return values


def _sum(results: Node, names: Sequence[str], length: int) -> Series:
    """Returns the sums of several series; `None` where no series has a value."""
    columns = [_values(results, name, length) for name in names]
    sums: list[float | None] = []
    for row in zip(*columns, strict=True):
        known = [one for one in row if one is not None]
        sums.append(sum(known) if known else None)
    return sums


def _pings(results: Node, names: Sequence[str], length: int) -> Series:
    """Returns the series of pings with the most samples. ICMP is preferred."""
    found = [name for name in names if name.startswith(_PING) and not name.endswith(_DERIVED)]
    series = [_values(results, name, length) for name in sorted(found, key=lambda name: "ICMP" not in name)]
    return max(series, key=lambda one: sum(value is not None for value in one), default=[])


def _is_loaded(series: Series) -> bool:
    return sum(1 for value in series if value) >= LEAST_LOADED


def _way(rates: Series, pings: Series, share: float) -> Way:
    """Returns the measurements of a direction."""
    if not _is_loaded(rates):
        return NOTHING
    loaded = [place for place, value in enumerate(rates) if value]
    rate = quantile([rates[place] or 0.0 for place in loaded], 0.5) * 1e6
    slow = [ping for place in loaded if place < len(pings) and (ping := pings[place]) is not None]
    if not slow:
        return Way(rate_bps=rate)
    return Way(rate_bps=rate, loaded_rtt_s=quantile(slow, LOADED_SHARE) / 1e3, share=share)


FORMAT = Format(
    name="flent",
    summary="Flent data file (.flent.gz): rates, round-trip times without and under load.",
    recognises=_recognises,
    read=_read,
)
