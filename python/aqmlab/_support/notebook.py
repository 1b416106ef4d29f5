"""HTML tables for notebooks. The tables inherit the page's colours, so that they are readable on light and
dark pages."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MANY = 10_000
"""Smallest number that is shown without decimals and with its digits in groups of three."""

_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_CELL = f"padding: 0.15em 0.8em 0.15em 0; border-bottom: {_LINE}; background: none; color: inherit"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], *, estimates: bool = False) -> str:
    """Returns a table with a header row. Columns of numbers are right-aligned, including their headings and
    the dashes for missing values. If `estimates` is true, all columns except the first are right-aligned."""
    filled = [list(row) for row in rows]
    columns = [[row[index] for row in filled] for index in range(len(head))]
    numeric = [
        index > 0 if estimates else any(map(_is_number, column)) for index, column in enumerate(columns)
    ]
    worded = [not estimates and any(isinstance(one, str) for one in column) for column in columns]
    lines = [_line("th", head, [one and not two for one, two in zip(numeric, worded, strict=True)])]
    for row in filled:
        right = [estimates or not isinstance(value, str) for value in row]
        lines.append(_line("td", row, [one and two for one, two in zip(numeric, right, strict=True)]))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse: collapse; margin: 0.4em 0">{body}</table>'


def rows_by_name(title: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a table with a row for each name and a column for each measure, or an empty string if there are
    no rows."""
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    filled = [[name, *(row.get(column) for column in columns)] for name, row in rows.items()]
    return table([title, *columns], filled) if rows else ""


def parameters(values: Mapping[str, Any]) -> str:
    """Returns a table of parameters: each row contains a dotted path and the parameter's value, in the syntax
    of scenario files."""
    written = (value if isinstance(value, str) else json.dumps(value) for value in values.values())
    return table(("parameter", "value"), zip(values, written, strict=True))


def section(title: str, *parts: str) -> str:
    """Returns several tables under a common title."""
    return f'<div style="overflow-x: auto"><b>{html.escape(title)}</b>{"".join(parts)}</div>'


def folded(title: str, *parts: str) -> str:
    """Returns tables that are hidden until the user clicks their title."""
    return f"<details><summary>{html.escape(title)}</summary>{''.join(parts)}</details>"


def shown(value: Any) -> str:
    """Returns the text of a cell. Numbers have four significant digits, large numbers have no decimals, other
    text is unchanged, and a missing value is shown as a dash."""
    if value is None or value != value:
        return "–"
    if _is_number(value) and MANY <= abs(value) < math.inf:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"  # Adding 0.0 turns -0 into 0.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _line(tag: str, values: Sequence[Any], right: Sequence[bool]) -> str:
    cells = zip(values, right, strict=True)
    return "".join(_cell(tag, shown(value), right=at_right) for value, at_right in cells)


def _cell(tag: str, text: str, *, right: bool) -> str:
    side = "right" if right else "left"
    return f'<{tag} style="{_CELL}; text-align: {side}; vertical-align: top">{html.escape(text)}</{tag}>'
