"""A live view of a run's queues in the terminal."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from aqmlab import _core
from aqmlab._support.parallel import watched
from aqmlab._support.progress import progress_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

R = TypeVar("R")

HISTORY = 36
"""Number of samples in a sparkline."""

BLOCKS = " ▁▂▃▄▅▆▇█"
"""Characters for bars whose height is 0 to 8 eighths of a text line."""


def sparkline(values: Iterable[float], top: float) -> str:
    """Returns a line of bars, in which the highest possible bar represents `top`."""
    scale = (len(BLOCKS) - 1) / top if top > 0 else 0.0
    return "".join(BLOCKS[min(len(BLOCKS) - 1, max(0, round(value * scale)))] for value in values)


@dataclass
class _Link:
    """The most recent samples of a link."""

    queue: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    rate: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    last: Mapping[str, Any] | None = None
    time_s: float = 0.0


class Watching:
    """The views of a run that have arrived so far."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}
        self._view: Mapping[str, Any] = {"links": [], "lateness_us": [], "time_s": 0.0}

    def see(self, view: Mapping[str, Any]) -> None:
        """Adds a view, which has the format of `Watch.view`."""
        self._view = view
        for link in view["links"]:
            seen = self._links.setdefault(link["name"], _Link())
            elapsed = view["time_s"] - seen.time_s
            before = seen.last["departed_bytes"] if seen.last else 0
            if elapsed > 0:
                seen.rate.append((link["departed_bytes"] - before) * 8 / elapsed)
            seen.queue.append(link["length_packets"])
            seen.last, seen.time_s = link, view["time_s"]

    def drawn(self, progress: str) -> RenderableType:
        """Returns the views as an object to print. `progress` is text that describes the progress of the
        run."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [Text(progress, style="bold")]
        parts.extend(self._drawn_link(link) for link in self._view["links"])
        lateness = "   ".join(f"{name} {value:.0f} us" for name, value in self._view["lateness_us"])
        if lateness:
            parts.append(Text(f"lateness of packets: {lateness}"))
        return Group(*parts)

    def _drawn_link(self, link: Mapping[str, Any]) -> RenderableType:
        from rich.panel import Panel
        from rich.table import Table

        seen = self._links[link["name"]]
        now = seen.rate[-1] if seen.rate else 0.0
        rows = Table.grid(padding=(0, 2))
        rows.add_column(no_wrap=True)
        rows.add_column(no_wrap=True, min_width=HISTORY)
        rows.add_column()
        highest = max(seen.queue, default=0)
        waiting = f"{link['length_packets']} packets, {link['length_bytes'] / 1000:.1f} kB"
        rows.add_row("queue", sparkline(seen.queue, highest), f"{waiting}; highest bar {highest:g}")
        rows.add_row("throughput", sparkline(seen.rate, link["rate_bps"]), f"{now / 1e6:.3f} Mbps")
        for name, value, unit in link["gauges"]:
            rows.add_row(name.replace("_", " "), "", f"{value:.4g} {unit or ''}".strip())
        dropped = sum(count for _, count in link["drops"])
        reasons = ", ".join(f"{count} {reason}" for reason, count in link["drops"] if count)
        share = dropped / link["arrivals"] if link["arrivals"] else 0.0
        rows.add_row("dropped", "", f"{dropped} of {link['arrivals']} ({share:.2%}) {reasons}".rstrip())
        if link["marks"]:
            rows.add_row("marked", "", f"{link['marks']}")
        return Panel(rows, title=f"{link['name']}, {link['rate_bps'] / 1e6:g} Mbps", title_align="left")


def _screen() -> Live:
    """Returns the terminal area for views, which is on standard error so that standard output can be
    piped."""
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(stderr=True), auto_refresh=False, transient=True)


def run(work: Callable[[_core.Watch], R], label: str, speed: float | None) -> R:
    """Calls `work` and returns its result. While `work` runs, the queues are shown if `speed` (in simulated
    seconds per second) is given; otherwise, a progress bar is shown."""
    watch = _core.Watch()
    if speed is None:
        return watched(work, watch, label)
    with _screen() as live:
        watching, begun = Watching(), time.monotonic()
        watch.hold(0.0)

        def show() -> None:
            watch.hold((time.monotonic() - begun) * speed)
            view = watch.view()
            if view is not None:
                watching.see(json.loads(view))
                live.update(watching.drawn(progress_text(watch)), refresh=True)

        return watched(work, watch, None, show)


def follow(views: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Shows each view with its progress text when the view arrives."""
    watching = Watching()
    with _screen() as live:
        for progress, view in views:
            watching.see(view)
            live.update(watching.drawn(progress), refresh=True)
