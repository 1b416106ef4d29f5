"""Tables for notebooks: they take the colours of the page, so that they are read on light and dark ones."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_CELL = f"padding: 0.15em 0.8em 0.15em 0; border-bottom: {_LINE}; background: none; color: inherit"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a line of headings; numbers stand at the right, as people read them."""
    lines = ["".join(_cell("th", name, right=False) for name in head)]
    lines += ["".join(_cell("td", shown(value), right=_counts(value)) for value in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse: collapse; margin: 0.4em 0">{body}</table>'


def rows_by_name(title: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with a row for each name, and a column for each of their measures; nothing if there is none."""
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    filled = [[name, *(row.get(column) for column in columns)] for name, row in rows.items()]
    return table([title, *columns], filled) if rows else ""


def parameters(values: Mapping[str, Any]) -> str:
    """A table of parameters by dotted path, as a scenario file writes them."""
    written = (value if isinstance(value, str) else json.dumps(value) for value in values.values())
    return table(("parameter", "value"), zip(values, written, strict=True))


def section(title: str, *parts: str) -> str:
    """Some tables under a title."""
    return f'<div style="overflow-x: auto"><b>{html.escape(title)}</b>{"".join(parts)}</div>'


def folded(title: str, *parts: str) -> str:
    """Some tables that are seen when their title is clicked."""
    return f"<details><summary>{html.escape(title)}</summary>{''.join(parts)}</details>"


def shown(value: Any) -> str:
    """A value in a cell: four digits of a number, plain text, a dash for nothing."""
    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _counts(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(tag: str, text: str, *, right: bool) -> str:
    side = "right" if right else "left"
    return f'<{tag} style="{_CELL}; text-align: {side}; vertical-align: top">{html.escape(text)}</{tag}>'
