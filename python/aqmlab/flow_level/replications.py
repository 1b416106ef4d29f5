"""Replications of flow-level runs, and their comparison with the formulas of `aqmlab.flow_level`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aqmlab.flow_level import laws as flow_level
from aqmlab.measures import Measure
from aqmlab.results.variable import number
from aqmlab.store.selection import SelectedRuns, Selection

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart
    from aqmlab.measures import View
    from aqmlab.results.table import Results
    from aqmlab.scenario import Scenario
    from aqmlab.stats import Interval
    from aqmlab.store import Store

LOADS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2)
"""Loads that demonstrate the three regimes."""

DRAWN = 600
"""Maximum number of samples in a chart of a sample path. A chart with more samples would be illegible."""


@dataclass(frozen=True, kw_only=True)
class Replications:
    """Runs that differ only in their seeds. Samples over time are kept only for the first run."""

    scenario: Scenario
    results: Results
    """Table of the runs without axes, with the measure `ROWS`."""
    in_progress: pl.DataFrame
    cpu_s: float

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds in ascending order."""
        return self.results.seeds

    @property
    def _rows(self) -> Sequence[Mapping[str, Any]]:
        """The value of the measure `ROWS` of each run, in ascending order of seeds."""
        return self.results.column(ROWS.name)

    @cached_property
    def link(self) -> pl.DataFrame:
        """Table of the link with a row for each run. The columns are those of the run's table `links`, and
        `seed`."""
        return self._together("links")

    @cached_property
    def classes(self) -> pl.DataFrame:
        """Table of the flow classes with several rows for each run. The columns are those of the run's table
        `classes`, and `seed`."""
        return self._together("classes")

    def _together(self, name: str) -> pl.DataFrame:
        import polars as pl

        return pl.concat(
            pl.DataFrame(one[name]).with_columns(seed=pl.lit(seed, dtype=pl.Int64))
            for seed, one in zip(self.seeds, self._rows, strict=True)
        )

    @property
    def shares(self) -> Mapping[int, list[float]]:
        """For each seed, the share of time spent at each number of elastic flows."""
        return {seed: one["shares"] for seed, one in zip(self.seeds, self._rows, strict=True)}

    @property
    def throughputs_bps(self) -> tuple[float, ...]:
        """The throughput of an elastic flow (bit/s) in each run, or NaN for a run without elastic flows."""
        return tuple(number(one["throughput_bps"]) for one in self._rows)

    @property
    def events(self) -> int:
        """The total number of events in all runs."""
        return sum(one["events"] for one in self._rows)

    @property
    def relative_load(self) -> float:
        """The elastic load, as a share of the capacity that streaming traffic does not use."""
        return flow_level.relative_load(float(self.link["load"][0]), float(self.link["streaming_load"][0]))

    @property
    def capacity_bps(self) -> float:
        """The capacity of the link."""
        return float(self.link["capacity_bps"][0])

    @property
    def peak_share(self) -> float:
        """The common peak rate of elastic flows, as a share of the capacity that streaming traffic does not
        use."""
        streaming = min(float(self.link["streaming_load"][0]), 1.0 - 1e-12)
        return flow_level.peak_share(self.scenario) / (1 - streaming)

    @property
    def peaked(self) -> bool:
        """Whether the peak rates of elastic flows change the distribution."""
        return self.peak_share < 1

    def throughput_law(self, *, peaked: bool = False) -> float:
        """Returns the theoretical throughput of an elastic flow, in bits per second. The throughput is the
        capacity that streaming traffic does not use, multiplied by `1 - load`, or by the factor for flows
        with equal peak rates."""
        left = 1 - min(float(self.link["streaming_load"][0]), 1.0)
        share = self.peak_share if peaked else math.inf
        return left * self.capacity_bps * flow_level.throughput_law(self.relative_load, share)

    def mean_in_progress(self) -> Interval:
        """Returns the time average of the number of elastic flows in progress, with its interval."""
        from aqmlab import stats

        return stats.mean_interval(self.link["mean_in_progress"].to_list())

    def throughput_bps(self) -> Interval:
        """Returns the throughput of an elastic flow, with its interval."""
        from aqmlab import stats

        return stats.mean_interval(self.throughputs_bps)

    def distribution(self, count: int | None = None) -> pl.DataFrame:
        """Returns the share of time spent at each number of flows with its interval, the geometric
        distribution, and the distribution for flows with equal peak rates, which equals the geometric
        distribution if there are no peak rates."""
        import polars as pl

        from aqmlab import stats

        count = count or max(map(len, self.shares.values()))
        geometric = flow_level.number_law(self.relative_load, count)
        peaked = flow_level.number_law(self.relative_load, count, self.peak_share)
        rows = []
        for flows in range(count):
            at = [shares[flows] if flows < len(shares) else 0.0 for shares in self.shares.values()]
            interval = stats.mean_interval(at)
            rows.append(
                {
                    "flows": flows,
                    "share": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                    "geometric": geometric[flows],
                    "law": peaked[flows],
                }
            )
        return pl.DataFrame(rows)

    def charts(self) -> dict[str, Chart]:
        """Returns charts by name: the sample path of the number of flows, and the measured and theoretical
        distributions of the number of flows."""
        import polars as pl

        from aqmlab.charts.chart import Chart

        table = self.distribution().filter(pl.col("share") > 0)
        count = min(table.height, 60)
        simulated = table.head(count).select("flows", "share", "low", "high", series=pl.lit("simulated"))
        law = pl.DataFrame({"flows": range(count), "share": table["law"].head(count)}).with_columns(
            pl.col("flows").cast(pl.Int64),
            low=pl.lit(math.nan),
            high=pl.lit(math.nan),
            series=pl.lit("law of equal peak rates" if self.peaked else "geometric law"),
        )
        found = {
            "distribution": Chart(
                kind="curve",
                table=pl.concat([simulated, law.select(simulated.columns)]).drop_nans("share"),
                x="flows",
                y="share",
                by="series",
                x_label="Flows in progress",
                y_label="Share of the time",
                log_y=True,
            )
        }
        if self.in_progress.height:
            found["in-progress"] = Chart(
                kind="curve",
                table=self.in_progress.head(DRAWN * self.classes["traffic"].n_unique()).with_columns(
                    pl.col("traffic").cast(pl.String)
                ),
                x="time_s",
                y="flows",
                by="traffic",
                x_label="Time (s)",
                y_label="Flows in progress",
            )
        return found


def replicate(
    scenario: Scenario,
    replications: int = 10,
    *,
    first_seed: int | None = None,
    jobs: int | None = None,
    label: str | None = None,
    store: Store | None = None,
) -> Replications:
    """Runs a flow-level scenario in parallel with consecutive seeds. A `label` enables a progress bar. Tables
    of individual flows are not kept. Runs in the `store` are not repeated."""

    from aqmlab import campaign
    from aqmlab.store import Store

    if scenario.level != "flow":
        raise ValueError(
            f"{scenario.name}: must have the level `flow` (got `{scenario.level}`); use `aqmlab run`"
        )
    first = scenario.effective["seed"] if first_seed is None else first_seed
    seeds = tuple(range(first, first + replications))
    sampled = scenario.with_({"record.flows": False, "seed": 1})
    # Only the samples of the first run are plotted.
    lean = sampled.with_({"record.every": "0s"})
    tasks = [
        campaign.Task(
            scenario=sampled if seed == first else lean,
            seed=seed,
            measures=(ROWS, IN_PROGRESS) if seed == first else (ROWS,),
            name=scenario.name,
        )
        for seed in seeds
    ]
    kept = store or Store.in_memory()
    here = campaign.Local(jobs=jobs)
    campaign.execute(tasks, kept, executor=here, label=label, total=len(tasks), retry=True, fail_fast=True)
    records = kept.runs_of([sampled.digest, lean.digest])
    results = kept.results(
        Selection(
            name=scenario.name,
            axes={},
            measures={ROWS.key: ROWS},
            runs=[
                SelectedRuns(point=(), scenario=task.scenario.digest, first_seed=task.seed, count=1)
                for task in tasks
            ],
        )
    )
    return Replications(
        scenario=scenario,
        results=results,
        in_progress=kept.frame(records[tasks[0].run], IN_PROGRESS.key),
        cpu_s=math.fsum(records[task.run].cpu_s or 0.0 for task in tasks),
    )


def _rows(view: View) -> dict[str, Any]:
    import polars as pl

    from aqmlab.metrics import finite
    from aqmlab.metrics.flow_level import ELASTIC, throughput_bps

    tables = view.run.tables
    at = tables["distribution"].filter(pl.col("traffic") == ELASTIC)
    return {
        "links": finite(tables["links"].to_dicts()),
        "classes": finite(tables["classes"].to_dicts()),
        "shares": at["share"].to_list(),
        "throughput_bps": finite(throughput_bps(view.run)),
        "events": int(view.run.performance["events"]),
    }


ROWS = Measure(name="flow-level.rows", compute=_rows)
"""The small tables of a run, and numbers that are computed from the run's large tables."""

IN_PROGRESS = Measure(name="flow-level.in-progress", compute=lambda view: view.run.tables["in_progress"])
"""The samples of a run over time."""


def regimes(
    scenario: Scenario,
    loads: Sequence[float] = LOADS,
    *,
    replications: int = 5,
    jobs: int | None = None,
    store: Store | None = None,
) -> pl.DataFrame:
    """Runs the scenario at several loads. For each load, returns the regime, the throughput of a flow divided
    by its peak rate (or by the capacity) with its interval and its theoretical value, the share of time in
    saturation, and the utilisation."""
    import polars as pl

    share = min(flow_level.peak_share(scenario), 1.0)
    rows = []
    for load in loads:
        found = replicate(flow_level.at_load(scenario, load), replications, jobs=jobs, store=store)
        throughput, scale = found.throughput_bps(), share * found.capacity_bps
        saturated = float(found.link["saturated"].to_numpy().mean())
        rows.append(
            {
                "load": load,
                "regime": flow_level.regime(load, saturated),
                "throughput": throughput.value / scale,
                "low": throughput.low / scale,
                "high": throughput.high / scale,
                "law": found.throughput_law(peaked=True) / scale,
                "saturated": saturated,
                "utilisation": float(found.link["utilisation"].to_numpy().mean()),
                "mean_in_progress": found.mean_in_progress().value,
            }
        )
    return pl.DataFrame(rows)


def regimes_chart(table: pl.DataFrame) -> Chart:
    """Returns a chart of a flow's throughput against the load, as computed by `regimes`, with the boundaries
    between the regimes."""
    import polars as pl

    from aqmlab.charts.chart import Chart

    columns = ["load", "throughput", "low", "high"]
    simulated = table.select(*columns, series=pl.lit("simulated"))
    law = table.select(
        "load", pl.col("law").alias("throughput"), low=pl.lit(math.nan), high=pl.lit(math.nan)
    ).with_columns(series=pl.lit("law"))
    begins = table.sort("load").group_by("regime", maintain_order=True).agg(pl.col("load").min())
    return Chart(
        kind="line",
        table=pl.concat([simulated, law]),
        x="load",
        y="throughput",
        by="series",
        x_label="Load",
        y_label="Throughput of a flow / its peak rate",
        y_limits=(0.0, 1.05),
        guides={str(name): float(load) for name, load in begins.iter_rows()},
    )
