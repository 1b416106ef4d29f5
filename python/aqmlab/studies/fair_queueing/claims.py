"""The claims of the study `fair-queueing`, each with its rule, and the answer in words.

Sentences are those of the talk's blocks of slides, A to K. Where its words name no number, the source of the
claim says whose the number is.
"""

from __future__ import annotations

from aqmlab.measures import Measure
from aqmlab.results.rule import (
    Estimate,
    anywhere,
    difference,
    every,
    mean_of,
    ratio,
    statistic,
    unpaired_ratio,
)
from aqmlab.results.variable import Variable, per_seed
from aqmlab.stats.quantiles import tail_quantile
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.blocks import CASES
from aqmlab.studies.fair_queueing.experiments import (
    ORDERS,
    RECOVERY,
    alone,
    delay,
    one,
    orders,
    pairs,
    scale,
    several,
    windows,
)
from aqmlab.studies.fair_queueing.flow_experiments import TRACE_LOADS, example, number, trace
from aqmlab.studies.fair_queueing.laws import FORMULA, PRINTED, TRANSPARENT, full_share
from aqmlab.studies.shared import told
from aqmlab.study.publication import Claim, Reading, Verdicts

READINGS = tuple(
    Reading(name=str(name), labels={"recovery": name}, suffix=suffix)
    for name, suffix in zip(RECOVERY, ("", "-reno", "-sack"), strict=True)
)

rate = one[measures.AVAILABLE].at(background="Poisson flows")
lost = one[measures.BACKGROUND_LOSS].at(background="Poisson flows")
reno_in_fifo = rate.at(flows="1 Reno", queue="FIFO")
beside_packets = one[measures.AVAILABLE].at(
    flows="1 Reno", background="Poisson packets", queue="FIFO", buffer=20
)
rate_gained = difference(rate.at(queue="FIFO", buffer=100), flows=("1 HighSpeed", "1 Reno"))
loss_grown = ratio(lost.at(queue="FIFO", buffer=100), flows=("1 HighSpeed", "1 Reno"))

waits = delay[measures.MEAN_DELAY].at(background="Poisson flows")
added_wait = per_seed(
    "mean wait beyond that without the flow",
    lambda ours, alone: ours - alone,
    waits.at(flows="1 Reno"),
    waits.at(flows="none"),
    unit="ms",
)

jain = several[measures.JAIN]

beside = {"flows": "HighSpeed + Reno"}
highspeed_over_reno = ratio(several[measures.HIGHSPEED].at(**beside), several[measures.RENO].at(**beside))

VERY_UNFAIR = 1.6

four_to_one = ratio(several[measures.AVAILABLE].at(flows="4 Reno", queue="FIFO", buffer=20), beside_packets)

others = tuple(order for order in ORDERS if order != "DRR")
of_several = tuple(name for name, plot in CASES.items() if not plot.flows.startswith("1 "))
by_order = orders[measures.AVAILABLE]
fairness = orders[measures.JAIN].among(case=of_several)

transparent_loads = tuple(load for load in alone.values("load") if full_share(float(load)) < TRANSPARENT)
below_90_percent = tuple(load for load in TRACE_LOADS if load < 0.9)
number_below_90_percent = tuple(load for load in number.values("load") if float(load) < 0.9)


def limited(measure: Measure) -> Variable:
    """Of rate-limited flows that hardly ever could fill the link."""
    return alone[measure].among(load=transparent_loads)


def grown(mix: str) -> Estimate:
    """Active flows over those of the link as it is; no arrival is the same."""
    active = scale[measures.ACTIVE].at(mix=mix, load=0.85)
    return unpaired_ratio(active.among(scale=(4, 16)), active.at(scale=1))


def most(what: str, tail: Variable) -> Estimate:
    """How many there are at most in 99.9 % of the time of all runs together.

    The quantile of single runs is of so heavy a tail that a t interval of its mean reaches below zero, and
    its mean is not what is claimed. That of all runs is; the bootstrap over runs stays among the counts.
    """
    return statistic(
        f"most {what} in 99.9 % of the time",
        lambda values, level: tail_quantile([one for one in values[0] if one], 0.999, level),
        tail,
    )


five = example[measures.FIVE]
five_of_1_mbps = five.among(background=("streaming, 1 Mb/s", "elastic, at most 1 Mb/s"))

CLAIMS = (
    Claim(
        id="R1.2",
        statement="A severe loss of throughput with a small buffer: only 40 % of the available capacity.",
        source="block A; how near 40 % is, is ours",
        figures=("available", "a-windows"),
        rule=mean_of(reno_in_fifo.at(buffer=20)).within(0.35, 0.45),
    ),
    Claim(
        id="R1p.2",
        statement="The same 40 % beside Poisson packets.",
        source="our reading of block H",
        origin="sheet",
        figures=("available", "h-windows"),
        rule=mean_of(beside_packets).within(0.35, 0.45),
    ),
    Claim(
        id="R2",
        statement="The larger the buffer, the more the flow gets.",
        source="our reading of block A",
        origin="sheet",
        figures=("available", "a-utilisation"),
        rule=every(
            difference(reno_in_fifo, buffer=(100, 20)) > 0,
            difference(reno_in_fifo, buffer=(625, 100)) > 0,
            mean_of(reno_in_fifo.at(buffer=625)) >= 0.9,
        ),
    ),
    Claim(
        id="R3.2",
        statement="HighSpeed TCP gains utilisation, more loss for the background.",
        source="block B",
        figures=("b-utilisation", "background-loss"),
        rule=every(rate_gained > 0, loss_grown > 1),
    ),
    Claim(
        id="R3b",
        statement="It gains a twentieth of the available capacity, and the background loses twice as much.",
        source="our numbers for block B",
        origin="sheet",
        figures=("b-utilisation", "background-loss"),
        rule=every(rate_gained >= 0.05, loss_grown >= 2),
    ),
    Claim(
        id="R4",
        statement="Fair queueing removes the background's loss, with little effect on the bottlenecked flow.",
        source="block C; how little is none and little is ours",
        figures=("background-loss", "c-utilisation"),
        rule=every(
            mean_of(lost.at(flows="1 Reno", queue="FQ", buffer=20)) < 1e-5,
            ratio(lost.at(flows="1 Reno", buffer=20), queue=("FQ", "FIFO")) <= 0.01,
            ratio(rate.at(flows="1 Reno", buffer=20), queue=("FQ", "FIFO")).within(0.8, 1.2),
        ),
    ),
    Claim(
        id="R5",
        statement="Reno flows share FIFO approximately fairly.",
        source="blocks D, H and I; Jain's index of 0.95 is ours",
        figures=("jain", "d-windows"),
        rule=every(*(mean_of(jain.at(flows=flows, queue="FIFO")) >= 0.95 for flows in ("2 Reno", "4 Reno"))),
    ),
    Claim(
        id="R6",
        statement="HighSpeed is very unfair to Reno, 625 packets.",
        source="block F; 1.6 for very unfair is ours",
        figures=("highspeed-over-reno", "f-windows"),
        rule=highspeed_over_reno.at(queue="FIFO", buffer=625) >= VERY_UNFAIR,
    ),
    Claim(
        id="R7",
        statement="HighSpeed gets more than Reno with 20 packets, too.",
        source="our lenient reading of block F: the slide says very unfair",
        origin="sheet",
        figures=("highspeed-over-reno", "f-windows"),
        rule=highspeed_over_reno.at(queue="FIFO", buffer=20) >= 1.2,
    ),
    Claim(
        id="R7b",
        statement="HighSpeed is very unfair to Reno, 20 packets.",
        source="block F; the number is that of R6, as the word is",
        figures=("highspeed-over-reno", "f-windows"),
        rule=highspeed_over_reno.at(queue="FIFO", buffer=20) >= VERY_UNFAIR,
    ),
    Claim(
        id="R8",
        statement="Fair queueing gives HighSpeed and Reno the same, 625 packets.",
        source="our reading of block G, which says that fair queueing is effective",
        origin="sheet",
        figures=("highspeed-over-reno", "g-windows"),
        rule=highspeed_over_reno.at(queue="FQ", buffer=625).within(0.97, 1.03),
    ),
    Claim(
        id="R8b.2",
        statement="Fair queueing is effective, though HighSpeed TCP still gains more throughput.",
        source="block G",
        figures=("highspeed-over-reno", "g-windows"),
        rule=highspeed_over_reno.at(queue="FQ") > 1,
    ),
    Claim(
        id="R9",
        statement="Under fair queueing HighSpeed is ahead by a twentieth, 20 packets.",
        source="our number for block G",
        origin="sheet",
        figures=("highspeed-over-reno", "g-windows"),
        rule=highspeed_over_reno.at(queue="FQ", buffer=20) >= 1.05,
    ),
    Claim(
        id="R10.2",
        statement="Better utilisation with four flows than with one, 20 packets.",
        source="block H",
        figures=("available-capacity", "h-utilisation"),
        rule=four_to_one > 1,
    ),
    Claim(
        id="R10b",
        statement="Four flows get 1.4 times as much as one, 20 packets.",
        source="our number for block H",
        origin="sheet",
        figures=("available-capacity", "h-utilisation"),
        rule=four_to_one >= 1.4,
    ),
    Claim(
        id="R11",
        statement="Four HighSpeed flows share FIFO poorly.",
        source="block J",
        figures=("fairness", "j-windows"),
        rule=difference(windows[measures.JAIN].at(queue="FIFO"), flows=("4 HighSpeed", "4 Reno")) < 0,
    ),
    Claim(
        id="R12.2",
        statement="All HSTCP, 625 packet buffer, 1 flow and 4 flows: [...] loss of throughput.",
        source="block J, slide 33",
        figures=("j-utilisation",),
        rule=ratio(
            windows[measures.AVAILABLE].at(queue="FIFO"),
            flows=("4 HighSpeed", "1 HighSpeed"),
        )
        < 1,
    ),
    Claim(
        id="R13",
        statement="Fair queueing restores fairness and preserves throughput.",
        source="block K; 0.99 and 0.97 are ours",
        figures=("fairness", "k-windows"),
        rule=every(
            mean_of(windows[measures.JAIN].at(flows="4 HighSpeed", queue="FQ")) >= 0.99,
            mean_of(windows[measures.AVAILABLE].at(flows="4 HighSpeed", queue="FQ")) >= 0.97,
        ),
    ),
    Claim(
        id="R14",
        statement="The number of bottlenecked flows is geometric, whatever the sizes.",
        source="the flow level: a theorem, so that this checks the simulator",
        origin="ours",
        figures=("number-of-flows", "number"),
        rule=every(
            mean_of(number[measures.MEAN_OVER_LAW]).within(0.98, 1.02),
            mean_of(number[measures.FIVE_OVER_LAW]).within(0.95, 1.05),
        ),
    ),
    Claim(
        id="R15.3",
        statement="Scalable since number does not increase with link rate.",
        source="slide 16; 1.2 for an increase is ours",
        figures=("active-flows", "scale"),
        rule=grown(mix="1 Mb/s flows") <= 1.2,
    ),
    Claim(
        id="R15t.2",
        statement="The same where TCP flows that only the network limits are part of the traffic.",
        source="scalability",
        origin="ours",
        figures=("active-flows", "scale"),
        rule=grown(mix="and TCP flows") <= 1.2,
    ),
    Claim(
        id="R16.4",
        statement="At loads below 90 %: fewer than 100 bottlenecked flows, O(100) packets of others, at most "
        "about 500 active flows.",
        source="slide 16; that 99.9 % of the time count, and 500 for O(100), is ours",
        figures=("active-flows", "scale", "number"),
        rule=every(
            most("bottlenecked flows", number[measures.TAIL].among(load=number_below_90_percent)) < 100,
            most("packets waiting", scale[measures.WAITING_TAIL].at(mix="1 Mb/s flows", load=0.85)) <= 500,
            most("active flows", scale[measures.ACTIVE_TAIL].at(load=0.85)) <= 500,
        ),
    ),
    Claim(
        id="R16t.2",
        statement="At most 500 active flows of a made-up trace with the published properties of one of an "
        "OC-48 link, at the rates of slower lines.",
        source="the trace was not at hand: made up by us",
        origin="ours",
        figures=("trace", "trace-loads"),
        rule=most("active flows", trace[measures.TRACE_TAIL].among(load=below_90_percent)) <= 500,
    ),
    Claim(
        id="R17",
        statement="DRR, SCFQ, STFQ and RR give the same result in blocks C, G and K.",
        source="our reading of the slide that allows DRR, self-clocked fair queueing or just round robin",
        origin="sheet",
        figures=("schedulers",),
        rule=every(
            ratio(by_order.among(queue=others), by_order.at(queue="DRR")).to_within(0.03).within(0.97, 1.03),
            mean_of(orders[measures.BACKGROUND_LOSS].among(queue=others)) < 1e-5,
            difference(fairness.among(queue=others), fairness.at(queue="DRR")).within(-0.01, 0.01),
        ),
    ),
    *(
        Claim(
            id=id,
            statement=f"FQ avoids [...] delay for background packets: {buffer} packets of buffer.",
            source="slide 35; that a tenth of FIFO's delay is none is ours",
            figures=("background-wait", "background-delay"),
            rule=ratio(added_wait.at(buffer=buffer), queue=("FQ", "FIFO")) <= 0.1,
        )
        for id, buffer in (("R18.2", 20), ("R18b.2", 625))
    ),
    Claim(
        id="R19.2",
        statement="FQ ensures fairness for any transport protocol.",
        source="slide 35; that any two of Reno, HighSpeed, CUBIC, Scalable and an unresponsive flow get the "
        "same within 5 % is ours",
        figures=("pairs", "any-two"),
        rule=ratio(pairs[measures.FIRST], pairs[measures.SECOND]).within(0.95, 1.05),
    ),
    Claim(
        id="R20",
        statement="Where all flows are rate-limited, FIFO suffices.",
        source="our reading of the transparent regime",
        origin="sheet",
        figures=("alone", "rate-limited"),
        rule=every(
            mean_of(limited(measures.LOSS).at(queue="FIFO")) <= 1e-4,
            mean_of(limited(measures.SERVICES).at(queue="FIFO")) <= 1.5,
            ratio(limited(measures.ALONE_WAIT), queue=("FIFO", "FQ")).within(0.9, 1.1),
        ),
    ),
    Claim(
        id="R20b",
        statement="Delay is then that of a modulated M/G/1 queue.",
        source="three regimes",
        origin="ours",
        figures=("alone", "rate-limited"),
        rule=mean_of(limited(measures.WAIT_OVER_LAW).at(mix="1 Mb/s flows", queue="FIFO")).within(0.8, 1.25),
    ),
    Claim(
        id="R21.2",
        statement="Background 0.5, total load 0.6: five bottlenecked flows or more with probability 0.003.",
        source="the example, as printed; within a fifth",
        figures=("example", "five-flows"),
        rule=anywhere(mean_of(five).within(0.8 * PRINTED, 1.2 * PRINTED)),
    ),
    Claim(
        id="R21b",
        statement="The same by the deck's own formula, 0.2^5 = 0.00032, where the background hardly varies.",
        source="the example",
        origin="sheet",
        figures=("example", "five-flows"),
        rule=mean_of(five.at(background="streaming, 10 kb/s")).within(0.8 * FORMULA, 1.2 * FORMULA),
    ),
    Claim(
        id="R21c",
        statement="The formula holds with background flows of 1 Mb/s, too.",
        source="the example",
        origin="ours",
        figures=("example", "five-flows"),
        rule=mean_of(five_of_1_mbps).within(0.8 * FORMULA, 1.2 * FORMULA),
    ),
)


def answer(found: Verdicts) -> list[str]:
    """Is fair queueing feasible, and does it free the transport? In words, from the verdicts."""

    def each(id: str) -> str:
        said = (f"{reading.name} {told(found, id + reading.suffix)}" for reading in READINGS)
        return ", ".join(said)

    return [
        f"Does a small FIFO buffer leave one flow 40 % of the available capacity? {told(found, 'R1.2')}: "
        f"{found.of('R1.2').measured}.",
        f"Is HighSpeed very unfair to Reno in FIFO with 625 packets? {each('R6')}. Does fair queueing give "
        f"both the same? {each('R8')}. Is HighSpeed ahead even so? {each('R8b.2')}.",
        f"Does fair queueing spare the background its losses? {each('R4')}. Its delay with 20 packets? "
        f"{each('R18.2')}. With 625? {each('R18b.2')}.",
        f"Do any two flows share fairly under fair queueing? {each('R19.2')}. Does the order of service "
        f"change nothing? {each('R17')}.",
        f"Is the number of active flows bounded? {told(found, 'R16.4')}. Does it not grow with the link? "
        f"{told(found, 'R15.3')}.",
        f"Is the probability of five bottlenecked flows 0.003, as printed? {told(found, 'R21.2')}: "
        f"{found.of('R21.2').measured}. What its own formula gives? {told(found, 'R21b')}.",
    ]
