"""The executor that runs a campaign on a Dask cluster, which can consist of many machines.

Runs are sent to a worker in batches. A batch contains each of its scenarios only once. The worker returns
records and tables, and only this process writes to the store. The target duration of a batch is `BATCH_S`:
each of the first batches contains one run, and the measured durations of runs determine the size of later
batches. Only a few batches per worker thread are active at a time, which limits the memory use of the
scheduler and of this process, regardless of the number of runs.

If a worker dies, its batch is retried on another worker. If the second worker also dies, the batch's runs are
executed individually after all other runs have finished, and no worker executes more than one of them at a
time. This procedure identifies the run that kills workers. A run that has killed `DEATHS` workers is
considered to have crashed.
"""

from __future__ import annotations

import asyncio
import math
import pickle
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from aqmlab._support.parallel import LOOK_S, deferred_interrupt
from aqmlab._support.progress import Bar, bar
from aqmlab.campaign.campaign import Outcome, Task, crashed
from aqmlab.campaign.dask_batch import BATCH_S, Batch, Refusal, make_batch, stop_runs
from aqmlab.campaign.dask_workers import ClusterError, identity, unlike
from aqmlab.measures import Measure

if TYPE_CHECKING:
    from distributed import Client, Future

MOST_RUNS = 2000
"""Maximum number of runs in a batch."""

AHEAD = 2
"""Maximum number of active batches per worker thread."""

DEATHS = 3
"""A run that has killed this number of workers is considered to have crashed."""

WORKERS_EVERY_S = 0.5
"""Interval between queries of the list of workers."""

ALONE_S = 5.0
"""If the cluster has no workers for this length of time, a message is printed."""

FAREWELL_S = 1.0
"""Maximum time after Ctrl-C to wait for the results of finished runs."""


@dataclass(frozen=True, kw_only=True)
class Dask:
    """An executor that runs tasks on the workers of a Dask cluster. `dask_cluster.connect` creates this
    executor."""

    client: Client

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """See `campaign.Executor.each`. Raises `ClusterError` if the connection to the scheduler is lost, or
        if a worker cannot execute a batch."""
        work = _Work(client=self.client, waiting=iter(tasks), done=done)
        with deferred_interrupt() as look, bar(label, total, already) if label else nullcontext() as shown:
            try:
                work.make_all(look, shown)
            except KeyboardInterrupt:
                work.stop()
                work.take_finished(FAREWELL_S)
                raise
            finally:
                work.end()


@dataclass(kw_only=True)
class _Sent:
    """A batch that was sent to the scheduler."""

    tasks: Sequence[Task]
    future: Future
    alone_on: str | None = None
    """The worker that executes a single suspected run, or `None` for ordinary batches."""
    deaths: int = 0
    """Number of workers that the suspected run has killed."""


@dataclass(frozen=True, kw_only=True)
class _Suspect:
    """A run that may have killed its worker."""

    task: Task
    deaths: int = 0


@dataclass(kw_only=True)
class _Work:
    """The state of one call of `Dask.each`."""

    client: Client
    waiting: Iterator[Task]
    done: Callable[[Task, Outcome], bool]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    sent: dict[int, _Sent] = field(default_factory=dict)
    again: deque[Task] = field(default_factory=deque)
    """Runs that a worker returned without executing them."""
    suspects: deque[_Suspect] = field(default_factory=deque)
    arrived: SimpleQueue[tuple[int, Any]] = field(default_factory=SimpleQueue)
    workers: dict[str, int] = field(default_factory=dict)
    """Number of threads of each worker, by the worker's address."""
    looked: threading.Event = field(default_factory=threading.Event)
    """Whether the list of workers is known."""
    ended: threading.Event = field(default_factory=threading.Event)
    run_s: float | None = None
    """Estimated duration of a run, from recent batches."""
    size: int = 1
    """Number of runs in the next batch."""
    number: int = 0
    measures: dict[int, tuple[Sequence[Measure], bytes]] = field(default_factory=dict)

    def make_all(self, look: Callable[[], None], shown: Bar | None) -> None:
        """Executes all runs."""
        self._in_loop(self._watch_workers())
        more, alone_since, warned = True, time.monotonic(), False
        while more or self.sent or self.again or self.suspects:
            look()
            more = self._send(more, look)
            self._take(LOOK_S, shown)
            self._notice_deaths()
            if self.client.status != "running":
                raise self._lost()
            if self.workers or not self.looked.is_set():
                alone_since = time.monotonic()
            elif not warned and time.monotonic() - alone_since > ALONE_S:
                warned = True
                print("aqmlab: the cluster has no workers; waiting", file=sys.stderr)

    def _send(self, more: bool, look: Callable[[], None]) -> bool:
        """Sends batches up to the limit of active batches. Returns whether there may be more runs to send."""
        room = AHEAD * sum(self.workers.values())
        while len(self.sent) < room:
            look()
            batch = [self.again.popleft() for _ in range(min(self.size, len(self.again)))]
            lacking = self.size - len(batch)
            if more and lacking:
                following = list(islice(self.waiting, lacking))
                more = len(following) == lacking
                batch += following
            if not batch:
                break
            self._submit(batch)
        if not more and not self.again and all(one.alone_on for one in self.sent.values()):
            self._send_suspects()
        return more

    def _send_suspects(self) -> None:
        """Sends one suspected run to each worker that is not executing a suspected run. All other runs are
        already finished."""
        busy = {one.alone_on for one in self.sent.values()}
        for worker in self.workers:
            if worker not in busy and self.suspects:
                suspect = self.suspects.popleft()
                self._submit([suspect.task], alone_on=worker, deaths=suspect.deaths)

    def _submit(self, batch: Sequence[Task], *, alone_on: str | None = None, deaths: int = 0) -> None:
        self.number += 1
        future = self.client.submit(
            make_batch,
            tuple(identity()),
            self._packed(batch),
            self.token,
            key=f"aqmlab-{self.token}-{self.number}",
            pure=False,
            workers=[alone_on] if alone_on else None,
        )
        self.sent[self.number] = _Sent(tasks=batch, future=future, alone_on=alone_on, deaths=deaths)
        self._in_loop(self._fetch(self.number, future))

    def _packed(self, batch: Sequence[Task]) -> bytes:
        """Serialises the runs of a batch. Each scenario and each list of measures is contained only once."""
        import cloudpickle

        scenarios: dict[str, bytes] = {}
        lists: dict[int, bytes] = {}
        runs = []
        for task in batch:
            digest, of = task.scenario.digest, id(task.measures)
            if digest not in scenarios:
                scenarios[digest] = cloudpickle.dumps(task.scenario)
            if of not in lists:
                if of not in self.measures:
                    # A reference to the list is kept, so that the list's id is not reused.
                    self.measures[of] = task.measures, cloudpickle.dumps(task.measures)
                lists[of] = self.measures[of][1]
            runs.append((digest, task.seed, of))
        while len(self.measures) > MOST_LISTS:
            del self.measures[next(iter(self.measures))]
        return pickle.dumps((scenarios, lists, runs))

    # Results

    def _take(self, seconds: float, shown: Bar | None = None) -> None:
        """Processes all results that have arrived, after waiting at most `seconds` for the first result."""
        try:
            number, outcome = self.arrived.get(timeout=seconds)
            while True:
                self._settle(number, outcome, shown)
                number, outcome = self.arrived.get_nowait()
        except Empty:
            pass
        if shown:
            shown.show_runs([])

    def _settle(self, number: int, outcome: Any, shown: Bar | None) -> None:
        from distributed import KilledWorker

        sent = self.sent.pop(number, None)
        if sent is None:
            return
        if isinstance(outcome, Batch):
            self._process(sent, outcome, shown)
        elif isinstance(outcome, Refusal):
            self.again.extend(sent.tasks)
            self._retire({outcome.worker: outcome.reason})
        elif isinstance(outcome, KilledWorker):
            self._suspect(sent, shown, deaths=outcome.allowed_failures + 1)
        elif isinstance(outcome, asyncio.CancelledError) or self.client.status != "running":
            raise self._lost()
        else:
            others = unlike(self.client)
            if not others:
                raise ClusterError(
                    f"a worker could not execute a batch of runs: {_error_text(outcome)}; the modules that "
                    "measures import must also be installed on the workers"
                )
            self.again.extend(sent.tasks)
            self._retire(others)

    def _process(self, sent: _Sent, batch: Batch, shown: Bar | None) -> None:
        for task, outcome in zip(sent.tasks, batch.outcomes, strict=False):
            run = outcome.record["scenario"], outcome.record["seed"]
            if run != task.run:
                raise ClusterError(f"{batch.worker}: returned the run {run} instead of {task.run}")
            self._report(task, outcome, shown)
        self.again.extend(sent.tasks[len(batch.outcomes) :])
        if batch.outcomes and not sent.alone_on:
            latest = batch.seconds / len(batch.outcomes)
            self.run_s = latest if self.run_s is None else (self.run_s + latest) / 2
            target = math.ceil(BATCH_S / max(self.run_s, BATCH_S / MOST_RUNS))
            self.size = min(target, 2 * self.size)

    def _report(self, task: Task, outcome: Outcome, shown: Bar | None) -> None:
        failed = self.done(task, outcome)
        if shown:
            shown.advance(1, int(failed))

    def _suspect(self, sent: _Sent, shown: Bar | None, *, deaths: int) -> None:
        """Handles the death of the worker that was executing the batch. If the batch is a single suspected
        run, this run is the cause. Otherwise, all runs of the batch become suspected runs."""
        for task in sent.tasks:
            before = sent.deaths + deaths if sent.alone_on else 0
            if before < DEATHS:
                self.suspects.append(_Suspect(task=task, deaths=before))
                continue
            problem = f"killed its worker {DEATHS} times: the run crashes, or needs more memory than is "
            "available"
            self._report(task, crashed(task, problem), shown)

    def _notice_deaths(self) -> None:
        """Detects that the worker of a suspected run has died; without this check, the campaign would wait
        for this run forever."""
        for number, sent in list(self.sent.items()):
            if sent.alone_on and sent.alone_on not in self.workers:
                del self.sent[number]
                self._in_loop(self.client.cancel([sent.future], asynchronous=True, force=True))
                self._suspect(sent, None, deaths=1)

    def _retire(self, others: dict[str, str]) -> None:
        """Removes workers that must not execute runs, and prints a message for each of them. The other
        workers continue."""
        for worker, reason in others.items():
            print(f"aqmlab: {worker}: {reason}; the worker was removed", file=sys.stderr)
            self.workers.pop(worker, None)
        self.client.retire_workers(list(others))

    def _lost(self) -> ClusterError:
        address = self.client.scheduler.address if self.client.scheduler else "its address"
        return ClusterError(
            f"the connection to the scheduler at {address} was lost; finished runs are stored: start the "
            "scheduler again, and repeat the command"
        )

    # Termination

    def stop(self) -> None:
        """Stops the active runs on all workers."""
        with suppress(Exception):
            self._in_loop(self._stop_workers()).result(timeout=FAREWELL_S)

    def take_finished(self, seconds: float) -> None:
        """Processes finished runs, and runs whose results arrive within `seconds`."""
        until = time.monotonic() + seconds
        while self.sent and (left := until - time.monotonic()) > 0 and self.client.status == "running":
            self._take(min(left, LOOK_S))

    def end(self) -> None:
        """Removes all batches of this call of `Dask.each` from the scheduler."""
        self.ended.set()
        if self.sent and self.client.status == "running":
            self.stop()
            with suppress(Exception):
                self.client.cancel([one.future for one in self.sent.values()], force=True)
        self.sent.clear()

    # In the client's thread

    def _in_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.client.loop.asyncio_loop)

    async def _fetch(self, number: int, future: Future) -> None:
        try:
            outcome = await self.client.gather(future, asynchronous=True)
        except BaseException as error:
            outcome = error
        self.arrived.put((number, outcome))

    async def _watch_workers(self) -> None:
        while not self.ended.is_set() and self.client.status == "running":
            with suppress(OSError):
                self.workers = dict(await self.client.nthreads(asynchronous=True))
                self.looked.set()
            await asyncio.sleep(WORKERS_EVERY_S)

    async def _stop_workers(self) -> None:
        await self.client.run(stop_runs, self.token, on_error="ignore", asynchronous=True)


MOST_LISTS = 64
"""Maximum number of lists of measures whose serialised forms are cached."""


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
