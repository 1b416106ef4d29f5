"""The figures of the study `fair-queueing`, and the theory that stands beside its runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from aqmlab import stats
from aqmlab.flow_level import relative_load
from aqmlab.grid import Reduction, Results, Runs
from aqmlab.metrics import bits_per_second
from aqmlab.plot import Chart
from aqmlab.publication import Figure
from aqmlab.studies.fair_queueing_runs import (
    BLOCKS,
    MIXES,
    MOST_ACTIVE_COUNTED,
    PACKET_S,
    PAIRS,
    PATH_S,
    PATH_STEP_S,
    PEAKS,
    RATE_MBPS,
    RECOVERIES,
    SCALE_MIXES,
    SHOWN_S,
    UNRESPONSIVE,
    USE_STEP_S,
    WINDOW_STEP_S,
)
from aqmlab.studies.shared import estimates, means

QUEUES = ("FIFO", "FQ")
NAMES = {
    "newreno": "NewReno",
    "reno": "Reno",
    "sack": "SACK",
}
LAW_NAMES = {
    "reno": "Reno",
    "highspeed": "HighSpeed",
    "cubic": "CUBIC",
    "scalable": "Scalable",
    UNRESPONSIVE: "unresponsive",
}
BACKGROUND_NAMES = {"flows": "Poisson flows", "packets": "Poisson packets"}

PRINTED = 0.003
"""P(N >= 5) in the deck's example."""


# Theory


def bottlenecked_law(load: float, background: float, count: int) -> list[float]:
    """P(N >= i) beside a background: the geometric law of what the background leaves."""
    relative = relative_load(load, background)
    return [float(relative**number) for number in range(count)]


MOST_SOURCES = round(RATE_MBPS)
"""Flows of 1 Mb/s that fill the link."""


def full_share(load: float) -> float:
    """How often flows of 1 Mb/s, Poisson in number, could fill the link."""
    mean = load * RATE_MBPS
    return 1 - math.fsum(_poisson(mean, number) for number in range(MOST_SOURCES))


def modulated_wait_ms(load: float, *, periodic: bool) -> float:
    """The mean wait of a packet where flows of 1 Mb/s come and go and their number moves slowly.

    Of each number of flows below that which fills the link, the wait of a packet: of M/G/1 with equal
    packets (Pollaczek and Khinchine), or of as many periodic sources (J. Roberts and J. Virtamo, "The
    Superposition of Periodic Cell Arrival Streams in an ATM Multiplexer", 1991); averaged over packets.
    """
    mean = load * RATE_MBPS
    numbers = range(1, MOST_SOURCES)
    weights = [number * _poisson(mean, number) for number in numbers]
    waits = [periodic_wait(number, MOST_SOURCES) if periodic else _md1_wait(number) for number in numbers]
    total = math.fsum(a * b for a, b in zip(weights, waits, strict=True))
    return 1000 * PACKET_S * total / math.fsum(weights)


def _poisson(mean: float, number: int) -> float:
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))


def _md1_wait(flows: int) -> float:
    load = flows / MOST_SOURCES
    return load / (2 * (1 - load))


@lru_cache(maxsize=256)
def periodic_wait(sources: int, period: int) -> float:
    """The mean wait, in services, of a packet of one of so many periodic sources with random phases that
    send once in so many services (fewer sources than services)."""
    others = sources - 1
    step = 0.05
    levels = np.arange(0.0, others + step, step)
    above = np.zeros(levels.size)
    for number in range(1, others + 1):
        below = levels < number
        left = number - levels[below]
        share = left / period
        chance = math.comb(others, number) * share**number * (1 - share) ** (others - number)
        above[below] += chance * (period - others + levels[below]) / (period - left)
    return float(np.trapezoid(above, levels)) if others else 0.0


# Charts: the flow level


def _against_time(
    table: pl.DataFrame, y: str, y_label: str, *, panel: str, by: str | None = None, **more: Any
) -> Chart:
    """A value over the time, a panel for each run."""
    return Chart(
        kind="curve",
        table=table,
        x="time_s",
        y=y,
        by=by or panel,
        panel=panel,
        x_label="Time (s)",
        y_label=y_label,
        **more,
    )


def _flow_paths(results: Results) -> Chart:
    runs = results["flow-paths"]
    frames = []
    for load in runs.axis("load"):
        (row,) = runs.where(load=load).rows
        flows = row.values["flows"]
        frames.append(
            pl.DataFrame({"time_s": _times(flows, PATH_STEP_S), "flows": flows, "load": f"load {load:g}"})
        )
    limits: dict[str, Any] = {"x_limits": (0.0, float(PATH_S)), "y_limits": (0.0, 30.0)}
    return _against_time(pl.concat(frames), "flows", "Flows in progress", panel="load", **limits)


def _times(values: Sequence[float], step_s: float) -> list[float]:
    return [place * step_s for place in range(len(values))]


def tail_estimates(runs: Runs, count: int) -> list[stats.Interval]:
    """P(N >= i) for i from 0 on, with intervals over the seeds."""
    return [stats.mean_interval([row.values["tail"][number] for row in runs.rows]) for number in range(count)]


def _tails(groups: Sequence[tuple[str, Runs]], law: Sequence[float], panel: str) -> pl.DataFrame:
    """P(N >= i) of some runs beside a law, as far as that is given."""
    rows = [
        (name, number, interval)
        for name, runs in groups
        for number, interval in enumerate(tail_estimates(runs, len(law)))
    ]
    rows += [("law", number, exactly(chance)) for number, chance in enumerate(law)]
    return estimates(rows, by="series", x="flows").with_columns(pl.lit(panel).alias("panel"))


def exactly(value: float) -> stats.Interval:
    """A number that a law gives: no run, no interval."""
    return stats.Interval(value=value, low=math.nan, high=math.nan, count=0)


def _numbers(results: Results) -> Chart:
    runs = results["number"]
    frames = []
    for load in runs.axis("load"):
        ours = runs.where(load=load)
        groups = [(f"{sizes} sizes", ours.where(sizes=sizes)) for sizes in runs.axis("sizes")]
        frames.append(_tails(groups, bottlenecked_law(load, 0.0, 31), f"load {load:g}"))
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
    runs = results["example"]
    groups = [
        (name.replace(", at most", "").replace(",", ""), runs.where(background=name))
        for name in runs.axis("background")
    ]
    return Chart(
        kind="line",
        table=_tails(groups, bottlenecked_law(0.6, 0.5, 8), "").filter(pl.col("value") > 0),
        x="flows",
        y="value",
        by="series",
        x_label="Bottlenecked flows i",
        y_label="Share of the time with at least i",
        log_y=True,
        y_limits=(1e-6, 2.0),
        levels={"printed for i = 5": PRINTED},
    )


def _regimes(results: Results) -> Chart:
    runs = results["regimes"]
    frames = []
    for peak in runs.axis("peak"):
        limit = peak_mbps(peak)
        ours = means(runs.where(peak=peak), "throughput_mbps", by="peak", x="load", scale=1 / limit)
        frames.append(ours.drop("seeds").with_columns(pl.lit(peak).alias("peak")))
    return Chart(
        kind="line",
        table=pl.concat(frames),
        x="load",
        y="value",
        by="peak",
        x_label="Load",
        y_label="Throughput of a flow / its peak rate",
        y_limits=(0.0, 1.05),
        guides={"overload": 1.0},
    )


def peak_mbps(peak: str) -> float:
    """The peak rate of flows by its name; the rate of the link where there is none."""
    given = PEAKS[peak].get("peak_rate")
    return bits_per_second(given) / 1e6 if given else RATE_MBPS


def _regime_paths(results: Results) -> Chart:
    frames = []
    for row in results["regime-paths"].rows:
        wanted = row.values["demand"]
        frames.append(
            pl.DataFrame(
                {
                    "time_s": _times(wanted, PATH_STEP_S),
                    "demand": [float(one) for one in wanted],
                    "regime": row.labels["regime"],
                }
            )
        )
    scale: dict[str, Any] = {"log_y": True, "y_limits": (0.2, 500.0), "levels": {"capacity": 1.0}}
    said = "Sum of peak rates / capacity"
    return _against_time(pl.concat(frames), "demand", said, panel="regime", **scale)


# Charts: blocks A to K


def _plot_name(plot: tuple[str, int, str]) -> str:
    flows, buffer, queue = plot
    return f"{flows}, {queue} {buffer}"


def _paths(results: Results, block: str) -> list[tuple[str, Reduction]]:
    kind, plots = BLOCKS[block]
    runs = results["paths"]
    found = []
    for plot in plots:
        (row,) = runs.where(plot=(kind, *plot)).rows
        found.append((_plot_name(plot), row.values))
    return found


def _windows(block: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        frames = []
        for name, values in _paths(results, block):
            laws = [str(law) for law, _ in values["windows"]]
            for place, (law, cwnd) in enumerate(values["windows"]):
                flow = f"flow {place + 1}" if len(set(laws)) == 1 else LAW_NAMES[law]
                frames.append(
                    pl.DataFrame(
                        {
                            "time_s": [(step + 1) * WINDOW_STEP_S for step in range(len(cwnd))],
                            "window": cwnd,
                            "flow": flow,
                            "plot": name,
                        }
                    )
                )
        limits: dict[str, Any] = {"x_limits": (0.0, float(SHOWN_S)), "y_limits": (0.0, 1000.0)}
        said = "Congestion window (packets)"
        return _against_time(pl.concat(frames), "window", said, panel="plot", by="flow", **limits)

    return chart


def _use(block: str) -> Callable[[Results], Chart]:
    def chart(results: Results) -> Chart:
        frames = [
            pl.DataFrame(
                {
                    "time_s": [(step + 1) * USE_STEP_S for step in range(len(values["use"]))],
                    "use": values["use"],
                    "plot": name,
                }
            )
            for name, values in _paths(results, block)
        ]
        limits: dict[str, Any] = {"x_limits": (0.0, float(SHOWN_S)), "y_limits": (0.0, 1.02)}
        return _against_time(pl.concat(frames), "use", "Utilisation", panel="plot", **limits)

    return chart


# Charts: what long runs say


def _by_buffer(metric: str, y_label: str, *, log_y: bool = False) -> Callable[[Results], Chart]:
    """A measure of one bottlenecked flow against the buffer, NewReno, a panel for each background."""

    def chart(results: Results) -> Chart:
        runs = results["one"].where(recovery="newreno")
        frames = []
        for kind in runs.axis("background"):
            for flows in runs.axis("flows"):
                for queue in QUEUES:
                    ours = runs.where(background=kind, flows=flows, queue=queue)
                    name = f"{flows.removeprefix('1 ')}, {queue}"
                    rows = [
                        (
                            name,
                            float(buffer),
                            stats.mean_interval(ours.where(buffer=buffer).values(metric)),
                        )
                        for buffer in runs.axis("buffer")
                    ]
                    table = estimates(rows, by="flow", x="buffer")
                    frames.append(table.with_columns(pl.lit(BACKGROUND_NAMES[kind]).alias("background")))
        return Chart(
            kind="line",
            table=pl.concat(frames),
            x="buffer",
            y="value",
            by="flow",
            panel="background",
            x_label="Buffer (packets)",
            y_label=y_label,
            log_x=True,
            log_y=log_y,
            x_limits=(15.0, 850.0),
            y_limits=None if log_y else (0.0, 1.05),
        )

    return chart


def _delays(results: Results) -> Chart:
    runs = results["delay"].where(recovery="newreno", background="flows")
    groups = [
        ("FIFO", runs.where(flows="1 Reno", queue="FIFO")),
        ("FQ", runs.where(flows="1 Reno", queue="FQ")),
        ("no bottlenecked flow", runs.where(flows="none", queue="FIFO")),
    ]
    frames = []
    for metric, name in (("mean_ms", "mean"), ("p99_ms", "99th percentile")):
        rows = [
            (group, float(buffer), stats.mean_interval(ours.where(buffer=buffer).values(metric)))
            for group, ours in groups
            for buffer in runs.axis("buffer")
        ]
        table = estimates(rows, by="queue", x="buffer")
        frames.append(table.with_columns(pl.lit(name).alias("measure")))
    return Chart(
        kind="line",
        table=pl.concat(frames),
        x="buffer",
        y="value",
        by="queue",
        panel="measure",
        x_label="Buffer (packets)",
        y_label="Wait of the background's packets (ms)",
        log_x=True,
        log_y=True,
        x_limits=(15.0, 850.0),
    )


def share_ratio(runs: Runs, ours: str, theirs: str) -> stats.Interval:
    """The rate of a flow of one law over that of one of another."""
    return stats.paired_ratio(runs.values(f"{ours}_mbps"), runs.values(f"{theirs}_mbps"))


def _shares(results: Results) -> Chart:
    runs = results["several"].where(flows="HighSpeed + Reno")
    frames = []
    for recovery in RECOVERIES:
        rows = [
            (
                queue,
                str(buffer),
                share_ratio(runs.where(recovery=recovery, queue=queue, buffer=buffer), "highspeed", "reno"),
            )
            for queue in QUEUES
            for buffer in runs.axis("buffer")
        ]
        table = estimates(rows, by="queue", x="buffer")
        frames.append(table.with_columns(pl.lit(NAMES[recovery]).alias("recovery")))
    return Chart(
        kind="bars",
        table=pl.concat(frames),
        x="buffer",
        y="value",
        by="queue",
        panel="recovery",
        x_label="Buffer (packets)",
        y_label="Rate of HighSpeed over Reno's",
        levels={"": 1.0},
    )


def _pair_name(pair: tuple[str, str]) -> str:
    short = {"reno": "R", "highspeed": "H", "cubic": "C", "scalable": "S", UNRESPONSIVE: "U"}
    return "/".join(short[law] for law in pair)


def _pairs(results: Results) -> Chart:
    chosen = {"FIFO": results["pairs-fifo"], "FQ": results["pairs"].where(recovery=RECOVERIES[0])}
    rows = [
        (queue, _pair_name(pair), share_ratio(runs.where(pair=pair), pair[1], pair[0]))
        for queue, runs in chosen.items()
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


def _fairness(results: Results) -> Chart:
    runs = results["windows"]
    frames = []
    for recovery in RECOVERIES:
        table = means(_relabelled(runs.where(recovery=recovery)), "jain", by="queue", x="flows").with_columns(
            pl.lit(NAMES[recovery]).alias("recovery")
        )
        frames.append(table.drop("seeds"))
    return Chart(
        kind="bars",
        table=pl.concat(frames),
        x="flows",
        y="value",
        by="queue",
        panel="recovery",
        x_label="Bottlenecked flows",
        y_label="Jain's index over 80 s",
        y_limits=(0.5, 1.02),
    )


def _relabelled(runs: Runs) -> Runs:
    """The runs in the order of queues, which is that of the legend."""
    return Runs(rows=tuple(row for queue in QUEUES for row in runs.where(queue=queue).rows))


def _alone(results: Results) -> Chart:
    runs = results["alone"]
    frames = []
    for mix in MIXES:
        table = means(runs.where(mix=mix), "wait_ms", by="queue", x="load").drop("seeds")
        if mix == MIXES[0]:
            for name, periodic in (("modulated M/G/1", False), ("modulated periodic sources", True)):
                law = [
                    (name, load, exactly(modulated_wait_ms(load, periodic=periodic)))
                    for load in runs.axis("load")
                    if full_share(load) < 0.1
                ]
                table = pl.concat([table, estimates(law, by="queue", x="load")])
        frames.append(table.with_columns(pl.lit(mix).alias("mix")))
    return Chart(
        kind="line",
        table=pl.concat(frames),
        x="load",
        y="value",
        by="queue",
        panel="mix",
        x_label="Load",
        y_label="Mean wait in the queue (ms)",
        log_y=True,
    )


def _active(results: Results) -> Chart:
    runs = results["scale"]
    rows = []
    for mix in SCALE_MIXES:
        for load in runs.axis("load"):
            for metric, name in (("active", "mean"), ("active_p999", "99.9 %")):
                ours = runs.where(mix=mix, load=load)
                rows += [
                    (
                        (mix, f"{name}, load {load:g}"),
                        float(scale),
                        stats.mean_interval(ours.where(scale=scale).values(metric)),
                    )
                    for scale in ours.axis("scale")
                ]
    table = estimates([(name, at, value) for (_, name), at, value in rows], by="measure", x="scale")
    return Chart(
        kind="line",
        table=table.with_columns(pl.Series("mix", [mix for (mix, _), _, _ in rows])),
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


def _trace_tails(results: Results) -> Chart:
    runs = results["trace"]
    rows = []
    for load in runs.axis("load"):
        tail = tail_estimates(runs.where(load=load), MOST_ACTIVE_COUNTED)
        # Nothing is drawn beyond the most that any run had.
        rows += [(f"load {load:g}", flows, more) for flows, more in enumerate(tail) if more.value > 0]
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


_TITLES = {
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


def _block_figures() -> list[Figure]:
    figures = []
    for block, (kind, _) in BLOCKS.items():
        said = f"{BACKGROUND_NAMES[kind]} of 25 Mb/s behind; NewReno, one run, from its start."
        figures += [
            Figure(
                id=f"{block.lower()}-windows",
                title=f"{block}. {_TITLES[block]}: windows",
                caption=said,
                chart=_windows(block),
            ),
            Figure(
                id=f"{block.lower()}-utilisation",
                title=f"{block}. {_TITLES[block]}: utilisation",
                caption=f"Of the same runs, in bins of {USE_STEP_S:g} s.",
                chart=_use(block),
            ),
        ]
    return figures


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
        chart=_regimes,
    ),
    Figure(
        id="regime-paths",
        title="Three regimes",
        caption="What the flows in progress could take of the link: transparent (1 Mb/s flows, load 0.5), "
        "elastic (no peak rate, 0.8), overload (no peak rate, 1.1).",
        chart=_regime_paths,
    ),
    *_block_figures(),
    Figure(
        id="available",
        title="What one flow gets of the available capacity",
        caption="Rate on the wire over 25 Mb/s, NewReno; means and 95 % intervals.",
        chart=_by_buffer("available", "Rate over available capacity"),
    ),
    Figure(
        id="background-loss",
        title="What the background loses to one flow",
        caption="Dropped packets of the background per packet sent, NewReno. Under fair queueing none is "
        "dropped where no line is drawn.",
        chart=_by_buffer("background_loss", "Background packets dropped", log_y=True),
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
        chart=_shares,
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
        chart=_fairness,
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
        caption="Fair queueing, a buffer of 625 packets times the scale.",
        chart=_active,
    ),
    Figure(
        id="trace",
        title="Active flows of an OC-48-like trace, at slower and slower lines",
        caption="Made up with the published properties: 16 % of 2.5 Gb/s, flows from 10 kb/s to 10 Mb/s, "
        "about 7000 in progress; replayed through deficit round robin.",
        chart=_trace_tails,
    ),
)
