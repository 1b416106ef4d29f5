"""Progress bars, which are shown on standard error if standard error is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from aqmlab import _core


class Bar:
    """A progress bar that appears only at its first update, so that no bar is shown for short tasks."""

    def __init__(self, label: str, total: int, done: int) -> None:
        self._label, self._total, self._done, self._failed = label, total, done, 0
        self._hidden = done >= total or not sys.stderr.isatty()
        self._drawn: tuple[Progress, TaskID] | None = None

    def advance(self, count: int, failed: int = 0) -> None:
        """Adds `count` finished runs, including `failed` failed runs."""
        self._done += count
        self._failed += failed

    def show_runs(self, active: Sequence[_core.Watch]) -> None:
        """Shows the number of finished runs and the progress of the active runs."""
        parts = sum(part(watch) for watch in active)
        failed = f", {self._failed} failed" if self._failed else ""
        self._show(self._done + parts, f"{self._done} of {self._total} runs{failed}")

    def advance_bytes(self, count: int) -> None:
        """Adds `count` bytes and shows the progress in megabytes."""
        self._done += count
        self._show(self._done, f"{self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")

    def show_watch(self, watch: _core.Watch) -> None:
        """Shows the progress of one run as the simulated time or the number of bytes read."""
        self._show(part(watch), progress_text(watch))

    def end(self) -> None:
        """Removes the bar."""
        if self._drawn:
            self._drawn[0].stop()

    def _show(self, completed: float, words: str) -> None:
        if self._hidden:
            return
        if not self._drawn:
            progress = _progress()
            task = progress.add_task(self._label, total=self._total, completed=self._done, words=words)
            progress.start()
            self._drawn = progress, task
        progress, task = self._drawn
        progress.update(task, completed=completed, words=words)


def part(watch: _core.Watch) -> float:
    """Returns the completed fraction of a run, or 0 if the total is unknown."""
    done, total = watch.progress()
    return min(done / total, 1.0) if total else 0.0


def progress_text(watch: _core.Watch) -> str:
    """Returns the progress of a run as text."""
    done, total = watch.progress()
    if watch.unit == "B":
        return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
    if watch.unit == "s":
        return f"live for {done / 1e9:.1f} s"
    whole = f"{total / 1e9:.3f}".rstrip("0").rstrip(".")
    return f"{done / 1e9:.1f} of {whole} s simulated"


@contextmanager
def bar(label: str, total: int = 1, done: int = 0) -> Iterator[Bar]:
    """Shows a progress bar for `total` runs with an estimate of the remaining time. Shows nothing if standard
    error is not a terminal."""
    shown = Bar(label, total, done)
    try:
        yield shown
    finally:
        shown.end()


def _progress() -> Progress:
    """Creates the progress bar. After the bar is removed, no line remains on the terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
