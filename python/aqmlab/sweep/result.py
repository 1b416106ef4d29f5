"""What a sweep found: runs as a table, intervals, differences from a baseline, distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from aqmlab import measures, stats
from aqmlab.measures import Measure
from aqmlab.results.labels import Value
from aqmlab.sweep.sweep import Sweep

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.campaign import Executor, Failure
    from aqmlab.stats import Interval
    from aqmlab.store import Store
    from aqmlab.sweep.run import Enough, Planned

Against = Literal["difference", "ratio"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SweepResult:
    """The finished runs of a sweep.

    `runs` has a row for each: `point`, a column for each axis (its label), `seed`, `status`, `scenario` (the
    digest) and a column for each measure, empty where the run has no such number. Of runs that failed the
    measures are empty.
    """

    sweep: Sweep
    runs: pl.DataFrame
    failures: Sequence[Failure] = field(default_factory=tuple)
    enough: Sequence[Enough] = field(default_factory=tuple)
    interrupted: bool = False

    def __repr__(self) -> str:
        """The runs in short: `intervals` and `against` have what they say."""
        done = self.runs.filter(self.runs["status"] == "done").height
        said = f"{len(self.sweep)} points, {done} runs, {len(self.failures)} failed"
        return f"SweepResult({self.sweep.name}: {said}; axes {list(self.axes)}; measures {self._names})"

    @property
    def _names(self) -> list[str]:
        return [one.name for one in self.measured]

    @property
    def measured(self) -> tuple[Measure, ...]:
        """The measures that are numbers."""
        beside = (measures.STANDARD_ERROR, measures.CORRELATION)
        found = (one for one in self.sweep.wanted if one.name in self.runs.columns)
        return tuple(one for one in found if not one.name.endswith(beside))

    @property
    def axes(self) -> tuple[str, ...]:
        """The labels of the axes."""
        return tuple(axis.label for axis in self.sweep.all_axes)

    def measure(self, name: str) -> Measure:
        """The measure of this name; raises `ValueError` with those there are."""
        known = {one.name: one for one in self.measured}
        if name not in known:
            raise ValueError(f"no measure is named `{name}`: there is {', '.join(known)}")
        return known[name]

    @cached_property
    def _by_point(self) -> dict[int, dict[str, list[float]]]:
        """By point and measure the values in the order of seeds, NaN where there is none; `seed`, too."""
        import polars as pl

        names = ["seed", *(one.name for one in self.sweep.wanted if one.name in self.runs.columns)]
        ordered = self.runs.sort("point", "seed")
        values = ordered.select(
            "point", *(pl.col(name).cast(pl.Float64).fill_null(math.nan) for name in names)
        )
        lists = values.group_by("point", maintain_order=True).agg(pl.all())
        return {row.pop("point"): row for row in lists.iter_rows(named=True)}

    def _points(self) -> Iterator[tuple[int, dict[str, Value]]]:
        for row in self.sweep.labels.iter_rows(named=True):
            yield row.pop("point"), row

    def intervals(self, level: float | None = None, *, quantile: float | None = None) -> pl.DataFrame:
        """Mean and interval of each measure at each point, over replications (Student's t): the labels,
        `measure`, `unit`, `mean`, `low`, `high`, `replications`.

        Of a sweep that stopped by precision they are those of its rule, which allow for the looks. Of
        one run alone they are by batch means, where the measure is a mean over time. With `quantile` this
        quantile over replications stands for the mean, with an interval by order statistics.
        """
        import polars as pl

        rows = []
        for number, labels in self._points():
            ours = self._by_point.get(number)
            if ours is None:
                continue
            for one in self.measured:
                interval = self._interval(one, ours, level or self.level(), quantile)
                rows.append(labels | _row(one, one.unit, interval))
        return pl.DataFrame(rows, schema=self._schema())

    def _interval(
        self, measure: Measure, values: Mapping[str, Sequence[float]], level: float, quantile: float | None
    ) -> Interval:
        from aqmlab.stats import batch_means
        from aqmlab.stats.quantiles import quantile_interval

        if quantile is not None:
            return quantile_interval(values[measure.name], quantile, level)
        (error, *more) = values.get(measure.name + measures.STANDARD_ERROR, [math.nan])
        if more or math.isnan(error):
            return stats.mean_interval(values[measure.name], level)
        value, half = values[measure.name][0], stats.t_quantile(level, batch_means.BATCHES - 1) * error
        return stats.Interval(value=value, low=value - half, high=value + half, count=1, level=level)

    @property
    def doubts(self) -> list[str]:
        """What speaks against intervals by batch means: a sentence for each measure whose batches depend on
        each other somewhere."""
        from aqmlab.stats.batch_means import BATCHES, limit

        found = []
        for one in self.measured:
            name = one.name + measures.CORRELATION
            if name not in self.runs.columns:
                continue
            much = self.runs.filter(self.runs[name] > limit(BATCHES)).height
            none = self.runs.filter(self.runs[name].is_null() & (self.runs["status"] == "done")).height
            if much:
                found.append(
                    f"{one.name}: at {much} of {self.runs.height} points batches of the run depend on each "
                    "other, and the interval is too narrow: make the run longer, or replicate"
                )
            if none:
                found.append(
                    f"{one.name}: {none} of {self.runs.height} runs have too few values for an interval by "
                    "batch means: replicate, make runs longer, or record more (record.queue_every)"
                )
        return found

    def distribution(self, measure: str, level: float = stats.LEVEL) -> pl.DataFrame:
        """How a measure is distributed over the replications of each point: the labels, `x`, and the `share`
        of runs up to it, with a band (`low`, `high`) that holds the whole function (`quantiles.dkw_band`)."""
        import polars as pl

        from aqmlab.stats.quantiles import dkw_band

        self.measure(measure)
        parts = []
        for number, labels in self._points():
            if number in self._by_point:
                band = dkw_band(self._by_point[number][measure], level)
                parts.append(
                    band.select(*(pl.lit(value).alias(key) for key, value in labels.items()), pl.all())
                )
        return pl.concat(parts)

    def level(self, level: float = stats.LEVEL, count: int = 1) -> float:
        """The level of each of `count` intervals that shall hold together with this one: higher where
        precision decided how many runs there are, as it looked at them more than once."""
        stopping = self.sweep.precision
        return stats.simultaneous_level(level, count) if stopping is None else stopping.level(level, count)

    def against(
        self,
        baseline: Mapping[str, Value],
        how: Against = "difference",
        *,
        level: float | None = None,
        wanted: Sequence[str] = (),
    ) -> pl.DataFrame:
        """How each point differs from the one with the labels of `baseline` and else the same, seed by seed:
        as `intervals`, of differences in the measure's unit or of ratios.

        Raises `ValueError` if there is no such label, or if the points do not share their random numbers.
        """
        import polars as pl

        if how not in get_args(Against):
            raise ValueError(f"how: must be one of {', '.join(get_args(Against))}, is {how!r}")
        self.sweep.check_baseline("baseline", baseline)
        if not baseline:
            raise ValueError("baseline: name one, such as queue=drop-tail")
        estimate = stats.paired_difference if how == "difference" else stats.paired_ratio
        chosen = [self.measure(name) for name in wanted] if wanted else self.measured
        numbers = {tuple(labels.items()): number for number, labels in self._points()}
        rows = []
        for number, labels in self._points():
            other = numbers.get(tuple({**labels, **baseline}.items()))
            if other is None or other == number:
                continue
            ours, theirs = self._by_point.get(number), self._by_point.get(other)
            if ours is None or theirs is None:
                continue
            for one in chosen:
                interval = estimate(*_paired(ours, theirs, one.name), level or self.level())
                rows.append(labels | _row(one, one.unit if how == "difference" else "", interval))
        return pl.DataFrame(rows, schema=self._schema())

    def _schema(self) -> dict[str, Any]:
        labels = {label: self.sweep.labels.schema[label] for label in self.axes}
        numbers = {"mean": float, "low": float, "high": float, "replications": int}
        return {**labels, "measure": str, "unit": str, **numbers}


def _paired(
    ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]], name: str
) -> tuple[list[float], list[float]]:
    """The values of the seeds that both have."""
    other = dict(zip(theirs["seed"], theirs[name], strict=True))
    pairs = [
        (value, other[seed]) for seed, value in zip(ours["seed"], ours[name], strict=True) if seed in other
    ]
    return [one for one, _ in pairs], [two for _, two in pairs]


def _row(measure: Measure, unit: str, interval: Interval) -> dict[str, Any]:
    return {
        "measure": measure.name,
        "unit": unit,
        "mean": interval.value,
        "low": interval.low,
        "high": interval.high,
        "replications": interval.count,
    }


def collect(
    planned: Planned, store: Store, *, failures: Sequence[Failure] = (), interrupted: bool = False
) -> SweepResult:
    """The runs that the store holds of a sweep: of each point as many as are asked for, from its first seed
    on, whatever else is kept."""
    import polars as pl

    from aqmlab.sweep.run import counted

    sweep = planned.sweep
    enough = counted(planned, store)
    asked = pl.DataFrame(
        [
            (point.number, digest, point.first_seed, one.wanted)
            for point, digest, one in zip(planned.points, planned.digests, enough, strict=True)
        ],
        schema={"point": pl.UInt32, "scenario": pl.String, "first_seed": pl.Int64, "wanted": pl.Int64},
        orient="row",
    )
    runs = store.runs().select("scenario", "seed", "status", "error")
    runs = asked.join(runs, on="scenario", how="inner").filter(
        (pl.col("seed") >= pl.col("first_seed")) & (pl.col("seed") < pl.col("first_seed") + pl.col("wanted"))
    )
    names = {one.name: one.version for one in sweep.wanted}
    versions = pl.DataFrame(
        {"measure": list(names), "version": list(names.values())},
        schema={"measure": pl.String, "version": pl.Int64},
    )
    values = (
        store.values()
        .join(asked.select("scenario").unique(), on="scenario", how="semi")
        .with_columns(pl.col("measure").cast(pl.String), pl.col("version").cast(pl.Int64))
        .join(versions, on=["measure", "version"], how="semi")
        .drop_nulls("value")
    )
    wide = values.pivot(on="measure", index=["scenario", "seed"], values="value", on_columns=list(names))
    numbers = [name for name in names if not name.startswith("tables/")]
    runs = (
        runs.join(wide, on=["scenario", "seed"], how="left")
        .join(sweep.labels.with_columns(pl.col("point").cast(pl.UInt32)), on="point", how="left")
        .sort("point", "seed")
    )
    labels = [axis.label for axis in sweep.all_axes]
    return SweepResult(
        sweep=sweep,
        runs=runs.select("point", *labels, "seed", "status", "error", "scenario", *numbers),
        failures=tuple(failures),
        enough=tuple(enough),
        interrupted=interrupted,
    )


def run_sweep(
    sweep: Sweep,
    store: Store | None = None,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    label: str | None = None,
    retry: bool = False,
    fail_fast: bool = False,
) -> SweepResult:
    """Makes the runs of a sweep that the store lacks, and returns what all of them say.

    Without a `store` nothing is kept. Runs are made by `executor`, by default `jobs` at once on this machine.
    With a `label` a bar shows how far it is. Ctrl-C keeps what is finished (`interrupted`).

    A run that fails is among the result's `failures`, and is not made again unless with `retry`; with
    `fail_fast` the first one raises `FirstFailureError`. Raises `ValueError`, which names the point, if its
    scenario is refused, before anything runs.
    """
    from aqmlab.campaign import Account, Local
    from aqmlab.store import Store
    from aqmlab.sweep.run import plan_so_far, run

    if store is not None and not isinstance(store, Store):
        raise ValueError(f"store: must be an aqmlab.Store, is {store!r}: write aqmlab.Store(folder)")
    kept, account, interrupted = store or Store.in_memory(), Account(), False
    here = executor or Local(jobs=jobs)
    try:
        run(
            sweep,
            kept,
            executor=here,
            label=label,
            retry=retry,
            fail_fast=fail_fast,
            account=account,
        )
    except KeyboardInterrupt:
        interrupted = True
    return collect(plan_so_far(sweep, kept), kept, failures=account.failures, interrupted=interrupted)
