"""`run_sweep`: makes the runs of a sweep that are missing, and returns the table of all of them."""

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
    """Makes the runs of a sweep that the store lacks, and returns the table of all of them.

    Without a `store` nothing is kept. Runs are made by `executor`, by default `jobs` at once on this machine.
    With a `label` a bar shows how far it is. Ctrl-C keeps what is finished (`interrupted`).

    A run that fails is among the result's `failures`, and is not made again unless with `retry`; with
    `fail_fast` the first one raises `FirstFailureError`. Raises `ValueError`, which names the point, if its
    scenario is refused, before anything runs.
    """
    from aqmlab.campaign import Account, Local
    from aqmlab.store import Store
    from aqmlab.sweep.run import run

    if store is not None and not isinstance(store, Store):
        raise ValueError(f"store: must be an aqmlab.Store, is {store!r}: write aqmlab.Store(folder)")
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
