"""Many loads of recorded pages, over several versions of HTTP and through several queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aqmlab._support import arguments
from aqmlab.comparison import variants
from aqmlab.pages.network import VERSIONS, versions, workload_names
from aqmlab.pages.page import Page
from aqmlab.scenario import Scenario
from aqmlab.sweep import Sweep

if TYPE_CHECKING:
    from aqmlab.campaign import Executor
    from aqmlab.charts.chart import Chart
    from aqmlab.results.table import Results
    from aqmlab.store import Store

QUANTILES = (0.5, 0.95)
"""Quantiles over the runs that are reported beside the mean."""

MEASURES = ("load-time", "render-time", "unfinished-loads")


@dataclass(frozen=True, kw_only=True)
class Loads:
    """The loads of pages. The axes of `results` are `http` and `queue`."""

    results: Results
    names: Sequence[str]
    """The workloads of the pages."""
    executed: int = 0
    """Number of runs that were executed, and not found in the store."""

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each point and page: the mean of the load time and of the time of the last
        render-blocking object, the quantiles of the load time, each with `low` and `high`, and the number of
        loads that were not finished at the end of the run."""
        frames: list[tuple[str, Any]] = [("mean", self.results.intervals())]
        frames += [(f"q{round(100 * q)}", self.results.intervals(quantile=q)) for q in QUANTILES]
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for statistic, frame in frames:
            for one in frame.iter_rows(named=True):
                page, _, measure = one["measure"].rpartition(".")
                labels = {label: one[label] for label in self.results.axes} | {"page": page}
                row = found.setdefault(tuple(labels.values()), labels)
                if measure == "unfinished-loads":
                    if statistic == "mean":
                        row["unfinished"] = one["mean"] * one["replications"]
                    continue
                for name in ("low", "high"):
                    row[f"{measure}.{statistic}.{name}"] = one[name]
                row[f"{measure}.{statistic}"] = one["mean"]
                row["runs"] = one["replications"]
        return list(found.values())

    def charts(self) -> dict[str, Chart]:
        """Returns charts of the distributions of the load time and of the time of the last render-blocking
        object, by the name of the file."""
        from aqmlab.sweep import charts as sweep_charts

        found = {}
        for name in self.names:
            for measure in MEASURES[:2]:
                by, panel = ("http", "queue") if "queue" in self.results.axes else ("http", None)
                chart = sweep_charts.distribution(self.results, f"{name}.{measure}", by=by, panel=panel)
                label = "load time (s)" if measure == "load-time" else "last render-blocking object (s)"
                found[f"{name}-{measure}"] = replace(chart, x_label=label)
        return found


def load(
    scenario: Scenario,
    pages: Sequence[Page],
    *,
    http: Sequence[str] = VERSIONS,
    queues: Sequence[str] = (),
    at: Sequence[str] = (),
    runs: int = 100,
    first_seed: int | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    label: str | None = None,
) -> Loads:
    """Runs a scenario that `network` created with each version of HTTP and each queue, with `runs` seeds.
    Runs in the store are not repeated. Raises `ValueError`, which names the argument, for an unknown version
    or queue. After Ctrl-C, the results contain the finished runs."""
    from aqmlab import campaign
    from aqmlab.store import Store
    from aqmlab.sweep import run as sweep_run

    http, queues = arguments.names("http", http), arguments.names("queues", queues)
    arguments.unique("http", http)
    for version in http:
        if version not in VERSIONS:
            raise ValueError(f"http: must be {', '.join(VERSIONS)}, or several of these (got {version})")
    arguments.count("runs", runs, 1)
    names = workload_names(pages)
    axes = {"http": versions(pages, http), **(variants.axes(scenario, queues, (), at) if queues else {})}
    sweep = Sweep(
        scenario,
        axes=axes,
        measures=[f"{name}.{measure}" for name in names for measure in MEASURES],
        name="page",
        replications=runs,
        first_seed=first_seed,
    )
    store = store or Store.in_memory()
    account, interrupted = campaign.Account(), False
    try:
        sweep_run.run(
            sweep, store, executor=executor or campaign.Local(), label=label, retry=True, account=account
        )
    except KeyboardInterrupt:
        store.refresh()
        interrupted = True
    results = replace(store.results(sweep), failures=tuple(account.failures), interrupted=interrupted)
    return Loads(results=results, names=names, executed=account.made)
