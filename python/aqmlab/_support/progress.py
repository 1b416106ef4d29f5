"""A progress bar for long work, on standard error if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from aqmlab import _core


class Bar:
    """A bar that shows how far runs are, from when that is first told: what is over at once needs none."""

    def __init__(self, label: str, total: int, done: int) -> None:
        self._label, self._total, self._done, self._failed = label, total, done, 0
        self._hidden = done >= total or not sys.stderr.isatty()
        self._drawn: tuple[Progress, TaskID] | None = None

    def advance(self, count: int, failed: int = 0) -> None:
        """So many runs more are done, of which so many failed."""
        self._done += count
        self._failed += failed

    def show_runs(self, under_way: Sequence[_core.Watch]) -> None:
        """Shows what is done, and the parts of the runs under way."""
        parts = sum(part(watch) for watch in under_way)
        failed = f", {self._failed} failed" if self._failed else ""
        self._show(self._done + parts, f"{self._done} of {self._total} runs{failed}")

    def advance_bytes(self, count: int) -> None:
        """So many bytes more are read, of a total in bytes."""
        self._done += count
        self._show(self._done, f"{self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")

    def show_watch(self, watch: _core.Watch) -> None:
        """Shows how far one run is: its simulated time, or what was read of a file."""
        self._show(part(watch), said(watch))

    def end(self) -> None:
        """Takes it away."""
        if self._drawn:
            self._drawn[0].stop()

    def _show(self, completed: float, words: str) -> None:
        if self._hidden:
            return
        if not self._drawn:
            progress = _progress()
            task = progress.add_task(self._label, total=self._total, completed=self._done, said=words)
            progress.start()
            self._drawn = progress, task
        progress, task = self._drawn
        progress.update(task, completed=completed, said=words)


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
def bar(label: str, total: int = 1, done: int = 0) -> Iterator[Bar]:
    """Shows a bar of so many runs, with an estimate of the time left; nothing if standard error is piped."""
    shown = Bar(label, total, done)
    try:
        yield shown
    finally:
        shown.end()


def _progress() -> Progress:
    """The bar as it is drawn, without a line of its own when it is gone."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
