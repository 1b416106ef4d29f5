"""The study `unc-web`, asked of today's queues: which of them helps the Web, and whom does it make wait?"""

from __future__ import annotations

from dataclasses import replace

from aqmlab.measures import Measure
from aqmlab.results.labels import Value
from aqmlab.results.rule import AnyRule, every, ratio, statistic
from aqmlab.studies.unc_web import STUDY as PAPER
from aqmlab.studies.unc_web import experiments as paper
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.distributions import LEAST, lags, leads
from aqmlab.studies.unc_web.experiments import QUICK_PAIRS, SHORT_PAIRS, lasting
from aqmlab.studies.unc_web.measures import WAYS
from aqmlab.study.experiment import Form
from aqmlab.study.publication import Claim, Study, Table, Verdicts
from aqmlab.study.queues import TODAY, at, counted, readings
from aqmlab.study.tables import overview
from aqmlab.sweep import Change, Changes

LOADS = (80, 90, 105)
HIGH = 105

_LINKS = tuple(f"links.{way}" for way in WAYS)


def _paper(queue: object, ecn: str = "off") -> Change:
    return {**{f"{link}.queue": queue for link in _LINKS}, "tcp.ecn.mode": ecn}


_OLD: dict[Value, Change] = {
    "Drop Tail": _paper(paper.DROP_TAIL),
    "ARED": _paper(paper.ADAPTIVE_RED),
    "ARED+ECN": _paper({**paper.ADAPTIVE_RED, **paper.MARKS}, "on"),
}

QUEUE = Changes({**_OLD, **at(TODAY, *_LINKS, **{"tcp.ecn.mode": "on"})})
"""The paper's, and today's with senders that use ECN, so that a queue which marks as it comes may do so."""

web = replace(
    paper.drop_tail,
    name="today",
    title="Web traffic both ways",
    scenario={**paper.both_ways(paper.DROP_TAIL), "duration": lasting(SHORT_PAIRS)},
    axes={"queue": QUEUE, "load": paper.loads(*LOADS)},
    seeds=10,
    quick=Form(seeds=3, axes={"load": (HIGH,)}, changes={"duration": lasting(QUICK_PAIRS)}),
    varied=None,
)

OLD = ("Drop Tail", "ARED", "ARED+ECN")

_cdf = web[measures.CDF]


def _sooner(measure: Measure, *others: str) -> list[AnyRule]:
    return [ratio(web[measure], web[measure].at(queue=other)) < 1 for other in others]


CLAIMS = (
    Claim(
        id="T-W5",
        statement="More quick requests than with Drop Tail: somewhere its distribution of response times "
        "leads by "
        "one request in a hundred.",
        source="slide 8, of Adaptive RED",
        origin="ours",
        figures=("load-80", "load-105"),
        rule=statistic(
            "lead over Drop Tail (time chosen by the other seeds)", leads, _cdf, _cdf.at(queue="Drop Tail")
        )
        >= LEAST,
    ),
    Claim(
        id="T-W5s.2",
        statement="No request pays for it: nowhere does its distribution lag Drop Tail's by one request in "
        "a hundred.",
        source="slide 8, which found that the slow pay",
        origin="ours",
        figures=("load-80", "load-105"),
        rule=statistic("largest lag behind Drop Tail", lags, _cdf, _cdf.at(queue="Drop Tail")) < LEAST,
    ),
    Claim(
        id="T-W9",
        statement="The median response is sooner than with Drop Tail, ARED and ARED+ECN, at every load.",
        source="the question of the paper of 2003",
        origin="ours",
        figures=("load-80", "load-90", "load-105"),
        rule=every(*_sooner(measures.MEDIAN, *OLD)),
    ),
    Claim(
        id="T-W9t",
        statement="So is the 95th percentile.",
        source="the question of the paper of 2003",
        origin="ours",
        figures=("load-80", "load-90", "load-105"),
        rule=every(*_sooner(measures.P95, *OLD)),
    ),
    Claim(
        id="T-W7",
        statement="Fewer segments are sent again than with Drop Tail.",
        source="slide 11: drops cause retransmissions, which only increase response times",
        origin="ours",
        figures=("load-90", "load-105"),
        rule=every(*_sooner(measures.AGAIN, "Drop Tail")),
    ),
)

_TOLD = (
    *(measures.MEDIAN, measures.P95, measures.P99, measures.MEAN, measures.AGAIN_PER_1000, measures.TIMEOUTS),
    *(measures.DROPPED, measures.MARKED, measures.UTILISATION, measures.WAIT),
)

TABLES = tuple(
    Table(
        id=f"load-{load}",
        title=f"{load} % of the line offered in each direction",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview([web[one].at(load=load) for one in _TOLD], by="queue"),
    )
    for load in LOADS
)


def _answer(found: Verdicts) -> list[str]:
    return counted(found, "of what a queue that helps the Web would do")


STUDY = Study(
    name="unc-web-today",
    title=f"{PAPER.title} With the queues of today",
    paper=PAPER.paper,
    question="Which of today's queues helps the Web where Adaptive RED was asked to?",
    experiments=(web,),
    figures=(),
    tables=TABLES,
    claims=CLAIMS,
    decisions=(),
    answer=_answer,
    readings=readings(TODAY),
)
