"""Runs on many machines, through Dask: the executor of a campaign whose workers are other processes.

What travels to a worker is a batch of runs, each scenario of it once; what comes back is records and tables,
and only this process writes to the store. A batch is meant to take `BATCH_S`: the first ones are single runs,
and later ones have as many as what was seen allows. A few batches for each thread of a worker are under way
at once, so that neither the scheduler nor this process holds more, however many runs there are.

A batch whose worker dies is tried again on another one. If it dies again, its runs are tried one by one, each
alone on its worker and after all others: who kills a worker then is to blame, and whoever kills `DEATHS` has
crashed.
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

from aqmlab._support.parallel import LOOK_S, held_back
from aqmlab._support.progress import Bar, bar
from aqmlab.campaign.campaign import Made, Task, crashed
from aqmlab.campaign.dask_batch import BATCH_S, Batch, Refusal, make_batch, stop_runs
from aqmlab.campaign.dask_workers import ClusterError, identity, unlike
from aqmlab.measures import Measure

if TYPE_CHECKING:
    from distributed import Client, Future

MOST_RUNS = 2000
"""No batch has more."""

AHEAD = 2
"""So many batches wait for each thread or are made by it."""

DEATHS = 3
"""A run that killed so many workers has crashed."""

WORKERS_EVERY_S = 0.5
"""How often is looked which workers there are."""

ALONE_S = 5.0
"""After so long without any worker that is told."""

FAREWELL_S = 1.0
"""So long Ctrl-C waits for what was finished when it came."""


@dataclass(frozen=True, kw_only=True)
class Dask:
    """Makes runs on the workers of a Dask cluster; `dask_cluster.connect` gives one."""

    client: Client

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Made], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """See `campaign.Executor.each`. Raises `ClusterError` if the scheduler is lost, or if no worker is
        left that may make runs."""
        work = _Work(client=self.client, waiting=iter(tasks), done=done)
        with held_back() as look, bar(label, total, already) if label else nullcontext() as shown:
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
    """A batch under way."""

    tasks: Sequence[Task]
    future: Future
    alone_on: str | None = None
    """The worker that makes a run of which nobody knows whether it kills."""
    deaths: int = 0
    """How many such workers it has killed."""


@dataclass(frozen=True, kw_only=True)
class _Suspect:
    """A run whose worker died, perhaps of it."""

    task: Task
    deaths: int = 0


@dataclass(kw_only=True)
class _Work:
    """The runs of one call, on their way."""

    client: Client
    waiting: Iterator[Task]
    done: Callable[[Task, Made], bool]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    sent: dict[int, _Sent] = field(default_factory=dict)
    again: deque[Task] = field(default_factory=deque)
    """Runs that came back unmade."""
    suspects: deque[_Suspect] = field(default_factory=deque)
    arrived: SimpleQueue[tuple[int, Any]] = field(default_factory=SimpleQueue)
    workers: dict[str, int] = field(default_factory=dict)
    """Threads by address."""
    looked: threading.Event = field(default_factory=threading.Event)
    """Whether the workers are known."""
    ended: threading.Event = field(default_factory=threading.Event)
    run_s: float | None = None
    """What a run takes, by what was seen last."""
    size: int = 1
    """Of the next batch."""
    number: int = 0
    measures: dict[int, tuple[Sequence[Measure], bytes]] = field(default_factory=dict)

    def make_all(self, look: Callable[[], None], shown: Bar | None) -> None:
        """Makes all runs."""
        self._in_loop(self._watch_workers())
        more, alone_since, told = True, time.monotonic(), False
        while more or self.sent or self.again or self.suspects:
            look()
            more = self._send(more, look)
            self._take(LOOK_S, shown)
            self._notice_deaths()
            if self.client.status != "running":
                raise self._lost()
            if self.workers or not self.looked.is_set():
                alone_since = time.monotonic()
            elif not told and time.monotonic() - alone_since > ALONE_S:
                told = True
                print("aqmlab: there is no worker; runs wait for one", file=sys.stderr)

    def _send(self, more: bool, look: Callable[[], None]) -> bool:
        """Sends what there is room for; says whether more runs may follow."""
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
        """One to each worker, all of whose others wait."""
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
        """The runs of a batch, its scenarios and lists of measures once each."""
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
                    # With the list itself, so that no other gets its number.
                    self.measures[of] = task.measures, cloudpickle.dumps(task.measures)
                lists[of] = self.measures[of][1]
            runs.append((digest, task.seed, of))
        while len(self.measures) > MOST_LISTS:
            del self.measures[next(iter(self.measures))]
        return pickle.dumps((scenarios, lists, runs))

    # What comes back

    def _take(self, seconds: float, shown: Bar | None = None) -> None:
        """Takes in all that has come, after waiting for it so long at most."""
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
            self._tell(sent, outcome, shown)
        elif isinstance(outcome, Refusal):
            self.again.extend(sent.tasks)
            self._send_away({outcome.worker: outcome.why})
        elif isinstance(outcome, KilledWorker):
            self._suspect(sent, shown, deaths=outcome.allowed_failures + 1)
        elif isinstance(outcome, asyncio.CancelledError) or self.client.status != "running":
            raise self._lost()
        else:
            others = unlike(self.client)
            if not others:
                raise ClusterError(
                    f"a worker could not make a batch of runs: {_said(outcome)}; what measures import must "
                    "be installed there, too"
                )
            self.again.extend(sent.tasks)
            self._send_away(others)

    def _tell(self, sent: _Sent, batch: Batch, shown: Bar | None) -> None:
        for task, made in zip(sent.tasks, batch.made, strict=False):
            found = made.record["scenario"], made.record["seed"]
            if found != task.run:
                raise ClusterError(f"{batch.worker}: made the run {found} where {task.run} was asked for")
            self._tell_one(task, made, shown)
        self.again.extend(sent.tasks[len(batch.made) :])
        if batch.made and not sent.alone_on:
            latest = batch.seconds / len(batch.made)
            self.run_s = latest if self.run_s is None else (self.run_s + latest) / 2
            wanted = math.ceil(BATCH_S / max(self.run_s, BATCH_S / MOST_RUNS))
            self.size = min(wanted, 2 * self.size)

    def _tell_one(self, task: Task, made: Made, shown: Bar | None) -> None:
        failed = self.done(task, made)
        if shown:
            shown.advance(1, int(failed))

    def _suspect(self, sent: _Sent, shown: Bar | None, *, deaths: int) -> None:
        """Its worker died: alone on it a run is to blame, and else all are suspects."""
        for task in sent.tasks:
            before = sent.deaths + deaths if sent.alone_on else 0
            if before < DEATHS:
                self.suspects.append(_Suspect(task=task, deaths=before))
                continue
            problem = f"killed its worker {DEATHS} times: it crashes, or needs more memory than there is"
            self._tell_one(task, crashed(task, problem), shown)

    def _notice_deaths(self) -> None:
        """A run that waits for a worker of its own would wait for ever if that is gone."""
        for number, sent in list(self.sent.items()):
            if sent.alone_on and sent.alone_on not in self.workers:
                del self.sent[number]
                self._in_loop(self.client.cancel([sent.future], asynchronous=True, force=True))
                self._suspect(sent, None, deaths=1)

    def _send_away(self, others: dict[str, str]) -> None:
        """Workers that came late and must not make runs leave; the others go on."""
        for worker, why in others.items():
            print(f"aqmlab: {worker}: {why}; it was sent away", file=sys.stderr)
            self.workers.pop(worker, None)
        self.client.retire_workers(list(others))

    def _lost(self) -> ClusterError:
        address = self.client.scheduler.address if self.client.scheduler else "its address"
        return ClusterError(
            f"the scheduler at {address} is gone; what was finished is kept: start it again, and repeat the "
            "command"
        )

    # The end

    def stop(self) -> None:
        """Stops the runs under way, wherever they are."""
        with suppress(Exception):
            self._in_loop(self._tell_to_stop()).result(timeout=FAREWELL_S)

    def take_finished(self, seconds: float) -> None:
        """Tells of what was finished, and of what comes back within so long."""
        until = time.monotonic() + seconds
        while self.sent and (left := until - time.monotonic()) > 0 and self.client.status == "running":
            self._take(min(left, LOOK_S))

    def end(self) -> None:
        """Nothing of this call is left with the scheduler."""
        self.ended.set()
        if self.sent and self.client.status == "running":
            self.stop()
            with suppress(Exception):
                self.client.cancel([one.future for one in self.sent.values()], force=True)
        self.sent.clear()

    # In the thread of the client

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

    async def _tell_to_stop(self) -> None:
        await self.client.run(stop_runs, self.token, on_error="ignore", asynchronous=True)


MOST_LISTS = 64
"""Of so many lists of measures the form in which they travel is at hand."""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
