"""Runs on several cores: watched together, stopped together, and what is done is kept."""

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
"""Makes a run, which its watch can stop."""

LOOK_S = 0.05
"""How often is looked how far the runs are, and whether they are to stop."""


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Keeps Ctrl-C from coming anywhere but where what is given is called, which raises it then.

    Python raises `KeyboardInterrupt` between any two instructions, also where a future's lock was taken
    and no one yet is to give it back: whoever waits for that future next waits for ever. In threads other
    than the main one, and where Ctrl-C does something else already, nothing is changed.
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
    """What `work` gives. In the main thread Ctrl-C stops it within a fifth of a second."""
    watch = watch or _core.Watch()
    if threading.current_thread() is not threading.main_thread():
        return work(watch)
    return watched(work, watch, None)


def attempted(work: Callable[[_core.Watch], object]) -> None:
    """Raises what `work` refuses, and makes no run: `work` gets a watch that is stopped already."""
    watch = _core.Watch()
    watch.stop()
    with held_back(), suppress(KeyboardInterrupt):
        work(watch)


def watched(
    work: Callable[[_core.Watch], R],
    watch: _core.Watch,
    label: str | None,
    show: Callable[[], None] | None = None,
) -> R:
    """What `work` gives; a bar with this label shows how far it is, or else `show`, and Ctrl-C stops it."""
    with (
        held_back() as look,
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
    """Does `work` for each task, some at once, all cores by default, and tells `done` in the calling thread,
    which answers with something true if the task failed.

    Tasks are taken as there is room for them. They begin at least `apart_s` after one another. With a `label`
    a bar shows how far all `total` are, `already` of them done before. Ctrl-C stops those under way within a
    fifth of a second and is raised when `done` knows of all that were finished.
    """
    threads = max(1, jobs or os.cpu_count() or 1)
    waiting = iter(tasks)
    # One more than there are threads, so that none waits for this loop; but it would begin with no distance.
    most = threads if apart_s else threads + 1
    open_: dict[Future[R], tuple[T, _core.Watch]] = {}
    pool = ThreadPoolExecutor(max_workers=threads)

    def submit(most: int) -> int:
        """Begins at most so many, and says how many there were."""
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
    with held_back() as look:
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
