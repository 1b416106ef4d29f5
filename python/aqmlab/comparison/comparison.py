"""Results of a comparison of queues and TCPs: estimates, differences, and distributions of transfer times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from aqmlab.results import pairs
from aqmlab.scenario import flat

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart
    from aqmlab.metrics.response_times import Crossing
    from aqmlab.results.table import Results

Variant = tuple[str, ...]


class Metric(StrEnum):
    """The set of quantities to compare."""

    SUMMARY = "summary"
    """Measures of links, flows and transfers."""
    RESPONSE_TIME = "response-time"
    """Quantiles of response times, and the points at which their distributions cross."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of a comparison.

    `queues` and `tcps` contain the complete parameters of each queue and TCP, by name. Queues and TCPs are
    the two possible factors of a comparison. A variant consists of a name for each compared factor. `results`
    is the table of the runs, whose axes are the factors. `times` has a row for each completed transfer, with
    the columns `queue` or `tcp` or both, `seed`, `traffic` and `time_s`.
    """

    queues: Mapping[str, Any]
    tcps: Mapping[str, Any]
    results: Results
    times: pl.DataFrame
    replications: int
    metric: Metric = Metric.SUMMARY
    at: Sequence[str] = ()
    """Links whose queues were replaced."""
    replaced: str | None = None
    """Sentence that names the links whose queues were replaced, if the scenario has several managed links."""
    notes: Sequence[str] = ()
    """Warnings. There is a warning if the links in `at` have different rates."""
    edges: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For each variant, the nodes to which an edge was added, because the queue needs packets that are
    classified as short or long."""

    @property
    def factors(self) -> tuple[str, ...]:
        """The compared factors: `queue`, `tcp` or both. The factors are also column names."""
        return tuple(name for name, compared in (("queue", self.queues), ("tcp", self.tcps)) if compared)

    @property
    def variants(self) -> list[Variant]:
        """All variants, in the given order. A variant is a tuple with a name for each of `factors`."""
        return list(product(*(names for names in (self.queues, self.tcps) if names)))

    @property
    def failures(self) -> tuple[str, ...]:
        """A sentence about each failed run."""
        return tuple(map(str, self.results.failures))

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the comparison before all runs were finished."""
        return self.results.interrupted

    @cached_property
    def values(self) -> pl.DataFrame:
        """A table with a row for each replication, variant and quantity, in this order. The columns are
        `queue` or `tcp` or both, `seed`, `quantity`, `unit` and `value`."""

        measured = self.results.measured
        runs = self.results.frame.sort("seed", maintain_order=True).with_row_index("run")
        long = runs.unpivot(
            [one.name for one in measured], index=["run", *self.factors, "seed"], variable_name="measure"
        )
        return (
            long.drop_nulls("value")
            .join(self._quantities, on="measure", maintain_order="left")
            .sort("run", "order")
            .select(*self.factors, "seed", "quantity", "unit", "value")
        )

    @property
    def _quantities(self) -> pl.DataFrame:
        """A table with the name of each measure (`measure`), its `quantity`, and its position (`order`)."""
        import polars as pl

        rows = [(one.name, one.title or one.name, one.unit) for one in self.results.measured]
        schema = {"measure": pl.String, "quantity": pl.String, "unit": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("order")

    def intervals(self) -> pl.DataFrame:
        """Returns, for every quantity and variant, the mean over replications with its 95 % interval
        (Student's t). The columns are `quantity`, `unit`, `queue` or `tcp` or both, `mean`, `low`, `high` and
        `replications`."""
        from aqmlab import stats

        return self._with_names(self.results.intervals(stats.LEVEL))

    def differences(self) -> pl.DataFrame:
        """Returns the mean difference between each variant and the first variant, paired by seed, with its 95
        % interval. The columns are those of `intervals`."""
        from aqmlab import stats

        first = dict(zip(self.factors, self.variants[0], strict=True))
        found = self._with_names(self.results.against(first, level=stats.LEVEL).with_row_index("at"), "at")
        return found.sort("order", "at").drop("order", "at")

    def _with_names(self, estimates: pl.DataFrame, *also: str) -> pl.DataFrame:
        """Returns the estimates with the names of their quantities. Quantities that have no value in any run
        are omitted."""
        found = estimates.filter(estimates["replications"] > 0).drop("unit")
        columns = ["quantity", "unit", *self.factors, "mean", "low", "high", "replications"]
        with_names = found.join(self._quantities, on="measure", maintain_order="left")
        return with_names.select(*columns, *(["order", *also] if also else []))

    @property
    def title(self) -> str:
        """The title of the estimates, which contains the number of runs of each variant. If runs are missing,
        the title also contains the intended number of runs."""
        if self.replications == 1:
            return "One run of each"
        counts = self.values.select("seed", *self.factors).unique().group_by(self.factors).len()["len"]
        done = "-".join(str(one) for one in sorted({counts.min() or 0, counts.max() or 0}))
        of = "" if done == str(self.replications) else f"{done} of "
        return f"Mean and 95 % interval over {of}{self.replications} replications with common random numbers"

    @property
    def workloads(self) -> list[str]:
        """The workloads that have completed transfers."""
        return sorted(self.times["traffic"].unique().to_list())

    @cached_property
    def crossings(self) -> Mapping[str, Mapping[Variant, list[Crossing]]]:
        """The points at which the distribution of a workload's times crosses the distribution of the first
        variant, by workload and variant."""
        return {traffic: self._crossings(traffic) for traffic in self.workloads}

    def _crossings(self, traffic: str) -> dict[Variant, list[Crossing]]:
        from aqmlab.metrics import response_times

        ours = self._times_of(traffic)
        grid = response_times.grid_over(ours["time_s"].to_numpy())
        times = {names: self._by_seed(ours, names) for names in self.variants}
        found = {}
        for names in self.variants[1:]:
            both = pairs.by_seed(times[names], times[self.variants[0]])
            if both[0]:
                second, first = (response_times.shares(some, grid) for some in both)
                found[names] = response_times.crossings(first, second, grid)
        return found

    def charts(self, traffic: str) -> dict[str, Chart]:
        """Returns charts of the distribution of one workload's transfer times, by chart name. A chart has a
        curve for each variant and, if both queues and TCPs were compared, a panel for each queue. For
        response times, there are two charts, which show the body and the tail of the distribution and mark
        the crossings. There are no charts if no transfer was completed."""
        from aqmlab.charts.chart import Chart
        from aqmlab.metrics import response_times

        if self._times_of(traffic).is_empty():
            return {}
        *panels, by = self.factors
        panel = panels[0] if panels else None
        curves = self._curves(traffic)
        if self.metric is Metric.RESPONSE_TIME:
            marks = {
                f"{'/'.join(names)} crosses": one.at_s
                for names, found in self.crossings[traffic].items()
                for one in found
                if panel is None
            }
            return {
                f"body-{traffic}": response_times.chart_of_body(curves, by, panel, traffic, marks),
                f"tail-{traffic}": response_times.chart_of_tail(curves, by, panel, traffic, marks),
            }
        whole = Chart(
            kind="cdf",
            table=curves,
            x="time_s",
            y="share",
            by=by,
            x_label=f"Transfer time of {traffic} (s)",
            y_label="Share of completed transfers",
            panel=panel,
            log_x=True,
        )
        return {f"cdf-{traffic}": whole}

    def chart(self, quantity: str) -> Chart:
        """Returns a chart of the mean and the 95 % interval of a quantity, with a bar for each variant. If
        the comparison does not have this quantity, raises `ValueError`, which suggests similar names."""
        import polars as pl

        from aqmlab._support.names import hint
        from aqmlab.charts.chart import Chart

        table = self.intervals().filter(pl.col("quantity") == quantity)
        if table.is_empty():
            known = self.values["quantity"].unique(maintain_order=True)
            raise ValueError(f"no quantity is named `{quantity}`: {hint(quantity, known)}")
        unit = table["unit"][0]
        x, by = self.factors[0], self.factors[-1]
        return Chart(
            kind="bars",
            table=table,
            x=x,
            y="mean",
            by=by,
            x_label=x if x == "queue" else "TCP",
            y_label=f"{quantity} ({unit})" if unit else quantity,
            overlaid=x == by,
        )

    @cached_property
    def parameters(self) -> dict[str, dict[Variant, Any]]:
        """The parameters whose values differ between the variants, with the value in each variant, or `None`
        if a variant lacks the parameter."""
        found: dict[str, dict[Variant, Any]] = {}
        for tables, position, prefix in ((self.queues, 0, ""), (self.tcps, -1, "tcp.")):
            flattened = {name: flat(table, prefix) for name, table in tables.items()}
            for key in sorted({key for table in flattened.values() for key in table}):
                values = {names: flattened[names[position]].get(key) for names in self.variants}
                if any(value != next(iter(values.values())) for value in values.values()):
                    found[key] = values
        return found

    def estimate_rows(self, estimates: pl.DataFrame, variants: Sequence[Variant]) -> Iterator[list[str]]:
        """Returns a row for each quantity of `intervals` or `differences`. A row contains the quantity's name
        and unit, and an estimate for each variant."""
        from aqmlab import stats

        for (quantity, unit), group in estimates.group_by("quantity", "unit", maintain_order=True):
            cells = {
                tuple(row[factor] for factor in self.factors): stats.plus_minus(
                    row["mean"], (row["high"] - row["low"]) / 2
                )
                for row in group.iter_rows(named=True)
            }
            label = f"{quantity} ({unit})" if unit else str(quantity)
            yield [label, *(cells.get(names, "-") for names in variants)]

    def parameter_rows(self) -> Iterator[list[str]]:
        """Returns a row for each parameter whose values differ between the variants. A row contains the
        parameter's path and its value in each variant, in the syntax of scenario files, or a dash if a
        variant lacks the parameter."""
        for name, values in self.parameters.items():
            yield [
                name,
                *(
                    "-" if one is None else one if isinstance(one, str) else json.dumps(one)
                    for one in values.values()
                ),
            ]

    def _repr_html_(self) -> str:
        from aqmlab._support import notebook

        columns = ["/".join(names) for names in self.variants]
        first, others = columns[0], columns[1:]
        means = self.estimate_rows(self.intervals(), self.variants)
        differences = notebook.table(
            ["quantity", *others],
            self.estimate_rows(self.differences(), self.variants[1:]),
            estimates=True,
        )
        differing = notebook.table(["parameter", *columns], self.parameter_rows())
        return notebook.section(
            self.title,
            notebook.table(["quantity", *columns], means, estimates=True),
            notebook.folded(f"Difference from {first}", differences) if others else "",
            notebook.folded("Parameters with different values", differing) if self.parameters else "",
        )

    def _times_of(self, traffic: str) -> pl.DataFrame:
        import polars as pl

        return self.times.filter(pl.col("traffic") == traffic)

    def _by_seed(self, times: pl.DataFrame, names: Variant) -> dict[int, Any]:
        chosen = times.filter(**dict(zip(self.factors, names, strict=True)))
        groups = chosen.group_by("seed", maintain_order=True)
        return {seed: group["time_s"].to_numpy() for (seed,), group in groups}

    def _curves(self, traffic: str) -> pl.DataFrame:
        """Returns the distribution function of each variant, pooled over all replications of the variant."""
        import polars as pl

        from aqmlab import metrics
        from aqmlab.metrics import response_times

        ours = self._times_of(traffic)
        grid = response_times.grid_over(ours["time_s"].to_numpy())
        parts = []
        for names in self.variants:
            chosen = dict(zip(self.factors, names, strict=True))
            share = metrics.cdf(ours.filter(**chosen)["time_s"].to_numpy(), grid)
            labels = {factor: [name] * grid.size for factor, name in chosen.items()}
            parts.append(pl.DataFrame({"time_s": grid, "share": share, **labels}))
        return pl.concat(parts)
