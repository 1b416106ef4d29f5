"""The figures of report cards: goodput against delay, an ellipse for each queue (RFC 7928, section 4)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aqmlab import stats
from aqmlab.experiment import Experiment
from aqmlab.plot import Chart
from aqmlab.publication import Figure
from aqmlab.report_card.measures import of
from aqmlab.runs import Results, number
from aqmlab.study_charts import Draws

ELLIPSES: Mapping[str, Mapping[str, str]] = {
    "5.1.1": {"long": "the flow"},
    "5.2": {"long": "the flow"},
    "5.3b": {"long": "TCP", "datagrams": "datagrams"},
    "5.4": {"long": "NewReno"},
    "8.2.2": {"long": "all flows"},
    "8.2.3": {"long": "all flows"},
    "8.2.4": {"long": "all flows"},
    "8.2.6": {"long": "all flows"},
    "9.2": {"down": "down", "up": "up"},
    "10.2": {"a": "both queues", "b": "the second queue"},
}
"""By section, the workloads of which an ellipse is drawn, and what they are called."""


def figures(experiments: Mapping[str, Experiment]) -> tuple[Figure, ...]:
    """The figures of these experiments, which are found by the numbers of their sections."""
    return tuple(
        Figure(
            id=section,
            title=f"{experiments[section].title} (RFC 7928, {section})",
            caption="Goodput against mean queueing delay: the median of the runs, and the contour of one "
            "standard "
            "deviation of the normal distribution in two dimensions that fits them.",
            chart=ellipses(experiments[section], workloads),
        )
        for section, workloads in ELLIPSES.items()
        if section in experiments
    )


def ellipses(experiment: Experiment, workloads: Mapping[str, str]) -> Draws:
    """Goodput against delay with an ellipse for each queue, and a panel for each workload and point of the
    other axes."""

    def draw(results: Results) -> Chart:
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in results[experiment.name].rows:
            said = [str(value) for label, value in row.labels.items() if label != "queue"]
            for traffic, name in workloads.items():
                panel = ", ".join([*said, *([name] if len(workloads) > 1 else [])])
                point = number(row[of(traffic, "delay")]), number(row[of(traffic, "goodput")])
                found.setdefault((panel, str(row.labels["queue"])), []).append(point)
        rows = [
            (panel, queue, part, x, y)
            for (panel, queue), points in found.items()
            for part, x, y in stats.ellipse(points)
        ]
        schema = ["panel", "queue", "part", "delay_ms", "goodput_mbps"]
        return Chart(
            kind="ellipses",
            table=pl.DataFrame(rows, schema=schema, orient="row"),
            x="delay_ms",
            y="goodput_mbps",
            by="queue",
            panel="panel",
            x_label="mean queueing delay (ms)",
            y_label="goodput (Mb/s)",
        )

    return draw
