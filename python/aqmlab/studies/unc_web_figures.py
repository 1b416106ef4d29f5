"""The figures and tables of the study `unc-web`: from the reductions of its runs to what is drawn."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from aqmlab import stats
from aqmlab.grid import Labels, Results, Runs
from aqmlab.plot import Chart
from aqmlab.publication import Figure, Table
from aqmlab.response_times import (
    Crossing,
    Floats,
    chart_of_body,
    chart_of_tail,
    crossings,
    sentence,
    time_text,
    zero_between,
)
from aqmlab.scenario import Scenario
from aqmlab.studies.shared import estimates, means, shown
from aqmlab.studies.unc_web_runs import (
    DISCIPLINES,
    DROP_TAIL,
    FEW_SEGMENTS,
    FULL_LOAD,
    GRID,
    MEAN_PACKET,
    PLOTTED,
    QUEUES,
    QUICK_PAIRS,
    SIZE_CLASSES,
    TCPS,
    TUNED,
    UNITS,
    named,
    scenario,
)

LEAST = 0.01
"""A difference of two distribution functions that counts: one response in a hundred."""

# From runs to curves


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Two configurations whose distributions are held against each other at one load."""

    first: Floats
    second: Floats
    """A row for each replication, pairs by seed, and a column for each value of the grid."""

    @property
    def difference(self) -> Floats:
        """How much larger a share of the first one's responses has arrived."""
        return self.first - self.second

    @property
    def apart(self) -> list[float]:
        """The largest distance of the two functions, pair by pair."""
        return [float(one) for one in np.abs(self.difference).max(axis=1)]

    @property
    def behind(self) -> list[float]:
        """By how much the first one is behind where it is so most, pair by pair."""
        return [float(one) for one in (-self.difference).max(axis=1)]

    @property
    def quick(self) -> int:
        """The place in the grid where the first one leads most, on average."""
        return int(self.difference.mean(axis=0).argmax())

    @property
    def slow(self) -> int:
        """The place beyond it where the second one leads most, on average."""
        return self.quick + int(self.difference.mean(axis=0)[self.quick :].argmin())

    def lead(self, place: int) -> stats.Interval:
        """The first one's lead at a place of the grid."""
        return stats.mean_interval(self.difference[:, place].tolist())

    def behind_at(self, place: int) -> stats.Interval:
        """The second one's lead at a place of the grid."""
        return stats.mean_interval((-self.difference[:, place]).tolist())

    @property
    def crossings(self) -> list[Crossing]:
        """Where the two cross, each by at least a response in a hundred."""
        return crossings(self.first, self.second, GRID, least=LEAST)

    @property
    def crossing_times(self) -> list[float]:
        """When the two cross between `quick` and `slow`, pair by pair; NaN of a pair that does not."""
        places = slice(self.quick, self.slow + 1)
        return [
            zero_between(GRID[places], one) if one[0] > 0 > one[-1] else math.nan
            for one in self.difference[:, places]
        ]


def pairing(runs: Runs, load: int, first: Labels, second: Labels) -> Pairing:
    """The distributions of two configurations over the seeds that both have."""
    found = [
        {row.seed: row.values["cdf"] for row in runs.where(load=load, **labels).rows}
        for labels in (first, second)
    ]
    seeds = sorted(found[0].keys() & found[1].keys())
    if not seeds:
        raise ValueError(f"no runs in common at {at(load)}")
    rows = [np.array([one[seed] for seed in seeds]).reshape(len(seeds), GRID.size) for one in found]
    return Pairing(first=rows[0], second=rows[1])


def queue(name: str, tcp: str = "Reno") -> dict[str, str]:
    """The labels of a configuration."""
    return {"queue": name, "tcp": tcp}


def plotted(runs: Runs) -> list[int]:
    """The loads that the talk shows, as far as there are runs."""
    return [load for load in runs.axis("load") if load in PLOTTED]


PAIRS: tuple[tuple[str, str], ...] = (
    ("ARED", DROP_TAIL),
    ("ARED+ECN", "ARED"),
    ("ARED+ECN", DROP_TAIL),
)
"""The talk's pairings of queues, the challenger first."""


def slopes(runs: Runs) -> list[float]:
    """Load offered per connection a second, seed by seed: lines through the origin."""
    rates = runs.axis("rate")
    loads = [runs.where(rate=rate).values("load", runs.seeds()) for rate in rates]
    return [stats.through_origin(rates, list(ours)) for ours in zip(*loads, strict=True)]


def full_load(runs: Runs) -> stats.Interval:
    """Connections a second that offer all of the line."""
    return stats.inverse(stats.mean_interval([one for one in slopes(runs) if not math.isnan(one)]))


# Figures


def _calibration(results: Results) -> Chart:
    runs = results["calibration"].where(traffic="as decided")
    measured = means(runs, "load", by="traffic", x="rate", scale=100.0)
    full = FULL_LOAD["as decided"]
    line = pl.DataFrame({"rate": [0.0, 150.0], "value": [0.0, 100 * 150.0 / full]})
    return Chart(
        kind="line",
        table=pl.concat(
            [
                measured.select(pl.lit("measured").alias("load"), pl.col("rate").cast(float), *_ENDS),
                line.select(pl.lit("rates of the grid").alias("load"), "rate", "value", *_NO_ENDS),
            ]
        ),
        x="rate",
        y="value",
        by="load",
        x_label="new requests per second in each direction",
        y_label="offered load (% of 10 Mb/s)",
        y_limits=(0.0, 130.0),
        guides={f"{full:g}/s for 100 %": full},
    )


_ENDS = ("value", "low", "high")
_NO_ENDS = tuple(pl.lit(math.nan).alias(end) for end in _ENDS[1:])


def mean_curves(runs: Runs, loads: Sequence[int], lines: Mapping[str, Labels]) -> pl.DataFrame:
    """The mean over the seeds of the distributions of some configurations, a panel for each load."""
    frames = []
    for load in loads:
        for name, labels in lines.items():
            found = [row.values["cdf"] for row in runs.where(load=load, **labels).rows]
            if found:
                share = np.array(found).mean(axis=0)
                frames.append(pl.DataFrame({"load": at(load), "queue": name, "time_s": GRID, "share": share}))
    return pl.concat(frames)


def at(load: int) -> str:
    """A load as panels and tables name it."""
    return f"{load} % load"


Drawer = Callable[..., Chart]


def _distributions(
    draw: Drawer, first: tuple[str, Labels], second: tuple[str, Labels]
) -> Callable[[Results], Chart]:
    """Body or tail of two distributions at the talk's loads, with the points where they cross."""

    def chart(results: Results) -> Chart:
        runs = results["web"]
        lines = dict((second, first))
        marks = {
            at(load): {
                time_text(one.at_s): one.at_s for one in pairing(runs, load, first[1], second[1]).crossings
            }
            for load in plotted(runs)
        }
        curves = mean_curves(runs, plotted(runs), lines)
        drawn = draw(curves, "queue", "a request", {})
        return dataclasses.replace(drawn, panel="load", panel_guides=marks)

    return chart


def _body(curves: pl.DataFrame, by: str, what: str, guides: Mapping[str, float]) -> Chart:
    drawn = chart_of_body(curves, by, "load", what, guides)
    return dataclasses.replace(drawn, y_label="Share of requests done")


def _tail(curves: pl.DataFrame, by: str, what: str, guides: Mapping[str, float]) -> Chart:
    drawn = chart_of_tail(curves, by, "load", what, guides)
    limits: dict[str, Any] = {"x_limits": (0.1, float(GRID[-1])), "y_limits": (1e-4, 1.0)}
    return dataclasses.replace(drawn, y_label="Share of requests that take longer", **limits)


def _all_loads(unit: str, tcp: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        runs = results["web"]
        lines = {name: queue(named(name, unit), tcp) for name in (DROP_TAIL, "ARED", "ARED+ECN")}
        return Chart(
            kind="cdf",
            table=mean_curves(runs, runs.axis("load"), lines),
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


def _differences(unit: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        frames = []
        for load in plotted(results["web"]):
            for ours, theirs in PAIRS:
                pair = pairing(results["web"], load, queue(named(ours, unit)), queue(named(theirs, unit)))
                found = [pair.lead(place) for place in range(GRID.size)]
                frames.append(
                    pl.DataFrame(
                        {
                            "load": at(load),
                            "pairing": f"{ours} less {theirs}",
                            "time_s": GRID,
                            "value": [100 * one.value for one in found],
                            "low": [100 * one.low for one in found],
                            "high": [100 * one.high for one in found],
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


def _by_load(
    metric: str, y_label: str, scale: float = 1.0, *, log_y: bool = False
) -> Callable[[Results], Chart]:
    """A measure against the load, a panel for each unit that Adaptive RED counts in."""

    def chart(results: Results) -> Chart:
        runs = results["web"].where(tcp="Reno")
        frames = []
        for unit in UNITS:
            for name in (DROP_TAIL, "ARED", "ARED+ECN"):
                table = means(runs.where(queue=named(name, unit)), metric, by="queue", x="load", scale=scale)
                frames.append(
                    table.with_columns(pl.lit(name).alias("queue"), pl.lit(f"ARED in {unit}").alias("unit"))
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
    ends = [f"{round(edge / 1000, 1):g} kB" for edge in SIZE_CLASSES[1:]]
    return [*(f"≤ {end}" for end in ends), f"> {ends[-1]}"]


def _sack_by_size(results: Results) -> Chart:
    runs = results["web"].where(queue=DROP_TAIL)
    rows = []
    for place, name in enumerate(_size_names()):
        for load in runs.axis("load"):
            both = [
                {row.seed: row.values["class_median_s"][place] for row in runs.where(load=load, tcp=tcp).rows}
                for tcp in ("SACK", "Reno")
            ]
            pairs = [
                [math.nan if one.get(seed) is None else one[seed] for seed in runs.seeds()] for one in both
            ]
            rows.append((name, float(load), stats.paired_ratio(pairs[0], pairs[1])))
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


def _pair_figures() -> list[Figure]:
    reno, sack = ("Reno", queue(DROP_TAIL)), ("SACK", queue(DROP_TAIL, "SACK"))
    chosen = [("b", "", "Drop Tail, Reno and SACK", "The two TCPs over the same queue.", sack, reno)]
    for letter, (ours, theirs) in zip("cde", PAIRS, strict=True):
        for unit in UNITS:
            chosen.append(
                (
                    letter,
                    f"-{unit}",
                    f"{theirs} and {ours}, ARED in {unit}",
                    f"Reno; Adaptive RED counts in {unit}.",
                    (ours, queue(named(ours, unit))),
                    (theirs, queue(named(theirs, unit))),
                )
            )
    figures = []
    for letter, ending, title, caption, first, second in chosen:
        figures += [
            Figure(
                id=f"{letter}{ending}",
                title=f"Response times: {title}",
                caption=f"{caption} Distribution over all seeds of the requests forward, as far as nine in "
                "ten need. A dotted line marks where the curves cross by at least a response in a "
                "hundred on either side.",
                chart=_distributions(_body, first, second),
            ),
            Figure(
                id=f"{letter}{ending}-tail",
                title=f"The slow ones: {title}",
                caption="The share of requests that take longer, of the same runs.",
                chart=_distributions(_tail, first, second),
            ),
        ]
    return figures


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
        chart=_by_load("median_s", "median response time (s)"),
    ),
    Figure(
        id="p95-by-load",
        title="95th percentile of the response time",
        caption="The same for the slow ones.",
        chart=_by_load("p95_s", "95th percentile of the response time (s)", log_y=True),
    ),
    Figure(
        id="queue-by-load",
        title="Mean wait in the queue",
        caption="Mean time that a packet waited, forward, Reno.",
        chart=_by_load("queue_delay_s", "mean wait in the queue (ms)", 1000.0),
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
        found = full_load(results["calibration"].where(traffic=traffic))
        rows.append((traffic, f"{rate:g}", str(found), "yes" if found.low <= rate <= found.high else "no"))
    schema = ["traffic", "of the grid (1/s)", "measured here (1/s)", "within the interval"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _realised(results: Results) -> pl.DataFrame:
    runs = results["web"].where(tcp="Reno", queue=DROP_TAIL)
    rows = []
    for load in runs.axis("load"):
        ours = runs.where(load=load)
        both = [shown(ours, f"{way}mean_response_bytes", 0) for way in ("", "reverse_")]
        rows.append(
            (f"{load} %", f"{FULL_LOAD['as decided'] * load / 100:.1f}", shown(ours, "count", 0), *both)
        )
    schema = [
        "load",
        "connections (1/s)",
        "pairs measured",
        "mean response (B)",
        "mean response, reverse (B)",
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _configurations(results: Results) -> list[tuple[str, str, Runs]]:
    web, tuning = results["web"], results["tuning"]
    main = [(name, tcp, web.where(queue=name, tcp=tcp)) for name in QUEUES for tcp in TCPS]
    return main + [(name, "Reno", tuning.where(queue=name)) for name in TUNED]


def _loads(metric: str, digits: int, scale: float = 1.0) -> Callable[[Results], pl.DataFrame]:
    """A measure of every configuration, a column for each load."""

    def table(results: Results) -> pl.DataFrame:
        loads = results["web"].axis("load")
        rows = [
            (name, tcp, *(_cell(runs.where(load=load), metric, digits, scale) for load in loads))
            for name, tcp, runs in _configurations(results)
        ]
        return pl.DataFrame(rows, schema=["queue", "TCP", *(f"{load} %" for load in loads)], orient="row")

    return table


def _cell(runs: Runs, metric: str, digits: int, scale: float) -> str | None:
    return shown(runs, metric, digits, scale) if runs.rows else None


def _crossing_table(results: Results) -> pl.DataFrame:
    runs = results["web"]
    rows = []
    for load in runs.axis("load"):
        for tcp in TCPS:
            for unit in UNITS:
                for ours, theirs in PAIRS:
                    pair = pairing(runs, load, queue(named(ours, unit), tcp), queue(named(theirs, unit), tcp))
                    rows.append((f"{load} %", tcp, unit, *_order(pair, ours, theirs)))
    schema = ["load", "TCP", "ARED in", "pairing", "crossings", "who is ahead"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _order(pair: Pairing, ours: str, theirs: str) -> tuple[str, int, str]:
    """How two distributions lie, in words."""
    found = pair.crossings
    first, second = pair.lead(pair.quick), pair.behind_at(int(pair.difference.mean(axis=0).argmin()))
    if found:
        said = "; ".join(sentence(one, ours, theirs) for one in found)
    elif max(first.value, second.value) < LEAST:
        said = "nowhere apart by a response in a hundred"
    else:
        ahead, by = (ours, first.value) if first.value > second.value else (theirs, second.value)
        said = f"{ahead}, by up to {100 * by:.1f} in a hundred"
    return f"{ours} and {theirs}", len(found), said


def _parameters(_: Results) -> pl.DataFrame:
    """What Adaptive RED chooses by itself on the line of 10 Mb/s."""
    rows = []
    for name, table in DISCIPLINES.items():
        web = Scenario.from_dict(scenario(queue=name, tcp="Reno", load=100, pairs=QUICK_PAIRS))
        chosen = web.derived.get("forward")
        if chosen is None:
            rows.append((name, table["limit"], None, None, None, None))
            continue
        ends = [
            f"{end['value']:.0f} B" if end["unit"] == "bytes" else f"{end['value']:g} packets"
            for end in (chosen["min_th"], chosen["max_th"])
        ]
        weight = f"{chosen['weight']['value']:.2e}"
        marks = "up to p_b = 0.1" if "ecn" in table else "never"
        rows.append((name, table["limit"], *ends, weight, marks))
    schema = ["queue", "buffer", "min_th", "max_th", "weight", "marks"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _both_ways(results: Results) -> pl.DataFrame:
    rows = []
    for load in plotted(results["web"]):
        for name in QUEUES:
            runs = results["web"].where(queue=name, tcp="Reno", load=load)
            for way, prefix in (("forward", ""), ("reverse", "reverse_")):
                cells = [
                    shown(runs, f"{prefix}{metric}", digits, scale)
                    for metric, digits, scale in (
                        ("median_s", 0, 1000.0),
                        ("p95_s", 0, 1000.0),
                        ("drop_fraction", 2, 100.0),
                        ("utilisation", 1, 100.0),
                    )
                ]
                rows.append((f"{load} %", name, way, *cells))
    schema = ["load", "queue", "direction", "median (ms)", "p95 (ms)", "dropped (%)", "line busy (%)"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _measure(id: str, title: str, caption: str, metric: str, digits: int, scale: float = 1.0) -> Table:
    return Table(id=id, title=title, caption=caption, table=_loads(metric, digits, scale))


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
        title="Adaptive RED's values at 10 Mb/s",
        caption=f"They follow from the line and the target delay with packets taken to be {MEAN_PACKET} B "
        "(ns-2's default). In packets a 40-byte acknowledgement counts as much as a full segment.",
        table=_parameters,
    ),
    Table(
        id="crossings",
        title="Where distributions cross",
        caption="By at least a response in a hundred on either side, with certainty (95 %, paired by seed).",
        table=_crossing_table,
    ),
    _measure("median", "Median response time (ms)", "Forward.", "median_s", 0, 1000.0),
    _measure("mean", "Mean response time (ms)", "Forward.", "mean_s", 0, 1000.0),
    _measure("p95", "95th percentile of the response time (ms)", "Forward.", "p95_s", 0, 1000.0),
    _measure("p99", "99th percentile of the response time (ms)", "Forward.", "p99_s", 0, 1000.0),
    _measure("queue", "Mean queue (packets)", "Time average, forward.", "mean_queue", 1),
    _measure(
        "wait", "Mean wait in the queue (ms)", "Of the packets sent, forward.", "queue_delay_s", 1, 1000.0
    ),
    _measure("dropped", "Packets dropped (%)", "Of those that arrived, forward.", "drop_fraction", 2, 100.0),
    _measure(
        "small-drops",
        "Dropped packets that carry no data (%)",
        "Share of the drops, forward: packets that open, acknowledge or close a connection. They are never "
        "marked, and in packet mode dropped as readily as data.",
        "small_drops",
        1,
        100.0,
    ),
    _measure("marked", "Packets marked (%)", "Of those that arrived, forward.", "mark_fraction", 2, 100.0),
    _measure("utilisation", "Time the line was busy (%)", "Forward.", "utilisation", 1, 100.0),
    _measure(
        "retransmitted",
        "Segments sent again per 1000 responses",
        "Segments of data.",
        "retransmitted_per_1000",
        0,
    ),
    _measure("timeouts", "Time-outs per 1000 responses", "Of the servers.", "timeouts_per_1000", 0),
    _measure("unfinished", "Requests not finished at the end", "Of those measured.", "unfinished", 0),
    _measure(
        "several-holes",
        "Connections on which SACK can matter (%)",
        "Share of connections that repaired several losses of one window without a time-out.",
        "several_holes_share",
        2,
        100.0,
    ),
    _measure(
        "few-segments",
        f"Responses of fewer than {FEW_SEGMENTS} segments (%)",
        "By the law of sizes.",
        "few_segments_share",
        1,
        100.0,
    ),
    Table(
        id="both-ways",
        title="Both directions",
        caption="Reno. The two directions differ in their random numbers only.",
        table=_both_ways,
    ),
)
