"""Active Queue Management for Web Traffic (Claypool, Kinicki and Hartling, IPCCC 2004, and its talk).

Question: can a router treat short Web transfers better by looking at their senders' windows?
The talk: SHRED shortens transmission times against RED and Drop Tail, and does not hurt FTP.
Ours: everything the talk leaves open, listed in `DECISIONS` and printed in the report. The curves of
its figures are not available as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from aqmlab import stats
from aqmlab.grid import Results, Runs
from aqmlab.publication import Claim, Decision, Study
from aqmlab.stats import Evidence
from aqmlab.studies.shared import gain, ratio, settled_after, tally
from aqmlab.studies.shred_figures import FIGURES, TABLES, distance, normalised
from aqmlab.studies.shred_runs import (
    QUEUES,
    SENSITIVITY_SWEEPS,
    SERIES_STEP_S,
    SWEEPS,
    TAIL_AT_S,
    VARIANTS,
    WARM_UP_S,
)

# Claims: what is compared, and the bands, were written down before the first run


def sh_1(results: Results) -> Evidence:
    runs = results["web-only"].where(web=1.0)
    parts = []
    for name, metric in (("median", "p50_s"), ("p90", "p90_s"), ("mean", "mean_time_s")):
        parts.append(stats.judge(f"{name} SHRED/RED", ratio(runs, metric, "SHRED", "RED"), stats.below(1)))
        parts.append(
            stats.judge(f"{name} RED/Drop Tail", ratio(runs, metric, "RED", "Drop Tail"), stats.at_most(1.02))
        )
    return stats.together(*parts)


def sh_2(results: Results) -> Evidence:
    runs = results["web-mixed"].where(web=0.7)
    ours = distance(runs, "SHRED")
    return stats.together(
        *(
            stats.judge(
                f"area to uncongested, SHRED/{other}",
                stats.paired_ratio(ours, distance(runs, other)),
                stats.below(1),
            )
            for other in ("RED", "Drop Tail")
        )
    )


def sh_3(results: Results) -> Evidence:
    runs = results["web-mixed"].where(web=0.7)
    return stats.together(
        *(
            stats.judge(
                f"share beyond {at:g} s, SHRED/{other}",
                ratio(runs, f"beyond_{at:g}s", "SHRED", other),
                stats.below(1),
            )
            for at in TAIL_AT_S
            for other in ("RED", "Drop Tail")
        )
    )


def sh_4(results: Results) -> Evidence:
    runs = normalised(results["web-mixed"], "mean_time_s")
    return stats.together(
        stats.judge("SHRED/RED", ratio(runs, "normalised", "SHRED", "RED"), stats.within(0.90, 0.99)),
        stats.judge("RED/Drop Tail", ratio(runs, "normalised", "RED", "Drop Tail"), stats.within(0.85, 0.99)),
    )


def sh_5(results: Results) -> Evidence:
    return stats.together(
        _widens(results["web-mixed"], "web", "per 10 % of Web load", 0.1),
        _widens(results["ftp-mixed"], "ftp", "per 10 FTP flows", 10.0),
    )


def _widens(runs: Runs, axis: str, unit: str, step: float) -> Evidence:
    """Whether RED's percent drops less SHRED's grow along an axis, by the slope of each seed."""
    at = [float(value) for value in runs.axis(axis)]
    slopes = []
    for seed in runs.seeds():
        gain = []
        for value in runs.axis(axis):
            ours, theirs = runs.where(**{axis: value}).pair(
                "drop_percent", {"queue": "SHRED"}, {"queue": "RED"}
            )
            place = (
                runs.where(**{axis: value}).seeds().index(seed)
                if seed in runs.where(**{axis: value}).seeds()
                else None
            )
            gain.append(math.nan if place is None else theirs[place] - ours[place])
        slopes.append(step * stats.slope(at, gain))
    return stats.judge(
        f"growth of RED - SHRED in percent drops {unit}", stats.mean_interval(slopes), stats.above(0)
    )


def sh_6(results: Results) -> Evidence:
    runs = normalised(results["ftp-mixed"], "response_s")
    loaded = Runs(rows=tuple(row for row in runs.rows if row.labels["ftp"] > 0))
    return stats.together(
        stats.judge("SHRED/RED", ratio(loaded, "normalised", "SHRED", "RED"), stats.below(1)),
        stats.judge("RED/Drop Tail", ratio(loaded, "normalised", "RED", "Drop Tail"), stats.below(1)),
    )


def sh_7(results: Results) -> Evidence:
    one = results["web-mixed"].where(web=0.7)
    several = results["web-mixed-pages"]
    seeds = several.seeds()
    single = gain(one, "response_s", "SHRED", "RED", seeds)
    each = [
        gain(several.where(objects=objects), "response_s", "SHRED", "RED", seeds)
        for objects in several.axis("objects")
    ]
    mean = [math.fsum(gains) / len(gains) for gains in zip(*each, strict=True)]
    return stats.together(
        stats.judge("gain over RED with several objects (%)", stats.mean_interval(mean), stats.above(0)),
        stats.judge(
            "that less the gain with one object", stats.paired_difference(mean, single), stats.above(0)
        ),
    )


def sh_8(results: Results) -> Evidence:
    runs = results["ftp-only"]
    fairness = runs.pair("jain", {"queue": "SHRED"}, {"queue": "RED"})
    return stats.together(
        stats.judge(
            "goodput SHRED/RED", ratio(runs, "goodput_mbps", "SHRED", "RED"), stats.within(0.98, 1.02)
        ),
        stats.judge(
            "Jain's index SHRED - RED", stats.paired_difference(*fairness), stats.within(-0.05, 0.05)
        ),
    )


def sh_9(results: Results) -> Evidence:
    runs = results["web-mixed"]
    return stats.together(
        *(
            stats.judge(
                f"total goodput SHRED/{other}",
                ratio(runs, "goodput_bps", "SHRED", other),
                stats.at_least(0.98),
            )
            for other in ("RED", "Drop Tail")
        )
    )


def sh_10(results: Results) -> Evidence:
    return stats.together(
        *(
            stats.judge(
                f"time-outs per short flow SHRED/RED, {name}",
                ratio(runs, "short_timeouts", "SHRED", "RED"),
                stats.below(1),
            )
            for name, runs in (
                ("Web only", results["web-only"].where(web=1.0)),
                ("Web 70 % + 10 FTP", results["web-mixed"].where(web=0.7)),
            )
        )
    )


def sh_11(results: Results) -> Evidence:
    runs = results["hint-on-pi"]
    return stats.together(
        *(
            stats.judge(f"mean object time {ours}/PI", ratio(runs, "mean_time_s", ours, "PI"), stats.below(1))
            for ours in ("PISA", "PIMC")
        )
    )


def aqm_1(results: Results) -> Evidence:
    runs = results["ftp-only"]
    return stats.together(
        stats.judge(
            "synchronisation RED/Drop Tail",
            ratio(runs, "synchronisation", "RED", "Drop Tail"),
            stats.below(1),
        ),
        stats.judge(
            "mean drop run RED/Drop Tail", ratio(runs, "drop_run", "RED", "Drop Tail"), stats.below(1)
        ),
    )


CLAIMS = (
    Claim(
        id="SH-1",
        statement="With Web traffic only at 100 % load, object times under SHRED are shorter than under RED, "
        "and under RED not longer than under Drop Tail.",
        rule="Median, 90th percentile and mean: SHRED/RED below 1, RED/Drop Tail at most 1.02, paired by "
        "seed.",
        judge=sh_1,
    ),
    Claim(
        id="SH-2",
        statement="With 70 % Web load and 10 FTP flows, SHRED's distribution of object times is the nearest "
        "to "
        "the uncongested one.",
        rule="Area between the distribution functions from 0 to 10 s: SHRED's over RED's and over Drop "
        "Tail's "
        "below 1, paired by seed.",
        judge=sh_2,
    ),
    Claim(
        id="SH-3",
        statement="In the tail of that distribution, from one time-out on, fewer objects take so long under "
        "SHRED "
        "than under RED and Drop Tail.",
        rule="Shares of objects beyond 1, 3 and 6 s: SHRED's over RED's and over Drop Tail's below 1.",
        judge=sh_3,
    ),
    Claim(
        id="SH-4",
        statement="Normalised transmission times, Web-mixed: SHRED about 4 % better than RED, RED about 8 % "
        "better "
        "than Drop Tail.",
        rule="Normalised mean times, averaged over all Web loads: SHRED/RED in [0.90, 0.99], RED/Drop Tail "
        "in "
        "[0.85, 0.99].",
        judge=sh_4,
    ),
    Claim(
        id="SH-5",
        statement="As load or the number of flows grows, SHRED's advantage in percent of Web packets dropped"
        " widens.",
        rule="Slope of (RED - SHRED) in percent drops per Web flow against Web load, and against FTP flows: "
        "above 0.",
        judge=sh_5,
    ),
    Claim(
        id="SH-6",
        statement="With 50 % Web load, response times are shortest under SHRED, then RED, then Drop Tail, "
        "whatever "
        "the number of FTP flows.",
        rule="Normalised response time averaged over FTP counts above 0: SHRED/RED and RED/Drop Tail below "
        "1.",
        judge=sh_6,
    ),
    Claim(
        id="SH-7",
        statement="With several objects per page, SHRED shortens response times significantly, and more than"
        " with one.",
        rule="Web 70 % + 10 FTP flows: percent gain over RED, averaged over the kinds of pages, above 0; and"
        " above the "
        "gain with one object.",
        judge=sh_7,
    ),
    Claim(
        id="SH-8",
        statement="FTP traffic is not harmed: with FTP only, goodput and fairness under SHRED are about "
        "those under RED.",
        rule="Averaged over the numbers of flows: goodput SHRED/RED in [0.98, 1.02], Jain's index within "
        "0.05 of RED's.",
        judge=sh_8,
    ),
    Claim(
        id="SH-9",
        statement="The network as a whole does not lose performance.",
        rule="Web-mixed, averaged over loads: goodput of all flows under SHRED at least 0.98 of RED's and "
        "Drop Tail's.",
        judge=sh_9,
    ),
    Claim(
        id="SH-10",
        statement="Short Web flows have fewer time-outs under SHRED than under RED.",
        rule="Time-outs per object of at most 10 kB, SHRED/RED: below 1 Web-only at 100 %, and at 70 % + 10 "
        "FTP flows.",
        judge=sh_10,
    ),
    Claim(
        id="SH-11",
        statement="The idea can be put on other AQMs (the talk's end): with the hint PI, too, serves Web "
        "objects faster.",
        rule="70 % Web load and 10 FTP flows: mean object time PISA/PI and PIMC/PI below 1.",
        judge=sh_11,
    ),
    Claim(
        id="AQM-1",
        statement="RED avoids what it was invented against: flows losing together, and drops in a row.",
        rule="FTP only, averaged over the numbers of flows: loss synchronisation and mean drop run, RED/Drop"
        " Tail below 1.",
        judge=aqm_1,
    ),
)


def _answer(evidence: Mapping[str, Evidence]) -> list[str]:
    """Can a router treat short transfers better? In words, from the verdicts."""
    said = {
        "holds": ("Yes", "it does", "confirmed"),
        "fails": ("No", "it does not", "contradicted"),
        "undecided": ("Not decided", "these runs cannot tell", "left open"),
    }
    mixed = said[_joint(evidence, "SH-2", "SH-3")]
    size = evidence["SH-4"]
    shares = [f"{part.measured.split(',')[0].split(' [')[0]}" for part in size.parts]
    return [
        f"Does SHRED bring short Web transfers nearer to an uncongested network than RED and Drop Tail, "
        f"beside FTP flows? {mixed[0]}: {mixed[1]} (SH-2 and SH-3).",
        f"By how much? Ratios of normalised transmission times: {', '.join(shares)}; the talk says 0.96 and "
        f"0.92 "
        f"(SH-4 {said[size.verdict][2]}).",
        _harm(evidence),
        tally(evidence),
    ]


def _harm(evidence: Mapping[str, Evidence]) -> str:
    """Equal is not the same as unharmed: a queue may also be better than RED."""
    equal, whole = evidence["SH-8"], evidence["SH-9"]
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


def _joint(evidence: Mapping[str, Evidence], *ids: str) -> stats.Verdict:
    return stats.together(*(evidence[i] for i in ids)).verdict


def _checks(results: Results) -> list[str]:
    """MSER-5 on the number of open transfers, averaged over seeds, against the warm-up of 20 s."""
    points = [
        (sweep, queue, axis, value)
        for sweep, axis in (("web-only", "web"), ("web-mixed", "web"), ("ftp-mixed", "ftp"))
        for queue in QUEUES
        for value in results[sweep].axis(axis)
    ]
    cuts = [
        settled_after(results[sweep].where(queue=queue, **{axis: at}), SERIES_STEP_S)
        for sweep, queue, axis, at in points
    ]
    longer = [cut for cut in cuts if cut > WARM_UP_S]
    if not longer:
        return []
    never = sum(math.isinf(cut) for cut in longer)
    most = max((cut for cut in longer if math.isfinite(cut)), default=math.nan)
    said = (
        f"Warm-up: MSER-5 on the mean number of open transfers asks for more than the talk's {WARM_UP_S:g} "
        f"s at "
        f"{len(longer)} of {len(points)} points"
    )
    if math.isfinite(most):
        said += f", at most {most:g} s"
    if never:
        said += f"; at {never} of them the number does not settle within the run"
    return [said + ". With sizes of so heavy a tail the load itself wanders; all queues meet the same load."]


DECISIONS = tuple(
    Decision(question=question, decision=decision, reason=reason)
    for question, decision, reason in (
        (
            "Negative min_th of large windows",
            "The line begins at zero with its slope kept (`floor = zero`).",
            "Taken literally, a flow of twice the average window loses 5 % at an empty queue. The other "
            "two readings are among the sensitivity runs.",
        ),
        (
            "Count law",
            "p_a = p_b / (1 - count p_b), without ns-2's `wait`.",
            "It is the one on slide 7; `wait` changes the drop rate threefold and is among the sensitivity"
            " runs.",
        ),
        (
            "RED gentle or not",
            "Gentle for RED and SHRED.",
            "Slide 12 and ns-2's default of the time; slides 6 and 8 draw RED without. Both were run.",
        ),
        (
            "Average window at the start",
            "The first window seen.",
            "Any other number would be invented.",
        ),
        (
            "The window told",
            "Congestion window, at most the receiver's, not inflated, rounded down; SYNs tell 1.",
            "What limits sending; ns-2 has cwnd 1 at the SYN.",
        ),
        (
            "TCP",
            "Reno as in ns-2.35: initial window 2, no delayed acknowledgements, limited transmit, timer of"
            " 10 ms ticks, minimum RTO 0.2 s, initial RTO 3 s, a receiver window that never limits.",
            "The talk says ns-2 and Reno. Versions differ: window 20 and the RTOs of 2003 are among the "
            "sensitivity runs.",
        ),
        (
            "Packet size",
            "934 B payload, 974 B on the wire.",
            "974 B is the talk's average packet; 1040 B is among the sensitivity runs.",
        ),
        (
            "Drop Tail's buffer",
            "225 packets, as RED's.",
            "The slide lists one buffer size.",
        ),
        (
            "Object sizes",
            "Pareto II, shape 1.2, scale set so that the mean of sizes cut to 12 B and 2 MB is 10 kB.",
            "Then load is what it says. Redrawing instead of cutting is among the sensitivity runs.",
        ),
        (
            "Load",
            "First transmissions on the wire over the bottleneck's capacity.",
            "Retransmissions are a result, not a load.",
        ),
        (
            "Pages",
            "Start to start exponential, whatever the pages before are doing; objects in parallel, each on"
            " its own connection; responses only.",
            "Slide 13: congestion must not lower the load.",
        ),
        (
            "Start of an object's time",
            "From sending the SYN to the last payload byte in order.",
            "A lost SYN is the dearest loss; leaving it out would hide the point of SHRED.",
        ),
        (
            "Normalised time",
            "Mean time over the mean time of the same arrivals, same seed, with the bottleneck at 100 Mb/s"
            " and no FTP flows; delay kept.",
            "Only the numerator sees congestion. FTP flows without a window limit would fill any line.",
        ),
        (
            "FTP starts",
            "At random within the first 10 s.",
            "Avoids a common slow start.",
        ),
        (
            "Unfinished objects",
            "Counted in distributions as what is known of them (Kaplan-Meier); not in means and quantiles,"
            " but reported.",
            "Leaving them out would flatter slow queues.",
        ),
        (
            "Loss event",
            "A drop and all drops less than a base round trip (124 ms) after it.",
            "Losses so close are one signal to the senders.",
        ),
        (
            "Equal timing",
            "Hosts process each packet after a random time of up to one packet's transmission.",
            "Breaks phase effects of equal round-trip times.",
        ),
    )
)

STUDY = Study(
    name="shred",
    title="Active Queue Management for Web Traffic",
    paper="M. Claypool, R. Kinicki, M. Hartling: Active Queue Management for Web Traffic. IPCCC 2004, and "
    "the talk.",
    question="Can a router treat short Web transfers better by looking at their senders' congestion windows?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=VARIANTS,
    sensitivity_sweeps=SENSITIVITY_SWEEPS,
    sensitivity_claims=("SH-1", "SH-2", "SH-3", "SH-4", "SH-5", "SH-6", "SH-8", "SH-9", "SH-10", "AQM-1"),
)
