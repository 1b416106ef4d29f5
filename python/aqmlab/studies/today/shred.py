"""The study `shred`, asked of today's queues: do they serve Web objects sooner than Drop Tail, RED and
SHRED, and do they harm anybody?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aqmlab.results.rule import AnyRule, difference, every, ratio
from aqmlab.results.variable import Variable
from aqmlab.studies.shred import STUDY as PAPER
from aqmlab.studies.shred import experiments as paper
from aqmlab.studies.shred import measures
from aqmlab.studies.shred.claims import normalised, share_beyond
from aqmlab.studies.shred.figures import cdf, tail
from aqmlab.study.charts import line
from aqmlab.study.experiment import Form
from aqmlab.study.publication import Claim, Decision, Figure, Study, Table, Variant, Verdicts
from aqmlab.study.queues import TODAY, at, counted, readings
from aqmlab.study.tables import overview
from aqmlab.sweep import Change, Changes

QUEUE = Changes({**paper.QUEUE, **at(TODAY, "bottleneck")})
QUEUE_OR_NONE = Changes({**QUEUE, paper.UNCONGESTED: paper.QUEUE_OR_NONE[paper.UNCONGESTED]})
QUEUES = tuple(QUEUE)

LOAD = 0.7
"""Of the Web beside FTP flows: what the talk's figures 4a and 4b show."""

_VARIED: dict[str, Any] = {"varied": Form(), "varied_quick": Form(seeds=2)}

web_only = replace(
    paper.web_only, axes={"queue": QUEUE_OR_NONE}, quick=Form(seeds=3), name="today-web-only", **_VARIED
)
web_mixed = replace(
    paper.web_mixed,
    name="today-web-mixed",
    axes={"traffic.web.load": (0.5, LOAD), "queue": QUEUE_OR_NONE},
    quick=Form(seeds=3, axes={"load": (LOAD,)}),
    **_VARIED,
)
ftp_mixed = replace(
    paper.ftp_mixed,
    name="today-ftp-mixed",
    axes={"flows": paper.flows(10, 40), "queue": QUEUE_OR_NONE},
    quick=Form(seeds=3, axes={"flows": (10,)}),
    **_VARIED,
)
ftp_only = replace(
    paper.ftp_only,
    name="today-ftp-only",
    axes={"traffic.ftp.flows": (10, 40), "queue": QUEUE},
    quick=Form(seeds=3, axes={"flows": (10,)}),
    **_VARIED,
)

EXPERIMENTS = (web_only, web_mixed, ftp_mixed, ftp_only)

PAPERS = ("Drop Tail", "RED", "SHRED")


def _beside(variable: Variable, *others: str) -> list[AnyRule]:
    """That a queue has less of a variable than each of the others."""
    return [ratio(variable, variable.at(queue=other)) < 1 for other in others]


_ALONE = [web_only[one] for one in (measures.MEDIAN, measures.P90, measures.MEAN_TIME)]
_TAIL = [web_mixed[one].at(load=LOAD) for one in measures.BEYOND]
_BESIDE_FTP = normalised(ftp_mixed[measures.RESPONSE])
_SHORT = [web_only[measures.SHORT_TIMEOUTS], web_mixed[measures.SHORT_TIMEOUTS].at(load=LOAD)]

CLAIMS = (
    Claim(
        id="T-SH-1",
        statement="Web-only: better performance than Drop Tail and RED.",
        source="slide 27, of SHRED",
        origin="ours",
        figures=("cdf-alone",),
        rule=every(*(rule for one in _ALONE for rule in _beside(one, "Drop Tail", "RED"))),
    ),
    Claim(
        id="T-SH-1s",
        statement="Web-only: better performance than SHRED.",
        source="ours, beyond slide 27",
        origin="ours",
        figures=("cdf-alone",),
        rule=every(*(rule for one in _ALONE for rule in _beside(one, "SHRED"))),
    ),
    Claim(
        id="T-SH-3",
        statement="Beside FTP flows: better than RED and Drop Tail in the heavy tail.",
        source="slide 27, of SHRED",
        origin="ours",
        figures=("tail-mixed",),
        rule=every(*(rule for one in _TAIL for rule in _beside(one, "Drop Tail", "RED"))),
    ),
    Claim(
        id="T-SH-6",
        statement="Lower object transmission times than RED and Drop Tail with 10 and 40 FTP flows.",
        source="slide 33, of SHRED",
        origin="ours",
        figures=("by-flows",),
        rule=every(*_beside(_BESIDE_FTP, "Drop Tail", "RED")),
    ),
    Claim(
        id="T-SH-6s",
        statement="Lower object transmission times than SHRED with 10 and 40 FTP flows.",
        source="ours, beyond slide 33",
        origin="ours",
        figures=("by-flows",),
        rule=every(*_beside(_BESIDE_FTP, "SHRED")),
    ),
    Claim(
        id="T-SH-8",
        statement="FTP traffic is not harmed: goodput and fairness are as with RED.",
        source="slide 33, of SHRED; how little is no harm is ours",
        origin="ours",
        figures=("overview-ftp",),
        rule=every(
            ratio(ftp_only[measures.FTP_ALONE], ftp_only[measures.FTP_ALONE].at(queue="RED")) >= 0.98,
            difference(ftp_only[measures.JAIN], ftp_only[measures.JAIN].at(queue="RED")) >= -0.05,
        ),
    ),
    Claim(
        id="T-SH-9",
        statement="The network as a whole does not lose performance.",
        source="the project's page, of SHRED; how little is no loss is ours",
        origin="ours",
        figures=("overview-mixed",),
        rule=ratio(web_mixed[measures.GOODPUT], web_mixed[measures.GOODPUT].at(queue="RED")) >= 0.98,
    ),
    Claim(
        id="T-SH-10",
        statement="Short Web flows have fewer time-outs than under RED.",
        source="the abstract, of SHRED",
        origin="ours",
        figures=("overview-alone", "overview-mixed"),
        rule=every(*(rule for one in _SHORT for rule in _beside(one, "RED"))),
    ),
)


def _senders(**ecn: str) -> Change:
    """TCP of Linux 6.1 in packets of the same size."""
    return {"tcp": {"profile": "linux-6", "connection": {"mss": paper.MSS}, **({"ecn": ecn} if ecn else {})}}


DECISIONS = (
    Decision(
        question="Senders",
        decision="Those of the study: Reno of ns-2.35, an initial window of 2, no SACK, no ECN.",
        reason="With the study's senders today's queues stand beside the paper's in the paper's own setting. "
        "What senders of today change is asked by variants.",
        variants=(
            Variant(
                name="linux-6 senders",
                what="TCP of Linux 6.1: CUBIC, SACK, RACK and an initial window of 10, without ECN.",
                change=_senders(),
            ),
            Variant(
                name="linux-6 senders with ECN",
                what="The same with ECN, so that queues which mark as they come may do so.",
                change=_senders(mode="on"),
            ),
        ),
    ),
)

FIGURES = (
    Figure(
        id="cdf-alone",
        title="Object transmission time, Web only",
        caption="Distribution at 100 % Web load. Bands are 95 % intervals over the seeds, point by point.",
        chart=cdf(share_beyond(web_only)),
    ),
    Figure(
        id="tail-mixed",
        title="Object transmission time beside FTP flows: tail",
        caption=f"The share of objects that take longer, at {100 * LOAD:g} % Web load beside 10 FTP flows.",
        chart=tail(share_beyond(web_mixed).at(load=LOAD)),
    ),
    Figure(
        id="by-flows",
        title="Normalised Web response time",
        caption="Mean object time over that of the same arrivals without congestion, beside FTP flows.",
        chart=line(
            _BESIDE_FTP.among(queue=QUEUES),
            kind="bars",
            x="flows",
            by="queue",
            x_label="FTP flows, beside 50 % Web load",
        ),
    ),
)

_TOLD = (
    *(measures.MEAN_TIME, measures.MEDIAN, measures.P90, measures.P99, measures.DROP_PERCENT),
    *(measures.SHORT_TIMEOUTS, measures.UTILISATION, measures.QUEUE_DELAY, measures.GOODPUT),
)

TABLES = (
    Table(
        id="overview-alone",
        title="Web only, 100 %",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview([web_only[one] for one in _TOLD], by="queue"),
    ),
    Table(
        id="overview-mixed",
        title=f"Web {100 * LOAD:g} % beside 10 FTP flows",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview([web_mixed[one].at(load=LOAD) for one in _TOLD], by="queue"),
    ),
    Table(
        id="overview-ftp",
        title="10 FTP flows alone",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=overview([ftp_only[one].at(flows=10) for one in measures.FTP], by="queue"),
    ),
)


def _answer(found: Verdicts) -> list[str]:
    return counted(found, "of what SHRED was claimed to do")


STUDY = Study(
    name="shred-today",
    title=f"{PAPER.title}, with the queues of today",
    paper=PAPER.paper,
    question="Do today's queues do for Web transfers what SHRED was made for, knowing nothing of their "
    "senders?",
    experiments=EXPERIMENTS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    readings=readings(TODAY),
)
