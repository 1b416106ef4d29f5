"""Collection of all errors in an input, so that a message can report them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aqmlab import _core


class Mistakes:
    """Collects error messages in order, without duplicates."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def __bool__(self) -> bool:
        """Whether there was an error."""
        return bool(self._messages)

    def attempt(self, read: Callable[[], Any], default: Any = None) -> Any:
        """Returns the result of `read`, or `default` if `read` raises an error, whose messages are
        collected."""
        try:
            return read()
        except (ValueError, _core.ScenarioError) as error:
            self.add(*str(error).split("\n"))
            return default

    def add(self, *messages: str) -> None:
        """Adds error messages."""
        self._messages += [one for one in dict.fromkeys(messages) if one not in self._messages]

    def finish(self) -> None:
        """Raises `ValueError` with a line for each error, if there was one."""
        if self._messages:
            raise ValueError("\n".join(self._messages)) from None
