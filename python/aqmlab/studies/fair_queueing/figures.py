"""The figures of the study `fair-queueing`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.measure import Measure
from aqmlab.plot import Chart
from aqmlab.publication import Figure
from aqmlab.rule import ratio
from aqmlab.runs import Results, Row
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.claims import highspeed_over_reno, most
from aqmlab.studies.fair_queueing.experiments import (
    BLOCKS,
    PAIRS,
    PATH_S,
    PATH_STEP_S,
    alone,
    delay,
    example,
    flow_paths,
    number,
    one,
    pair_name,
    pairs,
    pairs_fifo,
    paths,
    plot_name,
    regime_paths,
    regimes,
    scale,
    trace,
    windows,
)
from aqmlab.studies.fair_queueing.laws import PRINTED, bottlenecked_law, full_share, modulated_wait_ms
from aqmlab.studies.fair_queueing.measures import (
    LAW_NAMES,
    SHOWN_S,
    UNRESPONSIVE,
    USE_STEP_S,
    WINDOW_STEP_S,
)
from aqmlab.studies.shared import estimates
from aqmlab.study_charts import Draws, line
from aqmlab.study_query import Asked, means, stacked
from aqmlab.variable import Variable, seeds_of

Estimates = list[tuple[str, Any, stats.Interval]]

BUFFER: dict[str, Any] = {
    "x": "buffer",
    "x_label": "Buffer (packets)",
    "log_x": True,
    "x_limits": (15.0, 850.0),
}


def _exactly(value: float) -> stats.Interval:
    """A number that a law gives: no run, no interval."""
    return stats.Interval(value=value, low=float("nan"), high=float("nan"), count=0)


def tail_of(variable: Variable, results: Results, count: int, **labels: Any) -> list[stats.Interval]:
    """Of P(N >= i) as a list, the first so many with intervals over the seeds; beyond its end it is none."""
    found = [variable.value(results, labels, seed) for seed in seeds_of([variable], results)]
    lists = [one for one in found if one is not None]
    return [stats.mean_interval([one[at] if at < len(one) else 0.0 for one in lists]) for at in range(count)]


def _tails(variable: Variable, results: Results, by: str, law: Sequence[float]) -> pl.DataFrame:
    """P(N >= i) for each value of an axis beside a law, as far as that is given."""
    rows: Estimates = [
        (str(name), count, found)
        for name in variable.values_of(by, results)
        for count, found in enumerate(tail_of(variable, results, len(law), **{by: name}))
    ]
    rows += [("law", count, _exactly(chance)) for count, chance in enumerate(law)]
    return estimates(rows, by="series", x="flows")


# Against time


def _over_time(series: Sequence[tuple[str, str, Sequence[float]]], step_s: float, first_s: float) -> Any:
    """Values in equal steps of time: the panel, the line, and the values."""
    frames = [
        pl.DataFrame(
            {
                "time_s": [first_s + step * step_s for step in range(len(values))],
                "value": [float(value) for value in values],
                "line": name,
                "panel": panel,
            }
        )
        for panel, name, values in series
    ]
    return pl.concat(frames)


def _against_time(table: pl.DataFrame, y_label: str, by: str = "panel", **options: Any) -> Chart:
    """A panel for each run."""
    return Chart(
        kind="curve",
        table=table,
        x="time_s",
        y="value",
        by=by,
        panel="panel",
        x_label="Time (s)",
        y_label=y_label,
        **options,
    )


def _plots(results: Results, block: str) -> Iterator[tuple[str, Row]]:
    """The plots of a block of slides, each one run."""
    background, plots = BLOCKS[block]
    for plot in plots:
        (row,) = results[paths.name].where(plot=f"{plot_name(plot)}, {background}")
        yield plot_name(plot), row


def _windows(block: str) -> Draws:
    def chart(results: Results) -> Chart:
        series = []
        for name, row in _plots(results, block):
            found = row[measures.WINDOWS]
            alike = len({law for law, _ in found}) == 1
            series += [
                (name, f"flow {place + 1}" if alike else LAW_NAMES[law], cwnd)
                for place, (law, cwnd) in enumerate(found)
            ]
        return _against_time(
            _over_time(series, WINDOW_STEP_S, WINDOW_STEP_S),
            "Congestion window (packets)",
            by="line",
            x_limits=(0.0, float(SHOWN_S)),
            y_limits=(0.0, 1000.0),
        )

    return chart


def _use(block: str) -> Draws:
    def chart(results: Results) -> Chart:
        series = [(name, name, row[measures.USE]) for name, row in _plots(results, block)]
        return _against_time(
            _over_time(series, USE_STEP_S, USE_STEP_S),
            "Utilisation",
            x_limits=(0.0, float(SHOWN_S)),
            y_limits=(0.0, 1.02),
        )

    return chart


def _flow_paths(results: Results) -> Chart:
    series = [
        (f"load {row.labels['load']:g}", "", row[measures.IN_PROGRESS])
        for row in results[flow_paths.name].rows
    ]
    return _against_time(
        _over_time(series, PATH_STEP_S, 0.0),
        "Flows in progress",
        x_limits=(0.0, float(PATH_S)),
        y_limits=(0.0, 30.0),
    )


def _regime_paths(results: Results) -> Chart:
    series = [
        (str(row.labels["regime"]), "", row[measures.DEMAND]) for row in results[regime_paths.name].rows
    ]
    return _against_time(
        _over_time(series, PATH_STEP_S, 0.0),
        "Sum of peak rates / capacity",
        log_y=True,
        y_limits=(0.2, 500.0),
        levels={"capacity": 1.0},
    )


# The flow level


def _numbers(results: Results) -> Chart:
    frames = []
    for load in number.values("load"):
        table = _tails(
            number[measures.TAIL].at(load=load), results, "sizes", bottlenecked_law(float(load), 0.0, 31)
        )
        frames.append(table.with_columns(pl.lit(f"load {load:g}").alias("panel")))
    return Chart(
        kind="curve",
        table=pl.concat(frames),
        x="flows",
        y="value",
        by="series",
        panel="panel",
        x_label="Flows i",
        y_label="Share of the time\nwith at least i",
        log_y=True,
        y_limits=(1e-5, 1.0),
    )


def _example(results: Results) -> Chart:
    table = _tails(example[measures.TAIL], results, "background", bottlenecked_law(0.6, 0.5, 8))
    return Chart(
        kind="line",
        table=table.filter(pl.col("value") > 0),
        x="flows",
        y="value",
        by="series",
        x_label="Bottlenecked flows i",
        y_label="Share of the time with at least i",
        log_y=True,
        y_limits=(1e-6, 2.0),
        levels={"printed for i = 5": PRINTED},
    )


# Long runs


def _of_one_flow(measure: Measure, y_label: str, **options: Any) -> Draws:
    """A measure of one bottlenecked flow against the buffer, a panel for each background."""
    variable = one[measure].at(recovery="NewReno")
    return line(variable, by=("flows", "queue"), panel="background", y_label=y_label, **BUFFER, **options)


def _delays(results: Results) -> Chart:
    mean, p99 = (
        delay[one].at(recovery="NewReno", background="Poisson flows")
        for one in (measures.MEAN_DELAY, measures.P99_DELAY)
    )
    frames = []
    for name, wait in (("mean", mean), ("99th percentile", p99)):
        groups = {
            "FIFO": wait.at(flows="1 Reno", queue="FIFO"),
            "FQ": wait.at(flows="1 Reno", queue="FQ"),
            "no bottlenecked flow": wait.at(flows="none", queue="FIFO"),
        }
        table = means(stacked("queue", groups), results, "queue", "buffer")
        frames.append(table.with_columns(pl.lit(name).alias("measure")))
    return Chart(
        kind="line",
        table=pl.concat(frames),
        y="value",
        by="queue",
        panel="measure",
        y_label="Wait of the background's packets (ms)",
        log_y=True,
        **BUFFER,
    )


def _pairs(results: Results) -> Chart:
    short = {"reno": "R", "highspeed": "H", "cubic": "C", "scalable": "S", UNRESPONSIVE: "U"}
    rows: Estimates = [
        (
            queue,
            "/".join(short[law] for law in pair),
            ratio(among[measures.SECOND], among[measures.FIRST]).interval(
                results, {"pair": pair_name(pair), "recovery": "NewReno"}
            ),
        )
        for queue, among in (("FIFO", pairs_fifo), ("FQ", pairs))
        for pair in PAIRS
    ]
    return Chart(
        kind="bars",
        table=estimates(rows, by="queue", x="pair"),
        x="pair",
        y="value",
        by="queue",
        x_label="Pair",
        y_label="Rate of the second over the first's",
        log_y=True,
        y_limits=(0.3, 1000.0),
        levels={"": 1.0},
    )


def limited(load: float) -> bool:
    """Whether 1 Mb/s flows leave so much room that laws of their wait are of use."""
    return full_share(load) < 0.1


def _alone(results: Results) -> Chart:
    found = means(alone[measures.ALONE_WAIT], results, "mix", "queue", "load").drop("seeds")
    laws: Estimates = [
        (name, load, _exactly(modulated_wait_ms(float(load), periodic=periodic)))
        for name, periodic in (("modulated M/G/1", False), ("modulated periodic sources", True))
        for load in results[alone.name].axes["load"]
        if limited(float(load))
    ]
    law = estimates(laws, by="queue", x="load").select(pl.lit("1 Mb/s flows").alias("mix"), pl.all())
    return Chart(
        kind="line",
        table=pl.concat([found, law]),
        x="load",
        y="value",
        by="queue",
        panel="mix",
        x_label="Load",
        y_label="Mean wait in the queue (ms)",
        log_y=True,
    )


def _active(results: Results) -> Chart:
    shown: dict[str, Asked] = {
        "mean": scale[measures.ACTIVE],
        "99.9 %": most("active flows", scale[measures.ACTIVE_TAIL]),
    }
    table = means(stacked("measure", shown), results, "measure", "mix", "load", "scale")
    return Chart(
        kind="line",
        table=table.with_columns(pl.format("{}, load {}", "measure", "load").alias("measure")),
        x="scale",
        y="value",
        by="measure",
        panel="mix",
        x_label="Rate of the link / 50 Mb/s",
        y_label="Flows with a packet waiting",
        log_x=True,
        log_y=True,
        x_limits=(0.8, 20.0),
        y_limits=(1.0, 1000.0),
        levels={"500": 500.0},
    )


TRACE_SHOWN = 500
"""Active flows that are drawn at most."""


def _trace_tails(results: Results) -> Chart:
    tail = trace[measures.TRACE_TAIL]
    rows: Estimates = [
        (f"load {load:g}", count, more)
        for load in results[trace.name].axes["load"]
        for count, more in enumerate(tail_of(tail, results, TRACE_SHOWN + 1, load=load)[1:])
        # Nothing is drawn beyond the most that any run had.
        if more.value > 0
    ]
    return Chart(
        kind="curve",
        table=estimates(rows, by="series", x="flows"),
        x="flows",
        y="value",
        by="series",
        x_label="Active flows",
        y_label="Share of the time with more",
        log_y=True,
        y_limits=(1e-6, 1.0),
    )


TITLES = {
    "A": "One Reno flow, FIFO, three buffers",
    "B": "Reno or HighSpeed, FIFO, 100 packets",
    "C": "One Reno flow, 20 packets: FIFO and fair queueing",
    "D": "Two Reno flows, FIFO",
    "E": "Two HighSpeed flows, FIFO",
    "F": "HighSpeed beside Reno, FIFO",
    "G": "HighSpeed beside Reno: FIFO and fair queueing",
    "H": "Four Reno flows and one, FIFO, 20 packets",
    "I": "Four Reno flows and one, FIFO, 625 packets",
    "J": "Four HighSpeed flows and one, FIFO, 625 packets",
    "K": "Four HighSpeed flows, 625 packets: FIFO and fair queueing",
}

BLOCK_FIGURES = tuple(
    figure
    for block, (background, _) in BLOCKS.items()
    for figure in (
        Figure(
            id=f"{block.lower()}-windows",
            title=f"{block}. {TITLES[block]}: windows",
            caption=f"{background} of 25 Mb/s behind; NewReno, one run, from its start.",
            chart=_windows(block),
        ),
        Figure(
            id=f"{block.lower()}-utilisation",
            title=f"{block}. {TITLES[block]}: utilisation",
            caption=f"Of the same runs, in bins of {USE_STEP_S:g} s.",
            chart=_use(block),
        ),
    )
)

FIGURES = (
    Figure(
        id="flows-in-progress",
        title="Flows in progress on a link that they share fairly",
        caption="Sample paths at flow level: Poisson arrivals, exponential sizes, mean 100 kB, 50 Mb/s.",
        chart=_flow_paths,
    ),
    Figure(
        id="number-of-flows",
        title="How often at least so many flows are in progress",
        caption="Simulated with three laws of sizes, beside the geometric law; bands are 95 % intervals.",
        chart=_numbers,
    ),
    Figure(
        id="example",
        title="Background 0.5, total load 0.6: how many bottlenecked flows?",
        caption="Simulated with three readings of the background, beside ((0.6 - 0.5) / (1 - 0.5))^i. The "
        "dotted line is what the deck prints for i = 5.",
        chart=_example,
    ),
    Figure(
        id="regimes",
        title="Throughput of a flow against the load",
        caption="Over its peak rate, or the rate of the link where it has none; means and 95 % intervals.",
        chart=line(
            regimes[measures.THROUGHPUT_SHARE],
            x="load",
            by="peak",
            x_label="Load",
            y_label="Throughput of a flow / its peak rate",
            y_limits=(0.0, 1.05),
            guides={"overload": 1.0},
        ),
    ),
    Figure(
        id="regime-paths",
        title="Three regimes",
        caption="What the flows in progress could take of the link: transparent (1 Mb/s flows, load 0.5), "
        "elastic (no peak rate, 0.8), overload (no peak rate, 1.1).",
        chart=_regime_paths,
    ),
    *BLOCK_FIGURES,
    Figure(
        id="available",
        title="What one flow gets of the available capacity",
        caption="Rate on the wire over 25 Mb/s, NewReno; means and 95 % intervals.",
        chart=_of_one_flow(measures.AVAILABLE, "Rate over available capacity", y_limits=(0.0, 1.05)),
    ),
    Figure(
        id="background-loss",
        title="What the background loses to one flow",
        caption="Dropped packets of the background per packet sent, NewReno. Under fair queueing none is "
        "dropped where no line is drawn.",
        chart=_of_one_flow(measures.BACKGROUND_LOSS, "Background packets dropped", log_y=True),
    ),
    Figure(
        id="background-wait",
        title="How long packets of the background wait",
        caption="One Reno flow with NewReno recovery, or none; Poisson flows.",
        chart=_delays,
    ),
    Figure(
        id="highspeed-over-reno",
        title="HighSpeed beside Reno",
        caption="Ratio of the rates over long runs, both flows with the same recovery.",
        chart=line(
            highspeed_over_reno,
            kind="bars",
            x="buffer",
            by="queue",
            panel="recovery",
            x_label="Buffer (packets)",
            y_label="Rate of HighSpeed over Reno's",
            levels={"": 1.0},
        ),
    ),
    Figure(
        id="pairs",
        title="Any two flows",
        caption="NewReno, 625 packets. R Reno, H HighSpeed, C CUBIC, S Scalable, U unresponsive at 40 Mb/s, "
        "which in FIFO leaves the others next to nothing: those bars end at the edge, or have no end.",
        chart=_pairs,
    ),
    Figure(
        id="fairness",
        title="Four flows in the runs that the talk plots",
        caption="Jain's index of four flows from 20 s to 100 s, 625 packets; means and 95 % intervals.",
        chart=line(
            windows[measures.JAIN],
            kind="bars",
            x="flows",
            by="queue",
            panel="recovery",
            x_label="Bottlenecked flows",
            y_label="Jain's index over 80 s",
            y_limits=(0.5, 1.02),
        ),
    ),
    Figure(
        id="alone",
        title="Rate-limited flows alone",
        caption="Mean wait with a buffer of 100 packets. Streaming flows send packets of 200 B at 64 kb/s. "
        "The laws hold while peak rates leave room.",
        chart=_alone,
    ),
    Figure(
        id="active-flows",
        title="Flows with a packet waiting, as link and traffic grow together",
        caption="Fair queueing, a buffer of 625 packets times the scale; the mean, and the most in 99.9 % of "
        "the time of all runs.",
        chart=_active,
    ),
    Figure(
        id="trace",
        title="Active flows of a made-up trace like that of an OC-48 link, at slower and slower lines",
        caption="Made up with the published properties: 16 % of 2.5 Gb/s, flows from 10 kb/s to 10 Mb/s, "
        "about 7000 in progress; replayed through deficit round robin.",
        chart=_trace_tails,
    ),
)
