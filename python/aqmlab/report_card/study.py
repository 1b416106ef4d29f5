"""Represents the card of a queue as a study, with scenarios, a claim and a table for each property, and a
figure.

RFC 7928 sets no limits, so the claims are aqmlab's choice: the queue is not worse than Drop Tail by more than
the margin in any scenario. For measures for which neither a larger nor a smaller value is better, the claim
is that the queue and Drop Tail are alike in every scenario.
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
"""The sections for which a card shows ellipses, on the symmetric link."""

SUMMARY = "summary"

WITHIN = f"between {1 / MARGIN:.2f} and {MARGIN:g}"

WORDS = (
    "A value is better or worse if the interval of its ratio is entirely on one side of 1, alike if the "
    f"whole interval is {WITHIN} or within the transmission time of one packet, and undecided if the runs "
    "do not decide. If neither direction is better, the words are more and less."
)

CLAIMED = (
    f"✓ nowhere worse by more than a factor of {MARGIN:g} (if neither direction is better: every ratio is"
    f"\n{WITHIN}), ✗ worse somewhere, ? undecided"
)
"""Legend of the signs before the words of a property."""

GROUPS = (
    "If the runs of a scenario fall into groups (according to the dip test, or to a step of more than a "
    f"factor of {STEP:g}), the median with its exact interval replaces the mean."
)

DECISIONS = (
    Decision(
        question="How much room does the queue have?",
        decision=f"The bandwidth-delay product, on the main link {tables.ROOM}, for Drop Tail and for the "
        f"column {EQUAL}; the room of its defaults in the other column.",
        reason="The RFC lets the tester choose the room, and the delay of Drop Tail is proportional to the "
        "room.",
    ),
    Decision(
        question="When are two values alike?",
        decision=f"If the interval of their ratio is {WITHIN}, or if delays differ by less than the "
        "transmission time of one full packet.",
        reason="A room larger by 10 % would be an equally valid choice, so a difference below 10 % may "
        "be caused by this choice instead of the queue.",
    ),
    Decision(
        question="Which number represents replications that fall into groups, such as calm and collapsed "
        "runs?",
        decision=GROUPS,
        reason="The mean is far from the value of every run.",
    ),
)


def study(name: str, queue: Queue, *, replications: int = SEEDS) -> Study:
    """Returns the card of a queue with this number of replications. Raises `ValueError` if this kind of queue
    has no card."""
    return of_card(Card(name, queue, replications))


def of_card(card: Card) -> Study:
    """Returns a card as a study."""
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
        question=f"How does {card.name} behave in the scenarios of RFC 7928, compared with Drop Tail?",
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
    """Returns the suffix of the ID of a claim that is judged for a column."""
    return f"-{room.replace(' ', '-')}"


def _leaves_out(card: Card, property: Property, room: str) -> str:
    """Returns the reason why a property is not judged in a column, or an empty string if the property is
    judged."""
    if property.beside_drop_tail and queues.is_reference(card.queue, room):
        return "other queues are compared with this queue"
    measured = any(card.has_column(one.section, room) for one in property.compared)
    return "" if measured else "none of the property's scenarios allows the queue in this column"


def _columns(card: Card) -> Iterator[str]:
    for room, given in card.columns.items():
        said = ", ".join(tables.written(given)) or "every parameter at its default"
        yield f"{tables.TITLES[room]}: {said}."


def ellipses(card: Card, results: ExperimentResults) -> Chart:
    """Plots goodput against mean delay, with a panel for each scenario of `PICTURED` and an ellipse for each
    column.

    Raises `ValueError` if none of these scenarios was run."""
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
