"""Executes runs in parallel threads, shows a progress bar and handles Ctrl-C."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from typing import TypeVar

from aqmlab import _core
from aqmlab._support.progress import Bar, bar

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[T, _core.Watch], R]
"""A function that executes a task. Its watch can stop the execution."""

LOOK_S = 0.05
"""Interval between checks for progress and for Ctrl-C."""


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Defers Ctrl-C: after Ctrl-C, the next call of the function that the context yields raises
    `KeyboardInterrupt`.

    By default, Python can raise `KeyboardInterrupt` between any two instructions. If Python raised the
    exception while a future's lock was held, the lock might never be released, and later waits for the future
    would block forever. The context has no effect outside the main thread, or if another handler for Ctrl-C
    is installed.
    """
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True

    def look() -> None:
        nonlocal pressed
        if pressed:
            pressed = False
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield look
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield look
    finally:
        signal.signal(signal.SIGINT, before)
    look()


def interruptible(work: Callable[[_core.Watch], R], watch: _core.Watch | None = None) -> R:
    """Calls `work` and returns its result. In the main thread, Ctrl-C stops the work within 0.2 s."""
    watch = watch or _core.Watch()
    if threading.current_thread() is not threading.main_thread():
        return work(watch)
    return watched(work, watch, None)


def attempted(work: Callable[[_core.Watch], object]) -> None:
    """Calls `work` and raises the errors that occur before the run starts. The watch passed to `work` is
    already stopped, so that nothing is simulated."""
    watch = _core.Watch()
    watch.stop()
    with deferred_interrupt(), suppress(KeyboardInterrupt):
        work(watch)


def watched(
    work: Callable[[_core.Watch], R],
    watch: _core.Watch,
    label: str | None,
    show: Callable[[], None] | None = None,
) -> R:
    """Calls `work` and returns its result. While `work` runs, `show` is called regularly; without `show`, a
    progress bar with this label is displayed. Ctrl-C stops the work."""
    with (
        deferred_interrupt() as look,
        bar(label) if label and show is None else nullcontext() as shown,
        ThreadPoolExecutor(max_workers=1) as pool,
    ):
        future = pool.submit(work, watch)
        try:
            while not wait([future], timeout=LOOK_S).done:
                look()
                if shown:
                    shown.show_watch(watch)
                elif show:
                    show()
        except KeyboardInterrupt:
            watch.stop()
            raise
        return future.result()


def each(
    tasks: Iterable[T],
    work: Work[T, R],
    done: Callable[[T, Future[R]], object],
    *,
    total: int = 0,
    jobs: int | None = None,
    label: str | None = None,
    already: int = 0,
    apart_s: float = 0.0,
) -> None:
    """Executes `work` for each task in `jobs` threads (by default, one per core), and calls `done` for each
    result in the calling thread. `done` returns a true value if the task failed.

    Tasks are read on demand, and consecutive tasks start at least `apart_s` seconds apart. If `label` is
    given, a progress bar shows the progress of all `total` tasks, including the `already` tasks that had
    finished before the call. Ctrl-C stops active tasks within 0.2 s. `KeyboardInterrupt` is then raised after
    `done` has been called for all finished tasks.
    """
    threads = max(1, jobs or os.cpu_count() or 1)
    waiting = iter(tasks)
    # Submitting one task more than there are threads keeps each thread busy while this loop waits. With
    # `apart_s`, there is no additional task, because such a task would start as soon as a thread becomes
    # free.
    most = threads if apart_s else threads + 1
    open_: dict[Future[R], tuple[T, _core.Watch]] = {}
    pool = ThreadPoolExecutor(max_workers=threads)

    def submit(most: int) -> int:
        """Starts at most `most` tasks and returns the number of tasks that it started."""
        count = 0
        for task in itertools.islice(waiting, most):
            watch = _core.Watch()
            open_[pool.submit(work, task, watch)] = (task, watch)
            count += 1
        return count

    def show(shown: Bar | None) -> None:
        if shown:
            shown.show_runs([watch for _, watch in open_.values()])

    def settle(futures: Iterable[Future[R]]) -> tuple[int, int]:
        count = failed = 0
        for future in futures:
            task, _ = open_.pop(future)
            failed += bool(done(task, future))
            count += 1
        return count, failed

    more, next_s = True, 0.0
    with deferred_interrupt() as look:
        try:
            with bar(label, total, already) if label else nullcontext() as shown:
                while more or open_:
                    look()
                    room = most - len(open_) if more else 0
                    if apart_s and room:
                        room = int(time.monotonic() >= next_s)
                    begun = submit(room)
                    more = more and begun == room
                    next_s = time.monotonic() + apart_s if begun else next_s
                    if not open_:
                        if more:
                            time.sleep(LOOK_S)
                        continue
                    finished, _ = wait(open_, LOOK_S, FIRST_COMPLETED)
                    counts = settle(finished)
                    if shown:
                        shown.advance(*counts)
                    show(shown)
        except KeyboardInterrupt:
            for _, watch in open_.values():
                watch.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            settle([one for one in open_ if not one.cancelled() and not _was_stopped(one)])
            raise
        finally:
            for _, watch in open_.values():
                watch.stop()
            pool.shutdown(wait=True, cancel_futures=True)


def _was_stopped(future: Future[R]) -> bool:
    return isinstance(future.exception(), KeyboardInterrupt)
