"""Matrices: cells with numbers, coloured by the numbers."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from aqmlab.charts.chart import Chart

_SEQUENTIAL, _DIVERGING = "YlGnBu", "PuOr_r"
"""Colour maps, which are safe for colour-blind readers: of numbers, and of numbers around a middle."""

ROW_IN, COLUMN_IN = 0.42, 0.72
"""Height and width of a cell in inches."""

PANEL_IN, HEAD_IN, SIDE_IN, LETTER_IN = 1.9, 0.75, 1.5, 0.09
"""Smallest width of a panel, height of a panel's title and labels, width of the axis label and colour bar,
and width of a letter in the names of rows and columns, in inches."""

LETTERS_PER_IN = 9
"""Letters of the colour bar's label per inch of the figure's height."""

_DARK = 0.5
"""Luminance of a cell below which its text is white."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The colours of a matrix: the label of the colour bar, the numbers at its ends (by default the smallest
    and the largest number of the table), and the number that is white, on both sides of which the colours
    differ. Without a middle, the scale may be logarithmic; it then begins at the smallest positive number."""

    label: str
    limits: tuple[float, float] | None = None
    middle: float | None = None
    log: bool = False


def size_of(chart: Chart, panels: int, columns: int) -> tuple[float, float]:
    """The natural width and height of the chart in inches."""
    wide, high = (chart.table[axis].n_unique() for axis in (chart.x, chart.y))
    column_in = max(COLUMN_IN, LETTER_IN * _longest(chart, chart.x))
    width = columns * max(PANEL_IN, wide * column_in) + SIDE_IN + LETTER_IN * _longest(chart, chart.y)
    return width, -(-panels // columns) * (high * ROW_IN + HEAD_IN)


def _longest(chart: Chart, axis: str) -> int:
    """The number of letters of the longest line in the names of rows or columns."""
    return max((len(line) for name in chart.table[axis] for line in str(name).split("\n")), default=0)


def draw(axis: Axes, chart: Chart, table: pl.DataFrame) -> None:
    """Draws the cells of a panel. The first row is at the top."""
    assert chart.cells is not None
    norm, colours = _scale(chart)
    columns, rows = (chart.table[one].unique(maintain_order=True).to_list() for one in (chart.x, chart.y))
    for row in table.iter_rows(named=True):
        value = row[chart.by]
        if value is None:
            continue
        x, y = columns.index(row[chart.x]), rows.index(row[chart.y])
        colour = colours(float(norm(value)))
        axis.add_patch(_square(x, y, colour))
        red, green, blue = colour[:3]
        is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < _DARK
        text = row.get("text") or f"{value:.3g}"
        axis.text(
            x, y, text, ha="center", va="center", fontsize="x-small", color="white" if is_dark else "#222222"
        )
    axis.set_xticks(range(len(columns)), [str(one) for one in columns])
    axis.set_yticks(range(len(rows)), [str(one) for one in rows])
    axis.set_xlim(-0.5, len(columns) - 0.5)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)


def add_colour_bar(figure: Figure, axes: Any, chart: Chart) -> None:
    """Draws the scale of the colours beside all panels."""
    from matplotlib.cm import ScalarMappable

    assert chart.cells is not None
    norm, colours = _scale(chart)
    height_in = figure.get_figheight()
    label = textwrap.fill(chart.cells.label, max(12, int(height_in * LETTERS_PER_IN)))
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=list(axes), label=label, pad=0.02)
    bar.outline.set_visible(False)
    if chart.cells.log:
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        bar.ax.yaxis.set_minor_formatter("")


def _square(x: int, y: int, colour: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1.0, 1.0, facecolor=colour, edgecolor="white", linewidth=1.5)


def _scale(chart: Chart) -> tuple[Any, Any]:
    """The function from numbers to positions in the colour map, and the colour map."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm

    cells = chart.cells
    assert cells is not None
    known = chart.table[chart.by].drop_nulls().to_list()
    low, high = cells.limits or (min(known, default=0.0), max(known, default=1.0))
    if cells.log and high > 0:
        least = min((value for value in known if value > 0), default=high)
        return LogNorm(max(low, least), high, clip=True), colormaps[_SEQUENTIAL]
    if cells.middle is None:
        return Normalize(low, high), colormaps[_SEQUENTIAL]
    return TwoSlopeNorm(cells.middle, low, high), colormaps[_DIVERGING]
