"""The tables of the study `fair-queueing`."""

from __future__ import annotations

import math

import polars as pl

from aqmlab.flow_level import regime, throughput_law
from aqmlab.measures import Measure
from aqmlab.metrics import bits_per_second
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import per_seed
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.claims import beside, highspeed_over_reno
from aqmlab.studies.fair_queueing.experiments import (
    alone,
    baseline,
    delay,
    one,
    orders,
    pairs,
    pairs_fifo,
    scale,
    several,
    steady,
)
from aqmlab.studies.fair_queueing.figures import EXAMPLE, WAIT_LAWS
from aqmlab.studies.fair_queueing.flow_experiments import PEAKS, number, regimes, trace
from aqmlab.studies.fair_queueing.laws import RATE_MBPS
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Table
from aqmlab.study.query import Query, joined, means, query, scaled, stacked
from aqmlab.study.tables import crossed, listed


def _everywhere(id: str, title: str, measure: Measure, *, factor: float = 1.0, note: str = "") -> Table:
    """A measure of every case, a column for each queue and buffer."""
    without, with_one, with_several = (
        query(scaled(experiment[measure], factor, "")) for experiment in (baseline, one, several)
    )
    cases = joined(
        without.tagged(flows="none", recovery=""), with_one, with_several.tagged(background="Poisson packets")
    )
    return Table(
        id=id,
        title=title,
        caption=f"{note}Mean ± half of the 95 % interval over seeds; a column for each queue and buffer "
        "(packets).",
        table=crossed(cases, rows=("flows", "background", "recovery"), columns=("queue", "buffer")),
    )


def _regimes(results: ExperimentResults) -> pl.DataFrame:
    def throughput_mbps(peak: str, load: float) -> float:
        rate = PEAKS[peak]
        share = bits_per_second(rate) / (1e6 * RATE_MBPS) if rate else math.inf
        return throughput_law(load, share) * RATE_MBPS

    full, throughput = regimes[measures.SATURATED], regimes[measures.THROUGHPUT]
    law = query(throughput).law(throughput_mbps, "peak", "load")
    table = listed(
        {"time full (%)": full, "throughput (Mb/s)": throughput, "law (Mb/s)": law},
        *("peak", "load"),
        heads={"peak": "peak rate"},
    )(results)
    shares = means(full, results, "peak", "load").select("load", pl.col("value") / 100)
    return table.insert_column(2, pl.Series("regime", [regime(*one) for one in shares.iter_rows()]))


def _rates(experiment: Experiment) -> Query:
    return stacked("flow", {"first": experiment[measures.FIRST], "second": experiment[measures.SECOND]})


_GAINED = (measures.AVAILABLE, measures.JAIN, measures.BACKGROUND_LOSS)

TABLES = (
    _everywhere(
        "available-capacity", "Rate of the bottlenecked flows over the available 25 Mb/s", measures.AVAILABLE
    ),
    _everywhere("jain", "Jain's index of the bottlenecked flows", measures.JAIN),
    _everywhere("lost", "Packets of the background lost (%)", measures.BACKGROUND_LOSS, factor=100.0),
    _everywhere("utilisation", "Utilisation of the line (%)", measures.UTILISATION),
    _everywhere(
        "timeouts",
        "Time-outs of the bottlenecked flows",
        measures.TIMEOUTS,
        note="In 500 s, in the quick form 80 s. ",
    ),
    Table(
        id="highspeed-and-reno",
        title="HighSpeed beside Reno",
        caption="Rates on the wire, and their ratio.",
        table=listed(
            {
                "HighSpeed (Mb/s)": several[measures.HIGHSPEED].at(**beside),
                "Reno (Mb/s)": several[measures.RENO].at(**beside),
                "ratio": highspeed_over_reno,
            },
            *("recovery", "buffer", "queue"),
        ),
    ),
    Table(
        id="steady",
        title="The talk's plots, over 1000 s",
        caption="NewReno, from 20 s on, twice as long as the runs of the claims.",
        table=listed([steady[one] for one in (*_GAINED, measures.UTILISATION)], "plot"),
    ),
    Table(
        id="background-delay",
        title="How long packets of the background wait",
        caption="In the queue, over 60 s; `none` is the baseline without a bottlenecked flow.",
        table=crossed(
            stacked(
                "measure",
                {"mean (ms)": delay[measures.MEAN_DELAY], "99 % (ms)": delay[measures.P99_DELAY]},
                # Without a bottlenecked flow nobody recovers.
            ).where(lambda flows, recovery: flows != "none" or recovery == "NewReno", "flows", "recovery"),
            rows=("background", "flows", "recovery", "buffer"),
            columns=("queue", "measure"),
        ),
    ),
    Table(
        id="schedulers",
        title="Four orders of service in the blocks with fair queueing",
        caption="NewReno. All drop the oldest packet of the longest queue.",
        table=listed(
            [orders[one].at(recovery="NewReno") for one in (*_GAINED, measures.WAIT)], *("case", "queue")
        ),
    ),
    Table(
        id="any-two",
        title="Any two flows, 625 packets",
        caption="Rates of the first and the second on the wire (Mb/s). 12.5 Mb/s is an even share.",
        table=crossed(
            stacked("queue", {"FIFO": _rates(pairs_fifo), "FQ": _rates(pairs)}),
            rows="pair",
            columns=("queue", "recovery", "flow"),
        ),
    ),
    Table(
        id="number",
        title="Flows in progress on a fluid link",
        caption="Also over the geometric law, which knows no sizes.",
        table=listed(
            [
                *(number[measures.MEAN], number[measures.MEAN_OVER_LAW]),
                per_seed("P(N = 0)", lambda tail: 1 - tail[1], number[measures.TAIL]),
                *(number[one] for one in (measures.FIVE, measures.FIVE_OVER_LAW, measures.HUNDRED)),
            ],
            *("load", "sizes"),
        ),
    ),
    Table(
        id="five-flows",
        title="P(N >= i) with background 0.5 and total load 0.6",
        caption="The formula is ((0.6 - 0.5) / (1 - 0.5))^i; for i = 5 the deck prints 0.003.",
        table=crossed(
            EXAMPLE.where(lambda flows: 1 <= flows <= 6, "flows").told(
                flows="i = {}".format, background=lambda name: "formula" if name == "law" else name
            ),
            rows="background",
            columns="flows",
        ),
    ),
    Table(
        id="regime",
        title="Regimes",
        caption="Transparent: peak rates add up to the capacity in less than 1 % of the time.",
        table=_regimes,
    ),
    Table(
        id="rate-limited",
        title="Rate-limited flows alone, 100 packets of buffer",
        caption="Wait of all packets; the laws of 1 Mb/s flows, while their number leaves room.",
        table=crossed(
            joined(
                stacked(
                    "measure",
                    {
                        "wait (ms)": alone[measures.ALONE_WAIT],
                        "lost (%)": scaled(alone[measures.LOSS], 100.0, "%"),
                    },
                ),
                WAIT_LAWS.tagged(measure="(ms)"),
            ),
            rows=("mix", "load"),
            columns=("queue", "measure"),
        ),
    ),
    Table(
        id="scale",
        title="Active flows, as link and traffic grow together",
        caption="Sampled every 10 ms under fair queueing; a buffer of 625 packets times the scale. The "
        "99.9 % and the most are means over seeds of those of single runs.",
        table=listed([scale[one] for one in measures.SCALE[:-2]], "mix", "load", "scale"),
    ),
    Table(
        id="trace-loads",
        title="Active flows of a made-up trace like that of an OC-48 link",
        caption="Made-up traces of 60 s through deficit round robin; the load is that of the line they are "
        "replayed at. The most and the 99.9 % are means over seeds.",
        table=listed([trace[one] for one in measures.TRACE[:-1]], "load"),
    ),
)
