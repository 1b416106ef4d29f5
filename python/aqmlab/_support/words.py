"""Parts of English sentences."""

from __future__ import annotations

from collections.abc import Iterable


def joined(words: Iterable[str]) -> str:
    """Returns the words of a list, such as `a, b and c`. `words` must not be empty."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def capital(text: str) -> str:
    """Returns the text with a capital letter at the beginning."""
    return text[:1].upper() + text[1:]
