"""The test cases of RFC 8867 for rate controls of real-time media, behind five queues.

RFC 8867, section 5, describes eight test cases. `scenarios/rfc8867/` contains a scenario for each of them.
This study runs each scenario with the rate controls GCC and SCReAM behind drop-tail, CoDel, FQ-CoDel, PIE
and CAKE, and tabulates the rate in each phase of a case, the 95 % quantile of the frame delay, losses and
freezes. The RFC describes the behaviour
that a rate control should have in words, without limits that a rule could test, so the study has no claims.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqmlab.measures import Measure
from aqmlab.studies.rtc_cases import measures as m
from aqmlab.study import Experiment, Form, Study, Table, listed
from aqmlab.sweep import Changes

PAPER = (
    "Z. Sarker, V. Singh, X. Zhu, M. Ramalho: Test Cases for Evaluating Congestion Control for Interactive "
    "Real-Time Media. RFC 8867, January 2021."
)
SCENARIOS = Path(__file__).parents[2] / "scenarios" / "rfc8867"
SEEDS = 10

DROP_TAIL = "drop-tail"
QUEUES: Mapping[str, Mapping[str, Any]] = {
    "CoDel": {"kind": "codel"},
    "FQ-CoDel": {"kind": "fq-codel"},
    "PIE": {"kind": "pie"},
    "CAKE": {"kind": "cake"},
}
"""Queues beside the case's own drop-tail queue of 300 ms. CAKE does not shape: the link sets the rate."""

GCC, SCREAM = "GCC", "SCReAM"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A test case."""

    section: str
    """Section of RFC 8867."""
    title: str
    measures: tuple[Measure, ...]
    links: tuple[str, ...] = ("bottleneck",)
    """Links whose queues are compared."""
    media: tuple[str, ...] = ("media",)
    """Workloads whose rate control is compared."""

    @property
    def name(self) -> str:
        """Name of the experiment and of the scenario file."""
        return self.section.replace(".", "-")

    def experiment(self) -> Experiment:
        """Returns the case with all rate controls and queues."""
        scream = {f"traffic.{name}.control": {"kind": "scream"} for name in self.media}
        queues: dict[str, Any] = {DROP_TAIL: {}}
        for name, table in QUEUES.items():
            queues[name] = {f"{link}.queue": table for link in self.links}
        return Experiment(
            self.name,
            f"{self.section} {self.title}",
            SCENARIOS / f"{self.name}.toml",
            {"control": Changes({GCC: {}, SCREAM: scream}), "queue": Changes(queues)},
            self.measures,
            seeds=SEEDS,
            quick=Form(seeds=1),
        )


def phases(*bounds: int, traffic: str | None = None, backward: bool = False) -> tuple[Measure, ...]:
    """Returns the received rate in each phase between consecutive times (s)."""
    pairs = itertools.pairwise(bounds)
    return tuple(m.rate(first, last, traffic=traffic, backward=backward) for first, last in pairs)


def several(count: int) -> tuple[str, ...]:
    """Returns the names of the workloads of a case with several media flows."""
    return tuple(f"media-{number}" for number in range(1, count + 1))


CASES = (
    Case(
        section="5.1",
        title="Variable available capacity, one flow",
        measures=(*phases(0, 40, 60, 80, 99), *m.QUALITY),
    ),
    Case(
        section="5.2",
        title="Variable available capacity, two flows",
        measures=(*phases(0, 25, 50, 75, 100, 125), m.jain(100, 125), *m.QUALITY),
    ),
    Case(
        section="5.3",
        title="Congested feedback link, media in both directions",
        measures=(*phases(0, 20, 40, 60, 99), *phases(0, 35, 70, 99, backward=True), *m.QUALITY),
        links=("bottleneck", "bottleneck.reverse"),
    ),
    Case(
        section="5.4",
        title="Three competing flows",
        measures=(*phases(0, 20, 40, 119), m.jain(60, 119), *m.QUALITY),
        media=several(3),
    ),
    Case(
        section="5.5",
        title="Round-trip time fairness",
        measures=(
            *(m.rate(100, 299, traffic=name) for name in several(5)),
            m.jain(100, 299),
            *m.QUALITY,
        ),
        media=several(5),
    ),
    Case(
        section="5.6",
        title="A long TCP flow",
        measures=(m.rate(5, 119), m.goodput("long"), *m.QUALITY),
    ),
    Case(
        section="5.7",
        title="Short TCP flows",
        measures=(m.rate(5, 299), m.goodput("short"), *m.QUALITY),
    ),
    Case(
        section="5.8",
        title="Media pause and resume",
        measures=(
            *phases(0, 40, 60, 80, 119),
            m.rate(60, 80, traffic="media-2"),
            m.jain(80, 119),
            *m.QUALITY,
        ),
        media=several(3),
    ),
)


def table(case: Case, experiment: Experiment) -> Table:
    """Returns the table of a case, with a row for each rate control and queue."""
    columns = [experiment[one] for one in case.measures]
    return Table(
        case.name, f"{case.section} {case.title}", listed(columns, "control", "queue"), shows=(experiment,)
    )


EXPERIMENTS = {case.name: case.experiment() for case in CASES}

STUDY = Study.of(
    "rtc-cases",
    "The test cases of RFC 8867 for real-time media",
    *EXPERIMENTS.values(),
    *(table(case, EXPERIMENTS[case.name]) for case in CASES),
    paper=PAPER,
    question="How do video calls with Google Congestion Control and SCReAM do in the test cases of RFC 8867, "
    "and what does the queue change?",
)
