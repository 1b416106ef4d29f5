"""Fair queueing and congestion control (J. Roberts with J. Augé: a talk of September 2005).

Question: if routers enforce fair sharing flow by flow, are end systems free to use any transport, and is
the number of flows that a router must schedule small whatever the rate of its link?
The talk: yes. Only flows with a packet in the queue need state, and at usual loads there are a few hundred;
small FIFO buffers starve a flow that could fill the link, HighSpeed TCP starves Reno, and fair queueing with
drops from the longest queue mends both. Ours: everything it leaves open, listed in `decisions.py`; its
results are known as sentences and plots, and as one number, 40 %.
"""

from __future__ import annotations

from aqmlab.results.rule import mean_of
from aqmlab.results.table import ExperimentResults
from aqmlab.studies.fair_queueing.claims import CLAIMS, READINGS, answer
from aqmlab.studies.fair_queueing.decisions import DECISIONS
from aqmlab.studies.fair_queueing.experiments import EXPERIMENTS, baseline
from aqmlab.studies.fair_queueing.figures import FIGURES
from aqmlab.studies.fair_queueing.flow_experiments import EXPERIMENTS as FLOW_EXPERIMENTS
from aqmlab.studies.fair_queueing.measures import AVAILABLE_MBPS, BACKGROUND_RATE
from aqmlab.studies.fair_queueing.tables import TABLES
from aqmlab.study.publication import Study


def _checks(results: ExperimentResults) -> list[str]:
    """Whether the background offered what it was meant to."""
    rate = mean_of(baseline[BACKGROUND_RATE].at(queue="FIFO", buffer=625))
    found = {kind: rate.interval(results, {"background": kind}) for kind in baseline.values("background")}
    return [
        f"Background of {kind}: {one} Mb/s instead of {AVAILABLE_MBPS:g}."
        for kind, one in found.items()
        if one.decided and not one.low <= AVAILABLE_MBPS <= one.high
    ]


STUDY = Study(
    name="fair-queueing",
    title="Fair queueing and congestion control",
    paper="J. Roberts, joint work with J. Augé: Fair queueing and congestion control. A talk, Workshop on "
    "Congestion Control, Hamilton Institute, September 2005. In writing: J. Augé, J. Roberts: Buffer Sizing "
    "for Elastic Traffic, NGI 2006.",
    question="If routers share their links fairly flow by flow, are end systems free to use any transport, "
    "and is the number of flows to be scheduled small whatever the rate of the link?",
    experiments=EXPERIMENTS + FLOW_EXPERIMENTS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=answer,
    readings=READINGS,
    checks=_checks,
)
