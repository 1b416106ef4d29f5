"""The study `helsinki`, live: the kernel's TCP of this machine through our queues, in real time.

Question: does what the study finds hold for the real thing? Each replication stands beside two others whose
flows start at the same moments: a simulated one, and one that was recorded on the Linux 6.1 kernel, with the
kernel's own HTB, FIFO and RED, in virtual time.

Claims, rules, measures and bands are those of the study; only the system `linux-6` can be had live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from aqmlab.grid import Results
from aqmlab.publication import Claim, Decision, Table
from aqmlab.stats import Evidence
from aqmlab.studies import helsinki
from aqmlab.studies.helsinki_figures import NAMES
from aqmlab.studies.helsinki_live_figures import FIGURES, TABLES
from aqmlab.studies.helsinki_live_runs import (
    DURATION,
    LIVE,
    RECORDED,
    SIMULATED,
    SOURCES,
    SWEEPS,
    SYSTEM,
    by_source,
    sweep_of,
)
from aqmlab.studies.helsinki_runs import TAILS

# Claims: each by the study's own rule, for both units of Tail Drop and all sources

_ENDS = {LIVE: "-live", SIMULATED: "-sim", RECORDED: "-rec"}


def claim_id(id: str, tail: str, source: str) -> str:
    """RI-1-live of live runs, RI-1-sim of simulated, RI-1-rec of recorded; `p` for a limit in packets."""
    return f"{helsinki.claim_id(id, 'linux-2.4', tail)}{_ENDS[source]}"


CASES = tuple(
    (id, tail)
    for id in helsinki.STATEMENTS
    for tail in TAILS
    if tail == TAILS[0] or not helsinki.of_one_queue(id)
)
"""Every claim, with each Tail Drop that has a part in it."""


def evidence(results: Results, id: str, tail: str, source: str) -> Evidence:
    """A claim on the runs of a source; of lock-out nothing was recorded beside `linux-6`."""
    if source == RECORDED and id.startswith("RI-5"):
        return helsinki.kernel_evidence(id, SYSTEM, tail)
    return helsinki.STATEMENTS[id][2](by_source(results)[source], SYSTEM, tail)


def _claim(id: str, tail: str, source: str) -> Claim:
    statement, rule, _ = helsinki.STATEMENTS[id]
    told = source if helsinki.of_one_queue(id) else f"{source}, {NAMES[tail]}"
    return Claim(
        id=claim_id(id, tail, source),
        statement=f"{statement} {told[0].upper()}{told[1:]}.",
        rule=rule,
        judge=lambda results: evidence(results, id, tail, source),
    )


CLAIMS = tuple(_claim(id, tail, source) for id, tail in CASES for source in SOURCES)


def _side_by_side(results: Results) -> pl.DataFrame:
    """Every claim: what the talk says, and the verdicts on live, simulated and recorded runs."""
    rows = []
    for id in helsinki.STATEMENTS:
        cells = [
            helsinki.in_short(evidence(results, id, tail, source)) if (id, tail) in CASES else ""
            for tail in TAILS
            for source in SOURCES
        ]
        rows.append((id, "" if id.endswith("d") else "holds", *cells))
    units = {"tail": "bytes", "ptail": "packets"}
    names = [f"{source}, {units[tail]}" for tail in TAILS for source in SOURCES]
    return pl.DataFrame(rows, schema=["claim", "talk", *names], orient="row")


# The answer


def _answer(found: Mapping[str, Evidence]) -> list[str]:
    """What live runs say, and how far the others say the same."""

    def verdict(id: str, tail: str, source: str) -> str:
        return found[claim_id(id, tail, source)].verdict

    def told(id: str) -> str:
        parts = []
        for source in SOURCES:
            said = [verdict(id, tail, source) for tail in TAILS if (id, tail) in CASES]
            parts.append(f"{source} {said[0] if len(set(said)) == 1 else ', '.join(said)}")
        return f"{'; '.join(parts)} ({id})"

    def beside(source: str) -> str:
        pairs = [
            (verdict(id, tail, LIVE), verdict(id, tail, source))
            for id, tail in CASES
            if not (source == RECORDED and id.startswith("RI-5"))
        ]
        same = sum(ours == theirs for ours, theirs in pairs)
        opposed = sum({ours, theirs} == {"holds", "fails"} for ours, theirs in pairs)
        return (
            f"Live and {source}, {same} of {len(pairs)} claims have the same verdict, "
            f"and {opposed} the opposite one."
        )

    return [
        "Where verdicts are two, the first is with Tail Drop's limit in bytes, the second in packets.",
        f"Is RED stable where Tail Drop depends on the moment? {told('RI-1')}.",
        f"Does Tail Drop double the third flow's time at 2 s? {told('RI-2')}. At some start? "
        f"{told('RI-2d')}.",
        f"Does Tail Drop lose the SYN where RED does not? {told('RI-4')}.",
        "With one class, does it depend on the start what UDP and TCP get, but not with RED? "
        f"{told('RI-8')}.",
        f"Is RED with one class close to two classes? {told('RI-9')}. Are Tail Drop and RED alike there? "
        f"{told('RI-10')}.",
        beside(SIMULATED),
        beside(RECORDED),
    ]


def _checks(results: Results) -> list[str]:
    """Whether all transfers were done."""
    said = []
    for sweep, metric in (("third", "elapsed_s"), ("burst", "tcp_s")):
        for source in (LIVE, SIMULATED):
            rows = results[sweep_of(source, sweep)].rows
            open_ = sum(row.values[metric] is None for row in rows)
            if open_:
                said.append(
                    f"Of {len(rows)} {source} runs of the sweep {sweep} {open_} end after {DURATION}, before "
                    "a transfer is done; means leave them out."
                )
    return said


# Decisions: the study's, and those that only a live run needs

_KEPT = (
    "Propagation delay",
    "20, 5 and 18 kB",
    "Tail Drop's limit",
    "Weight of RED's average",
    "Bytes of a packet",
    "Sizes",
    "UDP",
    "70/140 and 70/100 kbit/s",
    "Elapsed time",
)

DECISIONS = (
    Decision(
        question="System",
        decision="linux-6: Reno with SACK and RACK, no timestamps, initial window 2, initial time-out 1 s.",
        reason="The talk's Linux 2.4 cannot be had live; this is what was recorded, too. Where the kernel of "
        "this machine cannot do what [tcp] says it does what comes nearest: told at the end of the report.",
    ),
    Decision(
        question="Starts and replications",
        decision="Each flow starts when that of the recorded replication did; 20 and 10 replications.",
        reason="With Tail Drop two starts a second apart can differ by a factor of two, so sources can only "
        "be compared at the same ones. Of the talk's starts 4 s is missing: it was not recorded.",
    ),
    Decision(
        question="Router",
        decision="Live, our HTB, FIFO and RED, in real time; recorded, those of the kernel.",
        reason="The live runs have our queues with real TCP. Simulated hosts take up to 1 ms over each "
        "packet, real ones the time they need.",
    ),
    Decision(
        question="Valid runs",
        decision="A run that was disturbed is no result and is repeated, at most three times.",
        reason="What says so is in the guide to live runs.",
    ),
    *(one for one in helsinki.DECISIONS if one.question in _KEPT),
)

STUDY = replace(
    helsinki.STUDY,
    question="Does what is simulated of a slow last hop hold with the kernel's own TCP in real time, and on "
    "the recorded kernel, at the same starts?",
    sweeps=SWEEPS,
    figures=FIGURES,
    tables=(
        Table(
            id="claims",
            title="Claims, live, simulated and recorded by the same rules",
            caption="Verdict, and the number that decides, with Tail Drop's limit in bytes and in packets; "
            "the same replications of each source. Of lock-out nothing was recorded.",
            table=_side_by_side,
        ),
        *TABLES,
    ),
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=(),
    sensitivity_sweeps=(),
    sensitivity_claims=(),
)
