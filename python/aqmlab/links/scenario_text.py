"""Writes a scenario as TOML with comments."""

from __future__ import annotations

import textwrap
from typing import Any

from aqmlab._support.toml_writer import inline

WIDTH = 110


class Text:
    """Lines of a TOML file."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def comment(self, comment: str) -> None:
        """Adds a comment, wrapped into lines."""
        if self._lines and self._lines[-1]:
            self._lines.append("")
        self._add_comment(comment)

    def command(self, command: str) -> None:
        """Adds a command as a comment."""
        self._lines.append(f"#   {command}")

    def table(self, name: str, comment: str = "") -> None:
        """Begins a table."""
        if self._lines and not self._lines[-1].startswith("#"):
            self._lines.append("")
        self._add_comment(comment)
        self._lines.append(f"[{name}]")

    def entry(self, key: str, value: Any, comment: str = "") -> None:
        """Adds a key, after its comment."""
        self._add_comment(comment)
        self._lines.append(f"{key} = {inline(value)}")

    def _add_comment(self, comment: str) -> None:
        self._lines += textwrap.wrap(
            comment, WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False
        )

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"
