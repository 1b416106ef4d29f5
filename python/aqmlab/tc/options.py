"""Checked access to the options that `tc` prints for a discipline, and values as a scenario writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aqmlab.tc.document import Document, shown

_MOST = 2**32 - 1
"""Largest value of most numbers, which the kernel stores in 32 bits."""

_SLOWEST, _FASTEST = 2, 1_250_000_000_000
"""Rates of links that aqmlab allows, in bytes per second."""


@dataclass
class Options:
    """Options of one discipline. Each method reads one option and checks its type."""

    document: Document
    at: str
    """Position of the table, for error messages."""
    values: Mapping[str, Any]
    used: set[str] = field(default_factory=set)

    def _read(self, name: str) -> Any:
        self.used.add(name)
        return self.values.get(name)

    def _wrong(self, name: str, allowed: str) -> ValueError:
        if name not in self.values:
            return self.document.error(f"{self.at}.{name}", f"is missing: must be {allowed}")
        return self.document.error(f"{self.at}.{name}", f"must be {allowed} (got {shown(self.values[name])})")

    def has(self, name: str) -> bool:
        """Returns whether the option is printed."""
        return name in self.values

    def count(self, name: str, default: int | None = None, *, most: int = _MOST) -> int:
        """Returns a whole number from 0 to `most`."""
        value = self._read(name)
        if value is None and default is not None and name not in self.values:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise self._wrong(name, f"a whole number from 0 to {most}")
        return value

    def speed(self, name: str) -> int:
        """Returns the rate of a link in bytes per second."""
        value = self.count(name, most=_FASTEST)
        if value < _SLOWEST:
            raise self._wrong(name, f"from {_SLOWEST} to {_FASTEST} bytes per second")
        return value

    def signed(self, name: str, default: int = 0) -> int:
        """Returns a whole number that may be negative."""
        value = self._read(name) if name in self.values else default
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST:
            raise self._wrong(name, f"a whole number from -{_MOST} to {_MOST}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Returns a finite number that is not negative."""
        value = self._read(name)
        if value is None and default is not None and name not in self.values:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(name, "a number")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not 0 <= found < math.inf:
            raise self._wrong(name, "a finite number that is at least 0")
        return found

    def flag(self, name: str) -> bool:
        """Returns whether an option is on. `tc` omits some of the options that are off, and prints `null` for
        some of the options that are on."""
        value = self._read(name)
        if name in self.values and value is None:
            return True
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return bool(value)

    def word(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """Returns one of several words."""
        value = self._read(name)
        if value is None and default is not None and name not in self.values:
            return default
        if not isinstance(value, str) or value not in allowed:
            raise self._wrong(name, " or ".join(allowed))
        return value

    def numbers(self, name: str) -> list[int]:
        """Returns a list of whole numbers."""
        value = self._read(name)
        if not isinstance(value, list) or not all(
            isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= _MOST for one in value
        ):
            raise self._wrong(name, f"a list of whole numbers from 0 to {_MOST}")
        return list(value)

    def table(self, name: str) -> Options | None:
        """Returns a table inside this table, or `None` if the table is missing."""
        value = self._read(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return Options(self.document, f"{self.at}.{name}", value)

    def tables(self, name: str) -> list[Options]:
        """Returns the tables of a list."""
        value = self._read(name)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._wrong(name, "a list of objects")
        return [Options(self.document, f"{self.at}.{name}.{number}", one) for number, one in enumerate(value)]

    def skip(self, *names: str) -> None:
        """Ignores options that do not configure a queue."""
        self.used.update(names)

    def skip_if_off(self, name: str, reason: str) -> None:
        """Ignores an option that aqmlab does not have. If the option is on, adds a note."""
        value = self._read(name)
        if value not in (None, False, 0, "0"):
            self.document.notes.append(f"{self.at}.{name}: skipped, because {reason}")

    def unknown(self) -> list[str]:
        """Returns the options that nothing has read."""
        return [name for name in self.values if name not in self.used]


def packets(count: int) -> str:
    """Returns a length in packets."""
    return f"{count}p"


def size(count: int) -> str:
    """Returns a length in bytes."""
    return f"{count}B"


def time(micros: float) -> str:
    """Returns a time in the largest unit in which the time is a whole number."""
    nanos = round(micros * 1000)
    for scale, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if nanos >= scale and nanos % scale == 0:
            return f"{nanos // scale}{unit}"
    return f"{nanos}ns" if nanos else "0s"


def rate(bytes_per_second: int) -> str:
    """Returns a rate in the largest unit in which the rate is a whole number."""
    bps = bytes_per_second * 8
    for scale, unit in ((10**9, "Gbps"), (10**6, "Mbps"), (10**3, "kbps")):
        if bps >= scale and bps % scale == 0:
            return f"{bps // scale}{unit}"
    return f"{bps}bps"


def codel_time(micros: int) -> int:
    """Returns the microseconds that CoDel shows as `micros`. The kernel counts units of 1024 ns, so that 5 ms
    becomes 4999 us. If several times are possible, returns the roundest."""
    return _before(micros, lambda time: ((time * 1000 >> 10) << 10) // 1000)


def ticks_time(micros: int) -> int:
    """Returns the microseconds that PIE shows as `micros`. The kernel counts units of 64 ns."""
    return _before(micros, lambda time: ((time * 1000 >> 6) << 6) // 1000)


def gain(shown: float) -> float:
    """Returns the gain, in Hz, that DualPI2 shows as `shown`. The kernel converts multiples of 1/256 Hz to
    another unit and back, and rounds down in both directions (`sch_dualpi2.c`)."""
    multiple = round(min(shown, 2**24) * 256)
    return _before(multiple, lambda one: one * _MOST // (4 * 10**9) * (4 * 10**9) // _MOST) / 256


def _before(shown: int, rounded: Any) -> int:
    fitting = [time for time in range(shown, shown + 3) if rounded(time) == shown]
    return max(fitting, key=_zeros, default=shown)


def _zeros(number: int) -> int:
    text = str(number)
    return len(text) - len(text.rstrip("0"))
