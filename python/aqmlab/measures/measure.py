"""The class `Measure`: a quantity computed from a run, with its name, unit, digits and version.

Values are stored under the measure's key, `NAME@VERSION`. Authors raise the version when the computation
changes. Stored runs are repeated only if the version of a measure changes.
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
    """A run after its warm-up, with access to links, flows and transfers by name. Look-ups are cached for all
    measures."""

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
        """The cached result of a function of the run, so that several measures can share it. The cache key is
        the function, or `name`, which is needed if each measure creates a function of its own."""
        key = of if name is None else name
        if key not in self._once:
            self._once[key] = of(self.run)
        found: T = self._once[key]
        return found

    @cached_property
    def window(self) -> tuple[float, float]:
        """Start and end of the measurement in seconds: the warm-up and the duration."""
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
        """Raises `ValueError` with the nearest names if a user-defined measure requests an unknown workload.
        For measures of the package an unknown workload is not an error, because an axis may have removed the
        workload."""
        known = self.run.manifest.get("scenario", {}).get("traffic", {})
        if self.is_strict and known and traffic not in known:
            raise ValueError(f"no workload is named `{traffic}`: {hint(traffic, known)}")

    def flows(self, traffic: str) -> pl.DataFrame:
        """The flows of a workload that were open at any time after the warm-up."""
        from aqmlab import metrics

        if traffic not in self._flows:
            self._check(traffic)
            self._flows[traffic] = metrics.measured_flows(self.run.tables["flows"], traffic, self.window[0])
        return self._flows[traffic]

    def transfers(self, traffic: str) -> pl.DataFrame:
        """All transfers of a workload, including those during the warm-up."""
        import polars as pl

        if traffic not in self._transfers:
            self._check(traffic)
            self._transfers[traffic] = self.run.tables["transfers"].filter(pl.col("traffic") == traffic)
        return self._transfers[traffic]

    def times(self, traffic: str) -> npt.NDArray[Any]:
        """Times (s) of the workload's completed transfers that started after the warm-up, in the order of
        their start."""
        from aqmlab import metrics

        if traffic not in self._times:
            ours = self.transfers(traffic)
            self._times[traffic] = metrics.completed_times(ours, self.window[0])
        return self._times[traffic]

    def pages(self, traffic: str) -> npt.NDArray[Any]:
        """Times (s) of the workload's completed pages that started after the warm-up."""
        import polars as pl

        from aqmlab import metrics

        self._check(traffic)
        ours = self.run.tables["pages"].filter(pl.col("traffic") == traffic)
        return metrics.completed_times(ours, self.window[0])


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """The description of a column of numbers: name, title, unit and digits."""

    name: str
    title: str = ""
    unit: str = ""
    digits: int = 4
    """Significant digits of a printed number without an interval."""
    version: int = 1

    def __post_init__(self) -> None:
        if "@" in self.name or not self.name.strip():
            raise ValueError(f"name: must be a text without @ that is not empty (got {self.name!r})")
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

    `compute` returns a number, or `None` (or NaN) if the run has no value, such as the mean time of no
    transfers. A measure without a unit may also return a JSON value (a list, a table of numbers), or a Polars
    frame, which is stored as Parquet. `columns` lists, by table, the columns that must be recorded for the
    measure.
    """

    compute: Callable[[View], Any]
    columns: Mapping[str, frozenset[str]] | None = None
    series: Callable[[View], Any] | None = None
    """Function that returns the values over time whose mean is the measure, for batch means of one long
    run."""

    @property
    def fingerprint(self) -> str:
        """A digest of the unit and of the compiled code of `compute`; depends on the version of Python."""
        digest = hashlib.sha256(self.unit.encode())
        for part in _code_of(self.compute):
            digest.update(part)
        return digest.hexdigest()[:16]

    def of(self, view: View) -> Any:
        """The value of the measure, with `None` in place of NaN and infinity, also within lists and
        tables."""
        from aqmlab.metrics import finite

        view.is_strict = not (self.compute.__module__ or "").startswith("aqmlab.")
        return finite(self.compute(view))


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """A function that computes several measures of a run at once.

    All its measures have the version `version`, which authors raise when the results of `of` change.
    """

    prefix: str
    """Prefix of the names of its measures, before a dot."""
    of: Callable[[Run], Mapping[str, Any]]
    version: int = 1

    def measure(self, key: str, title: str, unit: str = "", digits: int = 3) -> Measure:
        """The measure for a key of the function's result."""
        return Measure(
            name=f"{self.prefix}.{key}",
            title=title,
            unit=unit,
            digits=digits,
            version=self.version,
            compute=lambda view: view.once(self.of)[key],
        )


def _code_of(function: Callable[..., Any]) -> Iterator[bytes]:
    """The instructions and constants of a function and of its inner functions."""
    code = getattr(function, "__code__", None)
    pending = [code] if isinstance(code, CodeType) else []
    while pending:
        one = pending.pop()
        yield one.co_code
        inner = [const for const in one.co_consts if isinstance(const, CodeType)]
        yield repr((one.co_names, [const for const in one.co_consts if const not in inner])).encode()
        pending += inner


def with_unit(title: str, unit: str) -> str:
    """A title with its unit, if any: `mean object time (s)`."""
    return f"{title} ({unit})" if unit else title


def name_of(key: str) -> tuple[str, int]:
    """The name and the version in a key."""
    name, _, version = key.rpartition("@")
    return name, int(version)


def scaled(value: float | None, factor: float) -> float | None:
    """A value multiplied by a factor; `None` for `None`."""
    return None if value is None else value * factor
