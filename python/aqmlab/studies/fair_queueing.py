"""Is fair queueing feasible? (S. Oueslati and J. Roberts: a talk of 2005.)

Question: if routers enforce fair sharing flow by flow, are end systems free to use any transport, and is
the number of flows that a router must schedule small whatever the rate of its link?
The talk: yes. Only flows with a packet in the queue need state, and at usual loads there are a few hundred;
small FIFO buffers starve a flow that could fill the link, HighSpeed TCP starves Reno, and fair queueing with
drops from the longest queue mends both. Ours: everything it leaves open, listed in `DECISIONS`; its results
are known as sentences and plots, and as one number, 40 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aqmlab import stats
from aqmlab.grid import Results, Runs
from aqmlab.publication import Claim, Decision, Study
from aqmlab.stats import Evidence, Interval
from aqmlab.studies.fair_queueing_figures import (
    FIGURES,
    LAW_NAMES,
    NAMES,
    PRINTED,
    full_share,
    modulated_wait_ms,
    share_ratio,
)
from aqmlab.studies.fair_queueing_runs import (
    AVAILABLE_MBPS,
    CASES,
    EXAMPLE_BACKGROUNDS,
    MIXES,
    ORDERS,
    PACKET_S,
    PAIRS,
    RECOVERIES,
    SCALE_MIXES,
    SENSITIVITY_SWEEPS,
    SWEEPS,
    VARIANTS,
)
from aqmlab.studies.fair_queueing_tables import TABLES
from aqmlab.studies.shared import tally

Judge = Callable[[Results], Evidence]
Recovered = Callable[[Results, str], Evidence]
"""A judge who is told how losses are repaired, the same way by all."""

# Claims: what is compared, and the bands, were written down before the first full run


def case(
    results: Results, recovery: str, flows: str, at: tuple[str, int], background: str = "packets"
) -> Runs:
    """The long runs of some bottlenecked flows behind a queue with so many packets of buffer."""
    queue, buffer = at
    if flows.startswith("1 "):
        runs = results["one"].where(flows=flows, background=background)
    else:
        runs = results["several"].where(flows=flows)
    return runs.where(recovery=recovery, queue=queue, buffer=buffer)


def _pairs(metric: str, ours: Runs, theirs: Runs) -> tuple[list[float], list[float]]:
    """The metric of two selections of any sweeps, for the seeds that both have."""
    seeds = [seed for seed in ours.seeds() if seed in theirs.seeds()]
    return ours.values(metric, seeds), theirs.values(metric, seeds)


def _difference(metric: str, ours: Runs, theirs: Runs) -> Interval:
    return stats.paired_difference(*_pairs(metric, ours, theirs))


def _ratio(metric: str, ours: Runs, theirs: Runs) -> Interval:
    return stats.paired_ratio(*_pairs(metric, ours, theirs))


def _mean(metric: str, runs: Runs) -> Interval:
    return stats.mean_interval(runs.values(metric))


def r_1(background: str) -> Recovered:
    def judge(results: Results, recovery: str) -> Evidence:
        runs = case(results, recovery, "1 Reno", ("FIFO", 20), background)
        return stats.judge("rate over 25 Mb/s", _mean("available", runs), stats.within(0.28, 0.5))

    return judge


def r_2(results: Results, recovery: str) -> Evidence:
    small, middle, large = (
        case(results, recovery, "1 Reno", ("FIFO", buffer), "flows") for buffer in (20, 100, 625)
    )
    return stats.together(
        stats.judge("gain from 20 to 100 packets", _difference("available", middle, small), stats.above(0)),
        stats.judge("gain from 100 to 625 packets", _difference("available", large, middle), stats.above(0)),
        stats.judge("rate over 25 Mb/s with 625", _mean("available", large), stats.at_least(0.9)),
    )


def r_3(results: Results, recovery: str) -> Evidence:
    ours, theirs = (
        case(results, recovery, flows, ("FIFO", 100), "flows") for flows in ("1 HighSpeed", "1 Reno")
    )
    return stats.together(
        stats.judge(
            "rate over 25 Mb/s, HighSpeed - Reno",
            _difference("available", ours, theirs),
            stats.at_least(0.05),
        ),
        stats.judge(
            "background's loss, HighSpeed/Reno", _ratio("background_loss", ours, theirs), stats.at_least(2)
        ),
    )


def r_4(results: Results, recovery: str) -> Evidence:
    fq, fifo = (case(results, recovery, "1 Reno", (queue, 20), "flows") for queue in ("FQ", "FIFO"))
    return stats.together(
        stats.judge("background's loss, FQ", _mean("background_loss", fq), stats.below(1e-5)),
        stats.judge("background's loss, FQ/FIFO", _ratio("background_loss", fq, fifo), stats.at_most(0.01)),
        stats.judge("rate of the flow, FQ/FIFO", _ratio("available", fq, fifo), stats.within(0.8, 1.2)),
    )


def r_5(results: Results, recovery: str) -> Evidence:
    return stats.together(
        *(
            stats.judge(
                f"Jain's index, {flows}, {buffer} packets",
                _mean("jain", case(results, recovery, flows, ("FIFO", buffer))),
                stats.at_least(0.95),
            )
            for flows in ("2 Reno", "4 Reno")
            for buffer in (20, 625)
        )
    )


def highspeed_over_reno(results: Results, recovery: str, at: tuple[str, int]) -> Interval:
    """The rate of HighSpeed over Reno's where they share the link."""
    return share_ratio(case(results, recovery, "HighSpeed + Reno", at), "highspeed", "reno")


def _unfair(at: tuple[str, int], band: stats.Band) -> Recovered:
    def judge(results: Results, recovery: str) -> Evidence:
        queue, buffer = at
        name = f"rate, HighSpeed/Reno, {queue}, {buffer} packets"
        return stats.judge(name, highspeed_over_reno(results, recovery, at), band)

    return judge


def r_10(results: Results, recovery: str) -> Evidence:
    four, one = (case(results, recovery, flows, ("FIFO", 20)) for flows in ("4 Reno", "1 Reno"))
    return stats.judge("rate, four flows over one", _ratio("available", four, one), stats.at_least(1.4))


def _shown(results: Results, recovery: str, flows: str, queue: str) -> Runs:
    return results["windows"].where(recovery=recovery, flows=flows, queue=queue)


def r_11(results: Results, recovery: str) -> Evidence:
    ours, theirs = (_shown(results, recovery, flows, "FIFO") for flows in ("4 HighSpeed", "4 Reno"))
    name = "Jain's index of 80 s, four HighSpeed - four Reno"
    return stats.judge(name, _difference("jain", ours, theirs), stats.below(0))


def r_12(results: Results, recovery: str) -> Evidence:
    runs = _shown(results, recovery, "4 HighSpeed", "FIFO")
    return stats.judge("rate over 25 Mb/s in 80 s", _mean("available", runs), stats.below(0.97))


def r_13(results: Results, recovery: str) -> Evidence:
    runs = _shown(results, recovery, "4 HighSpeed", "FQ")
    return stats.together(
        stats.judge("Jain's index of 80 s", _mean("jain", runs), stats.at_least(0.99)),
        stats.judge("rate over 25 Mb/s in 80 s", _mean("available", runs), stats.at_least(0.97)),
    )


def r_14(results: Results) -> Evidence:
    parts = []
    runs = results["number"]
    for load in runs.axis("load"):
        for sizes in runs.axis("sizes"):
            ours = runs.where(load=load, sizes=sizes)
            for name, metric, law, band in (
                ("mean number", "mean", load / (1 - load), stats.within(0.98, 1.02)),
                ("P(N >= 5)", "at_least_5", load**5, stats.within(0.95, 1.05)),
            ):
                found = stats.mean_interval([value / law for value in ours.values(metric)])
                parts.append(stats.judge(f"{name} over the law's, load {load:g}, {sizes} sizes", found, band))
    return stats.together(*parts)


def r_15(mix: str) -> Judge:
    def judge(results: Results) -> Evidence:
        runs = results["scale"].where(mix=mix, load=0.85)
        first, *others = runs.axis("scale")
        return stats.together(
            *(
                stats.judge(
                    f"mean number of active flows, x{scale} over x{first} "
                    f"(99.9 % of the time at most {_mean('active_p999', runs.where(scale=scale)).value:.0f})",
                    _ratio("active", runs.where(scale=scale), runs.where(scale=first)),
                    stats.at_most(1.2),
                )
                for scale in others
            )
        )

    return judge


def r_16(results: Results) -> Evidence:
    number, scale = results["number"].where(load=0.9), results["scale"]
    largest = max(scale.axis("scale"))
    alone = scale.where(mix=SCALE_MIXES[0], scale=largest)
    parts = [
        stats.judge(
            f"share of the time with 100 flows or more, load 0.9, {sizes} sizes",
            _mean("at_least_100", number.where(sizes=sizes)),
            stats.at_most(1e-3),
        )
        for sizes in number.axis("sizes")
    ]
    parts += [
        stats.judge(
            f"packets of 1 Mb/s flows waiting, 99.9 %, load {load:g}, x{largest}",
            _mean("waiting_p999", alone.where(load=load)),
            stats.at_most(500),
        )
        for load in scale.axis("load")
    ]
    parts += [
        stats.judge(
            f"active flows, 99.9 %, {mix}, load {load:g}, x{size}",
            _mean("active_p999", scale.where(mix=mix, load=load, scale=size)),
            stats.at_most(500),
        )
        for mix in SCALE_MIXES
        for load in scale.axis("load")
        for size in scale.axis("scale")
    ]
    return stats.together(*parts)


def r_16_trace(results: Results) -> Evidence:
    runs = results["trace"]
    return stats.together(
        *(
            stats.judge(
                f"most active flows of the trace, load {load:g}",
                _mean("most_active", runs.where(load=load)),
                stats.at_most(500),
            )
            for load in runs.axis("load")
            if load < 0.9
        )
    )


def r_17(results: Results, recovery: str) -> Evidence:
    parts = []
    for name, (flows, _, _) in CASES.items():
        runs = results["orders"].where(case=name, recovery=recovery)
        first = runs.where(queue=ORDERS[0])
        for queue in ORDERS[1:]:
            ours = runs.where(queue=queue)
            said = f"{name}, {queue}"
            parts += [
                stats.judge(
                    f"{said}: rate over DRR's", _ratio("available", ours, first), stats.within(0.97, 1.03)
                ),
                stats.judge(f"{said}: background's loss", _mean("background_loss", ours), stats.below(1e-5)),
            ]
            if not flows.startswith("1 "):
                apart = _difference("jain", ours, first)
                parts.append(stats.judge(f"{said}: Jain's index - DRR's", apart, stats.within(-0.01, 0.01)))
    return stats.together(*parts)


def r_18(buffer: int) -> Recovered:
    def judge(results: Results, recovery: str) -> Evidence:
        runs = results["delay"].where(background="flows", buffer=buffer, recovery=recovery)

        def beyond(queue: str) -> list[float]:
            ours = runs.where(flows="1 Reno", queue=queue).values("mean_ms")
            alone = runs.where(flows="none", queue=queue).values("mean_ms")
            return [a - b for a, b in zip(ours, alone, strict=True)]

        found = stats.paired_ratio(beyond("FQ"), beyond("FIFO"))
        name = f"mean wait beyond that without the flow, FQ/FIFO, {buffer} packets"
        return stats.judge(name, found, stats.at_most(0.1))

    return judge


def r_19(results: Results, recovery: str) -> Evidence:
    parts = []
    for ours, theirs in PAIRS:
        runs = results["pairs"].where(pair=(ours, theirs), queue="FQ", recovery=recovery)
        name = f"rate, {LAW_NAMES[ours]}/{LAW_NAMES[theirs]}"
        parts.append(stats.judge(name, share_ratio(runs, ours, theirs), stats.within(0.95, 1.05)))
    return stats.together(*parts)


TRANSPARENT = 0.01
"""The share of the time that peak rates may fill a transparent link."""


def _transparent_loads(results: Results) -> list[float]:
    return [load for load in results["alone"].axis("load") if full_share(load) < TRANSPARENT]


def r_20(results: Results) -> Evidence:
    parts = []
    for mix in MIXES:
        for load in _transparent_loads(results):
            fifo, fq = (results["alone"].where(mix=mix, load=load, queue=queue) for queue in ("FIFO", "FQ"))
            said = f"{mix}, load {load:g}"
            parts += [
                stats.judge(f"loss, FIFO, {said}", _mean("loss", fifo), stats.at_most(1e-4)),
                stats.judge(
                    f"mean wait in services, FIFO, {said}",
                    stats.mean_interval([value / (1000 * PACKET_S) for value in fifo.values("wait_ms")]),
                    stats.at_most(1.5),
                ),
                stats.judge(
                    f"mean wait, FIFO/FQ, {said}", _ratio("wait_ms", fifo, fq), stats.within(0.9, 1.1)
                ),
            ]
    return stats.together(*parts)


def r_20b(results: Results) -> Evidence:
    return stats.together(
        *(
            stats.judge(
                f"mean wait over that of a modulated M/G/1, load {load:g}",
                stats.mean_interval(
                    [
                        value / modulated_wait_ms(load, periodic=False)
                        for value in results["alone"]
                        .where(mix=MIXES[0], load=load, queue="FIFO")
                        .values("wait_ms")
                    ]
                ),
                stats.within(0.8, 1.25),
            )
            for load in _transparent_loads(results)
        )
    )


FORMULA = 0.2**5
"""P(N >= 5) by the deck's own formula."""


def five(results: Results, background: str, band: stats.Band) -> Evidence:
    """P(N >= 5) in the deck's example against a band."""
    runs = results["example"].where(background=background)
    return stats.judge(f"P(N >= 5), background {background}", _mean("at_least_5", runs), band)


def r_21(results: Results) -> Evidence:
    band = stats.within(0.8 * PRINTED, 1.2 * PRINTED)
    return stats.either(*(five(results, name, band) for name in EXAMPLE_BACKGROUNDS))


def r_21b(fast: bool) -> Judge:
    def judge(results: Results) -> Evidence:
        band = stats.within(0.8 * FORMULA, 1.2 * FORMULA)
        *slow, quick = EXAMPLE_BACKGROUNDS
        return stats.together(*(five(results, name, band) for name in ([quick] if fast else slow)))

    return judge


def _by_recovery(id: str, statement: str, rule: str, judge: Recovered) -> tuple[Claim, ...]:
    """A claim with each recovery; the one that is ours has the plain name."""

    def judged_with(recovery: str) -> Judge:
        return lambda results: judge(results, recovery)

    return tuple(
        Claim(
            id=id if recovery == RECOVERIES[0] else f"{id}-{recovery}",
            statement=f"{statement} Recovery: {NAMES[recovery]}.",
            rule=rule,
            judge=judged_with(recovery),
        )
        for recovery in RECOVERIES
    )


_HIGH, _MEDIUM, _LOW = (f"Our confidence before the runs: {word}." for word in ("high", "medium", "low"))

CLAIMS = (
    *_by_recovery(
        "R1",
        "A: with a small buffer one flow gets only 40 % of the available capacity.",
        f"1 Reno, Poisson flows, FIFO, 20 packets, 500 s: rate over 25 Mb/s in [0.28, 0.50]. {_HIGH}",
        r_1("flows"),
    ),
    *_by_recovery(
        "R1p",
        "The same 40 % beside Poisson packets (H).",
        f"As R1 with Poisson packets. {_HIGH}",
        r_1("packets"),
    ),
    *_by_recovery(
        "R2",
        "A: the larger the buffer, the more the flow gets.",
        "1 Reno, Poisson flows, FIFO: rate grows from 20 to 100 and from 100 to 625 packets; with 625 it is "
        f"at least 0.90 of 25 Mb/s. {_HIGH}",
        r_2,
    ),
    *_by_recovery(
        "R3",
        "B: HighSpeed gets more of the link with 100 packets, and the background loses more.",
        "Poisson flows, FIFO: HighSpeed's rate over 25 Mb/s less Reno's at least 0.05; loss of the "
        f"background at least twice as large. {_HIGH}",
        r_3,
    ),
    *_by_recovery(
        "R4",
        "C: fair queueing removes the background's loss and hardly touches the flow.",
        "1 Reno, Poisson flows, 20 packets: background's loss under FQ below 1e-5 and at most a hundredth of "
        f"FIFO's; rate of the flow FQ/FIFO in [0.8, 1.2]. {_HIGH}",
        r_4,
    ),
    *_by_recovery(
        "R5",
        "D, H, I: Reno flows share FIFO approximately fairly.",
        "2 and 4 Reno, Poisson packets, FIFO, 20 and 625 packets, 500 s: Jain's index at least 0.95. "
        + _HIGH,
        r_5,
    ),
    *_by_recovery(
        "R6",
        "F: HighSpeed is very unfair to Reno, 625 packets.",
        f"FIFO, 500 s: rate HighSpeed/Reno at least 1.6. {_HIGH}",
        _unfair(("FIFO", 625), stats.at_least(1.6)),
    ),
    *_by_recovery(
        "R7",
        "F: HighSpeed is very unfair to Reno, 20 packets.",
        f"FIFO, 500 s: rate HighSpeed/Reno at least 1.2. {_MEDIUM}",
        _unfair(("FIFO", 20), stats.at_least(1.2)),
    ),
    *_by_recovery(
        "R8",
        "G: fair queueing is effective, 625 packets.",
        f"FQ, 500 s: rate HighSpeed/Reno in [0.97, 1.03]. {_HIGH}",
        _unfair(("FQ", 625), stats.within(0.97, 1.03)),
    ),
    *_by_recovery(
        "R8b",
        "G, as printed: under fair queueing HighSpeed still gains more throughput, 625 packets.",
        "FQ, 500 s: rate HighSpeed/Reno above 1.01. It can hold beside R8: more, but by less than 3 %. "
        "The band was 1 before the first runs, in which SACK tied.",
        _unfair(("FQ", 625), stats.above(1.01)),
    ),
    *_by_recovery(
        "R9",
        "G: under fair queueing HighSpeed still gains more throughput, 20 packets.",
        f"FQ, 500 s: rate HighSpeed/Reno at least 1.05. {_MEDIUM}",
        _unfair(("FQ", 20), stats.at_least(1.05)),
    ),
    *_by_recovery(
        "R10",
        "H: four flows use a small buffer better than one.",
        f"Poisson packets, FIFO, 20 packets: rate of 4 Reno over that of 1 at least 1.4. {_HIGH}",
        r_10,
    ),
    *_by_recovery(
        "R11",
        "J: four HighSpeed flows share FIFO poorly.",
        "625 packets, from 20 s to 100 s, 20 seeds: Jain's index less that of four Reno flows below 0. "
        + _LOW,
        r_11,
    ),
    *_by_recovery(
        "R12",
        "J: four HighSpeed flows lose throughput in FIFO.",
        "625 packets, from 20 s to 100 s, 20 seeds: rate over 25 Mb/s below 0.97. "
        "Our confidence before the runs: medium without SACK, low with it.",
        r_12,
    ),
    *_by_recovery(
        "R13",
        "K: fair queueing restores fairness and preserves throughput.",
        "The runs of R12 under FQ: Jain's index at least 0.99, rate over 25 Mb/s at least 0.97. " + _HIGH,
        r_13,
    ),
    Claim(
        id="R14",
        statement="The number of bottlenecked flows is geometric, whatever the sizes.",
        rule="Fluid link, loads 0.5 to 0.9, exponential, Pareto and fixed sizes: mean within 2 % of "
        f"load/(1 - load), P(N >= 5) within 5 % of load^5. {_HIGH}",
        judge=r_14,
    ),
    Claim(
        id="R15",
        statement="The number of active flows does not grow with the rate of the link.",
        rule="1 Mb/s flows at load 0.85, link and flows x1, x4, x16, FQ: mean number of flows with a packet "
        f"waiting at most 1.2 times that at x1. {_MEDIUM}",
        judge=r_15(SCALE_MIXES[0]),
    ),
    Claim(
        id="R15t",
        statement="The same where TCP flows that only the network limits are part of the traffic.",
        rule="As R15, load 0.5 of 1 Mb/s flows and 0.35 of TCP transfers of 1 MB on average.",
        judge=r_15(SCALE_MIXES[1]),
    ),
    Claim(
        id="R16",
        statement="At loads below 0.9: fewer than 100 bottlenecked flows, O(100) packets of others, at most "
        "500 active flows.",
        rule="Fluid link at load 0.9: 100 flows or more in at most 0.1 % of the time. 1 Mb/s flows on the "
        "largest link, loads 0.85 and 0.9: at most 500 packets waiting in 99.9 % of the time. Every link and "
        "mix: at most 500 active flows in 99.9 % of the time.",
        judge=r_16,
    ),
    Claim(
        id="R16t",
        statement="The same of the trace of an OC-48 link, at the rates of slower lines.",
        rule="Made-up trace with the published properties, loads below 0.9: at most 500 active flows ever.",
        judge=r_16_trace,
    ),
    *_by_recovery(
        "R17",
        "DRR, SCFQ, STFQ and RR give the same result in blocks C, G and K.",
        "Against DRR: rate within 3 %, Jain's index within 0.01; background's loss below 1e-5 with each.",
        r_17,
    ),
    *_by_recovery(
        "R18",
        "C: fair queueing removes the background's delay, 20 packets.",
        "Poisson flows, 1 Reno: mean wait of the background's packets beyond that without the Reno flow, "
        "FQ/FIFO at most 0.1.",
        r_18(20),
    ),
    *_by_recovery(
        "R18b",
        "The same with 625 packets.",
        "As R18 with 625 packets.",
        r_18(625),
    ),
    *_by_recovery(
        "R19",
        "Under fair queueing any two of Reno, HighSpeed, CUBIC, Scalable and an unresponsive flow share "
        "fairly.",
        "625 packets, Poisson packets, every pair: ratio of rates in [0.95, 1.05].",
        r_19,
    ),
    Claim(
        id="R20",
        statement="Where all flows are rate-limited, FIFO suffices.",
        rule="1 Mb/s flows, and half of the load streaming at 64 kb/s, at loads where peak rates fill the "
        "link in less than 1 % of the time; 100 packets: loss at most 1e-4, mean wait at most 1.5 services, "
        "mean wait FIFO/FQ in [0.9, 1.1].",
        judge=r_20,
    ),
    Claim(
        id="R20b",
        statement="Delay is then that of a modulated M/G/1 queue.",
        rule="1 Mb/s flows, the same loads: mean wait over that of M/G/1 at the load of the flows in "
        "progress, averaged over their number, in [0.8, 1.25].",
        judge=r_20b,
    ),
    Claim(
        id="R21",
        statement="Background 0.5, total load 0.6: five bottlenecked flows or more with probability 0.003 "
        "(as printed).",
        rule="Fluid link; with some reading of the background P(N >= 5) within 20 % of 0.003.",
        judge=r_21,
    ),
    Claim(
        id="R21b",
        statement="The same by the deck's own formula: 0.2^5 = 0.00032.",
        rule="Background of 10 kb/s flows, whose sum is nearly constant: P(N >= 5) within 20 % of 0.00032.",
        judge=r_21b(fast=True),
    ),
    Claim(
        id="R21c",
        statement="The formula holds with background flows of 1 Mb/s, too.",
        rule="Streaming and elastic background flows of at most 1 Mb/s: P(N >= 5) within 20 % of 0.00032.",
        judge=r_21b(fast=False),
    ),
)

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def _answer(evidence: Mapping[str, Evidence]) -> list[str]:
    """Is fair queueing feasible? In words, from the verdicts."""

    def told(claim: str) -> str:
        return f"{_SAID[evidence[claim].verdict]} ({claim}: {evidence[claim].measured})"

    def in_short(claim: str) -> str:
        said = (f"{NAMES[recovery]} {_verdict(claim, recovery)}" for recovery in RECOVERIES)
        return ", ".join(said)

    def _verdict(claim: str, recovery: str) -> str:
        found = evidence[claim if recovery == RECOVERIES[0] else f"{claim}-{recovery}"]
        return _SAID[found.verdict].lower()

    return [
        f"Does a small FIFO buffer leave one flow 40 % of the available capacity? {told('R1')}.",
        f"Is HighSpeed unfair to Reno in FIFO, and does fair queueing mend it? With 625 packets: unfair, "
        f"{in_short('R6')}; mended, {in_short('R8')}; HighSpeed ahead even so, {in_short('R8b')}.",
        f"Does fair queueing spare the background its losses (R4: {in_short('R4')}) and its delay with 20 "
        f"packets (R18: {in_short('R18')}) and with 625 (R18b: {in_short('R18b')})?",
        f"Do any two flows share fairly under fair queueing? {in_short('R19')}. Does it matter which order "
        f"of service? The same result, R17: {in_short('R17')}.",
        f"Is the number of active flows bounded whatever the link? R16: "
        f"{_SAID[evidence['R16'].verdict].lower()}; R15: {_SAID[evidence['R15'].verdict].lower()}.",
        f"Is the probability of five bottlenecked flows 0.003, as printed? {told('R21')}. Or what its own "
        f"formula gives? {told('R21b')}.",
        tally(evidence),
    ]


def _checks(results: Results) -> list[str]:
    """Whether the background offered what it was meant to."""
    said = []
    runs = results["baseline"].where(queue="FIFO", buffer=625)
    for kind in runs.axis("background"):
        found = _mean("background_mbps", runs.where(background=kind))
        if found.decided and not found.low <= AVAILABLE_MBPS <= found.high:
            said.append(f"Background of Poisson {kind}: {found} Mb/s instead of {AVAILABLE_MBPS:g}.")
    return said


DECISIONS = tuple(
    Decision(question=question, decision=decision, reason=reason)
    for question, decision, reason in (
        (
            "Available capacity",
            "25 Mb/s, what the background leaves on average; the flow's rate counts unique bytes with their "
            "headers.",
            "The only meaning under which 40 % is near what one Reno flow gets with 20 packets.",
        ),
        (
            "Size of packets",
            "1000 B on the wire, of which 960 B are payload.",
            "625 packets are said to be the product of 50 Mb/s and 100 ms.",
        ),
        (
            "Buffer",
            "So many packets may wait; the one on the line is not counted.",
            "Whether it counts is not said; one packet in twenty is immaterial.",
        ),
        (
            "Poisson flows",
            "They come as a Poisson process and send at 1 Mb/s, whatever becomes of their packets; sizes are "
            "exponential with a mean of 100 kB.",
            "The peak rate is told, sizes and transport are not. Pareto sizes (shape 1.5) and fixed ones are "
            "among the sensitivity runs.",
        ),
        (
            "Poisson packets",
            "2500 flows of datagrams that together are a Poisson process.",
            "Under fair queueing each packet must be a flow of its own; of 2500 flows hardly any has two "
            "packets waiting.",
        ),
        (
            "Fair queueing",
            "Deficit round robin, a queue for each flow, a quantum of one packet, and the oldest packet of "
            "the longest queue goes when the buffer is full.",
            "The talk allows DRR, self-clocked fair queueing or just round robin; ns-2 has DRR. R17 compares "
            "four orders of service.",
        ),
        (
            "TCP",
            "ns-2 as it was in September 2005: an acknowledgement per packet, least time-out 0.2 s, initial "
            "window 2, windows cut to whole packets, first threshold unlimited.",
            "The talk says Reno and HSTCP. TCP after today's RFCs, a least time-out of 1 s and limited slow "
            "start are among the sensitivity runs.",
        ),
        (
            "Recovery",
            "NewReno; every claim on bottlenecked flows is judged with Reno and SACK, too, the same recovery "
            "for all flows.",
            "Not said. With SACK for HighSpeed only, as ns-2's own tests have it, a comparison with Reno "
            "would be one of recoveries.",
        ),
        (
            "HighSpeed",
            "RFC 3649 evaluated continuously, from p = 1.5/38² on.",
            "That is ns-2's code; the RFC suggests a table.",
        ),
        (
            "Start",
            "At random within the first second.",
            "Not said; flows must not begin in step.",
        ),
        (
            "What is measured",
            "Claims: 500 s after 20 s. Where the talk's plots are meant (R11 to R13): from 20 s to 100 s. "
            "The plots show the first 100 s.",
            "The talk plots 100 s. A single run of 100 s says little about fairness.",
        ),
        (
            "Hosts",
            "Take up to a packet's time over each packet.",
            "Equal round trips make packets arrive at the moment of a departure; whoever is let in first "
            "then is let in always. Hosts that answer at once are among the sensitivity runs.",
        ),
        (
            "Utilisation",
            "Packets sent in bins of 1 s, over what the line can send.",
            "The talk's bins are not known.",
        ),
        (
            "Bottlenecked flows in the example",
            "Elastic flows without a peak rate at load 0.1 beside a background at 0.5: streaming flows of "
            "1 Mb/s, elastic flows of at most 1 Mb/s, and streaming flows of 10 kb/s.",
            "The formula takes what the background leaves for constant; how nearly it is depends on the "
            "background.",
        ),
        (
            "Growing links",
            "Rate, buffer, number of flows and TCP transfers times 1, 4 and 16; peak rates stay.",
            "The talk says only that the number of active flows is independent of the rate of the link.",
        ),
        (
            "O(100) packets, and 500 flows",
            "At most 500, in 99.9 % of the time.",
            "The talk gives orders of magnitude.",
        ),
    )
)

STUDY = Study(
    name="fair-queueing",
    title="Is fair queueing feasible?",
    paper="S. Oueslati, J. Roberts: Is fair queueing feasible? A talk, 2005. In writing: Buffer Sizing "
    "for Elastic Traffic, NGI 2006.",
    question="If routers share their links fairly flow by flow, are end systems free to use any transport, "
    "and is the number of flows to be scheduled small whatever the rate of the link?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=VARIANTS,
    sensitivity_sweeps=SENSITIVITY_SWEEPS,
    sensitivity_claims=("R1", "R2", "R3", "R4", "R6", "R7", "R8", "R8b", "R9"),
)
