"""The agreement rule: when a number of ours agrees with one of the reference, and how both are told.

A quantity agrees if the 95 % interval of the difference meets a band around the reference: +-3 %, or
5 % beside ns-3 and Linux. A single recorded run agrees if it lies between the 1st and the 99th percentile
of ours, or no further from them than the band. With an interval wider than the band that says little,
so such rows are counted in the summary. The number of misses that chance alone would give is that of
two programs that do exactly the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aqmlab import stats

Verdict = Literal["agrees", "misses", "printed", "not yet", "not used"]

BAND = 0.03
"""Half the width of the band, as a share of the reference."""
PERCENTILES = (0.01, 0.99)
"""Between which of ours one run of theirs should lie."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a quantity of a case, theirs and ours."""

    case: str
    quantity: str
    theirs: float
    ours: float
    low: float = math.nan
    high: float = math.nan
    band: float = 0.0
    verdict: Verdict
    chance: float = 0.0
    note: str = ""
    cause: str = ""

    @property
    def difference(self) -> float:
        """Ours less theirs."""
        return self.ours - self.theirs

    @property
    def wide(self) -> bool:
        """Whether the interval is wider than the band, so that agreement says little."""
        return self.verdict == "agrees" and (self.high - self.low) / 2 > self.band > 0

    @property
    def explained(self) -> bool:
        """Whether it is a miss that a switch removed."""
        return self.verdict == "misses" and self.cause != ""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """How a quantity is judged: against a band of its own, or not at all."""

    name: str
    share: float = BAND
    floor: float = 0.0
    judged: bool = True
    note: str = ""

    def band(self, theirs: float) -> float:
        """Half the band around `theirs`: a share of it, or `floor` where it is nearly nothing."""
        return max(self.share * abs(theirs), self.floor)


def of_interval(
    case: str, quantity: Quantity, theirs: float, difference: stats.Interval, error: float
) -> Row:
    """Judges a difference with its interval; `error` is its standard error."""
    band = quantity.band(theirs)
    row = Row(
        case=case,
        quantity=quantity.name,
        theirs=theirs,
        ours=theirs + difference.value,
        low=difference.low,
        high=difference.high,
        band=band,
        verdict="printed",
        note=quantity.note,
    )
    if not quantity.judged or not difference.decided:
        return row
    meets = difference.low <= band and difference.high >= -band
    return replace(
        row,
        verdict="agrees" if meets else "misses",
        chance=_chance(difference.half_width, band, error),
    )


def independent(case: str, quantity: Quantity, theirs: Sequence[float], ours: Sequence[float]) -> Row:
    """Means of independent runs (Welch)."""
    difference = stats.welch(ours, theirs)
    return of_interval(case, quantity, _mean(theirs), difference, difference.half_width / 1.96)


def paired(case: str, quantity: Quantity, theirs: Sequence[float], ours: Sequence[float]) -> Row:
    """Means of runs that met the same schedules, place by place."""
    difference = stats.paired_difference(ours, theirs)
    error = difference.half_width / stats.t_quantile(stats.LEVEL, max(len(ours) - 1, 1))
    return of_interval(case, quantity, _mean(theirs), difference, error)


def single(case: str, quantity: Quantity, theirs: float, ours: Sequence[float]) -> Row:
    """One value of theirs among many of ours, which tell how much one value varies.

    If both do the same, theirs is one more draw: the difference to our mean has the standard error
    s * sqrt(1 + 1/n) with the standard deviation s of our n values.
    """
    spread = stats.mean_interval(ours)
    half = spread.half_width * math.sqrt(len(ours) + 1)
    value = spread.value - theirs
    difference = stats.Interval(value=value, low=value - half, high=value + half, count=len(ours))
    error = half / stats.t_quantile(stats.LEVEL, max(len(ours) - 1, 1))
    return of_interval(case, quantity, theirs, difference, error)


def among(case: str, quantity: Quantity, theirs: float, ours: Sequence[float]) -> Row:
    """One run of theirs among many of ours: between two percentiles, give or take the band."""
    low, high = (float(value) - theirs for value in np.quantile(ours, PERCENTILES))
    band = quantity.band(theirs)
    row = Row(
        case=case,
        quantity=quantity.name,
        theirs=theirs,
        ours=_mean(ours),
        low=low,
        high=high,
        band=band,
        verdict="printed",
        note=quantity.note,
    )
    if not quantity.judged:
        return row
    # One more draw beside n: its difference to their mean has the variance s^2 (1 + 1/n).
    error = float(np.std(ours, ddof=1)) * math.sqrt(1 + 1 / len(ours))
    to_mean = row.ours - theirs
    return replace(
        row,
        verdict="agrees" if low <= band and high >= -band else "misses",
        chance=(_beyond(high - to_mean + band, error) + _beyond(to_mean - low + band, error)) / 2,
        note=quantity.note if low <= 0 <= high else f"outside the percentiles by {_nearest(low, high):.2g}",
    )


def left_out(case: str, verdict: Verdict, why: str) -> Row:
    """A recorded case that is not compared, and why."""
    return Row(case=case, quantity="all", theirs=math.nan, ours=math.nan, verdict=verdict, note=why)


def formula(case: str, quantity: str, exact: float, ours: Sequence[float], cap: float) -> Row:
    """A mean against a closed form: within three standard errors, and within `cap` of it as a share."""
    mean = _mean(ours)
    interval = stats.mean_interval(ours)
    error = interval.half_width / stats.t_quantile(stats.LEVEL, len(ours) - 1)
    allowed = min(3 * error, cap * exact)
    return Row(
        case=case,
        quantity=quantity,
        theirs=exact,
        ours=mean,
        low=interval.low - exact,
        high=interval.high - exact,
        band=allowed,
        verdict="agrees" if abs(mean - exact) <= allowed else "misses",
        chance=_tail(allowed / error, len(ours) - 1) if error > 0 else 0.0,
        note="3 SE" if allowed == 3 * error else f"cap {100 * cap:g} %",
    )


Recorded = Mapping[str, float | str]
"""A run of theirs by the names of the quantities, as recorded or as read."""
Measures = dict[str, float]
"""A run of ours by the same names."""


def of_runs(
    case: str, quantities: Sequence[Quantity], theirs: Sequence[Recorded], ours: Sequence[Measures]
) -> list[Row]:
    """A row for each quantity of independent runs; if theirs is a single one, whether it lies among ours."""
    rows = []
    for quantity in quantities:
        values = [float(run[quantity.name]) for run in theirs]
        measured = [run[quantity.name] for run in ours]
        if len(values) == 1:
            rows.append(among(case, quantity, values[0], measured))
        else:
            rows.append(independent(case, quantity, values, measured))
    return rows


def since_start(measured: Sequence[Measures], early: Sequence[Measures]) -> list[Measures]:
    """Runs whose events of the warm-up were counted in runs of their own: both together."""
    return [
        after | {name: after[name] + before[name] for name in before}
        for after, before in zip(measured, early, strict=True)
    ]


def of_schedules(
    case: str, quantities: Sequence[Quantity], theirs: Sequence[Recorded], ours: Sequence[Sequence[Measures]]
) -> list[Row]:
    """A row for each quantity of runs that met the same schedules: of each one of theirs, some of ours."""
    return [
        paired(
            case,
            quantity,
            [float(run[quantity.name]) for run in theirs],
            [sum(run[quantity.name] for run in runs) / len(runs) for runs in ours],
        )
        for quantity in quantities
    ]


def exact(case: str, quantity: str, theirs: float, ours: float, tolerance: float, note: str = "") -> Row:
    """Two numbers that must be the same up to `tolerance`."""
    same = abs(ours - theirs) <= tolerance
    return Row(
        case=case,
        quantity=quantity,
        theirs=theirs,
        ours=ours,
        band=tolerance,
        verdict="agrees" if same else "misses",
        note=note,
    )


def _chance(half: float, band: float, error: float) -> float:
    """How probable a miss is if the true difference is zero: the estimate lies beyond half + band.

    The estimate is taken as normal, which is good enough for a sum that is told with two digits.
    """
    return 0.0 if half == 0 else _beyond(half + band, error)


def _beyond(distance: float, error: float) -> float:
    """How probable it is that a normal estimate with this standard error is off by more, either way."""
    return math.erfc(distance / error / math.sqrt(2)) if error > 0 else 0.0


def _nearest(low: float, high: float) -> float:
    """How far the nearer end of an interval that leaves out zero is from it."""
    return low if low > 0 else -high


def _tail(t: float, freedom: int) -> float:
    from scipy import stats as distributions

    return float(2 * distributions.t.sf(t, freedom))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


# The table


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal or a file: differences in percent of theirs where theirs is not zero."""
    head = ["case", "quantity", "theirs", "ours", "difference", "95 % interval", "verdict", ""]
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    right = {2, 3, 4, 5}
    written = [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([written[0], "-" * max(map(len, written)), *written[1:]])


def _cells(row: Row) -> list[str]:
    if math.isnan(row.theirs):
        return [row.case, row.quantity, "", "", "", "", row.verdict, row.note]

    def of_theirs(value: float) -> str:
        return f"{100 * value / abs(row.theirs):+.2f} %" if row.theirs else f"{value:+.3g}"

    known = not (math.isnan(row.low) or math.isnan(row.high))
    interval = f"[{of_theirs(row.low)}, {of_theirs(row.high)}]" if known else ""
    return [
        row.case,
        row.quantity,
        f"{row.theirs:.6g}",
        f"{row.ours:.6g}",
        of_theirs(row.difference),
        interval,
        row.verdict.upper() if row.verdict == "misses" else row.verdict,
        row.note,
    ]


def summary(rows: Sequence[Row]) -> tuple[str, int]:
    """What the table says in short, its last line the verdict, and the exit status."""
    judged = [row for row in rows if row.verdict in ("agrees", "misses")]
    misses = [row for row in judged if row.verdict == "misses"]
    unexplained = [row for row in misses if not row.explained]
    chance = math.fsum(row.chance for row in judged)
    wide = sum(row.wide for row in judged)
    lines = [
        f"{sum(row.verdict == 'printed' for row in rows)} quantities are printed only.",
        f"{wide} of the {len(judged) - len(misses)} agreements rest on an interval wider than their band.",
        f"Misses that chance alone would give: {chance:.2g}.",
    ]
    left = [row for row in rows if row.verdict in ("not yet", "not used")]
    for verdict, why in sorted({(row.verdict, row.note) for row in left}):
        cases = sum((row.verdict, row.note) == (verdict, why) for row in left)
        lines.append(f"{cases} {'case' if cases == 1 else 'cases'} {verdict}: {why}.")
    for cause in dict.fromkeys(row.cause for row in misses if row.explained):
        lines.append(f"{sum(row.cause == cause for row in misses)} misses are explained: {cause}.")
    lines += [f"No cause known: {row.case}, {row.quantity}" for row in unexplained]
    lines.append(
        f"reference: {len(judged)} judged, {len(judged) - len(misses)} agree, "
        f"{len(misses) - len(unexplained)} miss with a cause, {len(unexplained)} miss without"
    )
    return "\n".join(lines), 1 if unexplained else 0
