"""Compares several queues or TCPs under the same traffic, seed by seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aqmlab._support import arguments
from aqmlab.comparison import variants
from aqmlab.comparison.comparison import Comparison, Metric, Variant
from aqmlab.measures import Measure
from aqmlab.scenario import Scenario
from aqmlab.scenario.queues import different_rates, links_for, replacement, with_queue
from aqmlab.scenario.tcps import with_tcp
from aqmlab.sweep import Changes, Sweep

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.campaign import Executor
    from aqmlab.measures import View
    from aqmlab.results.table import Results
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
    """Runs `scenario` with each of `queues`, each of `tcps` or each combination of both, `replications` times
    with common random numbers.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. The queue replaces the
    queues of all managed links in `at` or, without `at`, of all managed links. `Comparison.at` contains the
    links whose queues are replaced, and `Comparison.notes` contains warnings. A TCP is either a congestion
    control with a loss recovery, `CONTROL/RECOVERY`, or an alias (`aqmlab list tcp`). The TCP's parameters
    are applied to the scenario's `tcp` table. The other parameters in this table, including `profile`, remain
    unchanged, and so does the `tcp` table of any workload. Seeds are consecutive, beginning with `first_seed`
    (by default, the scenario's seed). With `Metric.RESPONSE_TIME`, the quantities are quantiles of response
    times, and the charts show where the distributions of response times cross. A `label` enables a progress
    bar. If a run fails, the failure is reported in `failures`, and the other runs continue. After Ctrl-C, the
    result contains the finished runs, and `interrupted` is true. Runs in the `store` are not repeated.
    `executor` executes the missing runs, by default on this machine.

    If an argument is invalid, raises a `ValueError` that names the argument before anything is run.
    """
    from aqmlab import campaign
    from aqmlab.metrics import TIMED
    from aqmlab.store import Store
    from aqmlab.sweep import run as sweep_run

    arguments.instance("scenario", scenario, Scenario, "aqmlab.Scenario.load reads a file")
    queues, tcps, at = (
        arguments.names(name, given) for name, given in (("queues", queues), ("tcps", tcps), ("at", at))
    )
    arguments.count("replications", replications, 1)
    arguments.count_or_none("first_seed", first_seed, 0)
    arguments.count_or_none("jobs", jobs, 1)
    metric = arguments.word("metric", metric, Metric)
    if not queues and not tcps:
        raise ValueError("queues: must name at least one queue, unless tcps names a TCP")
    axes = variants.axes(scenario, queues, tcps, at)
    links = links_for(scenario, at) if queues else []
    kept = scenario.effective["record"]["transfer_columns"]
    if kept and not set(kept) >= TIMED:
        raise ValueError(
            f"record.transfer_columns: must include {', '.join(sorted(TIMED))}, which a comparison needs"
        )
    sweep = _sweep(scenario, axes, metric, replications, first_seed)
    scenarios: dict[Variant, Scenario] = {(): scenario}
    for change, wanted in ((partial(with_queue, at=links), queues), (with_tcp, tcps)):
        if wanted:
            scenarios = {
                (*names, name): change(one, name) for names, one in scenarios.items() for name in wanted
            }
    store = store or Store.in_memory()
    account = campaign.Account()
    try:
        sweep_run.run(
            sweep,
            store,
            executor=executor or campaign.Local(jobs=jobs),
            label=label,
            retry=True,
            account=account,
        )
        interrupted = False
    except KeyboardInterrupt:
        store.refresh()
        interrupted = True
    selection = sweep.selection(store)
    results = store.results(replace(selection, whole=True)).named(scenario.name)
    variant_names = {one.scenario: ", ".join(map(str, one.point)) for one in reversed(selection.runs)}
    results = replace(
        results,
        failures=tuple(replace(one, name=variant_names[one.scenario]) for one in account.failures),
        interrupted=interrupted,
    )
    return Comparison(
        queues={names[0]: _queue_of(one, links[0]) for names, one in scenarios.items()} if queues else {},
        tcps={names[-1]: one.effective["tcp"] for names, one in scenarios.items()} if tcps else {},
        results=_by_quantile(results) if metric is Metric.RESPONSE_TIME else _without(results, TIMES),
        times=_times_of(results, store),
        replications=replications,
        metric=metric,
        at=links if queues else [],
        replaced=replacement(scenario, at) if queues else None,
        notes=[note] if queues and (note := different_rates(scenario, at)) else [],
        edges={
            "/".join(names): list(one.effective["edges"])
            for names, one in scenarios.items()
            if "edges" in one.effective and "edges" not in scenario.effective
        },
    )


def _sweep(
    scenario: Scenario,
    axes: Mapping[str, Changes],
    metric: Metric,
    replications: int,
    first_seed: int | None,
) -> Sweep:
    """Returns the comparison as a sweep."""
    of_metric = [RESPONSE_TIMES] if metric is Metric.RESPONSE_TIME else _compared_measures(scenario)
    return Sweep(
        scenario,
        axes=axes,
        # Batch means of individual runs are not needed.
        measures=[replace(one, series=None) for one in (*of_metric, TIMES)],
        name="compare-" + re.sub(r"[^A-Za-z0-9._-]", "-", scenario.name),
        replications=replications,
        first_seed=first_seed,
    )


def _without(results: Results, measure: Measure) -> Results:
    return results.select(*(one.name for one in results.measured if one.name != measure.name))


def _by_quantile(results: Results) -> Results:
    """Returns a measure for each quantile of the response times in a run."""
    found: dict[str, str] = {}
    for rows in results.column(RESPONSE_TIMES.name):
        found |= {quantity: unit for quantity, unit, value in rows if value is not None}

    def quantile(quantity: str, run: Mapping[str, Any]) -> float | None:
        return next((value for name, _, value in run[RESPONSE_TIMES.name] if name == quantity), None)

    for quantity, unit in found.items():
        results = results.with_measure(quantity, partial(quantile, quantity), unit=unit)
    return results.select(*found)


def _times_of(results: Results, store: Store) -> pl.DataFrame:
    """Returns the times of completed transfers, with the columns `queue` or `tcp` or both, `seed`, `traffic`
    and `time_s`."""
    import polars as pl

    kept = store.runs_of(results.frame["scenario"].unique().to_list())
    columns = [*results.axes, "seed", "scenario"]
    # The rows are sorted by seed, not by variant.
    runs = results.frame.select(columns).sort("seed", maintain_order=True)
    times = [
        _labelled(
            store.frame(kept[run["scenario"], run["seed"]], TIMES.key),
            {name: value for name, value in run.items() if name != "scenario"},
        )
        for run in runs.iter_rows(named=True)
    ]
    schema = {**dict.fromkeys(results.axes, pl.String), **_TIMES}
    return pl.concat(times) if times else pl.DataFrame(schema=schema)


_TIMES = {"seed": int, "traffic": str, "time_s": float}


def _queue_of(scenario: Scenario, link: str) -> dict[str, Any]:
    queue: dict[str, Any] = scenario.links[link][1]["queue"]
    return queue


def quantities(scenario: Scenario, metric: Metric = Metric.SUMMARY) -> list[str]:
    """Returns the quantities that a comparison of this scenario can contain."""
    if metric is Metric.RESPONSE_TIME:
        from aqmlab.metrics.response_times import QUANTILES

        return [f"{name} response time, {one}" for name in scenario.effective["traffic"] for one in QUANTILES]
    return [one.title for one in _compared_measures(scenario)]


def _compared_measures(scenario: Scenario) -> list[Measure]:
    """Returns the measures of a comparison. Fairness measures are included only for workloads without
    transfers, and page measures only for workloads whose objects share connections."""
    from aqmlab import measures

    known = measures.of_scenario(scenario)

    def is_compared(name: str) -> bool:
        about, _, what = name.rpartition(".")
        if what == "jain":
            return f"{about}.unfinished" not in known
        if what in _PAGE_MEASURES:
            return scenario.workloads[about].shares_connections
        return what not in _LEFT_OUT

    return [one for name, one in known.items() if is_compared(name)]


_LEFT_OUT = frozenset({"timeouts", "fast-retransmits", "retransmitted"})
_PAGE_MEASURES = frozenset({"mean-page", "median-page", "p90-page"})


def _response_times(view: View) -> list[list[Any]]:
    from aqmlab.metrics import finite, response_times

    found = response_times.quantities(view.run.tables["transfers"], view.window[0])
    rows: list[list[Any]] = finite([list(row) for row in found])
    return rows


def _times(view: View) -> pl.DataFrame:
    """Returns the times of completed transfers."""
    import polars as pl

    from aqmlab import metrics

    done = metrics.measured(view.run.tables["transfers"], view.window[0]).filter(pl.col("complete"))
    return done.select(pl.col("traffic").cast(pl.String), pl.col("duration_s").alias("time_s"))


def _labelled(times: pl.DataFrame, run: Mapping[str, Any]) -> pl.DataFrame:
    """Returns the times, preceded by columns that identify the run."""
    import polars as pl

    return times.select(
        *(
            pl.lit(value, dtype=pl.Int64 if isinstance(value, int) else pl.String).alias(name)
            for name, value in run.items()
        ),
        *times.columns,
    )


RESPONSE_TIMES = Measure(name="response-times", compute=_response_times)
"""Quantiles of response times, in rows of quantity, unit and value."""

TIMES = Measure(name="times", compute=_times)
"""The time of each completed transfer."""
