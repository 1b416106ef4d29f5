"""Estimates the cost of a sweep: the number of runs, the number of stored runs, and the time, which is
estimated from a few probes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aqmlab import _core
from aqmlab._support.parallel import deferred_interrupt
from aqmlab._support.progress import part
from aqmlab.scenario.guests_program import guests_program
from aqmlab.store import Store

if TYPE_CHECKING:
    from aqmlab.sweep.explain import Missing
    from aqmlab.sweep.run import Planned
    from aqmlab.sweep.sweep import Sweep

PROBES = 4
"""Number of missing runs that are probed. The probed runs are evenly spaced in the list of missing runs."""

PROBE_S = 1.5
"""Time after which a probe is stopped. The time of the whole run is extrapolated from the progress of the
probe."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The remaining work of a sweep."""

    points: int
    runs: int
    """Number of runs of the sweep, or the minimum number if precision determines the number of runs."""
    existing: int
    most: int
    """Number of runs of the sweep, or the maximum number if precision determines the number of runs."""
    run_s: Sequence[float]
    """Estimated time of each probed run."""
    jobs: int

    @property
    def missing(self) -> int:
        """Number of runs that are missing from the store."""
        return self.runs - self.existing

    def time_s(self, runs: int) -> float:
        """Returns the estimated time for `runs` runs."""
        return runs * sum(self.run_s) / len(self.run_s) / self.jobs if self.run_s else 0.0


def of(sweep: Sweep, store: Store, *, jobs: int | None = None) -> Estimate:
    """Estimates the cost of a sweep without writing to the store. If the warm-up is unknown, all runs count
    as missing."""
    from aqmlab.sweep import explain as sweep_explain
    from aqmlab.sweep import run as sweep_run
    from aqmlab.sweep.warm_up import NoWarmUpError

    try:
        planned = sweep_run.plan(sweep, store, run_nothing=True)
    except NoWarmUpError:
        planned = sweep_run.plan(replace(sweep, warm_up=None), Store.in_memory())
        store = Store.in_memory()
    states = planned.stopping_states(store)
    missing = list(sweep_explain.missing(planned, store))
    runs = sum(one.wanted for one in states)
    most = runs if sweep.precision is None else len(states) * sweep.precision.rule.most
    return Estimate(
        points=len(planned.points),
        runs=runs,
        existing=runs - len(missing),
        most=most,
        run_s=tuple(_probe(planned, one) for one in _spread(missing)),
        jobs=jobs or os.cpu_count() or 1,
    )


def _spread(missing: Sequence[Missing]) -> list[Missing]:
    count = min(PROBES, len(missing))
    return [missing[(2 * index + 1) * len(missing) // (2 * count)] for index in range(count)]


def _probe(planned: Planned, one: Missing) -> float:
    """Returns the estimated time of a run (s), extrapolated from the beginning of the run."""
    scenario, watch = planned.scenarios.of(one.point), _core.Watch()
    done = threading.Event()

    def work() -> None:
        try:
            scenario.plan.run(watch, one.seed, guests_program())
        except (KeyboardInterrupt, ValueError, RuntimeError):
            # The probe was stopped, or the run failed. If the run failed, the sweep will report the failure.
            pass
        finally:
            done.set()

    began = time.monotonic()
    with deferred_interrupt() as look:
        thread = threading.Thread(target=work)
        thread.start()
        try:
            while not done.wait(0.02) and time.monotonic() - began < PROBE_S:
                look()
            took_s, share = time.monotonic() - began, 1.0 if done.is_set() else part(watch)
        finally:
            watch.stop()
            thread.join()
    return took_s / max(share, 1e-3)
