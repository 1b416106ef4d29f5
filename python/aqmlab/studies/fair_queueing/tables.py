"""The tables of the study `fair-queueing`."""

from __future__ import annotations

import math

import polars as pl

from aqmlab.flow_level import regime, throughput_law
from aqmlab.measure import Measure
from aqmlab.metrics import bits_per_second
from aqmlab.publication import Table
from aqmlab.runs import Results
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.claims import beside, highspeed_over_reno
from aqmlab.studies.fair_queueing.experiments import (
    BUFFERS,
    PEAKS,
    QUEUES,
    RECOVERY,
    alone,
    baseline,
    delay,
    example,
    number,
    one,
    orders,
    pairs,
    pairs_fifo,
    regimes,
    scale,
    several,
    steady,
    trace,
)
from aqmlab.studies.fair_queueing.figures import limited, tail_of
from aqmlab.studies.fair_queueing.laws import RATE_MBPS, bottlenecked_law, modulated_wait_ms
from aqmlab.study_query import Asked, interval_of, scaled, shown
from aqmlab.study_tables import Tabulates, listed
from aqmlab.variable import per_seed


def _everywhere(measure: Measure, factor: float = 1.0) -> Tabulates:
    """A measure of every case, a column for each queue and buffer."""

    def table(results: Results) -> pl.DataFrame:
        frames = []
        for experiment, rows in (
            (baseline, ("background",)),
            (one, ("flows", "background", "recovery")),
            (several, ("flows", "recovery")),
        ):
            variable = scaled(experiment[measure], factor, "")
            columns = {
                f"{queue} {size}": variable.at(queue=queue, buffer=size)
                for queue in QUEUES
                for size in BUFFERS
                if size in experiment.values("buffer")
            }
            frames.append(listed(columns, *rows)(results))
        found = pl.concat(frames, how="diagonal_relaxed").with_columns(
            pl.col("flows").fill_null("none"), pl.col("background").fill_null("Poisson packets")
        )
        return found.select("flows", "background", "recovery", *(f"{q} {b}" for q in QUEUES for b in BUFFERS))

    return table


def _delays(results: Results) -> pl.DataFrame:
    columns = {
        f"{queue}, {name}": delay[measure].at(queue=queue)
        for queue in QUEUES
        for name, measure in (("mean (ms)", measures.MEAN_DELAY), ("99 % (ms)", measures.P99_DELAY))
    }
    table = listed(columns, "background", "flows", "recovery", "buffer")(results)
    # Without a bottlenecked flow nobody recovers.
    return table.filter((pl.col("flows") != "none") | (pl.col("recovery") == "NewReno"))


def _example(results: Results) -> pl.DataFrame:
    law = bottlenecked_law(0.6, 0.5, 7)
    rows = [("formula", *(f"{chance:.5f}" for chance in law[1:]))]
    for name in example.values("background"):
        found = tail_of(example[measures.TAIL], results, 7, background=name)
        rows.append((str(name), *(f"{one.value:.5f} ± {one.half_width:.5f}" for one in found[1:])))
    return pl.DataFrame(rows, schema=["background", *(f"i = {i}" for i in range(1, 7))], orient="row")


def _regimes(results: Results) -> pl.DataFrame:
    rows = []
    for peak, rate in PEAKS.items():
        share = bits_per_second(rate) / (1e6 * RATE_MBPS) if rate else math.inf
        for load in regimes.values("load"):
            at = {"peak": peak, "load": load}
            full = interval_of(regimes[measures.SATURATED], results, at).value
            law = throughput_law(float(load), share) * RATE_MBPS
            throughput = shown(regimes[measures.THROUGHPUT], results, at)
            word = regime(float(load), full / 100)
            rows.append((peak, f"{load:g}", word, f"{full:.2f}", throughput, f"{law:.3f}"))
    schema = ["peak rate", "load", "regime", "time full (%)", "throughput (Mb/s)", "law (Mb/s)"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _alone(results: Results) -> pl.DataFrame:
    columns: dict[str, Asked] = {}
    for queue in QUEUES:
        columns[f"{queue} wait (ms)"] = alone[measures.ALONE_WAIT].at(queue=queue)
        columns[f"{queue} lost (%)"] = scaled(alone[measures.LOSS].at(queue=queue), 100.0, "%")
    table = listed(columns, "mix", "load")(results)
    laws = {
        head: [
            f"{modulated_wait_ms(load, periodic=periodic):.3f}"
            if mix == "1 Mb/s flows" and limited(load)
            else None
            for mix, load in table.select("mix", "load").iter_rows()
        ]
        for head, periodic in (("M/G/1 (ms)", False), ("periodic (ms)", True))
    }
    return table.with_columns(pl.Series(head, values) for head, values in laws.items())


_MEAN = "Mean ± half of the 95 % interval over seeds; a column for each queue and buffer (packets)."

TABLES = (
    Table(
        id="available-capacity",
        title="Rate of the bottlenecked flows over the available 25 Mb/s",
        caption=_MEAN,
        table=_everywhere(measures.AVAILABLE),
    ),
    Table(
        id="jain",
        title="Jain's index of the bottlenecked flows",
        caption=_MEAN,
        table=_everywhere(measures.JAIN),
    ),
    Table(
        id="lost",
        title="Packets of the background lost (%)",
        caption=_MEAN,
        table=_everywhere(measures.BACKGROUND_LOSS, 100.0),
    ),
    Table(
        id="utilisation",
        title="Utilisation of the line (%)",
        caption=_MEAN,
        table=_everywhere(measures.UTILISATION),
    ),
    Table(
        id="timeouts",
        title="Time-outs of the bottlenecked flows",
        caption=f"In 500 s. {_MEAN}",
        table=_everywhere(measures.TIMEOUTS),
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
        table=listed(
            {
                "rate over available capacity": steady[measures.AVAILABLE],
                "Jain's index": steady[measures.JAIN],
                "share of the background lost": steady[measures.BACKGROUND_LOSS],
                "utilisation (%)": steady[measures.UTILISATION],
            },
            "plot",
        ),
    ),
    Table(
        id="background-delay",
        title="How long packets of the background wait",
        caption="In the queue, over 60 s; `none` is the baseline without a bottlenecked flow.",
        table=_delays,
    ),
    Table(
        id="schedulers",
        title="Four orders of service in the blocks with fair queueing",
        caption="NewReno. All drop the oldest packet of the longest queue.",
        table=listed(
            {
                "rate over available capacity": orders[measures.AVAILABLE].at(recovery="NewReno"),
                "Jain's index": orders[measures.JAIN].at(recovery="NewReno"),
                "share of the background lost": orders[measures.BACKGROUND_LOSS].at(recovery="NewReno"),
                "mean wait, all packets (ms)": orders[measures.WAIT].at(recovery="NewReno"),
            },
            *("case", "queue"),
        ),
    ),
    Table(
        id="any-two",
        title="Any two flows, 625 packets",
        caption="Rates of the first and the second on the wire (Mb/s). 12.5 Mb/s is an even share.",
        table=listed(
            {
                f"{queue}, {recovery}, {which}": experiment[measure].at(recovery=recovery)
                for queue, experiment, recoveries in (
                    ("FIFO", pairs_fifo, ("NewReno",)),
                    ("FQ", pairs, tuple(RECOVERY)),
                )
                for recovery in recoveries
                for which, measure in (("first", measures.FIRST), ("second", measures.SECOND))
            },
            "pair",
        ),
    ),
    Table(
        id="number",
        title="Flows in progress on a fluid link",
        caption="Also over the geometric law, which knows no sizes.",
        table=listed(
            {
                "mean": number[measures.MEAN],
                "over the law's": number[measures.MEAN_OVER_LAW],
                "P(N = 0)": per_seed("P(N = 0)", lambda tail: 1 - tail[1], number[measures.TAIL]),
                "P(N >= 5)": number[measures.FIVE],
                "P(N >= 5) over the law's": number[measures.FIVE_OVER_LAW],
                "P(N >= 100)": number[measures.HUNDRED],
            },
            *("load", "sizes"),
        ),
    ),
    Table(
        id="five-flows",
        title="P(N >= i) with background 0.5 and total load 0.6",
        caption="The formula is ((0.6 - 0.5) / (1 - 0.5))^i; for i = 5 the deck prints 0.003.",
        table=_example,
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
        table=_alone,
    ),
    Table(
        id="scale",
        title="Active flows, as link and traffic grow together",
        caption="Sampled every 10 ms under fair queueing; a buffer of 625 packets times the scale. The "
        "99.9 % and the most are means over seeds of those of single runs.",
        table=listed({one.title: scale[one] for one in measures.SCALE[:-2]}, "mix", "load", "scale"),
    ),
    Table(
        id="trace-loads",
        title="Active flows of a made-up trace like that of an OC-48 link",
        caption="Made-up traces of 60 s through deficit round robin; the load is that of the line they are "
        "replayed at. The most and the 99.9 % are means over seeds.",
        table=listed({one.title: trace[one] for one in measures.TRACE[:-1]}, "load"),
    ),
)
