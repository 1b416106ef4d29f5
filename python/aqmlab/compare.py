"""The same traffic in front of several queues: a table with intervals, and the distribution of times."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aqmlab.scenario import Scenario

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.plot import Chart
    from aqmlab.run import Run

Told = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a comparison found.

    `values` has one row for each queue, replication and quantity (`queue`, `seed`, `quantity`,
    `unit`, `value`); `times` one for each completed transfer (`queue`, `traffic`, `time_s`);
    `queues` holds the parameters of each queue in full.
    """

    queues: Mapping[str, Any]
    values: pl.DataFrame
    times: pl.DataFrame
    replications: int
    failures: Sequence[str] = field(default_factory=tuple)
    interrupted: bool = False

    def intervals(self) -> pl.DataFrame:
        """Mean and 95 % interval of every quantity and queue, over replications (Student's t)."""
        import polars as pl

        from aqmlab import stats

        rows: list[dict[str, Any]] = []
        groups = self.values.group_by("quantity", "unit", "queue", maintain_order=True)
        for (quantity, unit, queue), group in groups:
            interval = stats.mean_interval(group["value"].to_list())
            rows.append(
                {
                    "quantity": quantity,
                    "unit": unit,
                    "queue": queue,
                    "mean": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                    "replications": interval.count,
                }
            )
        return pl.DataFrame(rows)

    def chart(self, traffic: str) -> Chart | None:
        """The distribution of transfer times of one workload, a curve for each queue."""
        import numpy as np
        import polars as pl

        from aqmlab import metrics
        from aqmlab.plot import Chart

        ours = self.times.filter(pl.col("traffic") == traffic)
        if ours.is_empty():
            return None
        times = ours["time_s"].to_numpy()
        grid = np.geomspace(max(times.min() * 0.9, 1e-6), times.max(), 300)
        parts = [
            pl.DataFrame(
                {
                    "time_s": grid,
                    "share": metrics.cdf(ours.filter(pl.col("queue") == queue)["time_s"].to_numpy(), grid),
                    "queue": [queue] * grid.size,
                }
            )
            for queue in self.queues
        ]
        return Chart(
            kind="cdf",
            table=pl.concat(parts),
            x="time_s",
            y="share",
            by="queue",
            x_label=f"Transfer time of {traffic} (s)",
            y_label="Share of completed transfers",
            log_x=True,
        )


def compare(
    scenario: Scenario,
    queues: Sequence[str],
    *,
    replications: int = 10,
    first_seed: int | None = None,
    jobs: int | None = None,
    told: Told | None = None,
) -> Comparison:
    """Runs `scenario` with each of `queues`, `replications` times with common random numbers.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. Every managed
    link gets it. Seeds count up from `first_seed`, by default the scenario's own. `told` is called
    after each run. A run that fails is named in `failures` and does not lose the others; Ctrl-C keeps
    what is finished (`interrupted`).
    """
    import polars as pl

    if replications < 1:
        raise ValueError("replications must be at least 1")
    if not queues or len(set(queues)) != len(queues):
        raise ValueError("name at least one queue, each once")
    variants = {name: _with_queue(scenario, name) for name in queues}
    seed = scenario.effective["seed"] if first_seed is None else first_seed
    tasks = [(name, seed + k) for k in range(replications) for name in variants]
    values: list[dict[str, Any]] = []
    times: list[pl.DataFrame] = []
    failures: list[str] = []
    interrupted = False
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        try:
            futures = [pool.submit(_reduced, variants[name], name, seed) for name, seed in tasks]
            for (name, seed), future in zip(tasks, futures, strict=True):
                try:
                    rows, frame = future.result()
                except Exception as problem:
                    failures.append(f"{name}, seed {seed}: {problem}")
                else:
                    values += rows
                    times.append(frame)
                if told:
                    told()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            interrupted = True
    return Comparison(
        queues={name: _queue_of(variant) for name, variant in variants.items()},
        values=pl.DataFrame(values, schema=_VALUES),
        times=pl.concat(times) if times else pl.DataFrame(schema=_TIMES),
        replications=replications,
        failures=tuple(failures),
        interrupted=interrupted,
    )


_VALUES = {"queue": str, "seed": int, "quantity": str, "unit": str, "value": float}
_TIMES = {"queue": str, "traffic": str, "time_s": float}


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


def _reduced(scenario: Scenario, queue: str, seed: int) -> tuple[list[dict[str, Any]], pl.DataFrame]:
    run = scenario.run(seed)
    rows = [
        {"queue": queue, "seed": seed, "quantity": quantity, "unit": unit, "value": float(value)}
        for quantity, unit, value in _quantities(run.summary)
        if value is not None
    ]
    return rows, _times(run, queue)


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


def _times(run: Run, queue: str) -> pl.DataFrame:
    import polars as pl

    from aqmlab import metrics

    warm_up_s, _ = metrics.window(run.manifest)
    done = metrics.measured(run.transfers, warm_up_s).filter(pl.col("complete"))
    return done.select(
        pl.lit(queue).alias("queue"),
        pl.col("traffic").cast(pl.String),
        pl.col("duration_s").alias("time_s"),
    )
