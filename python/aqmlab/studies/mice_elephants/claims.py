"""The claims of the study `mice-elephants`, each with its rule, and the answer in words.

What is compared, and the bands, were written down before the first run.
"""

from __future__ import annotations

from aqmlab.experiment import Experiment
from aqmlab.measure import Measure
from aqmlab.publication import Claim, Verdicts
from aqmlab.rule import AnyRule, Estimate, difference, every, mean_of, ratio
from aqmlab.studies.mice_elephants import measures
from aqmlab.studies.mice_elephants.experiments import (
    DEMAND,
    RIO_PS,
    exp_1,
    exp_2,
    random_loss,
    table_1,
    two_way,
)
from aqmlab.studies.shared import tally
from aqmlab.variable import Variable, per_seed

OTHERS = ("RED", "Drop Tail")


def _ratios(measure: Measure, ito: str = "3 s") -> list[Estimate]:
    """A measure of Exp 1, RIO-PS over each of the others."""
    return [ratio(exp_1[measure].at(ITO=ito), queue=(RIO_PS, other)) for other in OTHERS]


def _ahead(measure: Measure) -> list[Estimate]:
    """By how much RIO-PS exceeds each of the others in Exp 1."""
    return [difference(exp_1[measure].at(ITO="3 s"), queue=(RIO_PS, other)) for other in OTHERS]


def _gain(time: Variable, other: str) -> Variable:
    return per_seed(
        f"gain of RIO-PS over {other} in {time.name}",
        lambda ours, theirs: 100 * (1 - ours / theirs) if theirs > 0 else None,
        time.at(queue=RIO_PS),
        time.at(queue=other),
        unit="points",
    )


def equal_to_red(experiment: Experiment) -> AnyRule:
    """That RIO-PS is about equal to RED where all files are of one class."""
    pair = (RIO_PS, "RED")
    return every(
        ratio(experiment[measures.RESPONSE], queue=pair).within(0.95, 1.05),
        ratio(experiment[measures.GOODPUT], queue=pair).within(0.98, 1.02),
    )


demand_met = per_seed("short goodput over demand", lambda packets: packets / DEMAND, table_1[measures.SHORT])
short_files = exp_1[measures.SHORT_FILES]

CLAIMS = (
    Claim(
        id="MI-1",
        statement="Short flows get less than 90 % of their demand under Drop Tail and nearly all of "
        "it under RED and RIO-PS; long flows pay 5 to 8 %.",
        source="Table I",
        origin="sheet",
        figures=("table-1", "table-1-search", "table-1-search-goodput"),
        rule=every(
            mean_of(demand_met.at(queue="Drop Tail")) < 0.9,
            *(mean_of(demand_met.at(queue=queue)) >= 0.99 for queue in ("RED", RIO_PS)),
            ratio(table_1[measures.LONG], queue=(RIO_PS, "Drop Tail")).within(0.92, 0.95),
        ),
    ),
    Claim(
        id="MI-2",
        statement="The total goodput of the three queues is within 2 % of each other.",
        source="Table I",
        origin="sheet",
        figures=("table-1",),
        rule=every(
            *(
                ratio(table_1[measures.ALL], queue=pair).within(0.98, 1.02)
                for pair in (("RED", "Drop Tail"), (RIO_PS, "Drop Tail"), (RIO_PS, "RED"))
            )
        ),
    ),
    Claim(
        id="MI-3",
        statement="Under RIO-PS the short class's share of the line is steadier over time than under "
        "Drop Tail.",
        source="figure 2",
        origin="sheet",
        figures=("2",),
        rule=ratio(table_1[measures.SHARE_VARIATION], queue=(RIO_PS, "Drop Tail")) < 1,
    ),
    Claim(
        id="MI-4",
        statement="The coefficient of variation of short flows' times rises with loss, and mean times "
        "rise steeply beyond a few percent.",
        source="figure 1",
        origin="sheet",
        figures=("1b", "1a"),
        rule=every(
            mean_of(random_loss[measures.VARIATION[10]].slope("loss", 0.01)) > 0,
            *(ratio(random_loss[measures.TRANSFER_TIME[size]], loss=(0.1, 0.01)) > 2 for size in (10, 100)),
        ),
    ),
    Claim(
        id="MI-5",
        statement="With an initial time-out of 3 s, short files are faster under RIO-PS than under RED and "
        "Drop Tail.",
        source="figure 6a",
        figures=("6a", "relative-to-drop-tail", "exp-1-ito-3"),
        rule=every(*(one < 1 for one in _ratios(measures.SHORT_FILES))),
    ),
    Claim(
        id="MI-6",
        statement="Long files are not worse under RIO-PS than under RED and Drop Tail.",
        source="abstract and figure 6a",
        figures=("6a", "9b", "exp-1-ito-3"),
        rule=every(
            *(
                one <= 1.05
                for measure in (measures.LONG_FILES, measures.LONG_FLOWS)
                for one in _ratios(measure)
            )
        ),
    ),
    Claim(
        id="MI-7",
        statement="An initial time-out of 1 s narrows the gap, but RIO-PS stays best for short files.",
        source="abstract and figure 6b",
        figures=("6b", "exp-1-ito-1"),
        rule=every(
            *(one < 1 for one in _ratios(measures.SHORT_FILES, "1 s")),
            *(difference(_gain(short_files, other), ITO=("3 s", "1 s")) > 0 for other in OTHERS),
        ),
    ),
    Claim(
        id="MI-8",
        statement="Foreground flows of a batch fare most alike under RIO-PS if short, and at least as alike "
        "as under the others if long.",
        source="figures 8a and 8b",
        figures=("8a", "8b"),
        rule=every(
            *(one > 0 for one in _ahead(measures.SHORT_JAIN)),
            *(one >= -0.02 for one in _ahead(measures.LONG_JAIN)),
        ),
    ),
    Claim(
        id="MI-9",
        statement="Short foreground flows are faster under RIO-PS and far less variable, with few outliers "
        "of 3 s.",
        source="figure 9a",
        figures=("9a",),
        rule=every(
            *(
                one < 1
                for measure in (measures.SHORT_FLOWS, measures.SHORT_SPREAD, measures.SHORT_BEYOND)
                for one in _ratios(measure)
            )
        ),
    ),
    Claim(
        id="MI-10",
        statement="Goodput under RIO-PS is at least Drop Tail's and about RED's (the talk: a weak claim).",
        source="Table IV",
        figures=("table-4",),
        rule=every(
            ratio(exp_1[measures.GOODPUT], queue=(RIO_PS, "Drop Tail")) >= 1,
            ratio(exp_1[measures.GOODPUT], queue=(RIO_PS, "RED")).within(0.99, 1.01),
        ),
    ),
    Claim(
        id="MI-11",
        statement="Under RED and RIO-PS the queue is shorter and swings less than under Drop Tail; RIO-PS "
        "drops and marks no more than RED.",
        source="figures 7a and 7b",
        origin="sheet",
        figures=("7a", "7b", "exp-1-ito-3"),
        rule=every(
            *(
                ratio(exp_1[measure].at(ITO="3 s"), queue=(queue, "Drop Tail")) < 1
                for measure in (measures.MEAN_QUEUE, measures.QUEUE_SPREAD)
                for queue in ("RED", RIO_PS)
            ),
            ratio(exp_1[measures.REFUSED].at(ITO="3 s"), queue=(RIO_PS, "RED")) <= 1.02,
        ),
    ),
    Claim(
        id="MI-12",
        statement="Where nearly all traffic is of one class, RIO-PS is about equal to RED.",
        source="abstract",
        figures=("exp-2-laws", "exp-2-short", "exp-2-long"),
        rule=equal_to_red(exp_2),
    ),
    Claim(
        id="MI-13",
        statement="No packet overtakes another of its flow, although a flow's mark changes.",
        source="abstract",
        rule=every(
            mean_of(table_1[measures.OVERTAKEN].at(queue=RIO_PS)) <= 0,
            mean_of(table_1[measures.RETAGGED].at(queue=RIO_PS)) > 0,
        ),
    ),
    Claim(
        id="MI-14",
        statement="With traffic both ways RIO-PS gains more (the talk's last remark).",
        source="the talk's last remark",
        figures=("two-way", "two-way-table"),
        rule=every(
            *(
                difference(
                    _gain(two_way[measures.SHORT_FILES], other), _gain(short_files.at(ITO="3 s"), other)
                )
                > 0
                for other in OTHERS
            )
        ),
    ),
)

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def answer(found: Verdicts) -> list[str]:
    """Do short flows gain, and who pays? In words, from the verdicts."""

    def told(claim: str) -> str:
        evidence = found.of(claim)
        return f"{_SAID[evidence.verdict]} ({claim}: {evidence.measured})"

    return [
        f"Are short Web files faster under RIO-PS? {told('MI-5')}.",
        f"Are they still, but by less, if a lost SYN costs 1 s instead of 3 s? {told('MI-7')}.",
        f"Are long files left unharmed? {told('MI-6')}.",
        f"Is RIO-PS about equal to RED where all traffic is of one class? {told('MI-12')}. How much of this "
        "is the edge's doing, the table of Exp 2 by the law of L_t shows.",
        tally(found),
    ]
