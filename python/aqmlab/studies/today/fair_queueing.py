"""The study `fair-queueing`, asked of today's queues: do they make the transport protocol harmless, as fair
queueing does, and does their AQM take anything away again?"""

from __future__ import annotations

from dataclasses import replace

from aqmlab.results.rule import difference, every, mean_of, ratio
from aqmlab.studies.fair_queueing import STUDY as PAPER
from aqmlab.studies.fair_queueing import experiments as paper
from aqmlab.studies.fair_queueing import measures
from aqmlab.study.experiment import Form
from aqmlab.study.publication import Claim, Study, Table, Verdicts
from aqmlab.study.queues import TODAY, counted, readings
from aqmlab.study.tables import overview

BUFFER = 625
"""Packets, of FIFO and FQ; today's queues have their own room."""

QUEUES = {**paper.queues(BUFFER), **TODAY}

_QUICK = Form(seeds=3, changes=paper.SHORT)

several = replace(
    paper.several,
    name="today-several",
    axes={
        "flows": paper.flows("2 Reno", "2 HighSpeed", "HighSpeed + Reno", "4 HighSpeed"),
        "bottleneck.queue": QUEUES,
    },
    seeds=10,
    quick=_QUICK,
    varied=None,
)
one = replace(
    paper.one,
    name="today-one",
    axes={"flows": paper.flows("1 Reno", "1 HighSpeed"), "bottleneck.queue": QUEUES},
    seeds=10,
    quick=_QUICK,
    varied=None,
)

_both = {"flows": "HighSpeed + Reno"}
_rate = one[measures.AVAILABLE]

CLAIMS = (
    Claim(
        id="T-R6",
        statement="HighSpeed TCP and Reno get the same.",
        source="block G, of fair queueing; a tenth for the same is ours",
        origin="ours",
        figures=("beside",),
        rule=ratio(several[measures.HIGHSPEED].at(**_both), several[measures.RENO].at(**_both)).within(
            1 / 1.1, 1.1
        ),
    ),
    Claim(
        id="T-R11",
        statement="Flows of one TCP share fairly.",
        source="block K, of fair queueing; Jain's index of 0.99 is ours",
        origin="ours",
        figures=("beside", "four"),
        rule=every(
            *(
                mean_of(several[measures.JAIN].at(flows=flows)) >= 0.99
                for flows in ("2 Reno", "2 HighSpeed", "4 HighSpeed")
            )
        ),
    ),
    Claim(
        id="T-R4",
        statement="Packets of the background, whose flows ask for little, are not lost.",
        source="block C, of fair queueing; one in 10 000 for none is ours",
        origin="ours",
        figures=("reno", "highspeed"),
        rule=mean_of(one[measures.BACKGROUND_LOSS]) < 1e-4,
    ),
    Claim(
        id="T-R2",
        statement="One flow gets as much of what is left as behind fair queueing without an AQM.",
        source="blocks A and C; a twentieth for as much is ours",
        origin="ours",
        figures=("reno", "highspeed"),
        rule=difference(_rate, _rate.at(queue="FQ")) >= -0.05,
    ),
    Claim(
        id="T-R14",
        statement="Packets of all flows wait less than behind fair queueing without an AQM.",
        source="ours, beyond the talk",
        origin="ours",
        figures=("reno", "highspeed", "beside"),
        rule=every(
            *(ratio(run[measures.WAIT], run[measures.WAIT].at(queue="FQ")) < 1 for run in (one, several))
        ),
    ),
)

_TOLD = (
    *(measures.AVAILABLE, measures.JAIN, measures.BACKGROUND_LOSS, measures.UTILISATION, measures.WAIT),
    measures.TIMEOUTS,
)

TABLES = (
    *(
        Table(
            id=flows.split()[1].lower(),
            title=f"{flows} flow beside Poisson flows",
            caption="Means over the seeds ± half of their 95 % interval.",
            table=overview([one[measure].at(flows=flows) for measure in _TOLD], by="queue"),
        )
        for flows in ("1 Reno", "1 HighSpeed")
    ),
    Table(
        id="beside",
        title="HighSpeed beside Reno",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview(
            [several[measure].at(**_both) for measure in (measures.HIGHSPEED, measures.RENO, *_TOLD)],
            by="queue",
        ),
    ),
    Table(
        id="four",
        title="Four HighSpeed flows",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview([several[measure].at(flows="4 HighSpeed") for measure in _TOLD], by="queue"),
    ),
)


def _answer(found: Verdicts) -> list[str]:
    return counted(found, "of what fair queueing was claimed to do")


STUDY = Study(
    name="fair-queueing-today",
    title=f"{PAPER.title}, with the queues of today",
    paper=PAPER.paper,
    question="Do today's queues make the transport protocol harmless?",
    experiments=(one, several),
    figures=(),
    tables=TABLES,
    claims=CLAIMS,
    decisions=(),
    answer=_answer,
    readings=readings(TODAY),
)
