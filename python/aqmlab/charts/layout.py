"""Selects which axes of a sweep become the horizontal axis, the curves and the panels of a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aqmlab._support import quantities


def layout(
    values: Mapping[str, Sequence[object]],
    x: str | None = None,
    by: Sequence[str] | None = None,
    panel: Sequence[str] | None = None,
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Returns the axis `x`, the axes for curves and the axes for panels. `values` contains the values that
    the points have on each axis.

    By default, `x` is the first numeric axis, or the first axis if no axis is numeric. By default, `by` is
    the next axis, and `panel` is the axis after that. Raises `ValueError` if an axis is left over.
    """
    lines, panels = tuple(by or ()), tuple(panel or ())
    free = [axis for axis in values if axis not in (*lines, *panels)]
    if x is None:
        numeric = (axis for axis in free if quantities.numbers_of(values[axis]) is not None)
        x = next(numeric, None) or (free or list(values))[0]
    rest = [axis for axis in free if axis != x]
    if by is None and rest:
        lines = (rest.pop(0),)
    if panel is None and rest:
        panels = (rest.pop(0),)
    if rest:
        raise ValueError(
            f"{', '.join(rest)}: the chart cannot show this many axes: select one value of this axis, or set "
            "x, by and panel"
        )
    return x, lines, panels
