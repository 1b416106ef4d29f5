"""The function `run_sweep`, which executes the missing runs of a sweep and returns the table of all runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aqmlab.campaign import Executor
    from aqmlab.results.table import Results
    from aqmlab.store import Store
    from aqmlab.sweep.sweep import Sweep


def run_sweep(
    sweep: Sweep,
    store: Store | None = None,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    label: str | None = None,
    retry: bool = False,
    fail_fast: bool = False,
) -> Results:
    """Executes the runs of a sweep that are missing from the store, and returns the table of all runs.

    Without a `store`, the runs are not saved. `executor` executes the runs. Without an `executor`, this
    machine executes `jobs` runs in parallel (by default, one per core). With a `label`, a progress bar is
    shown. After Ctrl-C, the table contains the finished runs, and its attribute `interrupted` is true.

    Failed runs are listed in the result's `failures`, and are repeated only with `retry`. With `fail_fast`,
    the first failed run raises `FirstFailureError`. If a scenario is rejected, raises `ValueError`, which
    names the point, before any run.
    """
    from aqmlab.campaign import Account, Local
    from aqmlab.store import Store
    from aqmlab.sweep.run import run

    if store is not None and not isinstance(store, Store):
        raise ValueError(f"store: must be an aqmlab.Store (got {store!r}): write aqmlab.Store(folder)")
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
    return replace(kept.results(sweep), failures=tuple(account.failures), interrupted=interrupted)
