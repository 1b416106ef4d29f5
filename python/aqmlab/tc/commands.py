"""The result of a writer: commands or the lines of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Commands:
    """Lines that configure a link on Linux."""

    lines: tuple[str, ...]
    """Commands, one a line, in the order of execution; for other formats than `tc`, the lines of a file."""
    undo: tuple[str, ...]
    """Commands that undo `lines`, in the order of execution."""
    limits: tuple[str, ...]
    """What the program cannot express: the path of a parameter, and a sentence."""
    notes: tuple[str, ...] = ()
    """Explanations of the arrangement."""
    program: str = "tc"
    """Program that reads the lines: `tc`, `sqm` or `networkd`."""

    def comments(self) -> Iterator[str]:
        """Yields the notes and the limits as comment lines."""
        yield from (f"# {note}" for note in self.notes)
        yield from (f"# {self.program} cannot express: {limit}" for limit in self.limits)

    def text(self, *, undo: bool = False) -> str:
        """Returns the comments and the lines, or only the commands that undo the lines."""
        lines = self.undo if undo else (*self.comments(), *self.lines)
        return "".join(f"{line}\n" for line in lines)
