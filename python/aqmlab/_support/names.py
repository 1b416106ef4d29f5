"""Suggestions for misspelt names in error messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def hint(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """Returns "did you mean ...?" with at most `most` names that resemble `name`. If no name resembles
    `name`, returns a list of all names."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, n=most)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"available: {', '.join(names)}" if names else "none available"


def value_hint(value: object, known: Iterable[object]) -> str:
    """Returns "did you mean ...?" with the values of an axis that resemble `value`. If no value resembles
    `value`, returns a list of all values. Strings are quoted to distinguish the string `'100'` from the
    number `100`."""
    from difflib import get_close_matches

    written = {str(one): repr(one) for one in known}
    near = get_close_matches(str(value), written)
    if near:
        return f"did you mean {', '.join(written[one] for one in near)}?"
    return f"available: {', '.join(written.values())}"


def check_keys(path: str, table: Any, allowed: Collection[str]) -> None:
    """Raises `ValueError` if `table` is not a table or has unknown keys. The message has a line for each
    unknown key.

    `path` is the path of the table within the file, such as `claims.0`; an empty path means the whole file.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{path}: must be a table (got {table!r})")
    before = f"{path}." if path else ""
    unknown = [f"{before}{key}: is unknown: {hint(key, allowed)}" for key in table if key not in allowed]
    if unknown:
        raise ValueError("\n".join(unknown))


def listed(text: str) -> list[str]:
    """Returns the names in a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]
