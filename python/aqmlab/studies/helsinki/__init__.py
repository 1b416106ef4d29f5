"""Internet transport performance with AQM in a QoS-enabled network (O. Riva 2003: a talk).

The talk's results: with Tail Drop, two early flows lock out the third flow, and the results of this flow, or
of a UDP flow, depend on the time at which the flow starts. RED is stable and, with one class, nearly as good
as with two classes. The results are available as sentences, axes of plots, and three pairs of numbers.
`testbed.py` contains the details that the talk leaves open, `recorded.py` contains the same cases on the
Linux 6.1 kernel, and `live.py` contains the live form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels, Value
from aqmlab.results.rule import AnyRule, Estimate, anywhere, difference, every, mean_of, ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.helsinki import beside, recorded
from aqmlab.studies.helsinki import measures as m
from aqmlab.studies.helsinki import testbed as bed
from aqmlab.studies.helsinki.testbed import BYTES, ONE_CLASS, QUEUES, RED, TAIL_DROP, TWO_CLASSES, starts
from aqmlab.studies.shared import constant, frame
from aqmlab.study import Claim, Experiment, Figure, Form, Study, Table, overview
from aqmlab.study.publication import Queues, our_claim, our_reading
from aqmlab.study.queues import counted
from aqmlab.study.queues import readings as readings_of_queues
from aqmlab.study.tables import AGREE
from aqmlab.sweep import Change, Changes

_experiment = partial(Experiment, seeds=20, first_seed=1001)
"""The buffer of Linux 2.4 was explored with the seeds from 1 on, so these runs use other seeds."""

_QUEUES = {"unit": bed.UNIT, "queue": bed.QUEUE}
_TAIL_DROP_TO_RED, _RED_TO_TAIL_DROP = (TAIL_DROP, RED), (RED, TAIL_DROP)

# The first test case: two transfers, and a smaller one that starts later

INITIAL_BYTES, THIRD_BYTES = 292_000, 46_720

_THREE_FLOWS = bed.path(
    "400s",
    initial={"kind": "ftp", "flows": 2, "sizes": constant(INITIAL_BYTES)},
    third={"kind": "ftp", "sizes": constant(THIRD_BYTES)},
)
PLOTTED_STARTS = (0, 2, 4, 5, 5.5)
"""The starting times of the third flow that the talk shows, in seconds."""

third = _experiment(
    "third",
    "First test case",
    _THREE_FLOWS,
    {"system": bed.SYSTEM, **_QUEUES, "traffic.third.start": starts(0, 1, 2, 3, 4, 5, 5.5, 6, 7)},
    m.OF_THREE,
    quick=Form(seeds=8, axes={"start": PLOTTED_STARTS}),
    varied=Form(),
    varied_quick=Form(seeds=4, axes={"start": (2, 5.5)}),
)
traces = _experiment(
    "traces",
    "First test case, single runs",
    bed.remembering(_THREE_FLOWS, "third"),
    {**_QUEUES, "traffic.third.start": starts(2, 4, 5)},
    m.HISTORY,
    seeds=1,
)

_BOXES = ("boxes-linux-2.4", "boxes-linux-6")


def _plotted(third: Experiment, *measures: Measure) -> list[Variable]:
    """Measures at the starting times that the talk shows."""
    plotted = tuple(start for start in PLOTTED_STARTS if start in third.values("start"))
    return [third[one].among(start=plotted) for one in measures]


def claims_of_third(third: Experiment, boxes: tuple[str, ...] = _BOXES) -> tuple[Claim, ...]:
    """The sentences of the talk on the first test case; `boxes` are figures of replications."""
    elapsed, handshake = _plotted(third, m.ELAPSED, m.HANDSHAKE)
    lost, others_lost, taken = (one.at(queue=TAIL_DROP) for one in _plotted(third, *m.SHARES))
    fast, slow = (one.averaged("start") for one in _plotted(third, m.FASTEST, m.SLOWEST))
    again = (one.averaged("start") for one in _plotted(third, *reversed(m.SENT_AGAIN.values())))
    share = per_seed(
        "share of retransmissions divided by share of data",
        _share_over_data,
        *again,
        key="share of retransmissions over share of data",
    )
    initial = per_seed("initial flows' elapsed time", lambda a, b: (a + b) / 2, fast, slow, unit="s")
    apart = per_seed(
        "slowest minus fastest initial flow's elapsed time",
        lambda a, b: b - a,
        fast,
        slow,
        unit="s",
        key="slowest - fastest initial flow",
    )
    takes = {queue: mean_of(handshake.at(queue=queue)) for queue in _TAIL_DROP_TO_RED}
    doubled = ratio(elapsed, queue=_TAIL_DROP_TO_RED) >= 1.5
    locked_out = every(ratio(lost, others_lost) >= 1.5, mean_of(taken) <= 1 / 6)

    def varies(how: str, *, pooled: bool) -> AnyRule:
        ends = {"interquartile range": (0.25, 0.75), "range": (0.0, 1.0)}
        ratios = (
            m.range_ratio(f"{name} {how},", elapsed, _TAIL_DROP_TO_RED, of_range, pooled=pooled)
            for name, of_range in ends.items()
        )
        return every(*(one > 1 for one in ratios))

    return (
        Claim(
            "RI-1.2",
            "“Stable results and improved performance when RED is employed”: with RED, the third flow's "
            "mean elapsed time hardly depends on when the flow starts; with Tail Drop, the mean elapsed "
            "time depends on when the flow starts.",
            m.spread_ratio(elapsed, _RED_TO_TAIL_DROP) <= 0.5,
            "slide 11; “hardly” means at most half as much as with Tail Drop, which is aqmlab's choice",
        ),
        Claim(
            "RI-2",
            "“Tail Drop, scenario after 2 seconds: the elapsed time doubles the RED's one!”",
            doubled.at({"start": 2}),
            "slide 11; a ratio of at least 1.5 counts as double, which is aqmlab's choice",
        ),
        our_claim(
            "RI-2d.2",
            "For some start time, the elapsed time with Tail Drop is twice the elapsed time with RED. Which "
            "start time this is depends on the propagation delay, which the talk does not state.",
            anywhere(doubled),
            "slide 11",
        ),
        our_claim(
            "RI-3",
            "Across replications, the third flow's elapsed time has a “wide variation range” with Tail "
            "Drop, and a “limited variation range” with RED. In aqmlab, the start times of the replications "
            "differ by up to 100 ms; this is aqmlab's choice, because the talk does not say how its "
            "replications differ.",
            varies("at each start, mean of the starts", pooled=False),
            "slide 12",
            boxes,
        ),
        our_claim(
            "RI-3d",
            "Across all replications and start times, the third flow's elapsed time varies more with Tail "
            "Drop than with RED.",
            varies("of the runs of all starts", pooled=True),
            "slide 12",
            boxes,
        ),
        our_reading(
            "RI-4.2",
            "With Tail Drop, the third flow's handshake takes seconds, because the SYN is lost; with RED, "
            "the handshake is short.",
            every(anywhere(takes[TAIL_DROP] >= 2), takes[RED] <= 2),
            "slide 11, axis of the handshake",
        ),
        Claim(
            "RI-5",
            "Tail Drop, example from the scenario after 2 seconds: “the initial flows monopolize most of the "
            "bandwidth (phenomenon of Lock-Out)”.",
            locked_out.at({"start": 2}),
            "slide 13; it is aqmlab's choice that lock-out means that the third flow loses at least 1.5 "
            "times as large a fraction of its data as the other flows, and gets at most half of its fair "
            "share",
        ),
        our_claim(
            "RI-5d.2",
            "With Tail Drop, the initial flows lock out the third flow for some start time.",
            anywhere(locked_out),
            "slide 13",
        ),
        Claim(
            "RI-6",
            "“RED drops packets in proportion to the amount of bandwidth the flow uses on the output link”; "
            "Tail Drop does not.",
            every(mean_of(share.at(queue=RED)).within(0.5, 2), ratio(share, queue=_RED_TO_TAIL_DROP) < 1),
            "slide 14; the band is aqmlab's choice",
        ),
        our_reading(
            "RI-7",
            "With RED, the initial flows take slightly longer, and their elapsed times are closer together.",
            every(
                ratio(initial, queue=_RED_TO_TAIL_DROP).within(1, 1.1),
                difference(apart, queue=_RED_TO_TAIL_DROP) < 0,
            ),
            "slide 14, both figures of elapsed times; the band is aqmlab's choice",
        ),
    )


def _share_over_data(third: float, slowest: float, fastest: float) -> float | None:
    both, data = third + slowest + fastest, THIRD_BYTES / (THIRD_BYTES + 2 * INITIAL_BYTES)
    return third / both / data if both else None


# The second test case: a transfer with datagrams, for five seconds or until the transfer is complete

_FILE = {"kind": "ftp", "sizes": constant(350_400)}
_WITH_BURST = bed.path("300s", file=_FILE, voice={**bed.datagrams(bed.DATAGRAM), "lasts": "5s"})
_WITH_UDP = {"system": bed.SYSTEM, "service": bed.SERVICE, **_QUEUES}

burst = _experiment(
    "burst",
    "Second test case",
    _WITH_BURST,
    {**_WITH_UDP, "traffic.voice.start": starts(0, 2, 7, 12, 16, 18)},
    m.WITH_UDP,
    quick=Form(seeds=5, axes={"start": (0, 2, 7, 18)}),
    varied=Form(),
    varied_quick=Form(seeds=4, axes={"start": (0, 7)}),
)
throughout = _experiment(
    "throughout",
    "UDP until TCP is done",
    bed.path("120s", file=_FILE, voice=bed.datagrams(bed.DATAGRAM)),
    {**_WITH_UDP, "traffic.voice.start": starts(0, 2, 7, 12)},
    m.WITH_UDP,
    quick=Form(seeds=3, axes={"start": (0, 7)}),
)
burst_traces = _experiment(
    "burst-traces",
    "Second test case, single runs",
    bed.remembering(_WITH_BURST, "file"),
    {**bed.ONLY_TAIL_DROP, "traffic.voice.start": starts(2, 7, 16)},
    m.HISTORY,
    seeds=1,
)


def claims_of_burst(burst: Experiment) -> tuple[Claim, ...]:
    """The sentences of the talk on the second test case."""
    received, tcp = (burst[one] for one in m.RECORDED_WITH_UDP)

    def alike(at: Mapping[str, str], **pair: Any) -> AnyRule:
        datagrams, time = (ratio(one.averaged("start").at(**at), **pair) for one in (received, tcp))
        return every(datagrams.within(0.9, 1.1), time.within(0.95, 1.05))

    one_class = (one.at(service=ONE_CLASS) for one in (received, tcp))
    return (
        Claim(
            "RI-8.2",
            "One service class, “Tail Drop: unstable results for both TCP and UDP traffic”; with RED, the "
            "results of TCP and UDP hardly depend on when UDP starts.",
            every(*(m.spread_ratio(one, _RED_TO_TAIL_DROP) <= 0.5 for one in one_class)),
            "slides 15 and 16; “hardly” means at most half as much as with Tail Drop, which is aqmlab's "
            "choice",
        ),
        Claim(
            "RI-9",
            "One service class, “RED: performance close to the results with 2 service classes”.",
            alike({"queue": RED, "unit": BYTES}, service=(ONE_CLASS, TWO_CLASSES)),
            "slide 15; the bands are aqmlab's choice",
        ),
        Claim(
            "RI-10",
            "Two service classes: “Tail Drop and RED achieve the same performance”.",
            alike({"service": TWO_CLASSES}, queue=_TAIL_DROP_TO_RED),
            "slide 15; the bands are aqmlab's choice",
        ),
    )


# The numbers that the talk prints, and the axes of its plots

PRINTED = {"RI-11": (24.5, 127), "RI-12": (23.7, 224), "RI-13": (25.5, 181)}
"""The pairs of numbers on slide 16, by claim: TCP's elapsed time in seconds, and datagrams received."""

_elapsed, _handshake = _plotted(third, m.ELAPSED, m.HANDSHAKE)
_received, _tcp = (burst[one] for one in m.RECORDED_WITH_UDP)
_beyond = per_seed(
    "fraction of runs that take more than 45 s",
    lambda time_s: float(time_s > 45),
    _elapsed,
    key="share of runs beyond 45 s",
)


def _near(variable: Variable, printed: float) -> AnyRule:
    mean = mean_of(variable.at(queue=TAIL_DROP, service=ONE_CLASS))
    return mean.within((1 - AGREE) * printed, (1 + AGREE) * printed)


def _inside(of: Iterable[Measure], most: float) -> AnyRule:
    return every(*(mean_of(one) <= most for one in _plotted(third, *of)))


NUMBERS = (
    *(
        Claim(
            id,
            f"“TCP El. Time={tcp_s}s, UDP Rec Pkts={datagrams}”: an example with Tail Drop and equal "
            "priority; the talk does not state when UDP starts.",
            anywhere(every(_near(_tcp, tcp_s), _near(_received, datagrams))),
            "slide 16; it is aqmlab's choice to judge whether, for one of aqmlab's start times, both means "
            "differ from these numbers by at most a tenth",
        )
        for id, (tcp_s, datagrams) in PRINTED.items()
    ),
    our_reading(
        "RI-14",
        "With Tail Drop and with RED, the third flow's mean elapsed times are within the range of the "
        "plot's axis, 7 to 25 s.",
        mean_of(_elapsed).within(7, 25),
        "slide 11, axis of the elapsed time",
    ),
    our_reading(
        "RI-15",
        "With Tail Drop and with RED, the third flow's mean handshake times are within the range of the "
        "plot's axis, at most 5 s.",
        mean_of(_handshake) <= 5,
        "slide 11, axis of the handshake",
    ),
    our_reading(
        "RI-16",
        "With Tail Drop and with RED, the third flow's elapsed times are within the range of the box plot's"
        " axis, at most 45 s: at most one replication in twenty takes longer.",
        mean_of(_beyond.averaged("start")) <= 1 / 20,
        "slide 12, axis of the box plot; the talk has 20 replications for each start time",
        _BOXES,
    ),
    our_reading(
        "RI-17",
        "With Tail Drop and with RED, the mean elapsed times of the fastest and the slowest initial flow "
        "are within the range of the plots' axes, at most 40 s.",
        _inside((m.FASTEST, m.SLOWEST), 40),
        "slide 14, axes of the elapsed times",
    ),
    our_reading(
        "RI-18",
        "With Tail Drop and with RED, the mean number of packets that each flow retransmits is within the "
        "range of the plots' axes, at most 15.",
        _inside(m.SENT_AGAIN.values(), 15),
        "slide 14, axes of the retransmitted packets",
    ),
    our_reading(
        "RI-19",
        "With Tail Drop and with RED, and with one class and with two classes, the mean results with UDP "
        "traffic are within the ranges of the plots' axes, 23 to 26 s and 50 to 300 datagrams.",
        every(mean_of(_tcp).within(23, 26), mean_of(_received).within(50, 300)),
        "slide 15, both axes",
    ),
)
"""These claims are about the talk's own system. The live form lacks this system, and does not judge these
claims."""

CLAIMS = (*claims_of_third(third), *claims_of_burst(burst), *NUMBERS)

NOT_OF_THE_KERNEL = {
    "RI-5": "for the lock-out, only means of the kernel are known, without single replications",
    **dict.fromkeys(
        ("RI-2d.2", "RI-3d", "RI-5d.2"),
        "the claim was written when the kernel's results at each start were known",
    ),
}
"""Claims that are not judged from recorded runs, with the reason."""

_OF_RECORDED = {"runs": recorded.in_place, "leaves_out": NOT_OF_THE_KERNEL}
OURS = (
    *bed.readings("linux-2.4", "", {"system": "linux-2.4"}),
    *bed.readings("linux-6", "-6", {"system": "linux-6"}),
)
THEIRS = (
    *bed.readings("linux-6.1 by counting", "-rec", {"system": "linux-2.4"}, **_OF_RECORDED),
    *bed.readings("linux-6.1", "-6-rec", {"system": "linux-6"}, **_OF_RECORDED),
)


def unfinished(*experiments: Experiment) -> Callable[[ExperimentResults], list[str]]:
    """A function that warns about experiments with runs that end before a transfer is complete."""

    def warning(one: Experiment, results: ExperimentResults) -> str:
        time = m.ELAPSED if m.ELAPSED in one.measures else m.TCP_TIME
        rows = [row for at in QUEUES.values() for row in results[one.name].rows_at(**at)]
        open_, name = sum(row[time] is None for row in rows), f"{one.title}{', live' if one.live else ''}"
        text = f"{name}: {open_} of {len(rows)} runs end before a transfer is complete; means exclude them."
        return text if open_ else ""

    return lambda results: [text for one in experiments if (text := warning(one, results))]


COMPARED = beside.Comparison(
    third=third,
    burst=burst,
    pairs={
        f"{system} | {kernel}": ({"system": system}, beside.ours, recorded.in_place)
        for kernel, system in recorded.BESIDE.items()
    },
    marks={" (Linux 6.1)": recorded.in_place},
    caption="Means and 95 % intervals; diamonds are those of the Linux 6.1 kernel: for linux-2.4 with SACK "
    "recovery by counting, for linux-6 with Reno.",
)


def _examples(results: ExperimentResults) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = [
        ("printed in the talk", None, f"{tcp_s}", datagrams) for tcp_s, datagrams in PRINTED.values()
    ]
    for row in results[burst_traces.name].rows:
        got = f"{row[m.TRACED_TIME]:.1f}", row[m.TRACED_DATAGRAMS]
        rows.append(("Tail Drop, bytes", beside.in_words(row.labels["start"]), *got))
    return frame(rows, "queue", "UDP starts (s)", "TCP elapsed (s)", "datagrams received")


def _claims_beside(results: ExperimentResults) -> pl.DataFrame:
    """For each claim for which recorded runs exist, the verdict from simulated runs with the same starting
    times, and the verdict from the recorded runs."""

    kernels = recorded.results()
    common = {name: {*results[name].axes["start"]} & {*runs.axes["start"]} for name, runs in kernels.items()}
    at_their_starts = {name: results[name].among(start=list(some)) for name, some in common.items()}

    def cell(claim: Claim, labels: Labels) -> str:
        both = (claim.rule.at(labels).judge(runs) for runs in (at_their_starts, kernels))
        return " | ".join(f"{one.verdict} {one.value:.2f}" for one in both)

    judged = [one for one in CLAIMS if one.id not in NOT_OF_THE_KERNEL]
    columns = {
        f"{one.name} | {theirs.name}": [cell(claim, theirs.labels) for claim in judged]
        for one, theirs in zip(OURS, THEIRS, strict=True)
    }
    return pl.DataFrame({"claim": [one.id for one in judged], **columns})


_STARTS = {f"UDP from {start} s": start for start in (2, 7, 16)}
_BESIDE_UDP = beside.sequences(
    {name: (burst_traces, {"start": start}) for name, start in _STARTS.items()},
    panel_guides={name: {"UDP": float(start)} for name, start in _STARTS.items()},
)
_TRACED = (("Tail Drop, bytes", 2), ("Tail Drop, bytes", 5), ("Tail Drop, packets", 4), ("RED", 4))
_MORE: tuple[Figure | Table, ...] = (
    COMPARED.beside_udp("throughout-tcp", "TCP, with UDP until it is done", throughout[m.TCP_TIME]),
    COMPARED.beside_udp(
        "throughout-udp", "Share of datagrams that arrive", throughout[m.UDP_ARRIVED], 0.0, 1.05
    ),
    *(
        Figure(
            f"boxes-{system}",
            f"Elapsed time of the third flow over replications, {system}",
            beside.elapsed_boxes(
                third[m.ELAPSED].at(system=system),
                {"aqmlab": beside.ours, "Linux 6.1 kernel": recorded.in_place},
                {"Linux 6.1 kernel": "aqmlab"},
            ),
            "Minimum, lower quartile, median, upper quartile and maximum; the kernel's, if recorded, hollow.",
        )
        for system in bed.SYSTEM
    ),
    Figure(
        "lock-out",
        "The third flow: packets sent, packets lost and acknowledgements",
        beside.sequences(
            {f"{queue}, {start} s": (traces, {**QUEUES[queue], "start": start}) for queue, start in _TRACED}
        ),
        "linux-2.4, first replication, by queue and start: time-sequence graphs.",
    ),
    Figure(
        "burst-examples",
        "A TCP flow with UDP that starts at different times",
        _BESIDE_UDP,
        "linux-2.4, one class, Tail Drop with a limit in bytes, first replication.",
    ),
    Table(
        "claims-beside-kernel",
        "Claims at the recorded starts",
        _claims_beside,
        "Simulated | recorded, both at 0, 2, 5 and 5.5 s, and at 0, 2, 7 and 18 s of UDP: the verdict, and "
        "the number that decides. Elsewhere the simulated runs are judged at all starts of the talk.",
    ),
    Table(
        "while-active-kernel",
        "The third flow while active, on the kernel that is compared with linux-2.4",
        lambda _: recorded.table("lock_out", infer_schema=False),
        "Means of 20 replications.",
    ),
    Table(
        "burst-fairness",
        "Shares of TCP and UDP at the bottleneck, UDP for five seconds",
        COMPARED.sharing(burst, *m.RECORDED_WITH_UDP, m.TCP_AGAIN),
        "Bytes accepted while both are active; packets that TCP retransmitted, without SYNs.",
    ),
    Table("throughout", "UDP until TCP is complete", COMPARED.sharing(throughout, m.TCP_TIME, m.UDP_ARRIVED)),
    Table("examples", "Example runs of one class, linux-2.4", _examples, "RI-11 to RI-13 judge means of 20."),
)

# Other queues in addition to the testbed's

_LINK_PARAMETERS: Mapping[str, Mapping[str, str]] = {
    **{codel: {"target": "90ms", "interval": "500ms"} for codel in ("CoDel", "FQ-CoDel")},
    **{pie: {"target": "90ms"} for pie in ("PIE", "DualPI2")},
    **{cake: {"rtt": "500ms"} for cake in ("CAKE", "CAKE by flows")},
}
"""Parameters of modern queues that a network engineer would set for a slow link: with a propagation delay of
100 ms, a target below the transmission time of a full packet, 87 ms, empties the queue."""


def with_queues(queues: Queues) -> Study:
    """Tests other queues on a last hop of 140 kbit/s, where the transmission time of a packet exceeds the
    queues' default targets. The modern queues are tested with parameters for this link, and with their
    defaults."""
    tuned = {name: {**_LINK_PARAMETERS.get(name, {}), **table} for name, table in queues.items()}
    untuned = {f"{name} as it comes": table for name, table in queues.items() if name in _LINK_PARAMETERS}
    added: dict[Value, Change] = {name: bed.with_queue(table) for name, table in {**tuned, **untuned}.items()}
    queue = Changes({**bed.QUEUE, **added})

    def again(one: Experiment, start: str, all_s: Sequence[float], quick_s: Sequence[float]) -> Experiment:
        axes: Any = {"queue": queue, f"traffic.{start}.start": starts(*all_s)}
        quick = Form(seeds=5, axes={"start": quick_s})
        return replace(one, name=f"today-{one.name}", axes=axes, quick=quick, varied=None)

    of_third = again(third, "third", (0, 2, 4, 5.5), (2, 5.5))
    of_burst = again(burst, "voice", (0, 2, 7), (7,))
    # A mean over the starts would hide the starts at which a queue performs badly.
    tables = (
        Table(
            f"{id}-{beside.in_words(start)}",
            f"{title} {beside.in_words(start)} s",
            overview([one[measure].at(start=start) for measure in one.measures], by="queue"),
        )
        for id, title, one in (
            ("third", "Three transfers, the third from", of_third),
            ("burst", "A transfer beside datagrams from", of_burst),
        )
        for start in one.values("start")
    )
    elapsed, handshake, slowest = (of_third[one] for one in (m.ELAPSED, m.HANDSHAKE, m.SLOWEST))
    datagrams, file = of_burst[m.DATAGRAMS], of_burst[m.TCP_TIME]

    def to(variable: Variable, queue: str = TAIL_DROP) -> Estimate:
        return ratio(variable, variable.at(queue=queue))

    return Study.of(
        "helsinki-today",
        f"{STUDY.title}, with the queues of today",
        *(of_third, of_burst),
        our_claim(
            "T-RI-1.2",
            "For every start time, the third flow finishes sooner than with Tail Drop and with RED.",
            every(to(elapsed) < 1, to(elapsed, RED) < 1),
            "slide 11, which is about RED",
        ),
        our_claim(
            "T-RI-4.2",
            "For every start time after the start of the other flows, the third flow opens its connection "
            "sooner than with Tail Drop.",
            every(to(handshake.among(start=(2, 4, 5.5))) < 1),
            "slide 11, which is about RED",
        ),
        our_claim(
            "T-RI-7.2",
            "For every start time of the third flow, the slower initial flow finishes at most a tenth later "
            "than with Tail Drop.",
            to(slowest) <= 1.1,
            "slide 14, which is about RED; the limit of a tenth is aqmlab's choice",
        ),
        our_claim(
            "T-RI-8.2",
            "For every start time of the datagrams, at least as many datagrams arrive as with Tail Drop "
            "while they compete with a transfer.",
            to(datagrams) >= 1,
            "slides 15 and 16, which are about RED",
        ),
        our_claim(
            "T-RI-9.2",
            "For every start time of the datagrams, the competing transfer finishes at most a twentieth "
            "later than with Tail Drop.",
            to(file) <= 1.05,
            "slides 15 and 16, which are about RED; the limit of a twentieth is aqmlab's choice",
        ),
        *tables,
        paper=STUDY.paper,
        question="What do today's queues do to TCP and UDP on a last hop of 140 kbit/s?",
        readings=readings_of_queues(map(str, added)),
        answer=lambda found: counted(found, "of what RED was claimed to do on a slow last hop"),
    )


STUDY = Study.of(
    "helsinki",
    "Internet transport performance with AQM in a QoS-enabled network",
    *(third, burst, throughout, traces, burst_traces),
    *(*CLAIMS, *COMPARED.figures, *COMPARED.tables, *_MORE),
    *bed.DECISIONS,
    paper="O. Riva: Analysis of Internet Transport Service Performance with Active Queue Management in a "
    "QoS-enabled Network. A talk, University of Helsinki, 2003.",
    question="On a slow last hop, does RED serve a latecomer better than Tail Drop, and how does either "
    "share the link between TCP and UDP, with one class of service and with two?",
    readings=(*OURS, *THEIRS),
    checks=unfinished(third, burst, throughout),
    with_queues=with_queues,
)
