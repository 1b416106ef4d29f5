"""Traces: real packets, or made-up ones, replayed through a queue at a chosen rate of the line.

How many flows have a packet in a fair scheduler? A. Kortebi, L. Muscariello, S. Oueslati and J. Roberts,
"Evaluating the number of active flows in a scheduler realizing fair statistical bandwidth sharing", 2005,
found hundreds while tens of thousands are in progress; S. Oueslati and J. Roberts, "Fair queueing and
congestion control", 2005, say at most 500 below a load of 0.9. A flow is *active* while a packet of it
waits, and *in progress* from its first packet to its last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.run import Outcome
from aqmlab.scenario import Given, ScenarioFileError, changed, plain, read_toml

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.plot import Chart

PUBLISHED_MOST_ACTIVE = 500
"""Active flows at most, below a load of 0.9, as the talk says."""


@dataclass(frozen=True, kw_only=True)
class Trace(Given):
    """A trace, the queue it is replayed through and the line behind that."""

    name: str = "trace"

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Reads a TOML file; a file that it names is looked for beside it. Raises `ScenarioFileError`."""
        path = Path(path)
        given = read_toml(path)
        source = given.get("source")
        if isinstance(source, dict) and isinstance(source.get("path"), str):
            source["path"] = str(path.parent / source["path"])
        try:
            return cls(given=given, name=path.stem)._verified()
        except (_core.ScenarioError, _core.TraceError) as error:
            raise ScenarioFileError.of(path, error) from None

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Trace:
        """The trace of a plain table of the form of a TOML file."""
        return cls(given=plain(table))._verified()

    @classmethod
    def of_file(cls, path: str | Path) -> Trace:
        """A capture (pcap, pcapng) or a list of flows (CSV), packed with gzip or not. It is not read yet."""
        return cls(given={"source": {"kind": "file", "path": str(path)}}, name=Path(path).name)

    def with_(self, changes: Mapping[str, Any]) -> Trace:
        """A copy with the values at some dotted paths replaced: `{"rate": "1Gbps"}`.

        A table replaces a table whole; `None` removes. Raises `ScenarioError` if the result is wrong. A file
        that the trace names is read once, for the digest.
        """
        return self.changed(changes)._verified()

    def changed(self, changes: Mapping[str, Any]) -> Trace:
        """The same without a check, which the run makes too."""
        return Trace(given=changed(self.given, changes), name=self.name)

    def _verified(self) -> Trace:
        _ = self.effective
        return self

    def _check(self) -> tuple[str, str]:
        return _core.check_trace(self._text)

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> TraceRun:
        """Replays it, with another seed if one is given. Other threads go on meanwhile, and may `watch`."""
        scenario = self if seed is None else self.changed({"seed": seed})
        return TraceRun.of(lambda: _core.run_trace(scenario._text, watch or _core.Watch()))

    def write(self, path: str | Path, *, watch: _core.Watch | None = None) -> dict[str, int]:
        """Writes a generated trace as `.pcap` or `.csv`, with `.gz` behind it or not; returns how many
        `packets` (of a capture) and `flows`."""
        written: dict[str, int] = json.loads(_core.write_trace(self._text, str(path), watch or _core.Watch()))
        return written


@dataclass(frozen=True, kw_only=True)
class TraceRun(Outcome):
    """What a replay leaves behind."""

    @property
    def summary(self) -> dict[str, Any]:
        """The replay in short, by column."""
        return self.tables["summary"].row(0, named=True)

    @property
    def distribution(self) -> pl.DataFrame:
        """For how much of the time how many flows were active, and in progress."""
        return self.tables["distribution"]

    @property
    def active(self) -> pl.DataFrame:
        """Active flows and packets that wait, sampled."""
        return self.tables["active"]

    @property
    def in_progress(self) -> pl.DataFrame:
        """Flows in progress, sampled."""
        return self.tables["in_progress"]

    @property
    def warnings(self) -> list[str]:
        """What was wrong with the trace and could be put up with."""
        return list(self.manifest["warnings"])

    def charts(self) -> dict[str, Chart]:
        """How often how many flows are active, and how active flows and those in progress go up and down."""
        import polars as pl

        from aqmlab.plot import Chart

        share = self.distribution["active_share"]
        more = share.sum() - share.cum_sum()
        tail = pl.DataFrame({"flows": self.distribution["flows"], "share": more})
        # Rounding leaves a little behind the last.
        tail = tail.filter(pl.col("share") > 1e-12).with_columns(series=pl.lit("active"))
        found = {}
        if tail.height:
            found["active-tail"] = Chart(
                kind="curve",
                table=tail,
                x="flows",
                y="share",
                by="series",
                x_label="Active flows",
                y_label="Share of the time with more",
                log_y=True,
            )
        if self.active.height:
            each = self.active.select(
                "time_s", pl.col("most_flows").alias("most since the sample before"), sampled="flows"
            )
            found["active"] = Chart(
                kind="curve",
                table=each.unpivot(index="time_s", variable_name="series", value_name="flows"),
                x="time_s",
                y="flows",
                by="series",
                x_label="Time (s)",
                y_label="Active flows",
            )
        if self.in_progress.height:
            found["in-progress"] = Chart(
                kind="curve",
                table=self.in_progress.with_columns(series=pl.lit("in progress")),
                x="time_s",
                y="flows",
                by="series",
                x_label="Time (s)",
                y_label="Flows in progress",
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """What `aqmlab trace active-flows --json` prints."""
        return {
            "manifest": self.manifest,
            "summary": self.summary,
            "distribution": self.distribution.to_dicts(),
            "performance": self.performance,
        }


def active_flows(
    path: str | Path,
    *,
    rate: str | None = None,
    queue: str | Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> TraceRun:
    """Replays a capture or a list of flows: `active_flows("a.pcap", rate="2.5Gbps").summary`.

    `queue` is the kind of a discipline or its table, `changes` other values of the scenario by dotted path.
    Left out is what the core has as a default. Raises `TraceError` if the file is no trace.
    """
    return chosen(Trace.of_file(path), rate=rate, queue=queue).changed(changes or {}).run()


def chosen(trace: Trace, *, rate: str | None = None, queue: str | Mapping[str, Any] | None = None) -> Trace:
    """The trace at another rate or with another queue, not yet checked."""
    changes: dict[str, Any] = {}
    if rate is not None:
        changes["rate"] = rate
    if queue is not None:
        changes["queue"] = {"kind": queue} if isinstance(queue, str) else dict(queue)
    return trace.changed(changes)
