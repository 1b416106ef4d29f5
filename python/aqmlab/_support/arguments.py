"""Checks of arguments of Python functions: each error names the argument, its value and what is allowed.

All raise `ValueError`, as everything does that is wrong in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)


def instance(name: str, value: Any, kind: type[T], remedy: str) -> T:
    """The value, which must be of this class; `remedy` says how to get one."""
    if not isinstance(value, kind):
        raise ValueError(f"{name}: must be a {kind.__name__}, is {value!r}: {remedy}")
    return value


def names(name: str, value: Any) -> list[str]:
    """The texts of a list; a single text is none."""
    if isinstance(value, str):
        raise ValueError(f'{name}: must be a list of names, is {value!r}: write ["{value}"]')
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ValueError(f"{name}: must be a list of names, is {value!r}")
    found = list(value)
    for one in found:
        if not isinstance(one, str):
            raise ValueError(f"{name}: must be a list of names, has {one!r}")
    return found


def table(name: str, value: Any, example: str) -> Mapping[str, Any]:
    """The value, which must be a table whose keys are texts."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: must be a dictionary such as {example}, is {value!r}")
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{name}: keys must be texts, has {key!r}")
    return value


def count(name: str, value: Any, least: int) -> int:
    """The value, which must be a whole number of at least `least`."""
    whole = value.item() if hasattr(value, "item") else value  # Numbers of numpy are plain ones.
    if not isinstance(whole, int) or isinstance(whole, bool) or whole < least:
        raise ValueError(f"{name}: must be a whole number of at least {least}, is {value!r}")
    return whole


def count_or_none(name: str, value: Any, least: int) -> int | None:
    """The same, or `None`."""
    return None if value is None else count(name, value, least)


def word(name: str, value: Any, words: type[W]) -> W:
    """One of the words of an enumeration, which may be written as text."""
    try:
        return words(value)
    except ValueError:
        allowed = ", ".join(words)
        raise ValueError(f"{name}: must be one of {allowed}, is {value!r}") from None


def unique(name: str, values: Sequence[str]) -> None:
    """Refuses a name that stands there twice."""
    twice = next((one for one in values if values.count(one) > 1), None)
    if twice is not None:
        raise ValueError(f"{name}: `{twice}` stands there twice: name each once")
