"""The style of charts: colours, fonts and picture sizes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aqmlab._support.names import hint

ENDINGS = ("svg", "png", "pdf")
"""Formats of pictures."""

BLUE, VERMILION = "#0072B2", "#D55E00"
"""Two colours of the Okabe-Ito colour set. These colours are also used for marks without a name in
`COLOURS`."""

COLOURS: Mapping[str, str] = {
    "drop-tail": BLUE,
    "red": VERMILION,
    "shred": "#009E73",
    "rio-ps": "#882255",
    "adaptive-red": "#E69F00",
    "linux-red": "#EE7733",
    "codel": "#CC79A7",
    "fq-codel": "#117733",
    "cake": "#332288",
    "cobalt": "#B8860B",
    "pie": "#8C6BB1",
    "docsis-pie": "#56B4E9",
    "fq-pie": "#AA4499",
    "dualpi2": "#A50F15",
    "fq": "#17807E",
    "sfq": "#999933",
    "blue": "#4477AA",
    "Drop Tail": BLUE,
    "FIFO": BLUE,
    "aqmlab": BLUE,
    "Tail Drop": BLUE,
    "Tail Drop, bytes": BLUE,
    "Tail Drop, packets": "#56B4E9",
    "Tail Drop + DS": "#009E73",
    "RED": VERMILION,
    "RED + DS": "#CC79A7",
    "SHRED": "#009E73",
    "RIO-PS": "#882255",
    "ARED": "#E69F00",
    "ARED+ECN": "#17807E",
    "FQ": "#117733",
    "uncongested": "#6E6E6E",
    "live": "#8C6BB1",
    "simulated": "#E69F00",
    "recorded": "#444444",
}
"""Colours of queues and of origins of runs, which are the same in all figures. The first eight colours are
taken from the colour-blind-safe Okabe-Ito set or resemble its colours. Names that are not in this table get a
colour from `_SPARE`."""

_SPARE = (
    *("#CC79A7", "#56B4E9", "#E69F00", "#8C6BB1", "#000000", "#B8860B", "#17807E", "#A50F15"),
    *("#6699CC", "#661100", "#44AA99", "#CC6677", "#999933", "#AA4499", "#332288", "#117733"),
)

SMALLEST_TYPE = 7.5
"""Type size in points in the narrowest pictures. Text of this size is still legible in a journal column."""

_TYPE = 10.0
"""Type size in points in a picture of natural width."""

_STYLE: Mapping[str, Any] = {
    "font.family": ["sans-serif"],
    # Viewers of an SVG file may lack the first font.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
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
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "aqmlab",
    "pdf.fonttype": 42,
}

_SIZES: Mapping[str, float] = {
    "font.size": 1.0,
    "axes.titlesize": 1.1,
    "axes.labelsize": 1.0,
    "xtick.labelsize": 0.9,
    "ytick.labelsize": 0.9,
    "legend.fontsize": 0.9,
}
"""Text sizes relative to the type size."""

_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
"""Units of a width. `pt` is TeX's point, because journals state their column widths in TeX points."""

WIDTHS = (1.0, 40.0)
"""Minimum and maximum width in inches. A narrower picture would be illegible; a wider picture would be a
poster."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The width of a picture in inches, and its font; `None` for the defaults."""

    width_in: float | None = None
    font: str | None = None

    @staticmethod
    def parsed(width: str | None, font: str | None) -> Look:
        """Creates the look for a width, such as `3.5in`, `88mm` or `252pt`, and for an installed font. Raises
        `ValueError` for an invalid width or a font that matplotlib does not find."""
        if font is not None:
            _check_font(font)
        return Look(width_in=None if width is None else inches(width), font=font)

    def settings(self, natural_width: float) -> dict[str, Any]:
        """Returns the style as matplotlib settings, for a chart with this natural width in inches."""
        share = min(1.0, (self.width_in or natural_width) / natural_width)
        size = max(SMALLEST_TYPE, _TYPE * share)
        sizes = {name: size * of_type for name, of_type in _SIZES.items()}
        return {**_STYLE, **sizes, **({"font.family": [self.font]} if self.font else {})}


AS_ON_A_PAGE = Look()
"""The default look of charts."""


def inches(text: str) -> float:
    """Converts a width such as `3.5in` to inches. Raises `ValueError` for an invalid width."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(in|cm|mm|pt)\s*", text)
    least, most = WIDTHS
    if found is None:
        raise ValueError(
            f"--width: must be a number with the unit in, cm, mm or pt, such as 3.5in (got {text})"
        )
    width = float(found[1]) * _INCHES[found[2]]
    if not least <= width <= most:
        raise ValueError(f"--width: must be from {least:g}in to {most:g}in (got {text})")
    return width


def check_pictures(name: str, pictures: Collection[str]) -> None:
    """Raises `ValueError` for unknown picture formats. The message contains the argument's name."""
    if isinstance(pictures, str):
        raise ValueError(f'{name}: must be a list (got {pictures!r}): write ["{pictures}"]')
    for ending in pictures:
        if ending not in ENDINGS:
            raise ValueError(f"{name}: no format is named `{ending}`; available: {', '.join(ENDINGS)}")


def shown_of(pictures: Collection[str]) -> str:
    """Returns the format to show to the user if a chart was saved in several formats."""
    return next(one for one in ("png", "pdf", "svg") if one in pictures)


def colours(names: Iterable[str]) -> dict[str, str]:
    """Returns the colour of each group of a chart. Names in `COLOURS` have fixed colours. The colour of any
    other name is derived from the name, so that the name has the same colour in all charts, unless an earlier
    group already uses this colour."""
    groups = list(dict.fromkeys(names))
    found = {name: COLOURS[name] for name in groups if name in COLOURS}
    for name in groups:
        if name not in found:
            first = zlib.crc32(name.encode()) % len(_SPARE)
            spare = [*_SPARE[first:], *_SPARE[:first]]
            found[name] = next((one for one in spare if one not in found.values()), spare[0])
    return found


def _check_font(font: str) -> None:
    from matplotlib.font_manager import fontManager

    known = {"serif", "sans-serif", "monospace", *fontManager.get_font_names()}
    if font not in known:
        raise ValueError(f"--font {font}: the font is not installed: {hint(font, sorted(known))}")
