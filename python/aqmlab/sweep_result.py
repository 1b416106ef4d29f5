"""What a sweep found: runs as a table, intervals, differences from a baseline, charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from aqmlab import _core, measures, stats
from aqmlab.measure import Measure
from aqmlab.sweep import Sweep, Value

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.campaign import Executor, Failure
    from aqmlab.plot import Chart
    from aqmlab.stats import Interval
    from aqmlab.store import Store
    from aqmlab.sweep_run import Enough, Planned

Against = Literal["difference", "ratio"]


@dataclass(frozen=True, kw_only=True)
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
        from aqmlab import batch_means
        from aqmlab.quantiles import quantile_interval

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
        from aqmlab.batch_means import BATCHES, limit

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

        from aqmlab.quantiles import dkw_band

        self.measure(measure)
        parts = []
        for number, labels in self._points():
            if number in self._by_point:
                band = dkw_band(self._by_point[number][measure], level)
                parts.append(
                    band.select(*(pl.lit(value).alias(key) for key, value in labels.items()), pl.all())
                )
        return pl.concat(parts)

    def distribution_chart(
        self, measure: str, *, x: str | None = None, by: str | None = None, panel: str | None = None
    ) -> Chart:
        """The distribution of a measure over replications: a line with its band for each value of `by` (by
        default the first axis), a panel for each of `panel` (the second). `x` is the measure itself.

        Raises `ValueError` if there is no such axis or measure, or if an axis has no place.
        """
        import polars as pl

        from aqmlab.plot import Chart

        if x is not None:
            raise ValueError("x: is the measure itself in a distribution: leave it out")
        one, (_, by, panel) = self.measure(measure), self._places("", by, panel)
        table = self.distribution(measure).with_columns(
            pl.col(column).cast(pl.String) for column in (by, panel) if column
        )
        return Chart(
            kind="curve",
            table=table,
            x="x",
            y="share",
            by=by or self.axes[0],
            panel=panel,
            x_label=one.label,
            y_label="Share of runs",
            y_limits=(0.0, 1.0),
        )

    def _places(self, x: str | None, by: str | None, panel: str | None) -> tuple[str, str | None, str | None]:
        """The axes along which is drawn; those not said are taken in turn."""
        for name, label in (("x", x), ("by", by), ("panel", panel)):
            if label and label not in self.axes:
                raise ValueError(f"{name}: no axis is called `{label}`: there is {', '.join(self.axes)}")
        if x is None:
            x = next((label for label in self.axes if self._numeric(label)), self.axes[0])
        rest = [label for label in self.axes if label not in (x, by, panel)]
        varied = [label for label in rest if self.sweep.labels[label].n_unique() > 1]
        if by is None and varied:
            by = varied.pop(0)
        if panel is None and varied:
            panel = varied.pop(0)
        if varied:
            raise ValueError(f"{', '.join(varied)}: has no place in the chart: narrow it with where")
        return x, by, panel

    def level(self, level: float = stats.LEVEL, count: int = 1) -> float:
        """The level of each of `count` intervals that shall hold together with this one: higher where
        precision decided how many runs there are, as it looked at them more than once."""
        stopping = self.sweep.precision
        looks = 1 if stopping is None else len(stopping.rule.looks()) * len(stopping.measures)
        return stats.simultaneous_level(level, count * looks)

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

        self.sweep.check_labels("baseline", baseline)
        if not baseline:
            raise ValueError("baseline: name one, such as queue=drop-tail")
        paths = {axis.label: axis.path for axis in self.sweep.all_axes}
        for label in baseline:
            if paths[label] in self.sweep.own_seeds:
                raise ValueError(f"baseline: points along {label} have seeds of their own, and are no pairs")
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

    def chart(
        self,
        measure: str,
        *,
        x: str | None = None,
        by: str | None = None,
        panel: str | None = None,
        log_x: bool | None = None,
        log_y: bool = False,
    ) -> Chart:
        """A measure against an axis: a line for each value of `by`, a panel for each of `panel`, with
        intervals. Left out, `x` is the first axis of numbers, and `by` and `panel` the next others; axes
        beyond those must be narrowed with `where` of the sweep.

        Raises `ValueError` if there is no such axis or measure.
        """
        import polars as pl

        from aqmlab.plot import Chart

        one = self.measure(measure)
        x, by, panel = self._places(x, by, panel)
        table = self.intervals().filter(pl.col("measure") == measure)
        table, unit = self._with_numbers(table, x)
        by_column = by or "measure"
        table = table.with_columns(
            pl.col(column).cast(pl.String) for column in (by_column, panel) if column is not None
        )
        values = table[x].to_list() if table.schema[x].is_numeric() else []
        spread = bool(values) and min(values) > 0 and max(values) / min(values) >= 10
        return Chart(
            kind="line" if table.schema[x].is_numeric() else "bars",
            table=table,
            x=x,
            y="mean",
            by=by_column,
            panel=panel,
            x_label=f"{x} ({unit})" if unit else x,
            y_label=one.label,
            log_x=spread if log_x is None else log_x,
            log_y=log_y,
        )

    def _numeric(self, label: str) -> bool:
        column = self.sweep.labels[label]
        return column.dtype.is_numeric() or _quantities(column.to_list()) is not None

    def _with_numbers(self, table: pl.DataFrame, label: str) -> tuple[pl.DataFrame, str]:
        """The table with the values of an axis as numbers if they are quantities, and their unit."""
        import polars as pl

        found = None if table.schema[label].is_numeric() else _quantities(table[label].to_list())
        if found is None:
            return table, ""
        values, unit = _readable(*found)
        return table.with_columns(pl.Series(label, values)), unit


def _quantities(values: Sequence[Any]) -> tuple[list[float], str] | None:
    """Texts such as `10Mbps` as numbers in the base unit, and that unit; `None` if they are not all such."""
    try:
        found = [_core.quantity(str(value)) for value in values]
    except ValueError:
        return None
    units = {unit for _, unit in found}
    return ([number for number, _ in found], units.pop()) if len(units) == 1 else None


_PREFIXES = {
    "bps": ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")),
    "B": ((1e6, "MB"), (1e3, "kB")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
}


def _readable(values: list[float], unit: str) -> tuple[list[float], str]:
    """The numbers in the largest unit in which the largest is at least one."""
    most = max(map(abs, values), default=0.0)
    for size, name in _PREFIXES.get(unit, ()):
        if most >= size:
            return [value / size for value in values], name
    return values, unit


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

    from aqmlab.sweep_run import counted

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
    """
    from aqmlab.campaign import Account, Local
    from aqmlab.store import Store
    from aqmlab.sweep_run import plan, run

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
    planned = plan(sweep, kept, executor=here)
    return collect(planned, kept, failures=account.failures, interrupted=interrupted)
