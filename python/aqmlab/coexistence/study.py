"""Pairs of congestion controls at several queues, buffers and round-trip times, as a study.

The study has no claims, because no source states how much of a link each control should get. All numbers are
means over the replications with their intervals, or medians if the replications have several modes
(`stats.modality`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import metrics, stats
from aqmlab._support import arguments
from aqmlab._support.files import write_csv, write_parquet
from aqmlab._support.mistakes import Mistakes
from aqmlab.charts.chart import Chart
from aqmlab.charts.matrix import Cells
from aqmlab.coexistence import network
from aqmlab.coexistence.measures import FAIRNESS, MEASURES, OF_SIDE, SHARE, UTILISATION
from aqmlab.coexistence.network import SIDES
from aqmlab.results.labels import Labels, Value
from aqmlab.results.rule import mean_of
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable
from aqmlab.scenario import Scenario
from aqmlab.stats import Interval
from aqmlab.study import Decision, Experiment, Figure, Form, Study, StudyResult, Table

NAME = "coexistence"

QUICK_SEEDS, QUICK_DURATION_S, QUICK_WARM_UP_S = 2, 20.0, 5.0
"""Maxima of the quick form."""

AXES = (*SIDES, "queue", "buffer", "rtt")
"""The columns that identify a row of the table."""

SHOWN: Mapping[str, tuple[str, str]] = {
    "share": ("Shares", "share (%)"),
    "delay": ("Queueing delay", "mean queueing delay (ms)"),
    "drops": ("Loss", "packets dropped (%)"),
    "marks": ("Marks", "packets marked (%)"),
    "p95-time": ("Short transfers", "time of short transfers, 95th percentile (ms)"),
}
"""The measures that are figures: title, and label of the colours."""

LOGARITHMIC = ("delay", "p95-time")
"""The figures whose colours have a logarithmic scale, because the numbers in these figures differ by orders
of magnitude."""

CAPTION = (
    "Numbers of the row's control beside the other control: means over the replications ± half of their 95 % "
    "interval. A median, marked by *, replaces the mean if the replications have several modes. Of a control "
    "beside itself, the number is that of the first one."
)

DECISIONS = (
    Decision(
        question="Which loss recovery and which other parameters of TCP do the controls use?",
        decision="RACK-TLP and the profile `linux-6`, unless the name of the control is CONTROL/RECOVERY.",
        reason="Current Linux has these parameters. Only the controls cause differences.",
    ),
    Decision(
        question="What is the length of a buffer of one bandwidth-delay product?",
        decision="The rate times the round-trip time without queueing, in full packets, rounded up. "
        "Parameters that count bytes or memory get the equivalent of this number of full packets.",
        reason="Every queue has room for the same number of full packets, as in the column *Equal room* of "
        "report cards.",
    ),
    Decision(
        question="Which transfers are short transfers?",
        decision="Transfers of one size that begin at random times (a Poisson process), each over a "
        "connection of its own.",
        reason="With one size, the distribution of times shows the queue instead of the mix of sizes.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The estimate of a quantity at a point, either for one side or, if `side` is empty, for all flows."""

    at: Labels
    quantity: str
    side: str
    unit: str
    found: Interval


def study(
    controls: Sequence[str],
    *,
    queues: Sequence[str],
    buffers: Sequence[str] = ("1bdp",),
    rtts: Sequence[str] = ("40ms",),
    rate: str = "50Mbps",
    flows: int = 1,
    load: float = 0.05,
    transfer: str = "72.4kB",
    replications: int = 5,
    first_seed: int = 1,
    duration_s: float = 60.0,
    warm_up_s: float = 10.0,
    of: Scenario | None = None,
    guests: Mapping[str, Sequence[str]] | None = None,
) -> Study:
    """Every unordered pair of congestion controls, including each control paired with itself, at every queue,
    buffer and round-trip time.

    A control is a name from `aqmlab list tcp`; a control whose name does not contain a loss recovery uses
    RACK-TLP. The suffix `+ecn` enables classic ECN if it follows the name of a control, and marking if it
    follows the name of a queue. A control STACK:CONTROL is a control of a transport library in `aqmlab-
    guests`, or of the program whose command `guests` contains under this name. `of` is a scenario whose
    `[queues.NAME]` may be used as queues. A buffer is a number of bandwidth-delay products (`1bdp`), packets
    (`100p`) or bytes (`64kB`), or `default`. Each control of a pair has `flows` endless flows. The short
    transfers, of `transfer` bytes each, offer a load of `load` times `rate`, half of which comes from each
    control. Each point is run with `replications` seeds, beginning with `first_seed`.

    Raises `ValueError` with a line per error if a name or a value is invalid, or if the core rejects a
    scenario.
    """
    arguments.count("flows", flows, 1)
    arguments.count("replications", replications, 1)
    if not 0 < load < 1:
        raise ValueError(f"load: must be above 0 and below 1 (got {load:g})")
    if not 0 <= warm_up_s < duration_s:
        raise ValueError(
            f"warm_up: must be shorter than the duration of {duration_s:g} s (got {warm_up_s:g} s)"
        )
    axes = network.axes(controls, queues, buffers, rtts, of=of, guests=guests)
    base = network.scenario(
        rate=rate, flows=flows, load=load, transfer=transfer, duration_s=duration_s, warm_up_s=warm_up_s
    )
    experiment = Experiment(
        NAME,
        "Coexistence",
        base,
        axes,
        (*MEASURES.values(), UTILISATION),
        seeds=replications,
        first_seed=first_seed,
        most_seeds=replications,
        quick=Form(
            seeds=QUICK_SEEDS,
            changes={
                "duration": f"{min(duration_s, QUICK_DURATION_S):g}s",
                "warm_up": f"{min(warm_up_s, QUICK_WARM_UP_S):g}s",
            },
        ),
        where=network.pairs(controls),
    )
    _check_points(experiment)
    return Study.of(
        NAME,
        f"Coexistence of {', '.join(controls)}",
        experiment,
        *(
            Figure(name, title, partial(matrix, experiment, name), CAPTION)
            for name, (title, _) in SHOWN.items()
        ),
        *DECISIONS,
        Table("matrix", "Coexistence", partial(tabulated, experiment), LEGEND),
        question="How do congestion controls share a link, and what do short transfers notice?",
    )


LEGEND = (
    "Means over the replications ± half of their 95 % interval. A median, marked by *, replaces the mean if "
    "the replications have several modes. Two numbers are those of the first | the second control. Delay, "
    "loss and marks are those of the endless flows' packets at the bottleneck. The times of short transfers "
    "are those of transfers with the same control or, for a program that --guest names, with a simulated "
    "CUBIC."
)


def _check_points(experiment: Experiment) -> None:
    """Raises `ValueError` with one line per error if the core rejects the scenario of a point. If there are
    several queues and pairs, every queue is checked with the first pair, and every pair with the first
    queue."""
    sweep, mistakes = experiment.sweep("full"), Mistakes()
    points = list(sweep.points())
    first = points[0].labels
    for point in points:
        if any(
            all(point.labels[axis] == first[axis] for axis in axes) for axes in (SIDES, AXES[len(SIDES) :])
        ):
            mistakes.attempt(partial(sweep.scenario_of, point))
    mistakes.finish()


def cells(result: StudyResult) -> list[Cell]:
    """The estimates of all quantities, point by point in the order of the options."""
    return list(_cells(result.study.experiments[0], result.results))


def _cells(experiment: Experiment, results: ExperimentResults) -> Iterator[Cell]:
    quantities: list[tuple[str, str, Variable]] = [
        ("share", SIDES[0], experiment[MEASURES[SHARE]]),
        ("jain", "", experiment[MEASURES[FAIRNESS]]),
        ("utilisation", "", experiment[UTILISATION]),
        *((name, side, experiment[MEASURES[f"{side}.{name}"]]) for name in OF_SIDE for side in SIDES),
    ]
    for labels in _points(experiment, results):
        for name, side, variable in quantities:
            found = mean_of(variable).interval(results, labels)
            yield Cell(at=labels, quantity=name, side=side, unit=variable.unit, found=found)


def _points(experiment: Experiment, results: ExperimentResults) -> Iterator[Labels]:
    """The labels of the points in the order of `AXES`, and along each axis in the order of its values."""
    points = list(mean_of(experiment[MEASURES[SHARE]]).points(results))
    ranks = {label: {value: rank for rank, value in enumerate(experiment.values(label))} for label in AXES}
    for labels in sorted(points, key=lambda one: [ranks[label][one[label]] for label in AXES]):
        yield {label: labels[label] for label in AXES}


def tabulated(experiment: Experiment, results: ExperimentResults) -> pl.DataFrame:
    """A row for each point. Columns of measures of both sides show `first | second`."""
    rows: dict[tuple[Value, ...], dict[str, str]] = {}
    for one in _cells(experiment, results):
        row = rows.setdefault(tuple(one.at.values()), {})
        head = HEADS[one.quantity]
        row[head] = f"{row[head]} | {_text(one.found)}" if head in row else _text(one.found)
    return pl.DataFrame(
        [[*point, *(row[head] for head in HEADS.values())] for point, row in rows.items()],
        schema=[*AXES, *HEADS.values()],
        orient="row",
    )


HEADS: Mapping[str, str] = {
    "share": "share of first (%)",
    "jain": "Jain's index",
    "utilisation": "utilisation (%)",
    "delay": "mean delay (ms)",
    "p95-delay": "95 % delay (ms)",
    "drops": "loss (%)",
    "marks": "marks (%)",
    "median-time": "short, median (ms)",
    "p95-time": "short, 95 % (ms)",
}
"""The column headings of the table."""


def _text(found: Interval) -> str:
    if math.isnan(found.value):
        return "-"
    return stats.plus_minus(found.value, found.half_width) + ("*" if found.median else "")


def values(result: StudyResult) -> pl.DataFrame:
    """The estimates as numbers, one per row: the axes, `quantity`, `side` (`first`, `second`, or empty for
    all flows), `unit`, `value`, the ends `low` and `high` of the 95 % interval, the number of `seeds`, and
    whether the value is a `median`. Missing numbers are null."""
    rows = [
        (
            *(*one.at.values(), one.quantity, one.side, one.unit),
            *(one.found.value, one.found.low, one.found.high, one.found.count, one.found.median),
        )
        for one in cells(result)
    ]
    numbers = ("value", "low", "high")
    schema = [*AXES, "quantity", "side", "unit", *numbers, "seeds", "median"]
    frame = pl.DataFrame(
        rows, schema=schema, schema_overrides=dict.fromkeys(numbers, pl.Float64), orient="row"
    )
    return frame.with_columns(pl.col(*numbers).fill_nan(None))


def write(result: StudyResult, folder: Path) -> list[Path]:
    """Writes `values` as `coexist.csv` and `coexist.parquet` into a folder, and returns the files."""
    found = values(result)
    write_csv(folder / "coexist.csv", found)
    write_parquet(folder / "coexist.parquet", found)
    return [folder / "coexist.csv", folder / "coexist.parquet"]


def record(result: StudyResult) -> dict[str, Any]:
    """The results as printed by `--json`."""
    return {
        "replications": len(result.results[NAME].seeds),
        "values": metrics.finite(values(result).to_dicts()),
        "failures": [str(one) for one in result.failures],
        "report": str(result.report),
    }


def warnings(planned: Study) -> list[str]:
    """The warnings of all scenarios of a study, without duplicates."""
    sweep = planned.experiments[0].sweep("full")
    return list(dict.fromkeys(text for point in sweep.points() for text in sweep.scenario_of(point).warnings))


def _by_control(
    experiment: Experiment, results: ExperimentResults, name: str
) -> dict[tuple[Value, ...], Interval]:
    """The estimates of a measure by control, other control, queue, buffer and round-trip time, for both
    orders of each pair. For a control that is paired with itself, the estimate is that of the first side."""
    found: dict[tuple[Value, ...], Interval] = {}
    for one in _cells(experiment, results):
        if one.quantity != name:
            continue
        first, second, *setting = one.at.values()
        ordered = (first, second) if one.side == SIDES[0] else (second, first)
        found.setdefault((*ordered, *setting), one.found)
        if name == SHARE:
            found.setdefault((second, first, *setting), _rest(one.found))
    return found


def _rest(share: Interval) -> Interval:
    """The share of the second control, in percent."""
    return replace(share, value=100 - share.value, low=100 - share.high, high=100 - share.low)


def matrix(experiment: Experiment, name: str, results: ExperimentResults) -> Chart:
    """A panel for each queue, and a cell for each ordered pair of controls. With a single buffer and
    round-trip time, the rows and columns of a panel are controls; otherwise the rows are pairs, and the
    columns are the buffers and round-trip times."""
    axes = results[NAME].axes
    several = [axis for axis in ("buffer", "rtt") if len(axes[axis]) > 1]
    rows = []
    for (own, other, queue, *setting), found in _by_control(experiment, results, name).items():
        labels = dict(zip(("buffer", "rtt"), setting, strict=True))
        column = "\n".join(str(labels[axis]) for axis in several)
        index = [axes["first"].index(own), axes["first"].index(other)]
        index += [axes[axis].index(value) for axis, value in (("queue", queue), *labels.items())]
        place = (f"{own} beside {other}", column) if several else (str(own), str(other))
        rows.append((index, (str(queue), *place, found.value, found.low, found.high, _in_cell(found))))
    table = pl.DataFrame(
        [row for _, row in sorted(rows, key=lambda one: one[0])],
        schema=["queue", "row", "column", "value", "low", "high", "text"],
        orient="row",
    )
    names = {"buffer": "buffer", "rtt": "round-trip time"}
    _, label = SHOWN[name]
    return Chart(
        kind="matrix",
        table=table.with_columns(pl.col("value", "low", "high").fill_nan(None)),
        x="column",
        y="row",
        by="value",
        panel="queue",
        x_label=", ".join(names[axis] for axis in several) or "other control",
        y_label="" if several else "control",
        cells=Cells(label=label, limits=(0.0, 100.0), middle=50.0)
        if name == SHARE
        else Cells(label=label, log=name in LOGARITHMIC),
    )


def _in_cell(found: Interval) -> str:
    """The value, with half the width of its interval on a second line."""
    return _text(found).replace(" ± ", "\n± ")
