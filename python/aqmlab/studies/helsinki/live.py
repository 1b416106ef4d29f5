"""The study `helsinki`, live: the kernel's TCP of this machine through our queues, in real time.

Question: does what the study finds hold for the real thing? Each replication stands beside two others whose
flows start at the same moments: a simulated one, and one that was recorded on the Linux 6.1 kernel, with the
kernel's own HTB, FIFO and RED, in virtual time.

Claims, rules, measures and bands are those of the study; only the system `linux-6` can be had live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from aqmlab.measures import Measure
from aqmlab.results.variable import Variable
from aqmlab.studies import helsinki
from aqmlab.studies.helsinki import decisions, measures, tables
from aqmlab.studies.helsinki.claims import NOT_OF_THE_KERNEL, UNITS, answers, claims_of
from aqmlab.studies.helsinki.experiments import DATAGRAMS, ONE_CLASS, QUEUES, TWO_CLASSES
from aqmlab.studies.helsinki.figures import THIRD, UDP, boxes, sequences
from aqmlab.studies.helsinki.live_experiments import (
    LIVE,
    RECORDED,
    SIMULATED,
    SOURCES,
    burst,
    burst_live,
    third,
    third_live,
    traces,
    traces_live,
)
from aqmlab.study.charts import Draws, line
from aqmlab.study.publication import Decision, Figure, Reading, Table, Verdicts
from aqmlab.study.query import Query, elsewhere, stacked

READINGS = tuple(
    Reading(
        name=f"{source}, {unit}",
        labels={"unit": unit},
        suffix=f"{in_packets}-{source[:3] if source != LIVE else source}",
        runs=find,
        leaves_out=NOT_OF_THE_KERNEL if source == RECORDED else {},
    )
    for source, find in SOURCES.items()
    for unit, in_packets in UNITS.items()
)


# The answer


def _answer(found: Verdicts) -> list[str]:
    """What live runs say, and how far the others say the same."""
    verdicts: dict[str, dict[str, dict[str, str]]] = {}
    for one in found:
        source, unit = one.reading.name.split(", ")
        verdicts.setdefault(one.claim.id, {}).setdefault(source, {})[unit] = one.evidence.verdict

    def told(id: str) -> str:
        by_source = {source: list(of_units.values()) for source, of_units in verdicts[id].items()}
        return "; ".join(
            f"{source} {said[0] if len(set(said)) == 1 else ', '.join(said)}"
            for source, said in by_source.items()
        )

    def beside(source: str) -> str:
        pairs = [
            {of_sources[LIVE][unit], theirs}
            for of_sources in verdicts.values()
            for unit, theirs in of_sources.get(source, {}).items()
        ]
        return (
            f"Live and {source}, {sum(len(pair) == 1 for pair in pairs)} of {len(pairs)} claims have the "
            f"same verdict, and {pairs.count({'holds', 'fails'})} the opposite one."
        )

    return [
        "Where verdicts are two, the first is with Tail Drop's limit in bytes, the second in packets.",
        *answers(told, but="RI-5d.2"),
        beside(SIMULATED),
        beside(RECORDED),
    ]


# Figures: a line, a box or a cell for each source

_MEANS = (
    "Live: the kernel's TCP of this machine through our queues; simulated: our TCP through the same; "
    "recorded, as diamonds: TCP, HTB and queues of the Linux 6.1 kernel. Same starts; means and "
    "95 % intervals."
)


def _panels(of_panels: Mapping[str, Variable]) -> Query:
    def of_sources(variable: Variable) -> Query:
        return stacked("from", {source: elsewhere(variable, runs) for source, runs in SOURCES.items()})

    return stacked("panel", {name: of_sources(one) for name, one in of_panels.items()})


def _of_third(flows: Mapping[str, Measure]) -> Query:
    return _panels(
        {
            f"{flow}{queue}": third[measure].at(**at)
            for queue, at in QUEUES.items()
            for flow, measure in flows.items()
        }
    )


def _by_flow(flows: Mapping[str, Measure]) -> Query:
    return _of_third({f"{flow.split()[0]}, ": measure for flow, measure in flows.items()})


def _by_class(measure: Measure) -> Query:
    return _panels(
        {
            f"{queue}{apart}": burst[measure].at(service=service, **at)
            for service, apart in ((ONE_CLASS, ""), (TWO_CLASSES, ", two classes"))
            for queue, at in QUEUES.items()
        }
    )


def _means(asked: Query, x_label: str, y_label: str, low: float, high: float) -> Draws:
    against_start = partial(line, x="start", by="from", panel="panel", beside={RECORDED: RECORDED})
    return against_start(asked, x_label=x_label, y_label=y_label, y_limits=(low, high))


FIGURES = (
    *(
        Figure(id=id, title=title, caption=_MEANS, chart=chart)
        for id, title, chart in (
            (
                "elapsed",
                "Elapsed time of the third flow",
                _means(_of_third({"": measures.ELAPSED}), THIRD, "Elapsed time (s)", 0.0, 25.0),
            ),
            (
                "handshake",
                "Handshake of the third flow",
                _means(_of_third({"": measures.HANDSHAKE}), THIRD, "Handshake (s)", 0.0, 5.0),
            ),
            (
                "flows-linux-6",
                "Elapsed times of the three flows",
                _means(_by_flow(measures.TIMES), THIRD, "Elapsed time (s)", 0.0, 45.0),
            ),
            (
                "retransmitted-linux-6",
                "Retransmitted packets of the three flows",
                _means(_by_flow(measures.SENT_AGAIN), THIRD, "Retransmitted packets", 0.0, 30.0),
            ),
            (
                "datagrams",
                f"Datagrams received of {DATAGRAMS} in five seconds",
                _means(_by_class(measures.DATAGRAMS), UDP, "Datagrams received", 50.0, 300.0),
            ),
            (
                "tcp-beside-udp",
                "Elapsed time of the TCP flow beside five seconds of UDP",
                _means(_by_class(measures.TCP_TIME), UDP, "Elapsed time (s)", 22.0, 27.0),
            ),
        )
    ),
    Figure(
        id="boxes-linux-6",
        title="Elapsed time of the third flow over replications",
        caption="Least, lower quartile, median, upper quartile and most of the replications: live, "
        "simulated, and, hollow, recorded.",
        chart=boxes(third[measures.ELAPSED], SOURCES, {RECORDED: RECORDED}),
    ),
    Figure(
        id="lock-out",
        title="The third flow, live and simulated: what it sends, loses and hears",
        caption="Single runs, by source, queue and start: time-sequence graphs of the first replication. "
        "Live it is the kernel's TCP, as the router sees its packets.",
        chart=sequences(
            {
                f"{source}: Tail Drop, bytes, {start} s": (experiment, {"start": start})
                for source, experiment in ((LIVE, traces_live), (SIMULATED, traces))
                for start in (2, 5)
            }
        ),
    ),
)

_SIGNS = "= within 10 % or intervals that overlap"
_OF_THIRD, _OF_BURST = tables.recorded_of(third, burst)


def _pair(first: str, second: str) -> tables.Pair:
    return SOURCES[first], SOURCES[second]


TABLES = (
    Table(
        id="agreement",
        title="How many means agree",
        caption="Of all conditions: within 10 % of the second, or with intervals that overlap.",
        table=tables.agreement(
            {
                f"{first}, {second}": (_pair(first, second), {})
                for first, second in ((LIVE, RECORDED), (LIVE, SIMULATED), (SIMULATED, RECORDED))
            },
            *_OF_THIRD,
            *_OF_BURST,
        ),
    ),
    *(
        Table(
            id=f"{case}-beside-{source}",
            title=f"{variables[0].experiments[0].title}, live beside {source}",
            caption=f"Live | {source}, means ± half of the 95 % interval; {_SIGNS}.",
            table=tables.means_beside(_pair(LIVE, source), *variables),
        )
        for case, variables in (("third", _OF_THIRD), ("burst", _OF_BURST))
        for source in (RECORDED, SIMULATED)
    ),
    Table(
        id="while-active",
        title="What happens to the third flow while it is active",
        caption=f"Live | simulated; {_SIGNS}. Shares of the data that came to the bottleneck, in percent; "
        "retransmissions lost again, SYNs lost and time-outs are numbers per run.",
        table=tables.means_beside(_pair(LIVE, SIMULATED), *tables.while_active(third)),
    ),
)

# Decisions: the study's, and those that only a live run needs

_OTHERWISE = ("RED", "TCP", "Replications", "Fairness")
"""Questions that are answered otherwise, or not asked."""

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
    *(replace(one, variants=()) for one in decisions.DECISIONS if one.question not in _OTHERWISE),
)

_DRAWN = {*(one.id for one in FIGURES), *(one.id for one in TABLES)}

CLAIMS = tuple(
    replace(claim, figures=tuple(one for one in claim.figures if one in _DRAWN))
    for claim in claims_of(third, burst)
)

STUDY = replace(
    helsinki.STUDY,
    question="Does what is simulated of a slow last hop hold with the kernel's own TCP in real time, and on "
    "the recorded kernel, at the same starts?",
    experiments=(third_live, burst_live, traces_live, third, burst, traces),
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    readings=READINGS,
    decisions=DECISIONS,
    answer=_answer,
    checks=helsinki.unfinished(third_live, third, burst_live, burst),
)
