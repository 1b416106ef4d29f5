"""The study `helsinki`, live: the kernel's TCP of this machine through our queues, in real time.

Question: does what the study finds hold for the real thing? Each replication stands beside two others whose
flows start at the same moments: a simulated one, and one that was recorded on the Linux 6.1 kernel, with the
kernel's own HTB, FIFO and RED, in virtual time.

Claims, rules, measures and bands are those of the study; only the system `linux-6` can be had live.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from aqmlab.plot import Chart
from aqmlab.publication import Claim, Decision, Figure, Table
from aqmlab.stats import Evidence
from aqmlab.studies import helsinki
from aqmlab.studies import helsinki_figures as figures
from aqmlab.studies import helsinki_kernel as kernel
from aqmlab.studies import helsinki_runs as runs_of
from aqmlab.studies.helsinki_figures import NAMES, THIRD, UDP, Measures, metric_of, start_label
from aqmlab.studies.helsinki_runs import QUEUES, TAILS
from aqmlab.sweep import Results, Row, Runs, Sweep

SYSTEM = "linux-6"

LIVE, SIMULATED, RECORDED = "live", "simulated", "recorded"
SOURCES = (LIVE, SIMULATED, RECORDED)
"""Where replications are from."""

DURATION = "60s"
"""The longest a replication may take; the longest that was recorded took 38 s."""

ETHERNET = 14
"""Bytes of each packet that are the header of the line, which the kernel's queues count."""

# Scenarios: those of the study, with flows that start when those of a recorded replication did


def three_flows(*, system: str, queue: str, third_s: float, seed: int) -> dict[str, Any]:
    """The first test case, as it was recorded; each flow is a workload."""
    table = runs_of.three_flows(system=system, queue=queue, third_s=third_s)
    starts = kernel.starts("third", seed, system=system, queue=queue, third_s=third_s)
    initial, third = table["traffic"]["initial"] | {"flows": 1}, table["traffic"]["third"]
    return _at(table, {"first": initial, "second": initial, "third": third}, starts)


def with_burst(*, system: str, classes: int, queue: str, udp_s: float, seed: int) -> dict[str, Any]:
    """The second test case, as it was recorded."""
    table = runs_of.with_burst(system=system, classes=classes, queue=queue, udp_s=udp_s)
    starts = kernel.starts("burst", seed, system=system, classes=classes, queue=queue, udp_s=udp_s)
    return _at(table, table["traffic"], starts)


def _at(table: dict[str, Any], traffic: Mapping[str, dict[str, Any]], starts: list[float]) -> dict[str, Any]:
    begun = {
        name: {**workload, "start": f"{start:.6f}s", "stagger": "0s"}
        for (name, workload), start in zip(traffic.items(), starts, strict=True)
    }
    host = table["host"] | {"link_header": f"{ETHERNET}B"}
    return table | {"duration": DURATION, "host": host, "traffic": begun}


TRACED = (("tail", 2), ("tail", 5))
"""Queue and start of the third flow."""


def _traced(*, plot: tuple[str, float], seed: int) -> dict[str, Any]:
    queue, third_s = plot
    table = three_flows(system=SYSTEM, queue=queue, third_s=third_s, seed=seed)
    return runs_of.remembering(table, "third")


# Sweeps, each made twice

THIRD_STARTS = (0, 2, 5, 5.5)
UDP_STARTS = (0, 2, 7, 18)
"""The starts that were recorded, in seconds."""

_SWEEPS = (
    Sweep(
        name="third",
        axes={"system": (SYSTEM,), "queue": QUEUES, "third_s": THIRD_STARTS},
        scenario=three_flows,
        reduce=runs_of.three_flow_measures,
        seeds=20,
        quick_seeds=6,
        by_seed=True,
    ),
    Sweep(
        name="burst",
        axes={"system": (SYSTEM,), "classes": (1, 2), "queue": QUEUES, "udp_s": UDP_STARTS},
        scenario=with_burst,
        reduce=runs_of.udp_measures,
        seeds=10,
        quick_seeds=4,
        by_seed=True,
    ),
    Sweep(
        name="traces",
        axes={"plot": TRACED},
        scenario=_traced,
        reduce=runs_of.history,
        seeds=1,
        by_seed=True,
    ),
)


def _named(source: str, sweep: str) -> str:
    return f"{sweep}-{source}"


SWEEPS = tuple(
    replace(sweep, name=_named(source, sweep.name), live=source == LIVE)
    for source in (LIVE, SIMULATED)
    for sweep in _SWEEPS
)


def by_source(results: Results) -> dict[str, Results]:
    """The runs of each source, in the form that the study's rules take; the recorded ones are those
    replications that were made live, too."""
    found: dict[str, Results] = {
        source: {sweep.name: results[_named(source, sweep.name)] for sweep in _SWEEPS}
        for source in (LIVE, SIMULATED)
    }
    recorded = kernel.results()
    found[RECORDED] = {name: _of_both(recorded[name], found[LIVE][name]) for name in recorded}
    return found


def _of_both(recorded: Runs, made: Runs) -> Runs:
    def key(row: Row) -> tuple[Any, ...]:
        return row.seed, frozenset(row.labels.items())

    known = {key(row) for row in made.rows}
    return Runs(rows=tuple(row for row in recorded.rows if key(row) in known))


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
            rows = results[_named(source, sweep)].rows
            open_ = sum(row.values[metric] is None for row in rows)
            if open_:
                said.append(
                    f"Of {len(rows)} {source} runs of the sweep {sweep} {open_} end after {DURATION}, before "
                    "a transfer is done; means leave them out."
                )
    return said


# Figures: a line or a box for each source

_BESIDE = {RECORDED: RECORDED}
"""The recorded runs are hollow."""


def _of_sources(
    sweep: str, panels: Mapping[str, tuple[Mapping[str, Any], str]], said: tuple[str, str], **more: Any
) -> Callable[[Results], Chart]:
    """Measures against the start; a panel has its labels and its measure."""
    x = start_label(sweep)

    def chart(results: Results) -> Chart:
        found = by_source(results)
        frames = [
            figures.lines_of(
                ((source, found[source][sweep].where(**labels)) for source in SOURCES), metric, x
            ).with_columns(pl.lit(panel).alias("panel"))
            for panel, (labels, metric) in panels.items()
        ]
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x=x,
            y="value",
            by="line",
            panel="panel",
            beside=_BESIDE,
            x_label=said[0],
            y_label=said[1],
            **more,
        )

    return chart


def _by_queue(metric: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    return {NAMES[queue]: ({"queue": queue}, metric) for queue in QUEUES}


def _by_flow(metric: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    return {
        f"{flow}, {NAMES[queue]}": ({"queue": queue}, metric_of(metric, short))
        for queue in QUEUES
        for flow, short in (("fastest", "fastest"), ("slowest", "slowest"), ("third", "third"))
    }


def _by_class(metric: str) -> dict[str, tuple[Mapping[str, Any], str]]:
    return {
        f"{NAMES[queue]}{', two classes' if classes == 2 else ''}": (
            {"queue": queue, "classes": classes},
            metric,
        )
        for classes in (1, 2)
        for queue in QUEUES
    }


_MEANS = (
    "Live: the kernel's TCP of this machine through our queues; simulated: our TCP through the same; "
    "recorded, as diamonds: TCP, HTB and queues of the Linux 6.1 kernel. Same starts; means and "
    "95 % intervals"
)


def _boxes(results: Results) -> Chart:
    return figures.boxes(by_source(results), SYSTEM, beside=_BESIDE)


def _trace_figure() -> Figure:
    panels = {
        source: [
            (f"{source}: {NAMES[queue]}, {start:g} s", {"plot": (queue, start)}) for queue, start in TRACED
        ]
        for source in (LIVE, SIMULATED)
    }
    drawn = {
        source: figures.traces(_named(source, "traces"), panels[source], {}) for source in (LIVE, SIMULATED)
    }

    def chart(results: Results) -> Chart:
        charts = [draw(results) for draw in drawn.values()]
        return replace(charts[0], table=pl.concat([one.table for one in charts]))

    return Figure(
        id="lock-out",
        title="The third flow, live and simulated: what it sends, loses and hears",
        caption="Single runs, by source, queue and start: time-sequence graphs of the first replication. "
        "Live it is the kernel's TCP, as the router sees its packets.",
        chart=chart,
    )


FIGURES = (
    Figure(
        id="elapsed",
        title="Elapsed time of the third flow",
        caption=f"{_MEANS}.",
        chart=_of_sources("third", _by_queue("elapsed_s"), (THIRD, "Elapsed time (s)"), y_limits=(0.0, 25.0)),
    ),
    Figure(
        id="handshake",
        title="Handshake of the third flow",
        caption=f"{_MEANS}.",
        chart=_of_sources("third", _by_queue("handshake_s"), (THIRD, "Handshake (s)"), y_limits=(0.0, 5.0)),
    ),
    Figure(
        id="boxes-third",
        title="Elapsed time of the third flow over replications",
        caption="Least, lower quartile, median, upper quartile and most of the replications: live, "
        "simulated, and, hollow, recorded.",
        chart=_boxes,
    ),
    Figure(
        id="flows",
        title="Elapsed times of the three flows",
        caption=f"{_MEANS}.",
        chart=_of_sources("third", _by_flow("elapsed"), (THIRD, "Elapsed time (s)"), y_limits=(0.0, 45.0)),
    ),
    Figure(
        id="retransmitted",
        title="Retransmitted packets of the three flows",
        caption=f"{_MEANS}.",
        chart=_of_sources(
            "third", _by_flow("retransmitted"), (THIRD, "Retransmitted packets"), y_limits=(0.0, 30.0)
        ),
    ),
    Figure(
        id="datagrams",
        title="Datagrams received of 250 in five seconds",
        caption=f"{_MEANS}.",
        chart=_of_sources(
            "burst", _by_class("datagrams"), (UDP, "Datagrams received"), y_limits=(50.0, 300.0)
        ),
    ),
    Figure(
        id="tcp-beside-udp",
        title="Elapsed time of the TCP flow beside five seconds of UDP",
        caption=f"{_MEANS}.",
        chart=_of_sources("burst", _by_class("tcp_s"), (UDP, "Elapsed time (s)"), y_limits=(22.0, 27.0)),
    ),
    _trace_figure(),
)


# Tables


def _agreement(results: Results) -> pl.DataFrame:
    found = by_source(results)
    pairs = ((LIVE, RECORDED), (LIVE, SIMULATED), (SIMULATED, RECORDED))
    return figures.agreement({f"{a}, {b}": (found[a], found[b], SYSTEM) for a, b in pairs})


def _beside(sweep: str, source: str, measures: Measures) -> Callable[[Results], pl.DataFrame]:
    def table(results: Results) -> pl.DataFrame:
        found = by_source(results)
        return figures.means_beside(found[LIVE][sweep], found[source][sweep], measures)

    return table


def _boxes_table(results: Results) -> pl.DataFrame:
    return figures.boxes_table(by_source(results), (SYSTEM,))


_SIGNS = "= within 10 % or intervals that overlap"

TABLES = (
    Table(
        id="claims",
        title="Claims, live, simulated and recorded by the same rules",
        caption="Verdict, and the number that decides, with Tail Drop's limit in bytes and in packets; the "
        "same replications of each source. Of lock-out nothing was recorded.",
        table=_side_by_side,
    ),
    Table(
        id="agreement",
        title="How many means agree",
        caption="Of all conditions: within 10 % of the second, or with intervals that overlap.",
        table=_agreement,
    ),
    *(
        Table(
            id=f"{sweep}-beside-{source}",
            title=f"{said.capitalize()} test case, live beside {source}",
            caption=f"Live | {source}, means ± half of the 95 % interval; {_SIGNS}.",
            table=_beside(sweep, source, measures),
        )
        for sweep, said, measures in figures.CASES
        for source in (RECORDED, SIMULATED)
    ),
    Table(
        id="boxes",
        title="Elapsed time of the third flow over replications",
        caption="Least, quartiles and most, in seconds.",
        table=_boxes_table,
    ),
    Table(
        id="while-active",
        title="What happens to the third flow while it is active",
        caption=f"Live | simulated; {_SIGNS}. Shares of the data that came to the bottleneck, in percent; "
        "retransmissions lost again and SYNs lost are numbers per run.",
        table=_beside("third", SIMULATED, figures.WHILE_ACTIVE),
    ),
)

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
        "be compared at the same ones.",
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
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=_answer,
    checks=_checks,
    sensitivity=(),
    sensitivity_sweeps=(),
    sensitivity_claims=(),
)
