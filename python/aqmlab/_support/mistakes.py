"""Mistakes of a file, all at once: what one reader refuses does not keep the others from reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aqmlab import _core


class Mistakes:
    """Collects the messages of refused values, in order and each once."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def __bool__(self) -> bool:
        """Whether anything was refused."""
        return bool(self._messages)

    def attempt(self, read: Callable[[], Any], default: Any = None) -> Any:
        """What `read` returns, or `default` if it refuses a value."""
        try:
            return read()
        except (ValueError, _core.ScenarioError) as error:
            self.add(*str(error).split("\n"))
            return default

    def add(self, *messages: str) -> None:
        """Adds messages of refused values."""
        self._messages += [one for one in dict.fromkeys(messages) if one not in self._messages]

    def finish(self) -> None:
        """Raises `ValueError` with a line for each mistake, if there is one."""
        if self._messages:
            raise ValueError("\n".join(self._messages)) from None
