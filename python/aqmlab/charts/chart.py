"""The class `Chart`, and the functions that draw its nine kinds of charts.

A `Chart` is a small table with instructions for drawing. A saved chart consists of pictures (SVG, PNG, PDF)
and a CSV file that contains exactly the drawn data. Equal tables produce byte-identical files.
`aqmlab.charts.style` defines colours, fonts and sizes.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, get_args

import polars as pl

from aqmlab._support import quantities
from aqmlab._support.files import write_bytes, write_csv
from aqmlab._support.names import hint
from aqmlab.charts.matrix import Cells, Matrix
from aqmlab.charts.style import AS_ON_A_PAGE, COLOURS, ENDINGS, Look, check_pictures, colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Kind = Literal["cdf", "tail", "line", "bars", "curve", "marks", "boxes", "ellipses", "matrix"]

LABEL_WIDTH = 24
"""Number of characters in a line of the label of a panel beneath another panel, which must not be longer than
the panel is high."""

MOST_IN_A_ROW = 5
"""Maximum number of panels in a single row."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The style of one group of marks in a chart of marks."""

    colour: str
    shape: Literal["bar", "dot", "cross", "steps", "span"]
    """A bar extends from `y` to the value in the column `end`. A dot or a cross is drawn halfway between the
    two values. Steps connect the values of `y`. A span is a horizontal bar that extends from `x` to the value
    in the column `end`."""
    width: float = 1.6
    layer: int = 3
    """Drawing layer. Marks in higher layers cover marks in lower layers."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A table with instructions for drawing.

    `x`, `y` and `by` name the columns to draw. The optional columns `low` and `high` are the lower and upper
    ends of the interval around `y`. For boxes, `y` is the median, and the columns `least`, `q25`, `q75` and
    `most` are required. For ellipses, the column `part` contains `centre` in one row of each group and
    `contour` in the other rows, which are in drawing order. For a matrix, `x` and `y` name the columns of
    categories, `by` names the numbers of the cells, and the optional column `text` contains the texts of the
    cells. `panel` names a column that splits the chart into panels. Panels are placed side by side, or in
    rows of three if there are many; with `beneath`, they are placed one below the other.
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
    """Groups from other measurements. The value is the name whose colour the group uses. These groups are
    drawn as hollow marks without a line (in line charts) or as hollow boxes (in box charts)."""
    overlaid: bool = False
    """For bars: whether each value of x has a single position, with bars that are coloured by group, instead
    of one position per group."""
    log_x: bool = False
    log_y: bool = False
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    panel_x_limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Limits of x for individual panels, which replace `x_limits`."""
    guides: Mapping[str, float] = field(default_factory=dict)
    """Labelled vertical lines at values of x, such as the initial time-out."""
    panel_guides: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Labelled vertical lines for individual panels."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Labelled horizontal lines at values of y, such as a published value."""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    """For marks: the style of each group, in the order of the legend."""
    beneath: Mapping[str, str] = field(default_factory=dict)
    """For panels that are placed one below the other and share the x axis: the label of each panel's y axis,
    which replaces `y_label`."""
    cells: Cells | None = None
    """The colours of the cells of a matrix, which are required for a matrix."""

    def __post_init__(self) -> None:
        check_kind(self.kind)
        if (self.kind == "matrix") != (self.cells is not None):
            raise ValueError(
                f"cells: must be set if and only if the kind of the chart is matrix (got {self.kind})"
            )

    def _repr_png_(self) -> bytes:
        return drawn(self, ["png"])["png"]

    def _repr_svg_(self) -> str:
        return drawn(self, ["svg"])["svg"].decode()


def check_kind(kind: str) -> None:
    """Raises `ValueError` for an unknown kind of chart."""
    if kind not in get_args(Kind):
        raise ValueError(f"no kind of chart is named `{kind}`: {hint(kind, get_args(Kind), most=1)}")


def with_numbers(table: pl.DataFrame, column: str) -> tuple[pl.DataFrame, str]:
    """Converts a column of labels to numbers if the labels are quantities such as `10Mbps`. Returns the table
    and the unit of the numbers. If the labels are not quantities, returns the unchanged table and an empty
    string."""
    found = quantities.numbers_of(table[column].to_list())
    if found is None:
        return table, ""
    numbers, unit = quantities.readable(*found)
    return table.with_columns(pl.Series(column, numbers)), unit


def save(
    chart: Chart,
    folder: Path,
    name: str,
    *,
    pictures: Collection[str] = ("svg", "png"),
    look: Look = AS_ON_A_PAGE,
) -> dict[str, Path]:
    """Writes the chart to `folder` in each format in `pictures` (`svg`, `png`, `pdf`) as `name.FORMAT`, and
    its data as `name.csv`. Returns the files by format. Text in SVG and PDF files is stored as text, not as
    outlines. For an unknown format or font, raises `ValueError` and writes nothing."""
    check_pictures("pictures", pictures)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {ending: folder / f"{name}.{ending}" for ending in (*pictures, "csv")}
    for ending, picture in drawn(chart, pictures, look).items():
        write_bytes(paths[ending], picture)
    write_csv(paths["csv"], chart.table)
    return paths


def drawn(chart: Chart, pictures: Collection[str], look: Look = AS_ON_A_PAGE) -> dict[str, bytes]:
    """Returns the contents of a chart's files, by format."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    found = {}
    with mpl.rc_context(look.settings(natural_width(chart))):  # type: ignore[arg-type]
        figure = draw(chart, look)
        # `Figure.savefig` would draw the figure twice, because it computes the layout in a separate pass.
        for ending in (one for one in ENDINGS if one in pictures):
            picture = io.BytesIO()
            canvas: Any
            if ending == "svg":
                canvas = FigureCanvasSVG(figure)
                canvas.print_svg(picture, metadata={"Date": None, "Creator": "aqmlab"})
            elif ending == "pdf":
                # This module loads fontTools, which takes longer than drawing a small chart.
                from matplotlib.backends.backend_pdf import FigureCanvasPdf

                canvas = FigureCanvasPdf(figure)
                canvas.print_pdf(picture, metadata={"CreationDate": None, "Creator": "aqmlab"})
            else:
                figure.set_dpi(160)
                canvas = FigureCanvasAgg(figure)
                canvas.print_png(picture, metadata={"Software": "aqmlab"})
            figure.set_layout_engine(
                "none"
            )  # The computed layout is kept, because computing the layout again takes longer than drawing.
            found[ending] = picture.getvalue()
    return found


def save_all(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """Writes each chart with `save`, under the chart's name, and returns the files."""
    return [path for name, chart in charts.items() for path in save(chart, folder, name).values()]


def natural_width(chart: Chart) -> float:
    """The default width of a chart in inches."""
    panels = len(_panels(chart))
    columns = _columns(chart, panels)
    matrix = _matrix(chart)
    if matrix is not None:
        return matrix.size(panels, columns)[0]
    wide = bool(chart.beneath) or chart.kind == "marks"
    return 3.4 * columns if columns > 1 else 7.6 if wide else 5.8


def _panels(chart: Chart) -> list[Any]:
    return [None] if chart.panel is None else chart.table[chart.panel].unique(maintain_order=True).to_list()


def _matrix(chart: Chart) -> Matrix | None:
    """The matrix that the chart shows; `None` for all other kinds."""
    if chart.cells is None:
        return None
    return Matrix(table=chart.table, x=chart.x, y=chart.y, by=chart.by, cells=chart.cells)


def _columns(chart: Chart, panels: int) -> int:
    """The number of panels in a row."""
    if chart.kind == "matrix":
        return 2 if panels in (2, 4) else min(panels, 3)
    return 1 if chart.beneath else panels if panels <= MOST_IN_A_ROW else 3


def draw(chart: Chart, look: Look = AS_ON_A_PAGE) -> Figure:
    """Draws the chart as a matplotlib figure with the current style."""
    from matplotlib.figure import Figure

    panels = _panels(chart)
    is_column = bool(chart.beneath)
    columns = _columns(chart, len(panels))
    lines = -(-len(panels) // columns)
    natural = natural_width(chart)
    width = look.width_in or natural
    # If a chart is narrowed, its height shrinks less than its width, because its text shrinks less than its
    # width.
    height = (3.8 if lines == 1 else (2.2 if is_column else 2.8) * lines) * (width / natural) ** 0.75
    matrix = _matrix(chart)
    if matrix is not None:
        height = matrix.size(len(panels), columns)[1] * width / natural
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=is_column, sharey=not is_column, squeeze=False).ravel()
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    groups = chart.table[chart.by].unique(maintain_order=True).to_list()
    for index, (panel, axis) in enumerate(zip(panels, axes, strict=False)):
        table = chart.table if panel is None else chart.table.filter(pl.col(chart.panel or "") == panel)
        if chart.kind == "bars":
            _bars(axis, chart, table, groups)
        elif chart.kind == "marks":
            _marks(axis, chart, table)
        elif chart.kind == "boxes":
            _boxes(axis, chart, table, groups)
        elif chart.kind == "ellipses":
            _ellipses(axis, chart, table, groups)
        elif matrix is not None:
            matrix.draw(axis, table)
        else:
            _lines(axis, chart, table, groups)
        _dress(axis, chart, str(panel), first=index % columns == 0)
        if is_column:
            axis.label_outer()
        elif panel is not None:
            axis.set_title(str(panel))
    if matrix is not None:
        matrix.add_colour_bar(figure, axes[: len(panels)])
        return figure
    shown: dict[str, Any] = {}
    for axis in axes:  # A panel may have no data for a group.
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    labels = [name for name in chart.marks if name in shown] or list(shown)
    # The panel titles or the labels of the bars already name the groups.
    if chart.by in (chart.panel, chart.x):
        return figure
    in_a_row = 5 if width > 7 and chart.kind == "marks" else max(2, min(4, int(width / 1.2)))
    columns = len(labels) if len(labels) <= in_a_row else min(3, in_a_row)
    handles = [shown[label] for label in labels]
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
    return figure


def _lines(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    if not chart.table.schema[chart.x].is_numeric():
        names = chart.table[chart.x].unique(maintain_order=True).to_list()
        axis.xaxis.update_units(names)  # type: ignore[no-untyped-call]
    here = [group for group in groups if group in table[chart.by]]
    tints = colours(map(str, groups))
    for number, group in enumerate(groups):
        # If each line has its own panel, all lines have the same style, because the titles identify the
        # lines.
        index = 0 if chart.panel == chart.by else number
        rows = _along_x(chart, table.filter(pl.col(chart.by) == group).drop_nulls(chart.y))
        if chart.log_y:
            rows = rows.filter(pl.col(chart.y) > 0)
        if rows.height == 0:
            continue
        x, y = rows[chart.x].to_numpy(), rows[chart.y].to_numpy()
        model = chart.beside.get(str(group))
        if model is not None:
            _mark(axis, chart, rows, (str(group), tints[model]))
            continue
        tint = tints[str(groups[index])]
        marked = chart.kind == "line"
        # A queue's wider line remains visible below other lines that it coincides with.
        crossed = not marked and any(str(other) not in COLOURS for other in groups)
        axis.plot(
            x,
            y,
            color=tint,
            label=str(group),
            linestyle=_dash(str(group), here.index(group) if chart.beneath else index, marked=marked),
            linewidth=1.2 if chart.beneath else 3.2 if crossed and str(group) in COLOURS else None,
            marker=_MARKERS[index % len(_MARKERS)] if marked else None,
            markersize=5.0,
        )
        _interval(axis, chart, rows, tint)


def _along_x(chart: Chart, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows from left to right. Numbers are in ascending order; strings are in the order of the
    table."""
    if rows.schema[chart.x].is_numeric():
        return rows.sort(chart.x)
    categories = chart.table[chart.x].unique(maintain_order=True)
    positions = {value: index for index, value in enumerate(categories)}
    return rows.sort(pl.col(chart.x).replace_strict(positions, return_dtype=pl.Int64))


def _mark(axis: Axes, chart: Chart, rows: pl.DataFrame, style: tuple[str, str]) -> None:
    """Draws a group that comes from other measurements, as hollow diamonds with intervals."""
    label, tint = style
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


def _dash(group: str, index: int, *, marked: bool) -> Any:
    """Returns the dash pattern of a line. Lines that represent queues differ only in colour. Lines that
    represent other groups, and lines with marks, also differ in dash pattern."""
    if group == "uncongested":
        return (0, (4, 2))
    # Where marking has no effect, this curve coincides with the curve without ECN.
    if group.endswith("+ECN"):
        return _DASHES[1]
    return "-" if group in COLOURS and not marked else _DASHES[index % len(_DASHES)]


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


def _positions(chart: Chart, rows: pl.DataFrame, shift: float) -> list[float]:
    """Returns the horizontal positions of a group's rows. Each value of `x` has one position, which is
    shifted for each group if groups are drawn side by side."""
    categories = chart.table[chart.x].unique(maintain_order=True).to_list()
    return [categories.index(value) + shift for value in rows[chart.x].to_list()]


def _dress_categories(axis: Axes, chart: Chart) -> None:
    categories = chart.table[chart.x].unique(maintain_order=True).to_list()
    axis.set_xticks(range(len(categories)), [str(value) for value in categories])
    axis.set_xlim(-0.6, len(categories) - 0.4)
    axis.grid(visible=False, axis="x")


def _boxes(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    from matplotlib.colors import to_rgba

    width, tints = 0.8 / max(1, len(groups)), colours(map(str, groups))
    for index, group in enumerate(groups):
        model = chart.beside.get(str(group))
        tint = tints[str(group) if model is None else model]
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
            positions=_positions(chart, rows, (index - (len(groups) - 1) / 2) * width),
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
    _dress_categories(axis, chart)


def _bars(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    width = 0.62 if chart.overlaid else 0.8 / max(1, len(groups))
    tints = colours(map(str, groups))
    for index, group in enumerate(groups):
        rows = table.filter(pl.col(chart.by) == group)
        at = _positions(chart, rows, 0.0 if chart.overlaid else (index - (len(groups) - 1) / 2) * width)
        y = rows[chart.y].to_numpy()
        error = None
        if {"low", "high"} <= set(rows.columns):
            error = [y - rows["low"].to_numpy(), rows["high"].to_numpy() - y]
        axis.bar(
            at,
            y,
            width * 0.92,
            yerr=error,
            color=tints[str(group)],
            label=str(group),
            error_kw={"elinewidth": 1.0, "capsize": 2.5, "ecolor": "#333333"},
        )
    _dress_categories(axis, chart)


def _ellipses(axis: Axes, chart: Chart, table: pl.DataFrame, groups: list[Any]) -> None:
    tints = colours(map(str, groups))
    for index, group in enumerate(groups):
        tint, label = tints[str(group)], str(group)
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
            marker = _MARKERS[index % len(_MARKERS)]
            axis.plot(
                *parts["centre"], color=tint, label=label, linestyle="none", marker=marker, markersize=5.5
            )
    axis.margins(0.08)


def _marks(axis: Axes, chart: Chart, table: pl.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    for group, mark in chart.marks.items():
        rows = table.filter(pl.col(chart.by) == group)
        if rows.height == 0:
            continue
        look: dict[str, Any] = {"color": mark.colour, "label": group, "zorder": mark.layer}
        x, low, high = (rows[name].to_numpy() for name in (chart.x, chart.y, "end"))
        if mark.shape == "steps":
            axis.step(x, low, where="post", linewidth=mark.width, **look)
        elif mark.shape == "span":
            axis.hlines(low, x, high, linewidth=mark.width, capstyle="butt", **look)
        elif mark.shape == "bar":
            axis.vlines(x, low, high, linewidth=mark.width, capstyle="butt", **look)
        if mark.shape in ("bar", "dot"):
            # The dot keeps short bars visible. For example, the bar of a SYN has no length.
            name = group if mark.shape == "dot" else None
            axis.plot(
                x, (low + high) / 2, "o", markersize=mark.width, markeredgewidth=0, **(look | {"label": name})
            )
        elif mark.shape == "cross":
            axis.plot(x, (low + high) / 2, "x", markersize=5.0, markeredgewidth=mark.width, **look)
    axis.margins(x=0.02, y=0.03)
    if table[chart.y].dtype.is_integer():
        axis.yaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))


def _decades(axis: Axis, low: float, high: float) -> None:
    """Sets the tick labels of a logarithmic axis. An axis with a wide range has fewer labels."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 2000 * low else (1.0,)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def _dress(axis: Axes, chart: Chart, panel: str, *, first: bool) -> None:
    axis.set_xlabel(chart.x_label)
    if first:
        label = chart.beneath.get(panel)
        axis.set_ylabel(chart.y_label if label is None else fill(label, LABEL_WIDTH))
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
            fontsize="x-small",
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
            fontsize="x-small",
            color="#666666",
        )
