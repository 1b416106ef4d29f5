"""What a card says of a queue: measured values with intervals, and words for how they compare.

RFC 7928 characterises and sets no limits. So a card holds, scenario by scenario, a value and its ratio to
the value of Drop Tail in the same scenario, run by run with the same seed, and a word that follows from the
interval of the ratio:

- *better* or *worse*: the interval lies on one side of 1, and not wholly within the margin.
- *alike*: the interval lies wholly within the margin around 1 (two one-sided tests).
- *undecided*: neither. More replications would decide.

Where neither direction is better, the words are *more* and *less*. `estimates.py` says when a median stands
in place of a mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from aqmlab import stats
from aqmlab.report_card import estimates
from aqmlab.report_card.experiments import PROJECTED_LOSS, SECTIONS
from aqmlab.report_card.measures import TITLES
from aqmlab.report_card.network import DROP_TAIL
from aqmlab.report_card.properties import NOTES, PROPERTIES, Better, Compared, Property
from aqmlab.report_card.queues import EQUAL, ROOMS, SHIPPED
from aqmlab.report_card.values import PARAMETERS, Values
from aqmlab.stats import Interval

MARGIN = 1.1
"""Values whose ratio lies between 1/1.1 and 1.1 are alike. The argument: RFC 7928 leaves the room of the
queue to the tester, and Drop Tail's delay is proportional to that room. A room that is a tenth larger is as
good a choice, so a difference of less than a tenth says no more of a queue than of the choice of the line.
Delays that differ by less than the time of one full packet are alike as well."""

Word = Literal["better", "worse", "more", "less", "alike", "undecided", ""]

WORDS: tuple[Word, ...] = ("better", "more", "alike", "less", "worse", "undecided")
"""The words in the order in which a card lists them."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one column of a card says in a row."""

    value: Interval
    reference: Interval | None
    """The other side; nothing if there is none, as of Drop Tail with equal room."""
    ratio: Interval | None
    """The paired ratio; nothing where the reference is zero."""
    word: Word


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measure of a scenario, in each column that has it."""

    section: str
    scenario: str
    measure: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a card says of one property."""

    property: Property
    rows: tuple[Row, ...]

    def words(self, room: str) -> Mapping[Word, list[str]]:
        """The different words of a column in the order of `WORDS`, each with where it is found: by section,
        or by measure if all scenarios are of one section."""
        rows = [row for row in self.rows if room in row.cells]
        by_section = len({row.section for row in rows}) > 1
        found = [
            (row.cells[room].word, row.section if by_section else row.measure.split(" (")[0]) for row in rows
        ]
        return {
            word: list(dict.fromkeys(where for other, where in found if other == word))
            for word in WORDS
            if any(other == word for other, _ in found)
        }

    def ratios(self, room: str) -> tuple[float, float] | None:
        """The least and the largest ratio of a column, if all rows are of one measure."""
        found = [
            cell.ratio.value
            for row in self.rows
            if (cell := row.cells.get(room)) is not None and cell.ratio is not None
        ]
        measures = {row.measure.split(":")[-1] for row in self.rows}
        return (min(found), max(found)) if found and len(measures) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Card:
    """The card of a queue."""

    queue: str
    rooms: Mapping[str, Mapping[str, Any]]
    """By column, the parameters of the queue that are no defaults, by path."""
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    """What a reader must know of this queue, in sentences."""


class Characterisation:
    """The cards that follow from values."""

    def __init__(self, values: Values) -> None:
        self.values = values

    @cached_property
    def _found(self) -> Mapping[tuple[str, ...], Mapping[int, float]]:
        """The values by seed, by queue, room, section, point and measure."""
        found: dict[tuple[str, ...], dict[int, float]] = {}
        for *key, seed, value in self.values.frame.iter_rows():
            found.setdefault(tuple(key), {})[seed] = value
        return found

    @cached_property
    def _points(self) -> Mapping[tuple[str, str], list[tuple[str, str]]]:
        """By queue and section, the room and point of each measured scenario, in the order of runs."""
        found: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        for queue, room, section, point, _ in self._found:
            found.setdefault((queue, section), {})[(room, point)] = None
        return {key: list(one) for key, one in found.items()}

    def interval(self, queue: str, room: str, section: str, point: str, measure: str) -> Interval | None:
        """What stands for the runs of a scenario, with its interval; nothing if there is no value."""
        found = self._found.get((queue, room, section, point, measure))
        return None if found is None else estimates.mean(list(found.values()))

    def runs(
        self, queue: str, room: str, section: str, point: str, measures: tuple[str, str]
    ) -> list[tuple[float, float]]:
        """Two measures of each run of a scenario."""
        first, second = (self._found.get((queue, room, section, point, one), {}) for one in measures)
        return [(first[seed], second[seed]) for seed in first if seed in second]

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """A card for each queue, by name."""
        return tuple(self.card(name) for name in self.values.cards)

    def card(self, queue: str) -> Card:
        """The card of a queue."""
        return Card(
            queue=queue,
            rooms=self.values.given(queue),
            findings=tuple(
                Finding(property=one, rows=rows)
                for one in PROPERTIES
                if (rows := tuple(self._rows(queue, one)))
            ),
            notes=tuple(self._notes(queue)),
        )

    def _rows(self, queue: str, property: Property) -> Iterator[Row]:
        for compared in property.compared:
            points: dict[str, list[str]] = {}
            for room, point in self._points.get((queue, compared.section), ()):
                points.setdefault(point, []).append(room)
            for point, rooms in points.items():
                for measure in compared.measures:
                    cells = {
                        room: cell
                        for room in ROOMS
                        if room in rooms
                        and (cell := self.cell(queue, room, compared, point, measure)) is not None
                    }
                    if cells:
                        yield Row(
                            section=compared.section.split("-")[0],
                            scenario=self._scenario(compared, point),
                            measure=title(measure),
                            cells=cells,
                        )

    def cell(self, queue: str, room: str, compared: Compared, point: str, measure: str) -> Cell | None:
        """What a column says of a measure at a point of the axes; nothing if there is no value, or if the
        value is what another one is compared with."""
        ours = (queue, room, compared.section, point, measure)
        theirs = _other(ours, compared)
        if theirs is None or ours not in self._found:
            return None
        first = self._found[ours]
        value = estimates.mean(list(first.values()))
        if theirs == ours:
            return Cell(value=value, reference=None, ratio=None, word="")
        second = self._found.get(theirs)
        if second is None:
            return Cell(value=value, reference=None, ratio=None, word="undecided")
        seeds = sorted(set(first) & set(second))
        pairs = [first[seed] for seed in seeds], [second[seed] for seed in seeds]
        in_ms = TITLES[measure.split(".", 1)[1]][1] == "ms"
        floor = _packet_ms(compared.section) if in_ms else 0.0
        ratio = estimates.ratio(*pairs)
        return Cell(
            value=value,
            reference=estimates.mean(list(second.values())),
            ratio=None if math.isnan(ratio.value) else ratio,
            word=word(*pairs, better=compared.better, floor=floor),
        )

    def _scenario(self, compared: Compared, point: str) -> str:
        """A scenario in words, of congestion with the projected loss and what Drop Tail lost."""
        if compared.section == PARAMETERS:
            return point
        said = next(one.title for one in SECTIONS if one.number == compared.section)
        point = point.removesuffix(compared.end[0]).removesuffix(", ")
        if point:
            said += f", {point}"
        projected = PROJECTED_LOSS.get(compared.section)
        lost = self.interval(DROP_TAIL, EQUAL, compared.section, point, "long.loss")
        if projected is None or lost is None:
            return said
        return f"{said} (projected loss {projected:g} %, Drop Tail's {lost.value:.2g} %)"

    def _notes(self, queue: str) -> Iterator[str]:
        kind = self.values.queues[queue]["kind"]
        if kind in NOTES:
            yield NOTES[kind]
        why = self.values.refusal(queue, EQUAL)
        if why is not None:
            yield f"This queue cannot have Drop Tail's room, so the card has the defaults only: {why}."
        left_out: dict[tuple[str, str], list[str]] = {}
        for scenario, reason in self.values.refused.get(queue, {}).items():
            section, _, room = scenario.rpartition(" ")
            if room not in ROOMS:
                left_out[scenario, reason] = []
            elif room == SHIPPED or why is None:
                name = next(one.title for one in SECTIONS if one.number == section)
                left_out.setdefault((name, reason), []).append(room)
        for (what, reason), rooms in left_out.items():
            column = f" ({rooms[0]} room only)" if rooms == [EQUAL] else ""
            yield f"Not measured: {what}{column}: {reason}."


def word(ours: Sequence[float], theirs: Sequence[float], *, better: Better, floor: float = 0.0) -> Word:
    """The word for values beside others, run by run: `floor` is the difference up to which they are alike.

    Where the others are all zero there is no ratio, and the difference decides."""
    mean = math.fsum(theirs) / len(theirs) if theirs else math.nan
    if mean > 0:
        found, middle = estimates.ratio(ours, theirs), 1.0
        low, high = min(1 / MARGIN, 1 - floor / mean), max(MARGIN, 1 + floor / mean)
    else:
        found, middle = estimates.difference(ours, theirs), 0.0
        low, high = -floor, floor
    if stats.verdict(found, stats.within(low, high)) == "holds":
        return "alike"
    more, less = (
        stats.verdict(found, band) == "holds" for band in (stats.above(middle), stats.below(middle))
    )
    if not (more or less):
        return "undecided"
    direction: Better = "more" if more else "less"
    if not better:
        return direction
    return "better" if direction == better else "worse"


def _other(key: tuple[str, ...], compared: Compared) -> tuple[str, ...] | None:
    """The other side of a comparison; nothing if the value is the other side of another comparison."""
    queue, room, section, point, measure = key
    if section == PARAMETERS:
        return queue, SHIPPED, "8.2.3", "symmetric", measure
    if compared.against:
        return queue, room, section, point, compared.against
    ours, theirs = compared.end
    if not ours:
        return DROP_TAIL, EQUAL, section, point, measure
    if not point.endswith(ours):
        return None
    return queue, room, section, f"{point.removesuffix(ours)}{theirs}", measure


WORKLOADS: Mapping[str, str] = {"long": "", "all": "", "a": "both queues: ", "b": "second queue: "}
"""What stands before a measure of a workload, if not its name."""


def title(measure: str) -> str:
    """A measure in words, with the workload where the scenario has several."""
    workload, what = measure.split(".", 1)
    said, unit = TITLES[what]
    name = WORKLOADS.get(workload, f"{workload}: ")
    return f"{name}{said} ({unit})" if unit else f"{name}{said}"


def _packet_ms(section: str) -> float:
    number = "8.2.3" if section == PARAMETERS else section
    return next(one.packet_ms for one in SECTIONS if one.number == number)
