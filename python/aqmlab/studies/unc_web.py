"""Does it help the Web? (Weigle, Jeffay and Smith 2003: its paper and its talk).

Question: do SACK, Adaptive RED and ECN make Web transfers faster than Reno over Drop Tail, as a function
of offered load, with traffic both ways and round trips from 1 ms to 3.5 s?
The talk: not clearly; SACK makes no difference, Adaptive RED trades the slow responses for the quick ones,
and ECN is better than dropping. Ours: everything it leaves open, listed in `DECISIONS` and printed in the
report; none of its results is known as a number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from aqmlab import stats
from aqmlab.grid import Labels, Results, Runs
from aqmlab.publication import Claim, Decision, Study
from aqmlab.stats import Evidence, Interval
from aqmlab.studies.shared import settled_after, tally
from aqmlab.studies.unc_web_figures import (
    FIGURES,
    LEAST,
    TABLES,
    at,
    full_load,
    pairing,
    plotted,
    queue,
)
from aqmlab.studies.unc_web_runs import (
    DROP_TAIL,
    FEW_SEGMENTS,
    FULL_LOAD,
    GRID,
    SENSITIVITY_SWEEPS,
    SERIES_STEP_S,
    SWEEPS,
    TCPS,
    UNITS,
    VARIANTS,
    WARM_UP_S,
    named,
)

Judge = Callable[[Results], Evidence]

# Claims: what is compared, and the bands, were written down before the first run


def _loads(runs: Runs, low: int, high: int = 200) -> list[int]:
    """The loads there are in a range, in percent."""
    return [load for load in runs.axis("load") if low <= load <= high]


def _ratio(runs: Runs, metric: str, ours: Labels, theirs: Labels) -> Interval:
    return stats.paired_ratio(*runs.pair(metric, ours, theirs))


def w_1(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = results["web"]
        six = [queue(named(name, unit), tcp) for name in (DROP_TAIL, "ARED", "ARED+ECN") for tcp in TCPS]
        parts = []
        for load in _loads(runs, 0, 70):
            apart = [pairing(runs, load, *two).apart for two in itertools.combinations(six, 2)]
            worst = [max(of_a_seed) for of_a_seed in zip(*apart, strict=True)]
            name = f"largest distance of any two of six, {at(load)}"
            parts.append(stats.judge(name, stats.mean_interval(worst), stats.at_most(0.05)))
        return stats.together(*parts)

    return judge


def w_2(results: Results) -> Evidence:
    runs = results["web"]
    sack, reno = queue(DROP_TAIL, "SACK"), queue(DROP_TAIL)
    parts = []
    for load in plotted(results["web"]):
        apart = stats.mean_interval(pairing(runs, load, sack, reno).apart)
        median = _ratio(runs.where(load=load), "median_s", sack, reno)
        parts += [
            stats.judge(f"largest distance, {at(load)}", apart, stats.at_most(0.02)),
            stats.judge(f"median SACK/Reno, {at(load)}", median, stats.within(0.97, 1.03)),
        ]
    return stats.together(*parts)


def w_3(results: Results) -> Evidence:
    runs = results["web"].where(**queue(DROP_TAIL, "SACK"))
    parts = []
    for load in plotted(results["web"]):
        ours = runs.where(load=load)
        for name, metric, band in (
            (f"responses of fewer than {FEW_SEGMENTS} segments", "few_segments_share", stats.at_least(0.8)),
            ("connections that SACK repaired", "several_holes_share", stats.below(0.05)),
        ):
            found = stats.mean_interval(ours.values(metric))
            parts.append(stats.judge(f"share of {name}, {at(load)}", found, band))
    return stats.together(*parts)


def w_4(results: Results) -> Evidence:
    runs = results["web"]
    return stats.together(
        *(
            stats.judge(
                f"median of responses above 100 kB, SACK/Reno, {at(load)}",
                _ratio(runs.where(load=load), "large_median_s", queue(DROP_TAIL, "SACK"), queue(DROP_TAIL)),
                stats.below(0.95),
            )
            for load in _loads(runs, 90)
        )
    )


def trade_off(results: Results, unit: str, load: int, ours: str) -> list[Evidence]:
    """Whether a queue serves more quick requests than Drop Tail and fewer slow ones, with one crossing."""
    pair = pairing(results["web"], load, queue(named(ours, unit)), queue(DROP_TAIL))
    quick, slow = pair.quick, pair.slow
    count = float(len(pair.crossings))
    exactly = Interval(value=count, low=count, high=count, count=len(pair.first))
    return [
        stats.judge(f"lead of {ours} at {_time(quick)}, {at(load)}", pair.lead(quick), stats.at_least(LEAST)),
        stats.judge(
            f"lead of {DROP_TAIL} at {_time(slow)}, {at(load)}", pair.behind_at(slow), stats.at_least(LEAST)
        ),
        stats.judge(f"certain crossings, {at(load)}", exactly, stats.at_most(1)),
    ]


def _time(place: int) -> str:
    return f"{GRID[place]:.3g} s"


def w_5(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        return stats.together(
            *(part for load in plotted(results["web"]) for part in trade_off(results, unit, load, "ARED"))
        )

    return judge


def w_6(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = results["web"]
        parts = []
        for load in _loads(runs, 80):
            pair = pairing(runs, load, queue(named("ARED+ECN", unit)), queue(named("ARED", unit)))
            behind = stats.mean_interval(pair.behind)
            parts += [
                stats.judge(f"largest lag of ARED+ECN, {at(load)}", behind, stats.at_most(0.005)),
                stats.judge(
                    f"its lead at {_time(pair.quick)}, {at(load)}", pair.lead(pair.quick), stats.above(LEAST)
                ),
            ]
        return stats.together(*parts)

    return judge


def w_7(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = results["web"]
        load = min(runs.axis("load"), key=lambda one: abs(one - 90))
        ours, theirs = queue(named("ARED+ECN", unit)), queue(named("ARED", unit))
        found = _ratio(runs.where(load=load), "retransmitted", ours, theirs)
        return stats.judge(f"sent again, ARED+ECN/ARED, {at(load)}", found, stats.at_most(0.8))

    return judge


def w_8(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = results["web"]
        parts = []
        for load in plotted(results["web"]):
            parts += trade_off(results, unit, load, "ARED+ECN")
            ecn, plain = (
                pairing(runs, load, queue(named(name, unit)), queue(DROP_TAIL))
                for name in ("ARED+ECN", "ARED")
            )
            later = stats.paired_ratio(ecn.crossing_times, plain.crossing_times)
            name = f"when ARED+ECN crosses over when ARED does, {at(load)}"
            parts.append(stats.judge(name, later, stats.above(1)))
        return stats.together(*parts)

    return judge


def w_9(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = Runs(rows=results["web"].rows + results["tuning"].rows)
        parts = []
        for load in _loads(results["tuning"], 90):
            for metric, name in (("median_s", "median"), ("p95_s", "95th percentile")):
                ratios = [
                    _ratio(runs.where(load=load), metric, queue(named(ours, unit)), queue(DROP_TAIL))
                    for ours in ("ARED+ECN", "ARED+ECN 60 ms")
                ]
                for first, second in ((stats.below(1), stats.above(1)), (stats.above(1), stats.below(1))):
                    parts.append(
                        stats.together(
                            stats.judge(f"{name}, ARED+ECN/Drop Tail, 5 ms, {at(load)}", ratios[0], first),
                            stats.judge(f"the same, 60 ms, {at(load)}", ratios[1], second),
                        )
                    )
        return stats.either(*parts)

    return judge


def w_10(unit: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = Runs(rows=results["web"].rows + results["tuning"].rows)
        order = [queue(named(name, unit)) for name in ("ARED", "ARED 60 ms")] + [queue(DROP_TAIL)]
        return stats.together(
            *(
                stats.judge(
                    f"mean queue, {ours['queue']}/{theirs['queue']}, {at(load)}",
                    _ratio(runs.where(load=load), "mean_queue", ours, theirs),
                    stats.below(1),
                )
                for load in _loads(results["tuning"], 90)
                for ours, theirs in itertools.pairwise(order)
            )
        )

    return judge


def _both_units(id: str, statement: str, rule: str, judge: Callable[[str], Judge]) -> tuple[Claim, Claim]:
    """A claim with Adaptive RED in packets, as ns-2 of 2003 has it, and in bytes (`b`)."""
    packets, in_bytes = (
        Claim(id=id + end, statement=statement + said, rule=rule, judge=judge(unit))
        for unit, end, said in zip(
            UNITS,
            ("", "b"),
            (" Adaptive RED counts in packets.", " Adaptive RED counts in bytes."),
            strict=True,
        )
    )
    return packets, in_bytes


_CROSSES = (
    "80 % and 105 % load, Reno: where it leads most, and beyond that where Drop Tail does, the lead is "
    "at least 0.01 (at the point that is largest on average); not more than one certain crossing."
)

CLAIMS = (
    *_both_units(
        "W1",
        "Below 80 % load there are no major differences.",
        "At each load up to 70 %, the largest distance between the distribution functions of any two of "
        "{Reno, SACK} x {Drop Tail, ARED, ARED+ECN}, seed by seed: at most 0.05.",
        w_1,
    ),
    Claim(
        id="W2",
        statement="Over Drop Tail, Reno and SACK are alike.",
        rule="80 % and 105 % load: largest distance, seed by seed, at most 0.02; median SACK/Reno in [0.97, "
        "1.03].",
        judge=w_2,
    ),
    Claim(
        id="W3",
        statement="The reason: too few flows can use SACK.",
        rule=f"80 % and 105 % load: share of responses of fewer than {FEW_SEGMENTS} segments at least 0.8; "
        "connections that repaired several losses of one window without a time-out below 0.05 of all.",
        judge=w_3,
    ),
    Claim(
        id="W4",
        statement="SACK does help transfers larger than the typical.",
        rule="Drop Tail, each load from 90 % on: median response time of responses above 100 kB, SACK/Reno "
        "below 0.95.",
        judge=w_4,
    ),
    *_both_units(
        "W5",
        "Drop Tail and ARED: the distributions cross, a trade-off; ARED is better for the quick requests.",
        _CROSSES,
        w_5,
    ),
    *_both_units(
        "W6",
        "ECN is better than dropping.",
        "ARED+ECN and ARED, Reno, each load from 80 % on: largest lag, seed by seed, at most 0.005; "
        "somewhere a lead above 0.01 (at the point that is largest on average).",
        w_6,
    ),
    *_both_units(
        "W7",
        "Why: drops cause retransmissions that only add time.",
        "Segments sent again at 90 % load (or the nearest there is), Reno, ARED+ECN/ARED: at most 0.8.",
        w_7,
    ),
    *_both_units(
        "W8",
        "Drop Tail and ARED+ECN are a trade-off still.",
        _CROSSES + " It crosses later than ARED does, seed by seed.",
        w_8,
    ),
    *_both_units(
        "W9",
        "There is no uniform winner; how Adaptive RED is tuned decides.",
        "At some load from 90 % on, ARED+ECN is on the one side of Drop Tail with a target of 5 ms and on "
        "the other with 60 ms, in the median or the 95th percentile.",
        w_9,
    ),
    *_both_units(
        "W10",
        "The mean queue is shortest under ARED with a target of 5 ms, then with 60 ms, then under Drop Tail.",
        "Each load from 90 % on, Reno: ratios of the mean number of packets waiting below 1.",
        w_10,
    ),
)

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def _answer(evidence: Mapping[str, Evidence]) -> list[str]:
    """Does it help the Web? In words, from the verdicts."""

    def told(claim: str) -> str:
        return f"{_SAID[evidence[claim].verdict]} ({claim})"

    def both(claim: str) -> str:
        return f"in packets: {told(claim)}; in bytes: {told(claim + 'b')}"

    return [
        f"Is SACK no different from Reno for the Web as a whole? {told('W2')}. Does it help large responses? "
        f"{told('W4')}.",
        f"Does Adaptive RED trade slow responses for quick ones? With Adaptive RED {both('W5')}.",
        f"Is ECN better than dropping? With Adaptive RED {both('W6')}. What ECN cannot reach is told by "
        "the table of dropped packets that carry no data.",
        f"Do the differences vanish below 80 % load? With Adaptive RED {both('W1')}.",
        tally(evidence),
    ]


def _checks(results: Results) -> list[str]:
    """Whether the rates still offer the loads, and whether the warm-up was long enough."""
    said = []
    for traffic, rate in FULL_LOAD.items():
        found = full_load(results["calibration"].where(traffic=traffic))
        if not found.low <= rate <= found.high:
            said.append(
                f"Calibration, {traffic}: the grid takes {rate:g} connections/s for all of the line, "
                f"measured are {found}."
            )
    runs = results["web"].where(**queue(DROP_TAIL))
    late = [
        load for load in runs.axis("load") if settled_after(runs.where(load=load), SERIES_STEP_S) > WARM_UP_S
    ]
    if late:
        loads = ", ".join(f"{load} %" for load in late)
        said.append(
            f"Warm-up: by MSER-5, the mean number of open requests under Drop Tail has not settled after "
            f"{WARM_UP_S:g} s at {loads}. At full load it never does: compared are runs of equal length, on "
            "the same requests."
        )
    return said


DECISIONS = tuple(
    Decision(question=question, decision=decision, reason=reason)
    for question, decision, reason in (
        (
            "Offered load",
            "Bytes of the line in one direction, headers, acknowledgements and connection set-up included, "
            "as carried by a line so fast that nothing queues; a straight line through the origin turns it "
            "into connections a second.",
            "So the talk calibrates; its numbers are not known. With sizes of so heavy a tail the load of a "
            "single run is still off by a few percent, the same for all queues and TCPs.",
        ),
        (
            "Rates of the grid",
            f"{FULL_LOAD['as decided']:g} connections/s in each direction for all of the line, and in "
            "proportion: constants, found by `aqmlab calibrate` over 20 replications of 250 000 connections "
            "(136.5 [135.5, 137.6]).",
            "The grid must not move with the seeds that calibrate it. The study measures the rate again, and "
            "warns if its interval leaves the constant out.",
        ),
        (
            "Loads",
            "50, 60, 70, 80, 85, 90, 95, 100 and 105 %.",
            "The range is published, the steps are not.",
        ),
        (
            "Length of a run",
            "120 s of warm-up, then as long as 250 000 requests in each direction take on average.",
            "Their number is published; whether in each direction or in all is not.",
        ),
        (
            "Requests not finished at the end",
            "Counted in distributions as what is known of them (Kaplan-Meier); not in quantiles, but told.",
            "Leaving them out would flatter queues that make requests slow.",
        ),
        (
            "Directions",
            "Both are measured; judged and drawn are the requests served forward.",
            "They differ in their random numbers only.",
        ),
        (
            "Which TCP",
            "The queues are compared with Reno; figures and tables have SACK as well.",
            "The talk crosses all; which of them its figures of the queues show is not known.",
        ),
        (
            "TCP",
            "Both ends real: three-way handshake, request and response on the same connection; MSS 1460 B, "
            "initial window 2, an acknowledgement for every second segment or after 100 ms, no limited "
            "transmit, initial RTO 3 s, minimum RTO 1 s, window 64 kB (44 segments), Nagle's algorithm, no "
            "time stamps.",
            "The talk says Reno and SACK only; these are the standards and stacks of the time, and with "
            "ns-2's two-way TCP Nagle's algorithm is on. ns-2's "
            "two-way TCP began with 536 B and an initial RTO of 6 s: both are among the sensitivity runs.",
        ),
        (
            "Round trips",
            "Each connection has delays of its own on the client's and the server's side (PackMime's laws); "
            "the line itself adds 1 ms each way.",
            "The talk gives the range, 1 ms to 3.5 s, and a delay for each connection. No losses or slow "
            "access lines besides: unknown.",
        ),
        (
            "HTTP",
            "1.0, one request on each connection; a response time counts from the client's first SYN to the "
            "last byte.",
            "The default of PackMime. HTTP/1.1 is among the sensitivity runs.",
        ),
        (
            "Largest response",
            "61.6 MB, where the fitted law ends; larger ones become that.",
            "The law's Pareto tail (index 1.23) would go on for ever, and single responses would decide a "
            "run.",
        ),
        (
            "Drop Tail's buffer",
            "111 packets.",
            "Not published; as full packets these are 1.2 bandwidth-delay products of the mean round trip, "
            "110 ms. Twice that is among the sensitivity runs.",
        ),
        (
            "Adaptive RED",
            "ns-2's of 2003: target 5 ms, packets taken for 500 B, automatic thresholds and weight, gentle "
            "with a line that does not follow max_p, `wait`; a buffer of 555 packets.",
            "Defaults of the time; the tuning of the talk is not known. A target of 60 ms is in the grid "
            "(thresholds of 75 and 225 packets: more than Drop Tail's buffer holds), packets of 1000 B are "
            "among the sensitivity runs.",
        ),
        (
            "Packets or bytes",
            "Both, as claims of their own (`b` is bytes; there, as in ns-2, big packets are dropped more "
            "often than small ones).",
            "Packets was ns-2's default until October 2004. It drops 40-byte packets, which ECN cannot mark, "
            "as readily as full ones, and so decides the comparison with ECN.",
        ),
        (
            "ECN",
            "Marks while p_b is at most 0.1 and drops above, as ns-2 since April 2002; SYNs, bare "
            "acknowledgements and segments sent again are not capable.",
            "Before, ns-2 marked at any probability up to twice max_th; that, and never dropping, are among "
            "the sensitivity runs.",
        ),
        (
            "Distance of two distributions",
            "Where it must be small, the largest over time of each seed; where it must be large, the one "
            "at the point of time where the mean over seeds is largest. Intervals are Student's t over "
            "seeds.",
            "Each is the cautious one: the first is never too small, and chance moves the second little.",
        ),
        (
            "Several losses of one window",
            "Connections without a time-out that sent more segments again than they had fast retransmits.",
            "That takes a recovery that repaired several.",
        ),
    )
)

STUDY = Study(
    name="unc-web",
    title="Does It Help the Web?",
    paper="M. C. Weigle, K. Jeffay, F. D. Smith: Quantifying the Effects of Recent Protocol Improvements to "
    "Standards-Track TCP. MASCOTS 2003, and the talk.",
    question="Do SACK, Adaptive RED and ECN make Web transfers faster than Reno over Drop Tail?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=VARIANTS,
    sensitivity_sweeps=SENSITIVITY_SWEEPS,
    sensitivity_claims=("W2", "W4", "W5", "W5b", "W6", "W6b", "W7", "W7b", "W8", "W8b"),
)
