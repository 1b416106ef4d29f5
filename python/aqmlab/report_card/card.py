"""The card of a queue: measured values with intervals, and words that compare the values with Drop Tail's.

RFC 7928 characterises queues and sets no limits. For each scenario, a card therefore contains a value, the
ratio of this value to Drop Tail's value in the same scenario (paired by seed), and a word that follows from
the interval of the ratio:

- *alike*: the whole interval is within the margin around 1.
- *better* or *worse*: the interval is entirely on one side of 1, but not entirely within the margin.
- *undecided*: all other cases. With more replications, such a case would be decided.

For measures for which neither a larger nor a smaller value is better, the words are *more* and *less*.
`estimates.py` describes when a median replaces the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from aqmlab import stats
from aqmlab.measures import Quantity
from aqmlab.report_card import parameters, queues
from aqmlab.report_card.estimates import mean_of, ratio_of
from aqmlab.report_card.experiments import (
    MEDIUM,
    PARAMETERS,
    PROJECTED_LOSS,
    SECTIONS,
    SEEDS,
    Section,
    parameter_experiment,
    section,
)
from aqmlab.report_card.measures import named
from aqmlab.report_card.network import RATE_MBPS, Table, room_of
from aqmlab.report_card.properties import NOTES, NUMBERS, PROPERTIES, Better, Compared, Property
from aqmlab.report_card.queues import EQUAL, REFERENCE, ROOMS, SHIPPED
from aqmlab.results.labels import Labels
from aqmlab.results.rule import Estimate
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Measured
from aqmlab.scenario import flat
from aqmlab.stats import Interval
from aqmlab.study.experiment import Experiment

MARGIN = 1.1
"""Values are alike if their ratio is between 1/1.1 and 1.1. The reason is that RFC 7928 lets the tester
choose the buffer size of the queue, and Drop Tail's delay is proportional to the buffer size. A buffer that
is 10 % larger would be an equally valid choice, so a difference of less than 10 % may be caused by this
choice instead of the queue. Delays are also alike if they differ by less than the transmission time of one
full packet."""

ALIKE = stats.within(1 / MARGIN, MARGIN)

Word = Literal["better", "worse", "more", "less", "alike", "undecided", ""]

WORDS: tuple[Word, ...] = ("better", "more", "alike", "less", "worse", "undecided")
"""The words, in the order in which a card lists them."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The entry of a card in one row and one column."""

    value: Interval
    reference: Interval | None
    """The value with which the queue's value is compared, or `None` if there is no such value, as for Drop
    Tail with equal room."""
    ratio: Interval | None
    """The paired ratio, or `None` if the value with which the queue's value is compared is zero."""
    word: Word


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measure of a scenario, with a cell for each column that has values."""

    section: str
    scenario: str
    measure: Quantity
    cells: Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The rows of a card about one property."""

    property: Property
    rows: tuple[Row, ...]

    def words(self, room: str) -> Mapping[Word, list[str]]:
        """Returns the distinct words of a column in the order of `WORDS`. Each word is listed with the
        sections in which it occurs or, if all scenarios belong to one section, with the measures."""
        rows = [row for row in self.rows if room in row.cells]
        by_section = len({row.section for row in rows}) > 1
        found = [(row.cells[room].word, row.section if by_section else row.measure.title) for row in rows]
        return {
            word: list(dict.fromkeys(where for other, where in found if other == word))
            for word in WORDS
            if any(other == word for other, _ in found)
        }

    def ratios(self, room: str) -> tuple[float, float] | None:
        """Returns the smallest and the largest ratio of a column, if all rows show the same measure."""
        cells = [row.cells[room] for row in self.rows if room in row.cells]
        found = [cell.ratio.value for cell in cells if cell.ratio is not None]
        measures = {row.measure.name.rpartition(".")[2] for row in self.rows}
        return (min(found), max(found)) if found and len(measures) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A measure and the measure with which it is compared, at all points of a section."""

    ours: Measured
    theirs: Measured
    better: Better
    reference: str
    floor: float
    """Differences up to this value, in the unit of the measure, count as zero. For delays, this value is the
    transmission time of a full packet."""

    @property
    def near(self) -> Estimate:
        """The ratio of the two measures. Differences up to the floor count as zero."""
        return ratio_of(self.ours, self.theirs, self.reference, self.floor)

    def cell(self, results: ExperimentResults, labels: Labels) -> Cell | None:
        """Returns the cell of a card at a point, or `None` if the point has no value."""
        value, reference = (mean_of(one).interval(results, labels) for one in (self.ours, self.theirs))
        if not value.count:
            return None
        if not reference.count:
            return Cell(value=value, reference=None, ratio=None, word="undecided")
        ratio = ratio_of(self.ours, self.theirs, self.reference).interval(results, labels)
        return Cell(
            value=value,
            reference=reference,
            ratio=ratio if math.isfinite(ratio.value) and reference.value else None,
            word=word(ratio, self.near.interval(results, labels) if self.floor else ratio, self.better),
        )


def word(ratio: Interval, near: Interval, better: Better) -> Word:
    """Returns the word for a ratio. `near` is the interval of the ratio if small differences are counted as
    zero. The word is *alike* if `near` is within the margin."""
    if stats.verdict(near, ALIKE) == "holds":
        return "alike"
    more, less = (stats.verdict(ratio, band) == "holds" for band in (stats.above(1), stats.below(1)))
    if not (more or less):
        return "undecided"
    direction: Better = "more" if more else "less"
    if not better:
        return direction
    return "better" if direction == better else "worse"


@dataclass(frozen=True)
class Card:
    """A queue in the scenarios of the selected sections, with `seeds` replications of each scenario. Raises
    `ValueError` if this kind of queue has no card."""

    name: str
    queue: Table
    seeds: int = SEEDS
    sections: Sequence[Section] = SECTIONS

    def __post_init__(self) -> None:
        queues.check(self.name, self.queue)

    @cached_property
    def experiments(self) -> Mapping[str, Experiment]:
        """The experiments in which the queue can be used, by section number."""
        found = {one.number: one.experiment(self.queue, self.seeds) for one in self.sections}
        if MEDIUM in found:
            found[PARAMETERS] = parameter_experiment(self.queue, self.seeds)
        return {number: one for number, one in found.items() if one is not None}

    def has_column(self, number: str, room: str) -> bool:
        """Returns whether a column has values of the queue in a section."""
        if number not in self.experiments:
            return False
        one = section(number) if number != PARAMETERS else None
        return one is None or (room in one.rooms and one.refusal(self.queue, room) is None)

    @cached_property
    def properties(self) -> tuple[Property, ...]:
        """The properties that the selected scenarios measure."""
        return tuple(
            one for one in PROPERTIES if any(each.section in self.experiments for each in one.compared)
        )

    def sides(self, compared: Compared, reference: str) -> list[Sides]:
        """Returns the measures that a property compares in one section."""
        if compared.section not in self.experiments:
            return []
        experiment = self.experiments[compared.section]
        found = []
        for name in compared.measures:
            ours = experiment[named(name)]
            if compared.section != PARAMETERS:
                ours = ours.among(**section(compared.section).labels_of(name.split(".")[0]))
            theirs = experiment[named(compared.against or name)]
            if compared.section == PARAMETERS:
                theirs = self.experiments[MEDIUM][named(name)].at(line="symmetric", queue=SHIPPED)
            elif compared.ends:
                ours, theirs = ours.at(**compared.ends[0]), theirs.at(**compared.ends[1])
            elif not compared.against:
                theirs = theirs.at(queue=REFERENCE)
            number = MEDIUM if compared.section == PARAMETERS else compared.section
            floor = section(number).packet_ms if ours.unit == "ms" else 0.0
            found.append(
                Sides(ours=ours, theirs=theirs, better=compared.better, reference=reference, floor=floor)
            )
        return found

    def findings(self, results: ExperimentResults) -> tuple[Finding, ...]:
        """Returns the rows of the card for each property."""
        found = (Finding(property=one, rows=tuple(self.rows(one, results))) for one in self.properties)
        return tuple(one for one in found if one.rows)

    def rows(self, property: Property, results: ExperimentResults) -> Iterator[Row]:
        """Returns a row for each measure at each point of each section."""
        for compared in property.compared:
            sides = self.sides(compared, property.reference)
            points: dict[tuple[Any, ...], list[Labels]] = {}
            for labels in mean_of(sides[0].ours).points(results) if sides else ():
                if labels.get("queue") != REFERENCE:
                    point = tuple(value for label, value in labels.items() if label != "queue")
                    points.setdefault(point, []).append(labels)
            for point, several in points.items():
                for one in sides:
                    found = {
                        str(labels.get("queue", SHIPPED)): self._cell(property, one, results, labels)
                        for labels in several
                    }
                    cells = {room: cell for room in ROOMS if (cell := found.get(room)) is not None}
                    if cells:
                        yield Row(
                            section=compared.section.split("-")[0],
                            scenario=self._scenario(compared.section, point, several[0], results),
                            measure=one.ours.measure,
                            cells=cells,
                        )

    def _cell(
        self, property: Property, sides: Sides, results: ExperimentResults, labels: Labels
    ) -> Cell | None:
        if property.beside_drop_tail and queues.is_reference(self.queue, str(labels["queue"])):
            value = mean_of(sides.ours).interval(results, labels)
            return Cell(value=value, reference=None, ratio=None, word="") if value.count else None
        return sides.cell(results, labels)

    def _scenario(
        self, number: str, point: tuple[Any, ...], labels: Labels, results: ExperimentResults
    ) -> str:
        """Returns the name of a scenario. For congestion scenarios, the name contains the projected loss and
        Drop Tail's loss."""
        at = ", ".join(map(str, point))
        if number == PARAMETERS:
            return at
        title = f"{section(number).title}, {at}" if at else section(number).title
        if number not in PROJECTED_LOSS:
            return title
        drops = self.experiments[number][named("long.drops")].at(queue=REFERENCE)
        lost = mean_of(drops).interval(results, labels).value
        return f"{title} (projected loss {PROJECTED_LOSS[number]:g} %, Drop Tail's {lost:.2g} %)"

    def numbers(self, results: ExperimentResults) -> list[tuple[str, Cell]]:
        """Returns the queue's numbers in the table of all queues, with the column headings. A measure is
        omitted if its section was not run."""
        found = []
        for one in self.sides(NUMBERS, REFERENCE):
            labels = {"line": "symmetric", "queue": self.main_room}
            cell = self._cell(PROPERTIES[0], one, results, labels)
            if cell is not None:
                found.append((one.ours.measure.label, cell))
        return found

    @cached_property
    def columns(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns, for each column, the queue's parameters on the main link that differ from the defaults, by
        path. A column is omitted if the queue cannot have this column."""
        tables = {EQUAL: self.queue, SHIPPED: queues.shipped(self.queue)}
        found = {room: flat(table) for room, table in tables.items()}
        for given in found.values():
            del given["kind"]
        if queues.room_refusal(self.queue, EQUAL) is None:
            found[EQUAL] |= queues.bounds(self.queue, room_of())
        else:
            del found[EQUAL]
        return found

    @property
    def main_room(self) -> str:
        """The column that represents the queue in the table of all queues."""
        return EQUAL if EQUAL in self.columns else SHIPPED

    def notes(self) -> Iterator[str]:
        """Returns sentences with explanations that a reader needs to understand the queue's results."""
        kind = self.queue["kind"]
        if kind in NOTES:
            yield NOTES[kind]
        why = queues.room_refusal(self.queue, EQUAL)
        if why is not None:
            yield f"This queue cannot have Drop Tail's room, so the card only has the defaults: {why}."
        left_out: dict[tuple[str, str], list[str]] = {}
        for one in self.sections:
            for room in one.rooms:
                reason = one.refusal(self.queue, room)
                if reason is not None and (room == SHIPPED or why is None):
                    left_out.setdefault((one.title, reason), []).append(room)
        if PARAMETERS in self.experiments:
            rate = f"{RATE_MBPS:g}Mbps"
            refused = parameters.variants(queues.shipped(self.queue), rate).refused
            left_out |= {variant: [] for variant in refused.items()}
        for (what, reason), rooms in left_out.items():
            column = f" ({EQUAL} only)" if rooms == [EQUAL] else ""
            yield f"Not measured: {what}{column}: {reason}."
