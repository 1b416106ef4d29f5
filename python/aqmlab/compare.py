"""The same traffic under several queues or TCPs, seed by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.comparison import Comparison, Metric, Variant
from aqmlab.scenario import Scenario, flat

if TYPE_CHECKING:
    from concurrent.futures import Future

    import polars as pl

    from aqmlab.run import Run

Task = tuple[Variant, int]
"""A variant and a seed."""
Reduced = tuple[list[dict[str, Any]], "pl.DataFrame"]
"""Rows of values, and times of transfers."""


def compare(
    scenario: Scenario,
    queues: Sequence[str] = (),
    *,
    tcps: Sequence[str] = (),
    replications: int = 10,
    first_seed: int | None = None,
    jobs: int | None = None,
    metric: Metric = Metric.SUMMARY,
    label: str | None = None,
) -> Comparison:
    """Runs `scenario` with each of `queues`, each of `tcps` or each pair of both, `replications` times
    with common random numbers.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. Every managed
    link gets it. A TCP is a congestion control with a recovery, `CONTROL/RECOVERY`, or an alias
    (`aqmlab list tcp`); it is laid over the scenario's `tcp` table, so what else that says, its `profile`
    too, stays, and so does what a workload says in a `tcp` table of its own. Seeds count up from
    `first_seed`, by default the scenario's own. With `Metric.RESPONSE_TIME` the quantities are quantiles
    of response times, and the charts show where their distributions cross. With a `label` a bar
    shows how far it is. A run that fails is named in `failures` and does not lose the others; Ctrl-C keeps
    what is finished (`interrupted`).
    """
    import polars as pl

    from aqmlab.metrics import TIMED
    from aqmlab.parallel import each

    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name} is of the level `{scenario.level}`: queues and TCPs are of `packet`"
        )
    if replications < 1:
        raise ValueError("replications must be at least 1")
    if not queues and not tcps:
        raise ValueError("name at least one queue or one TCP")
    if any(len(set(names)) != len(names) for names in (queues, tcps)):
        raise ValueError("a queue or TCP is named twice: name each once")
    kept = scenario.effective["record"]["transfer_columns"]
    if kept and not set(kept) >= TIMED:
        raise ValueError(f"record.transfer_columns: a comparison needs {', '.join(sorted(TIMED))}")
    variants: dict[Variant, Scenario] = {(): scenario}
    for change, names in ((with_queue, queues), (_with_tcp, tcps)):
        if names:
            variants = {
                (*so_far, name): change(one, name) for so_far, one in variants.items() for name in names
            }
    factors = [factor for factor, names in (("queue", queues), ("tcp", tcps)) if names]
    seed = scenario.effective["seed"] if first_seed is None else first_seed
    tasks = [(names, seed + k) for k in range(replications) for names in variants]
    finished: dict[Task, Future[Reduced]] = {}

    def one(task: Task, watch: _core.Watch) -> Reduced:
        names, seed = task
        run = variants[names].run(seed, watch=watch)
        return _reduced(run, dict(zip(factors, names, strict=True)), seed, metric)

    try:
        each(tasks, one, finished.__setitem__, jobs=jobs, label=label)
        interrupted = False
    except KeyboardInterrupt:
        interrupted = True
    values: list[dict[str, Any]] = []
    times: list[pl.DataFrame] = []
    failures: list[str] = []
    # In the order in which they were asked for, not in that in which they were done.
    for task in tasks:
        if task not in finished:
            continue
        problem = finished[task].exception()
        if problem is None:
            rows, frame = finished[task].result()
            values += rows
            times.append(frame)
        else:
            names, seed = task
            failures.append(f"{', '.join(names)}, seed {seed}: {problem}")
    words = dict.fromkeys(factors, str)
    return Comparison(
        queues={names[0]: _queue_of(one) for names, one in variants.items()} if queues else {},
        tcps={names[-1]: one.effective["tcp"] for names, one in variants.items()} if tcps else {},
        values=pl.DataFrame(values, schema={**words, **_VALUES}),
        times=pl.concat(times) if times else pl.DataFrame(schema={**words, **_TIMES}),
        replications=replications,
        failures=tuple(failures),
        interrupted=interrupted,
        metric=metric,
        edges={
            "/".join(names): list(one.effective["edges"])
            for names, one in variants.items()
            if "edges" in one.effective and "edges" not in scenario.effective
        },
    )


_VALUES = {"seed": int, "quantity": str, "unit": str, "value": float}
_TIMES = {"seed": int, "traffic": str, "time_s": float}


def with_queue(scenario: Scenario, name: str) -> Scenario:
    """The scenario with another queue at its bottleneck, or at all its managed links: `queues.NAME` of the
    scenario, or a kind with its defaults. Raises `ValueError` if there is no such queue."""
    from aqmlab.catalog import members

    own = scenario.given.get("queues", {})
    kinds = [one.name for one in members("queues")]
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
    datagrams = _core.datagram_kinds()
    traffic = scenario.effective["traffic"]
    users = [one for one, table in traffic.items() if table["kind"] not in datagrams]
    if not users:
        raise ValueError(
            f"TCP `{name}`: traffic: no workload uses TCP ({', '.join(traffic)}): add one that does, such as "
            '[traffic.files] with kind = "ftp", or compare queues only'
        )
    try:
        table = json.loads(_core.transport(name))
        laid_over = _core.lay_over(json.dumps(scenario.given.get("tcp", {})), json.dumps(table))
        changed = scenario.with_({"tcp": json.loads(laid_over)})
    except _core.ScenarioError as error:
        raise ValueError(f"TCP `{name}`: {error}") from None
    wanted = flat(table).items()
    own = {one: changed.effective["traffic"][one].get("tcp") for one in users}
    if all(table is not None and not wanted <= flat(table).items() for table in own.values()):
        raise ValueError(
            f"TCP `{name}`: no workload would use it, because a workload's own tcp table stays: "
            f"take what it sets out of {', '.join(f'traffic.{one}.tcp' for one in users)}"
        )
    return changed


def _reduced(run: Run, names: Mapping[str, str], seed: int, metric: Metric) -> Reduced:
    from aqmlab import metrics, response_times

    warm_up_s, _ = metrics.window(run.manifest)
    found = (
        response_times.quantities(run.transfers, warm_up_s)
        if metric is Metric.RESPONSE_TIME
        else _quantities(run.summary)
    )
    rows = [
        {**names, "seed": seed, "quantity": quantity, "unit": unit, "value": float(value)}
        for quantity, unit, value in found
        if value is not None
    ]
    return rows, _times(run.transfers, warm_up_s, {**names, "seed": seed})


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
        if flows["mean_delay_s"] is not None:
            found.append((f"{name} delay, mean", "ms", _scaled(flows["mean_delay_s"], 1000)))
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


def _times(transfers: pl.DataFrame, warm_up_s: float, run: Mapping[str, Any]) -> pl.DataFrame:
    """The times of completed transfers, with what names the `run` in columns before them."""
    import polars as pl

    from aqmlab import metrics

    done = metrics.measured(transfers, warm_up_s).filter(pl.col("complete"))
    return done.select(
        *(
            pl.lit(value, dtype=pl.Int64 if isinstance(value, int) else pl.String).alias(name)
            for name, value in run.items()
        ),
        pl.col("traffic").cast(pl.String),
        pl.col("duration_s").alias("time_s"),
    )
