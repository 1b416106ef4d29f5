"""The tables of a card as text, for pages and for the card's study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.report_card.card import Cell, Finding
from aqmlab.report_card.network import PACKET, room_of
from aqmlab.report_card.queues import EQUAL, REFERENCE, ROOMS, SHIPPED
from aqmlab.stats import Interval

TITLES = {EQUAL: "Equal room", SHIPPED: "As shipped"}

ROOM = f"{room_of()} full packets ({room_of() * PACKET // 1000} kB)"
"""The equal room on the main link, as text."""


def summary(findings: Sequence[Finding]) -> pl.DataFrame:
    """Returns a row for each property. A row contains the words in each column. If there are several words,
    they are followed by their sections or measures. If all rows of the property show the same measure, the
    smallest and the largest ratio are included."""
    rows = [
        (one.property.name, one.property.reference, *(_joined(one, room) for room in ROOMS))
        for one in findings
    ]
    heads = ["Property", "Compared with", *TITLES.values()]
    return _table(heads, [row for row in rows if any(row[2:])])


def _joined(finding: Finding, room: str) -> str:
    words = finding.words(room)
    ratios = finding.ratios(room)
    several = len(words) > 1 and len({where for one in words.values() for where in one}) > 1
    parts = [f"{word}: {', '.join(where)}" if several else word for word, where in words.items()]
    text = ("; " if several else ", ").join(parts)
    if not text or ratios is None:
        return text
    least, most = (f"{one:.3g}" for one in ratios)
    return f"{text} (ratio {least})" if least == most else f"{text} (ratios {least} to {most})"


def details(finding: Finding) -> pl.DataFrame:
    """Returns a row for each measure of each scenario."""
    shown = [room for room in ROOMS if any(room in row.cells for row in finding.rows)]
    shared = finding.property.beside_drop_tail
    compares = any(cell.word for row in finding.rows for cell in row.cells.values())
    head = ["RFC 7928", "Scenario", "Measure"]
    if shared and compares:
        head.append(REFERENCE)
    for room in shown:
        own = [] if shared else [f"{TITLES[room]}: {finding.property.reference}"]
        head += [*own, TITLES[room], *([f"{TITLES[room]}: ratio"] if compares else [])]
    rows = []
    for row in finding.rows:
        texts = [row.section, row.scenario, row.measure.label]
        if shared and compares:
            known = [cell.reference for cell in row.cells.values() if cell.reference is not None]
            texts.append(number(known[0]) if known else "")
        for room in shown:
            texts += _texts(row.cells.get(room), shared=shared, compares=compares)
        rows.append(texts)
    return _table(head, rows)


def _texts(cell: Cell | None, *, shared: bool, compares: bool) -> list[str]:
    if cell is None:
        return [""] * (1 + (not shared) + compares)
    found = [] if shared else ["" if cell.reference is None else number(cell.reference)]
    return [*found, number(cell.value), *([f"{cell.word} {ratio(cell)}".strip()] if compares else [])]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(heads, pl.String), orient="row")


def written(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns parameters in the syntax of scenario files."""
    return tuple(f"{path} = {json.dumps(value)}" for path, value in given.items())


def number(interval: Interval) -> str:
    """Returns a value with its interval as text."""
    if interval.median:
        return f"median {interval}"
    return stats.plus_minus(interval.value, interval.half_width)


def ratio(cell: Cell) -> str:
    """Returns the ratio of a cell with its interval as text, or an empty string if the cell has no ratio."""
    found = cell.ratio
    if found is None:
        return ""
    text = str(found) if found.decided else f"{found.value:.3g}"
    return f"median {text}" if found.median else text
