"""The tables of the study `unc-web`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.measures import Measure
from aqmlab.metrics.response_times import sentence
from aqmlab.results.labels import Value, said
from aqmlab.results.rule import statistic
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Along, Variable
from aqmlab.scenario import Scenario
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.claims import floors
from aqmlab.studies.unc_web.distributions import (
    LEAST,
    PAIRINGS,
    Values,
    cdf,
    certain_crossings,
    differences,
    seed_by_seed,
)
from aqmlab.studies.unc_web.experiments import (
    DROP_TAIL,
    FULL_LOAD,
    FULL_RATE,
    MEAN_PACKET,
    PLOTTED,
    RATE_MBPS,
    adaptive_red,
    calibration,
    drop_tail,
    tuning,
)
from aqmlab.studies.unc_web.measures import REVERSE
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Table
from aqmlab.study.query import Query, joined, query, scaled, stacked
from aqmlab.study.tables import Tabulates, crossed, listed

full_load = statistic(
    "connections a second that offer all of the line",
    lambda values, level: stats.inverse(stats.mean_interval(values[0], level)),
    Along(
        of=calibration[measures.OFFERED], label="rate", how="through the origin", reduce=stats.through_origin
    ),
)
"""By the line through the origin of each seed."""


def calibrated(results: ExperimentResults) -> Iterator[tuple[str, float, stats.Interval, bool]]:
    """Traffic, its rate of the grid, that rate measured, and whether its interval has that of the grid."""
    for traffic, rate in FULL_LOAD.items():
        found = full_load.interval(results, {"traffic": traffic})
        yield traffic, rate, found, found.low <= rate <= found.high


def _percent(load: Value) -> str:
    return f"{load} %"


def _configurations(of: Callable[[Experiment], Variable], *others: Experiment) -> Query:
    """A variable under Drop Tail and in other experiments: by queue, what it counts in, and further axes."""
    plain = query(of(drop_tail)).tagged(queue="Drop Tail", unit="")
    return joined(plain, *map(of, others)).told(load=_percent)


def _in_all(measure: Measure, factor: float) -> Tabulates:
    """A measure of every configuration, a column for each load."""
    return crossed(
        _configurations(lambda one: scaled(one[measure], factor, ""), adaptive_red, tuning),
        rows=("queue", "unit", "tcp"),
        columns="load",
        heads={"unit": "counts in", "tcp": "TCP"},
    )


def _both_ways(measure: Measure, factor: float) -> Query:
    def of(measure: Measure) -> Query:
        return _configurations(
            lambda one: scaled(one[measure].at(tcp="Reno").among(load=PLOTTED), factor, ""), adaptive_red
        )

    return stacked("direction", {"forward": of(measure), "reverse": of(REVERSE[measure])})


def _calibrated(results: ExperimentResults) -> pl.DataFrame:
    rows = [
        (traffic, f"{rate:g}", str(found), "yes" if still else "no")
        for traffic, rate, found, still in calibrated(results)
    ]
    schema = ["traffic", "of the grid (1/s)", "measured here (1/s)", "within the interval"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _crossings(results: ExperimentResults) -> pl.DataFrame:
    rows = [
        (_percent(at["load"]), at["tcp"], at["unit"], f"{ours} and {theirs}", *_order(values, ours, theirs))
        for ours, theirs in PAIRINGS
        for at, values in seed_by_seed((cdf[ours], cdf[theirs]), results)
    ]
    schema = ["load", "TCP", "ARED in", "pairing", "crossings", "who is ahead"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _order(values: Values, ours: str, theirs: str) -> tuple[int, str]:
    """How often two distributions cross, and in words how they lie."""
    if found := certain_crossings(*values):
        return len(found), "; ".join(sentence(one, ours, theirs) for one in found)
    mean = differences(*values).mean(axis=0)
    most, ahead = max((float(mean.max()), ours), (-float(mean.min()), theirs))
    if most < LEAST:
        return 0, "nowhere apart by a response in a hundred"
    return 0, f"{ahead}, by up to {100 * most:.1f} in a hundred"


_MET = {"holds": "they meet it", "fails": "it cannot be met", "undecided": "they may or may not meet it"}


def _floor(results: ExperimentResults) -> pl.DataFrame:
    rows = [
        (
            one.claim,
            said(one.where),
            str(one.measured),
            str(one.equal),
            str(one.band),
            _MET[stats.verdict(one.equal, one.band)],
        )
        for one in floors(results)
    ]
    schema = ["claim", "at", "measured", "equal systems", "claimed", "what equal systems make of it"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _parameters(_: ExperimentResults) -> pl.DataFrame:
    """What Adaptive RED chooses by itself on the line of 10 Mb/s."""
    rows: list[tuple[Any, ...]] = [("Drop Tail", "", DROP_TAIL["limit"], None, None, None, None)]
    for experiment in (adaptive_red, tuning):
        sweep = experiment.sweep("quick")
        for point in sweep.points():
            queue, unit, *others = point.labels.values()
            if others == ["Reno", 105]:
                rows.append((queue, unit, *_chosen(sweep.scenario_of(point))))
    schema = ["queue", "counts in", "buffer", "min_th", "max_th", "weight", "marks"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _chosen(scenario: Scenario) -> tuple[str, ...]:
    queue, chosen = scenario.given["links"]["forward"]["queue"], scenario.derived["forward"]
    ends = [
        f"{end['value']:.0f} B" if end["unit"] == "bytes" else f"{end['value']:g} packets"
        for end in (chosen["min_th"], chosen["max_th"])
    ]
    marks = "up to p_b = 0.1" if "ecn" in queue else "never"
    return (queue["limit"], *ends, f"{chosen['weight']['value']:.2e}", marks)


_PAIRS = query(drop_tail[measures.COUNT].at(tcp="Reno"))

_REALISED = stacked(
    "column",
    {
        "connections (1/s)": _PAIRS.law(lambda load: FULL_RATE * load / 100, "load"),
        "pairs measured": _PAIRS,
        "mean response (B)": drop_tail[measures.MEAN_RESPONSE].at(tcp="Reno"),
        "mean response, reverse (B)": drop_tail[REVERSE[measures.MEAN_RESPONSE]].at(tcp="Reno"),
    },
).told(load=_percent)

_NO_DATA = (
    "Share of the drops, forward: packets that open, acknowledge or close a connection. They are never "
    "marked, and in packet mode dropped as readily as data."
)
_AGAIN = "Segments sent again per 1000 responses"
_FEW = f"Responses of fewer than {measures.FEW_SEGMENTS} segments (%)"
_REPAIRED = "Share of connections that repaired several losses of one window without a time-out."

_BY_LOAD = (
    ("median", "Median response time (ms)", "Forward.", measures.MEDIAN, 1000.0),
    ("mean", "Mean response time (ms)", "Forward.", measures.MEAN, 1000.0),
    ("p95", "95th percentile of the response time (ms)", "Forward.", measures.P95, 1000.0),
    ("p99", "99th percentile of the response time (ms)", "Forward.", measures.P99, 1000.0),
    ("queue", "Mean queue (packets)", "Time average, forward.", measures.QUEUE, 1.0),
    ("wait", "Mean wait in the queue (ms)", "Of the packets sent, forward.", measures.WAIT, 1000.0),
    ("dropped", "Packets dropped (%)", "Of those that arrived, forward.", measures.DROPPED, 100.0),
    ("small-drops", "Dropped packets that carry no data (%)", _NO_DATA, measures.SMALL_DROPS, 100.0),
    ("marked", "Packets marked (%)", "Of those that arrived, forward.", measures.MARKED, 100.0),
    ("utilisation", "Time the line was busy (%)", "Forward.", measures.UTILISATION, 100.0),
    ("retransmitted", _AGAIN, "Segments of data.", measures.AGAIN_PER_1000, 1.0),
    ("timeouts", "Time-outs per 1000 responses", "Of the servers.", measures.TIMEOUTS, 1.0),
    ("unfinished", "Requests not finished at the end", "Of those measured.", measures.UNFINISHED, 1.0),
    ("several-holes", "Connections on which SACK can matter (%)", _REPAIRED, measures.SEVERAL_HOLES, 100.0),
    ("few-segments", _FEW, "By the law of sizes.", measures.FEW, 100.0),
)

TABLES = (
    Table(
        id="calibration",
        title="Connections a second that offer all of the line",
        caption="The rates of the grid, and the same measured again by this study's own runs: slope of the "
        "line through the origin, 95 % interval over seeds. HTTP/1.1 has several requests on some "
        "connections.",
        table=_calibrated,
    ),
    Table(
        id="realised",
        title="What was asked for, load by load",
        caption="Means and half their 95 % intervals over seeds. All queues and TCPs meet the same requests.",
        table=crossed(_REALISED, rows="load", columns="column"),
    ),
    Table(
        id="parameters",
        title=f"Adaptive RED's values at {RATE_MBPS} Mb/s",
        caption=f"They follow from the line and the target delay with packets taken to be {MEAN_PACKET} B "
        "(ns-2's default). In packets a 40-byte acknowledgement counts as much as a full segment.",
        table=_parameters,
    ),
    Table(
        id="crossings",
        title="Where distributions cross",
        caption="By at least a response in a hundred on either side, with certainty (95 %, paired by seed).",
        table=_crossings,
    ),
    Table(
        id="floor",
        title="How far apart equal systems are",
        caption="What W1, W2 and W6.4 measure, beside the same of equal systems: Adaptive RED six times and "
        "twice on the same traffic with other draws, and Drop Tail twice, whose hosts take up to a packet's "
        "time. For W1 equal systems count in packets.",
        table=_floor,
    ),
    *(
        Table(id=id, title=title, caption=caption, table=_in_all(measure, factor))
        for id, title, caption, measure, factor in _BY_LOAD
    ),
    Table(
        id="both-ways",
        title="Both directions",
        caption="Reno. The two directions differ in their random numbers only.",
        table=listed(
            {
                "median (ms)": _both_ways(measures.MEDIAN, 1000.0),
                "p95 (ms)": _both_ways(measures.P95, 1000.0),
                "dropped (%)": _both_ways(measures.DROPPED, 100.0),
                "line busy (%)": _both_ways(measures.UTILISATION, 100.0),
            },
            *("load", "queue", "unit", "direction"),
            heads={"unit": "counts in"},
        ),
    ),
)
