"""Measures: what a run is reduced to, each declared once with its name, unit, digits and version.

What is kept of a run is kept under the measure's key,
`NAME@VERSION`: whoever changes what a measure computes raises its version, and nothing else makes a run
anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

from aqmlab._support.names import hint
from aqmlab._support.run import Run

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl


T = TypeVar("T")


class View:
    """A run after its warm-up: links, flows and transfers by name, each looked up once for all measures."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._links: dict[str, dict[str, Any]] = {}
        self._flows: dict[str, pl.DataFrame] = {}
        self._transfers: dict[str, pl.DataFrame] = {}
        self._times: dict[str, npt.NDArray[Any]] = {}
        self._once: dict[Any, Any] = {}
        self.is_strict = False
        """Whether a workload that is not there is a mistake."""

    def once(self, of: Callable[[Run], T], name: Any = None) -> T:
        """What a function finds in the run, found once for all measures that ask for it; by a name if the
        function is made anew for each of them."""
        key = of if name is None else name
        if key not in self._once:
            self._once[key] = of(self.run)
        found: T = self._once[key]
        return found

    @cached_property
    def window(self) -> tuple[float, float]:
        """Warm-up and end, in seconds."""
        from aqmlab import metrics

        return metrics.window(self.run.manifest)

    def link(self, name: str) -> Mapping[str, Any]:
        """The row of a managed link."""
        if not self._links:
            self._links = {str(row["link"]): row for row in self.run.tables["links"].iter_rows(named=True)}
        if name not in self._links:
            raise ValueError(f"no managed link is named `{name}`: {hint(name, self._links)}")
        return self._links[name]

    def _check(self, traffic: str) -> None:
        """Raises `ValueError` with the nearest names if a measure of a user asks for a workload that the
        scenario does not have. Those of the package are known to be spelt right: where an axis takes a
        workload away, they find nothing."""
        known = self.run.manifest.get("scenario", {}).get("traffic", {})
        if self.is_strict and known and traffic not in known:
            raise ValueError(f"no workload is named `{traffic}`: {hint(traffic, known)}")

    def flows(self, traffic: str) -> pl.DataFrame:
        """The flows of a workload that were open at some time after the warm-up."""
        from aqmlab import metrics

        if traffic not in self._flows:
            self._check(traffic)
            self._flows[traffic] = metrics.measured_flows(self.run.tables["flows"], traffic, self.window[0])
        return self._flows[traffic]

    def transfers(self, traffic: str) -> pl.DataFrame:
        """All transfers of a workload, those before the warm-up too."""
        import polars as pl

        if traffic not in self._transfers:
            self._check(traffic)
            self._transfers[traffic] = self.run.tables["transfers"].filter(pl.col("traffic") == traffic)
        return self._transfers[traffic]

    def times(self, traffic: str) -> npt.NDArray[Any]:
        """Times (s) of a workload's transfers that began after the warm-up and were completed, in the order
        of their beginning."""
        from aqmlab import metrics

        if traffic not in self._times:
            ours = self.transfers(traffic)
            self._times[traffic] = metrics.completed_times(ours, self.window[0])
        return self._times[traffic]

    def pages(self, traffic: str) -> npt.NDArray[Any]:
        """Times (s) of a workload's pages that began after the warm-up and were completed."""
        import polars as pl

        from aqmlab import metrics

        self._check(traffic)
        ours = self.run.tables["pages"].filter(pl.col("traffic") == traffic)
        return metrics.completed_times(ours, self.window[0])


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """What a column of numbers is: its name, what it is called in words, its unit, how it is printed."""

    name: str
    title: str = ""
    unit: str = ""
    digits: int = 4
    """Significant digits of a number without an interval."""
    version: int = 1

    def __post_init__(self) -> None:
        if "@" in self.name or not self.name.strip():
            raise ValueError(f"a measure's name must not be empty or hold an @, is {self.name!r}")
        if self.version < 1:
            raise ValueError(f"{self.name}: version: must be at least 1, is {self.version}")

    @property
    def key(self) -> str:
        """What its values are kept under."""
        return f"{self.name}@{self.version}"

    @property
    def label(self) -> str:
        """Title and unit, for axes and heads of tables."""
        return with_unit(self.title or self.name, self.unit)


@dataclass(frozen=True, kw_only=True)
class Measure(Quantity):
    """One thing that a run is reduced to.

    `compute` gives a number, or `None` (or NaN) where the run has none, such as the mean time of no
    transfers; of a measure without a unit also what JSON holds (a list, a table of numbers), or a polars
    frame, which is kept as Parquet. `columns` names what must be recorded for it, by table.
    """

    compute: Callable[[View], Any]
    columns: Mapping[str, frozenset[str]] | None = None
    series: Callable[[View], Any] | None = None
    """The values over time that the measure is the mean of, for batch means of one long run."""

    @property
    def fingerprint(self) -> str:
        """A digest of its unit and of the code that computes it, as this version of Python compiled it."""
        said = hashlib.sha256(self.unit.encode())
        for part in _code_of(self.compute):
            said.update(part)
        return said.hexdigest()[:16]

    def of(self, view: View) -> Any:
        """Its value; `None` for each number that does not exist, also within lists and tables."""
        from aqmlab.metrics import finite

        view.is_strict = not (self.compute.__module__ or "").startswith("aqmlab.")
        return finite(self.compute(view))


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """A function that finds several numbers in a run at once, each of which is a measure.

    `version` is that of all of them: whoever changes what `of` finds raises it.
    """

    prefix: str
    """What the names of its measures begin with, and a dot."""
    of: Callable[[Run], Mapping[str, Any]]
    version: int = 1

    def measure(self, key: str, title: str, unit: str = "", digits: int = 3) -> Measure:
        """The measure that is found under a key."""
        return Measure(
            name=f"{self.prefix}.{key}",
            title=title,
            unit=unit,
            digits=digits,
            version=self.version,
            compute=lambda view: view.once(self.of)[key],
        )


def _code_of(function: Callable[..., Any]) -> Iterator[bytes]:
    """The instructions and constants of a function, and of the functions that it holds."""
    code = getattr(function, "__code__", None)
    pending = [code] if isinstance(code, CodeType) else []
    while pending:
        one = pending.pop()
        yield one.co_code
        inner = [const for const in one.co_consts if isinstance(const, CodeType)]
        yield repr((one.co_names, [const for const in one.co_consts if const not in inner])).encode()
        pending += inner


def with_unit(title: str, unit: str) -> str:
    """What a number is, with its unit if it has one: `mean object time (s)`."""
    return f"{title} ({unit})" if unit else title


def name_of(key: str) -> tuple[str, int]:
    """The name and the version of a key."""
    name, _, version = key.rpartition("@")
    return name, int(version)


def scaled(value: float | None, factor: float) -> float | None:
    """A value in another unit, if there is one."""
    return None if value is None else value * factor
