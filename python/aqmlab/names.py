"""Names that do not exist: what a message says instead."""

from __future__ import annotations

from collections.abc import Iterable


def hint(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """The `most` names nearest to `name`, as a question; if none is near, all of them."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, n=most)
    if near:
        return f"did you mean {', '.join(near)}?"
    return f"there is {', '.join(names)}" if names else "there is none"


def listed(text: str) -> list[str]:
    """The names that stand between commas, as an option of the command line has them."""
    return [name.strip() for name in text.split(",") if name.strip()]
