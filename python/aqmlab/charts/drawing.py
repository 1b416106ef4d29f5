"""Many charts, drawn on several cores: matplotlib lets only one thread of a process draw at a time."""

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
"""How many charts are worth a process: it takes as long to begin as one or two to draw."""

_BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from aqmlab.charts import drawing; drawing.serve()"
)

Saved: TypeAlias = dict[str, Path] | str
"""The files of a chart, or why it could not be drawn."""


@dataclass(frozen=True)
class Order:
    """A chart, and where it is saved."""

    chart: Chart
    folder: Path
    name: str
    pictures: tuple[str, ...] = ("svg", "png")
    look: Look = AS_ON_A_PAGE

    def carry_out(self) -> Saved:
        """Draws it."""
        try:
            return save(self.chart, self.folder, self.name, pictures=self.pictures, look=self.look)
        except Exception as problem:  # One chart must not hide the others.
            return f"{type(problem).__name__}: {problem}"


def save_each(orders: Sequence[Order], *, jobs: int | None = None) -> list[Saved]:
    """Saves each chart as `chart.save` does, in up to `jobs` processes, by default one for each core."""
    cores = os.cpu_count() or 1
    wanted = min(jobs or cores, cores, len(orders) // LEAST_CHARTS)
    waiting: SimpleQueue[tuple[int, Order]] = SimpleQueue()
    for place, order in enumerate(orders):
        waiting.put((place, order))
    found: dict[int, Saved] = {}

    def draw(other: _Other | None) -> None:
        with suppress(Empty):
            while True:
                place, order = waiting.get_nowait()
                found[place] = other.carry_out(order) if other else order.carry_out()

    others = [_Other() for _ in range(wanted - 1)]
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
    return [found[place] for place in range(len(orders))]


class _Other:
    """Another process, which draws what it is told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._tell(sys.path)

    def carry_out(self, order: Order) -> Saved:
        assert self._process.stdout
        try:
            self._tell(order)
            saved: Saved = pickle.load(self._process.stdout)
        except (OSError, EOFError):
            return "the process that draws has ended"
        return saved

    def end(self) -> None:
        """Waits for what it is at, and ends it."""
        with self._process as process, suppress(BrokenPipeError):
            process.communicate()

    def _tell(self, what: Any) -> None:
        assert self._process.stdin
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()


def serve() -> None:
    """Draws what comes in until no more does; Ctrl-C is the other process's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # What else is printed must not be taken for an answer.
    while True:
        try:
            order: Order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(order.carry_out(), answers)
        answers.flush()
