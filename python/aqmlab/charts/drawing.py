"""Draws many charts in several processes, because matplotlib draws in only one thread of a process at a
time."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from aqmlab.charts.chart import Chart, save
from aqmlab.charts.style import AS_ON_A_PAGE, Look

LEAST_CHARTS = 4
"""One additional process is started for each group of this number of charts. Starting a process takes as long
as drawing one or two charts."""

_BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from aqmlab.charts import drawing; drawing.serve()"
)

Saved: TypeAlias = dict[str, Path] | str
"""The files of a chart, or the reason why the chart could not be drawn."""


@dataclass(frozen=True)
class Order:
    """A chart, with the folder, the name and the formats of the files to save."""

    chart: Chart
    folder: Path
    name: str
    pictures: tuple[str, ...] = ("svg", "png")
    look: Look = AS_ON_A_PAGE

    def carry_out(self) -> Saved:
        """Draws and saves the chart."""
        try:
            return save(self.chart, self.folder, self.name, pictures=self.pictures, look=self.look)
        except Exception as problem:  # An error in one chart must not prevent the drawing of other charts.
            return f"{type(problem).__name__}: {problem}"


def save_each(orders: Sequence[Order], *, jobs: int | None = None) -> list[Saved]:
    """Saves each chart with `chart.save` in at most `jobs` processes (by default, one per core)."""
    cores = os.cpu_count() or 1
    processes = min(jobs or cores, cores, len(orders) // LEAST_CHARTS)
    waiting: SimpleQueue[tuple[int, Order]] = SimpleQueue()
    for index, order in enumerate(orders):
        waiting.put((index, order))
    found: dict[int, Saved] = {}

    def draw(other: _Worker | None) -> None:
        with suppress(Empty):
            while True:
                index, order = waiting.get_nowait()
                found[index] = other.carry_out(order) if other else order.carry_out()

    others = [_Worker() for _ in range(processes - 1)]
    with ThreadPoolExecutor(max_workers=max(1, len(others))) as pool:
        futures = [pool.submit(draw, other) for other in others]
        try:
            draw(None)
        except KeyboardInterrupt:
            with suppress(Empty):
                while True:
                    waiting.get_nowait()
            raise
        finally:
            wait(futures)
            for other in others:
                other.end()
        for future in futures:
            future.result()
    return [found[index] for index in range(len(orders))]


class _Worker:
    """An additional process that draws charts."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._send(sys.path)

    def carry_out(self, order: Order) -> Saved:
        assert self._process.stdout
        try:
            self._send(order)
            saved: Saved = pickle.load(self._process.stdout)
        except (OSError, EOFError):
            return "the drawing process has exited"
        return saved

    def end(self) -> None:
        """Waits for the current chart and ends the process."""
        with self._process as process, suppress(BrokenPipeError):
            process.communicate()

    def _send(self, message: Any) -> None:
        assert self._process.stdin
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()


def serve() -> None:
    """Draws the charts that arrive on standard input until the end of the input. Ctrl-C is ignored here,
    because the parent process handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Other output must not be mixed with the replies on standard output.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            order: Order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(order.carry_out(), answers)
        answers.flush()
