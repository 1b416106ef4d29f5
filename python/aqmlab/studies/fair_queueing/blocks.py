"""The talk's blocks of slides, A to K, with the plots that each block compares."""

from __future__ import annotations

from typing import NamedTuple

FLOWS, PACKETS = "Poisson flows", "Poisson packets"
FIFO, BOTH = ("FIFO",), ("FIFO", "FQ")


class Plot(NamedTuple):
    """A run that the talk plots, with its background, bottlenecked flows, queue and buffer (in packets)."""

    background: str
    flows: str
    queue: str
    buffer: int

    @property
    def short(self) -> str:
        """The name of the plot within its block, which defines the background."""
        return f"{self.flows}, {self.queue} {self.buffer}"

    @property
    def name(self) -> str:
        """The name of the plot, which is unique among all blocks."""
        return f"{self.short}, {self.background}"


class Block(NamedTuple):
    """Plots that differ in their flows, their queue, or the queue's buffer."""

    title: str
    background: str
    flows: tuple[str, ...]
    queues: tuple[str, ...]
    buffers: tuple[int, ...]

    @property
    def plots(self) -> list[Plot]:
        """The plots in the order of the slides."""
        return [
            Plot(self.background, flows, queue, buffer)
            for buffer in self.buffers
            for queue in self.queues
            for flows in self.flows
        ]


_RENO, _HIGHSPEED = ("4 Reno", "1 Reno"), ("4 HighSpeed", "1 HighSpeed")
_BESIDE = ("HighSpeed + Reno",)
_J = "Four HighSpeed flows and one, FIFO, 625 packets"
_K = "Four HighSpeed flows, 625 packets: FIFO and fair queueing"

BLOCKS = {
    "A": Block("One Reno flow, FIFO, three buffers", FLOWS, ("1 Reno",), FIFO, (20, 100, 625)),
    "B": Block("Reno or HighSpeed, FIFO, 100 packets", FLOWS, ("1 Reno", "1 HighSpeed"), FIFO, (100,)),
    "C": Block("One Reno flow, 20 packets: FIFO and fair queueing", FLOWS, ("1 Reno",), BOTH, (20,)),
    "D": Block("Two Reno flows, FIFO", PACKETS, ("2 Reno",), FIFO, (20, 625)),
    "E": Block("Two HighSpeed flows, FIFO", PACKETS, ("2 HighSpeed",), FIFO, (20, 625)),
    "F": Block("HighSpeed beside Reno, FIFO", PACKETS, _BESIDE, FIFO, (20, 625)),
    "G": Block("HighSpeed beside Reno: FIFO and fair queueing", PACKETS, _BESIDE, BOTH, (20, 625)),
    "H": Block("Four Reno flows and one, FIFO, 20 packets", PACKETS, _RENO, FIFO, (20,)),
    "I": Block("Four Reno flows and one, FIFO, 625 packets", PACKETS, _RENO, FIFO, (625,)),
    "J": Block(_J, PACKETS, _HIGHSPEED, FIFO, (625,)),
    "K": Block(_K, PACKETS, ("4 HighSpeed",), BOTH, (625,)),
}

PLOTS = {plot.name: plot for block in BLOCKS.values() for plot in block.plots}
"""All plots by name; several blocks may show the same plot."""

CASES = {
    name if len(block.buffers) == 1 else f"{name}, {plot.buffer} packets": plot
    for name, block in BLOCKS.items()
    for plot in block.plots
    if plot.queue == "FQ"
}
"""The plots of fair queueing."""
