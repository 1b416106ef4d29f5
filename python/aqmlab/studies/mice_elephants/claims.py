"""The claims of the study `mice-elephants`, each with its rule, and the answer in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aqmlab.measures import Measure
from aqmlab.results.rule import AnyRule, Estimate, difference, every, mean_of, ratio
from aqmlab.results.variable import Measured, Variable, per_seed
from aqmlab.studies.mice_elephants import measures
from aqmlab.studies.mice_elephants.experiments import (
    LOSSES,
    RIO_PS,
    exp_1,
    exp_2,
    random_loss,
    table_1,
    two_way,
)
from aqmlab.studies.shared import range_of, told
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Verdicts

OTHERS = ("RED", "Drop Tail")

UP_TO_A_FEW_PERCENT, FROM_A_FEW_PERCENT = LOSSES[:4], LOSSES[3:]


def in_exp_1(measure: Measure, ito: str = "3 s") -> Measured:
    """A measure of Exp 1 with an initial time-out."""
    return exp_1[measure].at(ITO=ito)


def _to_others(*several: Measure, ito: str = "3 s", by: Callable[..., Estimate] = ratio) -> list[Estimate]:
    """Measures of Exp 1, RIO-PS compared with each of the others."""
    return [by(in_exp_1(one, ito), queue=(RIO_PS, other)) for one in several for other in OTHERS]


def _gain(time: Variable, other: str) -> Variable:
    return per_seed(
        f"gain of RIO-PS over {other} in {time.name}",
        lambda ours, theirs: 100 * (1 - ours / theirs) if theirs > 0 else None,
        *(time.at(queue=queue) for queue in (RIO_PS, other)),
        unit="points",
    )


def _growth(size: int, losses: Sequence[float]) -> Variable:
    """How much the mean time of flows of a size grows per percent of loss, within these losses."""
    measure = measures.TRANSFER_TIME[size]
    slope = random_loss[measure].among(loss=losses).slope("loss", 0.01)
    span = f"from {100 * losses[0]:g} to {100 * losses[-1]:g} % of loss"
    return per_seed(f"{measure.title}, growth per percent {span}", float, slope, unit=measure.unit)


def _beside_buffers(measure: Measure) -> Variable:
    """A measure of Exp 1 that tells by its name that buffers differ."""
    name = f"{measure.title} (buffers: Drop Tail 1.5 BDP, others 2.5)"
    return per_seed(name, float, exp_1[measure], unit=measure.unit).at(ITO="3 s")


def as_good_as_red(experiment: Experiment) -> AnyRule:
    """That RIO-PS is not worse than RED where all files are of one class."""
    pair = (RIO_PS, "RED")
    return every(
        ratio(experiment[measures.RESPONSE], queue=pair) <= 1.05,
        ratio(experiment[measures.GOODPUT], queue=pair) >= 0.98,
    )


short_files = exp_1[measures.SHORT_FILES]
both_ways = two_way[measures.SHORT_FILES]

CLAIMS = (
    Claim(
        id="MI-1.2",
        statement="Short flows get nearly all of their demand under RED and RIO-PS; long flows pay 5 to 8 %.",
        source="Table I; the bands are ours. Short flows under Drop Tail are no part of it: the "
        "set-up was chosen by them",
        origin="sheet",
        figures=("table-1", "table-1-neighbours", "table-1-search", "table-1-search-goodput"),
        rule=every(
            *(mean_of(table_1[measures.DEMAND_MET].at(queue=queue)) >= 0.99 for queue in ("RED", RIO_PS)),
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
        id="MI-4.2",
        statement="The coefficient of variation of short flows' times rises with loss, and mean times "
        "rise steeply beyond a few percent.",
        source="figure 1; that steeply is more steeply than up to 3 % of loss is ours",
        origin="sheet",
        figures=("1b", "1a"),
        rule=every(
            mean_of(random_loss[measures.VARIATION[10]].slope("loss", 0.01)) > 0,
            *(
                ratio(_growth(size, FROM_A_FEW_PERCENT), _growth(size, UP_TO_A_FEW_PERCENT)) > 1
                for size in (10, 100)
            ),
        ),
    ),
    Claim(
        id="MI-5.2",
        statement="This scheme shown to improve response time and fairness for short flows.",
        source="the talk's conclusions, of figures 6a and 8a",
        figures=("6a", "8a", "relative-to-drop-tail", "exp-1-ito-3"),
        rule=every(
            *(one < 1 for one in _to_others(measures.SHORT_FILES)),
            *(one > 0 for one in _to_others(measures.SHORT_JAIN, by=difference)),
        ),
    ),
    Claim(
        id="MI-6",
        statement="Long files are not worse under RIO-PS than under RED and Drop Tail.",
        source="the abstract: without hurting them; figures 6a and 9b. How little is no harm, 5 %, is ours",
        figures=("6a", "9b", "exp-1-ito-3"),
        rule=every(*(one <= 1.05 for one in _to_others(measures.LONG_FILES, measures.LONG_FLOWS))),
    ),
    Claim(
        id="MI-7",
        statement="An initial time-out of 1 s narrows the gap, but RIO-PS stays best for short files.",
        source="figure 6b, as we read the abstract",
        origin="sheet",
        figures=("6b", "exp-1-ito-1"),
        rule=every(
            *(one < 1 for one in _to_others(measures.SHORT_FILES, ito="1 s")),
            *(difference(_gain(short_files, other), ITO=("3 s", "1 s")) > 0 for other in OTHERS),
        ),
    ),
    Claim(
        id="MI-8",
        statement="Foreground flows of a batch fare most alike under RIO-PS if short, and at least as alike "
        "as under the others if long.",
        source="figures 8a and 8b; the margin of 0.02 for long flows is ours",
        origin="sheet",
        figures=("8a", "8b"),
        rule=every(
            *(one > 0 for one in _to_others(measures.SHORT_JAIN, by=difference)),
            *(one >= -0.02 for one in _to_others(measures.LONG_JAIN, by=difference)),
        ),
    ),
    Claim(
        id="MI-9",
        statement="Short foreground flows are faster under RIO-PS and far less variable, with few outliers "
        "of 3 s.",
        source="figure 9a",
        origin="sheet",
        figures=("9a",),
        rule=every(
            *(
                one < 1
                for one in _to_others(measures.SHORT_FLOWS, measures.SHORT_SPREAD, measures.SHORT_BEYOND)
            )
        ),
    ),
    Claim(
        id="MI-10.2",
        statement="Goodput under RIO-PS is at least Drop Tail's and about RED's.",
        source="Table IV; how little is no loss, half a percent, is ours. MI-17 judges the sentence",
        origin="sheet",
        figures=("table-4",),
        rule=every(
            ratio(exp_1[measures.GOODPUT], queue=(RIO_PS, "Drop Tail")) >= 0.995,
            ratio(exp_1[measures.GOODPUT], queue=(RIO_PS, "RED")).within(0.995, 1.005),
        ),
    ),
    Claim(
        id="MI-11.2",
        statement="Under RED and RIO-PS the queue is shorter and swings less than under Drop Tail; RIO-PS "
        "drops and marks no more than RED.",
        source="figures 7a and 7b; how little is no more, 2 %, is ours",
        origin="sheet",
        figures=("7a", "7b", "exp-1-ito-3"),
        rule=every(
            *(
                ratio(_beside_buffers(measure), queue=(queue, "Drop Tail")) < 1
                for measure in (measures.MEAN_QUEUE, measures.QUEUE_SPREAD)
                for queue in ("RED", RIO_PS)
            ),
            ratio(in_exp_1(measures.REFUSED), queue=(RIO_PS, "RED")) <= 1.02,
        ),
    ),
    Claim(
        id="MI-12.3",
        statement="It works as well as plain RED in the worst case.",
        source="the abstract; that the worst case is traffic of one class, the mixes and the margins are "
        "ours",
        origin="sheet",
        figures=("exp-2-laws", "exp-2-short", "exp-2-long"),
        rule=as_good_as_red(exp_2),
    ),
    Claim(
        id="MI-14",
        statement="Authors claim two-way would be even better for RIO-PS.",
        source="the talk's discussion; that it is short files which gain is ours",
        figures=("two-way", "two-way-table"),
        rule=every(
            *(
                difference(_gain(both_ways, other), _gain(short_files.at(ITO="3 s"), other)) > 0
                for other in OTHERS
            )
        ),
    ),
    Claim(
        id="MI-15",
        statement="The performance of long flows is also enhanced.",
        source="the talk's conclusions",
        figures=("6a", "9b", "exp-1-ito-3"),
        rule=every(*(one < 1 for one in _to_others(measures.LONG_FILES, measures.LONG_FLOWS))),
    ),
    Claim(
        id="MI-16",
        statement="A smaller initial time-out helps short flows, but less than RIO-PS.",
        source="the abstract, as we have it",
        figures=("exp-1-ito-1", "exp-1-ito-3"),
        rule=every(
            *(ratio(short_files.at(queue=other), ITO=("1 s", "3 s")) < 1 for other in OTHERS),
            *(
                ratio(short_files.at(ITO="3 s", queue=RIO_PS), short_files.at(ITO="1 s", queue=other)) < 1
                for other in OTHERS
            ),
        ),
    ),
    Claim(
        id="MI-17",
        statement="Overall goodput is improved {a weak claim}.",
        source="the talk's conclusions",
        figures=("table-4",),
        rule=every(*(one > 1 for one in _to_others(measures.GOODPUT))),
    ),
    Claim(
        id="MI-18",
        statement="Pages are transmitted sooner under RIO-PS.",
        source="the talk's metric: transmission time, the time to transmit a page; that it improves is ours",
        origin="sheet",
        figures=("exp-1-ito-3",),
        rule=every(*(one < 1 for one in _to_others(measures.PAGES))),
    ),
    Claim(
        id="MI-19",
        statement="Under RED, too, the short class's share of the line is steadier over time than under "
        "Drop Tail.",
        source="figure 2, the panel in the middle",
        origin="sheet",
        figures=("2",),
        rule=ratio(table_1[measures.SHARE_VARIATION], queue=("RED", "Drop Tail")) < 1,
    ),
)


def answer(found: Verdicts) -> list[str]:
    """Do short flows gain, and who pays? In words, from the verdicts."""

    def said(claim: str) -> str:
        return f"{told(found, claim)}: {range_of(found.of(claim))}"

    return [
        f"Are short Web files faster under RIO-PS? {said('MI-5.2')}.",
        f"Are they still, but by less, if a lost SYN costs 1 s instead of 3 s? {said('MI-7')}.",
        f"Are long files left unharmed? {said('MI-6')}. Do they even gain? {told(found, 'MI-15')}.",
        f"Is RIO-PS as good as RED where all traffic is of one class? {said('MI-12.3')}. How much of this "
        "is the edge's doing, the table of Exp 2 by the law of L_t shows.",
    ]
