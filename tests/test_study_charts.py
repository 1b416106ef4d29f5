"""Figures and tables of studies: variables and estimates against axes."""

from __future__ import annotations

import pytest
from test_rule import LOADS, LOSS, TIME, made, tried

from aqmlab.rule import ratio
from aqmlab.study_charts import crossed, line, means, shown, stacked

RESULTS = made(lambda flows, queue: flows * {"red": 1.0, "drop-tail": 2.0}[queue])


def test_an_estimate_is_drawn_as_a_variable_is() -> None:
    slower = ratio(tried[TIME], queue=("drop-tail", "red"))
    table = means(slower, RESULTS, "flows")
    assert table["flows"].to_list() == list(LOADS)
    assert table["value"].to_list() == pytest.approx([2.0] * 3, rel=0.01)
    assert shown(slower, RESULTS, {"flows": 1}).startswith("1.99")
    with pytest.raises(ValueError, match=r"time, drop-tail/red: has the axes flows, drawn are queue"):
        line(slower, x="queue", by="queue", x_label="queue")


def test_variables_are_stacked_under_their_names() -> None:
    table = stacked({"T": tried[TIME], "L": tried[LOSS]}, RESULTS, "flows", "queue", column="measure")
    assert table.columns[0] == "measure"
    assert table["measure"].unique(maintain_order=True).to_list() == ["T", "L"]
    assert table.height == 2 * means(tried[TIME], RESULTS, "flows", "queue").height


def test_a_table_crosses_two_axes() -> None:
    table = crossed(tried[TIME], rows="flows", columns="queue", title="flows")(RESULTS)
    assert table.columns == ["flows", "red", "drop-tail"]
    assert table["flows"].to_list() == list(LOADS)
