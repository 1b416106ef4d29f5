"""Figures of the drop functions of queue disciplines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.results.table import ExperimentResults
from aqmlab.study.charts import Draws


def drop_functions(
    lines: Mapping[str, tuple[Mapping[str, Any], Sequence[Any]]], longest: int, **options: Any
) -> Draws:
    """A chart of the drop probability against the average queue, from zero to `longest` packets, computed by
    the disciplines' code.

    Each line consists of a discipline and the properties of the packet that `drop_curve` needs: its window
    divided by the average window, and its class. `options` are those of `Chart`.
    """
    from aqmlab._core import drop_curve

    averages = [float(length) for length in range(longest + 1)]

    def draw(_: ExperimentResults) -> Chart:
        frames = []
        for name, (queue, packet) in lines.items():
            curve = drop_curve(json.dumps(queue), averages, *packet)
            frames.append(pl.DataFrame({"line": name, "average_packets": averages, "probability": curve}))
        return Chart(
            kind="curve", table=pl.concat(frames), x="average_packets", y="probability", by="line", **options
        )

    return draw
