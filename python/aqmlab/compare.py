"""The same traffic under several queues or TCPs: a table with intervals, and the distribution of times."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.scenario import Scenario, flat

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.plot import Chart
    from aqmlab.run import Run
    from aqmlab.stats import Interval

Told = Callable[[], None]
Variant = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a comparison found.

    `queues` and `tcps` hold the parameters of each in full, by name; both are factors, and a variant is
    a name for each factor that was compared. `values` has one row for each variant, replication and
    quantity (`queue` or `tcp` or both, `seed`, `quantity`, `unit`, `value`); `times` one for each completed
    transfer (`queue` or `tcp` or both, `traffic`, `time_s`).
    """

    queues: Mapping[str, Any]
    tcps: Mapping[str, Any]
    values: pl.DataFrame
    times: pl.DataFrame
    replications: int
    failures: Sequence[str] = field(default_factory=tuple)
    interrupted: bool = False
    edges: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By variant: the nodes that got an edge because its queue wants packets told short or long."""

    @property
    def factors(self) -> tuple[str, ...]:
        """What was compared: `queue`, `tcp` or both; columns of the tables are named so."""
        return tuple(name for name, compared in (("queue", self.queues), ("tcp", self.tcps)) if compared)

    @property
    def variants(self) -> list[Variant]:
        """Every variant, in the order asked for: its names, one for each of `factors`."""
        return list(product(*(names for names in (self.queues, self.tcps) if names)))

    def intervals(self) -> pl.DataFrame:
        """Mean and 95 % interval of every quantity and variant, over replications (Student's t)."""
        import polars as pl

        from aqmlab import stats

        rows: list[dict[str, Any]] = []
        groups = self.values.group_by("quantity", "unit", *self.factors, maintain_order=True)
        for (quantity, unit, *names), group in groups:
            interval = stats.mean_interval(group["value"].to_list())
            rows.append(self._row(quantity, unit, names, interval))
        return pl.DataFrame(rows, schema=self._interval_schema())

    def differences(self) -> pl.DataFrame:
        """Mean and 95 % interval of how each variant differs from the first one, seed by seed."""
        import polars as pl

        from aqmlab import stats

        rows: list[dict[str, Any]] = []
        for (quantity, unit), group in self.values.group_by("quantity", "unit", maintain_order=True):
            by_variant: dict[Variant, dict[int, float]] = {}
            for row in group.iter_rows(named=True):
                names = tuple(row[factor] for factor in self.factors)
                by_variant.setdefault(names, {})[row["seed"]] = row["value"]
            first = by_variant.get(self.variants[0], {})
            for names in self.variants[1:]:
                ours = by_variant.get(names, {})
                both = [seed for seed in ours if seed in first]
                if both:
                    pairs = [ours[seed] for seed in both], [first[seed] for seed in both]
                    rows.append(self._row(quantity, unit, names, stats.paired_difference(*pairs)))
        return pl.DataFrame(rows, schema=self._interval_schema())

    def chart(self, traffic: str) -> Chart | None:
        """The distribution of transfer times of one workload: a curve for each variant, and if both queues
        and TCPs were compared, a panel for each queue."""
        import numpy as np
        import polars as pl

        from aqmlab import metrics
        from aqmlab.plot import Chart

        ours = self.times.filter(pl.col("traffic") == traffic)
        if ours.is_empty():
            return None
        times = ours["time_s"].to_numpy()
        grid = np.geomspace(max(times.min() * 0.9, 1e-6), times.max(), 300)
        parts = []
        for names in self.variants:
            chosen = dict(zip(self.factors, names, strict=True))
            share = metrics.cdf(ours.filter(**chosen)["time_s"].to_numpy(), grid)
            labels = {factor: [name] * grid.size for factor, name in chosen.items()}
            parts.append(pl.DataFrame({"time_s": grid, "share": share, **labels}))
        *panel, by = self.factors
        return Chart(
            kind="cdf",
            table=pl.concat(parts),
            x="time_s",
            y="share",
            by=by,
            x_label=f"Transfer time of {traffic} (s)",
            y_label="Share of completed transfers",
            panel=panel[0] if panel else None,
            log_x=True,
        )

    def _row(self, quantity: Any, unit: Any, names: Sequence[Any], interval: Interval) -> dict[str, Any]:
        return {
            "quantity": quantity,
            "unit": unit,
            **dict(zip(self.factors, names, strict=True)),
            "mean": interval.value,
            "low": interval.low,
            "high": interval.high,
            "replications": interval.count,
        }

    def _interval_schema(self) -> dict[str, Any]:
        numbers = {"mean": float, "low": float, "high": float, "replications": int}
        return {"quantity": str, "unit": str, **dict.fromkeys(self.factors, str), **numbers}


def compare(
    scenario: Scenario,
    queues: Sequence[str] = (),
    *,
    tcps: Sequence[str] = (),
    replications: int = 10,
    first_seed: int | None = None,
    jobs: int | None = None,
    told: Told | None = None,
) -> Comparison:
    """Runs `scenario` with each of `queues`, each of `tcps` or each pair of both, `replications` times
    with common random numbers.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. Every managed
    link gets it. A TCP is a window law with a recovery, `LAW/RECOVERY`, or a preset (`aqmlab list tcp`); it
    is laid over the scenario's `tcp` table, so what else that says, its `profile` too, stays, and so does
    what a workload says in a `tcp` table of its own. Seeds count up from `first_seed`, by default the
    scenario's own. `told` is called after each run. A run that fails is named in `failures` and does not
    lose the others; Ctrl-C keeps what is finished (`interrupted`).
    """
    import polars as pl

    if replications < 1:
        raise ValueError("replications must be at least 1")
    if not queues and not tcps:
        raise ValueError("name at least one queue or one TCP")
    if any(len(set(names)) != len(names) for names in (queues, tcps)):
        raise ValueError("a queue or TCP is named twice: name each once")
    variants: dict[Variant, Scenario] = {(): scenario}
    for change, names in ((_with_queue, queues), (_with_tcp, tcps)):
        if names:
            variants = {
                (*so_far, name): change(one, name) for so_far, one in variants.items() for name in names
            }
    factors = [factor for factor, names in (("queue", queues), ("tcp", tcps)) if names]
    seed = scenario.effective["seed"] if first_seed is None else first_seed
    tasks = [(names, seed + k) for k in range(replications) for names in variants]
    values: list[dict[str, Any]] = []
    times: list[pl.DataFrame] = []
    failures: list[str] = []
    interrupted = False
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        try:
            futures = [
                pool.submit(_reduced, variants[names], dict(zip(factors, names, strict=True)), seed)
                for names, seed in tasks
            ]
            for (names, seed), future in zip(tasks, futures, strict=True):
                try:
                    rows, frame = future.result()
                except Exception as problem:
                    failures.append(f"{', '.join(names)}, seed {seed}: {problem}")
                else:
                    values += rows
                    times.append(frame)
                if told:
                    told()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            interrupted = True
    words = dict.fromkeys(factors, str)
    return Comparison(
        queues={names[0]: _queue_of(one) for names, one in variants.items()} if queues else {},
        tcps={names[-1]: one.effective["tcp"] for names, one in variants.items()} if tcps else {},
        values=pl.DataFrame(values, schema={**words, **_VALUES}),
        times=pl.concat(times) if times else pl.DataFrame(schema={**words, **_TIMES}),
        replications=replications,
        failures=tuple(failures),
        interrupted=interrupted,
        edges={
            "/".join(names): list(one.effective["edges"])
            for names, one in variants.items()
            if "edges" in one.effective and "edges" not in scenario.effective
        },
    )


_VALUES = {"seed": int, "quantity": str, "unit": str, "value": float}
_TIMES = {"traffic": str, "time_s": float}


def _with_queue(scenario: Scenario, name: str) -> Scenario:
    from aqmlab.catalog import FAMILIES, catalog

    own = scenario.given.get("queues", {})
    kinds = [one.name for one in catalog() if one.family == FAMILIES["queues"]]
    if name not in own and name not in kinds:
        raise ValueError(
            f"no queue is named `{name}`: there is {', '.join([*own, *kinds])} "
            f"(what [queues] of the scenario holds, and kinds)"
        )
    table = own.get(name, {"kind": name})
    if "bottleneck" in scenario.given:
        return scenario.with_({"bottleneck.queue": table})
    managed = [link for link, one in scenario.given["links"].items() if "queue" in one]
    return scenario.with_({f"links.{link}.queue": table for link in managed})


def _queue_of(scenario: Scenario) -> dict[str, Any]:
    full = scenario.effective
    links = [full["bottleneck"]] if "bottleneck" in full else list(full["links"].values())
    queue: dict[str, Any] = next(link["queue"] for link in links if "queue" in link)
    return queue


def _with_tcp(scenario: Scenario, name: str) -> Scenario:
    try:
        table = json.loads(_core.transport(name))
        changed = scenario.with_(_laid_over(scenario, table))
    except _core.ScenarioError as error:
        raise ValueError(f"TCP `{name}`: {error}") from None
    wanted = flat(table).items()
    traffic = changed.effective["traffic"]
    if all("tcp" in one and not wanted <= flat(one["tcp"]).items() for one in traffic.values()):
        raise ValueError(
            f"TCP `{name}`: no workload would use it, because a workload's own tcp table stays: "
            f"take what it sets out of {', '.join(f'traffic.{one}.tcp' for one in traffic)}"
        )
    return changed


def _laid_over(scenario: Scenario, table: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that lay `table` over `tcp`; a law that is there already keeps its parameters."""
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and scenario.effective["tcp"][key]["kind"] == value["kind"]:
            changes |= {f"tcp.{key}.{inner}": one for inner, one in value.items()}
        else:
            changes[f"tcp.{key}"] = value
    return changes


def _reduced(
    scenario: Scenario, names: Mapping[str, str], seed: int
) -> tuple[list[dict[str, Any]], pl.DataFrame]:
    run = scenario.run(seed)
    rows = [
        {**names, "seed": seed, "quantity": quantity, "unit": unit, "value": float(value)}
        for quantity, unit, value in _quantities(run.summary)
        if value is not None
    ]
    return rows, _times(run, names)


def _quantities(summary: Mapping[str, Any]) -> list[tuple[str, str, float | None]]:
    several = len(summary["links"]) > 1
    found: list[tuple[str, str, float | None]] = []
    for name, link in summary["links"].items():
        where = f"{name} " if several else ""
        found += [
            (f"{where}utilisation", "%", _scaled(link["utilisation"], 100)),
            (f"{where}packets dropped", "%", _scaled(link["drop_fraction"], 100)),
            (f"{where}packets marked", "%", _scaled(link["mark_fraction"], 100)),
            (f"{where}mean queue", "packets", link["mean_queue_packets"]),
            (f"{where}mean queueing delay", "ms", _scaled(link["mean_queue_delay_s"], 1000)),
        ]
    for name, flows in summary["flows"].items():
        found += [
            (f"{name} goodput", "Mbps", _scaled(flows["goodput_bps"], 1e-6)),
            (f"{name} packets dropped", "%", _scaled(flows["drop_fraction"], 100)),
        ]
        if name not in summary["transfers"]:
            found.append((f"{name} Jain's index", "", flows["jain"]))
    for name, transfers in summary["transfers"].items():
        found += [
            (f"{name} time, mean", "s", transfers["mean_s"]),
            (f"{name} time, median", "s", transfers["p50_s"]),
            (f"{name} time, 90th percentile", "s", transfers["p90_s"]),
            (f"{name} time, 99th percentile", "s", transfers["p99_s"]),
            (f"{name} transfers unfinished", "", transfers["unfinished"]),
            (f"{name} transfers active, mean", "", transfers["mean_active"]),
        ]
    return found


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _times(run: Run, names: Mapping[str, str]) -> pl.DataFrame:
    import polars as pl

    from aqmlab import metrics

    warm_up_s, _ = metrics.window(run.manifest)
    done = metrics.measured(run.transfers, warm_up_s).filter(pl.col("complete"))
    return done.select(
        *(pl.lit(name).alias(factor) for factor, name in names.items()),
        pl.col("traffic").cast(pl.String),
        pl.col("duration_s").alias("time_s"),
    )
