"""The claims of the study `shred`, each with its rule, and the answer in words."""

from __future__ import annotations

from aqmlab import metrics
from aqmlab.results.rule import difference, every, mean_of, ratio
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.shared import range_of, told
from aqmlab.studies.shred import measures
from aqmlab.studies.shred.experiments import (
    QUEUES,
    UNCONGESTED,
    ftp_mixed,
    ftp_only,
    hint_on_pi,
    lost_packet,
    web_mixed,
    web_mixed_pages,
    web_only,
    web_only_pages,
)
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Verdicts

AREA_TO_S = 10.0
"""How far the area between two distribution functions is taken."""

TALK_ACTIVE = 140
"""Active flows at 100 % Web load, on slides 21 and 22."""

FIRST_WINDOW = ("1", "2")
"""The segments that leave in the initial window of two: while one of them is missing, the window is below
four."""

LAST_THREE = ("8", "9", "10")
"""The segments behind which fewer than three are left to be acknowledged twice."""


def normalised(time: Variable) -> Variable:
    """A time over that of the same arrivals without congestion."""
    return per_seed(
        f"{time.name} over uncongested", metrics.normalised_time, time, time.at(queue=UNCONGESTED)
    )


def share_beyond(experiment: Experiment) -> Variable:
    """The share of objects that take longer than each time of the grid, as a list."""
    ended, censored = experiment[measures.ENDED], experiment[measures.CENSORED]
    return per_seed("share beyond each time", metrics.survival, ended, censored)


def _area(ours: metrics.Floats, theirs: metrics.Floats) -> float:
    near = measures.GRID <= AREA_TO_S
    return metrics.area_between(ours[near], theirs[near], measures.GRID[near])


def _gain(ours: float, theirs: float) -> float | None:
    return 100 * (1 - ours / theirs) if theirs > 0 else None


def _gain_over_red(time: Variable) -> Variable:
    return per_seed(
        f"gain of SHRED over RED in {time.name}",
        _gain,
        time.at(queue="SHRED"),
        time.at(queue="RED"),
        unit="%",
    )


def _advantage(drops: Variable) -> Variable:
    """By how much fewer packets SHRED drops."""
    ours, theirs = drops.at(queue="SHRED"), drops.at(queue="RED")
    name = "RED - SHRED in packets dropped per Web flow"
    return per_seed(name, lambda a, b: b - a, ours, theirs, unit="points")


mixed = web_mixed[measures.MEAN_TIME]
beyond = share_beyond(web_mixed)
distance = per_seed(
    "area to the uncongested distribution", _area, beyond, beyond.at(queue=UNCONGESTED), unit="s"
)

beside_ftp = normalised(ftp_mixed[measures.RESPONSE])

SHRED_TO_RED = ("SHRED", "RED")
SHRED_TO_DROP_TAIL = ("SHRED", "Drop Tail")
RED_TO_DROP_TAIL = ("RED", "Drop Tail")

CLAIMS = (
    Claim(
        id="SH-1.2",
        statement="Web-only SHRED has best performance.",
        source="slide 27",
        figures=("3a", "overview-web-only"),
        rule=every(
            *(
                rule
                for measure in (measures.MEDIAN, measures.P90, measures.MEAN_TIME)
                for rule in (
                    ratio(web_only[measure], queue=SHRED_TO_RED) < 1,
                    ratio(web_only[measure], queue=SHRED_TO_DROP_TAIL) < 1,
                )
            )
        ),
    ),
    Claim(
        id="SH-2",
        statement="Web-mixed SHRED closer to uncongested performance.",
        source="slide 27",
        figures=("4a",),
        rule=every(
            ratio(distance.at(load=0.7), queue=SHRED_TO_RED) < 1,
            ratio(distance.at(load=0.7), queue=SHRED_TO_DROP_TAIL) < 1,
        ),
    ),
    Claim(
        id="SH-3",
        statement="SHRED is better than RED and Drop Tail in heavy-tail of CDF due to RTO issues.",
        source="slide 27",
        figures=("4b",),
        rule=every(
            *(
                ratio(web_mixed[share].at(load=0.7), queue=pair) < 1
                for share in measures.BEYOND
                for pair in (SHRED_TO_RED, SHRED_TO_DROP_TAIL)
            )
        ),
    ),
    Claim(
        id="SH-4.2",
        statement="With normalized transmission time, SHRED 4 [%] better than RED which is 8 [%] better than "
        "Drop Tail.",
        source="slide 27; the bands are ours",
        figures=("5", "readings"),
        rule=every(
            ratio(normalised(mixed), queue=SHRED_TO_RED).within(0.90, 0.99),
            ratio(normalised(mixed), queue=RED_TO_DROP_TAIL).within(0.85, 0.99),
        ),
    ),
    Claim(
        id="SH-5",
        statement="As number of flows increase, the SHRED benefit in packet drops widens.",
        source="slide 27",
        figures=("6",),
        rule=every(
            mean_of(_advantage(web_mixed[measures.DROP_PERCENT]).slope("load", 0.1)) > 0,
            mean_of(_advantage(ftp_mixed[measures.DROP_PERCENT]).slope("flows", 10.0)) > 0,
        ),
    ),
    Claim(
        id="SH-6.2",
        statement="SHRED produces lower object transmission times than either RED or Drop Tail in [...] "
        "mixed traffic simulations.",
        source="slide 33, of figure 7",
        figures=("7",),
        rule=every(
            ratio(beside_ftp, queue=SHRED_TO_RED) < 1,
            ratio(beside_ftp, queue=SHRED_TO_DROP_TAIL) < 1,
        ),
    ),
    Claim(
        id="SH-7.2",
        statement="SHRED yields significant response time improvement when there are multiple objects per "
        "page.",
        source="slide 33",
        figures=("pages",),
        rule=every(
            mean_of(_gain_over_red(web_mixed_pages[measures.RESPONSE])) > 0,
            mean_of(_gain_over_red(web_only_pages[measures.RESPONSE])) > 0,
        ),
    ),
    Claim(
        id="SH-8.2",
        statement="SHRED improvements do not negatively impact FTP traffic.",
        source="slide 33; how little is no harm is ours",
        figures=("table-1", "table-2"),
        rule=every(
            ratio(ftp_only[measures.FTP_ALONE], queue=SHRED_TO_RED) >= 0.98,
            difference(ftp_only[measures.JAIN], queue=SHRED_TO_RED) >= -0.05,
        ),
    ),
    Claim(
        id="SH-9.2",
        statement="[SHRED improves response times] while not degrading overall network performance.",
        source="the paper's abstract, not the talk; that goodput is meant, and how little is no loss, are "
        "ours",
        figures=("goodput",),
        rule=every(
            *(
                ratio(web_mixed[measures.GOODPUT], queue=pair) >= 0.98
                for pair in (SHRED_TO_RED, SHRED_TO_DROP_TAIL)
            )
        ),
    ),
    Claim(
        id="SH-10",
        statement="SHRED protects short-lived flows from unnecessary timeouts.",
        source="the paper's abstract, not the talk; that it is compared with RED is ours",
        figures=("overview-web-mixed", "overview-web-only"),
        rule=every(
            ratio(web_only[measures.SHORT_TIMEOUTS], queue=SHRED_TO_RED) < 1,
            ratio(web_mixed[measures.SHORT_TIMEOUTS].at(load=0.7), queue=SHRED_TO_RED) < 1,
        ),
    ),
    Claim(
        id="SH-11",
        statement="Basic SH scheme can be applied to other AQMs (e.g., research on PISA).",
        source="slide 33; that it then serves Web objects faster is ours",
        origin="ours",
        figures=("hint-on-pi",),
        rule=every(
            *(ratio(hint_on_pi[measures.MEAN_TIME], queue=(ours, "PI")) < 1 for ours in ("PISA", "PIMC"))
        ),
    ),
    Claim(
        id="SH-12",
        statement="The improvement is larger with several objects per page than with one.",
        source="our reading of figure 8",
        origin="sheet",
        figures=("pages",),
        rule=difference(
            _gain_over_red(web_mixed_pages[measures.RESPONSE]),
            _gain_over_red(web_mixed[measures.RESPONSE].at(load=0.7)),
        )
        > 0,
    ),
    Claim(
        id="SH-13",
        statement="100 load, 140 active flows.",
        source="slides 21 and 22; that the flows open at a time are meant, and within a fifth, is ours",
        figures=("active-transfers",),
        rule=mean_of(web_only[measures.MEAN_ACTIVE].among(queue=QUEUES)).within(
            0.8 * TALK_ACTIVE, 1.2 * TALK_ACTIVE
        ),
    ),
    Claim(
        id="SH-14",
        statement="Fast Retransmit is ineffective when cwnd is less than four and for last three packets of "
        "a flow.",
        source="slide 4; that ten segments show it, of which the first two leave with a window below four, "
        "is ours",
        figures=("lost-packet",),
        rule=mean_of(lost_packet[measures.LOST_TIMEOUTS].among(lost=(*FIRST_WINDOW, *LAST_THREE))) >= 1,
    ),
    Claim(
        id="AQM-1.2",
        statement="RED attempts to avoid global synchronization and bursty packet drops.",
        source="slide 5; that it does is ours",
        origin="ours",
        figures=("synchronisation", "drop-runs"),
        rule=every(
            ratio(ftp_only[measures.SYNCHRONISATION], queue=RED_TO_DROP_TAIL) < 1,
            ratio(ftp_only[measures.DROP_RUN], queue=RED_TO_DROP_TAIL) < 1,
        ),
    ),
)


def answer(found: Verdicts) -> list[str]:
    """Can a router treat short transfers better? In words, from the verdicts."""
    near = told(found, "SH-2", "SH-3")
    return [
        "Does SHRED bring short Web transfers nearer to an uncongested network than RED and Drop Tail, "
        f"beside FTP flows? {near}.",
        f"By how much? {range_of(found.of('SH-4.2'))}; the talk says 0.96 and 0.92: {told(found, 'SH-4.2')}.",
        f"At every number of FTP flows? {told(found, 'SH-6.2')}. With several objects per page? "
        f"{told(found, 'SH-7.2')}.",
        f"Without harm to FTP traffic ({told(found, 'SH-8.2')}) and to the network "
        f"({told(found, 'SH-9.2')})? {range_of(found.of('SH-8.2'))}.",
    ]
