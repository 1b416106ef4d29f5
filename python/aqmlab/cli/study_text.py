"""Prints the verdicts, figures and tables of a study."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator

from aqmlab.cli import table_text
from aqmlab.results.labels import format_labels
from aqmlab.stats import Evidence
from aqmlab.study.publication import StudyResult
from aqmlab.study.report_claims import Cell, VerdictMatrix, deciding, interval, tally

_VERDICT = len("undecided")
_NUMBER = 8


def print_verdicts(result: StudyResult) -> None:
    """Prints a line for each claim, with a column for each reading if the study has several readings. Then
    prints which verdicts depend on readings, and the number of claims that hold. Lines are truncated to the
    width of the terminal, but not if standard output is a pipe."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in lines(result, width):
        print(line)


def print_drawn(result: StudyResult) -> None:
    """Prints the path of each figure, and each table as text."""
    for one in result.drawn:
        print(f"Figure {one.figure.id}: {one.problem or one.paths['png']}")
    for table, frame in result.tables:
        if isinstance(frame, str):
            print(f"{table.title}: {frame}")
        else:
            rows = [["" if cell is None else str(cell) for cell in row] for row in frame.iter_rows()]
            table_text.print_table(table.title, frame.columns, rows, left=1)


def lines(result: StudyResult, width: int | None = None) -> Iterator[str]:
    """Yields the lines of `print_verdicts`, truncated to `width` characters where possible."""
    matrix = VerdictMatrix(result)
    if not result.judged:
        return
    ids = max(len(one.id) for one in (*matrix.claims, *result.judged)) + 2
    if len(matrix.columns) > 1:
        yield from _matrix(matrix, ids, width)
    else:
        for one in result.judged:
            found = one.evidence
            line = f"{one.id:<{ids}}{found.verdict:<{_VERDICT + 2}}{decides(found)}"
            yield _cut(line, width)
            if not result.study.paper and len(found.parts) > 1:
                for part in found.parts:
                    inner = f"{'':<{ids}}{part.verdict:<{_VERDICT + 2}}{decides(part)}"
                    yield _cut(inner, width)
    turned = matrix.dependences()
    if turned:
        yield ""
        yield from (f"{one.id:<{ids}}{one.text}" for one in turned)
    yield ""
    for whose, counts in matrix.by_origin.items():
        yield f"{whose}: {', '.join(f'{number} {word}' for number, word in tally(counts))}"


def decides(found: Evidence) -> str:
    """Returns text with the number that decides a claim, the number's description, and the claimed range."""
    if found.band is None:
        return found.measured
    where = f", {format_labels(found.where)}" if found.where else ""
    parts = f" ({deciding(found)})" if deciding(found) else ""
    return f"{interval(found)}  {found.what}{where}, claimed {found.band}{parts}"


def _matrix(matrix: VerdictMatrix, ids: int, width: int | None) -> Iterator[str]:
    columns = matrix.columns
    full = ids + len(columns) * (_VERDICT + 1 + _NUMBER + 1)
    numbers = width is None or full <= width
    each = _VERDICT + 1 + (_NUMBER + 1 if numbers else 1)
    names = [textwrap.wrap(reading.name, each - 2) for reading in columns]
    for row in range(max(len(name) for name in names)):
        parts = [name[row] if row < len(name) else "" for name in names]
        yield (" " * ids + "".join(f"{part:<{each}}" for part in parts)).rstrip()
    for claim in matrix.claims:
        cells = "".join(
            f"{_cell(cell, numbers):<{each * len(cell.readings)}}" for cell in matrix.cells(claim)
        )
        yield f"{claim.id:<{ids}}{cells}".rstrip()


def _cell(cell: Cell, numbers: bool) -> str:
    if cell.judged is None:
        return "-"
    found = cell.judged.evidence
    value = f" {found.value:.3g}" if numbers and found.value == found.value else ""
    wide = " (all alike)" if len(cell.readings) > 1 else ""
    return f"{found.verdict}{value}{wide}"


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else line[: width - 1] + "…"
