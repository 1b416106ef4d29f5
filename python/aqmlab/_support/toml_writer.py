"""Conversion of tables to TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def written(table: Mapping[str, Any]) -> str:
    """Returns a table of plain values as TOML. Keys with the value `None` are omitted, because TOML has no
    null value."""
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def inline(value: Any) -> str:
    """Returns a value as one line of TOML: `{ kind = "red", limit = "60p" }`."""
    if isinstance(value, Mapping):
        given = {key: one for key, one in value.items() if one is not None}
        return "{ " + ", ".join(f"{_key(key)} = {inline(one)}" for key, one in given.items()) + " }"
    return _value(value)


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    own = {key: value for key, value in table.items() if value is not None and key not in inner}
    if path and (own or not inner):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in own.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        yield from _lines(value, (*path, key))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        given = {key: one for key, one in value.items() if one is not None}
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in given.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)
