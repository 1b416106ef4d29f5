"""The numbers of the study `helsinki` that the talk prints, and the axes that it draws, as claims.

They are of the talk's own system, so the live form, which cannot have that system, does not judge them.
"""

from __future__ import annotations

from aqmlab.measures import Measure
from aqmlab.results.rule import AnyRule, anywhere, every, mean_of
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.helsinki import measures, recorded
from aqmlab.studies.helsinki.experiments import ONE_CLASS, PLOTTED_STARTS, TAIL_DROP
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim

PRINTED = {"RI-11": (24.5, 127), "RI-12": (23.7, 224), "RI-13": (25.5, 181)}
"""The pairs of numbers on slide 16, by claim: TCP's elapsed time in seconds, and datagrams received."""

LONGEST_BOX_S = 45
"""Where the axis of slide 12's boxes ends, in seconds."""

SELDOM = 1 / 20
"""The share of runs of which the talk's 20 replications hold one on average."""


def at_plotted_starts(third: Experiment) -> dict[Measure, Variable]:
    """The measures of the first test case, at the starts that the talk shows."""
    plotted = tuple(start for start in PLOTTED_STARTS if start in third.values("start"))
    return {one: third[one].among(start=plotted) for one in third.wanted}


def numbers_of(third: Experiment, burst: Experiment) -> tuple[Claim, ...]:
    """The numbers that the talk prints, and the axes that it draws: claims on the talk's own system."""
    of_third = at_plotted_starts(third)
    elapsed, handshake = of_third[measures.ELAPSED], of_third[measures.HANDSHAKE]
    received, tcp = (burst[one] for one in measures.RECORDED_WITH_UDP)
    beyond_the_boxes = per_seed(
        f"share of runs beyond {LONGEST_BOX_S} s", lambda time_s: float(time_s > LONGEST_BOX_S), elapsed
    ).averaged("start")

    def near(variable: Variable, printed: float) -> AnyRule:
        mean = mean_of(variable.at(queue=TAIL_DROP, service=ONE_CLASS))
        return mean.within((1 - recorded.AGREE) * printed, (1 + recorded.AGREE) * printed)

    return (
        *(
            Claim(
                id=id,
                statement=f"“TCP El. Time={tcp_s}s, UDP Rec Pkts={datagrams}”: an example with Tail Drop and "
                "equal priority, whose start of UDP is not told.",
                source="slide 16; that means at one of our starts are within a tenth of both is ours",
                figures=("datagrams", "tcp-beside-udp", "examples"),
                rule=anywhere(every(near(tcp, tcp_s), near(received, datagrams))),
            )
            for id, (tcp_s, datagrams) in PRINTED.items()
        ),
        Claim(
            id="RI-14",
            statement="The third flow's mean elapsed times lie inside the axis, 7 to 25 s, with Tail Drop "
            "and with RED.",
            source="slide 11, axis of the elapsed time",
            origin="sheet",
            figures=("elapsed",),
            rule=mean_of(elapsed).within(7, 25),
        ),
        Claim(
            id="RI-15",
            statement="The third flow's mean handshakes lie inside the axis, at most 5 s, with Tail Drop and "
            "with RED.",
            source="slide 11, axis of the handshake",
            origin="sheet",
            figures=("handshake",),
            rule=mean_of(handshake) <= 5,
        ),
        Claim(
            id="RI-16",
            statement="The third flow's elapsed times lie inside the axis of the boxes, at most 45 s, with "
            "Tail Drop and with RED: hardly one replication in twenty takes longer.",
            source="slide 12, axis of the boxes; the talk has 20 replications at each start",
            origin="sheet",
            figures=("boxes-linux-2.4", "boxes-linux-6"),
            rule=mean_of(beyond_the_boxes) <= SELDOM,
        ),
        Claim(
            id="RI-17",
            statement="The mean elapsed times of the fastest and slowest initial flow lie inside the axis, "
            "at most 40 s, with Tail Drop and with RED.",
            source="slide 14, axes of the elapsed times",
            origin="sheet",
            figures=("flows-linux-2.4", "flows-linux-6"),
            rule=every(*(mean_of(of_third[one]) <= 40 for one in (measures.FASTEST, measures.SLOWEST))),
        ),
        Claim(
            id="RI-18",
            statement="The mean numbers of packets that each flow sends again lie inside the axis, at most "
            "15, with Tail Drop and with RED.",
            source="slide 14, axes of the retransmitted packets",
            origin="sheet",
            figures=("retransmitted-linux-2.4", "retransmitted-linux-6"),
            rule=every(*(mean_of(of_third[one]) <= 15 for one in measures.SENT_AGAIN.values())),
        ),
        Claim(
            id="RI-19",
            statement="Means beside UDP lie inside the axes, 23 to 26 s and 50 to 300 datagrams, with Tail "
            "Drop and with RED, with one class and with two.",
            source="slide 15, both axes",
            origin="sheet",
            figures=("datagrams", "tcp-beside-udp"),
            rule=every(mean_of(tcp).within(23, 26), mean_of(received).within(50, 300)),
        ),
    )
