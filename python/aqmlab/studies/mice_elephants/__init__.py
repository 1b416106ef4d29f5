"""The War Between Mice and Elephants (Guo and Matta, ICNP 2001, and its talk).

Question: edge routers tell short flows from long ones, core routers (RIO-PS) prefer the short; do short
flows gain, and what do long ones pay?
The talk: short flows are faster and fairer than under RED and Drop Tail, long ones do not suffer, and the
goodput of all is a little better. Ours: everything it leaves open, listed in `decisions.py` and printed in
the report. Of its results only Table I is known as numbers.
"""

from __future__ import annotations

from aqmlab.results.table import ExperimentResults
from aqmlab.studies.mice_elephants.claims import CLAIMS, answer
from aqmlab.studies.mice_elephants.decisions import DECISIONS
from aqmlab.studies.mice_elephants.experiments import EXPERIMENTS, exp_1
from aqmlab.studies.mice_elephants.figures import FIGURES
from aqmlab.studies.mice_elephants.measures import ACTIVE, WARM_UP
from aqmlab.studies.mice_elephants.tables import TABLES, settled
from aqmlab.study.publication import Study


def _checks(results: ExperimentResults) -> list[str]:
    """MSER-5 on the number of open transfers of each run, against the warm-up."""
    rows = results[exp_1.name].rows_at(ITO="3 s")
    longer = [row for row in rows if settled(row[ACTIVE]) > row[WARM_UP]]
    if not longer:
        return []
    return [
        f"Warm-up: by MSER-5, the number of open transfers has not settled after {longer[0][WARM_UP]:g} s in "
        f"{len(longer)} of {len(rows)} runs of Exp 1. With sizes of so heavy a tail the load itself wanders; "
        "all queues meet the same load."
    ]


STUDY = Study(
    name="mice-elephants",
    title="The War Between Mice and Elephants",
    paper="L. Guo, I. Matta: The War Between Mice and Elephants. ICNP 2001, and the talk.",
    question="If edge routers tell short flows from long ones and core routers prefer the short, do short "
    "flows gain, and what do long ones pay?",
    experiments=EXPERIMENTS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=answer,
    checks=_checks,
)
