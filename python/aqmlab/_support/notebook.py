"""Tables for notebooks: they take the colours of the page, so that they are read on light and dark ones."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MANY = 10_000
"""Numbers from here on are shown whole, in groups of three digits."""

_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_CELL = f"padding: 0.15em 0.8em 0.15em 0; border-bottom: {_LINE}; background: none; color: inherit"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, estimates: bool = False) -> str:
    """A table with a line of headings; numbers stand at the right, as people read them, with the heading of
    their column and the dashes in it. In a table of `estimates` so do all columns but the first."""
    filled = [list(row) for row in rows]
    columns = [[row[place] for row in filled] for place in range(len(head))]
    numeric = [place > 0 if estimates else any(map(_counts, column)) for place, column in enumerate(columns)]
    worded = [not estimates and any(isinstance(one, str) for one in column) for column in columns]
    lines = [_line("th", head, [one and not two for one, two in zip(numeric, worded, strict=True)])]
    for row in filled:
        right = [estimates or not isinstance(value, str) for value in row]
        lines.append(_line("td", row, [one and two for one, two in zip(numeric, right, strict=True)]))
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
    """A value in a cell: four digits of a number, all of a large one, plain text, a dash for nothing."""
    if value is None or value != value:
        return "–"
    if _counts(value) and MANY <= abs(value) < math.inf:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"  # Never -0.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _counts(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _line(tag: str, values: Sequence[Any], right: Sequence[bool]) -> str:
    cells = zip(values, right, strict=True)
    return "".join(_cell(tag, shown(value), right=at_right) for value, at_right in cells)


def _cell(tag: str, text: str, *, right: bool) -> str:
    side = "right" if right else "left"
    return f'<{tag} style="{_CELL}; text-align: {side}; vertical-align: top">{html.escape(text)}</{tag}>'
