"""A progress bar for long work, on standard error if that is a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from aqmlab import _core


class Bar:
    """A bar that shows how far runs are."""

    def __init__(self, shown: Progress, task: TaskID, total: int, done: int) -> None:
        self._shown, self._task, self._total, self._done = shown, task, total, done

    def advance(self, count: int) -> None:
        """So many runs more are done."""
        self._done += count

    def show_runs(self, under_way: Sequence[_core.Watch]) -> None:
        """Shows what is done, and the parts of the runs under way."""
        parts = sum(part(watch) for watch in under_way)
        self._shown.update(self._task, completed=self._done + parts, said=self._runs())

    def _runs(self) -> str:
        return f"{self._done} of {self._total} runs"

    def show_watch(self, watch: _core.Watch) -> None:
        """Shows how far one run is: its simulated time, or what was read of a file."""
        self._shown.update(self._task, completed=part(watch), said=said(watch))


def part(watch: _core.Watch) -> float:
    """The part of a run that is done; none if it is not known how much there is."""
    done, total = watch.progress()
    return min(done / total, 1.0) if total else 0.0


def said(watch: _core.Watch) -> str:
    """How far a run is, in words."""
    done, total = watch.progress()
    if watch.unit == "B":
        return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
    if watch.unit == "s":
        return f"live for {done / 1e9:.1f} s"
    whole = f"{total / 1e9:.3f}".rstrip("0").rstrip(".")
    return f"{done / 1e9:.1f} of {whole} s simulated"


@contextmanager
def bar(label: str, what: str, total: int = 1, done: int = 0) -> Iterator[Bar]:
    """Shows a bar of so many runs, with an estimate of the time left; nothing if standard error is piped."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    hidden = not console.is_terminal or done >= total
    with Progress(*columns, console=console, disable=hidden, transient=True) as shown:
        task = shown.add_task(label, total=total, completed=done, said=what)
        yield Bar(shown, task, total, done)
