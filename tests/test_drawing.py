"""Charts that are drawn in several processes."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from aqmlab.charts import drawing
from aqmlab.charts.chart import Chart, save


def order(folder: Path, place: int, column: str = "y") -> drawing.Order:
    table = pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, float(place)], "by": ["RED", "RED"]})
    chart = Chart(kind="line", table=table, x="x", y=column, by="by", x_label="x", y_label="y")
    return drawing.Order(chart, folder, f"chart-{place}")


def test_charts_of_several_processes_are_those_of_one_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    orders = [order(tmp_path / "several", place) for place in range(2 * drawing.LEAST_CHARTS)]
    for one, saved in zip(orders, drawing.save_each(orders), strict=True):
        assert isinstance(saved, dict)
        alone = save(one.chart, tmp_path / "one", one.name)
        for ending, path in alone.items():
            assert saved[ending].name == path.name
            assert saved[ending].read_bytes() == path.read_bytes()


def test_this_process_draws_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(drawing.Order, "carry_out", lambda _: "here")
    orders = [order(tmp_path, place) for place in range(20 * drawing.LEAST_CHARTS)]
    saved = drawing.save_each(orders)
    assert "here" in saved


@pytest.mark.parametrize("count", [1, 2 * drawing.LEAST_CHARTS])
def test_a_chart_that_cannot_be_drawn_does_not_hide_the_others(tmp_path: Path, count: int) -> None:
    orders = [order(tmp_path, place, column="z" if place == 0 else "y") for place in range(count)]
    first, *others = drawing.save_each(orders, jobs=2)
    assert isinstance(first, str)
    assert first.startswith("ColumnNotFoundError: ")
    assert all(isinstance(saved, dict) for saved in others)


def test_a_process_that_has_ended_is_told(tmp_path: Path) -> None:
    other = drawing._Worker()
    other._process.kill()
    other._process.wait()
    assert other.carry_out(order(tmp_path, 0)) == "the drawing process has exited"
    other.end()
