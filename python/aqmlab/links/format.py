"""What a reader of a link file declares: a name, how its files are recognised, and a function that reads
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aqmlab.links.content import Content
from aqmlab.links.measured import Direction, Measured, RateKind


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of times and rates in a plain file, by name or by number (beginning with 1), and the units
    of these columns. `None` means that the header determines the column or the unit."""

    time: str | None = None
    rate: str | None = None
    time_unit: str | None = None
    rate_unit: str | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of the user that only some formats need."""

    direction: Direction = Direction.DOWNLOAD
    """Direction of a file that describes one direction and does not name the direction."""
    rate: RateKind = RateKind.SHAPER
    """Rate to read from a cake-autorate log."""
    columns: Columns = Columns()
    """Columns of a plain file."""
    home: str | None = None
    """Address of a host at home, for captures."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of link files."""

    name: str
    """Name for the option `--format`."""
    summary: str
    """Files of this format and the values that aqmlab reads from them, in one sentence."""
    recognises: Callable[[Content], bool]
    """Returns whether a file has this format, usually from the first bytes. Raises no errors."""
    read: Callable[[Content, Options], Measured]
    """Reads a file. Raises `LinkFileError`."""
