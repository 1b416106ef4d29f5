"""Internet transport performance with AQM in a QoS-enabled network (O. Riva 2003: a talk).

Question: on a slow last hop, does RED serve a latecomer better than Tail Drop, and how does either share
the link between TCP and UDP, with one class of service and with two?
The talk: with Tail Drop two early flows lock the third out, and what it or a UDP flow gets depends on the
moment; RED is stable, and with one class nearly as good as two classes. Ours: everything it leaves open,
listed in `decisions.py`; its results are known as sentences, as axes of plots, and as three pairs of numbers.
The same cases on the Linux 6.1 kernel stand beside ours (`recorded.py`); `live.py` is the live form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aqmlab.results.table import ExperimentResults
from aqmlab.studies.helsinki.claims import CLAIMS, READINGS, answer
from aqmlab.studies.helsinki.decisions import DECISIONS
from aqmlab.studies.helsinki.experiments import EXPERIMENTS, QUEUES, burst, third, throughout
from aqmlab.studies.helsinki.figures import FIGURES
from aqmlab.studies.helsinki.measures import ELAPSED, TCP_TIME
from aqmlab.studies.helsinki.tables import TABLES
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Study


def unfinished(*experiments: Experiment) -> Callable[[ExperimentResults], list[str]]:
    """A warning for each experiment with runs that end before a transfer is done."""

    def warnings(results: ExperimentResults) -> Iterator[str]:
        for one in experiments:
            time = ELAPSED if ELAPSED in one.measures else TCP_TIME
            rows = [row for at in QUEUES.values() for row in results[one.name].rows_at(**at)]
            if open_ := sum(row[time] is None for row in rows):
                yield (
                    f"{one.title}{', live' if one.live else ''}: {open_} of {len(rows)} runs end before a "
                    "transfer is done; means leave them out."
                )

    return lambda results: list(warnings(results))


STUDY = Study(
    name="helsinki",
    title="Internet transport performance with AQM in a QoS-enabled network",
    paper="O. Riva: Analysis of Internet Transport Service Performance with Active Queue Management in a "
    "QoS-enabled Network. A talk, University of Helsinki, 2003.",
    question="On a slow last hop, does RED serve a latecomer better than Tail Drop, and how does either "
    "share the link between TCP and UDP, with one class of service and with two?",
    experiments=EXPERIMENTS,
    figures=FIGURES,
    tables=TABLES,
    claims=CLAIMS,
    decisions=DECISIONS,
    answer=answer,
    readings=READINGS,
    checks=unfinished(third, burst, throughout),
)
