"""The claims of the study `fair-queueing`, each with its rule, and the answer in words.

What is compared, and the bands, were written down before the first full run.
"""

from __future__ import annotations

from aqmlab.publication import Claim, Reading, Verdicts
from aqmlab.rule import Estimate, anywhere, difference, every, mean_of, ratio
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.experiments import (
    CASES,
    ORDERS,
    RECOVERY,
    TRACE_LOADS,
    alone,
    delay,
    example,
    number,
    one,
    orders,
    pairs,
    scale,
    several,
    trace,
    windows,
)
from aqmlab.studies.fair_queueing.laws import FORMULA, PRINTED, TRANSPARENT, full_share
from aqmlab.studies.shared import tally
from aqmlab.variable import per_seed

SUFFIXES = {"NewReno": "", "Reno": "-reno", "SACK": "-sack"}
READINGS = tuple(
    Reading(name=str(name), labels={"recovery": name}, suffix=SUFFIXES[str(name)]) for name in RECOVERY
)

rate = one[measures.AVAILABLE].at(background="Poisson flows")
lost = one[measures.BACKGROUND_LOSS].at(background="Poisson flows")
rate_of_several = several[measures.AVAILABLE]

waits = delay[measures.MEAN_DELAY].at(background="Poisson flows")
added_wait = per_seed(
    "mean wait beyond that without the flow",
    lambda ours, alone: ours - alone,
    waits.at(flows="1 Reno"),
    waits.at(flows="none"),
    unit="ms",
)

beside = {"flows": "HighSpeed + Reno"}
highspeed_over_reno = ratio(several[measures.HIGHSPEED].at(**beside), several[measures.RENO].at(**beside))

others = tuple(order for order in ORDERS if order != "DRR")
of_several = tuple(name for name, (flows, _, _) in CASES.items() if not flows.startswith("1 "))

transparent_loads = tuple(load for load in alone.values("load") if full_share(float(load)) < TRANSPARENT)
limited_wait = alone[measures.ALONE_WAIT].among(load=transparent_loads)


def grown(mix: str) -> Estimate:
    """Active flows over those of the link as it is."""
    active = scale[measures.ACTIVE].at(mix=mix, load=0.85)
    return ratio(active.among(scale=(4, 16)), active.at(scale=1))


five = mean_of(example[measures.FIVE])

CLAIMS = (
    Claim(
        id="R1",
        statement="A severe loss of throughput with a small buffer: only 40 % of the available capacity.",
        source="block A",
        figures=("available", "a-windows"),
        rule=mean_of(rate.at(flows="1 Reno", queue="FIFO", buffer=20)).within(0.28, 0.5),
    ),
    Claim(
        id="R1p",
        statement="The same 40 % beside Poisson packets.",
        source="block H",
        origin="sheet",
        figures=("available", "h-windows"),
        rule=mean_of(
            one[measures.AVAILABLE].at(flows="1 Reno", background="Poisson packets", queue="FIFO", buffer=20)
        ).within(0.28, 0.5),
    ),
    Claim(
        id="R2",
        statement="The larger the buffer, the more the flow gets.",
        source="block A",
        figures=("available", "a-utilisation"),
        rule=every(
            difference(rate.at(flows="1 Reno", queue="FIFO"), buffer=(100, 20)) > 0,
            difference(rate.at(flows="1 Reno", queue="FIFO"), buffer=(625, 100)) > 0,
            mean_of(rate.at(flows="1 Reno", queue="FIFO", buffer=625)) >= 0.9,
        ),
    ),
    Claim(
        id="R3",
        statement="HighSpeed TCP gains utilisation, and the background loses more.",
        source="block B",
        figures=("b-utilisation", "background-loss"),
        rule=every(
            difference(rate.at(queue="FIFO", buffer=100), flows=("1 HighSpeed", "1 Reno")) >= 0.05,
            ratio(lost.at(queue="FIFO", buffer=100), flows=("1 HighSpeed", "1 Reno")) >= 2,
        ),
    ),
    Claim(
        id="R4",
        statement="Fair queueing removes the background's loss, with little effect on the bottlenecked flow.",
        source="block C",
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
        source="blocks D, H and I",
        figures=("jain", "d-windows"),
        rule=every(
            *(
                mean_of(several[measures.JAIN].at(flows=flows, queue="FIFO")) >= 0.95
                for flows in ("2 Reno", "4 Reno")
            )
        ),
    ),
    Claim(
        id="R6",
        statement="HighSpeed is very unfair to Reno, 625 packets.",
        source="block F",
        figures=("highspeed-over-reno", "f-windows"),
        rule=highspeed_over_reno.at(queue="FIFO", buffer=625) >= 1.6,
    ),
    Claim(
        id="R7",
        statement="HighSpeed is very unfair to Reno, 20 packets.",
        source="block F",
        figures=("highspeed-over-reno", "f-windows"),
        rule=highspeed_over_reno.at(queue="FIFO", buffer=20) >= 1.2,
    ),
    Claim(
        id="R8",
        statement="Fair queueing is effective between HighSpeed and Reno, 625 packets.",
        source="block G",
        figures=("highspeed-over-reno", "g-windows"),
        rule=highspeed_over_reno.at(queue="FQ", buffer=625).within(0.97, 1.03),
    ),
    Claim(
        id="R8b",
        statement="Under fair queueing HighSpeed still gains more throughput, 625 packets.",
        source="block G",
        figures=("highspeed-over-reno", "g-windows"),
        rule=highspeed_over_reno.at(queue="FQ", buffer=625) > 1.01,
    ),
    Claim(
        id="R9",
        statement="Under fair queueing HighSpeed still gains more throughput, 20 packets.",
        source="block G",
        figures=("highspeed-over-reno", "g-windows"),
        rule=highspeed_over_reno.at(queue="FQ", buffer=20) >= 1.05,
    ),
    Claim(
        id="R10",
        statement="Better utilisation of a small buffer with four flows than with one.",
        source="block H",
        figures=("available-capacity", "h-utilisation"),
        rule=ratio(
            rate_of_several.at(flows="4 Reno", queue="FIFO", buffer=20),
            one[measures.AVAILABLE].at(flows="1 Reno", background="Poisson packets", queue="FIFO", buffer=20),
        )
        >= 1.4,
    ),
    Claim(
        id="R11",
        statement="Four HighSpeed flows share FIFO poorly.",
        source="block J",
        figures=("fairness", "j-windows"),
        rule=difference(windows[measures.JAIN].at(queue="FIFO"), flows=("4 HighSpeed", "4 Reno")) < 0,
    ),
    Claim(
        id="R12",
        statement="Four HighSpeed flows lose throughput in FIFO.",
        source="block J",
        figures=("j-utilisation",),
        rule=mean_of(windows[measures.AVAILABLE].at(flows="4 HighSpeed", queue="FIFO")) < 0.97,
    ),
    Claim(
        id="R13",
        statement="Fair queueing restores fairness and preserves throughput.",
        source="block K",
        figures=("fairness", "k-windows"),
        rule=every(
            mean_of(windows[measures.JAIN].at(flows="4 HighSpeed", queue="FQ")) >= 0.99,
            mean_of(windows[measures.AVAILABLE].at(flows="4 HighSpeed", queue="FQ")) >= 0.97,
        ),
    ),
    Claim(
        id="R14",
        statement="The number of bottlenecked flows is geometric, whatever the sizes.",
        source="flow level",
        figures=("number-of-flows", "number"),
        rule=every(
            mean_of(number[measures.MEAN_OVER_LAW]).within(0.98, 1.02),
            mean_of(number[measures.FIVE_OVER_LAW]).within(0.95, 1.05),
        ),
    ),
    Claim(
        id="R15",
        statement="The number of active flows does not grow with the rate of the link.",
        source="scalability",
        figures=("active-flows", "scale"),
        rule=grown(mix="1 Mb/s flows") <= 1.2,
    ),
    Claim(
        id="R15t",
        statement="The same where TCP flows that only the network limits are part of the traffic.",
        source="scalability",
        origin="ours",
        figures=("active-flows", "scale"),
        rule=grown(mix="and TCP flows") <= 1.2,
    ),
    Claim(
        id="R16",
        statement="At loads below 0.9: fewer than 100 bottlenecked flows, O(100) packets of others, at most "
        "500 active flows.",
        source="scalability",
        figures=("active-flows", "scale", "number"),
        rule=every(
            mean_of(number[measures.HUNDRED].at(load=0.9)) <= 1e-3,
            mean_of(scale[measures.WAITING_P999].at(mix="1 Mb/s flows", scale=16)) <= 500,
            mean_of(scale[measures.ACTIVE_P999]) <= 500,
        ),
    ),
    Claim(
        id="R16t",
        statement="The same of the trace of an OC-48 link, at the rates of slower lines.",
        source="trace",
        origin="ours",
        figures=("trace", "trace-loads"),
        rule=mean_of(trace[measures.TRACE_MOST].among(load=tuple(load for load in TRACE_LOADS if load < 0.9)))
        <= 500,
    ),
    Claim(
        id="R17",
        statement="DRR, SCFQ, STFQ and RR give the same result in blocks C, G and K.",
        source="fair queueing",
        origin="sheet",
        figures=("schedulers",),
        rule=every(
            ratio(
                orders[measures.AVAILABLE].among(queue=others), orders[measures.AVAILABLE].at(queue="DRR")
            ).within(0.97, 1.03),
            mean_of(orders[measures.BACKGROUND_LOSS].among(queue=others)) < 1e-5,
            difference(
                orders[measures.JAIN].among(queue=others, case=of_several),
                orders[measures.JAIN].among(case=of_several).at(queue="DRR"),
            ).within(-0.01, 0.01),
        ),
    ),
    *(
        Claim(
            id=id,
            statement=f"Fair queueing removes the background's delay, {buffer} packets.",
            source="block C",
            origin="ours",
            figures=("background-wait", "background-delay"),
            rule=ratio(added_wait.at(buffer=buffer), queue=("FQ", "FIFO")) <= 0.1,
        )
        for id, buffer in (("R18", 20), ("R18b", 625))
    ),
    Claim(
        id="R19",
        statement="Under fair queueing any two of Reno, HighSpeed, CUBIC, Scalable and an unresponsive flow "
        "share fairly.",
        source="the talk's argument",
        origin="sheet",
        figures=("pairs", "any-two"),
        rule=ratio(pairs[measures.FIRST], pairs[measures.SECOND]).within(0.95, 1.05),
    ),
    Claim(
        id="R20",
        statement="Where all flows are rate-limited, FIFO suffices.",
        source="three regimes",
        origin="sheet",
        figures=("alone", "rate-limited"),
        rule=every(
            mean_of(alone[measures.LOSS].at(queue="FIFO").among(load=transparent_loads)) <= 1e-4,
            mean_of(alone[measures.SERVICES].at(queue="FIFO").among(load=transparent_loads)) <= 1.5,
            ratio(limited_wait, queue=("FIFO", "FQ")).within(0.9, 1.1),
        ),
    ),
    Claim(
        id="R20b",
        statement="Delay is then that of a modulated M/G/1 queue.",
        source="three regimes",
        origin="ours",
        figures=("alone", "rate-limited"),
        rule=mean_of(
            alone[measures.WAIT_OVER_LAW].at(mix="1 Mb/s flows", queue="FIFO").among(load=transparent_loads)
        ).within(0.8, 1.25),
    ),
    Claim(
        id="R21",
        statement="Background 0.5, total load 0.6: five bottlenecked flows or more with probability 0.003.",
        source="the example",
        figures=("example", "five-flows"),
        rule=anywhere(five.within(0.8 * PRINTED, 1.2 * PRINTED)),
    ),
    Claim(
        id="R21b",
        statement="The same by the deck's own formula, 0.2^5 = 0.00032, where the background hardly varies.",
        source="the example",
        origin="sheet",
        figures=("example", "five-flows"),
        rule=five.at(background="streaming, 10 kb/s").within(0.8 * FORMULA, 1.2 * FORMULA),
    ),
    Claim(
        id="R21c",
        statement="The formula holds with background flows of 1 Mb/s, too.",
        source="the example",
        origin="ours",
        figures=("example", "five-flows"),
        rule=mean_of(
            example[measures.FIVE].among(background=("streaming, 1 Mb/s", "elastic, at most 1 Mb/s"))
        ).within(0.8 * FORMULA, 1.2 * FORMULA),
    ),
)

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def answer(found: Verdicts) -> list[str]:
    """Is fair queueing feasible? In words, from the verdicts."""

    def told(claim: str) -> str:
        return f"{_SAID[found.of(claim).verdict]} ({claim}: {found.of(claim).measured})"

    def said(id: str) -> str:
        return _SAID[found.of(id).verdict].lower()

    def in_short(claim: str) -> str:
        return ", ".join(f"{reading.name} {said(claim + reading.suffix)}" for reading in READINGS)

    return [
        f"Does a small FIFO buffer leave one flow 40 % of the available capacity? {told('R1')}.",
        f"Is HighSpeed unfair to Reno in FIFO, and does fair queueing mend it? With 625 packets: unfair, "
        f"{in_short('R6')}; mended, {in_short('R8')}; HighSpeed ahead even so, {in_short('R8b')}.",
        f"Does fair queueing spare the background its losses (R4: {in_short('R4')}) and its delay with 20 "
        f"packets (R18: {in_short('R18')}) and with 625 (R18b: {in_short('R18b')})?",
        f"Do any two flows share fairly under fair queueing? {in_short('R19')}. Does it matter which order "
        f"of service? The same result, R17: {in_short('R17')}.",
        f"Is the number of active flows bounded whatever the link? R16: {said('R16')}; R15: {said('R15')}.",
        f"Is the probability of five bottlenecked flows 0.003, as printed? {told('R21')}. Or what its own "
        f"formula gives? {told('R21b')}.",
        tally(found),
    ]
