"""Report cards: the scenarios of RFC 7928 for any queue, and what they say of it.

N. Kuhn et al.: Characterization Guidelines for Active Queue Management (AQM),
RFC 7928, July 2016. Every queue meets the same scenarios on the same lines with the same room as Drop Tail,
and a requirement is a rule that is judged by a 95 % interval, seed by seed beside Drop Tail.

Ours: the numbers of lines and flows that the RFC leaves open (`network.py`, `experiments.py`), and the
limits of the requirements (`requirements.py`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aqmlab.publication import Reading, Study, Verdicts
from aqmlab.report_card import network
from aqmlab.report_card.experiments import SECTIONS, SEEDS, Section
from aqmlab.report_card.figures import figures
from aqmlab.report_card.network import DROP_TAIL, Table
from aqmlab.report_card.requirements import requirements
from aqmlab.report_card.tables import tables


def report_card(
    queues: Mapping[str, Table], sections: Sequence[Section] = SECTIONS, *, seeds: int = SEEDS
) -> Study:
    """The study whose readings are the cards of these queues, by name, beside Drop Tail; `seeds` replications
    of each scenario."""
    judged = {name: table for name, table in queues.items() if name != DROP_TAIL}
    if not judged:
        raise ValueError(f"name at least one queue beside {DROP_TAIL}, with which all are compared")
    axis = network.queues({DROP_TAIL: {"kind": DROP_TAIL}, **judged})
    experiments = {one.number: one.experiment(axis, seeds) for one in sections}
    return Study(
        name="report-card",
        title="Report card: " + ", ".join(judged),
        paper="N. Kuhn et al.: Characterization Guidelines for Active Queue "
        "Management "
        "(AQM). RFC 7928, July 2016.",
        question="What does the queue do in each of the scenarios of RFC 7928, beside Drop Tail with the "
        "same room?",
        experiments=tuple(experiments.values()),
        figures=figures(experiments),
        tables=tables(experiments),
        claims=requirements(experiments),
        decisions=(),
        answer=_answer,
        readings=tuple(
            _reading(name, table, {one.number for one in sections}) for name, table in judged.items()
        ),
    )


def _reading(name: str, queue: Table, sections: Collection[str]) -> Reading:
    left_out = {"4.5 ecn": "it cannot mark as it is"} if network.with_ecn(queue) is None else {}
    known = {id: why for id, why in left_out.items() if id.split()[0] in sections}
    return Reading(name=name, labels={"queue": name}, suffix=f", {name}", leaves_out=known)


def _answer(verdicts: Verdicts) -> list[str]:
    """How many requirements each queue meets, the one that meets most first."""
    counts: dict[str, list[str]] = {}
    for one in verdicts:
        counts.setdefault(one.reading.name, []).append(one.evidence.verdict)
    ranked = sorted(counts.items(), key=lambda item: -item[1].count("holds"))
    return [
        f"{name} meets {found.count('holds')} of {len(found)} requirements, fails {found.count('fails')}, "
        "and "
        f"{found.count('undecided')} stay undecided."
        for name, found in ranked
    ]
