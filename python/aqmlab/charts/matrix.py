"""Matrices: cells with numbers, coloured by the numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SEQUENTIAL, _DIVERGING = "YlGnBu", "PuOr_r"
"""Colour maps, which are safe for colour-blind readers: of numbers, and of numbers around a middle."""

ROW_IN, COLUMN_IN = 0.42, 0.72
"""Height and width of a cell in inches."""

PANEL_IN, HEAD_IN, SIDE_IN, LETTER_IN = 1.9, 0.75, 1.5, 0.09
"""Smallest width of a panel, height of a panel's title and labels, width of the axis label and colour bar,
and width of a letter in the names of rows and columns, in inches."""

LETTERS_PER_IN = 9
"""Number of letters in the colour bar's label per inch of the figure's height."""

_DARK = 0.5
"""Luminance of a cell below which its text is white."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The colours of a matrix: the label of the colour bar, the numbers at its ends (by default, the smallest
    and the largest number in the table), and the middle, which is the number that is drawn in white and that
    separates two ranges of colours. If there is no middle, the scale may be logarithmic; a logarithmic scale
    begins at the smallest positive number."""

    label: str
    limits: tuple[float, float] | None = None
    middle: float | None = None
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """A table of cells: `x` and `y` name the table columns that contain the names of the matrix's columns and
    rows, and `by` names the table column that contains the numbers. An optional column `text` contains the
    texts of the cells; by default, the numbers are shown."""

    table: pl.DataFrame
    x: str
    y: str
    by: str
    cells: Cells

    @cached_property
    def _columns(self) -> list[Any]:
        return self.table[self.x].unique(maintain_order=True).to_list()

    @cached_property
    def _rows(self) -> list[Any]:
        return self.table[self.y].unique(maintain_order=True).to_list()

    def size(self, panels: int, side_by_side: int) -> tuple[float, float]:
        """The natural width and height in inches of a figure with this number of panels."""
        column_in = max(COLUMN_IN, LETTER_IN * _longest(self._columns))
        panel_in = max(PANEL_IN, len(self._columns) * column_in)
        width = side_by_side * panel_in + SIDE_IN + LETTER_IN * _longest(self._rows)
        return width, -(-panels // side_by_side) * (len(self._rows) * ROW_IN + HEAD_IN)

    def draw(self, axis: Axes, panel: pl.DataFrame) -> None:
        """Draws the cells of a panel, which is a part of the table. The first row is at the top."""
        norm, colours = self._scale
        for row in panel.iter_rows(named=True):
            value = row[self.by]
            if value is None:
                continue
            x, y = self._columns.index(row[self.x]), self._rows.index(row[self.y])
            colour = colours(float(norm(value)))
            axis.add_patch(_square(x, y, colour))
            red, green, blue = colour[:3]
            is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < _DARK
            tint = "white" if is_dark else "#222222"
            text = row.get("text") or f"{value:.3g}"
            axis.text(x, y, text, ha="center", va="center", fontsize="x-small", color=tint)
        axis.set_xticks(range(len(self._columns)), [str(one) for one in self._columns])
        axis.set_yticks(range(len(self._rows)), [str(one) for one in self._rows])
        axis.set_xlim(-0.5, len(self._columns) - 0.5)
        axis.set_ylim(len(self._rows) - 0.5, -0.5)
        axis.tick_params(length=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)

    def add_colour_bar(self, figure: Figure, axes: Any) -> None:
        """Draws the colour bar next to the panels."""
        from matplotlib.cm import ScalarMappable

        norm, colours = self._scale
        label = textwrap.fill(self.cells.label, max(12, int(figure.get_figheight() * LETTERS_PER_IN)))
        bar = figure.colorbar(ScalarMappable(norm, colours), ax=list(axes), label=label, pad=0.02)
        bar.outline.set_visible(False)
        if self.cells.log:
            bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            bar.ax.yaxis.set_minor_formatter("")

    @cached_property
    def _scale(self) -> tuple[Any, Any]:
        """The function that maps numbers to positions in the colour map, and the colour map itself."""
        from matplotlib import colormaps
        from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm

        cells = self.cells
        known = self.table[self.by].drop_nulls().to_list()
        low, high = cells.limits or (min(known, default=0.0), max(known, default=1.0))
        if cells.log and high > 0:
            least = min((value for value in known if value > 0), default=high)
            return LogNorm(max(low, least), high, clip=True), colormaps[_SEQUENTIAL]
        if cells.middle is None:
            return Normalize(low, high), colormaps[_SEQUENTIAL]
        return TwoSlopeNorm(cells.middle, low, high), colormaps[_DIVERGING]


def _longest(names: Sequence[Any]) -> int:
    """The number of characters in the longest line of these names."""
    return max((len(line) for name in names for line in str(name).split("\n")), default=0)


def _square(x: int, y: int, colour: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1.0, 1.0, facecolor=colour, edgecolor="white", linewidth=1.5)
