"""Does it help the Web? (Weigle, Jeffay and Smith 2003: its paper and its talk).

Question: do SACK, Adaptive RED and ECN make Web transfers faster than Reno over Drop Tail, as a function
of offered load, with traffic both ways and round trips from 1 ms to 3.5 s?
The talk: not clearly; SACK makes no difference, Adaptive RED trades the slow responses for the quick ones,
and ECN is better than dropping. Ours: everything it leaves open, listed in `decisions.py` and printed in
the report; none of its results is known as a number.
"""

from __future__ import annotations

from aqmlab.results.labels import said
from aqmlab.results.table import ExperimentResults
from aqmlab.studies.shared import settled_after
from aqmlab.studies.unc_web.claims import CLAIMS, answer, floors
from aqmlab.studies.unc_web.decisions import DECISIONS
from aqmlab.studies.unc_web.distributions import seed_by_seed
from aqmlab.studies.unc_web.experiments import EXPERIMENTS, WARM_UP_S, drop_tail
from aqmlab.studies.unc_web.figures import FIGURES
from aqmlab.studies.unc_web.measures import ACTIVE, SERIES_STEP_S
from aqmlab.studies.unc_web.tables import TABLES, calibrated
from aqmlab.study.publication import Reading, Study


def _checks(results: ExperimentResults) -> list[str]:
    """Whether the rates still offer the loads, equal systems can meet claims, and the warm-up was enough."""
    moved = [
        f"Calibration, {traffic}: the grid takes {rate:g} connections/s for all of the line, measured are "
        f"{found}."
        for traffic, rate, found, still in calibrated(results)
        if not still
    ]
    by_chance = [
        f"Noise floor, {one.claim}, {said(one.where)}: equal systems are {one.equal} apart, and {one.band} "
        "is claimed: chance alone goes beyond."
        for one in floors(results)
        if one.equal.value > one.band.high
    ]
    unsettled = [
        f"{labels['load']} %"
        for labels, (active,) in seed_by_seed([drop_tail[ACTIVE].at(tcp="Reno")], results)
        if settled_after([one for one in active if one is not None], SERIES_STEP_S) > WARM_UP_S
    ]
    late = [
        f"Warm-up: by MSER-5, the mean number of open requests under Drop Tail has not settled after "
        f"{WARM_UP_S:g} s at {', '.join(unsettled)}. At full load it never does: compared are runs of equal "
        "length, on the same requests."
    ]
    return [*moved, *by_chance, *(late if unsettled else [])]


STUDY = Study(
    name="unc-web",
    title="Does It Help the Web?",
    paper="M. C. Weigle, K. Jeffay, F. D. Smith: Quantifying the Effects of Recent Protocol Improvements to "
    "Standards-Track TCP. MASCOTS 2003, and the talk.",
    question="Do SACK, Adaptive RED and ECN make Web transfers faster than Reno over Drop Tail?",
    experiments=EXPERIMENTS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    readings=(
        Reading(name="packets", labels={"unit": "packets"}),
        Reading(name="bytes", labels={"unit": "bytes"}, suffix="b"),
    ),
    answer=answer,
    checks=_checks,
    floors=floors,
)
