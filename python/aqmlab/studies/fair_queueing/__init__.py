"""Fair queueing and congestion control (J. Roberts with J. Augé: a talk of September 2005).

The study's page describes the talk, and aqmlab's decisions about details that the talk does not specify.
`network.py` contains those decisions for which alternatives are tested. The talk's results are available as
sentences, plots, and one number, 40 %.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aqmlab.results.rule import difference, every, mean_of, ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.studies.fair_queueing import active_flows, bottlenecked
from aqmlab.studies.fair_queueing import measures as m
from aqmlab.studies.fair_queueing.network import DECISIONS, RECOVERY, flows, queues
from aqmlab.study import Form, Reading, Study, Table, overview
from aqmlab.study.publication import Queues, our_claim
from aqmlab.study.queues import counted, readings


def with_queues(others: Queues) -> Study:
    """Tests whether the choice of transport protocol is as harmless with other queues as with fair queueing,
    and whether the AQM of these queues has disadvantages. FIFO and FQ have a limit of 625 packets; the other
    queues have their own limits."""
    queue = {"bottleneck.queue": {**queues(625), **others}}
    form: dict[str, Any] = {
        "seeds": 10,
        "quick": Form(seeds=3, changes=bottlenecked.SHORT),
        "varied": None,
    }
    several = replace(
        bottlenecked.several,
        name="today-several",
        axes=flows("2 Reno", "2 HighSpeed", "HighSpeed + Reno", "4 HighSpeed") | queue,
        **form,
    )
    one = replace(bottlenecked.one, name="today-one", axes=flows("1 Reno", "1 HighSpeed") | queue, **form)
    rate = one[m.AVAILABLE]
    alike = ("2 Reno", "2 HighSpeed", "4 HighSpeed")
    shown = (m.AVAILABLE, m.JAIN, m.BACKGROUND_LOSS, "bottleneck.utilisation", m.WAIT, m.TIMEOUTS)
    return Study.of(
        "fair-queueing-today",
        f"{STUDY.title}, with other queues",
        one,
        several,
        our_claim(
            "T-R6",
            "HighSpeed TCP and Reno get equal rates.",
            bottlenecked.over_reno(several).within(1 / 1.1, 1.1),
            "block G, which is about fair queueing; a difference of a tenth is allowed; this limit is "
            "aqmlab's choice",
        ),
        our_claim(
            "T-R11",
            "Flows that use the same TCP share the link fairly.",
            every(*(mean_of(several[m.JAIN].at(flows=count)) >= 0.99 for count in alike)),
            "block K, which is about fair queueing; the limit of 0.99 for Jain's index is aqmlab's choice",
        ),
        our_claim(
            "T-R4",
            "Background flows, which have low rates, lose no packets.",
            mean_of(one[m.BACKGROUND_LOSS]) < 1e-4,
            "block C, which is about fair queueing; a loss of one packet in 10 000 is allowed; this limit "
            "is aqmlab's choice",
        ),
        our_claim(
            "T-R2",
            "One flow gets as much of the available capacity as with fair queueing without an AQM.",
            difference(rate, rate.at(queue="FQ")) >= -0.05,
            "blocks A and C; a shortfall of a twentieth is allowed; this limit is aqmlab's choice",
        ),
        our_claim(
            "T-R14",
            "On average, packets wait for a shorter time than with fair queueing without an AQM.",
            every(*(ratio(runs[m.WAIT], runs[m.WAIT].at(queue="FQ")) < 1 for runs in (one, several))),
            "aqmlab's own claim; the talk does not make this claim",
        ),
        *(
            Table(id, title, overview([runs[measure].at(flows=count) for measure in measures], by="queue"))
            for id, title, runs, count, measures in (
                ("reno", "1 Reno flow beside Poisson flows", one, "1 Reno", shown),
                ("highspeed", "1 HighSpeed flow beside Poisson flows", one, "1 HighSpeed", shown),
                (
                    "beside",
                    "HighSpeed beside Reno",
                    several,
                    "HighSpeed + Reno",
                    (m.HIGHSPEED, m.RENO, *shown),
                ),
                ("four", "Four HighSpeed flows", several, "4 HighSpeed", shown),
            )
        ),
        paper=STUDY.paper,
        question="Do these queues make the transport protocol harmless?",
        answer=lambda found: counted(found, "of what fair queueing was claimed to do"),
        readings=readings(others),
    )


def _checks(results: ExperimentResults) -> list[str]:
    """Warnings if the background did not offer the intended load."""
    rate = mean_of(bottlenecked.baseline[m.BACKGROUND_RATE].at(queue="FIFO", buffer=625))
    found = {labels["background"]: rate.interval(results, labels) for labels in rate.points(results)}
    return [
        f"Background of {kind}: {one} Mb/s instead of {m.AVAILABLE_MBPS:g} Mb/s."
        for kind, one in found.items()
        if one.decided and not one.low <= m.AVAILABLE_MBPS <= one.high
    ]


STUDY = Study.of(
    "fair-queueing",
    "Fair queueing and congestion control",
    *bottlenecked.PARTS,
    *active_flows.PARTS,
    *DECISIONS,
    paper="J. Roberts, joint work with J. Augé: Fair queueing and congestion control. A talk, Workshop on "
    "Congestion Control, Hamilton Institute, September 2005. In writing: J. Augé, J. Roberts: Buffer Sizing "
    "for Elastic Traffic, NGI 2006.",
    question="If routers share their links fairly flow by flow, are end systems free to use any transport, "
    "and is the number of flows to be scheduled small whatever the rate of the link?",
    readings=tuple(
        Reading(name=str(name), labels={"recovery": name}, suffix=suffix)
        for name, suffix in zip(RECOVERY, ("", "-reno", "-sack"), strict=True)
    ),
    checks=_checks,
    with_queues=with_queues,
)
