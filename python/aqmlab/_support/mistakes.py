"""Collects all errors in an input, so that one message can report all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aqmlab import _core


class Mistakes:
    """Collects error messages in order, without duplicates."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def __bool__(self) -> bool:
        """Whether any error has been collected."""
        return bool(self._messages)

    def attempt(self, read: Callable[[], Any], default: Any = None) -> Any:
        """Returns the result of `read`. If `read` raises an error, collects the error's messages and returns
        `default`."""
        try:
            return read()
        except (ValueError, _core.ScenarioError) as error:
            self.add(*str(error).split("\n"))
            return default

    def add(self, *messages: str) -> None:
        """Adds error messages."""
        self._messages += [one for one in dict.fromkeys(messages) if one not in self._messages]

    def finish(self) -> None:
        """Raises `ValueError` with a line for each collected error; does nothing if there is no error."""
        if self._messages:
            raise ValueError("\n".join(self._messages)) from None
