"""The figures of the study `mice-elephants`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aqmlab.charts.chart import Chart
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.rule import Estimate, ratio
from aqmlab.results.table import ExperimentResults, Row
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.drop_curves import drop_functions
from aqmlab.studies.mice_elephants import measures
from aqmlab.studies.mice_elephants.claims import in_exp_1
from aqmlab.studies.mice_elephants.experiments import (
    BDP_1,
    FULL_S,
    LOSSES,
    ONE_CLASS,
    RIO_PS,
    disciplines,
    exp_1,
    exp_2,
    random_loss,
    table_1,
    two_way,
)
from aqmlab.studies.mice_elephants.latency_model import Latency, Path, latency
from aqmlab.study.charts import Draws, line
from aqmlab.study.publication import Figure
from aqmlab.study.query import joined, law, of_runs, query, scaled, stacked

Found = Iterator[tuple[Labels, float]]


def _by_size(bins: Variable, column: str, over: str) -> Variable:
    """One column of the bins of file sizes over another; NaN of nothing."""
    part, whole = (measures.BIN_COLUMNS.index(name) for name in (column, over))

    def shares(rows: Sequence[Sequence[float]]) -> list[float]:
        return [row[part] / row[whole] if row[whole] > 0 else math.nan for row in rows]

    return per_seed("by file size", shares, bins).unrolled("packets", measures.SIZE_BINS)


def relative_times(bins: Variable, reference: str) -> Estimate:
    """Mean response times by file size over those under the reference, paired by seed."""
    times = _by_size(bins, "time_s", over="files")
    return ratio(times, times.at(queue=reference))


def _relative(ito: str, reference: str) -> Draws:
    return line(
        relative_times(in_exp_1(measures.BINS, ito), reference),
        x="packets",
        by="queue",
        x_label="file size (packets)",
        y_label=f"mean response time over that of {reference}",
        log_x=True,
    )


def _random_loss(found: Mapping[int, Measure], of: Callable[[Latency], float], **options: Any) -> Draws:
    """Measured means, and what the model says of them."""
    ours = stacked("size", {f"{size} packets": random_loss[measure] for size, measure in found.items()})
    model = law(lambda size, loss: of(latency(size, loss, Path())), size=list(found), loss=LOSSES)
    both = joined(ours, model.told(size=lambda size: f"{size}, model"))
    in_percent = both.told(loss=lambda loss: 100 * loss)
    return line(in_percent, x="loss", by="size", x_label="packets lost at random (%)", **options)


_OVER_TIME: dict[str, Any] = {"kind": "curve", "x": "time_s", "x_label": "time (s)"}


def _series(measure: Measure, step_s: float, y_label: str, factor: float = 1.0) -> Draws:
    """What one run of Exp 1 tells at each step from the warm-up on, for each queue."""

    def values(row: Row) -> Found:
        for place, value in enumerate(row[measure]):
            if value is not None:
                yield {"time_s": row[measures.WARM_UP] + place * step_s}, value * factor

    of_one_run = of_runs(exp_1, values, "time_s", ITO="3 s")
    return line(of_one_run, by="queue", panel="queue", y_label=y_label, **_OVER_TIME)


def _of_batches(number: str, what: str, tells: str, column: int, y_label: str) -> tuple[Figure, Figure]:
    """A figure of short foreground flows and one of long, in one run of Exp 1."""

    def draw(measure: Measure) -> Draws:
        batches = of_runs(
            exp_1,
            lambda row: [({"time_s": one[0]}, one[column]) for one in row[measure]],
            "time_s",
            ITO="3 s",
        )
        return line(batches, x="time_s", by="queue", x_label="batch begun at (s)", y_label=y_label)

    return (
        Figure(
            id=f"{number}a",
            title=f"{what} short foreground flows",
            caption=f"{tells}; Exp 1, ITO 3 s, one run.",
            chart=draw(measures.SHORT_BATCHES),
        ),
        Figure(
            id=f"{number}b",
            title=f"{what} long foreground flows",
            caption="The same for flows of 1000 packets.",
            chart=draw(measures.LONG_BATCHES),
        ),
    )


def _shares(row: Row) -> Found:
    """The short class's share of the line (%)."""
    for place, share in enumerate(row[measures.SHORT_SHARE]):
        yield {"time_s": (place + 0.5) * measures.SHARE_BIN_S}, 100 * share


def _settling(results: ExperimentResults) -> Chart:
    times = per_seed(
        "mean time of short files",
        lambda found: [total / count if count else math.nan for count, total in zip(*found, strict=True)],
        in_exp_1(measures.SETTLING),
        unit="s",
    )
    step_s = measures.SETTLING_BIN_S
    begun = [(place + 0.5) * step_s for place in range(round(FULL_S / step_s))]
    draw = line(
        times.unrolled("time_s", begun),
        kind="curve",
        x="time_s",
        by="queue",
        x_label="files begun at (s)",
        guides={"warm-up ends": results[exp_1.name].rows[0][measures.WARM_UP]},
    )
    return draw(results)


_thresholds = of_runs(
    exp_1,
    lambda row: [({"time_s": time_s}, threshold) for time_s, threshold in row[measures.THRESHOLD]],
    "time_s",
    seeds=3,
    queue=RIO_PS,
    ITO="3 s",
)

_bins = {
    "Exp 1": in_exp_1(measures.BINS),
    **{f"Exp 2, {mix}": exp_2[measures.BINS].at(mix=mix) for mix in ONE_CLASS},
}
_long = {name: _by_size(bins.at(queue=RIO_PS), "long", over="packets") for name, bins in _bins.items()}

_carried = in_exp_1(measures.LARGEST).at(queue="RED")
carried = scaled(_carried.unrolled("files", [100 * share for share in measures.LARGEST_SHARES]), 100, "%")
"""The share of the bytes in the largest files, by how many percent of all these are."""

FIGURES = (
    Figure(
        id="1a",
        title="Transmission time against loss",
        caption="NewReno on a line that loses packets at random: round trip 100 ms, initial time-out 3 s, "
        "2000 transfers of each size; beside a round model in the manner of Cardwell, Savage and "
        "Anderson. It shares no code with the simulator, but one way of ns-2: the least time-out of 1 s is "
        "applied after the back-off.",
        chart=_random_loss(
            measures.TRANSFER_TIME, lambda of: of.mean_s, y_label="mean transmission time (s)", log_y=True
        ),
    ),
    Figure(
        id="1b",
        title="Coefficient of variation of the transmission time",
        caption="The same transfers: standard deviation over mean.",
        chart=_random_loss(measures.VARIATION, lambda of: of.variation, y_label="coefficient of variation"),
    ),
    Figure(
        id="2",
        title="Short flows' share of what the line sends",
        caption="Short flows of 100 packets beside ten persistent flows at both speeds; shares of 10 s, "
        "three runs each. The rest is the persistent flows'. The set-up is the one of Table I.",
        chart=line(
            of_runs(table_1, _shares, "time_s", seeds=3).told(seed=lambda seed: f"run {seed}"),
            by="seed",
            panel=("speed", "queue"),
            y_label="short flows' share (%)",
            y_limits=(0.0, 60.0),
            **_OVER_TIME,
        ),
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
        chart=_series(measures.QUEUE_SERIES, measures.QUEUE_STEP_S, "packets waiting"),
    ),
    Figure(
        id="7b",
        title="Drop and mark rate",
        caption="The same run: packets dropped or marked per packet that arrived, second by second.",
        chart=_series(measures.REFUSED_SERIES, measures.RATE_BIN_S, "dropped or marked (%)", 100.0),
    ),
    *_of_batches("8", "Fairness among ten", "Jain's index over the rates of each batch", 2, "Jain's index"),
    *_of_batches("9", "Transmission time of", "Mean of each batch", 1, "mean transmission time (s)"),
    Figure(
        id="drop-functions",
        title="Drop functions of both classes (the talk's Fig 4)",
        caption="Drawn from the discipline's own code, for Exp 1. Short packets look at the average number "
        "of short packets, long ones at that of all.",
        chart=drop_functions(
            {
                f"{name} packets": (disciplines(BDP_1)[RIO_PS], (1.0, place))
                for name, place in (("short", 1), ("long", 2))
            },
            549,
            x_label="average queue of the class: short packets, or all (packets)",
            y_label="drop or mark probability p_b",
            y_limits=(0.0, 1.02),
        ),
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
        chart=line(
            _thresholds.told(seed=lambda seed: f"seed {seed}"),
            by="seed",
            y_label="threshold L_t of the edge (packets)",
            **_OVER_TIME,
        ),
    ),
    Figure(
        id="classified",
        title="What the edge takes for long",
        caption="Share of the packets of files of each size that arrived in the long class. Files of up to "
        "L_t packets never should, and the first L_t packets of any file cannot.",
        chart=line(
            stacked("runs", {name: scaled(share, 100, "%") for name, share in _long.items()}),
            x="packets",
            by="runs",
            x_label="file size (packets)",
            y_label="packets that arrived as long ones (%)",
            log_x=True,
        ),
    ),
    Figure(
        id="largest",
        title="How much the largest files carry",
        caption="Exp 1: share of all bytes in the largest files.",
        chart=line(
            query(carried).tagged(runs="ours"),
            x="files",
            by="runs",
            x_label="the largest files (% of all)",
            y_label="share of all bytes (%)",
            log_x=True,
            levels={"the talk: 80 %": 80.0},
        ),
    ),
    Figure(
        id="two-way",
        title="Traffic both ways",
        caption="Mean time of files of up to 10 packets with Web traffic one way and both ways.",
        chart=line(
            stacked(
                "traffic",
                {"one way": in_exp_1(measures.SHORT_FILES), "both ways": two_way[measures.SHORT_FILES]},
            ),
            kind="bars",
            x="traffic",
            by="queue",
            x_label="Web traffic",
        ),
    ),
)
