"""Tables of estimates, as text for a terminal, as Markdown or as LaTeX."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import typer

ROWS = 60
"""Maximum number of printed rows of a long table."""

WIDE = 160
"""Width in characters above which a table's title is left-aligned instead of centred."""


class Form(StrEnum):
    """The format of a table."""

    TEXT = "text"
    """Text with lines between cells. Tables wider than the terminal are split."""
    MARKDOWN = "markdown"
    """GitHub-flavoured Markdown, for pages and issues."""
    LATEX = "latex"
    """A LaTeX `tabular` without packages, for papers."""


TableForm = Annotated[Form, typer.Option("--table", help="Format of tables.")]


def print_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int,
    form: Form = Form.TEXT,
    more: str | None = None,
) -> None:
    """Prints a table whose first `left` columns contain words and whose other columns contain numbers. If
    `more` is given, a text table has at most `ROWS` rows, and `more` states where to find all rows."""
    if form is Form.MARKDOWN:
        print("\n".join(markdown(title, heads, rows, left=left)))
    elif form is Form.LATEX:
        print("\n".join(latex(title, heads, rows, left=left)))
    else:
        _print_framed(title, heads, rows if more is None else rows[:ROWS], left=left)
        if more is not None and len(rows) > ROWS:
            print(f"and {len(rows) - ROWS} more rows: {more}")


def markdown(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """Yields the lines of a Markdown table."""
    yield from (f"**{title}**", "")
    yield _piped(heads)
    yield _piped(["---" if column < left else "---:" for column in range(len(heads))])
    for row in rows:
        yield _piped(row)
    yield ""


def latex(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """Yields the lines of a LaTeX table. The title is written as a comment, because authors of papers write
    their own captions."""
    yield f"% {title}"
    yield rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(heads) - left)}}}"
    yield r"\hline"
    yield rf"{' & '.join(map(_escaped, heads))} \\"
    yield r"\hline"
    for row in rows:
        yield rf"{' & '.join(map(_escaped, row))} \\"
    yield from (r"\hline", r"\end{tabular}", "")


def room() -> int | None:
    """Returns the width of the terminal in characters, or `None` if standard output is not a terminal."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() else None


def width_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Returns the width of a framed table in characters."""
    return sum(_widths(heads, rows)) + 1


def _print_framed(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    """Prints a framed table. A table wider than the terminal is split into several tables, each of which
    contains all columns of words. If standard output is a pipe, the table is not split."""
    from rich.console import Console
    from rich.table import Table

    widths = _widths(heads, rows)
    console = Console(width=room() or sum(widths) + 1, highlight=False)
    for number, part in enumerate(_fitting(widths, left, console.width)):
        width = sum(widths[column] for column in part) + 1
        # A centred title would wrap above a narrow table, and would be overlooked above a very wide table.
        above = number == 0 and len(title) <= width <= WIDE
        if number == 0 and not above:
            print(title)
        shown = Table(title=title if above else None)
        for column in part:
            shown.add_column(heads[column], justify="left" if column < left else "right")
        for row in rows:
            shown.add_row(*(row[column] for column in part))
        console.print(shown)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Returns the width of each column in characters, including the frame."""
    columns = zip(heads, *rows, strict=True)
    return [max(len(line) for text in column for line in text.split("\n")) + 3 for column in columns]


def _fitting(widths: Sequence[int], left: int, room: int) -> Iterator[list[int]]:
    """Yields the column indices of each of the split tables. Each split table contains the first `left`
    columns and fits into `room` characters."""
    words = list(range(left))
    free = room - 1 - sum(widths[:left])
    part: list[int] = []
    for column in range(left, len(widths)):
        if part and sum(widths[one] for one in part) + widths[column] > free:
            yield [*words, *part]
            part = []
        part.append(column)
    yield [*words, *part]


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def _escaped(cell: str) -> str:
    text = re.sub(r"[\\±~^&%$#_{}]", lambda one: _SPECIAL[one[0]], " ".join(cell.split()))
    return f"${text}$" if re.fullmatch(r"-[0-9.]+", text) else re.sub(r"^-(?=[0-9.]+ )", "$-$", text)
