"""The claims of the study `shred`, each with its rule, and the answer in words.

What is compared, and the bands, were written down before the first run. Those of SH-4 are the sheet's.
"""

from __future__ import annotations

from aqmlab import metrics
from aqmlab.publication import Claim, Verdicts
from aqmlab.rule import difference, every, mean_of, ratio
from aqmlab.studies.shared import joint, tally
from aqmlab.studies.shred import measures
from aqmlab.studies.shred.experiments import (
    UNCONGESTED,
    ftp_mixed,
    ftp_only,
    hint_on_pi,
    web_mixed,
    web_mixed_pages,
    web_only,
)
from aqmlab.variable import Variable, per_seed

AREA_TO_S = 10.0
"""How far the area between two distribution functions is taken."""


def normalised(time: Variable) -> Variable:
    """A time over that of the same arrivals without congestion."""
    return per_seed(
        f"{time.name} over uncongested", metrics.normalised_time, time, time.at(queue=UNCONGESTED)
    )


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
beyond = per_seed(
    "share beyond each time", metrics.survival, web_mixed[measures.ENDED], web_mixed[measures.CENSORED]
)
distance = per_seed(
    "area to the uncongested distribution", _area, beyond, beyond.at(queue=UNCONGESTED), unit="s"
)

beside_ftp = normalised(ftp_mixed[measures.RESPONSE])

SHRED_TO_RED = ("SHRED", "RED")
SHRED_TO_DROP_TAIL = ("SHRED", "Drop Tail")
RED_TO_DROP_TAIL = ("RED", "Drop Tail")

CLAIMS = (
    Claim(
        id="SH-1",
        statement="With Web traffic only at 100 % load, object times under SHRED are shorter than under RED, "
        "and under RED not longer than under Drop Tail.",
        source="figure 3",
        figures=("3a", "overview-web-only"),
        rule=every(
            *(
                rule
                for measure in (measures.MEDIAN, measures.P90, measures.MEAN_TIME)
                for rule in (
                    ratio(web_only[measure], queue=SHRED_TO_RED) < 1,
                    ratio(web_only[measure], queue=RED_TO_DROP_TAIL) <= 1.02,
                )
            )
        ),
    ),
    Claim(
        id="SH-2",
        statement="With 70 % Web load and 10 FTP flows, SHRED's distribution of object times is the nearest "
        "to the uncongested one.",
        source="figure 4a",
        figures=("4a",),
        rule=every(
            ratio(distance.at(load=0.7), queue=SHRED_TO_RED) < 1,
            ratio(distance.at(load=0.7), queue=SHRED_TO_DROP_TAIL) < 1,
        ),
    ),
    Claim(
        id="SH-3",
        statement="In the tail of that distribution, from one time-out on, fewer objects take so long under "
        "SHRED than under RED and Drop Tail.",
        source="figure 4b",
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
        id="SH-4",
        statement="Normalised transmission times, Web-mixed: SHRED about 4 % better than RED, RED about 8 % "
        "better than Drop Tail.",
        source="figure 5",
        figures=("5", "readings"),
        rule=every(
            ratio(normalised(mixed).averaged("load"), queue=SHRED_TO_RED).within(0.90, 0.99),
            ratio(normalised(mixed).averaged("load"), queue=RED_TO_DROP_TAIL).within(0.85, 0.99),
        ),
    ),
    Claim(
        id="SH-5",
        statement="As load or the number of flows grows, SHRED's advantage in percent of Web packets dropped "
        "widens.",
        source="figure 6",
        figures=("6",),
        rule=every(
            mean_of(_advantage(web_mixed[measures.DROP_PERCENT]).slope("load", 0.1)) > 0,
            mean_of(_advantage(ftp_mixed[measures.DROP_PERCENT]).slope("flows", 10.0)) > 0,
        ),
    ),
    Claim(
        id="SH-6",
        statement="With 50 % Web load, response times are shortest under SHRED, then RED, then Drop Tail, "
        "whatever the number of FTP flows.",
        source="figure 7",
        figures=("7",),
        rule=every(
            *(
                ratio(
                    normalised(ftp_mixed[measures.RESPONSE])
                    .among(flows=(5, 10, 20, 30, 40))
                    .averaged("flows"),
                    queue=pair,
                )
                < 1
                for pair in (SHRED_TO_RED, RED_TO_DROP_TAIL)
            )
        ),
    ),
    Claim(
        id="SH-7",
        statement="With several objects per page, SHRED shortens response times significantly, and more than "
        "with one.",
        source="slide 29",
        figures=("pages",),
        rule=every(
            mean_of(_gain_over_red(web_mixed_pages[measures.RESPONSE]).averaged("objects")) > 0,
            difference(
                _gain_over_red(web_mixed_pages[measures.RESPONSE]).averaged("objects"),
                _gain_over_red(web_mixed[measures.RESPONSE].at(load=0.7)),
            )
            > 0,
        ),
    ),
    Claim(
        id="SH-8",
        statement="FTP traffic is not harmed: with FTP only, goodput and fairness under SHRED are about "
        "those under RED.",
        source="slide 33",
        figures=("table-1", "table-2"),
        rule=every(
            ratio(ftp_only[measures.FTP_ALONE].averaged("flows"), queue=SHRED_TO_RED).within(0.98, 1.02),
            difference(ftp_only[measures.JAIN].averaged("flows"), queue=SHRED_TO_RED).within(-0.05, 0.05),
        ),
    ),
    Claim(
        id="SH-9",
        statement="The network as a whole does not lose performance.",
        source="abstract",
        figures=("overview-web-mixed",),
        rule=every(
            *(
                ratio(web_mixed[measures.GOODPUT].averaged("load"), queue=pair) >= 0.98
                for pair in (SHRED_TO_RED, SHRED_TO_DROP_TAIL)
            )
        ),
    ),
    Claim(
        id="SH-10",
        statement="Short Web flows have fewer time-outs under SHRED than under RED.",
        source="abstract",
        figures=("overview-web-mixed", "overview-web-only"),
        rule=every(
            ratio(web_only[measures.SHORT_TIMEOUTS], queue=SHRED_TO_RED) < 1,
            ratio(web_mixed[measures.SHORT_TIMEOUTS].at(load=0.7), queue=SHRED_TO_RED) < 1,
        ),
    ),
    Claim(
        id="SH-11",
        statement="The idea can be put on other AQMs (the talk's end): with the hint PI, too, serves Web "
        "objects faster.",
        source="the talk's end",
        figures=("hint-on-pi",),
        rule=every(
            *(ratio(hint_on_pi[measures.MEAN_TIME], queue=(ours, "PI")) < 1 for ours in ("PISA", "PIMC"))
        ),
    ),
    Claim(
        id="AQM-1",
        statement="RED avoids what it was invented against: flows losing together, and drops in a row.",
        source="slide 3",
        figures=("synchronisation", "drop-runs"),
        rule=every(
            ratio(ftp_only[measures.SYNCHRONISATION].averaged("flows"), queue=RED_TO_DROP_TAIL) < 1,
            ratio(ftp_only[measures.DROP_RUN].averaged("flows"), queue=RED_TO_DROP_TAIL) < 1,
        ),
    ),
)


def answer(found: Verdicts) -> list[str]:
    """Can a router treat short transfers better? In words, from the verdicts."""
    said = {
        "holds": ("Yes", "it does", "confirmed"),
        "fails": ("No", "it does not", "contradicted"),
        "undecided": ("Not decided", "these runs cannot tell", "left open"),
    }
    mixed = said[joint(found, "SH-2", "SH-3")]
    size = found.of("SH-4")
    shares = [part.measured.split(" [")[0] for part in size.parts]
    return [
        f"Does SHRED bring short Web transfers nearer to an uncongested network than RED and Drop Tail, "
        f"beside FTP flows? {mixed[0]}: {mixed[1]} (SH-2 and SH-3).",
        f"By how much? {'; '.join(shares)}; the talk says 0.96 and 0.92 (SH-4 {said[size.verdict][2]}).",
        _harm(found),
        tally(found),
    ]


def _harm(found: Verdicts) -> str:
    """Equal is not the same as unharmed: a queue may also be better than RED."""
    equal, whole = found.of("SH-8"), found.of("SH-9")
    question = "Without harm to FTP traffic and to the network?"
    if equal.verdict == "fails" and len(equal.parts) == 2:
        goodput, fairness = equal.parts
        if goodput.low >= 0.98 and fairness.low >= -0.05:
            said = f"FTP alone is not equal to RED, as the talk has it, but better: {goodput.measured} (SH-8)"
        else:
            said = f"FTP alone does not get what it gets under RED: {equal.measured} (SH-8)"
    else:
        word = "does" if equal.verdict == "holds" else "may or may not get"
        said = f"FTP alone {word} {'about ' if equal.verdict == 'holds' else ''}as well as under RED (SH-8)"
    rest = {
        "holds": "all flows together lose nothing",
        "fails": "all flows together lose goodput",
        "undecided": "whether all flows together lose goodput is not decided",
    }[whole.verdict]
    return f"{question} {said}; {rest} (SH-9)."
