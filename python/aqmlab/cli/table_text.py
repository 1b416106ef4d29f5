"""Tables of estimates as text: for a terminal, as Markdown, and as LaTeX."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import typer

ROWS = 60
"""The most rows of a long table that a terminal gets."""

WIDE = 160
"""Tables of more characters have their title at the left."""


class Form(StrEnum):
    """How a table is written."""

    TEXT = "text"
    """With lines around cells, as wide as the terminal."""
    MARKDOWN = "markdown"
    """For a page or an issue: a table of GitHub's Markdown."""
    LATEX = "latex"
    """For a paper: a `tabular`, which needs no package."""


TableForm = Annotated[Form, typer.Option("--table", help="How tables are printed.")]


def print_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int,
    form: Form = Form.TEXT,
    more: str | None = None,
) -> None:
    """A table whose first columns are words, `left` of them, and whose others are numbers. With `more`, which
    says where to find all rows, a terminal gets the first `ROWS`."""
    if form is Form.MARKDOWN:
        print("\n".join(markdown(title, heads, rows, left=left)))
    elif form is Form.LATEX:
        print("\n".join(latex(title, heads, rows, left=left)))
    else:
        _print_framed(title, heads, rows if more is None else rows[:ROWS], left=left)
        if more is not None and len(rows) > ROWS:
            print(f"and {len(rows) - ROWS} rows more: {more}")


def markdown(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield from (f"**{title}**", "")
    yield _piped(heads)
    yield _piped(["---" if place < left else "---:" for place in range(len(heads))])
    for row in rows:
        yield _piped(row)
    yield ""


def latex(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> Iterator[str]:
    """The lines of a table in LaTeX; the title is a comment, for a caption is the author's."""
    yield f"% {title}"
    yield rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(heads) - left)}}}"
    yield r"\hline"
    yield rf"{' & '.join(map(_escaped, heads))} \\"
    yield r"\hline"
    for row in rows:
        yield rf"{' & '.join(map(_escaped, row))} \\"
    yield from (r"\hline", r"\end{tabular}", "")


def room() -> int | None:
    """The columns of the terminal; `None` if standard output is no terminal."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() else None


def width_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The characters that a framed table takes from side to side."""
    return sum(_widths(heads, rows)) + 1


def _print_framed(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    """What is too wide for the terminal becomes several tables, each with the words; a pipe gets one."""
    from rich.console import Console
    from rich.table import Table

    widths = _widths(heads, rows)
    console = Console(width=room() or sum(widths) + 1, highlight=False)
    for number, part in enumerate(_fitting(widths, left, console.width)):
        width = sum(widths[place] for place in part) + 1
        # A centred title would be broken over a narrow table, and missed over a wide one.
        above = number == 0 and len(title) <= width <= WIDE
        if number == 0 and not above:
            print(title)
        shown = Table(title=title if above else None)
        for place in part:
            shown.add_column(heads[place], justify="left" if place < left else "right")
        for row in rows:
            shown.add_row(*(row[place] for place in part))
        console.print(shown)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The characters of each column with its frame."""
    columns = zip(heads, *rows, strict=True)
    return [max(len(line) for text in column for line in text.split("\n")) + 3 for column in columns]


def _fitting(widths: Sequence[int], left: int, room: int) -> Iterator[list[int]]:
    """The columns of each of the tables that fit into `room`, all with the first `left`."""
    words = list(range(left))
    free = room - 1 - sum(widths[:left])
    part: list[int] = []
    for place in range(left, len(widths)):
        if part and sum(widths[one] for one in part) + widths[place] > free:
            yield [*words, *part]
            part = []
        part.append(place)
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
