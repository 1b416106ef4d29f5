"""Runs of scenarios, with their tables, manifest and summary."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aqmlab import _core

if TYPE_CHECKING:
    import polars as pl


class TablesSource(Protocol):
    """An object that has the tables of a run."""

    def names(self) -> list[str]:
        """Returns the names of the tables."""

    def table(self, name: str) -> Any:
        """Returns a table in a form that Polars can read. Raises `KeyError` if there is no such table."""

    def digest(self) -> str:
        """Returns a digest of all values in all tables."""


class Tables(Mapping[str, "pl.DataFrame"]):
    """The tables of a run by name. A table is converted to a Polars frame when it is first used."""

    def __init__(self, output: TablesSource) -> None:
        self._output = output
        self._frames: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        import polars as pl

        if name not in self._frames:
            self._frames[name] = pl.DataFrame(self._output.table(name))
        return self._frames[name]

    def digest(self) -> str:
        """Returns a digest of all values in all tables."""
        return self._output.digest()

    def write_pcap(self, path: Path) -> int:
        """Writes the packets that a simulated run recorded in `packets` to a pcapng file. Each dropped packet
        has a comment that states the reason for the drop. Returns the number of packets.

        Raises `OSError` if the file cannot be written, and `PcapError` if the run recorded no packets."""
        if not isinstance(self._output, _core.Output):
            raise _core.PcapError("a run in virtual time writes its packets during the run (`--pcap`)")
        return _core.write_pcap(self._output, path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._output.names())

    def __len__(self) -> int:
        return len(self._output.names())


@dataclass(frozen=True, kw_only=True)
class Run:
    """The results of a run at any level.

    `manifest` contains the level, the scenario with all defaults, the seed, versions, the digest and
    warnings. `performance` contains the number of events, the CPU time in seconds and, for runs with packets,
    the number of packets that the bottleneck forwarded. `aqmlab list tables` describes the tables.
    """

    tables: Tables = field(repr=False)
    manifest: dict[str, Any] = field(repr=False)
    performance: dict[str, float]

    @classmethod
    def of(cls, make: Callable[[], _core.Output]) -> Run:
        """Executes a run. The CPU time is the time of the calling thread, which executes the whole run,
        or of the program `aqmlab-guests`."""
        before = time.thread_time()
        output = make()
        cpu_seconds = time.thread_time() - before + output.other_cpu_s
        performance: dict[str, float] = {"events": output.events, "cpu_s": cpu_seconds}
        if output.forwarded is not None:
            performance["packets_forwarded"] = output.forwarded
            performance["packets_per_cpu_s"] = output.forwarded / cpu_seconds if cpu_seconds > 0 else 0.0
        return cls(tables=Tables(output), manifest=json.loads(output.manifest), performance=performance)

    @property
    def level(self) -> str:
        """The level of the run: `packet`, `flow` or `trace`."""
        return str(self.manifest["level"])

    @property
    def warnings(self) -> list[str]:
        """Warnings about the scenario and the scenario's files."""
        return list(self.manifest["warnings"])

    @cached_property
    def tables_digest(self) -> str:
        """A digest of all values in all tables. Equal runs have the same digest on every machine."""
        return self.tables.digest()

    @cached_property
    def summary(self) -> dict[str, Any]:
        """A summary of the run after the warm-up. At packet level, the summary describes links, traffic
        classes, flows and transfers (`aqmlab.metrics.summary`), and the results of tests of responsiveness.
        At flow level, the summary describes the link and the traffic classes. For a trace, the summary is a
        single row."""
        if self.level == "packet":
            from aqmlab.metrics import summary

            return summary.of_tables(self.tables, self.manifest) | self._line_tests()
        if self.level == "flow":
            classes = self.tables["classes"].to_dicts()
            return {"link": self.tables["links"].row(0, named=True), "classes": classes}
        return self.tables["summary"].row(0, named=True)

    def _line_tests(self) -> dict[str, Any]:
        """Returns the results of the tests of responsiveness; empty if the run has no tests."""
        from aqmlab.metrics import line_tests
        from aqmlab.scenario.workloads import workloads

        if not set(self.tables) >= line_tests.TABLES:
            return {}
        settings = {name: one.responsiveness for name, one in workloads(self.manifest["scenario"]).items()}
        found = {
            name: line_tests.summary(line_tests.LineTest.of(self.tables, name, one))
            for name, one in settings.items()
            if one is not None
        }
        return {"line_tests": found}

    @property
    def flows(self) -> pl.DataFrame:
        """The table of flows, with one row per flow, for runs at packet level and at flow level."""
        return self.tables["flows"]

    @property
    def transfers(self) -> pl.DataFrame:
        """The table of transfers (which have a given size), with one row per transfer, for runs at packet
        level."""
        return self.tables["transfers"]

    @property
    def pages(self) -> pl.DataFrame:
        """The table of pages, with one row per page, for runs at packet level."""
        return self.tables["pages"]

    @property
    def links(self) -> pl.DataFrame:
        """The table of managed links, with one row per link, for runs at packet level and at flow level."""
        return self.tables["links"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `aqmlab run --json` prints."""
        return {
            "manifest": {**self.manifest, "tables_digest": self.tables_digest},
            "summary": self.summary,
            "performance": self.performance,
        }

    def _repr_html_(self) -> str:
        from aqmlab._support import notebook

        title = f"Run {self.manifest['digest'][:12]}, seed {self.manifest['seed']}"
        summary = self.summary
        if self.level == "flow":
            rows = {row.pop("traffic"): row for row in map(dict, summary["classes"])}
            link = notebook.rows_by_name("", {"link": summary["link"]})
            return notebook.section(title, link, notebook.rows_by_name("traffic", rows))
        if self.level == "trace":
            return notebook.section(title, notebook.table(("measure", "value"), summary.items()))
        classes = {
            f"{link} {name}": row
            for link, of_link in summary["classes"].items()
            for name, row in of_link.items()
        }
        parts = {
            "link": summary["links"],
            "class": classes,
            "flows": summary["flows"],
            "transfers": summary["transfers"],
        }
        return notebook.section(title, *(notebook.rows_by_name(what, rows) for what, rows in parts.items()))
