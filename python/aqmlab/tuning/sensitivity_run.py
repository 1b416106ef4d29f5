"""Runs a sensitivity analysis of a scenario: executes the samples and computes the indices of each
measure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from aqmlab import measures as known_measures
from aqmlab.campaign import Account, Executor, Local
from aqmlab.measures import Measure
from aqmlab.results.labels import format_labels
from aqmlab.scenario import Scenario
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.sensitivity import Design
from aqmlab.tuning.trials import Trials, Values, changed, checked, seeds_from, short_names

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart
    from aqmlab.results.table import Failed, Results
    from aqmlab.store import Store
    from aqmlab.tuning.sensitivity import Method

SAMPLES: Mapping[str, int] = {"sobol": 64, "morris": 10}
"""Default number of base samples (`sobol`) or trajectories (`morris`)."""

REPLICATIONS = 3
"""Default number of runs per sample."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs of a sensitivity analysis, in which each sample of a design is run with the same seeds. Use
    `plan` to create this object."""

    scenario: Scenario
    design: Design
    trials: Trials
    samples: Sequence[Values]
    scenarios: Sequence[Scenario] = field(repr=False)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.samples) * len(self.trials.seeds)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """The results of all samples, and the indices of each factor."""

    plan: Plan
    results: Results
    """The runs of all samples. The name of a sample is its number."""

    @property
    def measured(self) -> tuple[Measure, ...]:
        """The measures."""
        return self.plan.trials.measures

    @property
    def failures(self) -> Sequence[Failed]:
        """The runs that failed."""
        return self.results.failures

    @cached_property
    def _means(self) -> Sequence[Mapping[str, float]]:
        """The mean of each measure for each sample."""
        return [self.plan.trials.means(self.results, number) for number in range(len(self.plan.samples))]

    @cached_property
    def _found(self) -> Mapping[str, pl.DataFrame | str]:
        """For each measure, the indices or the reason why there are no indices."""
        found: dict[str, pl.DataFrame | str] = {}
        for one in self.measured:
            try:
                found[one.name] = self.plan.design.indices([means[one.name] for means in self._means])
            except ValueError as error:
                found[one.name] = str(error)
        return found

    @property
    def indices(self) -> Mapping[str, pl.DataFrame]:
        """For each measure, the indices of each factor, as returned by `Design.indices`."""
        return {name: found for name, found in self._found.items() if not isinstance(found, str)}

    @property
    def problems(self) -> Mapping[str, str]:
        """For each measure without indices, the reason why the indices are missing: a sample without a value,
        or a constant output."""
        return {name: found for name, found in self._found.items() if isinstance(found, str)}

    def noise(self, measure: str) -> float:
        """Returns the share of the output's variance that is caused by the choice of seeds, or NaN with one
        seed.

        The numerator of the share is the mean square of the residuals that neither the sample nor the seed
        explains (two-way analysis of variance without replication), divided by the number of averaged seeds.
        Sobol's indices count this noise as an interaction of all factors.
        """
        import numpy as np

        seeds_of_all = self.plan.trials.seeds
        numbers = range(len(self.plan.samples))
        values = np.array([self.results.numbers(measure, (number,), seeds_of_all) for number in numbers])
        samples, seeds = values.shape
        averages = values.mean(axis=1)
        if seeds < 2 or not averages.var() > 0:
            return math.nan
        rest = values - averages[:, None] - values.mean(axis=0)[None, :] + float(values.mean())
        square = float((rest**2).sum()) / ((samples - 1) * (seeds - 1))
        return float(min(square / seeds / averages.var(ddof=1), 1.0))

    def samples(self) -> pl.DataFrame:
        """Returns a table with a row for each sample, which contains the sample's values by path and the mean
        of each measure."""
        import polars as pl

        rows = [{**values, **means} for values, means in zip(self.plan.samples, self._means, strict=True)]
        return pl.DataFrame(rows).with_row_index("sample")

    def table(self) -> pl.DataFrame:
        """Returns the indices of all measures, with the columns `measure`, `unit`, `factor` and a column for
        each index."""
        import polars as pl

        if not self.indices:
            return pl.DataFrame()
        return pl.concat(
            self.indices[one.name].select(
                pl.lit(one.name).alias("measure"), pl.lit(one.unit).alias("unit"), pl.all()
            )
            for one in self.measured
            if one.name in self.indices
        )

    def chart(self, measure: str) -> Chart:
        """Returns a chart of a measure's indices, as bars with intervals."""
        from aqmlab.charts.chart import Chart

        one = next(one for one in self.measured if one.name == measure)
        sobol = self.plan.design.method == "sobol"
        bars = (
            {"S1": "alone", "ST": "with interactions"}
            if sobol
            else {"mu_star": "size (mu*)", "sigma": "spread (sigma)"}
        )
        table = _bars(self.indices[measure], bars)
        return Chart(
            kind="bars",
            table=table,
            x="factor",
            y="value",
            by="index",
            x_label="",
            y_label=f"Share of the variance of\n{one.title or one.name}"
            if sobol
            else f"Effect on {one.label}",
            y_limits=_limits(table) if sobol else None,
        )


def _bars(indices: pl.DataFrame, bars: Mapping[str, str]) -> pl.DataFrame:
    import polars as pl

    names = short_names(indices["factor"].to_list())
    known = indices.with_columns(
        pl.lit(math.nan).alias(f"{column}_conf") for column in bars if f"{column}_conf" not in indices.columns
    )
    return pl.concat(
        known.select(
            pl.col("factor").replace_strict(names),
            pl.lit(words).alias("index"),
            pl.col(column).alias("value"),
            (pl.col(column) - pl.col(f"{column}_conf")).alias("low"),
            (pl.col(column) + pl.col(f"{column}_conf")).alias("high"),
        )
        for column, words in bars.items()
    )


def _limits(table: pl.DataFrame) -> tuple[float, float]:
    """Returns the limits of the axis. The limits are 0 and 1, extended if the end of an interval is outside
    this range."""
    low, high = float(table["low"].to_numpy().min()), float(table["high"].to_numpy().max())
    room = 0.05 * max(high - low, 1.0)
    return min(0.0, low - room), max(1.0, high + room)


def plan(
    scenario: Scenario,
    factors: Sequence[Factor],
    measures: Sequence[str | Measure],
    *,
    method: Method = "sobol",
    samples: int | None = None,
    replications: int = REPLICATIONS,
    seed: int | None = None,
) -> Plan:
    """Returns the runs that `run_sensitivity` would execute. Raises `ValueError` in the same cases as
    `run_sensitivity`."""
    factors = checked(scenario, factors)
    if not measures:
        raise ValueError("measures: must name at least one measure")
    own = {one.name: one for one in measures if isinstance(one, Measure)}
    names = [one.name if isinstance(one, Measure) else one for one in measures]
    wanted = known_measures.named(scenario, names, own)
    first = int(scenario.effective["seed"]) if seed is None else seed
    seeds = seeds_from(first, replications)
    try:
        design = Design(method=method, factors=factors, count=samples or SAMPLES[method], seed=first)
    except ValueError as error:
        raise ValueError(f"samples: {error}") from None
    values = design.samples()
    return Plan(
        scenario=scenario,
        design=design,
        trials=Trials(name="sample", measures=wanted, seeds=seeds),
        samples=values,
        scenarios=[_scenario_of(scenario, number, one) for number, one in enumerate(values)],
    )


def run_sensitivity(
    scenario: Scenario,
    factors: Sequence[Factor],
    measures: Sequence[str | Measure],
    *,
    method: Method = "sobol",
    samples: int | None = None,
    replications: int = REPLICATIONS,
    seed: int | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    label: str | None = None,
) -> Sensitivity:
    """Estimates the influence of each factor on each measure.

    `samples` is the number of base samples for `sobol` (64 by default), or the number of trajectories for
    `morris` (10 by default). Every sample is run with the same `replications` seeds, beginning with `seed`
    (by default the scenario's seed). The output of a sample is the mean over its seeds. `seed` also
    determines the samples. Runs in the `store` are not repeated. Without a store, no run is saved. After
    Ctrl-C, finished runs are saved and `KeyboardInterrupt` is raised.

    Raises `ValueError`, before any run, if a factor, a measure or a sample is invalid.
    """
    planned = plan(
        scenario,
        factors,
        measures,
        method=method,
        samples=samples,
        replications=replications,
        seed=seed,
    )
    return run(planned, store, executor=executor, label=label)


def run(
    planned: Plan,
    store: Store | None = None,
    *,
    executor: Executor | None = None,
    label: str | None = None,
) -> Sensitivity:
    """Executes those runs of a plan that are missing from the store (see `run_sensitivity`)."""
    from aqmlab.store import Store

    account = Account()
    results = planned.trials.run(
        dict(enumerate(planned.scenarios)),
        store or Store.in_memory(),
        executor=executor or Local(),
        label=label,
        account=account,
    )
    return Sensitivity(plan=planned, results=replace(results, failures=tuple(account.failures)))


def _scenario_of(scenario: Scenario, number: int, values: Values) -> Scenario:
    try:
        return changed(scenario, values)
    except ValueError as error:
        raise ValueError(
            f"sample {number} ({format_labels(values)}): {error}: select ranges in which all values are "
            "compatible"
        ) from None
