"""A progress bar for long work, on standard error if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from aqmlab import _core

T = TypeVar("T")


@contextmanager
def progress(label: str, total: int, done: int = 0) -> Iterator[Callable[[], None]]:
    """Shows a bar that each call of what it yields moves one step; nothing where output is piped."""
    from rich.progress import MofNCompleteColumn

    with _bar(MofNCompleteColumn(), needed=total > done) as bar:
        task = bar.add_task(label, total=total, completed=done)
        yield lambda: bar.advance(task)


def watched(label: str, watch: _core.Watch, work: Callable[[], T]) -> T:
    """Does `work` with a bar that shows how far `watch` says it is; an interrupt stops it by `watch`."""
    from rich.progress import TaskProgressColumn

    with _bar(TaskProgressColumn()) as bar, ThreadPoolExecutor(max_workers=1) as pool:
        task, future = bar.add_task(label, total=None), pool.submit(work)
        try:
            while not wait([future], timeout=0.1).done:
                done, total = watch.progress()
                bar.update(task, completed=done, total=total or None)
        except KeyboardInterrupt:
            watch.stop()
            raise
        return future.result()


def _bar(how_far: ProgressColumn, *, needed: bool = True) -> Progress:
    """A bar on standard error, hidden if that is no terminal or nothing is left to do."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), how_far, TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not (console.is_terminal and needed), transient=True)
