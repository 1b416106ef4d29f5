"""The card of a queue as a study: its scenarios, a claim and a table for each property, and a figure.

RFC 7928 sets no limits, so the claims are ours: that the queue is in no scenario worse than Drop Tail by more
than the margin, and, where neither direction is better, that it is alike in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import polars as pl

from aqmlab import stats
from aqmlab.charts.chart import Chart
from aqmlab.report_card import queues, tables
from aqmlab.report_card.card import ALIKE, MARGIN, Card, Finding, Sides
from aqmlab.report_card.estimates import STEP
from aqmlab.report_card.experiments import MEDIUM, PARAMETERS, SEEDS, section
from aqmlab.report_card.measures import named
from aqmlab.report_card.network import Table as Queue
from aqmlab.report_card.properties import Property
from aqmlab.report_card.queues import EQUAL, REFERENCE, ROOMS
from aqmlab.results.rule import Rule, every
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import series
from aqmlab.study.publication import Claim, Decision, Figure, Reading, Study, Table

RFC = "N. Kuhn et al., Characterization Guidelines for Active Queue Management (AQM), RFC 7928, July 2016"

PICTURED = ("5.1.1", "5.2", "8.2.3")
"""The sections whose ellipses, on the symmetric line, stand on a card."""

SUMMARY = "summary"

WITHIN = f"between {1 / MARGIN:.2f} and {MARGIN:g}"

WORDS = (
    "Values are better or worse if the interval of their ratio lies on one side of 1, alike if the whole "
    f"interval lies {WITHIN} or within the time of one packet, and undecided if the runs do not tell. They "
    "are more or less where neither direction is better."
)

CLAIMED = (
    f"✓ nowhere worse by more than a factor of {MARGIN:g} (where neither direction is better: every ratio is"
    f"\n{WITHIN}), ✗ that is not so, ? undecided"
)
"""What the sign before the words of a property says."""

GROUPS = (
    "Where the runs of a scenario fall into groups (by the dip test, or by a step of more than a factor of "
    f"{STEP:g}), the median with its exact interval stands in place of the mean."
)

DECISIONS = (
    Decision(
        question="How much room has the queue?",
        decision=f"The bandwidth-delay product, on the main line {tables.ROOM}, for Drop Tail and for the "
        f"column {EQUAL}; the room of its defaults in the other column.",
        reason="The RFC leaves the room to the tester, and delay behind Drop Tail is proportional to it.",
    ),
    Decision(
        question="When are two values alike?",
        decision=f"If the interval of their ratio lies {WITHIN}, or if delays differ by less than the time "
        "of one full packet.",
        reason="A room that is a tenth larger is as good a choice, so a difference of less than a tenth says "
        "no more of a queue than of the choice of the line.",
    ),
    Decision(
        question="What stands for replications that fall into groups, calm and collapsed ones?",
        decision=GROUPS,
        reason="The mean is a number that no run shows.",
    ),
)


def study(name: str, queue: Queue, *, replications: int = SEEDS) -> Study:
    """The card of a queue with so many replications. Raises `ValueError` if the queue gets no card."""
    return of_card(Card(name, queue, replications))


def of_card(card: Card) -> Study:
    """A card as a study."""
    parts = [part for one in card.properties for part in _of_property(card, one)]
    return Study.of(
        f"report-card-{card.name}",
        f"Report card: {card.name}",
        *card.experiments.values(),
        Figure(
            "ellipses",
            "Goodput against delay",
            partial(ellipses, card),
            "The median of the runs, and the contour of one standard deviation of the normal distribution "
            "that fits them.",
            shows=tuple(one for number in PICTURED if (one := card.experiments.get(number))),
        ),
        Table(SUMMARY, "Summary", lambda results: tables.summary(card.findings(results)), WORDS),
        *parts,
        *DECISIONS,
        paper=RFC,
        question=f"How does {card.name} behave in the scenarios of RFC 7928, beside Drop Tail?",
        readings=tuple(_reading(card, room) for room in ROOMS),
        answer=lambda _: [*_columns(card), *card.notes()],
    )


def _of_property(card: Card, property: Property) -> Iterator[Claim | Table]:
    rules = [
        _rule(sides) for compared in property.compared for sides in card.sides(compared, property.reference)
    ]
    described = all(one.better == "" for one in property.compared)
    nowhere = f"nowhere worse than that of {property.reference} by more than a factor of {MARGIN:g}"
    everywhere = f"every ratio to that of {property.reference} lies {WITHIN}"
    yield Claim(
        property.id,
        f"{property.title}: {everywhere if described else nowhere}.",
        every(*rules),
        figures=(property.id,),
        origin="ours",
    )

    numbers = dict.fromkeys(one.section for one in property.compared)
    if PARAMETERS in numbers:
        numbers[MEDIUM] = None

    def tabulate(results: ExperimentResults) -> pl.DataFrame:
        return tables.details(Finding(property=property, rows=tuple(card.rows(property, results))))

    yield Table(
        property.id,
        property.title,
        tabulate,
        property.about.replace("*", ""),
        shows=tuple(card.experiments[number] for number in numbers if number in card.experiments),
    )


def _rule(sides: Sides) -> Rule:
    bands = {"less": stats.at_most(MARGIN), "more": stats.at_least(1 / MARGIN), "": ALIKE}
    return sides.near.in_band(bands[sides.better])


def _reading(card: Card, room: str) -> Reading:
    left_out = {one.id: why for one in card.properties if (why := _leaves_out(card, one, room))}
    return Reading(name=room, labels={"queue": room}, suffix=suffix(room), leaves_out=left_out)


def suffix(room: str) -> str:
    """What follows the id of a claim that is judged for a column."""
    return f"-{room.replace(' ', '-')}"


def _leaves_out(card: Card, property: Property, room: str) -> str:
    """Why a property is not judged in a column; nothing if it is."""
    if property.beside_drop_tail and queues.is_reference(card.queue, room):
        return "it is what others are compared with"
    there = any(card.stands(one.section, room) for one in property.compared)
    return "" if there else "the queue stands in none of its scenarios in this column"


def _columns(card: Card) -> Iterator[str]:
    for room, given in card.columns.items():
        said = ", ".join(tables.written(given)) or "every parameter at its default"
        yield f"{tables.TITLES[room]}: {said}."


def ellipses(card: Card, results: ExperimentResults) -> Chart:
    """Goodput against mean delay, a panel for each scenario of `PICTURED`, an ellipse for each column.

    Raises `ValueError` if no such scenario was run."""
    rooms = [room for room in (REFERENCE, *ROOMS) if not queues.is_reference(card.queue, room)]
    rows = []
    for number in PICTURED:
        if number not in card.experiments:
            continue
        experiment = card.experiments[number]
        runs = results[experiment.name]
        for room in rooms:
            found = [
                series(experiment[named(one)].at(line="symmetric", queue=room), results, {}, runs.seeds)
                for one in ("long.delay", "long.goodput")
            ]
            for part, x, y in stats.ellipse(list(zip(*found, strict=True))):
                rows.append((section(number).title, room, part, x, y))
    if not rows:
        raise ValueError(f"none of the sections {', '.join(PICTURED)} was run")
    return Chart(
        kind="ellipses",
        table=pl.DataFrame(rows, schema=["panel", "queue", "part", "delay_ms", "goodput_mbps"], orient="row"),
        x="delay_ms",
        y="goodput_mbps",
        by="queue",
        panel="panel",
        x_label="mean queueing delay (ms)",
        y_label="goodput (Mb/s)",
    )
