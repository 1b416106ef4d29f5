"""Factors, which are numbers of a scenario that sensitivity analysis and tuning vary within a range."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aqmlab import _core
from aqmlab.scenario import parse_setting

Scale = Literal["linear", "log"]

STEPS = 10_000
"""Minimum number of different values in a range after rounding. Values are rounded to a few digits, so that
digests are reproducible."""

WHOLE_UNITS = frozenset({"p", "B"})
"""Units whose quantities are always whole numbers (packets and bytes)."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A number at the path `path` of a scenario, with a range from `low` to `high`. `unit` is the unit of the
    range, such as `ms`, or empty if the number has no unit.

    With the scale `log`, equal ratios have equal weight, and both ends must be greater than zero. The values
    of an `integer` factor are whole numbers.
    """

    path: str
    low: float
    high: float
    scale: Scale = "linear"
    unit: str = ""
    integer: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"{self.path}: low must be less than high (got {self.low:g} and {self.high:g})")
        if self.scale not in ("linear", "log"):
            raise ValueError(f"{self.path}: scale must be linear or log (got {self.scale!r})")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"{self.path}: low must be greater than 0 for a log scale (got {self.low:g})")
        if self.integer and not (self.low == int(self.low) and self.high == int(self.high)):
            raise ValueError(
                f"{self.path}: the bounds of an integer factor must be whole numbers (got {self.low:g} and "
                f"{self.high:g})"
            )

    @staticmethod
    def between(path: str, low: float | str, high: float | str, scale: Scale = "linear") -> Factor:
        """Creates a factor from the ends of its range, in the syntax of scenarios: `"30p"`, `"1.5ms"`,
        `0.02`.

        The values of the factor are whole numbers if both ends are whole numbers (`1`, not `1.0`), or if both
        ends are in packets or bytes (including `5kB`).
        """
        (first, unit), (last, other) = _bytes(*_number_of(path, low)), _bytes(*_number_of(path, high))
        if unit != other:
            raise ValueError(f"{path}: both bounds must have the same unit (got {low} and {high})")
        integer = unit in WHOLE_UNITS or (isinstance(low, int) and isinstance(high, int))
        return Factor(path=path, low=first, high=last, scale=scale, unit=unit, integer=integer)

    @staticmethod
    def parsed(text: str) -> Factor:
        """Creates a factor from the text `PATH=LOW..HIGH` of a command line, with an optional `:log`."""
        path, equals, range_ = text.partition("=")
        range_, colon, scale = range_.partition(":")
        low, dots, high = range_.partition("..")
        if not (equals and dots and path.strip() and low.strip() and high.strip()):
            raise ValueError(
                f"`{text}` must have the form PATH=LOW..HIGH, such as bottleneck.queue.max_p=0.01..0.5:log"
            )
        if colon and scale not in ("linear", "log"):
            raise ValueError(f"`{text}`: the scale must be linear or log (got {scale!r})")
        first, last = (parse_setting(f"end={end}")[1] for end in (low, high))
        return Factor.between(path.strip(), first, last, "log" if scale == "log" else "linear")

    def at(self, share: float) -> float | int | str:
        """Returns the value at a `share` of the range, from 0 (low) to 1 (high), in the syntax of
        scenarios."""
        if self.scale == "log":
            return self.written(self.low * (self.high / self.low) ** share)
        # All whole numbers are equally likely, including both ends.
        room = 0.5 if self.integer else 0.0
        return self.written(self.low - room + share * (self.high - self.low + 2 * room))

    def written(self, number: float) -> float | int | str:
        """Returns a number in the syntax of scenarios. The number is limited to the range, rounded, and
        followed by its unit."""
        within = min(max(number, self.low), self.high)
        value: float | int
        if self.integer:
            value = min(max(math.floor(within + 0.5), int(self.low)), int(self.high))
        else:
            width = self.high - self.low
            if self.scale == "log":
                width = within * math.log(self.high / self.low)
            places = math.ceil(-math.log10(width / STEPS))
            value = min(max(round(within, places) + 0.0, self.low), self.high)  # Adding 0.0 turns -0 into 0.
        return f"{_plain(value)}{self.unit}" if self.unit else value


def check(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Returns the factors. Raises `ValueError` if there are no factors, or if two factors have the same
    path."""
    paths = [factor.path for factor in factors]
    if not paths:
        raise ValueError("factors: must contain at least one factor")
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise ValueError(f"factors: {twice[0]} occurs more than once")
    return tuple(factors)


def _plain(value: float) -> str:
    """Returns the digits of a value without an exponent, because numbers with units cannot have an
    exponent."""
    if value == int(value):
        return str(int(value))
    return f"{value:.15f}".rstrip("0") if abs(value) < 1e-4 else repr(value)


def _bytes(number: float, unit: str) -> tuple[float, str]:
    """Converts a size to whole bytes. Other quantities are not changed."""
    try:
        size, base = _core.quantity(f"1{unit}")
    except ValueError:
        return number, unit
    return (round(number * size, 6), base) if base == "B" else (number, unit)


def _number_of(path: str, written: Any) -> tuple[float, str]:
    found = re.fullmatch(r"\s*([-+]?[0-9_.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z%/]*)\s*", str(written))
    try:
        if found is None or isinstance(written, bool):
            raise ValueError
        return float(found[1]), found[2]
    except ValueError:
        raise ValueError(
            f"{path}: {written!r} is not a number or a number with a unit, such as 30p or 1.5ms"
        ) from None
