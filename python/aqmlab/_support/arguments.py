"""Checks of the arguments of Python functions. Each error message contains the argument's name, its value and
the allowed values.

A failed check raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)


def instance(name: str, value: Any, kind: type[T], remedy: str) -> T:
    """Returns the value if it is an instance of `kind`. Otherwise, raises `ValueError` with a message that
    ends with `remedy`, a hint on how to create an instance."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: must be a {kind.__name__} (got {value!r}): {remedy}")
    return value


def names(name: str, value: Any) -> list[str]:
    """Returns a list of strings. Passing a single string instead of a list is an error."""
    if isinstance(value, str):
        raise ValueError(f'{name}: must be a list of names (got {value!r}): write ["{value}"]')
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ValueError(f"{name}: must be a list of names (got {value!r})")
    found = list(value)
    for one in found:
        if not isinstance(one, str):
            raise ValueError(f"{name}: each item must be a name (got {one!r})")
    return found


def table(name: str, value: Any, example: str) -> Mapping[str, Any]:
    """Returns the value if it is a dictionary whose keys are strings."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: must be a dictionary such as {example} (got {value!r})")
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{name}: keys must be strings (got {key!r})")
    return value


def count(name: str, value: Any, least: int) -> int:
    """Returns the value as an `int` if it is a whole number and at least `least`."""
    whole = value.item() if hasattr(value, "item") else value  # Converts NumPy scalars.
    if not isinstance(whole, int) or isinstance(whole, bool) or whole < least:
        raise ValueError(f"{name}: must be a whole number of at least {least} (got {value!r})")
    return whole


def count_or_none(name: str, value: Any, least: int) -> int | None:
    """Returns the value if it is either `None` or a whole number that is at least `least`."""
    return None if value is None else count(name, value, least)


def word(name: str, value: Any, words: type[W]) -> W:
    """Returns the enumeration member for `value`, which is either the member itself or the member's text."""
    try:
        return words(value)
    except ValueError:
        allowed = ", ".join(words)
        raise ValueError(f"{name}: must be one of {allowed} (got {value!r})") from None


def unique(name: str, values: Sequence[str]) -> None:
    """Raises `ValueError` if a name occurs more than once."""
    twice = next((one for one in values if values.count(one) > 1), None)
    if twice is not None:
        raise ValueError(f"{name}: `{twice}` occurs twice: write each name once")
