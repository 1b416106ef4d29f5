"""Names that do not exist: what a message says instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def hint(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """The `most` names nearest to `name`, as a question; if none is near, all of them."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, n=most)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"there is {', '.join(names)}" if names else "there is none"


def value_hint(value: object, known: Iterable[object]) -> str:
    """The values of an axis nearest to `value`, as a question; if none is near, all of them. Texts have
    quotes, so that `100` and `'100'` are told apart."""
    from difflib import get_close_matches

    written = {str(one): repr(one) for one in known}
    near = get_close_matches(str(value), written)
    if near:
        return f"did you mean {', '.join(written[one] for one in near)}?"
    return f"it takes {', '.join(written.values())}"


def check_keys(place: str, table: Any, allowed: Collection[str]) -> None:
    """Raises `ValueError` unless it is a table of these keys alone: a line for each key that is unknown.

    `place` is where the table stands in its file: `claims.0`, or nothing for the file itself.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{place}: must be a table, is {table!r}")
    before = f"{place}." if place else ""
    unknown = [f"{before}{key}: is unknown: {hint(key, allowed)}" for key in table if key not in allowed]
    if unknown:
        raise ValueError("\n".join(unknown))


def listed(text: str) -> list[str]:
    """The names that stand between commas, as an option of the command line has them."""
    return [name.strip() for name in text.split(",") if name.strip()]
