"""The figures and tables of the study `unc-web`. The talk's curves are not available as numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aqmlab import stats
from aqmlab.experiment import Experiment
from aqmlab.measure import Measure
from aqmlab.plot import Chart
from aqmlab.publication import Figure, Table
from aqmlab.response_times import Floats, chart_of_body, chart_of_tail, sentence, time_text
from aqmlab.rule import ratio
from aqmlab.runs import Results
from aqmlab.scenario import Scenario
from aqmlab.studies.shared import estimates
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.claims import (
    FLOORS,
    LEAST,
    by_size,
    cdf,
    certain_crossings,
    differences,
    lead,
    quick,
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
from aqmlab.studies.unc_web.measures import GRID, REVERSE
from aqmlab.study_charts import Draws
from aqmlab.study_query import means, scaled, shown
from aqmlab.study_tables import Tabulates
from aqmlab.sweep import said
from aqmlab.variable import Variable, seeds_of

UNITS = ("packets", "bytes")
TCPS = ("Reno", "SACK")

PAIRS = (("ARED", "Drop Tail"), ("ARED+ECN", "ARED"), ("ARED+ECN", "Drop Tail"))
"""The talk's pairings of queues, the challenger first."""


def _at(load: Any) -> str:
    """A load as panels and tables name it."""
    return f"{load} % load"


def _plotted(results: Results) -> list[Any]:
    """The loads that the talk shows, as far as there are runs."""
    return [load for load in results[drop_tail.name].axes["load"] if load in PLOTTED]


def _with(queue: str, unit: str, tcp: str = "Reno") -> Variable:
    """The distribution of response times of a configuration."""
    found = cdf[queue].at(tcp=tcp)
    return found if queue == "Drop Tail" else found.at(unit=unit)


def _values(results: Results, load: Any, *variables: Variable) -> list[list[Any]]:
    """The values of some variables at a load, seed by seed."""
    seeds = seeds_of(variables, results)
    return [[one.value(results, {"load": load}, seed) for seed in seeds] for one in variables]


# Calibration


def _slopes(results: Results, traffic: str) -> list[float]:
    """Load offered per connection a second, seed by seed: lines through the origin."""
    offered = calibration[measures.OFFERED].at(traffic=traffic)
    rates = [float(rate) for rate in offered.values_of("rate", results)]
    loads = [[offered.value(results, {"rate": rate}, seed) for rate in rates]
             for seed in seeds_of([offered], results)]  # fmt: skip
    return [stats.through_origin(rates, ours) for ours in loads if None not in ours]


def full_load(results: Results, traffic: str) -> stats.Interval:
    """Connections a second that offer all of the line."""
    return stats.inverse(stats.mean_interval(_slopes(results, traffic)))


def _calibration(results: Results) -> Chart:
    measured = means(
        scaled(calibration[measures.OFFERED].at(traffic="as decided"), 100, "%"), results, "rate"
    )
    ends = ("value", "low", "high")
    line = pl.DataFrame({"rate": [0.0, 150.0], "value": [0.0, 100 * 150.0 / FULL_RATE]})
    return Chart(
        kind="line",
        table=pl.concat(
            [
                measured.select(pl.lit("measured").alias("load"), pl.col("rate").cast(float), *ends),
                line.select(
                    pl.lit("rates of the grid").alias("load"),
                    *("rate", "value"),
                    *(pl.lit(math.nan).alias(end) for end in ends[1:]),
                ),
            ]
        ),
        x="rate",
        y="value",
        by="load",
        x_label="new requests per second in each direction",
        y_label="offered load (% of 10 Mb/s)",
        y_limits=(0.0, 130.0),
        guides={f"{FULL_RATE:g}/s for 100 %": FULL_RATE},
    )


# Distributions


def _curves(lines: Mapping[str, Variable], results: Results, loads: Sequence[Any]) -> pl.DataFrame:
    """The mean over the seeds of some distributions, a panel for each load."""
    frames = []
    for load in loads:
        for name, variable in lines.items():
            (found,) = _values(results, load, variable)
            share = np.array([one for one in found if one is not None]).mean(axis=0)
            frames.append(pl.DataFrame({"load": _at(load), "queue": name, "time_s": GRID, "share": share}))
    return pl.concat(frames)


def _pairing(
    draw: Callable[[pl.DataFrame], Chart], first: tuple[str, Variable], second: tuple[str, Variable]
) -> Draws:
    """Two distributions at the talk's loads, with the points where they cross."""

    def chart(results: Results) -> Chart:
        loads = _plotted(results)
        marks = {}
        for load in loads:
            found = certain_crossings(*_values(results, load, first[1], second[1]))
            marks[_at(load)] = {time_text(one.at_s): one.at_s for one in found}
        drawn = draw(_curves(dict((second, first)), results, loads))
        return dataclasses.replace(drawn, panel="load", panel_guides=marks)

    return chart


def _body(curves: pl.DataFrame) -> Chart:
    drawn = chart_of_body(curves, "queue", "load", "a request", {})
    return dataclasses.replace(drawn, y_label="Share of requests done")


def _tail(curves: pl.DataFrame) -> Chart:
    drawn = chart_of_tail(curves, "queue", "load", "a request", {})
    limits: dict[str, Any] = {"x_limits": (0.1, float(GRID[-1])), "y_limits": (1e-4, 1.0)}
    return dataclasses.replace(drawn, y_label="Share of requests that take longer", **limits)


def _all_loads(unit: str, tcp: str) -> Draws:
    lines = {queue: _with(queue, unit, tcp) for queue in cdf}

    def chart(results: Results) -> Chart:
        return Chart(
            kind="cdf",
            table=_curves(lines, results, results[drop_tail.name].axes["load"]),
            x="time_s",
            y="share",
            by="queue",
            panel="load",
            x_label="Response time of a request (s)",
            y_label="Share of requests done",
            log_x=True,
            x_limits=(0.005, 50.0),
        )

    return chart


def _differences(unit: str) -> Draws:
    def chart(results: Results) -> Chart:
        frames = []
        for load in _plotted(results):
            for ours, theirs in PAIRS:
                between = 100 * differences(*_values(results, load, _with(ours, unit), _with(theirs, unit)))
                found = [lead(between, place) for place in range(GRID.size)]
                frames.append(
                    pl.DataFrame(
                        {
                            "load": _at(load),
                            "pairing": f"{ours} less {theirs}",
                            "time_s": GRID,
                            **{end: [getattr(one, end) for one in found] for end in ("value", "low", "high")},
                        }
                    )
                )
        return Chart(
            kind="curve",
            table=pl.concat(frames),
            x="time_s",
            y="value",
            by="pairing",
            panel="load",
            x_label="Response time of a request (s)",
            y_label="Difference in the share\nof requests done (points)",
            log_x=True,
            x_limits=(0.005, 50.0),
            levels={"": 0.0},
        )

    return chart


# Against the load


def _by_load(measure: Measure, y_label: str, scale: float = 1.0, *, log_y: bool = False) -> Draws:
    """A measure against the load, a panel for each unit that Adaptive RED counts in."""
    tail, red = (scaled(one[measure].at(tcp="Reno"), scale, "") for one in (drop_tail, adaptive_red))

    def chart(results: Results) -> Chart:
        frames = []
        for unit in UNITS:
            plain = means(tail, results, "load").with_columns(pl.lit("Drop Tail").alias("queue"))
            both = means(red.at(unit=unit), results, "queue", "load")
            frames.append(
                pl.concat([plain.select(both.columns), both]).with_columns(
                    pl.lit(f"ARED in {unit}").alias("unit")
                )
            )
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x="load",
            y="value",
            by="queue",
            panel="unit",
            x_label="offered load (%)",
            y_label=y_label,
            log_y=log_y,
        )

    return chart


def _size_names() -> list[str]:
    ends = [f"{round(edge / 1000, 1):g} kB" for edge in measures.SIZE_CLASSES[1:]]
    return [*(f"≤ {end}" for end in ends), f"> {ends[-1]}"]


def _sack_by_size(results: Results) -> Chart:
    rows = []
    for place, name in enumerate(_size_names()):
        compared = ratio(by_size(place), tcp=("SACK", "Reno"))
        rows += [(name, load, compared.interval(results, {"load": load}))
                 for load in results[drop_tail.name].axes["load"]]  # fmt: skip
    return Chart(
        kind="line",
        table=estimates(rows, by="size", x="load"),
        x="load",
        y="value",
        by="size",
        x_label="offered load (%)",
        y_label="median response time, SACK over Reno",
        levels={"": 1.0},
    )


def _pair_figures() -> Iterator[Figure]:
    reno, sack = (cdf["Drop Tail"].at(tcp=tcp) for tcp in TCPS)
    chosen: list[tuple[str, str, str, tuple[str, Variable], tuple[str, Variable]]] = [
        ("b", "Drop Tail, Reno and SACK", "The two TCPs over the same queue.", ("SACK", sack), ("Reno", reno))
    ]
    for letter, (ours, theirs) in zip("cde", PAIRS, strict=True):
        for unit in UNITS:
            chosen.append(
                (
                    f"{letter}-{unit}",
                    f"{theirs} and {ours}, ARED in {unit}",
                    f"Reno; Adaptive RED counts in {unit}.",
                    (ours, _with(ours, unit)),
                    (theirs, _with(theirs, unit)),
                )
            )
    for id, title, caption, first, second in chosen:
        yield Figure(
            id=id,
            title=f"Response times: {title}",
            caption=f"{caption} Distribution over all seeds of the requests forward, as far as nine in ten "
            "need. A dotted line marks where the curves cross by at least a response in a hundred on either "
            "side.",
            chart=_pairing(_body, first, second),
        )
        yield Figure(
            id=f"{id}-tail",
            title=f"The slow ones: {title}",
            caption="The share of requests that take longer, of the same runs.",
            chart=_pairing(_tail, first, second),
        )


FIGURES = (
    Figure(
        id="a",
        title="Offered load against new requests per second",
        caption="Measured on a line 20 times as fast, on which nothing queues; means and 95 % intervals over "
        "seeds. Most of an interval comes from the heavy tail of the response sizes.",
        chart=_calibration,
    ),
    *_pair_figures(),
    *(
        Figure(
            id=f"difference-{unit}",
            title=f"Who is ahead when, ARED in {unit}",
            caption="Difference of the distribution functions in percentage points with its 95 % interval, "
            "paired by seed; above zero the first named has served more requests within that time.",
            chart=_differences(unit),
        )
        for unit in UNITS
    ),
    *(
        Figure(
            id=f"all-loads-{unit}-{tcp.lower()}",
            title=f"Response times at all loads: {tcp}, ARED in {unit}",
            caption="Means over the seeds of the distribution functions of the requests forward.",
            chart=_all_loads(unit, tcp),
        )
        for unit in UNITS
        for tcp in TCPS
    ),
    Figure(
        id="median-by-load",
        title="Median response time",
        caption="Reno, forward; 95 % intervals over the seeds, which share the heavy tail between queues.",
        chart=_by_load(measures.MEDIAN, "median response time (s)"),
    ),
    Figure(
        id="p95-by-load",
        title="95th percentile of the response time",
        caption="The same for the slow ones.",
        chart=_by_load(measures.P95, "95th percentile of the response time (s)", log_y=True),
    ),
    Figure(
        id="queue-by-load",
        title="Mean wait in the queue",
        caption="Mean time that a packet waited, forward, Reno.",
        chart=_by_load(measures.WAIT, "mean wait in the queue (ms)", 1000.0),
    ),
    Figure(
        id="sack-by-size",
        title="Whom SACK helps",
        caption="Median response time of SACK over that of Reno under Drop Tail, by size of the response, "
        "paired by seed.",
        chart=_sack_by_size,
    ),
)

# Tables


def _calibrated(results: Results) -> pl.DataFrame:
    rows = []
    for traffic, rate in FULL_LOAD.items():
        found = full_load(results, traffic)
        rows.append((traffic, f"{rate:g}", str(found), "yes" if found.low <= rate <= found.high else "no"))
    schema = ["traffic", "of the grid (1/s)", "measured here (1/s)", "within the interval"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _realised(results: Results) -> pl.DataFrame:
    told = {
        "pairs measured": measures.COUNT,
        "mean response (B)": measures.MEAN_RESPONSE,
        "mean response, reverse (B)": REVERSE[measures.MEAN_RESPONSE],
    }
    rows = [
        {"load": f"{load} %", "connections (1/s)": f"{FULL_RATE * float(load) / 100:.1f}"}
        | {
            title: shown(drop_tail[measure].at(tcp="Reno"), results, {"load": load})
            for title, measure in told.items()
        }
        for load in results[drop_tail.name].axes["load"]
    ]
    return pl.DataFrame(rows)


def _configurations(measure: Measure) -> Iterator[tuple[str, str, str, Variable]]:
    """A measure of every configuration: queue, what it counts in, TCP."""
    for tcp in TCPS:
        yield "Drop Tail", "", tcp, drop_tail[measure].at(tcp=tcp)
    for experiment in (adaptive_red, tuning):
        axes = [experiment.values(label) for label in ("unit", "queue", "tcp")]
        for unit, queue, with_tcp in itertools.product(*axes):
            found = experiment[measure].at(queue=queue, unit=unit, tcp=with_tcp)
            yield str(queue), str(unit), str(with_tcp), found


def _loads(measure: Measure, scale: float) -> Tabulates:
    """A measure of every configuration, a column for each load."""

    def table(results: Results) -> pl.DataFrame:
        loads = results[drop_tail.name].axes["load"]
        rows = []
        for queue, unit, tcp, variable in _configurations(measure):
            known = variable.values_of("load", results)
            told = scaled(variable, scale, "")
            rows.append(
                (
                    queue,
                    unit,
                    tcp,
                    *(shown(told, results, {"load": at}) if at in known else None for at in loads),
                )
            )
        schema = ["queue", "counts in", "TCP", *(f"{load} %" for load in loads)]
        return pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)

    return table


def _crossings(results: Results) -> pl.DataFrame:
    rows = []
    for load in results[drop_tail.name].axes["load"]:
        for tcp in TCPS:
            for unit in UNITS:
                for ours, theirs in PAIRS:
                    values = _values(results, load, _with(ours, unit, tcp), _with(theirs, unit, tcp))
                    rows.append(
                        (f"{load} %", tcp, unit, f"{ours} and {theirs}", *_order(values, ours, theirs))
                    )
    schema = ["load", "TCP", "ARED in", "pairing", "crossings", "who is ahead"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _order(values: Sequence[Sequence[Any]], ours: str, theirs: str) -> tuple[int, str]:
    """How two distributions lie, in words."""
    found, between = certain_crossings(*values), differences(*values)
    first, second = _most(between), _most(-between)
    if found:
        told = "; ".join(sentence(one, ours, theirs) for one in found)
    elif max(first, second) < LEAST:
        told = "nowhere apart by a response in a hundred"
    else:
        ahead, by = (ours, first) if first > second else (theirs, second)
        told = f"{ahead}, by up to {100 * by:.1f} in a hundred"
    return len(found), told


def _most(difference: Floats) -> float:
    return lead(difference, quick(difference)).value


def _floor(results: Results) -> pl.DataFrame:
    rows = [
        (
            floor.claim,
            said(labels),
            str(measured),
            str(alike),
            f"at most {floor.most:g}",
            _met(floor.most, alike),
        )
        for floor in FLOORS
        for labels, measured, alike in floor.found(results)
    ]
    schema = ["claim", "at", "measured", "equal systems", "claimed", "what equal systems make of it"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _met(most: float, alike: stats.Interval) -> str:
    verdict = stats.verdict(alike, stats.at_most(most))
    return {"holds": "they meet it", "fails": "it cannot be met", "undecided": "they may or may not meet it"}[
        verdict
    ]


def _parameters(_: Results) -> pl.DataFrame:
    """What Adaptive RED chooses by itself on the line of 10 Mb/s."""
    rows: list[tuple[str | None, ...]] = [("Drop Tail", "", DROP_TAIL["limit"], None, None, None, None)]
    for experiment in (adaptive_red, tuning):
        sweep = experiment.sweep("quick")
        seen = set()
        for point in sweep.points():
            name = (str(point.labels["queue"]), str(point.labels["unit"]))
            if name not in seen:
                seen.add(name)
                rows.append((*name, *_chosen(sweep.scenario_of(point))))
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


def _both_ways(results: Results) -> pl.DataFrame:
    told = {
        "median (ms)": (measures.MEDIAN, 1000.0),
        "p95 (ms)": (measures.P95, 1000.0),
        "dropped (%)": (measures.DROPPED, 100.0),
        "line busy (%)": (measures.UTILISATION, 100.0),
    }
    queues: list[tuple[Experiment, dict[str, str], str, str]] = [(drop_tail, {}, "Drop Tail", "")]
    queues += [(adaptive_red, {"queue": queue, "unit": unit}, queue, unit)
               for unit in UNITS for queue in ("ARED", "ARED+ECN")]  # fmt: skip
    rows = []
    for load in _plotted(results):
        for experiment, labels, queue, unit in queues:
            for way in measures.WAYS:
                row = {"load": f"{load} %", "queue": queue, "counts in": unit, "direction": way}
                for title, (measure, scale) in told.items():
                    found = measure if way == "forward" else REVERSE[measure]
                    variable = scaled(experiment[found].at(**labels, tcp="Reno"), scale, "")
                    row[title] = shown(variable, results, {"load": load})
                rows.append(row)
    return pl.DataFrame(rows)


_NO_DATA = (
    "Share of the drops, forward: packets that open, acknowledge or close a connection. They are never "
    "marked, and in packet mode dropped as readily as data."
)
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
    (
        "retransmitted",
        "Segments sent again per 1000 responses",
        "Segments of data.",
        measures.AGAIN_PER_1000,
        1.0,
    ),
    ("timeouts", "Time-outs per 1000 responses", "Of the servers.", measures.TIMEOUTS, 1.0),
    ("unfinished", "Requests not finished at the end", "Of those measured.", measures.UNFINISHED, 1.0),
    ("several-holes", "Connections on which SACK can matter (%)", _REPAIRED, measures.SEVERAL_HOLES, 100.0),
    (
        "few-segments",
        f"Responses of fewer than {measures.FEW_SEGMENTS} segments (%)",
        "By the law of sizes.",
        measures.FEW,
        100.0,
    ),
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
        table=_realised,
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
        caption="What W1, W2 and W6.3 measure, beside the same of equal systems: Adaptive RED six times and "
        "twice on the same traffic with other draws, and Drop Tail twice, whose hosts take up to a packet's "
        "time. For W1 equal systems count in packets.",
        table=_floor,
    ),
    *(
        Table(id=id, title=title, caption=caption, table=_loads(measure, scale))
        for id, title, caption, measure, scale in _BY_LOAD
    ),
    Table(
        id="both-ways",
        title="Both directions",
        caption="Reno. The two directions differ in their random numbers only.",
        table=_both_ways,
    ),
)
