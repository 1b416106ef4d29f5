"""One house style and eight kinds of chart.

A [`Chart`] is a small table and how to look at it; drawing adds nothing to it. Saved charts are an
SVG, a PNG and a CSV of exactly what is drawn, the same bytes for the same table.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from aqmlab.files import write_bytes, write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Kind = Literal["cdf", "tail", "line", "bars", "curve", "marks", "boxes", "ellipses"]

COLOURS: Mapping[str, str] = {
    "Drop Tail": "#0072B2",
    "drop-tail": "#0072B2",
    "RED": "#D55E00",
    "red": "#D55E00",
    "SHRED": "#009E73",
    "shred": "#009E73",
    "RIO-PS": "#882255",
    "rio-ps": "#882255",
    "ARED": "#E69F00",
    "ARED+ECN": "#17807E",
    "FIFO": "#0072B2",
    "aqmlab": "#0072B2",
    "Tail Drop": "#0072B2",
    "Tail Drop, bytes": "#0072B2",
    "Tail Drop, packets": "#56B4E9",
    "Tail Drop + DS": "#009E73",
    "RED + DS": "#CC79A7",
    "FQ": "#117733",
    "uncongested": "#6E6E6E",
    "live": "#8C6BB1",
    "simulated": "#E69F00",
    "recorded": "#444444",
}
"""Colours of queues, the same in every figure, from the colour-blind safe set of Okabe and Ito; and of
where runs are from."""

MOST_IN_A_ROW = 5
"""Panels side by side."""

_SPARE = ("#CC79A7", "#56B4E9", "#E69F00", "#8C6BB1", "#000000", "#B8860B", "#17807E", "#A50F15")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

_STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10.0,
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#9A9A9A",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "lines.linewidth": 1.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "aqmlab",
}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How one group of a chart of marks looks."""

    colour: str
    shape: Literal["bar", "dot", "cross", "steps"]
    """A bar stands from `y` to the column `end`, a dot or a cross halfway between; steps join the `y`."""
    width: float = 1.6
    layer: int = 3
    """Higher ones cover lower ones."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A table and how to draw it.

    Columns named by `x`, `y` and `by` are drawn; `low` and `high`, where the table has them, are
    the ends of the interval of `y`; boxes have `y` for the median and four more columns, `least`, `q25`,
    `q75` and `most`; ellipses have a column `part`, `centre` in one row of each group and `contour` in the
    others, in their order. `panel`, where given, splits the chart side by side, and into rows of
    three where there are many panels; with `beneath` into panels one beneath another.
    """

    kind: Kind
    table: pl.DataFrame
    x: str
    y: str
    by: str
    x_label: str
    y_label: str
    panel: str | None = None
    beside: Mapping[str, str] = field(default_factory=dict)
    """Groups measured elsewhere, and whose colour each has: hollow marks without a line (lines), hollow
    boxes (boxes)."""
    overlaid: bool = False
    """Bars: one place for each x, coloured by its group, instead of a place for each group."""
    log_x: bool = False
    log_y: bool = False
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    panel_x_limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """In place of `x_limits`, where a panel needs its own."""
    guides: Mapping[str, float] = field(default_factory=dict)
    """Labelled lines at values of x, such as the initial time-out."""
    panel_guides: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The same for one panel each."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Labelled lines at values of y, such as a published value."""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """Marks: how each group looks, in the order of the legend."""
    beneath: Mapping[str, str] = field(default_factory=dict)
    """Panels that stand one beneath another share their x and have a y axis each, which says this instead of
    `y_label`."""


def save(
    chart: Chart, folder: Path, name: str, *, pictures: Collection[str] = ("svg", "png")
) -> dict[str, Path]:
    """Writes `name.svg`, `name.png` and `name.csv` into `folder`, or fewer `pictures`."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    folder.mkdir(parents=True, exist_ok=True)
    paths = {ending: folder / f"{name}.{ending}" for ending in (*pictures, "csv")}
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = draw(chart)
        # `Figure.savefig` would draw everything once more before, for the layout by itself.
        if "svg" in paths:
            picture = io.BytesIO()
            canvas: Any = FigureCanvasSVG(figure)
            canvas.print_svg(picture, metadata={"Date": None, "Creator": "aqmlab"})
            write_bytes(paths["svg"], picture.getvalue())
            figure.set_layout_engine("none")  # It is kept: a second layout takes longer than drawing.
        if "png" in paths:
            picture = io.BytesIO()
            figure.set_dpi(160)
            canvas = FigureCanvasAgg(figure)
            canvas.print_png(picture, metadata={"Software": "aqmlab"})
            write_bytes(paths["png"], picture.getvalue())
    write_csv(paths["csv"], chart.table)
    return paths


def save_all(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """Writes each chart as `save` does, under its name; returns the files."""
    return [path for name, chart in charts.items() for path in save(chart, folder, name).values()]


def draw(chart: Chart) -> Figure:
    """The chart as a figure, in the style that is current."""
    from matplotlib.figure import Figure

    panels = [None] if chart.panel is None else chart.table[chart.panel].unique(maintain_order=True).to_list()
    is_column = bool(chart.beneath)
    columns = 1 if is_column else len(panels) if len(panels) <= MOST_IN_A_ROW else 3
    lines = -(-len(panels) // columns)
    width = 3.4 * columns if columns > 1 else 7.6 if is_column or chart.kind == "marks" else 5.8
    height = 3.8 if lines == 1 else (2.2 if is_column else 2.8) * lines
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=is_column, sharey=not is_column, squeeze=False).ravel()
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    groups = chart.table[chart.by].unique(maintain_order=True).to_list()
    for place, (panel, axis) in enumerate(zip(panels, axes, strict=False)):
        table = chart.table if panel is None else chart.table.filter(pl.col(chart.panel or "") == panel)
        if chart.kind == "bars":
            _bars(axis, chart, table, groups)
        elif chart.kind == "marks":
            _marks(axis, chart, table)
        elif chart.kind == "boxes":
            _boxes(axis, chart, table, groups)
        elif chart.kind == "ellipses":
            _ellipses(axis, chart, table, groups)
        else:
            _lines(axis, chart, table, groups)
        _dress(axis, chart, str(panel), first=place % columns == 0)
        if is_column:
            axis.label_outer()
        elif panel is not None:
            axis.set_title(str(panel))
    shown: dict[str, Any] = {}
    for axis in axes:  # A group may be missing in a panel.
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    labels = [name for name in chart.marks if name in shown] or list(shown)
    if chart.panel == chart.by:  # The titles say it.
        return figure
    in_a_row = 5 if width > 7 and chart.kind == "marks" else 4
    columns = len(labels) if len(labels) <= in_a_row else 3
    handles = [shown[label] for label in labels]
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
    return figure


def colour(name: str, place: int) -> str:
    """The colour of a line: fixed for queues, by its place for others."""
    return COLOURS.get(name, _SPARE[place % len(_SPARE)])


def _lines(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    here = [group for group in groups if group in table[chart.by]]
    for number, group in enumerate(groups):
        # Lines that have a panel each look alike: the titles tell them apart.
        place = 0 if chart.panel == chart.by else number
        rows = table.filter(pl.col(chart.by) == group).drop_nulls(chart.y).sort(chart.x)
        if chart.log_y:
            rows = rows.filter(pl.col(chart.y) > 0)
        if rows.height == 0:
            continue
        x, y = rows[chart.x].to_numpy(), rows[chart.y].to_numpy()
        model = chart.beside.get(str(group))
        if model is not None:
            _mark(axis, chart, rows, (str(group), colour(model, groups.index(model))))
            continue
        tint = colour(str(group), place)
        marked = chart.kind == "line"
        # A queue's own line shows beneath lines of other things that may lie on it.
        crossed = not marked and any(str(other) not in COLOURS for other in groups)
        axis.plot(
            x,
            y,
            color=tint,
            label=str(group),
            linestyle=_dash(str(group), here.index(group) if chart.beneath else place, marked=marked),
            linewidth=1.2 if chart.beneath else 3.2 if crossed and str(group) in COLOURS else None,
            marker=_MARKERS[place % len(_MARKERS)] if marked else None,
            markersize=5.0,
        )
        _interval(axis, chart, rows, tint)


def _mark(axis: Axes, chart: Chart, rows: pl.DataFrame, told: tuple[str, str]) -> None:
    """What was measured elsewhere: hollow diamonds with their intervals."""
    label, tint = told
    _interval(axis, chart, rows, tint)
    axis.plot(
        rows[chart.x].to_numpy(),
        rows[chart.y].to_numpy(),
        color=tint,
        label=label,
        linestyle="none",
        marker="D",
        markersize=7.0,
        markerfacecolor="white",
        markeredgewidth=1.4,
    )


def _dash(group: str, place: int, *, marked: bool) -> Any:
    """Queues are told apart by colour, others and lines with marks by their dashes as well."""
    if group == "uncongested":
        return (0, (4, 2))
    if group.endswith("+ECN"):  # Lies on the one that drops where marking makes no difference.
        return _DASHES[1]
    return "-" if group in COLOURS and not marked else _DASHES[place % len(_DASHES)]


def _interval(axis: Axes, chart: Chart, rows: pl.DataFrame, tint: str) -> None:
    if not {"low", "high"} <= set(rows.columns):
        return
    known = rows.filter(pl.col("low").is_not_nan() & pl.col("high").is_not_nan())
    if known.height == 0:
        return
    x, low, high = known[chart.x].to_numpy(), known["low"].to_numpy(), known["high"].to_numpy()
    if chart.kind == "line":
        y = known[chart.y].to_numpy()
        axis.errorbar(x, y, yerr=[y - low, high - y], fmt="none", ecolor=tint, elinewidth=1.1, capsize=3.0)
    else:
        axis.fill_between(x, low, high, color=tint, alpha=0.16, linewidth=0)


def _places(chart: Chart, rows: pl.DataFrame, shift: float) -> list[float]:
    """Where the rows of a group stand: one place for each x, and the groups side by side."""
    places = chart.table[chart.x].unique(maintain_order=True).to_list()
    return [places.index(value) + shift for value in rows[chart.x].to_list()]


def _dress_places(axis: Axes, chart: Chart) -> None:
    places = chart.table[chart.x].unique(maintain_order=True).to_list()
    axis.set_xticks(range(len(places)), [str(value) for value in places])
    axis.set_xlim(-0.6, len(places) - 0.4)
    axis.grid(visible=False, axis="x")


def _boxes(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    from matplotlib.colors import to_rgba

    width = 0.8 / max(1, len(groups))
    for place, group in enumerate(groups):
        model = chart.beside.get(str(group))
        tint = colour(str(group), place) if model is None else colour(model, groups.index(model))
        inside = to_rgba(tint, 0.3) if model is None else "white"
        rows = table.filter(pl.col(chart.by) == group)
        boxes = [
            {
                "med": row[chart.y],
                "q1": row["q25"],
                "q3": row["q75"],
                "whislo": row["least"],
                "whishi": row["most"],
            }
            for row in rows.iter_rows(named=True)
        ]
        line = {"color": tint, "linewidth": 1.2}
        drawn = axis.bxp(
            boxes,
            positions=_places(chart, rows, (place - (len(groups) - 1) / 2) * width),
            widths=width * 0.8,
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            boxprops={"facecolor": inside, "edgecolor": tint, "linewidth": 1.2},
            medianprops={"color": tint, "linewidth": 2.2},
            whiskerprops=line,
            capprops=line,
        )
        for box in drawn["boxes"][:1]:
            box.set_label(str(group))
    _dress_places(axis, chart)


def _bars(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    width = 0.62 if chart.overlaid else 0.8 / max(1, len(groups))
    for place, group in enumerate(groups):
        rows = table.filter(pl.col(chart.by) == group)
        at = _places(chart, rows, 0.0 if chart.overlaid else (place - (len(groups) - 1) / 2) * width)
        y = rows[chart.y].to_numpy()
        error = None
        if {"low", "high"} <= set(rows.columns):
            error = [y - rows["low"].to_numpy(), rows["high"].to_numpy() - y]
        axis.bar(
            at,
            y,
            width * 0.92,
            yerr=error,
            color=colour(str(group), place),
            label=str(group),
            error_kw={"elinewidth": 1.0, "capsize": 2.5, "ecolor": "#333333"},
        )
    _dress_places(axis, chart)


def _ellipses(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    for place, group in enumerate(groups):
        tint, label = colour(str(group), place), str(group)
        rows = table.filter(pl.col(chart.by) == group)
        parts = {
            part: (some[chart.x].to_numpy(), some[chart.y].to_numpy())
            for part in ("contour", "centre")
            if (some := rows.filter(pl.col("part") == part)).height
        }
        if "contour" in parts:
            axis.fill(*parts["contour"], facecolor=tint, alpha=0.18, linewidth=0)
            axis.plot(*parts["contour"], color=tint, linewidth=1.0)
        if "centre" in parts:
            marker = _MARKERS[place % len(_MARKERS)]
            axis.plot(
                *parts["centre"], color=tint, label=label, linestyle="none", marker=marker, markersize=5.5
            )
    axis.margins(0.08)


def _marks(axis: Axes, chart: Chart, table: pl.DataFrame) -> None:
    for group, mark in chart.marks.items():
        rows = table.filter(pl.col(chart.by) == group)
        if rows.height == 0:
            continue
        look: dict[str, Any] = {"color": mark.colour, "label": group, "zorder": mark.layer}
        x, low, high = (rows[name].to_numpy() for name in (chart.x, chart.y, "end"))
        if mark.shape == "steps":
            axis.step(x, low, where="post", linewidth=mark.width, **look)
        elif mark.shape == "bar":
            axis.vlines(x, low, high, linewidth=mark.width, capstyle="butt", **look)
        if mark.shape in ("bar", "dot"):
            # However short a bar is, it is seen as a dot; a SYN has no length at all.
            name = group if mark.shape == "dot" else None
            axis.plot(
                x, (low + high) / 2, "o", markersize=mark.width, markeredgewidth=0, **(look | {"label": name})
            )
        elif mark.shape == "cross":
            axis.plot(x, (low + high) / 2, "x", markersize=5.0, markeredgewidth=mark.width, **look)
    axis.margins(x=0.02, y=0.03)


def _decades(axis: Axis, low: float, high: float) -> None:
    """Numbers for a logarithmic axis: few where it spans much."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 2000 * low else (1.0,)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def _dress(axis: Axes, chart: Chart, panel: str, *, first: bool) -> None:
    axis.set_xlabel(chart.x_label)
    if first:
        axis.set_ylabel(chart.beneath.get(panel, chart.y_label))
    x_limits = chart.panel_x_limits.get(panel, chart.x_limits)
    if chart.log_x:
        axis.set_xscale("log")
        _decades(axis.xaxis, *(x_limits or axis.get_xlim()))
    if chart.log_y:
        axis.set_yscale("log")
        _decades(axis.yaxis, *(chart.y_limits or axis.get_ylim()))
    if chart.kind == "cdf":
        axis.set_ylim(0.0, 1.0)
    elif chart.kind in ("bars", "boxes") and chart.y_limits is None:
        axis.set_ylim(bottom=0.0)
    if x_limits is not None:
        axis.set_xlim(*x_limits)
    if chart.y_limits is not None:
        axis.set_ylim(*chart.y_limits)
    for label, x in {**chart.guides, **chart.panel_guides.get(panel, {})}.items():
        axis.axvline(x, color="#8A8A8A", linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
        axis.annotate(
            label,
            (x, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(3, -3),
            textcoords="offset points",
            va="top",
            fontsize=8,
            color="#666666",
        )
    for label, y in chart.levels.items():
        axis.axhline(y, color="#8A8A8A", linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
        axis.annotate(
            label,
            (1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 3),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color="#666666",
        )
