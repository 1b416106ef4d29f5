"""The study `mice-elephants`, asked of today's queues: do short files gain and long ones not lose, without
an edge that tells one from the other?"""

from __future__ import annotations

from dataclasses import replace

from aqmlab.measures import Measure
from aqmlab.results.rule import AnyRule, difference, every, ratio
from aqmlab.results.variable import Variable
from aqmlab.studies.mice_elephants import STUDY as PAPER
from aqmlab.studies.mice_elephants import experiments as paper
from aqmlab.studies.mice_elephants import measures
from aqmlab.studies.mice_elephants.experiments import BDP_1, BDP_2, FULL_S, QUICK_S, RIO_PS, lasting
from aqmlab.study.experiment import Form
from aqmlab.study.publication import Claim, Study, Table, Verdicts
from aqmlab.study.queues import TODAY, at, counted, readings
from aqmlab.study.tables import overview
from aqmlab.sweep import Changes

# Senders use ECN, so that a queue which marks as it comes may do so.
_TODAY = at(TODAY, "bottleneck", **{"tcp.ecn.mode": "on"})

exp_1 = replace(
    paper.exp_1,
    name="today-exp-1",
    axes={"queue": Changes({**paper.queues(BDP_1), **_TODAY})},
    quick=Form(seeds=3, changes=lasting(QUICK_S)),
    varied=None,
)
exp_2 = replace(
    paper.exp_2,
    name="today-exp-2",
    scenario={**paper.exp_2.given, **lasting(FULL_S // 2)},
    axes={"queue": Changes({**paper.queues(BDP_2), **_TODAY}), "mix": paper.ONE_CLASS},
    quick=Form(seeds=3, changes=lasting(QUICK_S)),
    varied=None,
)

OLD = ("RED", "Drop Tail")


def _no_more(variable: Variable, *others: str, than: float = 1.0) -> list[AnyRule]:
    return [ratio(variable, variable.at(queue=other)) <= than for other in others]


def _less(variable: Variable, *others: str) -> list[AnyRule]:
    return [ratio(variable, variable.at(queue=other)) < 1 for other in others]


def _alike(measure: Measure, margin: float) -> AnyRule:
    variable = exp_1[measure]
    return difference(variable, variable.at(queue=RIO_PS)) >= -margin


CLAIMS = (
    Claim(
        id="T-MI-5",
        statement="Short files are served sooner than with RED and Drop Tail.",
        source="the talk's conclusions, of RIO-PS",
        origin="ours",
        figures=("exp-1",),
        rule=every(*_less(exp_1[measures.SHORT_FILES], *OLD)),
    ),
    Claim(
        id="T-MI-5r",
        statement="Short files are served sooner than with RIO-PS.",
        source="ours, beyond the talk",
        origin="ours",
        figures=("exp-1",),
        rule=every(*_less(exp_1[measures.SHORT_FILES], RIO_PS)),
    ),
    Claim(
        id="T-MI-6",
        statement="Long files are not worse than with RED and Drop Tail.",
        source="the abstract, of RIO-PS; how little is no harm, 5 %, is ours",
        origin="ours",
        figures=("exp-1",),
        rule=every(
            *(
                rule
                for one in (measures.LONG_FILES, measures.LONG_FLOWS)
                for rule in _no_more(exp_1[one], *OLD, than=1.05)
            )
        ),
    ),
    Claim(
        id="T-MI-8",
        statement="Flows of a batch fare at least as alike as with RIO-PS.",
        source="figures 8a and 8b, of RIO-PS; the margin of 0.02 is ours",
        origin="ours",
        figures=("exp-1",),
        rule=every(*(_alike(one, 0.02) for one in (measures.SHORT_JAIN, measures.LONG_JAIN))),
    ),
    Claim(
        id="T-MI-9",
        statement="Short foreground flows are faster and less variable than with RED and Drop Tail.",
        source="figure 9a, of RIO-PS",
        origin="ours",
        figures=("exp-1",),
        rule=every(
            *(
                rule
                for one in (measures.SHORT_FLOWS, measures.SHORT_SPREAD)
                for rule in _less(exp_1[one], *OLD)
            )
        ),
    ),
    Claim(
        id="T-MI-10",
        statement="Goodput is at least Drop Tail's.",
        source="Table IV, of RIO-PS; how little is no loss, half a percent, is ours",
        origin="ours",
        figures=("exp-1",),
        rule=ratio(exp_1[measures.GOODPUT], exp_1[measures.GOODPUT].at(queue="Drop Tail")) >= 0.995,
    ),
    Claim(
        id="T-MI-12",
        statement="Where all files are of one class it works as well as plain RED.",
        source="the abstract, of RIO-PS; the margins are ours",
        origin="ours",
        figures=("exp-2-short", "exp-2-long"),
        rule=every(
            *_no_more(exp_2[measures.RESPONSE], "RED", than=1.05),
            ratio(exp_2[measures.GOODPUT], exp_2[measures.GOODPUT].at(queue="RED")) >= 0.98,
        ),
    ),
)

_TOLD = (
    *(measures.SHORT_FILES, measures.LONG_FILES, measures.SHORT_FLOWS, measures.SHORT_SPREAD),
    *(measures.LONG_FLOWS, measures.SHORT_JAIN, measures.LONG_JAIN, measures.GOODPUT, measures.MEAN_QUEUE),
    measures.REFUSED,
)

TABLES = (
    Table(
        id="exp-1",
        title="Exp 1, initial time-out of 3 s",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview([exp_1[one] for one in _TOLD], by="queue"),
    ),
    *(
        Table(
            id=f"exp-2-{mix.split()[0]}",
            title=f"Exp 2, {mix} only",
            caption="Means over the seeds ± half of their 95 % interval.",
            table=overview(
                [
                    exp_2[one].at(mix=mix)
                    for one in (measures.RESPONSE, measures.GOODPUT, measures.MEAN_QUEUE)
                ],
                by="queue",
            ),
        )
        for mix in paper.ONE_CLASS
        if isinstance(mix, str)
    ),
)


def _answer(found: Verdicts) -> list[str]:
    return counted(found, "of what RIO-PS was claimed to do")


STUDY = Study(
    name="mice-elephants-today",
    title=f"{PAPER.title}, with the queues of today",
    paper=PAPER.paper,
    question="Do today's queues do for short flows what RIO-PS and its edge were made for?",
    experiments=(exp_1, exp_2),
    figures=(),
    tables=TABLES,
    claims=CLAIMS,
    decisions=(),
    answer=_answer,
    readings=readings(TODAY),
)
