"""The formats of link files, and the function that reads a file of any format."""

from __future__ import annotations

from pathlib import Path

from aqmlab._support.names import hint
from aqmlab.links.content import Content, LinkFileError
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import Measured
from aqmlab.links.readers import (
    cake_autorate,
    capture,
    cloudflare,
    flent,
    iperf3,
    mahimahi,
    network_quality,
    ookla,
    rate_table,
)

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        capture.FORMAT,
        flent.FORMAT,
        iperf3.FORMAT,
        network_quality.FORMAT,
        cloudflare.FORMAT,
        ookla.FORMAT,
        cake_autorate.FORMAT,
        mahimahi.FORMAT,
        # Any text may be a table, so this format is the last one.
        rate_table.FORMAT,
    )
}
"""The formats, by name, in the order in which they are tried."""


DEFAULTS = Options()
"""Choices if the user makes none."""


def read(path: Path, options: Options = DEFAULTS, format_name: str | None = None) -> Measured:
    """Reads a file. Without `format_name`, the format is recognised from the content.

    Raises `LinkFileError`, whose message contains the file, the place, the problem and the remedy.
    """
    return read_content(Content(path), options, format_name)


def read_content(content: Content, options: Options = DEFAULTS, format_name: str | None = None) -> Measured:
    """Reads a file whose content is given. Raises the same errors as `read`."""
    try:
        if format_name is None:
            chosen = _recognised(content)
        elif format_name in FORMATS:
            chosen = FORMATS[format_name]
        else:
            raise ValueError(f"--format: no format is named `{format_name}`: {hint(format_name, FORMATS)}")
        return chosen.read(content, options)
    except LinkFileError as problem:
        raise LinkFileError(f"{content.path}: {problem}") from None


def _recognised(content: Content) -> Format:
    found = next((one for one in FORMATS.values() if one.recognises(content)), None)
    if found is not None:
        return found
    if content.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        _ = content.json  # A syntax error is the most useful message.
    raise LinkFileError(
        f"has none of the known formats: {', '.join(FORMATS)}; select the format with --format, or convert "
        "the file to CSV with the columns time_s and rate_mbps"
    )
