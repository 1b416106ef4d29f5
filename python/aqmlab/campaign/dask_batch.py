"""Batches of runs on a worker: what travels there, is made one after the other, and comes back."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aqmlab import _core
from aqmlab.campaign.campaign import Made, Refused, Task, make
from aqmlab.campaign.dask_workers import Identity, identity, refuse_others
from aqmlab.measures import Measure

BATCH_S = 1.0
"""What a batch is meant to take; one that takes twice as long comes back with what it has."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The first runs of a batch, or all, and how long they took."""

    made: Sequence[Made]
    seconds: float
    worker: str


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A worker that must not make runs, and why."""

    worker: str
    why: str


_under_way: dict[_core.Watch, str] = {}
"""What runs in this process, and the call that it belongs to: only so it can be stopped from elsewhere."""

_stopped: deque[str] = deque(maxlen=100)
"""Calls whose runs are not to be made any more."""


def make_batch(expected: tuple[Any, ...], packed: bytes, token: str) -> Batch | Refusal:
    """Makes runs on a worker, one after the other, until all are made or it took long."""
    from distributed import get_worker

    worker = get_worker().address
    why = refuse_others(Identity(*expected), identity())
    if why:
        return Refusal(worker=worker, why=why)
    began = time.monotonic()
    scenarios, lists, runs = pickle.loads(packed)
    made: list[Made] = []
    for digest, seed, of in runs:
        if token in _stopped or (made and time.monotonic() - began > 2 * BATCH_S):
            break
        task = Task(scenario=_scenario(digest, scenarios[digest]), seed=seed, measures=_measures(lists[of]))
        watch = _core.Watch()
        _under_way[watch] = token
        try:
            made.append(make(task, watch))
        except KeyboardInterrupt:
            break  # Whoever stopped it asks for the runs that are made.
        finally:
            del _under_way[watch]
    return Batch(made=made, seconds=time.monotonic() - began, worker=worker)


def stop_runs(token: str) -> None:
    """Stops the runs of a call in this process."""
    _stopped.append(token)
    for watch, of in list(_under_way.items()):
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
        return Refused(problem=problem, digest=digest)
