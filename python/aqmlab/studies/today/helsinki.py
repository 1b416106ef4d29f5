"""The study `helsinki`, asked of today's queues: what do they do on a last hop of 140 kbit/s, where one
packet takes longer than their targets?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aqmlab.measures import Measure
from aqmlab.results.labels import Value
from aqmlab.results.rule import AnyRule, every, ratio
from aqmlab.results.variable import Variable
from aqmlab.studies.helsinki import STUDY as PAPER
from aqmlab.studies.helsinki import experiments as paper
from aqmlab.studies.helsinki import measures
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.publication import Claim, Study, Table, Verdicts
from aqmlab.study.queues import TODAY, counted, readings
from aqmlab.study.tables import overview
from aqmlab.sweep import Change, Changes

STARTS, UDP_STARTS = (0, 2, 4, 5.5), (0, 2, 7)
"""When the third flow and when the datagrams start, in seconds."""

BEHIND = STARTS[1:]
"""Starts of the third flow at which others are under way: before, nothing waits, and all queues are alike."""

PACKET_TIME = "90ms"
"""What a full packet takes on the line, and a little: the least target that an engineer would set there."""

SLOW: Mapping[str, dict[str, Any]] = {
    "CoDel": {**TODAY["CoDel"], "target": PACKET_TIME, "interval": "500ms"},
    "FQ-CoDel": {**TODAY["FQ-CoDel"], "target": PACKET_TIME, "interval": "500ms"},
    "PIE": {**TODAY["PIE"], "target": PACKET_TIME},
    "CAKE": {**TODAY["CAKE"], "rtt": "500ms"},
    "CAKE by flows": {**TODAY["CAKE by flows"], "rtt": "500ms"},
    "DualPI2": {**TODAY["DualPI2"], "target": PACKET_TIME},
}
"""Today's queues told of a slow line: at 100 ms of propagation delay a target below a packet's time empties
it."""

AS_IT_COMES = " as it comes"


def _today(queue: Mapping[str, Any]) -> Change:
    return paper.each_class(lambda one: one.update(queue=dict(queue)))


_QUEUES: dict[Value, Change] = {
    **paper.QUEUE,
    **{name: _today(table) for name, table in SLOW.items()},
    **{f"{name}{AS_IT_COMES}": _today(table) for name, table in TODAY.items()},
}
QUEUE = Changes(_QUEUES)
"""The testbed's, today's set for the line, and today's as they come."""

NAMES = tuple(str(name) for name in QUEUE if name not in paper.QUEUE)

third = replace(
    paper.third,
    name="today-third",
    axes={"queue": QUEUE, "traffic.third.start": paper.starts(*STARTS)},
    quick=Form(seeds=5, axes={"start": (2, 5.5)}),
    varied=None,
)
burst = replace(
    paper.burst,
    name="today-burst",
    axes={"queue": QUEUE, "traffic.voice.start": paper.starts(*UDP_STARTS)},
    quick=Form(seeds=5, axes={"start": (7,)}),
    varied=None,
)

_elapsed, _handshake, _slowest = (
    third[one] for one in (measures.ELAPSED, measures.HANDSHAKE, measures.SLOWEST)
)
_datagrams, _file = burst[measures.DATAGRAMS], burst[measures.TCP_TIME]

OLD = (paper.TAIL_DROP, paper.RED)

THIRD_TABLES = tuple(f"third-{start:g}" for start in STARTS)
BURST_TABLES = tuple(f"burst-{start:g}" for start in UDP_STARTS)


def _sooner(variable: Variable, *others: str) -> AnyRule:
    return every(*(ratio(variable, variable.at(queue=other)) < 1 for other in others))


CLAIMS = (
    Claim(
        id="T-RI-1.2",
        statement="Whenever it starts, the third flow is done sooner than with Tail Drop and with RED.",
        source="slide 11, of RED",
        origin="ours",
        figures=THIRD_TABLES,
        rule=_sooner(_elapsed, *OLD),
    ),
    Claim(
        id="T-RI-4.2",
        statement="Whenever it starts behind the others, the third flow opens its connection sooner than "
        "with Tail Drop.",
        source="slide 11, of RED",
        origin="ours",
        figures=THIRD_TABLES,
        rule=_sooner(_handshake.among(start=BEHIND), paper.TAIL_DROP),
    ),
    Claim(
        id="T-RI-7.2",
        statement="Whenever the third starts, the initial flows pay little: the slower is done no more than "
        "a tenth later than with Tail Drop.",
        source="slide 14, of RED; the tenth is ours",
        origin="ours",
        figures=THIRD_TABLES,
        rule=ratio(_slowest, _slowest.at(queue=paper.TAIL_DROP)) <= 1.1,
    ),
    Claim(
        id="T-RI-8.2",
        statement="Whenever they start, as many datagrams arrive beside a transfer as with Tail Drop, or "
        "more.",
        source="slides 15 and 16, of RED",
        origin="ours",
        figures=BURST_TABLES,
        rule=ratio(_datagrams, _datagrams.at(queue=paper.TAIL_DROP)) >= 1,
    ),
    Claim(
        id="T-RI-9.2",
        statement="Whenever the datagrams start, the transfer beside them is done no more than a twentieth "
        "later than with Tail Drop.",
        source="slides 15 and 16, of RED; the twentieth is ours",
        origin="ours",
        figures=BURST_TABLES,
        rule=ratio(_file, _file.at(queue=paper.TAIL_DROP)) <= 1.05,
    ),
)

_OF_THIRD = (
    *(measures.ELAPSED, measures.HANDSHAKE, measures.FASTEST, measures.SLOWEST),
    *(measures.THIRD_DROPPED, measures.OTHERS_DROPPED),
)
_OF_BURST = (measures.DATAGRAMS, measures.UDP_ARRIVED, measures.TCP_TIME, measures.UDP_SHARE)


def _tables(id: str, title: str, experiment: Experiment, told: Sequence[Measure]) -> Iterator[Table]:
    """A table for each start: a mean over the starts would hide at which a queue does badly."""
    for start in map(float, experiment.values("start")):
        yield Table(
            id=f"{id}-{start:g}",
            title=f"{title} {start:g} s",
            caption="Means over the seeds ± half of their 95 % interval.",
            table=overview([experiment[one].at(start=start) for one in told], by="queue"),
        )


TABLES = (
    *_tables("third", "Three transfers, the third from", third, _OF_THIRD),
    *_tables("burst", "A transfer beside datagrams from", burst, _OF_BURST),
)


def _answer(found: Verdicts) -> list[str]:
    return counted(found, "of what RED was claimed to do on a slow last hop")


STUDY = Study(
    name="helsinki-today",
    title=f"{PAPER.title}, with the queues of today",
    paper=PAPER.paper,
    question="What do today's queues do to TCP and UDP on a last hop of 140 kbit/s?",
    experiments=(third, burst),
    figures=(),
    tables=TABLES,
    claims=CLAIMS,
    decisions=(),
    answer=_answer,
    readings=readings(NAMES),
)
