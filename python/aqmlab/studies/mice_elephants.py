"""The War Between Mice and Elephants (Guo and Matta, ICNP 2001, and its talk).

Question: edge routers tell short flows from long ones, core routers (RIO-PS) prefer the short; do short
flows gain, and what do long ones pay?
The talk: short flows are faster and fairer than under RED and Drop Tail, long ones do not suffer, and the
goodput of all is a little better. Ours: everything it leaves open, listed in `DECISIONS` and printed in
the report. Of its results only Table I is known as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from aqmlab import stats
from aqmlab.grid import Results, Runs
from aqmlab.publication import Claim, Decision, Study
from aqmlab.stats import Band, Evidence
from aqmlab.studies.mice_elephants_figures import FIGURES, TABLES, equal_to_red, settled_after
from aqmlab.studies.mice_elephants_runs import (
    DEMAND,
    ONE_CLASS,
    QUEUES,
    SENSITIVITY_SWEEPS,
    SWEEPS,
    VARIANTS,
)
from aqmlab.studies.shared import gain, ratio, tally

OTHERS = ("RED", "Drop Tail")

# Claims: what is compared, and the bands, were written down before the first run


def _ratios(runs: Runs, metric: str, what: str, band: Band, name: str = "") -> list[Evidence]:
    """RIO-PS over each of the others."""
    return [
        stats.judge(f"{what}, RIO-PS/{other}{name}", ratio(runs, metric, "RIO-PS", other), band)
        for other in OTHERS
    ]


def mi_1(results: Results) -> Evidence:
    parts = []
    for mbps in results["table-1"].axis("mbps"):
        runs = results["table-1"].where(mbps=mbps)
        for queue in QUEUES:
            share = [packets / DEMAND for packets in runs.where(queue=queue).values("short")]
            band = stats.below(0.9) if queue == "Drop Tail" else stats.at_least(0.99)
            name = f"short goodput over demand, {queue}, {mbps:g} Mb/s"
            parts.append(stats.judge(name, stats.mean_interval(share), band))
        paid = ratio(runs, "long", "RIO-PS", "Drop Tail")
        name = f"long goodput, RIO-PS/Drop Tail, {mbps:g} Mb/s"
        parts.append(stats.judge(name, paid, stats.within(0.92, 0.95)))
    return stats.together(*parts)


def mi_2(results: Results) -> Evidence:
    runs = results["table-1"]
    return stats.together(
        *(
            stats.judge(
                f"total goodput, {ours}/{theirs}, {mbps:g} Mb/s",
                ratio(runs.where(mbps=mbps), "all", ours, theirs),
                stats.within(0.98, 1.02),
            )
            for mbps in runs.axis("mbps")
            for ours, theirs in (("RED", "Drop Tail"), ("RIO-PS", "Drop Tail"), ("RIO-PS", "RED"))
        )
    )


def mi_3(results: Results) -> Evidence:
    runs = results["table-1"]
    return stats.together(
        *(
            stats.judge(
                f"variation of the short class's share, RIO-PS/Drop Tail, {mbps:g} Mb/s",
                ratio(runs.where(mbps=mbps), "share_variation", "RIO-PS", "Drop Tail"),
                stats.below(1),
            )
            for mbps in runs.axis("mbps")
        )
    )


def mi_4(results: Results) -> Evidence:
    runs = results["random-loss"]
    losses = [float(loss) for loss in runs.axis("loss")]
    seeds = runs.seeds()
    spread = [runs.where(loss=loss).values("variation_10", seeds) for loss in losses]
    slopes = [stats.slope(losses, [values[place] for values in spread]) / 100 for place in range(len(seeds))]
    parts = [
        stats.judge(
            "coefficient of variation of 10-packet flows, growth per percent of loss",
            stats.mean_interval(slopes),
            stats.above(0),
        )
    ]
    for size in (10, 100):
        much, little = runs.pair(f"mean_{size}", {"loss": 0.1}, {"loss": 0.01})
        name = f"mean time of {size}-packet flows at 10 % loss over that at 1 %"
        parts.append(stats.judge(name, stats.paired_ratio(much, little), stats.above(2)))
    return stats.together(*parts)


def mi_5(results: Results) -> Evidence:
    runs = results["exp-1"].where(ito=3)
    return stats.together(*_ratios(runs, "short_file_s", "mean time of short files", stats.below(1)))


def mi_6(results: Results) -> Evidence:
    runs = results["exp-1"].where(ito=3)
    return stats.together(
        *_ratios(runs, "long_file_s", "mean time of long files", stats.at_most(1.05)),
        *_ratios(runs, "long_probe_s", "mean time of long foreground flows", stats.at_most(1.05)),
    )


def mi_7(results: Results) -> Evidence:
    later, sooner = results["exp-1"].where(ito=3), results["exp-1"].where(ito=1)
    seeds = sooner.seeds()
    parts = _ratios(sooner, "short_file_s", "mean time of short files at 1 s", stats.below(1))
    for other in OTHERS:
        narrows = stats.paired_difference(
            gain(later, "short_file_s", "RIO-PS", other, seeds),
            gain(sooner, "short_file_s", "RIO-PS", other, seeds),
        )
        parts.append(
            stats.judge(f"gain over {other} at 3 s less that at 1 s (points)", narrows, stats.above(0))
        )
    return stats.together(*parts)


def mi_8(results: Results) -> Evidence:
    runs = results["exp-1"].where(ito=3)
    parts = []
    for name, band in (("short", stats.above(0)), ("long", stats.at_least(-0.02))):
        ours = _fairness(runs, name, "RIO-PS")
        for other in OTHERS:
            difference = stats.paired_difference(ours, _fairness(runs, name, other))
            parts.append(stats.judge(f"Jain's index of {name} batches, RIO-PS - {other}", difference, band))
    return stats.together(*parts)


def _fairness(runs: Runs, name: str, queue: str) -> list[float]:
    """Jain's index averaged over the batches of a run, by seed."""
    found = {row.seed: [batch[2] for batch in row.values[name]] for row in runs.where(queue=queue).rows}
    return [
        math.fsum(found[seed]) / len(found[seed]) if found.get(seed) else math.nan for seed in runs.seeds()
    ]


def mi_9(results: Results) -> Evidence:
    runs = results["exp-1"].where(ito=3)
    return stats.together(
        *_ratios(runs, "short_probe_s", "mean time of short foreground flows", stats.below(1)),
        *_ratios(runs, "short_probe_spread_s", "its standard deviation", stats.below(1)),
        *_ratios(runs, "short_probe_beyond_3s", "share beyond 3 s", stats.below(1)),
    )


def mi_10(results: Results) -> Evidence:
    parts = []
    for ito in results["exp-1"].axis("ito"):
        runs = results["exp-1"].where(ito=ito)
        for other, band in (("Drop Tail", stats.at_least(1)), ("RED", stats.within(0.99, 1.01))):
            name = f"goodput, RIO-PS/{other}, ITO {ito} s"
            parts.append(stats.judge(name, ratio(runs, "goodput_packets", "RIO-PS", other), band))
    return stats.together(*parts)


def mi_11(results: Results) -> Evidence:
    runs = results["exp-1"].where(ito=3)
    parts = [
        stats.judge(f"{what}, {queue}/Drop Tail", ratio(runs, metric, queue, "Drop Tail"), stats.below(1))
        for what, metric in (
            ("mean queue", "mean_queue"),
            ("standard deviation of the queue", "queue_spread"),
        )
        for queue in ("RED", "RIO-PS")
    ]
    refused = ratio(runs, "refused_fraction", "RIO-PS", "RED")
    return stats.together(*parts, stats.judge("drop and mark rate, RIO-PS/RED", refused, stats.at_most(1.02)))


def mi_12(results: Results) -> Evidence:
    runs = results["exp-2"]
    return stats.together(
        *(part for files in ONE_CLASS for part in equal_to_red(runs.where(files=files), f" of {files} files"))
    )


def mi_13(results: Results) -> Evidence:
    runs = results["table-1"].where(queue="RIO-PS")
    return stats.together(
        stats.judge(
            "packets that overtook one of their flow",
            stats.mean_interval(runs.values("overtaken")),
            stats.at_most(0),
        ),
        stats.judge(
            "flows whose packets had both marks", stats.mean_interval(runs.values("retagged")), stats.above(0)
        ),
    )


def mi_14(results: Results) -> Evidence:
    both_ways, one_way = results["two-way"], results["exp-1"].where(ito=3)
    seeds = [seed for seed in both_ways.seeds() if seed in one_way.seeds()]
    return stats.together(
        *(
            stats.judge(
                f"gain of short files over {other} both ways less that one way (points)",
                stats.paired_difference(
                    gain(both_ways, "short_file_s", "RIO-PS", other, seeds),
                    gain(one_way, "short_file_s", "RIO-PS", other, seeds),
                ),
                stats.above(0),
            )
            for other in OTHERS
        )
    )


CLAIMS = (
    Claim(
        id="MI-1",
        statement="Table I: short flows get less than 90 % of their demand under Drop Tail and nearly all of "
        "it under RED and RIO-PS; long flows pay 5 to 8 %.",
        rule="At both speeds: short goodput over demand below 0.9 under Drop Tail, at least 0.99 under RED "
        "and RIO-PS; long goodput RIO-PS/Drop Tail in [0.92, 0.95].",
        judge=mi_1,
    ),
    Claim(
        id="MI-2",
        statement="Table I: the total goodput of the three queues is within 2 % of each other.",
        rule="At both speeds, each pair of queues: ratio of total goodput in [0.98, 1.02].",
        judge=mi_2,
    ),
    Claim(
        id="MI-3",
        statement="Fig 2: under RIO-PS the short class's share of the line is steadier over time than under "
        "Drop Tail.",
        rule="Coefficient of variation over shares of 10 s, from 20 s on: RIO-PS/Drop Tail below 1 at both "
        "speeds.",
        judge=mi_3,
    ),
    Claim(
        id="MI-4",
        statement="Fig 1: the coefficient of variation of short flows' times rises with loss, and mean times "
        "rise steeply beyond a few percent.",
        rule="Slope of the coefficient of variation of 10-packet flows against loss above 0; mean time of "
        "10- and of 100-packet flows at 10 % loss more than twice that at 1 %.",
        judge=mi_4,
    ),
    Claim(
        id="MI-5",
        statement="With an initial time-out of 3 s, short files are faster under RIO-PS than under RED and "
        "Drop Tail.",
        rule="Exp 1, files of at most 10 packets: mean response time RIO-PS/RED and RIO-PS/Drop Tail below "
        "1.",
        judge=mi_5,
    ),
    Claim(
        id="MI-6",
        statement="Long files are not worse under RIO-PS than under RED and Drop Tail.",
        rule="Exp 1, ITO 3 s, files of more than 100 packets and foreground flows of 1000: mean time at most "
        "1.05 of RED's and Drop Tail's.",
        judge=mi_6,
    ),
    Claim(
        id="MI-7",
        statement="An initial time-out of 1 s narrows the gap, but RIO-PS stays best for short files.",
        rule="Exp 1, ITO 1 s: short files RIO-PS/RED and RIO-PS/Drop Tail below 1; percent gain at 3 s less "
        "that at 1 s above 0 against both.",
        judge=mi_7,
    ),
    Claim(
        id="MI-8",
        statement="Foreground flows of a batch fare most alike under RIO-PS if short, and at least as alike "
        "as under the others if long.",
        rule="Exp 1, ITO 3 s, mean over batches of Jain's index: short batches above RED's and Drop Tail's, "
        "long ones at least those less 0.02.",
        judge=mi_8,
    ),
    Claim(
        id="MI-9",
        statement="Short foreground flows are faster under RIO-PS and far less variable, with few outliers "
        "of 3 s.",
        rule="Exp 1, ITO 3 s: mean, standard deviation and share beyond 3 s, RIO-PS/RED and RIO-PS/Drop Tail "
        "below 1.",
        judge=mi_9,
    ),
    Claim(
        id="MI-10",
        statement="Goodput under RIO-PS is at least Drop Tail's and about RED's (the talk: a weak claim).",
        rule="Exp 1, both initial time-outs: goodput RIO-PS/Drop Tail at least 1, RIO-PS/RED in [0.99, "
        "1.01].",
        judge=mi_10,
    ),
    Claim(
        id="MI-11",
        statement="Under RED and RIO-PS the queue is shorter and swings less than under Drop Tail; RIO-PS "
        "drops and marks no more than RED.",
        rule="Exp 1, ITO 3 s: mean and standard deviation of the queue over Drop Tail's below 1; drop and "
        "mark rate RIO-PS/RED at most 1.02.",
        judge=mi_11,
    ),
    Claim(
        id="MI-12",
        statement="Where nearly all traffic is of one class, RIO-PS is about equal to RED.",
        rule="Exp 2, short files only and long files only: mean response time RIO-PS/RED in [0.95, 1.05], "
        "goodput in [0.98, 1.02].",
        judge=mi_12,
    ),
    Claim(
        id="MI-13",
        statement="No packet overtakes another of its flow, although a flow's mark changes.",
        rule="Table I runs: no packet leaves the queue before one of its flow that came earlier, and there "
        "are flows with both marks.",
        judge=mi_13,
    ),
    Claim(
        id="MI-14",
        statement="With traffic both ways RIO-PS gains more (the talk's last remark).",
        rule="Exp 1, ITO 3 s, as much Web traffic the other way: percent gain of short files over RED and "
        "over Drop Tail, less the gain with traffic one way, above 0.",
        judge=mi_14,
    ),
)

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def _answer(evidence: Mapping[str, Evidence]) -> list[str]:
    """Do short flows gain, and who pays? In words, from the verdicts."""

    def told(claim: str) -> str:
        return f"{_SAID[evidence[claim].verdict]} ({claim}: {evidence[claim].measured})"

    return [
        f"Are short Web files faster under RIO-PS? {told('MI-5')}.",
        f"Are they still, but by less, if a lost SYN costs 1 s instead of 3 s? {told('MI-7')}.",
        f"Are long files left unharmed? {told('MI-6')}.",
        f"Is RIO-PS about equal to RED where all traffic is of one class? {told('MI-12')}. How much of this "
        "is the edge's doing, the table of Exp 2 by the law of L_t shows.",
        tally(evidence),
    ]


def _checks(results: Results) -> list[str]:
    """MSER-5 on the number of open transfers of each run, against the warm-up."""
    runs = results["exp-1"].where(ito=3)
    warm_up = float(runs.axis("end")[0]) / 2
    cuts = [settled_after(row) for row in runs.rows]
    longer = [cut for cut in cuts if cut > warm_up]
    if not longer:
        return []
    return [
        f"Warm-up: by MSER-5, the number of open transfers has not settled after {warm_up:g} s in "
        f"{len(longer)} of {len(cuts)} runs of Exp 1. With sizes of so heavy a tail the load itself wanders; "
        "all queues meet the same load."
    ]


DECISIONS = tuple(
    Decision(question=question, decision=decision, reason=reason)
    for question, decision, reason in (
        (
            "Unit of file sizes",
            "Packets of 500 B: bounded Pareto of shape 1.2 from 4 to 200 000 packets.",
            "As bytes every file would be one packet; ns-2's Web traffic counts packets, the mean is then "
            "the usual 10 kB, and the published figures' axis goes to 10 000.",
        ),
        (
            "Line and round trip",
            "10 Mb/s and 80 ms (Exp 1), 6 Mb/s and 80 ms (Exp 2).",
            "They give the published bandwidth-delay products, 200 and 120 packets of 500 B. Neither is "
            "published itself; the goodput in Table IV as we remember it fits 10 Mb/s.",
        ),
        (
            "Round-trip times",
            "80 ms for everybody.",
            "The link delays between servers, routers and clients are not published. Round trips from 40 to "
            "120 ms are among the sensitivity runs.",
        ),
        (
            "Load",
            "As many users as make Web files need 90 % of the line; foreground flows come on top.",
            "The number of users is not published; the 90 % are from memory of the paper.",
        ),
        (
            "Think time and object gap",
            "Exponential, 9.5 s from the start of a page to the next and 50 ms between objects.",
            "Both means are from memory of the paper. ns-2 of 2001 counted from start to start; thinking "
            "from the end of a page on is among the sensitivity runs.",
        ),
        (
            "Law of the threshold L_t",
            "20 packets at first; every 10 s half of it if more than three flows are short for each long "
            "one, or none is long, else five more; never below 1 or above 1000.",
            "Ratio and periods are published, steps and bounds are not. A fixed threshold and a quantile are "
            "among the sensitivity runs, and a table compares them where all traffic is of one class.",
        ),
        (
            "When the edge forgets a flow",
            "At scans every second (T_u): a flow unseen since the last scan is forgotten.",
            "The period is published, not how it is used. Forgetting a flow when it has been silent for a "
            "second is among the sensitivity runs.",
        ),
        (
            "RIO's average of all packets",
            "Moves with every arrival.",
            "That is the paper's law. In ns-2's rio.cc it moves with short packets only; whether the paper's "
            "runs had that is unknown, and it is among the sensitivity runs.",
        ),
        (
            "ECN",
            "All flows use it under RED and RIO-PS. A packet is marked instead of dropped while the average "
            "is below max_th; a SYN is dropped even then.",
            "Table III has ecn on; ns-2 of 2001 dropped above max_th and did not let SYNs be marked.",
        ),
        (
            "TCP",
            "NewReno as in ns-2 of June 2001, initial window 2, no delayed acknowledgements, window 128, "
            "ticks of 100 ms, least time-out 1 s.",
            "Table III where it speaks; the rest is what ns-2 had.",
        ),
        (
            "Hosts",
            "Answer at once.",
            "ns-2's hosts did unless overhead_ was set, of which nothing is said. Users who "
            "come at random leave no room for phase effects; hosts that hesitate are among the sensitivity "
            "runs.",
        ),
        (
            "Buffers",
            "Drop Tail 1.5 bandwidth-delay products, RED and RIO-PS 2.5, as published.",
            "The same buffer for all is among the sensitivity runs.",
        ),
        (
            "Exp 2",
            "Two set-ups: files of 4 to 20 packets with the short foreground flows only, and files of at "
            "least 100 packets with the long ones only.",
            "The traffic is said to be unbalanced, so that a link sees almost only short or only long "
            "requests; by how much is not published.",
        ),
        (
            "Set-up of Table I",
            "Of a search, among patterns whose demand is fixed, the one whose goodput under Drop Tail is "
            "nearest to the published: every 10 s ten sources begin a flow of 100 packets each, but for "
            "those that have not finished their last one; RTT 160 ms; a buffer of half a bandwidth-delay "
            "product for Drop Tail and 5/3 of that for the others.",
            "Only link speeds, classes and goodput are published. If short flows came whatever the network "
            "does, Drop Tail could not keep them at 82 % of their demand; if they simply followed each "
            "other, RED and RIO-PS would not both end at 49 990. The search is in two tables of the report: "
            "distances, and our goodput beside the published.",
        ),
        (
            "Response time",
            "From sending the SYN to the last byte in order.",
            "A lost SYN is what the initial time-out is about. Requests are not simulated.",
        ),
        (
            "Jain's index",
            "Over the rates (size over time) of the ten flows of a batch; flows not finished count with "
            "their time so far.",
            "The index and the batches are published, what goes into it is not.",
        ),
        (
            "Drop and mark rate over time",
            "Packets dropped or marked per packet that came to the queue, in bins of 1 s, from the counters "
            "that the samples of the queue carry.",
            "The talk divides by arriving packets; the length of its bins is not known.",
        ),
    )
)

STUDY = Study(
    name="mice-elephants",
    title="The War Between Mice and Elephants",
    paper="L. Guo, I. Matta: The War Between Mice and Elephants. ICNP 2001, and the talk.",
    question="If edge routers tell short flows from long ones and core routers prefer the short, do short "
    "flows gain, and what do long ones pay?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=VARIANTS,
    sensitivity_sweeps=SENSITIVITY_SWEEPS,
    sensitivity_claims=("MI-5", "MI-6", "MI-8", "MI-9", "MI-10", "MI-11", "MI-12"),
)
