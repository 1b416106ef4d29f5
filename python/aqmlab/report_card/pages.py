"""Report cards as pages of the documentation: a table over all queues, and a page for each.

`aqmlab report-card --pages FOLDER` writes the values and the table, which are kept with the documentation.
The pages of the queues are drawn from the values whenever the site is built (`docs/conf.py`)."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from aqmlab._support.files import write_bytes, write_text
from aqmlab.charts.chart import save
from aqmlab.report_card import tables
from aqmlab.report_card.characterisation import Card, Characterisation
from aqmlab.report_card.experiments import congesting
from aqmlab.report_card.figures import ellipses
from aqmlab.report_card.network import DROP_TAIL
from aqmlab.report_card.properties import NUMBERS, OVERVIEW
from aqmlab.report_card.tables import Sheet
from aqmlab.report_card.values import FILE, Values

WIDTH = 118


def write(values: Values, folder: Path) -> list[Path]:
    """Writes the values, the table over all queues and the page of each queue; returns the pages."""
    values.write(folder / FILE)
    index = folder / "index.md"
    write_text(index, overview(Characterisation(values)))
    return [index, *draw(folder)]


def draw(folder: Path) -> list[Path]:
    """Writes the page and the picture of each queue from the values in a folder; returns the pages."""
    found = Characterisation(Values.read(folder / FILE))
    pages = []
    for one in found.cards:
        chart = ellipses(found, one.queue)
        if chart is not None:
            with tempfile.TemporaryDirectory() as drawn:
                picture = save(chart, Path(drawn), one.queue, pictures=("svg",))["svg"]
                write_bytes(folder / picture.name, picture.read_bytes())
        pages.append(folder / f"{one.queue}.md")
        write_text(pages[-1], page(found, one, pictured=chart is not None))
    return pages


def overview(found: Characterisation) -> str:
    """The table over all queues, by name: a line for each queue, a column for each property."""
    lines = [
        "# Report cards of all queues",
        "",
        _wrapped(
            "How each queue discipline behaves in the scenarios of RFC 7928, beside Drop Tail. The "
            "RFC characterises and sets no limits, so this table holds words and no marks, and the "
            "order is that of names. A cell lists every word that the scenarios of a property have;"
            " the card of a queue has the scenarios and the numbers. Every queue has room for "
            f"{tables.ROOM}; a star marks queues that cannot have this room, and have their "
            "defaults. [The guide](../guides/report-card.md) describes scenarios and words."
        ),
        "",
        _wrapped(tables.method(found.values)),
        "",
        *(
            [
                _wrapped(
                    "Drop Tail with equal room is what the others are compared with. Its line has a word "
                    "only where a queue is compared with itself."
                ),
                "",
            ]
            if DROP_TAIL in found.values.cards
            else []
        ),
        f"| Queue | {' | '.join(OVERVIEW)} |",
        f"| --- | {' | '.join('---' for _ in OVERVIEW)} |",
    ]
    for card in found.cards:
        words = {one.property.name: ", ".join(one.words(tables.main_room(card))) for one in card.findings}
        lines.append(f"| {tables.starred(card)} | {' | '.join(words.get(name, '') for name in OVERVIEW)} |")
    numbers = tables.numbers(found)
    if numbers.rows:
        about = (
            "Numbers of one scenario: medium congestion on the symmetric line (section "
            f"{NUMBERS[0].section}), {congesting('medium')} bulk transfers, in the same column as "
            "above. The delay variation of a packet is its wait beyond the least wait of all packets. Where "
            "a ratio is above 1, the value is larger than Drop Tail's."
        )
        lines += ["", _wrapped(about), "", *_sheet(numbers)]
    lines += ["", "```{toctree}", ":caption: Cards", ":glob:", "", "*", "```", ""]
    return "\n".join(lines)


def page(found: Characterisation, card: Card, *, pictured: bool = False) -> str:
    """The card of a queue."""
    lines = [
        f"# {card.queue}",
        "",
        _wrapped(
            f"How `{card.queue}` behaves in the scenarios of RFC 7928. Drop Tail beside it has room "
            f"for {tables.ROOM}, in both columns. {tables.method(found.values)}"
        ),
        "",
        *(_room(title, parameters) for title, parameters in tables.rooms(card).items()),
        "",
    ]
    for note in card.notes:
        lines += [_wrapped(note), ""]
    if pictured:
        lines += [f"![Goodput against delay, {card.queue} beside Drop Tail]({card.queue}.svg)", ""]
    lines += ["## Summary", "", *_sheet(tables.summary(card)), ""]
    for finding in card.findings:
        lines += [f"## {finding.property.title}", "", _wrapped(finding.property.about), ""]
        lines += [*_sheet(tables.details(finding)), ""]
    return "\n".join(lines)


def _room(title: str, parameters: tuple[str, ...]) -> str:
    """A column and its parameters as an item of a list."""
    given = ", ".join(f"`{one}`" for one in parameters) or "every parameter at its default"
    return _wrapped(f"- **{title}**: {given}")


def _sheet(sheet: Sheet) -> Iterator[str]:
    yield f"| {' | '.join(sheet.head)} |"
    yield f"| {' | '.join('---' for _ in sheet.head)} |"
    for row in sheet.rows:
        yield f"| {' | '.join(one.said for one in row)} |"


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))
