"""The tables of a card, as its page and the report show them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from aqmlab import stats
from aqmlab.report_card import estimates
from aqmlab.report_card.characterisation import MARGIN, Card, Cell, Characterisation, Finding, Word, title
from aqmlab.report_card.network import PACKET, room_of
from aqmlab.report_card.properties import NUMBERS, Property
from aqmlab.report_card.queues import EQUAL, ROOMS, SHIPPED
from aqmlab.report_card.values import Values
from aqmlab.stats import Interval

TITLES = {EQUAL: "Equal room", SHIPPED: "As shipped"}

ROOM = f"{room_of()} full packets ({room_of() * PACKET // 1000} kB)"
"""The equal room of the main line, in words."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A cell of a table."""

    text: str
    word: Word = ""
    """The word that stands before the text."""

    @property
    def said(self) -> str:
        """Word and text."""
        return f"{self.word} {self.text}".strip()


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table in text."""

    head: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]


def method(values: Values) -> str:
    """How the numbers were found, and what the words mean."""
    form = ", in the quick form" if values.quick else ""
    margin = f"{1 / MARGIN:.2f} and {MARGIN:g}"
    return (
        f"{values.replications} replications of each scenario{form}: {values.runs:,} runs of aqmlab "
        f"{values.version}, results version {values.results_version}. Each interval has the level "
        f"{100 * stats.LEVEL:g} % by itself; no correction is made for the number of intervals. A ratio is "
        "paired: both sides meet the same random numbers. Where the runs of a scenario fall into groups (by "
        f"the dip test, or by a step of more than a factor of {estimates.STEP:g}), the median with its exact "
        "interval stands in place of the mean. Values are better or worse if the interval of "
        f"their ratio lies on one side of 1, alike if the whole interval lies between {margin} or within the "
        "time of one packet, and undecided if the runs do not tell. They are more or less where neither "
        "direction is better."
    )


def rooms(card: Card) -> dict[str, tuple[str, ...]]:
    """By the title of a column, the parameters of the queue that are no defaults, as a scenario has them."""
    return {
        TITLES[room]: tuple(f"{path} = {json.dumps(value)}" for path, value in given.items())
        for room, given in card.rooms.items()
    }


def numbers(found: Characterisation) -> Sheet:
    """A line for each queue: what the scenario of `properties.NUMBERS` measures, and each ratio to Drop
    Tail's value; the column is the one that the table over all queues has. No lines without values."""
    of, point = NUMBERS
    head = ["Queue"]
    for measure in of.measures:
        head += [title(measure), "over Drop Tail's"]
    rows = []
    for card in found.cards:
        cells = [found.cell(card.queue, main_room(card), of, point, measure) for measure in of.measures]
        known = [_entries(cell, shared=True, compares=True) for cell in cells if cell is not None]
        if len(known) == len(cells):
            ratios = [entry for one in known for entry in one]
            rows.append((Entry(text=starred(card)), *(replace(one, word="") for one in ratios)))
    return Sheet(head=tuple(head), rows=tuple(rows))


def main_room(card: Card) -> str:
    """The column of a card that stands for the queue in a table over all queues."""
    return EQUAL if EQUAL in card.rooms else SHIPPED


def starred(card: Card) -> str:
    """The name of a queue, with a star if the queue cannot have the equal room."""
    return card.queue if main_room(card) == EQUAL else f"{card.queue} \\*"


def summary(card: Card) -> Sheet:
    """A line for each property: its words in each column, with where each is found if there are several, and
    the least and the largest ratio if all are of one measure."""
    rows = []
    for finding in card.findings:
        cells = [_joined(finding, room) for room in ROOMS]
        if any(one.text for one in cells):
            rows.append((Entry(text=finding.property.name), Entry(text=finding.property.reference), *cells))
    return Sheet(head=("Property", "Compared with", *TITLES.values()), rows=tuple(rows))


def _joined(finding: Finding, room: str) -> Entry:
    words = finding.words(room)
    ratios = finding.ratios(room)
    several = len(words) > 1 and len({where for one in words.values() for where in one}) > 1
    parts = [f"{word}: {', '.join(where)}" if several else word for word, where in words.items()]
    text = ("; " if several else ", ").join(parts)
    if not text or ratios is None:
        return Entry(text=text)
    least, most = (f"{one:.3g}" for one in ratios)
    return Entry(text=f"{text} (ratio {least})" if least == most else f"{text} (ratios {least} to {most})")


def details(finding: Finding) -> Sheet:
    """A line for each measure of each scenario."""
    shown = [room for room in ROOMS if any(room in row.cells for row in finding.rows)]
    shared = finding.property.reference == Property.reference
    compares = any(cell.word for row in finding.rows for cell in row.cells.values())
    head = ["RFC 7928", "Scenario", "Measure"]
    if shared and compares:
        head.append("Drop Tail")
    for room in shown:
        own = [] if shared else [f"{TITLES[room]}: {finding.property.reference}"]
        head += [*own, TITLES[room], *([f"{TITLES[room]}: ratio"] if compares else [])]
    rows = []
    for row in finding.rows:
        entries = [Entry(text=row.section), Entry(text=row.scenario), Entry(text=row.measure)]
        if shared and compares:
            known = [cell.reference for cell in row.cells.values() if cell.reference is not None]
            entries.append(Entry(text=_number(known[0]) if known else ""))
        for room in shown:
            entries += _entries(row.cells.get(room), shared=shared, compares=compares)
        rows.append(tuple(entries))
    return Sheet(head=tuple(head), rows=tuple(rows))


def _entries(cell: Cell | None, *, shared: bool, compares: bool) -> list[Entry]:
    if cell is None:
        return [Entry(text="")] * (1 + (not shared) + compares)
    found = [] if shared else [Entry(text="" if cell.reference is None else _number(cell.reference))]
    found.append(Entry(text=_number(cell.value)))
    if compares:
        found.append(Entry(text="" if cell.ratio is None else _ratio(cell.ratio), word=cell.word))
    return found


def _number(interval: Interval) -> str:
    if interval.median:
        return f"median {interval}"
    return stats.plus_minus(interval.value, interval.half_width)


def _ratio(interval: Interval) -> str:
    said = str(interval) if interval.decided else f"{interval.value:.3g}"
    return f"median {said}" if interval.median else said
