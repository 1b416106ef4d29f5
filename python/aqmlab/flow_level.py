"""The flow level: a link shared by flows that come and go, without packets, and what theory says of it.

With processor sharing and Poisson arrivals of sessions the number of flows in progress is geometric,
`P(N = n) = (1 - load) load^n`, and a flow's throughput is the capacity times `1 - load`, whatever the
sizes (Bonald and Roberts, "Congestion at Flow Level and the Impact of User Behaviour", 2003). With equal
peak rates it is the law of M/G/R processor sharing (Lindberger 1999). Three regimes follow: Kortebi,
Oueslati and Roberts, "Cross-protect: Implicit Service Differentiation and Admission Control", 2004.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aqmlab import _core
from aqmlab.run import Outcome
from aqmlab.scenario import Given, ScenarioFileError, changed, plain, read_toml

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.plot import Chart
    from aqmlab.stats import Interval

Table = dict[str, Any]
Regime = Literal["transparent", "elastic", "overload"]

ELASTIC = "elastic"
"""The word of the table `distribution` for all elastic flows together."""

LOADS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2)
"""Loads that show the three regimes."""


DRAWN = 600
"""Samples that a sample path shows: more of them are a carpet."""


@dataclass(frozen=True, kw_only=True)
class FlowLevel(Given):
    """A link and who shares it."""

    name: str = "flow-level"

    @classmethod
    def load(cls, path: str | Path) -> FlowLevel:
        """Reads a TOML file and checks everything; raises `ScenarioFileError`."""
        path = Path(path)
        scenario = cls(given=read_toml(path), name=path.stem)
        try:
            _ = scenario.effective
        except _core.ScenarioError as error:
            raise ScenarioFileError.of(path, error) from None
        return scenario

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> FlowLevel:
        """The scenario of a plain table of the form of a TOML file."""
        scenario = cls(given=plain(table))
        _ = scenario.effective
        return scenario

    def with_(self, changes: Mapping[str, Any]) -> FlowLevel:
        """A copy with the values at some dotted paths replaced: `{"traffic.web.load": 0.8}`.

        A table replaces a table whole; `None` removes. Raises `ScenarioError` if the result is wrong.
        """
        scenario = FlowLevel(given=changed(self.given, changes), name=self.name)
        _ = scenario.effective
        return scenario

    def _check(self) -> tuple[str, str]:
        return _core.check_flow_level(self._text)

    def run(self, seed: int | None = None) -> FlowRun:
        """Runs it, with another seed if one is given. Other threads go on meanwhile."""
        scenario = self if seed is None else self.with_({"seed": seed})
        return FlowRun.of(lambda: _core.run_flow_level(scenario._text))


@dataclass(frozen=True, kw_only=True)
class FlowRun(Outcome):
    """What a run of the flow level leaves behind."""

    @property
    def flows(self) -> pl.DataFrame:
        """One row for each flow."""
        return self.tables["flows"]

    @property
    def in_progress(self) -> pl.DataFrame:
        """The number of flows in progress, sampled."""
        return self.tables["in_progress"]

    @property
    def distribution(self) -> pl.DataFrame:
        """For how much of the time how many flows were in progress."""
        return self.tables["distribution"]

    @property
    def classes(self) -> pl.DataFrame:
        """One row for each traffic."""
        return self.tables["classes"]

    @property
    def link(self) -> dict[str, Any]:
        """The link, by column."""
        return self.tables["links"].row(0, named=True)

    @property
    def elastic_throughput_bps(self) -> float:
        """Bits of elastic flows carried over the time they were in progress; NaN if there were none."""
        import polars as pl

        services = self.manifest["scenario"]["traffic"]
        elastic = [name for name, one in services.items() if one["service"] == "elastic"]
        ours = self.classes.filter(pl.col("traffic").cast(pl.String).is_in(elastic))
        at = self.distribution.filter(pl.col("traffic").cast(pl.String) == ELASTIC)
        area = float((at["flows"] * at["time_s"]).sum())
        return float(ours["carried_bytes"].sum()) * 8 / area if area > 0 else math.nan


# What theory says


def relative_load(load: float, streaming_load: float) -> float:
    """The elastic load, as a share of what streaming leaves of the capacity."""
    return (load - streaming_load) / (1 - streaming_load) if streaming_load < 1 else math.inf


def number_law(load: float, count: int, peak_share: float = math.inf) -> list[float]:
    """P(N = 0), ..., P(N = count - 1) with processor sharing: the geometric law, or that of flows with
    equal peak rates which are this share of the capacity. All NaN from a load of one on."""
    if not load < 1:
        return [math.nan] * count
    # From here on the flows fill the link, and each step is a factor of the load.
    full = max(1, math.ceil(1 / peak_share))
    steps = max(full, count)
    terms = [1.0]
    for number in range(1, steps + 1):
        terms.append(terms[-1] * load / min(number * peak_share, 1.0))
    total = math.fsum(terms[:full]) + terms[full] / (1 - load)
    return [term / total for term in terms[:count]]


def throughput_law(load: float, peak_share: float = math.inf) -> float:
    """A flow's throughput as a share of the capacity: `1 - load` without peak rates, 0 in overload."""
    if not load < 1:
        return 0.0
    full = max(1, math.ceil(1 / peak_share))
    law = number_law(load, full + 1, peak_share)
    below = math.fsum(number * law[number] for number in range(full))
    beyond = law[full] * (full / (1 - load) + load / (1 - load) ** 2)
    return load / (below + beyond)


# Replications


@dataclass(frozen=True, kw_only=True)
class Replications:
    """Runs that differ in the seed only. Of the samples, those of the first run are kept."""

    scenario: FlowLevel
    seeds: tuple[int, ...]
    link: pl.DataFrame
    classes: pl.DataFrame
    shares: Mapping[int, list[float]]
    """By seed, the share of the time at each number of elastic flows."""
    throughputs_bps: tuple[float, ...]
    in_progress: pl.DataFrame
    events: int
    cpu_s: float

    @property
    def relative_load(self) -> float:
        """The elastic load, as a share of what streaming leaves."""
        return relative_load(float(self.link["load"][0]), float(self.link["streaming_load"][0]))

    @property
    def capacity_bps(self) -> float:
        """What the link carries."""
        return float(self.link["capacity_bps"][0])

    @property
    def peak_share(self) -> float:
        """The peak rate of elastic flows over what streaming leaves of the capacity, if all have the same."""
        return peak_share(self.scenario) / (1 - min(float(self.link["streaming_load"][0]), 1.0 - 1e-12))

    @property
    def peaked(self) -> bool:
        """Whether the peak rates of elastic flows make a law of their own."""
        return self.peak_share < 1

    def throughput_law(self, *, peaked: bool = False) -> float:
        """What theory says of the throughput of an elastic flow, in bits per second: the capacity that
        streaming leaves, times `1 - load`, or what flows with equal peak rates have."""
        left = 1 - min(float(self.link["streaming_load"][0]), 1.0)
        share = self.peak_share if peaked else math.inf
        return left * self.capacity_bps * throughput_law(self.relative_load, share)

    def mean_in_progress(self) -> Interval:
        """The time average of the number of elastic flows in progress."""
        from aqmlab import stats

        return stats.mean_interval(self.link["mean_in_progress"].to_list())

    def throughput_bps(self) -> Interval:
        """The throughput of an elastic flow."""
        from aqmlab import stats

        return stats.mean_interval(self.throughputs_bps)

    def distribution(self, count: int | None = None) -> pl.DataFrame:
        """Share of the time at each number of flows with its interval, beside the geometric law and that of
        flows with equal peak rates (the same where there are none)."""
        import polars as pl

        from aqmlab import stats

        count = count or max(map(len, self.shares.values()))
        geometric = number_law(self.relative_load, count)
        peaked = number_law(self.relative_load, count, self.peak_share)
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
        """The sample path of the number of flows, and its distribution beside the law, by name."""
        import polars as pl

        from aqmlab.plot import Chart

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
    scenario: FlowLevel,
    replications: int = 10,
    *,
    first_seed: int | None = None,
    jobs: int | None = None,
    told: Callable[[], None] | None = None,
) -> Replications:
    """Runs the scenario with seeds that follow one another, in parallel; rows of flows are not kept."""
    import polars as pl

    first = scenario.effective["seed"] if first_seed is None else first_seed
    seeds = tuple(range(first, first + replications))
    lean = scenario.with_({"record.flows": False})

    def one(seed: int) -> FlowRun:
        # Samples of the first run are drawn; those of the others nobody looks at.
        changes = {} if seed == first else {"record.every": "0s"}
        run = lean.with_(changes).run(seed)
        if told:
            told()
        return run

    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        runs = list(pool.map(one, seeds))

    def shares(run: FlowRun) -> list[float]:
        ours = run.distribution.filter(pl.col("traffic").cast(pl.String) == ELASTIC)
        return ours["share"].to_list()

    def together(name: str) -> pl.DataFrame:
        return pl.concat(
            run.tables[name].with_columns(seed=pl.lit(seed, dtype=pl.Int64))
            for seed, run in zip(seeds, runs, strict=True)
        )

    return Replications(
        scenario=scenario,
        seeds=seeds,
        link=together("links"),
        classes=together("classes"),
        shares={seed: shares(run) for seed, run in zip(seeds, runs, strict=True)},
        throughputs_bps=tuple(run.elastic_throughput_bps for run in runs),
        in_progress=runs[0].in_progress,
        events=sum(int(run.performance["events"]) for run in runs),
        cpu_s=math.fsum(run.performance["cpu_s"] for run in runs),
    )


# Three regimes


def peak_share(scenario: FlowLevel) -> float:
    """The peak rate of elastic flows over the capacity; infinite if there is none, or not one for all."""
    from aqmlab.metrics import bits_per_second

    tables = scenario.effective["traffic"].values()
    peaks = {one["peak_rate"] for one in tables if one["service"] == "elastic"}
    peak = peaks.pop() if len(peaks) == 1 else None
    if peak is None:
        return math.inf
    return bits_per_second(peak) / bits_per_second(scenario.effective["link"]["capacity"])


def regime(load: float, saturated: float) -> Regime:
    """Which regime a link is in: `saturated` is the share of the time in which peak rates fill it.

    *Transparent*: hardly ever (less than 1 % of the time, our number), so that flows do not notice each
    other. *Elastic*: they do, and sharing matters. *Overload*: more comes than the link can carry.
    """
    if load >= 1:
        return "overload"
    return "elastic" if saturated >= 0.01 else "transparent"


def at_load(scenario: FlowLevel, load: float) -> FlowLevel:
    """The scenario with the load of all traffic together changed, in proportion."""
    given = {name: one["load"] for name, one in scenario.effective["traffic"].items()}
    if None in given.values():
        raise ValueError("loads can be changed where every traffic has a `load`")
    total = math.fsum(given.values())
    return scenario.with_({f"traffic.{name}.load": load * part / total for name, part in given.items()})


def regimes(
    scenario: FlowLevel,
    loads: Sequence[float] = LOADS,
    *,
    replications: int = 5,
    jobs: int | None = None,
) -> pl.DataFrame:
    """The scenario at several loads: regime, throughput of a flow over its peak rate (over the capacity
    where it has none) with its interval and the law's, share of the time saturated, utilisation."""
    import polars as pl

    share = min(peak_share(scenario), 1.0)
    rows = []
    for load in loads:
        found = replicate(at_load(scenario, load), replications, jobs=jobs)
        throughput, scale = found.throughput_bps(), share * found.capacity_bps
        saturated = float(found.link["saturated"].to_numpy().mean())
        rows.append(
            {
                "load": load,
                "regime": regime(load, saturated),
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
    """The throughput of a flow against the load, as [`regimes`] found it, with the ends of the regimes."""
    import polars as pl

    from aqmlab.plot import Chart

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


def demand(run: FlowRun) -> pl.DataFrame:
    """At each sample, the sum of the peak rates of the flows in progress over the capacity; a flow without a
    peak rate asks for all of it."""
    import polars as pl

    from aqmlab.metrics import bits_per_second

    scenario = run.manifest["scenario"]
    capacity = bits_per_second(scenario["link"]["capacity"])
    asked = {
        name: bits_per_second(one["peak_rate"]) / capacity if one["peak_rate"] else 1.0
        for name, one in scenario["traffic"].items()
    }
    share = pl.col("traffic").cast(pl.String).replace_strict(asked, return_dtype=pl.Float64)
    samples = run.in_progress.with_columns(demand=share * pl.col("flows"))
    return samples.group_by("time_s", maintain_order=True).agg(pl.col("demand").sum())


def demand_chart(runs: Mapping[str, FlowRun]) -> Chart:
    """What flows in progress could take of the link, a panel for each run: `{"transparent": run, ...}`."""
    import polars as pl

    from aqmlab.plot import Chart

    parts = [demand(run).with_columns(regime=pl.lit(name)) for name, run in runs.items()]
    return Chart(
        kind="curve",
        table=pl.concat(parts),
        x="time_s",
        y="demand",
        by="regime",
        x_label="Time (s)",
        y_label="Sum of peak rates / capacity",
        panel="regime",
        levels={"capacity": 1.0},
    )
