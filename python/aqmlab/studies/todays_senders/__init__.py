"""The first five studies with the senders of today: do the queues still matter?

Each experiment takes a scenario from a study of a publication, and varies the senders: those of the
publication, CUBIC and BBR version 3 with the profile `linux-6`, and CUBIC over QUIC. FQ-CoDel is added to the
queues of the publication. The claims are aqmlab's questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from aqmlab.results.rule import ratio
from aqmlab.results.variable import Variable
from aqmlab.scenario import changed
from aqmlab.studies import helsinki
from aqmlab.studies.fair_queueing import network as fair
from aqmlab.studies.fair_queueing.laws import PACKET
from aqmlab.studies.helsinki import measures as of_helsinki
from aqmlab.studies.helsinki import testbed
from aqmlab.studies.mice_elephants import measures as of_mice
from aqmlab.studies.mice_elephants import network as mice
from aqmlab.studies.mice_elephants import web as mice_web
from aqmlab.studies.shared import TableChange
from aqmlab.studies.shred import measures as of_shred
from aqmlab.studies.shred import network as shred
from aqmlab.studies.unc_web import measures as of_unc
from aqmlab.studies.unc_web import network as unc
from aqmlab.study import Claim, Experiment, Figure, Form, Reading, Study, Table, crossed, line, stacked
from aqmlab.study.publication import our_claim
from aqmlab.sweep import Changes

PAPERS = "the publication's"
CUBIC, BBR, QUIC = "CUBIC", "BBRv3", "QUIC"
SENDERS = (PAPERS, CUBIC, BBR, QUIC)
FQ_CODEL = "FQ-CoDel"

_LINUX = {"profile": "linux-6"}
TCP: Mapping[str, Mapping[str, Any]] = {
    CUBIC: _LINUX,
    BBR: {**_LINUX, "congestion_control": {"kind": "bbr3"}},
    QUIC: {"profile": "quic"},
}
"""The senders of today: an initial window of 10, RACK-TLP (CUBIC, BBRv3) or the recovery of RFC 9002 (QUIC).
BBRv3 is that of the draft."""

HEADER_BYTES = {CUBIC: 52, BBR: 52, QUIC: 63}
"""Lengths of the headers of a full packet (the profiles' `connection.header`)."""


def tcp(sender: str, packet_bytes: int | None = None, ecn: str = "off") -> dict[str, Any]:
    """The table `[tcp]` of a sender of today, whose full packets have this length on the link; without a
    length, the profile's. BBRv3 ignores the marks of RFC 3168, and therefore does not negotiate ECN."""
    mss = {} if packet_bytes is None else {"connection": {"mss": f"{packet_bytes - HEADER_BYTES[sender]}B"}}
    return {**TCP[sender], **mss, "ecn": {"mode": "off" if sender == BBR else ecn}}


def _sending(sender: str, packet_bytes: int | None) -> TableChange:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        ecn = table["tcp"].get("ecn", {}).get("mode", "off")
        return {**table, "tcp": tcp(sender, packet_bytes, ecn)}

    return change


def senders(packet_bytes: int | None = None, without: str = "") -> Changes:
    """The axis of senders. The axis must follow the axis of queues, which decides whether senders use ECN."""
    return Changes({PAPERS: {}, **{one: _sending(one, packet_bytes) for one in TCP if one != without}})


MOST_SEEDS = 10
"""Largest number of seeds of the experiments with long runs. The limit keeps the CPU time of the study below
20 minutes. Verdicts may therefore remain undecided."""

# SHRED: Web pages alone, and beside ten FTP flows

WEB_PACKET = 974
"""Length of a full packet on the link in bytes, slide 17."""

_WEB_QUEUES = Changes({**shred.QUEUE, FQ_CODEL: {"bottleneck.queue": {"kind": "fq-codel"}}})
_ALONE = {"web": shred.web(1.0, shred.PAGES[8])}
_BESIDE = shred.beside_ftp(0.7, shred.PAGES[8])


PAPERS_IW_10, CUBIC_IW_2 = f"{PAPERS}, initial window 10", "CUBIC, initial window 2"


def _and_other_windows(table: Changes) -> Changes:
    """The senders, and two of them with the initial window of the other: with a large initial window, the
    windows of short flows may be no smaller than those of long flows."""
    window = "tcp.cwnd.initial"

    def of_cubic(scenario: dict[str, Any]) -> dict[str, Any]:
        return changed(_sending(CUBIC, WEB_PACKET)(scenario), {window: 2})

    return Changes({**table, PAPERS_IW_10: {window: 10}, CUBIC_IW_2: of_cubic})


def _pages(name: str, title: str, traffic: dict[str, Any]) -> Experiment:
    axes = {"queue": _WEB_QUEUES, "sender": _and_other_windows(senders(WEB_PACKET))}
    measures = (of_shred.RESPONSE, of_shred.MEAN_TIME, of_shred.SHORT_TIMEOUTS, of_shred.DROP_PERCENT)
    quick = Form(seeds=2, changes={"duration": "60s"})
    return Experiment(
        name, title, shred.dumbbell(**traffic), axes, measures, most_seeds=MOST_SEEDS, quick=quick
    )


pages = _pages("pages", "Web 70 % beside 10 FTP flows", _BESIDE)
pages_alone = _pages("pages-alone", "Web only, 100 %", _ALONE)

# RIO-PS: short and long files

FILES_S = 1000
"""A quarter of the duration of the publication's study, which keeps this study short; the first half is the
warm-up."""

_marking_fq_codel = {"bottleneck.queue": {"kind": "fq-codel"}, "tcp.ecn.mode": "on"}
files = Experiment(
    "files",
    "Web sessions at 90 % of the link",
    {**mice_web.exp_1.given, **mice_web.lasting(FILES_S)},
    {
        "queue": Changes({**mice.queues(mice_web.BDP_1), FQ_CODEL: _marking_fq_codel}),
        "sender": senders(of_mice.PACKET, without=QUIC),
    },
    (of_mice.SHORT_FILES, of_mice.LONG_FILES, of_mice.SHORT_FLOWS, of_mice.LONG_FLOWS),
    most_seeds=MOST_SEEDS,
    quick=Form(seeds=2, changes=mice_web.lasting(100)),
)

# Adaptive RED with ECN: requests and responses


def _both_links(queue: Mapping[str, Any], ecn: str) -> dict[str, Any]:
    return {**{f"links.{way}.queue": queue for way in of_unc.WAYS}, "tcp.ecn.mode": ecn}


requests = Experiment(
    "requests",
    "Web traffic both ways, 90 %",
    {**unc.both_ways(unc.DROP_TAIL), "duration": unc.lasting(unc.PAIRS // 5)},
    {
        "queue": Changes(
            {
                "Drop Tail": _both_links(unc.DROP_TAIL, "off"),
                "ARED+ECN": _both_links({**unc.ADAPTIVE_RED, **unc.MARKS}, "on"),
                FQ_CODEL: _both_links({"kind": "fq-codel"}, "on"),
            }
        ),
        "load": unc.loads(90),
        "sender": senders(without=QUIC),
    },
    (of_unc.MEDIAN, of_unc.P95, of_unc.TIMEOUTS),
    most_seeds=MOST_SEEDS,
    quick=Form(seeds=2, changes={"duration": unc.lasting(2000)}),
)

# Fair queueing: two flows that share a link with a background of Poisson packets

_OURS, _OTHER = "ours", "other"


def _two(ours: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {_OURS: ours, _OTHER: other}
    return {f"traffic.{name}": {"kind": "ftp", "stagger": "1s", "tcp": table} for name, table in both.items()}


_of_linux = tcp(CUBIC, PACKET)
PAIRS = {
    PAPERS: _two(*({"congestion_control": fair.CONTROLS[one]} for one in ("highspeed", "reno"))),
    CUBIC: _two(_of_linux, {**_of_linux, "congestion_control": {"kind": "reno"}}),
    BBR: _two(tcp(BBR, PACKET), _of_linux),
    QUIC: _two(tcp(QUIC, PACKET), _of_linux),
}
"""A flow of each sender beside a flow that the sender might harm: HighSpeed TCP beside Reno, CUBIC beside
Reno, and BBRv3 and QUIC beside CUBIC."""

_link = fair.link(fair.POISSON_PACKETS, duration=f"{fair.WARM_UP_S + 200}s")
flows = Experiment(
    "flows",
    "Two flows, 625 packets",
    changed(_link, PAIRS[PAPERS]),
    {
        "bottleneck.queue": {**fair.queues(625), FQ_CODEL: {"kind": "fq-codel"}},
        "sender": Changes(PAIRS),
    },
    (f"{_OURS}.goodput", f"{_OTHER}.goodput"),
    seeds=4,
    most_seeds=4,
    quick=Form(seeds=2, changes={"duration": "40s"}),
)

# RED on a slow last hop: a third transfer that starts later

_STARTS_S = (0, 2, 4, 5.5)


def _old_or_new(sender: str) -> TableChange:
    """The senders on the slow path. The publication's are Linux 2.4."""
    return lambda table: {**table, "tcp": testbed.OLD if sender == PAPERS else tcp(sender)}


third = Experiment(
    "third",
    "Three transfers at 140 kbit/s",
    helsinki.third.given,
    {
        "sender": Changes({one: _old_or_new(one) for one in SENDERS}),
        "queue": Changes(
            {
                **testbed.QUEUE,
                # The parameters for this link, as in the study with the queues of today.
                FQ_CODEL: testbed.with_queue({"kind": "fq-codel", "target": "90ms", "interval": "500ms"}),
            }
        ),
        "traffic.third.start": testbed.starts(*_STARTS_S),
    },
    (of_helsinki.ELAPSED, of_helsinki.SLOWEST),
    seeds=20,
    quick=Form(seeds=3),
)

# The questions

MARGIN = 0.05
"""A difference of up to 5 % counts as none, as in the publications' studies."""


def _claim(id: str, statement: str, rule: Any, about: str) -> Claim:
    return our_claim(id, statement, rule, f"aqmlab's question about {about}")


def _over(one: Variable, ours: str, other: str) -> Any:
    return ratio(one, queue=(ours, other))


page, page_alone = pages[of_shred.RESPONSE], pages_alone[of_shred.RESPONSE]
object_time = pages[of_shred.MEAN_TIME]
short, long = files[of_mice.SHORT_FILES], files[of_mice.LONG_FILES]
median, p95 = requests[of_unc.MEDIAN].at(load=90), requests[of_unc.P95].at(load=90)
elapsed = third[of_helsinki.ELAPSED].averaged("start")
rates = ratio(flows[f"{_OURS}.goodput"], flows[f"{_OTHER}.goodput"])
_fq_alike = (1 - MARGIN, 1 + MARGIN)

_SHRED, _RIO, _ARED = "SHRED", mice.RIO_PS, "ARED+ECN"
_OTHERS = ("RED", "Drop Tail", FQ_CODEL)
_BESIDE_FTP, _WEB_ONLY = "beside ten FTP flows", "with Web traffic only"
_RATIOS: Mapping[str, Any] = {
    "SHRED/\nRED,\npages": _over(page.among(sender=SENDERS), _SHRED, "RED"),
    "SHRED/\nFQ-CoDel,\npages": _over(page.among(sender=SENDERS), _SHRED, FQ_CODEL),
    "RIO-PS/\nRED,\nshort files": _over(short, _RIO, "RED"),
    "RIO-PS/\nFQ-CoDel,\nshort files": _over(short, _RIO, FQ_CODEL),
    "ARED+ECN/\nDrop Tail,\nmedian": _over(median, _ARED, "Drop Tail"),
    "RED/\nTail Drop,\n140 kbit/s": _over(elapsed, testbed.RED, testbed.TAIL_DROP),
}

CLAIMS = (
    *(
        _claim(f"TS-SH-{number}", f"{what} is shorter with SHRED than with {other}, {where}.", rule, "SHRED")
        for number, (what, time, where, other) in enumerate(
            (
                *(("The mean page time", page, _BESIDE_FTP, other) for other in _OTHERS),
                *(("The mean page time", page_alone, _WEB_ONLY, other) for other in _OTHERS),
                *(("The mean object time", object_time, _BESIDE_FTP, other) for other in _OTHERS),
            ),
            1,
        )
        for rule in (_over(time, _SHRED, other) < 1,)
    ),
    *(
        _claim(
            f"TS-IW-{number}",
            f"With the senders *{sender}*, the mean page time is shorter with SHRED than with RED, {where}.",
            _over(time.at(sender=sender), _SHRED, "RED") < 1,
            "the initial window",
        )
        for number, (sender, time, where) in enumerate(
            (
                (PAPERS_IW_10, page, _BESIDE_FTP),
                (PAPERS_IW_10, page_alone, _WEB_ONLY),
                (CUBIC_IW_2, page, _BESIDE_FTP),
                (CUBIC_IW_2, page_alone, _WEB_ONLY),
            ),
            1,
        )
    ),
    *(
        _claim(
            f"TS-MI-{number}",
            f"Short files take less time with RIO-PS than with {other}.",
            _over(short, _RIO, other) < 1,
            "RIO-PS",
        )
        for number, other in enumerate(("RED", "Drop Tail", FQ_CODEL), 1)
    ),
    *(
        _claim(
            f"TS-MI-{number}",
            f"Long files take at most {100 * MARGIN:g} % more time with RIO-PS than with {other}.",
            _over(long, _RIO, other) <= 1 + MARGIN,
            "RIO-PS",
        )
        for number, other in enumerate(("RED", FQ_CODEL), 4)
    ),
    *(
        _claim(
            f"TS-W-{number}",
            f"The {what} of response times is shorter with ARED+ECN than with {other}.",
            _over(time, _ARED, other) < 1,
            "Adaptive RED with ECN",
        )
        for number, (time, what, other) in enumerate(
            (
                (median, "median", "Drop Tail"),
                (p95, "95th percentile", "Drop Tail"),
                (median, "median", FQ_CODEL),
                (p95, "95th percentile", FQ_CODEL),
            ),
            1,
        )
    ),
    *(
        _claim(
            f"TS-FQ-{number}",
            f"Behind {name}, the flow gets the rate of the other flow, ± {100 * MARGIN:g} %.",
            rates.at(queue=queue).within(*_fq_alike),
            "fair queueing",
        )
        for number, (queue, name) in enumerate(
            (("FIFO", "a FIFO"), ("FQ", "fair queueing (DRR)"), (FQ_CODEL, FQ_CODEL)), 1
        )
    ),
    *(
        _claim(
            f"TS-RI-{number}",
            f"The third transfer takes less time with {ours} than with {other}, averaged over the starts.",
            _over(elapsed, ours, other) < 1,
            "RED on a slow last hop",
        )
        for number, (ours, other) in enumerate(
            ((testbed.RED, testbed.TAIL_DROP), (FQ_CODEL, testbed.TAIL_DROP), (FQ_CODEL, testbed.RED)), 1
        )
    ),
)

WITHOUT_QUIC = {
    claim.id: "the experiment has no runs with QUIC, which keeps the study short"
    for claim in CLAIMS
    if claim.id.startswith(("TS-MI", "TS-W-"))
}
"""Claims that are not judged for QUIC."""

_bars = partial(
    line, kind="bars", x="question", by="sender", levels={"": 1.0}, y_label="ratio of times", x_label=""
)


def _means(id: str, title: str, variable: Variable) -> Table:
    return Table(id, title, crossed(variable, rows="queue", columns="sender"))


STUDY = Study.of(
    "todays-senders",
    "The first five studies with the senders of today",
    *(pages, pages_alone, files, requests, flows, third),
    *CLAIMS,
    Figure(
        "ratios", "Times with one queue divided by times with another", _bars(stacked("question", _RATIOS))
    ),
    _means("pages", "Mean page time (s), Web 70 % beside 10 FTP flows", page),
    _means("pages-alone", "Mean page time (s), Web only, 100 %", page_alone),
    _means(
        "timeouts", "Time-outs per short flow, Web 70 % beside 10 FTP flows", pages[of_shred.SHORT_TIMEOUTS]
    ),
    _means(
        "drops",
        "Packets dropped per Web flow (%), Web 70 % beside 10 FTP flows",
        pages[of_shred.DROP_PERCENT],
    ),
    _means("short-files", "Mean time of short files (s)", short),
    _means("long-files", "Mean time of long files (s)", long),
    _means("requests-median", "Median response time (s), 90 %", median),
    _means("requests-p95", "95th percentile of the response time (s), 90 %", p95),
    Table(
        "rates",
        "Rate of the flow divided by the rate of the other flow",
        crossed(rates, rows="queue", columns="sender"),
    ),
    _means("third", "Third transfer's elapsed time (s), averaged over the starts", elapsed),
    question="Do SHRED's hint, RIO-PS, Adaptive RED, fair queueing and RED on a slow line still matter "
    "beside CUBIC, BBR, QUIC and FQ-CoDel?",
    readings=tuple(
        Reading(
            name=one,
            labels={"sender": one},
            suffix=f", {one}",
            leaves_out=WITHOUT_QUIC if one == QUIC else {},
        )
        for one in SENDERS
    ),
)
