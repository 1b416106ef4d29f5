"""Does it help the Web? (Weigle, Jeffay and Smith 2003: its paper and its talk).

Question: do SACK, Adaptive RED and ECN make Web transfers faster than Reno over Drop Tail, as a function
of offered load, with traffic both ways and round trips from 1 ms to 3.5 s?
The talk: not clearly; SACK makes no difference, Adaptive RED trades the slow responses for the quick ones,
and ECN is better than dropping. Ours: everything it leaves open, listed in `decisions.py` and printed in
the report; none of its results is known as a number.
"""

from __future__ import annotations

from aqmlab.publication import Reading, Study
from aqmlab.runs import Results
from aqmlab.studies.shared import settled_after
from aqmlab.studies.unc_web.claims import CLAIMS, FLOORS, answer
from aqmlab.studies.unc_web.decisions import DECISIONS
from aqmlab.studies.unc_web.experiments import EXPERIMENTS, FULL_LOAD, WARM_UP_S, drop_tail
from aqmlab.studies.unc_web.figures import FIGURES, TABLES, full_load
from aqmlab.studies.unc_web.measures import ACTIVE, SERIES_STEP_S
from aqmlab.sweep import said


def _checks(results: Results) -> list[str]:
    """Whether the rates still offer the loads, equal systems can meet claims, and the warm-up was enough."""
    warnings = []
    for traffic, rate in FULL_LOAD.items():
        found = full_load(results, traffic)
        if not found.low <= rate <= found.high:
            warnings.append(
                f"Calibration, {traffic}: the grid takes {rate:g} connections/s for all of the line, "
                f"measured are {found}."
            )
    for floor in FLOORS:
        for labels, _, alike in floor.found(results):
            if alike.value > floor.most:
                warnings.append(
                    f"Noise floor, {floor.claim}, {said(labels)}: equal systems are {alike} apart, and at "
                    f"most {floor.most:g} is claimed: chance alone goes beyond."
                )
    late = []
    for load in results[drop_tail.name].axes["load"]:
        active = [row[ACTIVE] for row in results[drop_tail.name].where(tcp="Reno", load=load)]
        if settled_after(active, SERIES_STEP_S) > WARM_UP_S:
            late.append(f"{load} %")
    if late:
        warnings.append(
            f"Warm-up: by MSER-5, the mean number of open requests under Drop Tail has not settled after "
            f"{WARM_UP_S:g} s at {', '.join(late)}. At full load it never does: compared are runs of equal "
            "length, on the same requests."
        )
    return warnings


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
)
