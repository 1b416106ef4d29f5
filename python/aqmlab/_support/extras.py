"""Libraries that only some commands need: optional dependencies, asked for by name when they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra(module: str, group: str) -> Any:
    """The module of a library that stands in an optional dependency group.

    A `ValueError` that says how to install the group if the library is not there.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ValueError(f'{library} is missing: pip install "aqmlab[{group}]"') from error
