"""Charts: what is saved is what is drawn, the same bytes each time."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import polars as pl
import pytest

from aqmlab.charts import chart as plot
from aqmlab.charts import style as plot_style
from aqmlab.charts.chart import Chart
from aqmlab.charts.style import Look, colours, inches
from aqmlab.scenario.catalog import members

TABLE = pl.DataFrame(
    {
        "queue": ["Drop Tail", "Drop Tail", "RED", "RED"],
        "x": [1.0, 2.0, 1.0, 2.0],
        "value": [3.0, 4.0, 2.0, 2.5],
        "low": [2.5, 3.0, math.nan, 2.0],
        "high": [3.5, 5.0, math.nan, 3.0],
    }
)


def chart(kind: plot.Kind, table: pl.DataFrame = TABLE, **more: object) -> Chart:
    return Chart(
        kind=kind, table=table, x="x", y="value", by="queue", x_label="load (%)", y_label="time (s)", **more
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cdf", "tail", "line", "bars", "curve"])
def test_every_kind_is_saved_in_three_forms(kind: plot.Kind, tmp_path: Path) -> None:
    paths = plot.save(chart(kind), tmp_path, "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.csv", "one.png", "one.svg"]
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths["svg"].read_text()
    assert pl.read_csv(paths["csv"]).equals(TABLE, null_equal=True)


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    first = plot.save(chart("line", log_x=True), tmp_path / "a", "one")
    second = plot.save(chart("line", log_x=True), tmp_path / "b", "one")
    for ending in ("svg", "png", "csv"):
        assert first[ending].read_bytes() == second[ending].read_bytes(), ending


def test_lines_hold_the_numbers_of_the_table() -> None:
    axis = plot.draw(chart("curve")).axes[0]
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axis.lines}  # type: ignore[union-attr]
    assert drawn == {"Drop Tail": [3.0, 4.0], "RED": [2.0, 2.5]}


def test_bars_stand_at_the_heights_of_the_table() -> None:
    axis = plot.draw(chart("bars")).axes[0]
    assert [bar.get_height() for bar in axis.patches] == [3.0, 4.0, 2.0, 2.5]  # type: ignore[attr-defined]


def test_a_queue_has_its_colour_in_every_chart() -> None:
    only = plot.draw(chart("curve", TABLE.filter(pl.col("queue") == "RED"))).axes[0]
    both = plot.draw(chart("curve")).axes[0]
    assert only.lines[0].get_color() == both.lines[1].get_color() == plot_style.COLOURS["RED"]


def test_axes_carry_their_labels_and_distributions_end_at_one() -> None:
    axis = plot.draw(chart("cdf")).axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_ylim()) == ("load (%)", "time (s)", (0.0, 1.0))


def test_panels_split_the_table() -> None:
    table = TABLE.with_columns(pl.Series("mix", ["a", "b", "a", "b"]))
    axes = plot.draw(chart("bars", table, panel="mix")).axes
    assert [axis.get_title(loc="left") or axis.get_title() for axis in axes] == ["a", "b"]
    assert [len(axis.patches) for axis in axes] == [2, 2]


def test_lines_with_a_panel_each_look_alike() -> None:
    table = TABLE.with_columns(pl.Series("mix", ["a", "b", "a", "b"]))
    alike = dataclasses.replace(chart("curve", table, panel="mix"), by="mix")
    (first,), (second,) = (axis.lines for axis in plot.draw(alike).axes)
    assert first.get_color() == second.get_color()
    assert first.get_linestyle() == second.get_linestyle() == "-"


def test_zeros_do_not_disturb_a_logarithmic_axis(tmp_path: Path) -> None:
    table = TABLE.with_columns(pl.Series("value", [0.0, 4.0, 2.0, 0.0]))
    paths = plot.save(chart("tail", table, log_y=True), tmp_path, "one")
    assert pl.read_csv(paths["csv"])["value"].to_list() == [0.0, 4.0, 2.0, 0.0]


def test_many_panels_stand_in_rows_and_a_guide_of_one_panel_in_that_only() -> None:
    many = pl.concat([TABLE.with_columns(pl.lit(f"{load} %").alias("load")) for load in range(7)])
    figure = plot.draw(chart("curve", many, panel="load", panel_guides={"4 %": {"here": 1.5}}))
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title(loc="left") or axis.get_title() for axis in shown] == [f"{k} %" for k in range(7)]
    assert len({round(axis.get_position().y0, 3) for axis in shown}) == 3
    assert [text.get_text() for axis in shown for text in axis.texts] == ["here"]
    assert [text.get_text() for text in shown[4].texts] == ["here"]


def test_a_panel_may_have_an_axis_of_its_own() -> None:
    two = pl.concat([TABLE.with_columns(pl.lit(name).alias("load")) for name in ("low", "high")])
    limits = {"x_limits": (0.0, 9.0), "panel_x_limits": {"low": (0.0, 3.0)}}
    figure = plot.draw(chart("curve", two, panel="load", **limits))
    assert [axis.get_xlim() for axis in figure.axes] == [(0.0, 3.0), (0.0, 9.0)]


BOXES = pl.DataFrame(
    {
        "from": ["ours", "ours", "theirs"],
        "start": ["0", "2", "2"],
        "least": [1.0, 2.0, 3.0],
        "q25": [2.0, 3.0, 4.0],
        "median": [3.0, 4.0, 5.0],
        "q75": [4.0, 5.0, 6.0],
        "most": [9.0, 9.0, 9.0],
    }
)


def test_boxes_span_the_quartiles_and_those_measured_elsewhere_are_hollow() -> None:
    drawn = Chart(
        kind="boxes", table=BOXES, x="start", y="median", by="from", beside={"theirs": "ours"},
        x_label="start (s)", y_label="time (s)",
    )  # fmt: skip
    axis = plot.draw(drawn).axes[0]
    spans = [box.get_path().get_extents().intervaly.tolist() for box in axis.patches]
    assert spans == [[2.0, 4.0], [3.0, 5.0], [4.0, 6.0]]
    ours, _, theirs = axis.patches
    assert ours.get_edgecolor() == theirs.get_edgecolor()
    assert theirs.get_facecolor() == (1.0, 1.0, 1.0, 1.0)


def test_means_measured_elsewhere_are_marks_without_a_line() -> None:
    table = TABLE.with_columns(pl.Series("queue", ["RED", "RED", "RED (kernel)", "RED (kernel)"]))
    axis = plot.draw(chart("line", table, beside={"RED (kernel)": "RED"})).axes[0]
    lines = {line.get_label(): line for line in axis.lines}
    assert lines["RED (kernel)"].get_linestyle() == "None"
    assert lines["RED (kernel)"].get_color() == lines["RED"].get_color()
    without = plot.draw(chart("line", table.drop("low", "high"), beside={"RED (kernel)": "RED"})).axes[0]
    assert [line.get_marker() for line in without.lines] == ["o", "D"]


def test_a_chart_is_saved_as_pdf_whose_text_is_text(tmp_path: Path) -> None:
    first, second = (
        plot.save(chart("curve"), tmp_path / folder, "one", pictures=["pdf"]) for folder in ("a", "b")
    )
    assert sorted(first) == ["csv", "pdf"]
    assert first["pdf"].read_bytes().startswith(b"%PDF-")
    assert first["pdf"].read_bytes() == second["pdf"].read_bytes()
    assert b"/FontFile2" in first["pdf"].read_bytes(), "letters are those of a font, not outlines"
    svg = plot.save(chart("curve"), tmp_path, "two", pictures=["svg"])["svg"].read_text()
    assert "load (%)</text>" in svg


def test_every_path_that_is_returned_exists(tmp_path: Path) -> None:
    paths = plot.save(chart("curve"), tmp_path, "one", pictures=["pdf", "png", "svg"])
    assert all(path.is_file() for path in paths.values())
    assert set(paths) == {"pdf", "png", "svg", "csv"}
    for wrong, said in (
        (["gif"], "no format is named `gif`; available: svg, png, pdf"),
        ("pdf", r'write \["pdf"\]'),
    ):
        with pytest.raises(ValueError, match=said):
            plot.save(chart("curve"), tmp_path / "new", "one", pictures=wrong)
    assert not (tmp_path / "new").exists()


def test_a_width_is_that_of_the_picture_and_its_text_stays_legible() -> None:
    import matplotlib as mpl

    look = Look(width_in=3.5)
    settings = look.settings(plot.natural_width(chart("curve")))
    with mpl.rc_context(settings):
        figure = plot.draw(chart("curve"), look)
    assert figure.get_size_inches()[0] == 3.5
    assert plot_style.SMALLEST_TYPE <= settings["font.size"] < 10.0
    assert Look().settings(5.8)["font.size"] == 10.0
    assert [round(inches(text), 3) for text in ("3.5in", "88.9 mm", "8.89cm", "252.945pt")] == [3.5] * 4


@pytest.mark.parametrize("width", ["3.5", "wide", "-1in", "0in", "900cm"])
def test_a_width_that_makes_no_sense_is_refused(width: str) -> None:
    with pytest.raises(ValueError, match=rf"--width: must be .* \(got {width}\)"):
        Look.parsed(width, None)


def test_a_font_is_used_or_refused_with_the_nearest_name(tmp_path: Path) -> None:
    paths = plot.save(
        chart("curve"), tmp_path, "one", pictures=["svg"], look=Look.parsed(None, "DejaVu Serif")
    )
    assert "DejaVu Serif" in paths["svg"].read_text()
    with pytest.raises(
        ValueError, match="--font DejaVu Serf: the font is not installed: did you mean DejaVu Serif"
    ):
        Look.parsed(None, "DejaVu Serf")


def test_a_chart_shows_itself_in_a_notebook() -> None:
    assert chart("curve")._repr_png_().startswith(b"\x89PNG")
    assert "<svg" in chart("curve")._repr_svg_()


def test_a_name_has_one_colour_whatever_is_drawn_beside() -> None:
    assert colours(["codel"])["codel"] == colours(["red", "drop-tail", "codel"])["codel"]
    alone = {name: colours([name])[name] for name in ("mine", "yours", "theirs")}
    assert colours(["mine", "red"])["mine"] == alone["mine"]
    many = [f"queue-{number}" for number in range(12)]
    assert len(set(colours(many).values())) == len(many), "names of one chart are told apart"


def test_queues_that_are_often_compared_differ_in_colour() -> None:
    often = ["drop-tail", "red", "adaptive-red", "shred", "codel", "fq-codel", "cake", "cobalt"]
    often += ["pie", "docsis-pie", "fq-pie", "dualpi2", "fq", "sfq", "blue"]
    assert len({plot_style.COLOURS[name] for name in often}) == len(often)
    assert set(often) <= {one.name for one in members("queues")}
