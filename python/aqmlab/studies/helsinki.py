"""Internet transport performance with AQM in a QoS-enabled network (O. Riva 2003: a talk).

Question: on a slow last hop, does RED serve a latecomer better than Tail Drop, and how does either share
the link between TCP and UDP, with one class of service and with two?
The talk: with Tail Drop two early flows lock the third out, and what it or a UDP flow gets depends on the
moment; RED is stable, and with one class nearly as good as two classes. Ours: everything it leaves open,
listed in `DECISIONS`; its results are known as sentences, as axes of plots, and as three pairs of numbers.
The same cases on the Linux 6.1 kernel stand beside ours.

Rules, written down before the first run; `start` is that of the third flow, or of the UDP flow:

- RI-1: spread over the starts (standard deviation of the means), RED over Tail Drop, at most a half.
- RI-2: mean elapsed time of the third flow, Tail Drop over RED, at least 1.5; d: at some start.
- RI-3: interquartile range and range, Tail Drop over RED, above 1, mean of the starts; d: pooled over them.
- RI-4: Tail Drop's mean handshake is at least 2 s at some start, and RED's at most 2 s at each.
- RI-5: while it is active, the third flow loses 1.5 times the share of the others, and gets at most a sixth
  of the bytes, half of its fair share; at 2 s, and d: at some start.
- RI-6: the third flow's share of all retransmissions, over its share of the data: with RED between a half
  and two, and less than with Tail Drop.
- RI-7: initial flows on average take longer with RED, by at most a tenth, and are closer together.
- RI-8: spread over the starts of datagrams received and of TCP's time, RED over Tail Drop, at most a half.
- RI-9: RED, one class over two: datagrams within a tenth, TCP's time within 5 %.
- RI-10: two classes, Tail Drop over RED: the same bands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from aqmlab import stats
from aqmlab.grid import Results, Runs
from aqmlab.publication import Claim, Decision, Study, Table
from aqmlab.stats import Evidence, Interval
from aqmlab.studies import helsinki_kernel as kernel
from aqmlab.studies.helsinki_figures import (
    FIGURES,
    FLOWS,
    NAMES,
    TABLES,
    metric_of,
)
from aqmlab.studies.helsinki_runs import (
    INITIAL_BYTES,
    PLOTTED_STARTS,
    SENSITIVITY_SWEEPS,
    SWEEPS,
    SYSTEMS,
    TAILS,
    THIRD_BYTES,
    VARIANTS,
)
from aqmlab.studies.shared import tally

Judge = Callable[[Results, str, str], Evidence]
"""Told the system and which Tail Drop."""

Values = npt.NDArray[np.float64]

DATA_SHARE = THIRD_BYTES / (THIRD_BYTES + 2 * INITIAL_BYTES)


# What is compared


def third(results: Results, system: str, queue: str) -> Runs:
    """The first test case at the starts that the talk shows."""
    runs = results["third"].where(system=system, queue=queue)
    return Runs(rows=tuple(row for row in runs.rows if row.labels["third_s"] in PLOTTED_STARTS))


def burst(results: Results, system: str, classes: int, queue: str) -> Runs:
    """The second test case."""
    return results["burst"].where(system=system, classes=classes, queue=queue)


def _starts(runs: Runs) -> tuple[str, list[Any]]:
    label = "third_s" if runs.axis("third_s") else "udp_s"
    return label, runs.axis(label)


def _table(runs: Runs, metric: str, seeds: list[int]) -> Values:
    """The metric by start and seed."""
    label, starts = _starts(runs)
    return np.array([runs.where(**{label: start}).values(metric, seeds) for start in starts])


def _complete(*tables: Values) -> list[Values]:
    """The tables without the seeds that lack a value in any of them."""
    known = np.all([~np.isnan(table).any(axis=0) for table in tables], axis=0)
    return [table[:, known] for table in tables]


def _bootstrapped(ours: Runs, theirs: Runs, metric: str, statistic: Callable[[Values], Values]) -> Interval:
    """The ratio of a statistic of two selections, replications drawn again and again.

    The statistic is given values by start, resample and replication, and answers with one for each resample.
    """
    seeds = [seed for seed in ours.seeds() if seed in theirs.seeds()]
    first, second = _complete(*(_table(runs, metric, seeds) for runs in (ours, theirs)))

    def ratio(picked: npt.NDArray[np.int64]) -> Values:
        above, below = statistic(first[:, picked]), statistic(second[:, picked])
        return np.asarray(np.divide(above, below, out=np.full(above.shape, np.inf), where=below > 0))

    return stats.bootstrap(ratio, first.shape[1])


def _spread(values: Values) -> Values:
    return np.asarray(values.mean(axis=-1).std(axis=0))


def _quartile_distance(values: Values) -> Values:
    low, high = np.quantile(values, [0.25, 0.75], axis=-1)
    return np.asarray((high - low).mean(axis=0))


def _range(values: Values) -> Values:
    return np.asarray((values.max(axis=-1) - values.min(axis=-1)).mean(axis=0))


def _pooled(statistic: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """The statistic of the runs of all starts together."""

    def of_all(values: Values) -> Values:
        starts, resamples, replications = values.shape
        together = values.transpose(1, 0, 2).reshape(1, resamples, starts * replications)
        return statistic(together)

    return of_all


def _ratio(metric: str, ours: Runs, theirs: Runs) -> Interval:
    return stats.paired_ratio(*_pairs(metric, ours, theirs))


def _pairs(metric: str, ours: Runs, theirs: Runs) -> tuple[list[float], list[float]]:
    seeds = [seed for seed in ours.seeds() if seed in theirs.seeds()]
    return ours.values(metric, seeds), theirs.values(metric, seeds)


def _mean(metric: str, runs: Runs) -> Interval:
    return stats.mean_interval(runs.values(metric))


# Judges


def ri_1(results: Results, system: str, tail: str) -> Evidence:
    red, tail_drop = third(results, system, "red"), third(results, system, tail)
    found = _bootstrapped(red, tail_drop, "elapsed_s", _spread)
    means = "; ".join(f"{NAMES[name]} {_means(runs)} s" for name, runs in ((tail, tail_drop), ("red", red)))
    return stats.judge(f"means over the starts: {means}; spread, RED/Tail Drop", found, stats.at_most(0.5))


def _means(runs: Runs) -> str:
    label, starts = _starts(runs)
    values = [_mean("elapsed_s", runs.where(**{label: start})).value for start in starts]
    return f"{min(values):.1f} to {max(values):.1f}"


def _doubled(results: Results, system: str, tail: str, start: float) -> Evidence:
    ours, theirs = (third(results, system, queue).where(third_s=start) for queue in (tail, "red"))
    name = f"elapsed time, {NAMES[tail]}/RED, start {start:g} s"
    return stats.judge(name, _ratio("elapsed_s", ours, theirs), stats.at_least(1.5))


def ri_2(results: Results, system: str, tail: str) -> Evidence:
    return _doubled(results, system, tail, 2)


def ri_2d(results: Results, system: str, tail: str) -> Evidence:
    starts = third(results, system, tail).axis("third_s")
    return _somewhere([_doubled(results, system, tail, start) for start in starts])


def _somewhere(parts: list[Evidence]) -> Evidence:
    """Evidence that something is so at some start, told by the largest number where several decide."""
    return stats.either(*sorted(parts, key=lambda part: -part.value))


def ri_3(results: Results, system: str, tail: str, *, pooled: bool = False) -> Evidence:
    ours, theirs = third(results, system, tail), third(results, system, "red")
    parts = []
    for name, statistic in (("interquartile range", _quartile_distance), ("range", _range)):
        chosen = _pooled(statistic) if pooled else statistic
        found = _bootstrapped(ours, theirs, "elapsed_s", chosen)
        said = f"{name} {'pooled over' if pooled else 'at'} the starts, {NAMES[tail]}/RED"
        parts.append(stats.judge(said, found, stats.above(1)))
    return stats.together(*parts)


def ri_4(results: Results, system: str, tail: str) -> Evidence:
    def at(queue: str, start: float, band: stats.Band) -> Evidence:
        runs = third(results, system, queue).where(third_s=start)
        return stats.judge(f"handshake, {NAMES[queue]}, start {start:g} s", _mean("handshake_s", runs), band)

    starts = third(results, system, tail).axis("third_s")
    long = _somewhere([at(tail, start, stats.at_least(2)) for start in starts])
    return stats.together(long, *(at("red", start, stats.at_most(2)) for start in starts))


def _locked_out(results: Results, system: str, tail: str, start: float) -> Evidence:
    runs = third(results, system, tail).where(third_s=start)
    dropped = stats.paired_ratio(runs.values("third_dropped"), runs.values("others_dropped"))
    said = f"{NAMES[tail]}, start {start:g} s"
    return stats.together(
        stats.judge(f"share dropped, third/others, {said}", dropped, stats.at_least(1.5)),
        stats.judge(f"third's share of the bytes, {said}", _mean("third_bytes", runs), stats.at_most(1 / 6)),
    )


def ri_5(results: Results, system: str, tail: str) -> Evidence:
    return _locked_out(results, system, tail, 2)


def ri_5d(results: Results, system: str, tail: str) -> Evidence:
    starts = third(results, system, tail).axis("third_s")
    return _somewhere([_locked_out(results, system, tail, start) for start in starts])


def _proportion(runs: Runs) -> list[float]:
    """The third flow's share of all retransmissions over its share of the data, by seed."""
    by_flow = {flow: runs.values(metric_of("retransmitted", flow)) for flow in FLOWS.values()}
    return [
        its / (its + fastest + slowest) / DATA_SHARE if its + fastest + slowest else math.nan
        for its, fastest, slowest in zip(
            *(by_flow[flow] for flow in ("third", "fastest", "slowest")), strict=True
        )
    ]


def ri_6(results: Results, system: str, tail: str) -> Evidence:
    red, tail_drop = (_proportion(third(results, system, queue)) for queue in ("red", tail))
    return stats.together(
        stats.judge("share of retransmissions/of data, RED", stats.mean_interval(red), stats.within(0.5, 2)),
        stats.judge(f"that of RED/{NAMES[tail]}", stats.paired_ratio(red, tail_drop), stats.below(1)),
    )


def ri_7(results: Results, system: str, tail: str) -> Evidence:
    red, tail_drop = (third(results, system, queue) for queue in ("red", tail))
    seeds = red.seeds()

    def times(runs: Runs) -> tuple[Values, Values]:
        fast, slow = (np.array(runs.values(metric, seeds)) for metric in ("fastest_s", "slowest_s"))
        return (fast + slow) / 2, slow - fast

    (mean_red, apart_red), (mean_tail, apart_tail) = times(red), times(tail_drop)
    longer = stats.paired_ratio(mean_red.tolist(), mean_tail.tolist())
    closer = stats.paired_difference(apart_red.tolist(), apart_tail.tolist())
    return stats.together(
        stats.judge(f"initial flows' time, RED/{NAMES[tail]}", longer, stats.within(1, 1.1)),
        stats.judge(f"slowest - fastest (s), RED - {NAMES[tail]}", closer, stats.below(0)),
    )


def ri_8(results: Results, system: str, tail: str) -> Evidence:
    red, tail_drop = (burst(results, system, 1, queue) for queue in ("red", tail))
    return stats.together(
        *(
            stats.judge(
                f"spread of {name}, RED/{NAMES[tail]}",
                _bootstrapped(red, tail_drop, metric, _spread),
                stats.at_most(0.5),
            )
            for name, metric in (("datagrams received", "datagrams"), ("TCP's time", "tcp_s"))
        )
    )


def _alike(ours: Runs, theirs: Runs, said: str) -> Evidence:
    return stats.together(
        stats.judge(f"datagrams, {said}", _ratio("datagrams", ours, theirs), stats.within(0.9, 1.1)),
        stats.judge(f"TCP's time, {said}", _ratio("tcp_s", ours, theirs), stats.within(0.95, 1.05)),
    )


def ri_9(results: Results, system: str, tail: str) -> Evidence:
    one, two = (burst(results, system, classes, "red") for classes in (1, 2))
    return _alike(one, two, "RED, one class/two")


def ri_10(results: Results, system: str, tail: str) -> Evidence:
    ours, theirs = (burst(results, system, 2, queue) for queue in (tail, "red"))
    return _alike(ours, theirs, f"two classes, {NAMES[tail]}/RED")


# Claims: each for both systems and both units of Tail Drop

_CASES = tuple((system, tail) for system in SYSTEMS for tail in TAILS)


def claim_id(id: str, system: str, tail: str) -> str:
    """RI-1 with linux-2.4 and bytes; `p` for packets, `-6` for linux-6."""
    return f"{id}{'p' if tail == 'ptail' else ''}{'-6' if system == 'linux-6' else ''}"


_STARTS_TOLD = "starts " + ", ".join(f"{start:g}" for start in PLOTTED_STARTS) + " s"

STATEMENTS: Mapping[str, tuple[str, str, Judge]] = {
    "RI-1": (
        "RED is stable: the third flow's mean elapsed time hardly depends on its start, Tail Drop's does.",
        f"S{_STARTS_TOLD[1:]}: standard deviation of the means, RED over Tail Drop, at most 0.5.",
        ri_1,
    ),
    "RI-2": (
        "Starting after 2 s, the third flow takes twice as long with Tail Drop as with RED.",
        "Ratio of the mean elapsed times at least 1.5.",
        ri_2,
    ),
    "RI-2d": (
        "The same at some start: which one is bad depends on the unknown delay.",
        f"Some of {_STARTS_TOLD}: ratio at least 1.5.",
        ri_2d,
    ),
    "RI-3": (
        "Over replications the third flow's time varies widely with Tail Drop, and little with RED.",
        "Interquartile range and range at each start, averaged over the starts: Tail Drop over RED above 1. "
        "The interval of a range is too narrow: resamples cannot go beyond what was seen.",
        ri_3,
    ),
    "RI-3d": (
        "The same over replications and starts together.",
        "As RI-3, of the runs of all starts in one.",
        partial(ri_3, pooled=True),
    ),
    "RI-4": (
        "With Tail Drop the third flow's handshake takes seconds, as its SYN is lost; with RED it is short.",
        "Tail Drop: mean of at least 2 s at some start. RED: at most 2 s at each.",
        ri_4,
    ),
    "RI-5": (
        "Lock-out: with Tail Drop the early flows hold the buffer while the third loses (start after 2 s).",
        "While the third flow is active: share of its data that is dropped over the others' at least 1.5, "
        "and its share of the bytes at most a sixth, which is half of its fair share.",
        ri_5,
    ),
    "RI-5d": ("The same at some start.", f"As RI-5, at some of {_STARTS_TOLD}.", ri_5d),
    "RI-6": (
        "RED drops in proportion to the bandwidth that a flow uses; Tail Drop does not.",
        "The third flow's share of all retransmissions over its share of the data (7.4 %), mean of the "
        "starts: with RED in [0.5, 2], and less than with Tail Drop.",
        ri_6,
    ),
    "RI-7": (
        "With RED the initial flows pay a little, and are closer together.",
        "Mean time of both initial flows, RED over Tail Drop, in [1, 1.1]; slowest less fastest smaller.",
        ri_7,
    ),
    "RI-8": (
        "One class: with Tail Drop it depends on the start what UDP and TCP get; with RED hardly.",
        "Standard deviation over the starts of the means, RED over Tail Drop, at most 0.5, for datagrams "
        "received and for TCP's elapsed time.",
        ri_8,
    ),
    "RI-9": (
        "RED with one class is close to two classes.",
        "One class over two, mean over the starts: datagrams in [0.9, 1.1], TCP's time in [0.95, 1.05].",
        ri_9,
    ),
    "RI-10": (
        "With two classes Tail Drop and RED do the same.",
        "Tail Drop over RED, mean over the starts: datagrams in [0.9, 1.1], TCP's time in [0.95, 1.05].",
        ri_10,
    ),
}


def of_one_queue(id: str) -> bool:
    """Whether Tail Drop has no part in a claim."""
    return id == "RI-9"


def _claim(id: str, system: str, tail: str) -> Claim:
    statement, rule, judge = STATEMENTS[id]
    told = system if of_one_queue(id) else f"{system}, {NAMES[tail]}"
    return Claim(
        id=claim_id(id, system, tail),
        statement=f"{statement} {told}.",
        rule=rule,
        judge=lambda results: judge(results, system, tail),
    )


CLAIMS = tuple(
    _claim(id, system, tail)
    for id in STATEMENTS
    for system, tail in _CASES
    if tail == TAILS[0] or not of_one_queue(id)
)


def kernel_evidence(id: str, system: str, tail: str) -> Evidence:
    """The kernel's runs by the same rule; of lock-out only means are known."""
    if id.startswith("RI-5"):
        return _kernel_locked_out(id, system, tail)
    return STATEMENTS[id][2](kernel.results(), system, tail)


def _kernel_locked_out(id: str, system: str, tail: str) -> Evidence:
    if system != "linux-2.4":
        return Evidence(verdict="undecided", measured="not measured")
    found = {start: shares for (queue, start), shares in kernel.LOCK_OUT.items() if queue == tail}
    starts = [2.0] if id == "RI-5" else list(found)
    best = max(starts, key=lambda start: found[start][0] / found[start][1])
    its, others, part = found[best]
    holds = its / others >= 1.5 and part <= 1 / 6
    return Evidence(
        verdict="holds" if holds else "fails",
        measured=f"start {best:g} s: dropped, third/others {its / others:.2f}, bytes {part:.3f} (means)",
        value=its / others,
    )


def _claims_beside(results: Results) -> pl.DataFrame:
    """Every claim: what the talk says, and the verdicts on our runs and on the kernel's."""
    rows = []
    for id, (_, _, judge) in STATEMENTS.items():
        cases = [case for case in _CASES if case[1] == TAILS[0] or not of_one_queue(id)]
        ours = {case: in_short(judge(results, *case)) for case in cases}
        theirs = {case: in_short(kernel_evidence(id, *case)) for case in cases}
        said = "" if id.endswith("d") else "holds"
        rows.append((id, said, *(found.get(case, "") for found in (ours, theirs) for case in _CASES)))
    units = {"tail": "bytes", "ptail": "packets"}
    names = [f"{who}{system}, {units[tail]}" for who in ("", "kernel beside ") for system, tail in _CASES]
    return pl.DataFrame(rows, schema=["claim", "talk", *names], orient="row")


def in_short(evidence: Evidence) -> str:
    """The verdict, and the number that decides."""
    return "" if math.isnan(evidence.value) else f"{evidence.verdict}, {evidence.value:.2f}"


# The answer, checks and decisions

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def _answer(evidence: Mapping[str, Evidence]) -> list[str]:
    """Does RED serve the latecomer better? In words, from the verdicts."""

    def told(id: str) -> str:
        verdicts: dict[str, list[str]] = {}
        for system, tail in _CASES:
            found = evidence.get(claim_id(id, system, tail))
            if found is not None:
                unit = "" if of_one_queue(id) else f" in {NAMES[tail].split(', ')[1]}"
                verdicts.setdefault(found.verdict, []).append(f"{system}{unit}")
        if len(verdicts) == 1:
            return f"{_SAID[next(iter(verdicts))]} in every case ({id})"
        said = (f"{_SAID[verdict].lower()} with {', '.join(names)}" for verdict, names in verdicts.items())
        return f"{'; '.join(said).capitalize()} ({id})"

    return [
        f"Is RED stable where Tail Drop depends on the moment? {told('RI-1')}.",
        f"Does Tail Drop double the third flow's time at 2 s? {told('RI-2')}. At some start? "
        f"{told('RI-2d')}.",
        f"Do two early flows lock the third out at some start? {told('RI-5d')}.",
        f"Does Tail Drop lose the SYN where RED does not? {told('RI-4')}.",
        "With one class, does it depend on the start what UDP and TCP get, but not with RED? "
        f"{told('RI-8')}.",
        f"Is RED with one class close to two classes? {told('RI-9')}. Are Tail Drop and RED alike there? "
        f"{told('RI-10')}.",
        tally(evidence),
    ]


def _checks(results: Results) -> list[str]:
    """Whether all transfers were done."""
    said = []
    for name, metric in (("third", "elapsed_s"), ("burst", "tcp_s"), ("throughout", "tcp_s")):
        open_ = sum(row.values[metric] is None for row in results[name].rows)
        if open_:
            said.append(f"Sweep {name}: {open_} runs end before a transfer is done; means leave them out.")
    return said


DECISIONS = tuple(
    Decision(question=question, decision=decision, reason=reason)
    for question, decision, reason in (
        (
            "Propagation delay",
            "100 ms one way on the last hop, 1 ms on each link before it, the same on the way back.",
            "Not said. The queue of 1.14 s counts for more; 10, 50, 200 and 300 ms are among the "
            "sensitivity runs.",
        ),
        (
            "20, 5 and 18 kB",
            "Thousands of bytes.",
            "A kB of 1024 bytes also halves max_p with RED of Linux 2.4, which keeps powers of two.",
        ),
        (
            "Tail Drop's limit",
            "Every claim is judged with 20,000 bytes and with 13 packets, as many as fit in.",
            "Not said, and it decides: of 20,000 bytes 318 are left where no full packet fits in, enough "
            "for a SYN or a datagram; of 13 packets none. Linux 2.4 went on until more than the limit "
            "waited, and then had no room either; that is among the sensitivity runs.",
        ),
        (
            "Weight of RED's average",
            "1/8: what tc of Linux derives from a burst of 6 packets of 1500 B.",
            "Not said. 0.002 would remember 43 s at this rate.",
        ),
        (
            "RED",
            "Linux's own: of 2.4 with linux-2.4, of 6.1 with linux-6.",
            "Thresholds in bytes are those of Linux.",
        ),
        (
            "TCP",
            "Linux 2.4.17 with SACK, without timestamps, initial time-out 3 s; and Linux 6.1 with Reno, "
            "initial window 2 and without timestamps.",
            "The first is the talk's; the second is what the kernel's runs were made with.",
        ),
        (
            "Bytes of a packet",
            "1514, 66 and 54 for full segments, SYNs and acknowledgements; 264 for datagrams.",
            "As the kernel counts on an Ethernet line. IP's lengths are among the sensitivity runs.",
        ),
        (
            "Replications",
            "20; flows start within 100 ms at random, hosts take up to 1 ms over each packet.",
            "The talk has 20 replications; Tail Drop itself knows no chance.",
        ),
        (
            "Sizes",
            "200 segments of 1460 B, and 32; in the second case 240.",
            "292 kB and 46.7 kB are told; of the second case only times are, which 240 segments fit.",
        ),
        (
            "UDP",
            "250 datagrams of 250 B, one every 20 ms: 100 kb/s.",
            "Only what arrived is told: 127 to 224 in 5 s. 100 kb/s is the limit of the class.",
        ),
        (
            "70/140 and 70/100 kbit/s",
            "HTB: rate 70, ceil 140 for TCP and 100 for UDP, which goes first; 20 kB or 13 packets in each "
            "class.",
            "Reading B, classes of 70 kb/s that lend nothing, is among the sensitivity runs.",
        ),
        (
            "Elapsed time",
            "From the SYN to the last byte acknowledged.",
            "Not said. It holds the handshake, which the talk also plots by itself.",
        ),
        (
            "Fairness",
            "Jain's index: of size over time in the first case; in the second of the bytes that the "
            "bottleneck took while both flows were active.",
            "The talk names fairness among its metrics, without a formula.",
        ),
    )
)

STUDY = Study(
    name="helsinki",
    title="Internet transport performance with AQM in a QoS-enabled network",
    paper="O. Riva: Analysis of Internet Transport Service Performance with Active Queue Management in a "
    "QoS-enabled Network. A talk, University of Helsinki, 2003.",
    question="On a slow last hop, does RED serve a latecomer better than Tail Drop, and how does either "
    "share the link between TCP and UDP, with one class of service and with two?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=(
        Table(
            id="claims",
            title="Claims, ours and the kernel's by the same rules",
            caption="Verdict, and the number that decides. Of lock-out the kernel's means are known, with "
            "linux-2.4.",
            table=_claims_beside,
        ),
        *TABLES,
    ),
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=VARIANTS,
    sensitivity_sweeps=SENSITIVITY_SWEEPS,
    sensitivity_claims=tuple(
        claim.id
        for claim in CLAIMS
        if claim.id.split("-")[1].rstrip("p") in ("1", "2", "2d", "4", "5d", "8", "9", "10")
    ),
)
