"""How much a sweep would take: its runs, those that exist, and the time, from a few probes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aqmlab import _core
from aqmlab._support.parallel import held_back
from aqmlab._support.progress import part
from aqmlab.store import Store

if TYPE_CHECKING:
    from aqmlab.sweep.run import Planned
    from aqmlab.sweep.sweep import Sweep
    from aqmlab.sweep.explain import Missing

PROBES = 4
"""So many of the missing runs are tried, evenly apart."""

PROBE_S = 1.5
"""A probe is stopped after so long, and the rest of it reckoned from how far it was."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What is to be done."""

    points: int
    runs: int
    """All runs of the sweep; where precision decides, the least that there can be."""
    existing: int
    most: int
    """As `runs`; where precision decides, the most."""
    run_s: Sequence[float]
    """What each probe would take."""
    jobs: int

    @property
    def missing(self) -> int:
        """Runs to be made."""
        return self.runs - self.existing

    def time_s(self, runs: int) -> float:
        """What so many runs take."""
        return runs * sum(self.run_s) / len(self.run_s) / self.jobs if self.run_s else 0.0


def of(sweep: Sweep, store: Store, *, jobs: int | None = None) -> Estimate:
    """The estimate of a sweep; nothing is written. Where the warm-up is not known yet, no run exists."""
    from aqmlab.sweep import run as sweep_run
    from aqmlab.sweep import explain as sweep_explain
    from aqmlab.sweep.warm_up import NoWarmUpError

    try:
        planned = sweep_run.plan(sweep, store, run_nothing=True)
    except NoWarmUpError:
        planned = sweep_run.plan(replace(sweep, warm_up=None), Store.in_memory())
        store = Store.in_memory()
    enough = planned.enough(store)
    missing = list(sweep_explain.missing(planned, store))
    runs = sum(one.wanted for one in enough)
    most = runs if sweep.precision is None else len(enough) * sweep.precision.rule.most
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
    return [missing[(2 * place + 1) * len(missing) // (2 * count)] for place in range(count)]


def _probe(planned: Planned, one: Missing) -> float:
    """How long a run takes (s), of which only the beginning is made."""
    scenario, watch = planned.scenarios.of(one.point), _core.Watch()
    done = threading.Event()

    def work() -> None:
        try:
            scenario.plan.run(watch, one.seed)
        except (KeyboardInterrupt, ValueError, RuntimeError):
            pass  # It was stopped; a run that fails says so when it is made.
        finally:
            done.set()

    began = time.monotonic()
    with held_back() as look:
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
