"""The figures of the study `fair-queueing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.rule import ratio
from aqmlab.results.table import Row
from aqmlab.results.variable import Measured, Variable, per_seed
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.blocks import BLOCKS, Block
from aqmlab.studies.fair_queueing.claims import highspeed_over_reno, most
from aqmlab.studies.fair_queueing.experiments import (
    alone,
    delay,
    one,
    pairs,
    pairs_fifo,
    paths,
    scale,
    windows,
)
from aqmlab.studies.fair_queueing.flow_experiments import (
    NUMBER_LOADS,
    PATH_S,
    PATH_STEP_S,
    example,
    flow_paths,
    number,
    regime_paths,
    regimes,
    trace,
)
from aqmlab.studies.fair_queueing.laws import PRINTED, bottlenecked_law, full_share, modulated_wait_ms
from aqmlab.studies.fair_queueing.measures import LAW_NAMES, SHOWN_S, USE_STEP_S, WINDOW_STEP_S
from aqmlab.study.charts import Draws, line
from aqmlab.study.publication import Figure
from aqmlab.study.query import Asked, Query, joined, law, of_runs, query, stacked

NAMED_LOAD = "load {:g}".format

BUFFER: dict[str, Any] = {
    "x": "buffer",
    "x_label": "Buffer (packets)",
    "log_x": True,
    "x_limits": (15.0, 850.0),
}

# Against time


def _over_time(series: Measured, step_s: float, until_s: float, first: int = 0) -> Variable:
    """Values in equal steps of time."""
    return series.unrolled("time_s", [step * step_s for step in range(first, round(until_s / step_s) + 1)])


def _sample_paths(series: Measured, panel: str, named: Callable[[Any], str] = str, **options: Any) -> Draws:
    """The flow level: a panel for each run."""
    path = query(_over_time(series, PATH_STEP_S, PATH_S)).told(**{panel: named})
    return line(path, kind="curve", x="time_s", by=panel, panel=panel, x_label="Time (s)", **options)


def _windows(row: Row) -> Iterator[tuple[Labels, float]]:
    """The windows of bottlenecked flows, which are told apart by their law where these differ."""
    found = row[measures.WINDOWS]
    alike = len({name for name, _ in found}) == 1
    for place, (name, window) in enumerate(found, 1):
        for step, packets in enumerate(window, 1):
            flow = f"flow {place}" if alike else LAW_NAMES[name]
            yield {"flow": flow, "time_s": step * WINDOW_STEP_S}, packets


def _of_block(block: Block, by: str, ask: Callable[[str], Asked], most: float, y_label: str) -> Draws:
    """What is asked of each plot of a block, side by side."""
    return line(
        stacked("plot", {plot.short: ask(plot.name) for plot in block.plots}),
        kind="curve",
        x="time_s",
        by=by,
        panel="plot",
        x_label="Time (s)",
        y_label=y_label,
        x_limits=(0.0, float(SHOWN_S)),
        y_limits=(0.0, most),
    )


def _of_blocks() -> Iterator[Figure]:
    def windows(plot: str) -> Query:
        return of_runs(paths, _windows, "flow", "time_s", plot=plot)

    def use(plot: str) -> Variable:
        return _over_time(paths[measures.USE].at(plot=plot), USE_STEP_S, SHOWN_S, first=1)

    for name, block in BLOCKS.items():
        yield Figure(
            id=f"{name.lower()}-windows",
            title=f"{name}. {block.title}: windows",
            caption=f"{block.background} of 25 Mb/s behind; NewReno, one run, from its start.",
            chart=_of_block(block, "flow", windows, 1000.0, "Congestion window (packets)"),
        )
        yield Figure(
            id=f"{name.lower()}-utilisation",
            title=f"{name}. {block.title}: utilisation",
            caption=f"Of the same runs, in bins of {USE_STEP_S:g} s.",
            chart=_of_block(block, "plot", use, 1.02, "Utilisation"),
        )


# Laws


_LIMITED = query(alone[measures.ALONE_WAIT].at(mix="1 Mb/s flows", queue="FIFO")).where(
    lambda load: full_share(load) < 0.1, "load"
)
"""Where 1 Mb/s flows leave so much room that laws of their wait are of use."""

WAIT_LAWS = stacked(
    "queue",
    {
        name: _LIMITED.law(partial(modulated_wait_ms, periodic=periodic), "load")
        for name, periodic in (("modulated M/G/1", False), ("modulated periodic sources", True))
    },
).tagged(mix="1 Mb/s flows")

EXAMPLE = joined(
    example[measures.TAIL].unrolled("flows", range(8)),
    law(lambda flows: bottlenecked_law(flows, 0.6, 0.5), flows=range(8)).tagged(background="law"),
)
"""P(N >= i) of bottlenecked flows."""

NUMBER = joined(
    number[measures.TAIL].unrolled("flows", range(31)),
    law(bottlenecked_law, flows=range(31), load=NUMBER_LOADS).tagged(sizes="law"),
)

# Long runs


def _of_one_flow(measure: Measure, y_label: str, **options: Any) -> Draws:
    """A measure of one bottlenecked flow against the buffer, a panel for each background."""
    variable = one[measure].at(recovery="NewReno")
    return line(variable, by=("flows", "queue"), panel="background", y_label=y_label, **BUFFER, **options)


def _waits(measure: Measure) -> Query:
    """Of the background's packets, beside one Reno flow or none."""
    wait = delay[measure].at(recovery="NewReno", background="Poisson flows")
    undisturbed = query(wait.at(flows="none", queue="FIFO"))
    return joined(wait.at(flows="1 Reno"), undisturbed.tagged(queue="no bottlenecked flow"))


_SECOND_OVER_FIRST = stacked(
    "queue",
    {
        queue: ratio(among[measures.SECOND], among[measures.FIRST]).at(recovery="NewReno")
        for queue, among in (("FIFO", pairs_fifo), ("FQ", pairs))
    },
)

TRACE_SHOWN = 500
"""Active flows that are drawn at most."""

_MORE = per_seed(
    "share of the time with more",
    lambda at_least: [*at_least[1:], *[0.0] * TRACE_SHOWN],
    trace[measures.TRACE_TAIL],
).unrolled("flows", range(TRACE_SHOWN))

FIGURES = (
    Figure(
        id="flows-in-progress",
        title="Flows in progress on a link that they share fairly",
        caption="Sample paths at flow level: Poisson arrivals, exponential sizes, mean 100 kB, 50 Mb/s.",
        chart=_sample_paths(
            flow_paths[measures.IN_PROGRESS],
            "load",
            NAMED_LOAD,
            y_label="Flows in progress",
            x_limits=(0.0, float(PATH_S)),
            y_limits=(0.0, 30.0),
        ),
    ),
    Figure(
        id="number-of-flows",
        title="How often at least so many flows are in progress",
        caption="Simulated with three laws of sizes, beside the geometric law; bands are 95 % intervals.",
        chart=line(
            NUMBER.told(load=NAMED_LOAD),
            kind="curve",
            x="flows",
            by="sizes",
            panel="load",
            x_label="Flows i",
            y_label="Share of the time\nwith at least i",
            log_y=True,
            y_limits=(1e-5, 1.0),
        ),
    ),
    Figure(
        id="example",
        title="Background 0.5, total load 0.6: how many bottlenecked flows?",
        caption="Simulated with three readings of the background, beside ((0.6 - 0.5) / (1 - 0.5))^i. The "
        "dotted line is what the deck prints for i = 5.",
        chart=line(
            EXAMPLE,
            x="flows",
            by="background",
            x_label="Bottlenecked flows i",
            y_label="Share of the time with at least i",
            log_y=True,
            y_limits=(1e-6, 2.0),
            levels={"printed for i = 5": PRINTED},
        ),
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
        chart=_sample_paths(
            regime_paths[measures.DEMAND],
            "regime",
            y_label="Sum of peak rates / capacity",
            log_y=True,
            y_limits=(0.2, 500.0),
            levels={"capacity": 1.0},
        ),
    ),
    *_of_blocks(),
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
        chart=line(
            stacked(
                "measure",
                {"mean": _waits(measures.MEAN_DELAY), "99th percentile": _waits(measures.P99_DELAY)},
            ),
            by="queue",
            panel="measure",
            y_label="Wait of the background's packets (ms)",
            log_y=True,
            **BUFFER,
        ),
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
        chart=line(
            _SECOND_OVER_FIRST.told(
                pair=lambda names: "/".join(name[0].upper() for name in names.split(" / "))
            ),
            kind="bars",
            x="pair",
            by="queue",
            x_label="Pair",
            y_label="Rate of the second over the first's",
            log_y=True,
            y_limits=(0.3, 1000.0),
            levels={"": 1.0},
        ),
    ),
    Figure(
        id="fairness",
        title="Four flows in the runs that the talk plots",
        caption="Jain's index of four flows from 20 s to 100 s, 625 packets; means and 95 % intervals.",
        chart=line(
            windows[measures.JAIN].among(flows=("4 Reno", "4 HighSpeed")),
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
        chart=line(
            joined(alone[measures.ALONE_WAIT], WAIT_LAWS),
            x="load",
            by="queue",
            panel="mix",
            x_label="Load",
            y_label="Mean wait in the queue (ms)",
            log_y=True,
        ),
    ),
    Figure(
        id="active-flows",
        title="Flows with a packet waiting, as link and traffic grow together",
        caption="Fair queueing, a buffer of 625 packets times the scale; the mean, and the most in 99.9 % of "
        "the time of all runs.",
        chart=line(
            stacked(
                "measure",
                {"mean": scale[measures.ACTIVE], "99.9 %": most("active flows", scale[measures.ACTIVE_TAIL])},
            ).told(load=NAMED_LOAD),
            x="scale",
            by=("measure", "load"),
            panel="mix",
            x_label="Rate of the link / 50 Mb/s",
            y_label="Flows with a packet waiting",
            log_x=True,
            log_y=True,
            x_limits=(0.8, 20.0),
            y_limits=(1.0, 1000.0),
            levels={"500": 500.0},
        ),
    ),
    Figure(
        id="trace",
        title="Active flows of a made-up trace like that of an OC-48 link, at slower and slower lines",
        caption="Made up with the published properties: 16 % of 2.5 Gb/s, flows from 10 kb/s to 10 Mb/s, "
        "about 7000 in progress; replayed through deficit round robin.",
        chart=line(
            query(_MORE).told(load=NAMED_LOAD),
            kind="curve",
            x="flows",
            by="load",
            x_label="Active flows",
            y_label="Share of the time with more",
            log_y=True,
            y_limits=(1e-6, 1.0),
        ),
    ),
)
