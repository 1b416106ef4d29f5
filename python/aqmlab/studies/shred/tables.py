"""The tables of the study `shred`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aqmlab.measures import Measure
from aqmlab.results.rule import ratio
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.shred import measures
from aqmlab.studies.shred.claims import RED_TO_DROP_TAIL, SHRED_TO_RED, mixed
from aqmlab.studies.shred.experiments import (
    DURATION_S,
    WARM_UP_S,
    ftp_only,
    hint_on_pi,
    sizes,
    web_mixed,
    web_only,
)
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Table
from aqmlab.study.query import Query, joined, scaled, stacked
from aqmlab.study.tables import Tabulates, crossed, listed, overview

_OVERVIEW = (
    *(measures.MEAN_TIME, measures.MEDIAN, measures.P90, measures.P99, measures.SLOWDOWN),
    *(measures.DROP_PERCENT, measures.SHORT_TIMEOUTS, measures.MEAN_ACTIVE, measures.UNFINISHED),
    *(measures.UTILISATION, measures.QUEUE_DELAY, measures.FTP_GOODPUT),
)


def _overview(experiment: Any, wanted: Sequence[Measure] = _OVERVIEW, **labels: float) -> Tabulates:
    return overview([experiment[measure].at(**labels) for measure in wanted], by="queue")


_PAIRS = {"SHRED/RED": SHRED_TO_RED, "RED/Drop Tail": RED_TO_DROP_TAIL}


def _compared(one: Variable) -> Query:
    return stacked("pair", {name: ratio(one, queue=pair) for name, pair in _PAIRS.items()})


_READINGS = joined(
    _compared(mixed).told(load=lambda load: f"{100 * load:.0f} % Web load").renamed(load="reading"),
    _compared(web_mixed[measures.MEDIAN].averaged("load")).tagged(reading="all loads: medians"),
    _compared(web_mixed[measures.SLOWDOWN].averaged("load")).tagged(
        reading="all loads: mean of each object's time over its ideal time"
    ),
)
"""What SH-4 compares, load by load, and under other readings of "normalised"."""


def _offered(experiment: Experiment) -> Mapping[str, Variable]:
    """The load of the Web traffic as it came."""

    def fact(name: str, factor: float = 1.0) -> Variable:
        return per_seed(name, lambda facts: round(facts[name] * factor, 2), experiment[measures.FACTS])

    measured_s = DURATION_S - WARM_UP_S
    return {
        "realised on the wire (%)": fact("realised_load", 100.0),
        "realised, payload (%)": experiment[measures.PAYLOAD_LOAD],
        "mean object (B)": fact("mean_object_bytes"),
        "objects per second": scaled(experiment[measures.COUNT], 1 / measured_s, "1/s"),
    }


_LOADS = joined(
    stacked("column", {head: one.at(queue="RED") for head, one in _offered(web_only).items()}).tagged(
        load=100.0, runs="web-only"
    ),
    stacked("column", {head: one.at(queue="RED") for head, one in _offered(web_mixed).items()})
    .told(load=lambda load: 100 * load)
    .tagged(runs="web-mixed"),
)

TABLES = (
    Table(
        id="table-1-goodput",
        title="Table 1. FTP-only goodput (Mb/s)",
        caption="Mean ± half of the 95 % interval.",
        table=crossed(
            ftp_only[measures.FTP_ALONE], rows="flows", columns="queue", heads={"flows": "FTP flows"}
        ),
    ),
    Table(
        id="table-2-jain",
        title="Table 2. FTP-only Jain's fairness index",
        caption="Mean ± half of the 95 % interval.",
        table=crossed(ftp_only[measures.JAIN], rows="flows", columns="queue", heads={"flows": "FTP flows"}),
    ),
    Table(
        id="overview-web-only",
        title="Web only, 100 % load",
        caption="A short flow has at most 10 kB. Unfinished objects count in the distributions as what is "
        "known of them, but not in means and quantiles.",
        table=_overview(web_only, _OVERVIEW[:-1]),
    ),
    Table(
        id="overview-web-mixed",
        title="Web 70 % + 10 FTP flows",
        caption="As above.",
        table=_overview(web_mixed, load=0.7),
    ),
    Table(
        id="hint-on-pi-overview",
        title="The hint on PI: Web 70 % + 10 FTP flows",
        caption="As above, over 140 s after 100 s in which PI finds its probability.",
        table=_overview(hint_on_pi),
    ),
    Table(
        id="readings",
        title="SH-4, load by load and under other readings",
        caption="Ratios of times with 95 % intervals, paired by seed; the talk says 0.96 and 0.92. The "
        "ideal time of an object is what slow start alone needs. At one load the common divisor of "
        "normalised times cancels.",
        table=crossed(_READINGS, rows="reading", columns="pair", tell=str),
    ),
    Table(
        id="loads",
        title="Offered load",
        caption="Load is in bytes on the wire of first transmissions, connection set-up and the padding of "
        "last segments included; payload alone is less. Sizes have so heavy a tail that a run of 160 s "
        "misses its nominal load by some percent; all queues meet the same arrivals.",
        table=crossed(_LOADS, rows=("runs", "load"), columns="column", heads={"load": "nominal load (%)"}),
    ),
    Table(
        id="sizes",
        title="Readings of the law of sizes, at 100 % Web load",
        caption="The talk gives a mean of 10 kB, a minimum of 12 B and a maximum of 2 MB, and 140 active "
        "flows. Sizes above the maximum may be cut or drawn again, and the mean may be that of the sizes in "
        "use or that before the cut. Load is the same under all of them.",
        table=listed({**_offered(sizes), "open transfers under RED": sizes[measures.MEAN_ACTIVE]}, "sizes"),
    ),
)
