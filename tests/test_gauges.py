"""Gauges: what disciplines show of their state is recorded and drawn by the names that they give it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.charts import chart as plot
from aqmlab.run_charts import gauges


@pytest.fixture
def newcomer() -> pl.DataFrame:
    """The samples of a discipline and of an edge with gauges that nobody knows."""
    return pl.DataFrame(
        {
            "time_s": [0.1, 0.1, 0.1, 0.2, 0.2, 0.2],
            "link": ["bottleneck", "bottleneck", None] * 2,
            "node": [None, None, "left"] * 2,
            "name": ["sojourn_time", "gain", "age"] * 2,
            "value": [0.25, 3.0, 7.0, 0.5, 4.0, 8.0],
            "unit": ["s", None, "s"] * 2,
        },
        schema_overrides={"link": pl.Categorical, "name": pl.Categorical, "unit": pl.Categorical},
    )


def test_a_gauge_that_nobody_knows_is_drawn_with_its_unit(newcomer: pl.DataFrame, tmp_path: Path) -> None:
    chart = gauges.chart(newcomer, "sojourn_time")
    assert chart.y_label == "sojourn time (s)"
    assert chart.table.rows() == [("bottleneck", 0.1, 0.25), ("bottleneck", 0.2, 0.5)]
    assert gauges.chart(newcomer, "gain").y_label == "gain"
    written = plot.save(chart, tmp_path, "drawn", pictures=["svg"])
    assert pl.read_csv(written["csv"])["sojourn_time"].to_list() == [0.25, 0.5]


def test_gauges_of_a_unit_share_a_panel_and_panels_stand_one_beneath_another(
    newcomer: pl.DataFrame, tmp_path: Path
) -> None:
    chart = gauges.chart(newcomer, "gain", "sojourn_time", location="bottleneck")
    assert list(chart.beneath.values()) == ["gain", "sojourn time (s)"]
    assert chart.table.rows() == [
        ("gain", "gain", 0.1, 3.0),
        ("gain", "gain", 0.2, 4.0),
        ("sojourn time (s)", "sojourn time", 0.1, 0.25),
        ("sojourn time (s)", "sojourn time", 0.2, 0.5),
    ]
    both = gauges.chart(newcomer, "sojourn_time", "age", "gain")
    assert list(both.beneath.values()) == ["sojourn time, age (s)", "gain"]
    assert set(both.table["gauge"]) == {"bottleneck, sojourn time", "left, age", "bottleneck, gain"}
    figure = plot.draw(both)
    upper, lower = figure.axes
    assert [upper.get_ylabel(), lower.get_ylabel()] == list(both.beneath.values())
    assert not upper.get_xlabel() and lower.get_xlabel() == "time (s)"
    assert upper.get_xlim() == lower.get_xlim() and upper.get_ylim() != lower.get_ylim()
    assert plot.save(both, tmp_path, "drawn", pictures=["png"])["png"].is_file()


def test_gauges_without_a_unit_have_a_panel_each(newcomer: pl.DataFrame) -> None:
    bare = newcomer.with_columns(unit=pl.lit(None, pl.Categorical))
    chart = gauges.chart(bare, "gain", "sojourn_time", location="bottleneck")
    assert list(chart.beneath.values()) == ["gain", "sojourn time"]
    assert len(plot.draw(chart).axes) == 2


def test_the_gauges_of_a_place_are_a_table_with_a_column_each(newcomer: pl.DataFrame) -> None:
    of_link = gauges.at(newcomer, link="bottleneck")
    assert of_link.to_dict(as_series=False) == {
        "time_s": [0.1, 0.2],
        "sojourn_time": [0.25, 0.5],
        "gain": [3.0, 4.0],
    }
    assert gauges.at(newcomer, node="left").columns == ["time_s", "age"]


def test_what_is_not_there_is_told_with_what_is(newcomer: pl.DataFrame) -> None:
    with pytest.raises(LookupError, match=r"no gauge is named `average`; available: sojourn_time, gain, age"):
        gauges.chart(newcomer, "average")
    with pytest.raises(LookupError, match=r"named `right`; available: bottleneck, left"):
        gauges.chart(newcomer, "age", location="right")
    with pytest.raises(LookupError, match=r"record\.queue_every"):
        gauges.chart(newcomer.clear(), "age")


def test_the_average_of_a_run_is_in_the_unit_of_its_thresholds(small: Path) -> None:
    run = al.Scenario.load(small).run()
    assert gauges.chart(run.tables["gauges"], "average").y_label == "average (packets)"
    of_link = gauges.at(run.tables["gauges"], link="bottleneck")
    queue = run.tables["queue"].filter(pl.col("link").cast(pl.String) == "bottleneck")
    assert of_link["time_s"].to_list() == queue["time_s"].to_list()
    assert 0 < of_link["average"].max() < queue["length_packets"].max()


def test_the_command_draws_from_a_scenario_and_from_a_folder(cli: Cli, small: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    cli("run", small, "--out", kept)
    for place, source in enumerate([small, kept]):
        out = tmp_path / f"{place}.svg"
        done = cli("plot", "gauge", source, "--name", "probability", "--at", "bottleneck", "--out", out)
        assert done.returncode == 0, done.stderr
        assert out.is_file()
    assert (tmp_path / "0.csv").read_text() == (tmp_path / "1.csv").read_text()
    out = tmp_path / "two.svg"
    done = cli("plot", "gauge", kept, "--name", "probability", "--name", "average", "--out", out)
    assert done.returncode == 0, done.stderr
    assert set(pl.read_csv(tmp_path / "two.csv")["panel"]) == {"probability", "average (packets)"}
    wrong = cli("plot", "gauge", kept, "--name", "colour")
    assert wrong.returncode != 0
    assert "no gauge is named `colour`; available: average, probability" in wrong.stderr
