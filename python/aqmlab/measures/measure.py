"""The class `Measure`: a quantity that is computed from a run, with name, unit, digits and version.

Values are stored under the measure's key, `NAME@VERSION`. The measure's author must increase the version when
the computation changes. Stored runs are repeated only if the version of a measure changes.
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
    """The part of a run after the warm-up, with look-up of links, flows and transfers by name. The results of
    look-ups are cached and shared by all measures."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._links: dict[str, dict[str, Any]] = {}
        self._flows: dict[str, pl.DataFrame] = {}
        self._transfers: dict[str, pl.DataFrame] = {}
        self._times: dict[str, npt.NDArray[Any]] = {}
        self._once: dict[Any, Any] = {}
        self.is_strict = False
        """Whether an unknown workload is an error."""

    def once(self, of: Callable[[Run], T], name: Any = None) -> T:
        """Returns the result of a function of the run, and caches the result, so that several measures can
        share it. The cache key is the function or, if given, `name`. `name` is needed if each measure creates
        its own function object."""
        key = of if name is None else name
        if key not in self._once:
            self._once[key] = of(self.run)
        found: T = self._once[key]
        return found

    @cached_property
    def window(self) -> tuple[float, float]:
        """Start and end of the measured period in seconds: the period begins when the warm-up ends, and ends
        when the scenario ends."""
        from aqmlab import metrics

        return metrics.window(self.run.manifest)

    def link(self, name: str) -> Mapping[str, Any]:
        """Returns the row of a managed link."""
        if not self._links:
            self._links = {str(row["link"]): row for row in self.run.tables["links"].iter_rows(named=True)}
        if name not in self._links:
            raise ValueError(f"no managed link is named `{name}`: {hint(name, self._links)}")
        return self._links[name]

    def _check(self, traffic: str) -> None:
        """Raises `ValueError`, which suggests similar names, if a user-defined measure requests an unknown
        workload. For measures that the package defines, an unknown workload is not an error, because an axis
        of a sweep may have removed the workload."""
        known = self.run.manifest.get("scenario", {}).get("traffic", {})
        if self.is_strict and known and traffic not in known:
            raise ValueError(f"no workload is named `{traffic}`: {hint(traffic, known)}")

    def flows(self, traffic: str) -> pl.DataFrame:
        """Returns the flows of a workload that were open at any time after the warm-up."""
        from aqmlab import metrics

        if traffic not in self._flows:
            self._check(traffic)
            self._flows[traffic] = metrics.measured_flows(self.run.tables["flows"], traffic, self.window[0])
        return self._flows[traffic]

    def transfers(self, traffic: str) -> pl.DataFrame:
        """Returns all transfers of a workload, including transfers during the warm-up."""
        import polars as pl

        if traffic not in self._transfers:
            self._check(traffic)
            self._transfers[traffic] = self.run.tables["transfers"].filter(pl.col("traffic") == traffic)
        return self._transfers[traffic]

    def times(self, traffic: str) -> npt.NDArray[Any]:
        """Returns the times (s) of the workload's completed transfers that started after the warm-up, in
        order of start time."""
        from aqmlab import metrics

        if traffic not in self._times:
            ours = self.transfers(traffic)
            self._times[traffic] = metrics.completed_times(ours, self.window[0])
        return self._times[traffic]

    def pages(self, traffic: str) -> npt.NDArray[Any]:
        """Returns the times (s) of the workload's completed pages that started after the warm-up."""
        import polars as pl

        from aqmlab import metrics

        self._check(traffic)
        ours = self.run.tables["pages"].filter(pl.col("traffic") == traffic)
        return metrics.completed_times(ours, self.window[0])


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """The name, title, unit and number of digits of a column of numbers."""

    name: str
    title: str = ""
    unit: str = ""
    digits: int = 4
    """Number of significant digits of a number that is printed without an interval."""
    version: int = 1

    def __post_init__(self) -> None:
        if "@" in self.name or not self.name.strip():
            raise ValueError(f"name: must be a non-empty string without @ (got {self.name!r})")
        if self.version < 1:
            raise ValueError(f"{self.name}: version: must be at least 1 (got {self.version})")

    @property
    def key(self) -> str:
        """The key of stored values, `NAME@VERSION`."""
        return f"{self.name}@{self.version}"

    @property
    def label(self) -> str:
        """Title and unit, for axes and table headings."""
        return with_unit(self.title or self.name, self.unit)


@dataclass(frozen=True, kw_only=True)
class Measure(Quantity):
    """A quantity that is computed from a run.

    `compute` returns a number. `compute` returns `None` or NaN if the run has no value, for example if there
    are no transfers whose mean time could be computed. A measure without a unit may also return a JSON value
    (a list or a table of numbers), or a Polars frame, which is stored as Parquet. `columns` lists, by table,
    the columns that the scenario must record for the measure.
    """

    compute: Callable[[View], Any]
    columns: Mapping[str, frozenset[str]] | None = None
    series: Callable[[View], Any] | None = None
    """Function that returns a series of values over time. The mean of this series is the measure. The series
    is used for batch means of one long run."""

    @property
    def fingerprint(self) -> str:
        """A digest of the unit and of the compiled code of `compute`. The digest depends on the version of
        Python."""
        digest = hashlib.sha256(self.unit.encode())
        for part in _code_of(self.compute):
            digest.update(part)
        return digest.hexdigest()[:16]

    def of(self, view: View) -> Any:
        """Returns the value of the measure. NaN and infinity are replaced by `None`, also within lists and
        tables."""
        from aqmlab.metrics import finite

        view.is_strict = not (self.compute.__module__ or "").startswith("aqmlab.")
        return finite(self.compute(view))


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """A function that computes several measures of a run together.

    All measures of the function have the version `version`. The author must increase the version when the
    results of `of` change.
    """

    prefix: str
    """Prefix of the measures' names, which is followed by a dot."""
    of: Callable[[Run], Mapping[str, Any]]
    version: int = 1

    def measure(self, key: str, title: str, unit: str = "", digits: int = 3) -> Measure:
        """Returns the measure for a key of the function's result."""
        return Measure(
            name=f"{self.prefix}.{key}",
            title=title,
            unit=unit,
            digits=digits,
            version=self.version,
            compute=lambda view: view.once(self.of)[key],
        )


def _code_of(function: Callable[..., Any]) -> Iterator[bytes]:
    """Returns the instructions and constants of a function and of its inner functions."""
    code = getattr(function, "__code__", None)
    pending = [code] if isinstance(code, CodeType) else []
    while pending:
        one = pending.pop()
        yield one.co_code
        inner = [const for const in one.co_consts if isinstance(const, CodeType)]
        yield repr((one.co_names, [const for const in one.co_consts if const not in inner])).encode()
        pending += inner


def with_unit(title: str, unit: str) -> str:
    """Returns a title, followed by the unit if there is one: `mean object time (s)`."""
    return f"{title} ({unit})" if unit else title


def name_of(key: str) -> tuple[str, int]:
    """Returns the name and the version that a key contains."""
    name, _, version = key.rpartition("@")
    return name, int(version)


def scaled(value: float | None, factor: float) -> float | None:
    """Returns the value multiplied by a factor, or `None` if the value is `None`."""
    return None if value is None else value * factor
