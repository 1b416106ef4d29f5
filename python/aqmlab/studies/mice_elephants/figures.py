"""The figures of the study `mice-elephants`: from the measures of its runs to what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import polars as pl

from aqmlab import metrics, stats
from aqmlab.measure import Measure
from aqmlab.plot import Chart
from aqmlab.publication import Figure
from aqmlab.runs import Results, Row, number
from aqmlab.studies.drop_curves import drop_functions
from aqmlab.studies.mice_elephants import measures
from aqmlab.studies.mice_elephants.experiments import (
    LOSSES,
    QUEUES,
    RIO_PS,
    SPEEDS,
    disciplines,
    exp_1,
    exp_2,
    random_loss,
    table_1,
    two_way,
)
from aqmlab.studies.mice_elephants.latency_model import Path, latency
from aqmlab.studies.mice_elephants.measures import SIZE_BINS
from aqmlab.studies.shared import estimates
from aqmlab.study_charts import Draws
from aqmlab.study_query import interval_of, means
from aqmlab.variable import Measured, Variable, per_seed, seeds_of


def at_3_s(measure: Measure) -> Measured:
    """A measure of Exp 1 with the initial time-out of 3 s."""
    return exp_1[measure].at(ITO="3 s")


def first_seed(runs: Sequence[Row]) -> Row:
    """The run that is drawn where one run is drawn."""
    return min(runs, key=lambda row: row.seed)


def of_bins(bins: Variable, column: int, over: int) -> Variable:
    """One column of the bins of file sizes over another; NaN of nothing."""

    def shares(rows: Sequence[Sequence[float]]) -> list[float]:
        return [row[column] / row[over] if row[over] > 0 else math.nan for row in rows]

    return per_seed("by file size", shares, bins)


def by_place(variable: Variable, results: Results, **labels: Any) -> list[list[float]]:
    """The values of a variable of lists, by place and seed, as far as the shortest list goes."""
    found = [variable.value(results, labels, seed) for seed in seeds_of([variable], results)]
    length = min((len(one) for one in found if one is not None), default=0)
    return [[math.nan if one is None else number(one[place]) for one in found] for place in range(length)]


def relative_times(bins: Variable, reference: str, results: Results) -> pl.DataFrame:
    """Mean response times by file size over those under the reference, paired by seed."""
    times = of_bins(bins, column=1, over=0)
    theirs = by_place(times, results, queue=reference)
    rows = [
        (queue, size, stats.paired_ratio(by_place(times, results, queue=queue)[place], theirs[place]))
        for queue in map(str, times.values_of("queue", results))
        for place, size in enumerate(SIZE_BINS)
    ]
    return estimates([row for row in rows if row[-1].decided], by="queue", x="packets")


def settled_after(row: Row) -> float:
    """When MSER-5 lets the number of open transfers of a run begin, in seconds; infinity if nowhere."""
    cut = metrics.mser5(row[measures.ACTIVE])
    return math.inf if cut is None else cut * measures.SERIES_STEP_S


def _random_loss(found: Mapping[int, Measure], of: str, y_label: str, *, log_y: bool = False) -> Draws:
    """Measured means, and an attribute of the model's `Latency`, against loss."""

    def draw(results: Results) -> Chart:
        rows = [
            (f"{size} packets", 100 * float(loss), interval_of(random_loss[measure], results, {"loss": loss}))
            for size, measure in found.items()
            for loss in results[random_loss.name].axes["loss"]
        ]
        for size, loss in product(found, LOSSES):
            model = stats.mean_interval([getattr(latency(size, loss, Path()), of)])
            rows.append((f"{size}, model", 100 * loss, model))
        return Chart(
            kind="line",
            table=estimates(rows, by="transfers", x="loss_percent"),
            x="loss_percent",
            y="value",
            by="transfers",
            x_label="packets lost at random (%)",
            y_label=y_label,
            log_y=log_y,
        )

    return draw


def _link_share(results: Results) -> Chart:
    rows = [
        (
            f"{row.labels['queue']}, {row.labels['speed']}",
            f"run {row.seed}",
            (place + 0.5) * measures.SHARE_BIN_S,
            100 * share,
        )
        for speed in SPEEDS
        for queue in QUEUES
        for row in results[table_1.name].where(speed=speed, queue=queue)[:3]
        for place, share in enumerate(row[measures.SHORT_SHARE])
    ]
    return Chart(
        kind="curve",
        table=pl.DataFrame(rows, schema=["line", "run", "time_s", "share_percent"], orient="row"),
        x="time_s",
        y="share_percent",
        by="run",
        panel="line",
        x_label="time (s)",
        y_label="short flows' share (%)",
        y_limits=(0.0, 60.0),
    )


def _relative(ito: str, reference: str) -> Draws:
    return lambda results: Chart(
        kind="line",
        table=relative_times(exp_1[measures.BINS].at(ITO=ito), reference, results),
        x="packets",
        y="value",
        by="queue",
        x_label="file size (packets)",
        y_label=f"mean response time over that of {reference}",
        log_x=True,
    )


def _of_one_run(values: Callable[[Row], Iterable[tuple[float, float]]], **options: Any) -> Draws:
    """Times and values found in the run of Exp 1 of the first seed, for each queue."""

    def draw(results: Results) -> Chart:
        rows = [
            (queue, *value)
            for queue in QUEUES
            for value in values(first_seed(results[exp_1.name].where(ITO="3 s", queue=queue)))
        ]
        table = pl.DataFrame(rows, schema=["queue", "time_s", "value"], orient="row")
        return Chart(table=table, x="time_s", y="value", by="queue", **options)

    return draw


def _over_time(measure: Measure, step_s: float, y_label: str, scale: float = 1.0) -> Draws:
    def values(run: Row) -> Iterable[tuple[float, float]]:
        for place, value in enumerate(run[measure]):
            if value is not None:
                yield run[measures.WARM_UP] + place * step_s, value * scale

    return _of_one_run(values, kind="curve", panel="queue", x_label="time (s)", y_label=y_label)


def _batches(measure: Measure, column: int, y_label: str) -> Draws:
    return _of_one_run(
        lambda run: [(batch[0], batch[column]) for batch in run[measure]],
        kind="line",
        x_label="batch begun at (s)",
        y_label=y_label,
    )


def _settling(results: Results) -> Chart:
    means_of_bins = per_seed(
        "mean time of short files",
        lambda found: [total / count if count else math.nan for count, total in zip(*found, strict=True)],
        at_3_s(measures.SETTLING),
    )
    rows = [
        (queue, (place + 0.5) * measures.SETTLING_BIN_S, stats.mean_interval(values))
        for queue in QUEUES
        for place, values in enumerate(by_place(means_of_bins, results, queue=queue))
    ]
    return Chart(
        kind="curve",
        table=estimates(rows, by="queue", x="time_s"),
        x="time_s",
        y="value",
        by="queue",
        x_label="files begun at (s)",
        y_label="mean time of short files (s)",
        guides={"warm-up ends": results[exp_1.name].rows[0][measures.WARM_UP]},
    )


_drop_functions = drop_functions(
    {
        name: (disciplines(200)[RIO_PS], (1.0, place))
        for name, place in (("short packets", 1), ("long packets", 2))
    },
    549,
    x_label="average queue of the class: short packets, or all (packets)",
    y_label="drop or mark probability p_b",
    y_limits=(0.0, 1.02),
)


def _threshold(results: Results) -> Chart:
    rows = [
        (f"seed {row.seed}", at, threshold)
        for row in results[exp_1.name].where(ITO="3 s", queue=RIO_PS)[:3]
        for at, threshold in row[measures.THRESHOLD]
    ]
    return Chart(
        kind="curve",
        table=pl.DataFrame(rows, schema=["run", "time_s", "threshold_packets"], orient="row"),
        x="time_s",
        y="threshold_packets",
        by="run",
        x_label="time (s)",
        y_label="threshold L_t of the edge (packets)",
    )


def _classified(results: Results) -> Chart:
    rows = []
    for name, bins in (
        ("Exp 1", at_3_s(measures.BINS)),
        ("Exp 2, short files", exp_2[measures.BINS].at(mix="short files")),
        ("Exp 2, long files", exp_2[measures.BINS].at(mix="long files")),
    ):
        shares = by_place(of_bins(bins, column=3, over=2), results, queue=RIO_PS)
        for size, values in zip(SIZE_BINS, shares, strict=True):
            interval = stats.mean_interval([100 * share for share in values])
            if interval.count:
                rows.append((name, size, interval))
    return Chart(
        kind="line",
        table=estimates(rows, by="runs", x="packets"),
        x="packets",
        y="value",
        by="runs",
        x_label="file size (packets)",
        y_label="packets that arrived as long ones (%)",
        log_x=True,
    )


def carried(results: Results) -> list[tuple[float, stats.Interval]]:
    """The share of the bytes (%) in each share of the files."""
    found = by_place(at_3_s(measures.LARGEST), results, queue="RED")
    return [
        (share, stats.mean_interval([100 * value for value in values]))
        for share, values in zip(measures.LARGEST_SHARES, found, strict=True)
    ]


def _largest(results: Results) -> Chart:
    rows = [("ours", 100 * share, interval) for share, interval in carried(results)]
    return Chart(
        kind="line",
        table=estimates(rows, by="runs", x="files_percent"),
        x="files_percent",
        y="value",
        by="runs",
        x_label="the largest files (% of all)",
        y_label="share of all bytes (%)",
        log_x=True,
        levels={"the talk: 80 %": 80.0},
    )


def _two_way(results: Results) -> Chart:
    times = {"one way": at_3_s(measures.SHORT_FILES), "both ways": two_way[measures.SHORT_FILES]}
    frames = [
        means(time, results, "queue").select(pl.lit(name).alias("traffic"), pl.all())
        for name, time in times.items()
    ]
    return Chart(
        kind="bars",
        table=pl.concat(frames),
        x="traffic",
        y="value",
        by="queue",
        x_label="Web traffic",
        y_label="mean time of short files (s)",
    )


FIGURES = (
    Figure(
        id="1a",
        title="Transmission time against loss",
        caption="NewReno on a line that loses packets at random: round trip 100 ms, initial time-out 3 s, "
        "2000 transfers of each size; beside a round model in the manner of Cardwell, Savage and "
        "Anderson. It shares no code with the simulator, but one way of ns-2: the least time-out of 1 s is "
        "applied after the back-off.",
        chart=_random_loss(measures.TRANSFER_TIME, "mean_s", "mean transmission time (s)", log_y=True),
    ),
    Figure(
        id="1b",
        title="Coefficient of variation of the transmission time",
        caption="The same transfers: standard deviation over mean.",
        chart=_random_loss(measures.VARIATION, "variation", "coefficient of variation"),
    ),
    Figure(
        id="2",
        title="Short flows' share of what the line sends",
        caption="Short flows of 100 packets beside ten persistent flows at both speeds; shares of 10 s, "
        "three runs each. The rest is the persistent flows'. The set-up is the one of Table I.",
        chart=_link_share,
    ),
    Figure(
        id="6a",
        title="Relative response time by file size, ITO 3 s",
        caption="Mean response time over that under RIO-PS, paired by seed.",
        chart=_relative("3 s", "RIO-PS"),
    ),
    Figure(
        id="6b",
        title="Relative response time by file size, ITO 1 s",
        caption="The same with an initial time-out of 1 s.",
        chart=_relative("1 s", "RIO-PS"),
    ),
    Figure(
        id="relative-to-drop-tail",
        title="The same relative to Drop Tail, ITO 3 s",
        caption="Which reference the published figure has is not known; here is the other one.",
        chart=_relative("3 s", "Drop Tail"),
    ),
    Figure(
        id="7a",
        title="Instantaneous queue",
        caption="Exp 1, ITO 3 s, one run: 200 s after the warm-up, every half second.",
        chart=_over_time(measures.QUEUE_SERIES, measures.QUEUE_STEP_S, "packets waiting"),
    ),
    Figure(
        id="7b",
        title="Drop and mark rate",
        caption="The same run: packets dropped or marked per packet that arrived, second by second.",
        chart=_over_time(measures.REFUSED_SERIES, measures.RATE_BIN_S, "dropped or marked (%)", 100.0),
    ),
    Figure(
        id="8a",
        title="Fairness among ten short foreground flows",
        caption="Jain's index over the rates of each batch; Exp 1, ITO 3 s, one run.",
        chart=_batches(measures.SHORT_BATCHES, 2, "Jain's index"),
    ),
    Figure(
        id="8b",
        title="Fairness among ten long foreground flows",
        caption="The same for flows of 1000 packets.",
        chart=_batches(measures.LONG_BATCHES, 2, "Jain's index"),
    ),
    Figure(
        id="9a",
        title="Transmission time of short foreground flows",
        caption="Mean of each batch; Exp 1, ITO 3 s, one run.",
        chart=_batches(measures.SHORT_BATCHES, 1, "mean transmission time (s)"),
    ),
    Figure(
        id="9b",
        title="Transmission time of long foreground flows",
        caption="The same for flows of 1000 packets.",
        chart=_batches(measures.LONG_BATCHES, 1, "mean transmission time (s)"),
    ),
    Figure(
        id="drop-functions",
        title="Drop functions of both classes (the talk's Fig 4)",
        caption="Drawn from the discipline's own code, for Exp 1. Short packets look at the average number "
        "of short packets, long ones at that of all.",
        chart=_drop_functions,
    ),
    Figure(
        id="settling",
        title="Why 2000 s? The mean from the first second on",
        caption="Mean over the seeds of the mean time of short files begun within 50 s. Where the curve is "
        "level, the warm-up is over; how the bands go on wandering is the heavy tail.",
        chart=_settling,
    ),
    Figure(
        id="threshold",
        title="The edge's threshold over time",
        caption="Exp 1, ITO 3 s: L_t, steered so that three flows are short for each long one.",
        chart=_threshold,
    ),
    Figure(
        id="classified",
        title="What the edge takes for long",
        caption="Share of the packets of files of each size that arrived in the long class. Files of up to "
        "L_t packets never should, and the first L_t packets of any file cannot.",
        chart=_classified,
    ),
    Figure(
        id="largest",
        title="How much the largest files carry",
        caption="Exp 1: share of all bytes in the largest files.",
        chart=_largest,
    ),
    Figure(
        id="two-way",
        title="Traffic both ways",
        caption="Mean time of files of up to 10 packets with Web traffic one way and both ways.",
        chart=_two_way,
    ),
)
