"""Writes report cards as pages of the documentation: a table of all queues, and a page for each queue.

`aqmlab report-card --pages FOLDER` writes the values and the table, which are stored with the documentation.
The pages of the queues are generated from the values when the documentation is built (`docs/conf.py`)."""

from __future__ import annotations

import json
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from aqmlab import stats
from aqmlab._support.files import write_bytes, write_text
from aqmlab.charts.chart import save
from aqmlab.report_card import queues, tables
from aqmlab.report_card.card import Card, Finding
from aqmlab.report_card.estimates import DIGITS
from aqmlab.report_card.experiments import MEDIUM, congesting
from aqmlab.report_card.properties import OVERVIEW
from aqmlab.report_card.queues import EQUAL
from aqmlab.report_card.study import GROUPS, PICTURED, WORDS, ellipses, of_card
from aqmlab.results.table import ExperimentResults
from aqmlab.study import values as study_values

VALUES = "values"
"""The folder that contains the values, with a file for each queue."""

WIDTH = 118


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A card with the values of its runs."""

    card: Card
    results: ExperimentResults
    findings: tuple[Finding, ...]
    runs: frozenset[tuple[str, int]]
    """The runs, as pairs of a scenario's digest and a seed."""
    quick: bool
    version: str
    results_version: str

    @property
    def replications(self) -> int:
        """The number of runs of each scenario."""
        return len({seed for _, seed in self.runs})


def read(path: Path, card: Card | None = None) -> Measured:
    """Reads a file of values. The file was written either by a run of this card, or by `write`, whose files
    contain the queue's name.

    Raises `ValueError` if the file does not contain values of a report card."""
    try:
        about = study_values.metadata_of(path)
        card = card or Card(path.stem, json.loads(about["queue"]))
    except (KeyError, OSError, pl.exceptions.PolarsError) as problem:
        raise ValueError(f"{path}: does not contain values of a report card: {problem}") from None
    found = study_values.read(path, of_card(card))
    runs = pl.read_parquet(path, columns=["scenario", "seed"]).unique()
    return Measured(
        card=card,
        results=found.main,
        findings=card.findings(found.main),
        runs=frozenset(runs.iter_rows()),
        quick=found.quick,
        version=about["version"],
        results_version=about["results_version"],
    )


def write(cards: Sequence[tuple[Card, Path]], folder: Path) -> Path:
    """Publishes the values of cards, and writes the table of all queues and the page of each queue. Each card
    is given with the file that its runs wrote. Returns the path of the table."""
    (folder / VALUES).mkdir(parents=True, exist_ok=True)
    for card, path in cards:
        target = folder / VALUES / f"{card.name}.parquet"
        study_values.publish(path, target, digits=DIGITS, queue=json.dumps(card.queue))
    return draw(folder)


def draw(folder: Path) -> Path:
    """Writes the table of all queues, and the page and the picture of each queue, from the values in a
    folder. Returns the path of the table."""
    cards = read_all(folder)
    for one in cards:
        name = one.card.name
        pictured = any(number in one.card.experiments for number in PICTURED)
        if pictured:
            with tempfile.TemporaryDirectory() as drawn:
                chart = ellipses(one.card, one.results)
                picture = save(chart, Path(drawn), name, pictures=("svg",))["svg"]
                write_bytes(folder / picture.name, picture.read_bytes())
        write_text(folder / f"{name}.md", page(one))
    index = folder / "index.md"
    write_text(index, overview(cards))
    return index


def read_all(folder: Path) -> list[Measured]:
    """Returns the cards whose values are in a folder, sorted by name."""
    paths = sorted((folder / VALUES).glob("*.parquet"), key=lambda path: path.stem)
    return [read(path) for path in paths]


def overview(cards: Sequence[Measured]) -> str:
    """Returns the table of all queues, with a row for each queue, sorted by name, and a column for each
    property."""
    lines = [
        "# Report cards of all queues",
        "",
        _wrapped(
            "Behaviour of each queue discipline in the scenarios of RFC 7928, compared with Drop Tail. The "
            "RFC characterises queues and sets no limits, so this table contains words instead of marks, "
            "and queues are sorted by name. A cell lists every word that occurs in the scenarios of a "
            "property; the card of a queue contains the scenarios and the numbers. Every queue has room for "
            f"{tables.ROOM}; a star marks queues that cannot have this room and therefore have their "
            "defaults. [The guide](../guides/report-card.md) describes scenarios and words."
        ),
        "",
        _wrapped(method(cards)),
        "",
        *(
            [
                _wrapped(
                    "All other queues are compared with Drop Tail with equal room. The row of Drop Tail "
                    "has a word only for properties that compare a queue with itself."
                ),
                "",
            ]
            if any(queues.is_reference(one.card.queue, EQUAL) for one in cards)
            else []
        ),
        *_piped(["Queue", *OVERVIEW], [_words(one) for one in cards]),
    ]
    numbers = [_numbers(one) for one in cards]
    heads = next((head for head, _ in numbers if head), [])
    if heads:
        about = (
            f"Numbers of one scenario: medium congestion on the symmetric link (section {MEDIUM}), "
            f"{congesting('medium')} bulk transfers, in the same column as above. The delay variation of a "
            "packet is its wait minus the minimum wait of all packets. If a ratio is above 1, the value is "
            "larger than Drop Tail's."
        )
        lines += ["", _wrapped(about), "", *_piped(heads, [row for _, row in numbers if row])]
    lines += ["", "```{toctree}", ":caption: Cards", ":glob:", "", "*", "```", ""]
    return "\n".join(lines)


def _words(one: Measured) -> list[str]:
    words = {each.property.name: ", ".join(each.words(one.card.main_room)) for each in one.findings}
    return [_marked_name(one.card), *(words.get(name, "") for name in OVERVIEW)]


def _numbers(one: Measured) -> tuple[list[str], list[str]]:
    """Returns the headings and the row of a queue in the table of numbers. The result is empty if there are
    no values."""
    heads, row = ["Queue"], [_marked_name(one.card)]
    for head, cell in one.card.numbers(one.results):
        heads += [head, "over Drop Tail's"]
        row += [tables.number(cell.value), tables.ratio(cell)]
    return (heads, row) if len(row) > 1 else ([], [])


def _marked_name(card: Card) -> str:
    """Returns the name of a queue, with an asterisk if the queue cannot have equal room."""
    return card.name if card.main_room == EQUAL else f"{card.name} \\*"


def page(one: Measured) -> str:
    """Returns the page of a queue's card."""
    card = one.card
    lines = [
        f"# {card.name}",
        "",
        _wrapped(
            f"Behaviour of `{card.name}` in the scenarios of RFC 7928. The compared Drop Tail queue has room "
            f"for {tables.ROOM}, in both columns. {method([one])}"
        ),
        "",
    ]
    for room, given in card.columns.items():
        text = ", ".join(f"`{each}`" for each in tables.written(given)) or "every parameter at its default"
        lines.append(_wrapped(f"- **{tables.TITLES[room]}**: {text}"))
    lines.append("")
    for note in card.notes():
        lines += [_wrapped(note), ""]
    if any(number in card.experiments for number in PICTURED):
        lines += [f"![Goodput against delay, {card.name} and Drop Tail]({card.name}.svg)", ""]
    lines += ["## Summary", "", *_sheet(tables.summary(one.findings)), ""]
    for finding in one.findings:
        lines += [f"## {finding.property.title}", "", _wrapped(finding.property.about), ""]
        lines += [*_sheet(tables.details(finding)), ""]
    return "\n".join(lines)


def method(cards: Sequence[Measured]) -> str:
    """Returns text that describes the method of these cards: replications, runs, intervals, and the meaning
    of the words."""
    runs = len(frozenset[tuple[str, int]]().union(*(one.runs for one in cards)))
    replications = max(one.replications for one in cards)
    form = ", in the quick form" if any(one.quick for one in cards) else ""
    versions = " and ".join(sorted({one.version for one in cards}))
    results = " and ".join(sorted({one.results_version for one in cards}))
    return (
        f"{replications} replications of each scenario{form}: {runs:,} runs of aqmlab {versions}, results "
        f"version {results}. Each individual interval has the confidence level {100 * stats.LEVEL:g} %, "
        "without a correction for the number of intervals. A ratio is paired: both sides use the same "
        f"random numbers. {GROUPS} {WORDS}"
    )


def _sheet(table: pl.DataFrame) -> Iterator[str]:
    return _piped(table.columns, table.rows())


def _piped(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))
