"""Active Queue Management for Web Traffic (Claypool, Kinicki and Hartling, IPCCC 2004, and its talk).

Question: can a router treat short Web transfers better by looking at their senders' windows?
The talk: SHRED shortens transmission times against RED and Drop Tail, and does not hurt FTP.
Ours: everything the talk leaves open, listed in `decisions.py` and printed in the report. The curves of
its figures are not available as numbers.
"""

from __future__ import annotations

from aqmlab.results.table import ExperimentResults
from aqmlab.studies.shared import warm_up_warning
from aqmlab.studies.shred.claims import CLAIMS, answer
from aqmlab.studies.shred.decisions import DECISIONS
from aqmlab.studies.shred.experiments import (
    EXPERIMENTS,
    QUEUES,
    WARM_UP_S,
    ftp_mixed,
    web_mixed,
    web_only,
)
from aqmlab.studies.shred.figures import FIGURES
from aqmlab.studies.shred.measures import ACTIVE, SERIES_STEP_S
from aqmlab.studies.shred.tables import TABLES
from aqmlab.study.publication import Study


def _checks(results: ExperimentResults) -> list[str]:
    """MSER-5 on the number of open transfers, averaged over seeds, against the warm-up of 20 s."""
    series = [one[ACTIVE].among(queue=QUEUES) for one in (web_only, web_mixed, ftp_mixed)]
    return warm_up_warning(series, results, SERIES_STEP_S, f"the talk's {WARM_UP_S:g} s", WARM_UP_S)


STUDY = Study(
    name="shred",
    title="Active Queue Management for Web Traffic",
    paper="M. Claypool, R. Kinicki, M. Hartling: Active Queue Management for Web Traffic. IPCCC 2004, and "
    "the talk.",
    question="Can a router treat short Web transfers better by looking at their senders' congestion windows?",
    experiments=EXPERIMENTS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=answer,
    checks=_checks,
)
