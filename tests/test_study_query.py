"""Queries of studies: variables, estimates, laws and single runs as figures and tables show them."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from test_rule import LOADS, LOSS, TIME, made, tried

from aqmlab.measures import Reduction
from aqmlab.results.rule import difference, ratio
from aqmlab.results.table import Results, Row
from aqmlab.results.variable import per_seed
from aqmlab.stats import mean_interval
from aqmlab.study.charts import boxes, line
from aqmlab.study.query import formula, joined, means, of_runs, query, recorded_in, stacked
from aqmlab.study.tables import agree, crossed, listed, overview, paired, whole

RESULTS = made(lambda flows, queue: flows * {"red": 1.0, "drop-tail": 2.0}[queue])


def test_an_estimate_is_drawn_as_a_variable_is() -> None:
    slower = ratio(tried[TIME], queue=("drop-tail", "red"))
    table = means(slower, RESULTS, "flows")
    assert table["flows"].to_list() == list(LOADS)
    assert table["value"].to_list() == pytest.approx([2.0] * 3, rel=0.01)
    assert listed({"slower": slower}, "flows")(RESULTS)["slower"][0].startswith("1.99")
    with pytest.raises(
        ValueError, match=r"time, ratio of drop-tail to red: has the axes flows, but the axes shown are queue"
    ):
        line(slower, x="queue", by="queue", x_label="queue")


def test_queries_are_stacked_under_their_names_and_must_have_the_same_axes() -> None:
    both = stacked("measure", {"T": tried[TIME], "L": tried[LOSS]})
    table = means(both, RESULTS, "measure", "flows", "queue")
    assert table["measure"].unique(maintain_order=True).to_list() == ["T", "L"]
    assert table.height == 2 * means(tried[TIME], RESULTS, "flows", "queue").height
    with pytest.raises(ValueError, match=r"time \(s\) has the axes queue, and time \(s\) has flows, queue"):
        joined(tried[TIME], tried[TIME].at(flows=1))
    alike = joined(tried[TIME], query(tried[TIME].at(flows=1)).tagged(flows=9))
    assert means(alike, RESULTS, "flows", "queue")["flows"].unique().sort().to_list() == sorted({*LOADS, 9})


def test_axes_and_their_values_get_other_names() -> None:
    time = query(tried[TIME].at(queue="red"))
    assert means(time.relabelled(flows=lambda flows: 10 * flows), RESULTS, "flows")["flows"].to_list() == [
        10 * flows for flows in LOADS
    ]
    named = time.relabelled(flows={LOADS[0]: "few"}).renamed(flows="how many")
    assert means(named, RESULTS, "how many")["how many"].to_list() == ["few"]
    assert (
        means(time.where(lambda flows: flows > LOADS[0], "flows"), RESULTS, "flows").height == len(LOADS) - 1
    )
    for wrong in (
        lambda: time.relabelled(load={}),
        lambda: time.renamed(load="x"),
        lambda: time.where(bool, "load"),
        lambda: time.formula(float, "load"),
    ):
        with pytest.raises(ValueError, match="no axis is named `load`; available: flows"):
            wrong()


def test_a_law_stands_beside_what_is_measured_without_an_interval() -> None:
    exact = formula(lambda flows: None if flows == LOADS[-1] else 2.0 * flows, flows=LOADS)
    chart = line(
        stacked("of", {"runs": tried[TIME].at(queue="red"), "law": exact}),
        x="flows",
        by="of",
        x_label="flows",
        y_label="time (s)",
    )(RESULTS)
    found = chart.table.filter(of="law")
    assert found["value"].to_list() == [2.0 * flows for flows in LOADS[:-1]]
    assert found["low"].is_nan().all() and not chart.table.filter(of="runs")["low"].is_nan().any()
    alone = line(exact, x="flows", x_label="flows", y_label="s")(RESULTS)
    assert alone.by == "line" and "low" not in alone.table.columns


def test_a_law_at_the_points_of_a_query_is_asked_where_there_are_runs() -> None:
    few = query(tried[TIME].among(flows=LOADS[:2]))
    table = means(
        few.formula(lambda flows: 2 * flows if flows > LOADS[0] else None, "flows"), RESULTS, *few.axes
    )
    assert table["value"].to_list() == [2 * LOADS[1]] * 2
    assert table["queue"].to_list() == ["red", "drop-tail"] and table["low"].is_nan().all()


def test_lists_are_unrolled_along_an_axis_more() -> None:
    calls = []

    def upwards(time: float) -> list[float]:
        calls.append(time)
        return [time, 2 * time]

    several = per_seed("steps", upwards, tried[TIME]).unrolled("step", ["one", "two", "three"])
    assert several.axes == ("flows", "queue", "step")
    table = means(several.at(queue="red"), RESULTS, "flows", "step")
    assert table["step"].unique(maintain_order=True).to_list() == ["one", "two"], "there is no third"
    once, twice = (table.filter(step=step)["value"] for step in ("one", "two"))
    assert twice.to_list() == pytest.approx((2 * once).to_list())
    assert len(calls) == len(set(calls)), "each list is made once"
    apart = difference(several, step=("two", "one")).at(queue="red")
    assert means(apart, RESULTS, "flows")["value"].to_list() == pytest.approx(once.to_list())
    fewer = several.at(queue="red").among(step=["two"])
    assert means(fewer, RESULTS, "flows", "step")["step"].unique().to_list() == ["two"]
    with pytest.raises(ValueError, match="steps: `step` has no value 'four': available: 'one', 'two'"):
        several.at(step="four")


def test_an_interval_is_drawn_no_further_than_what_is_possible() -> None:
    draw = line(
        tried[TIME],
        x="flows",
        by="queue",
        x_label="flows",
        kind="curve",
        clip=(1.0, 2.0),
        y_limits=(0.0, 9.0),
    )
    table = draw(RESULTS).table
    assert (table["low"] >= 1.0).all() and (table["high"] <= 2.0).all()


def test_means_are_drawn_alone_where_no_intervals_are_wanted() -> None:
    table = line(tried[TIME], x="flows", by="queue", x_label="flows", intervals=False)(RESULTS).table
    assert table.columns == ["queue", "flows", "value", "seeds"]


def test_single_runs_tell_of_themselves() -> None:
    series = Reduction(prefix="t", of=lambda run: {}).measure("series", "a series")
    runs = Results.of_rows(
        rows=tuple(
            Row(labels={"flows": 1, "queue": "red"}, seed=seed, values={series.name: [seed, 2 * seed]})
            for seed in (3, 4, 5)
        ),
        axes={"flows": (1,), "queue": ("red",)},
    )

    def values(row: Row) -> list[tuple[dict[str, int], float]]:
        return [({"place": place}, value) for place, value in enumerate(row[series])]

    first = of_runs(tried, values, "place", queue="red")
    assert means(first, {"tried": runs}, "flows", "place")["value"].to_list() == [3, 6]
    named = means(first.tagged(queue="the first"), {"tried": runs}, "queue", "flows", "place")
    assert set(named["queue"]) == {"the first"}, "also where a value of the axis was chosen"
    two = of_runs(tried, values, "place", seeds=2, queue="red")
    assert means(two, {"tried": runs}, "seed", "flows", "place")["value"].to_list() == [3, 6, 4, 8]


def test_runs_from_elsewhere_may_lack_an_experiment() -> None:
    there = recorded_in(tried[TIME].at(queue="red"), lambda _: RESULTS)
    assert means(there, {}, "flows").height == len(LOADS)
    assert means(recorded_in(tried[TIME].at(queue="red"), lambda _: {}), RESULTS, "flows").is_empty()


def test_a_table_crosses_axes() -> None:
    table = crossed(tried[TIME], rows="flows", columns="queue", heads={"flows": "how many"})(RESULTS)
    assert table.columns == ["how many", "red", "drop-tail"]
    assert table["how many"].to_list() == list(LOADS)
    flat = crossed(tried[TIME], rows=("queue", "flows"), columns=(), format=lambda found: found.count)
    assert flat(RESULTS).height == 2 * len(LOADS)


def test_a_table_has_a_column_for_each_query_and_a_gap_where_one_has_nothing() -> None:
    columns = {"red": tried[TIME].at(queue="red"), "law": formula(lambda flows: 7, flows=LOADS[:1])}
    table = listed(columns, "flows")(RESULTS)
    assert table.columns == ["flows", "red", "law"]
    assert table["law"].to_list() == ["7", None, None]
    assert listed([tried[TIME], tried[LOSS]], "flows", "queue")(RESULTS).columns[2:] == ["time (s)", "loss"]
    with pytest.raises(ValueError, match=r"two of time \(s\), time \(s\) have the same name"):
        listed([tried[TIME], tried[TIME]], "flows", "queue")


def test_two_estimates_at_one_point_are_no_table() -> None:
    with pytest.raises(ValueError, match=r"time \(s\): has two estimates at one point"):
        crossed(joined(tried[TIME], tried[TIME]), rows="flows", columns="queue")(RESULTS)


def test_a_query_that_finds_nothing_is_an_empty_chart() -> None:
    nothing = query(tried[TIME]).where(lambda flows: False, "flows")
    drawn = line(nothing, x="flows", by="queue", x_label="flows", clip=(0.0, 1.0))(RESULTS)
    assert drawn.table.is_empty()


def test_an_overview_has_a_line_for_each_measure() -> None:
    table = overview([tried[TIME].at(flows=1), tried[LOSS].at(flows=1)], by="queue")(RESULTS)
    assert table.columns == ["measure", "red", "drop-tail"]
    assert table["measure"].to_list() == ["time (s)", "loss"]
    assert not math.isnan(float(table["red"][0].split()[0]))


def test_a_cell_may_be_a_whole_number() -> None:
    table = crossed(query(tried[TIME]).at(flows=2), rows="queue", columns=(), format=whole)(RESULTS)
    assert table.rows() == [("red", 2), ("drop-tail", 4)]


def test_a_query_at_a_value_has_one_axis_less() -> None:
    red = query(tried[TIME]).at(queue="red")
    assert red.axes == ("flows",)
    assert means(red, RESULTS, "flows").equals(means(tried[TIME].at(queue="red"), RESULTS, "flows"))
    with pytest.raises(ValueError, match="no axis is named `load`; available: flows, queue"):
        query(tried[TIME]).at(load=1)


def test_boxes_are_the_quartiles_of_the_replications_of_each_source() -> None:
    twice = made(lambda flows, queue: 2 * flows)
    nobody = {"tried": Results.of_rows([], RESULTS["tried"].axes)}
    sources = {"ours": lambda results: results, "theirs": lambda _: twice, "nobody's": lambda _: nobody}
    panels = {name: tried[TIME].at(queue=name) for name in ("red", "drop-tail")}
    chart = boxes(panels, sources, x="flows", panel="queue", x_label="flows at once")(RESULTS)
    assert (chart.x_label, chart.y_label) == ("flows at once", "time (s)")
    assert chart.table["from"].unique(maintain_order=True).to_list() == ["ours", "theirs"]
    flows = LOADS[1]
    (box,) = chart.table.filter(queue="red", flows=f"{flows:g}").filter(pl.col("from") == "theirs").rows()
    values = [row[TIME] for row in twice["tried"].rows_at(queue="red", flows=flows)]
    assert (box[3], box[5], box[7]) == (min(values), pytest.approx(np.median(values)), max(values))


def test_two_queries_stand_in_a_cell_with_a_sign_that_says_whether_they_agree() -> None:
    time = tried[TIME].at(queue="red")
    others = {1.0: "=", 1.05: "=", 2.0: "≠"}
    for factor, sign in others.items():
        other = recorded_in(time, lambda _, factor=factor: made(lambda flows, queue: factor * flows))
        table = paired([(time, other)], "flows", heads={"flows": "how many"})(RESULTS)
        assert table.columns == ["how many", "time (s)"]
        assert len(table) == len(LOADS)
        for cell in table["time (s)"]:
            assert cell.count(" | ") == 1
            assert cell.endswith(sign)
    few = query(time).where(lambda flows: flows == LOADS[0], "flows")
    assert (
        paired([(time, time), (tried[LOSS].at(queue="red"), few)], "flows")(RESULTS)["loss"].null_count() == 2
    )
    with pytest.raises(ValueError, match="the axes shown are queue"):
        paired([(time, time)], "queue")


def test_means_agree_within_a_tenth_or_where_intervals_overlap() -> None:
    def alike(ours: list[float], theirs: list[float]) -> bool:
        return agree(mean_interval(ours), mean_interval(theirs))

    assert alike([10.0, 10.001], [10.9, 10.901])
    assert not alike([10.0, 10.001], [11.5, 11.501])
    assert alike([8.0, 12.0], [9.0, 15.0])
