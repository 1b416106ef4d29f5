"""Imports of optional dependencies, which only some commands need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra(module: str, group: str) -> Any:
    """Imports a module of an optional dependency group.

    Raises `ValueError` with the installation command if the library is missing.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ValueError(f'{library} is not installed: pip install "aqmlab[{group}]"') from error
