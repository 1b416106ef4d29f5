"""The figures of the study `unc-web`. The talk's curves are not available as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from aqmlab.charts.chart import Chart
from aqmlab.measures import Measure
from aqmlab.metrics.response_times import chart_of_body, chart_of_tail, time_text
from aqmlab.results.labels import Value
from aqmlab.results.rule import difference, ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, all_at
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.distributions import PAIRINGS, cdf, certain_crossings, seed_by_seed
from aqmlab.studies.unc_web.experiments import (
    FULL_RATE,
    PLOTTED,
    TCPS,
    UNITS,
    adaptive_red,
    calibration,
    drop_tail,
)
from aqmlab.study.charts import Draws, line
from aqmlab.study.publication import Figure
from aqmlab.study.query import Asked, joined, law, means, query, scaled, stacked

_TIMES = [float(at) for at in measures.GRID]


def _queues(**labels: Value) -> dict[str, Variable]:
    """The distributions under a TCP, by queue, and what Adaptive RED counts in."""
    return dict(zip(cdf, all_at(tuple(cdf.values()), labels), strict=True))


def _curves(several: Mapping[str, Variable]) -> dict[str, Variable]:
    """Distributions time by time."""
    return {name: one.unrolled("time_s", _TIMES) for name, one in several.items()}


def _panel(load: Value) -> str:
    return f"{load} % load"


def _over_time(by: str, several: Mapping[str, Asked], **options: Any) -> Draws:
    return line(
        stacked(by, several).told(load=_panel),
        x="time_s",
        by=by,
        panel="load",
        x_label="Response time of a request (s)",
        log_x=True,
        x_limits=(0.005, 50.0),
        **options,
    )


def _all_loads(unit: Value, tcp: Value) -> Draws:
    return _over_time(
        "queue",
        _curves(_queues(unit=unit, tcp=tcp)),
        kind="cdf",
        y_label="Share of requests done",
        intervals=False,
    )


def _differences(unit: Value) -> Draws:
    points = {
        queue: scaled(one.among(load=PLOTTED), 100, "%")
        for queue, one in _curves(_queues(unit=unit, tcp="Reno")).items()
    }
    return _over_time(
        "pairing",
        {f"{ours} less {theirs}": difference(points[ours], points[theirs]) for ours, theirs in PAIRINGS},
        kind="curve",
        y_label="Difference in the share\nof requests done (points)",
        levels={"": 0.0},
    )


def _two(two: Mapping[str, Variable], how: Callable[..., Chart], y_label: str, **options: Any) -> Draws:
    """Two distributions at the talk's loads, with the points where they cross."""
    plotted = {name: one.among(load=PLOTTED) for name, one in two.items()}
    asked = stacked("queue", _curves(plotted)).told(load=_panel)

    def chart(results: ExperimentResults) -> Chart:
        curves = means(asked, results, "load", "queue", "time_s")
        crossings = {
            _panel(labels["load"]): {time_text(one.at_s): one.at_s for one in certain_crossings(*values)}
            for labels, values in seed_by_seed(tuple(plotted.values()), results)
        }
        drawn = how(curves.rename({"value": "share"}).drop("low", "high"), "queue", "load", "a request", {})
        return dataclasses.replace(drawn, y_label=y_label, panel_guides=crossings, **options)

    return chart


def _pair(id: str, title: str, caption: str, two: Mapping[str, Variable]) -> tuple[Figure, Figure]:
    limits = {"x_limits": (0.1, _TIMES[-1]), "y_limits": (1e-4, 1.0)}
    return (
        Figure(
            id=id,
            title=f"Response times: {title}",
            caption=f"{caption} Distribution over all seeds of the requests forward, as far as nine in ten "
            "need. A dotted line marks where the curves cross by at least a response in a hundred on either "
            "side.",
            chart=_two(two, chart_of_body, "Share of requests done"),
        ),
        Figure(
            id=f"{id}-tail",
            title=f"The slow ones: {title}",
            caption="The share of requests that take longer, of the same runs.",
            chart=_two(two, chart_of_tail, "Share of requests that take longer", **limits),
        ),
    )


def _by_load(measure: Measure, factor: float = 1, unit: str = "s", **options: Any) -> Draws:
    """A measure against the load, a panel for each unit that Adaptive RED counts in."""
    plain, red = (scaled(one[measure].at(tcp="Reno"), factor, unit) for one in (drop_tail, adaptive_red))
    both = joined(*(query(plain).tagged(queue="Drop Tail", unit=unit) for unit in UNITS), red)
    return line(
        both.told(unit=lambda unit: f"ARED in {unit}"),
        x="load",
        by="queue",
        panel="unit",
        x_label="offered load (%)",
        **options,
    )


_ENDS = [f"{round(edge / 1000, 1):g} kB" for edge in measures.SIZE_CLASSES[1:]]
_SIZES = [*(f"≤ {end}" for end in _ENDS), f"> {_ENDS[-1]}"]

FIGURES = (
    Figure(
        id="a",
        title="Offered load against new requests per second",
        caption="Measured on a line 20 times as fast, on which nothing queues; means and 95 % intervals over "
        "seeds. Most of an interval comes from the heavy tail of the response sizes.",
        chart=line(
            stacked(
                "load",
                {
                    "measured": scaled(calibration[measures.OFFERED].at(traffic="as decided"), 100, "%"),
                    "rates of the grid": law(lambda rate: 100 * rate / FULL_RATE, rate=(0, 150)),
                },
            ),
            x="rate",
            by="load",
            x_label="new requests per second in each direction",
            y_label="offered load (% of 10 Mb/s)",
            y_limits=(0.0, 130.0),
            guides={f"{FULL_RATE:g}/s for 100 %": FULL_RATE},
        ),
    ),
    *_pair(
        "b",
        "Drop Tail, Reno and SACK",
        "The two TCPs over the same queue.",
        {str(tcp): cdf["Drop Tail"].at(tcp=tcp) for tcp in TCPS},
    ),
    *(
        figure
        for letter, (ours, theirs) in zip("cde", PAIRINGS, strict=True)
        for unit in UNITS
        for figure in _pair(
            f"{letter}-{unit}",
            f"{theirs} and {ours}, ARED in {unit}",
            f"Reno; Adaptive RED counts in {unit}.",
            {queue: _queues(unit=unit, tcp="Reno")[queue] for queue in (theirs, ours)},
        )
    ),
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
            id=f"all-loads-{unit}-{str(tcp).lower()}",
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
        chart=_by_load(measures.MEDIAN),
    ),
    Figure(
        id="p95-by-load",
        title="95th percentile of the response time",
        caption="The same for the slow ones.",
        chart=_by_load(measures.P95, log_y=True),
    ),
    Figure(
        id="queue-by-load",
        title="Mean wait in the queue",
        caption="Mean time that a packet waited, forward, Reno.",
        chart=_by_load(measures.WAIT, 1000, "ms"),
    ),
    Figure(
        id="sack-by-size",
        title="Whom SACK helps",
        caption="Median response time of SACK over that of Reno under Drop Tail, by size of the response, "
        "paired by seed.",
        chart=line(
            ratio(drop_tail[measures.CLASS_MEDIANS].unrolled("size", _SIZES), tcp=("SACK", "Reno")),
            x="load",
            by="size",
            x_label="offered load (%)",
            y_label="median response time, SACK over Reno",
            levels={"": 1.0},
        ),
    ),
)
