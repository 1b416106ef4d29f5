"""Finds the slowest transfers of a run, and records the history of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aqmlab._support.names import hint

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.scenario import Scenario
    from aqmlab.scenario.run import Run

SAMPLES_OF_FLOW = 1000
"""Number of samples of a queue during the life of the explained flow (aqmlab's choice: about two per pixel
column of a picture)."""

MOST_SAMPLES = 100_000
"""Maximum number of samples of a queue during a run, which limits the memory for short flows in long runs."""


def check(scenario: Scenario, traffic: str | None = None) -> None:
    """Raises `ValueError` if the scenario is not at packet level, and `LookupError` if the scenario does not
    contain the workload `traffic`."""
    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name}: explain needs a scenario of the level packet (got {scenario.level})"
        )
    known = list(scenario.workloads)
    if traffic not in (None, *known):
        raise LookupError(f"no workload is named `{traffic}`: {hint(str(traffic), known)}")


def complete(scenario: Scenario) -> Scenario:
    """Returns the scenario with all columns of the tables `flows` and `transfers`."""
    columns = [f"record.{name}" for name in ("flow_columns", "transfer_columns")]
    record = scenario.effective["record"]
    changes = {path: None for path in columns if record.get(path.removeprefix("record.")) is not None}
    return scenario.with_(changes) if changes else scenario


def slowest(run: Run, traffic: str | None = None, most: int = 10) -> pl.DataFrame:
    """Returns the rows of the slowest transfers of a run, in descending order of duration. The duration of an
    incomplete transfer is the time until the end of the run. With `traffic`, only the transfers of this
    workload are considered."""
    import polars as pl

    from aqmlab.metrics.tables import window

    end_s = window(run.manifest)[1]
    rows = run.transfers.with_columns(pl.col("traffic").cast(pl.String))
    if traffic is not None:
        rows = rows.filter(pl.col("traffic") == traffic)
    duration = pl.coalesce("duration_s", end_s - pl.col("start_s"))
    found: pl.DataFrame = rows.sort(duration, descending=True, maintain_order=True).head(most)
    return found


def last_of_page(run: Run, page: int, traffic: str | None = None) -> int:
    """Returns the flow of the transfer that completed a page, which is the transfer that ended last. Raises
    `LookupError` if the run has no such page, or if several workloads have a page with this number."""
    import polars as pl

    rows = run.transfers.with_columns(pl.col("traffic").cast(pl.String)).filter(pl.col("page").is_not_null())
    if traffic is not None:
        rows = rows.filter(pl.col("traffic") == traffic)
    found = rows.filter(pl.col("page") == page)
    if not found.height:
        numbers = rows["page"].to_list()
        known = f"the pages are {min(numbers)}-{max(numbers)}" if numbers else "the run has no pages"
        raise LookupError(f"--page {page}: no page has this number; {known}")
    workloads = found["traffic"].unique(maintain_order=True).to_list()
    if len(workloads) > 1:
        raise LookupError(f"--page {page}: select a workload with --traffic: {', '.join(workloads)}")
    end = pl.col("start_s") + pl.col("duration_s")
    return int(found.sort(end, nulls_last=True)["flow"][-1])


def lossiest(run: Run, traffic: str | None = None, most: int = 10) -> pl.DataFrame:
    """Returns the rows of the flows with the most dropped packets, for workloads without transfers. Among
    flows with equally many drops, those with the most marked packets precede. With `traffic`, only the flows
    of this workload are considered."""
    import polars as pl

    rows = run.flows.with_columns(pl.col("traffic").cast(pl.String))
    if traffic is not None:
        rows = rows.filter(pl.col("traffic") == traffic)
    return rows.sort("packets_dropped", "packets_marked", descending=True, maintain_order=True).head(most)


def recorded(scenario: Scenario, traffic: str, *, lifetime_s: float | None = None) -> Scenario:
    """Returns the scenario with everything recorded that explains the flows of the workload `traffic`, and
    without warm-up, so that all counters cover the whole life of a flow. Neither changes what happens in the
    run. `lifetime_s` is the duration of the explained flow, from which the sampling interval of the queues
    follows."""
    check(scenario, traffic)
    full = scenario.effective
    changes: dict[str, object] = {"warm_up": "0s", "record.drops": True, "record.histories": [traffic]}
    if not scenario.workloads[traffic].sends_datagrams:
        changes["record.senders"] = [traffic]
    if lifetime_s:
        from aqmlab.metrics.tables import seconds

        duration = seconds(full["duration"])
        interval = max(lifetime_s / SAMPLES_OF_FLOW, duration / MOST_SAMPLES, 1e-4)
        changes["record.queue_every"] = f"{max(1, round(interval * 1e6))}us"
    return complete(scenario).with_(changes)
