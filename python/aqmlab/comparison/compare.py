"""The same traffic under several queues or TCPs, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from aqmlab._support import arguments
from aqmlab.comparison.comparison import Comparison, Metric, Variant
from aqmlab.measures import Measure
from aqmlab.scenario import Scenario
from aqmlab.scenario.queues import different_rates, links_for, replacement, with_queue
from aqmlab.scenario.tcps import with_tcp

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.campaign import Executor
    from aqmlab.measures import View
    from aqmlab.store import Store


def compare(
    scenario: Scenario,
    queues: Sequence[str] = (),
    *,
    tcps: Sequence[str] = (),
    at: Sequence[str] = (),
    replications: int = 10,
    first_seed: int | None = None,
    jobs: int | None = None,
    metric: Metric = Metric.SUMMARY,
    label: str | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
) -> Comparison:
    """Runs `scenario` with each of `queues`, each of `tcps` or each pair of both, `replications` times
    with common random numbers.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. It replaces the queue
    of each managed link that `at` names; without `at`, that of every managed link. `Comparison.at` says
    which, and `Comparison.notes` what to watch out for. A TCP is a congestion control with a recovery,
    `CONTROL/RECOVERY`, or an alias (`aqmlab list tcp`); it is laid over the scenario's `tcp` table, so the
    rest of that table stays, its `profile` included, and so does a workload's own `tcp` table. Seeds count up
    from `first_seed`, by default the scenario's own. With `Metric.RESPONSE_TIME` the quantities are quantiles
    of response times, and the charts show where their distributions cross. With a `label` a bar shows how far
    the comparison is. A run that fails is named in `failures` and does not lose the others; Ctrl-C keeps the
    finished runs (`interrupted`). Runs that the `store` holds are not made again; `executor` makes the
    others, or else this machine.

    Raises `ValueError`, which names the argument, before any run.
    """
    import polars as pl

    from aqmlab import campaign
    from aqmlab.metrics import TIMED
    from aqmlab.store import Store

    arguments.instance("scenario", scenario, Scenario, "aqmlab.Scenario.load reads a file")
    queues, tcps, at = (
        arguments.names(name, given) for name, given in (("queues", queues), ("tcps", tcps), ("at", at))
    )
    arguments.count("replications", replications, 1)
    arguments.count_or_none("first_seed", first_seed, 0)
    arguments.count_or_none("jobs", jobs, 1)
    metric = arguments.word("metric", metric, Metric)
    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name} is of the level `{scenario.level}`: queues and TCPs are of `packet`"
        )
    if not queues and not tcps:
        raise ValueError("queues: name at least one queue, or one of tcps")
    if at and not queues:
        raise ValueError("at: says where queues are replaced, and no queue is named")
    for name, listed in (("queues", queues), ("tcps", tcps), ("at", at)):
        arguments.unique(name, listed)
    links = links_for(scenario, at) if queues else []
    kept = scenario.effective["record"]["transfer_columns"]
    if kept and not set(kept) >= TIMED:
        raise ValueError(f"record.transfer_columns: a comparison needs {', '.join(sorted(TIMED))}")
    variants: dict[Variant, Scenario] = {(): scenario}
    changes = ((partial(with_queue, at=links), queues), (with_tcp, tcps))
    for change, wanted in changes:
        if wanted:
            variants = {
                (*so_far, name): change(one, name) for so_far, one in variants.items() for name in wanted
            }
    factors = [factor for factor, names in (("queue", queues), ("tcp", tcps)) if names]
    seed = scenario.effective["seed"] if first_seed is None else first_seed
    measures = _measures(metric)
    canonical = {names: one.with_({"seed": 1}) for names, one in variants.items()}
    tasks = {
        (names, seed + k): campaign.Task(
            scenario=one, seed=seed + k, measures=measures(one), name=", ".join(names)
        )
        for k in range(replications)
        for names, one in canonical.items()
    }
    store = store or Store.in_memory()
    account = campaign.Account()
    try:
        campaign.execute(
            tasks.values(),
            store,
            executor=executor or campaign.Local(jobs=jobs),
            label=label,
            total=len(tasks),
            account=account,
            retry=True,
        )
        interrupted = False
    except KeyboardInterrupt:
        store.refresh()
        interrupted = True
    values: list[dict[str, Any]] = []
    times: list[pl.DataFrame] = []
    kept = store.runs_of([one.digest for one in canonical.values()])
    # In the order in which they were asked for, not in that in which they were done.
    for (names, seed), task in tasks.items():
        record = kept.get(task.run)
        if record is None or not campaign.complete(record, task.keys):
            continue
        run = {**dict(zip(factors, names, strict=True)), "seed": seed}
        found = {one.key: record.values[one.key] for one in task.measures if one.key in record.values}
        values += [run | row for row in _rows(task.measures, found)]
        times.append(_labelled(store.frame(record, TIMES.key), run))
    words = dict.fromkeys(factors, str)
    return Comparison(
        queues={names[0]: _queue_of(one, links[0]) for names, one in variants.items()} if queues else {},
        tcps={names[-1]: one.effective["tcp"] for names, one in variants.items()} if tcps else {},
        values=pl.DataFrame(values, schema={**words, **_VALUES}),
        times=pl.concat(times) if times else pl.DataFrame(schema={**words, **_TIMES}),
        replications=replications,
        failures=tuple(map(str, account.failures)),
        interrupted=interrupted,
        metric=metric,
        at=links if queues else [],
        replaced=replacement(scenario, at) if queues else None,
        notes=[note] if queues and (note := different_rates(scenario, at)) else [],
        edges={
            "/".join(names): list(one.effective["edges"])
            for names, one in variants.items()
            if "edges" in one.effective and "edges" not in scenario.effective
        },
    )


_VALUES = {"seed": int, "quantity": str, "unit": str, "value": float}
_TIMES = {"seed": int, "traffic": str, "time_s": float}


def _queue_of(scenario: Scenario, link: str) -> dict[str, Any]:
    queue: dict[str, Any] = scenario.links[link][1]["queue"]
    return queue


def quantities(scenario: Scenario, metric: Metric = Metric.SUMMARY) -> list[str]:
    """The quantities that a comparison of a scenario can have."""
    if metric is Metric.RESPONSE_TIME:
        from aqmlab.metrics.response_times import QUANTILES

        return [f"{name} response time, {one}" for name in scenario.effective["traffic"] for one in QUANTILES]
    return [one.title for one in _told(scenario)]


def _measures(metric: Metric) -> Callable[[Scenario], tuple[Measure, ...]]:
    if metric is Metric.RESPONSE_TIME:
        return lambda scenario: (RESPONSE_TIMES, TIMES)
    return lambda scenario: (*_told(scenario), TIMES)


def _told(scenario: Scenario) -> list[Measure]:
    """What a comparison tells: fairness of workloads without transfers, and pages whose objects share
    connections."""
    from aqmlab import measures

    known = measures.of_scenario(scenario)

    def told(name: str) -> bool:
        about, _, what = name.rpartition(".")
        if what == "jain":
            return f"{about}.unfinished" not in known
        if what in _OF_PAGES:
            return scenario.workloads[about].shares_connections
        return what not in _UNTOLD

    return [one for name, one in known.items() if told(name)]


_UNTOLD = frozenset({"timeouts", "fast-retransmits", "retransmitted"})
_OF_PAGES = frozenset({"mean-page", "median-page", "p90-page"})


def _rows(measures: Sequence[Measure], found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of quantity, unit and value."""
    if RESPONSE_TIMES.key in found:
        for quantity, unit, value in found[RESPONSE_TIMES.key]:
            if value is not None:
                yield {"quantity": quantity, "unit": unit, "value": float(value)}
        return
    for one in measures:
        if found.get(one.key) is not None:
            yield {"quantity": one.title, "unit": one.unit, "value": float(found[one.key])}


def _response_times(view: View) -> list[list[Any]]:
    from aqmlab.metrics import finite, response_times

    found = response_times.quantities(view.run.tables["transfers"], view.window[0])
    rows: list[list[Any]] = finite([list(row) for row in found])
    return rows


def _times(view: View) -> pl.DataFrame:
    """The times of completed transfers."""
    import polars as pl

    from aqmlab import metrics

    done = metrics.measured(view.run.tables["transfers"], view.window[0]).filter(pl.col("complete"))
    return done.select(pl.col("traffic").cast(pl.String), pl.col("duration_s").alias("time_s"))


def _labelled(times: pl.DataFrame, run: Mapping[str, Any]) -> pl.DataFrame:
    """The times with what names the `run` in columns before them."""
    import polars as pl

    return times.select(
        *(
            pl.lit(value, dtype=pl.Int64 if isinstance(value, int) else pl.String).alias(name)
            for name, value in run.items()
        ),
        *times.columns,
    )


RESPONSE_TIMES = Measure(name="response-times", compute=_response_times)
"""Quantiles of response times: rows of quantity, unit and value."""

TIMES = Measure(name="times", compute=_times)
"""The time of each completed transfer."""
