"""Batches of runs: the messages between a campaign and its workers, and the sequential execution on a
worker."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aqmlab import _core
from aqmlab.campaign.campaign import InvalidScenario, Outcome, Task, make
from aqmlab.campaign.dask_workers import Identity, identity, incompatibility
from aqmlab.measures import Measure

BATCH_S = 1.0
"""Target duration of a batch. A worker that has executed a batch for twice this duration returns the finished
runs of the batch."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The outcomes of the finished runs of a batch, and their duration. The finished runs are either all runs
    of the batch or only the first runs of the batch."""

    outcomes: Sequence[Outcome]
    seconds: float
    worker: str


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The reason why a worker must not execute runs."""

    worker: str
    reason: str


_active: dict[_core.Watch, str] = {}
"""The active runs of this process, with the tokens of their calls, so that another process can stop the runs
of a call."""

_stopped: deque[str] = deque(maxlen=100)
"""Tokens of calls whose remaining runs are cancelled."""


def make_batch(expected: tuple[Any, ...], packed: bytes, token: str) -> Batch | Refusal:
    """Executes runs on a worker one by one, until all runs are finished or the maximum duration of a batch
    has elapsed."""
    from distributed import get_worker

    worker = get_worker().address
    reason = incompatibility(Identity(*expected), identity())
    if reason:
        return Refusal(worker=worker, reason=reason)
    began = time.monotonic()
    scenarios, lists, runs = pickle.loads(packed)
    outcomes: list[Outcome] = []
    for digest, seed, of in runs:
        if token in _stopped or (outcomes and time.monotonic() - began > 2 * BATCH_S):
            break
        task = Task(scenario=_scenario(digest, scenarios[digest]), seed=seed, measures=_measures(lists[of]))
        watch = _core.Watch()
        _active[watch] = token
        try:
            outcomes.append(make(task, watch))
        except KeyboardInterrupt:
            break  # The process that stops the runs still needs the finished runs.
        finally:
            del _active[watch]
    return Batch(outcomes=outcomes, seconds=time.monotonic() - began, worker=worker)


def stop_runs(token: str) -> None:
    """Stops those runs in this process that belong to one call of `Dask.each`."""
    _stopped.append(token)
    for watch, of in list(_active.items()):
        if of == token:
            watch.stop()


@lru_cache(maxsize=16)
def _measures(packed: bytes) -> tuple[Measure, ...]:
    measures: tuple[Measure, ...] = pickle.loads(packed)
    return measures


@lru_cache(maxsize=64)
def _scenario(digest: str, packed: bytes) -> Any:
    try:
        return pickle.loads(packed)
    except Exception as problem:
        return InvalidScenario(problem=problem, digest=digest)
