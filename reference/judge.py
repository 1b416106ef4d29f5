"""The agreement rule: how close a number of aqmlab is to one of the reference.

The 95 % interval of the difference is compared with a band around the reference: +-3 %, or 5 % for ns-3 and
Linux. If the interval is inside the band, both are *equivalent*; if it overlaps the band, *compatible*; if it
is outside, the row is a *miss* (`aqmlab.stats.agreement`). A single recorded run is treated as one more run
of aqmlab: the interval is then from the 1st to the 99th percentile of aqmlab's runs, which is inside the band
only if runs hardly vary. Numbers without randomness are equivalent or a miss.

If the band is at least 20 % of the reference, the row is `loose`: it can hardly miss, and is counted
separately. `recorded` is the part of half the interval's width that would remain with infinitely many runs of
aqmlab. The expected number of misses by chance is that of two programs with identical behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aqmlab import stats

Verdict = stats.Agreement | Literal["printed", "not yet", "excluded"]
AGREEMENTS: tuple[stats.Agreement, ...] = ("equivalent", "compatible", "miss")

BAND = 0.03
"""Half the width of the band, as a share of the reference."""
PERCENTILES = (0.01, 0.99)
"""Percentiles of aqmlab's runs between which a single run of the reference should be."""
FORMULA_ERRORS = 3
"""Maximum distance of a mean from an exact closed form, in standard errors."""
HELD_OUT = "held out: "
"""Prefix of the names of cases whose record was not used for any setting of aqmlab."""
LOOSE = 0.2
"""Width of a band, as a share of the reference, from which hardly any value is outside."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table: a quantity of a case, of the reference and of aqmlab."""

    case: str
    quantity: str
    theirs: float
    ours: float
    low: float = math.nan
    high: float = math.nan
    band: float = 0.0
    verdict: Verdict
    chance: float = 0.0
    recorded: float = 0.0
    loose: bool = False
    note: str = ""
    cause: str = ""
    again: str = ""
    """Verdict of the experiment that shows the cause: equivalent or compatible."""

    @property
    def difference(self) -> float:
        """aqmlab's value minus the reference."""
        return self.ours - self.theirs

    @property
    def held_out(self) -> bool:
        """Whether the case was not used for any setting."""
        return self.case.startswith(HELD_OUT)

    @property
    def judged(self) -> bool:
        """Whether the row has a verdict."""
        return self.verdict in AGREEMENTS

    @property
    def explained(self) -> bool:
        """Whether the row is a miss that a switch removed."""
        return self.verdict == "miss" and self.cause != ""

    @property
    def held_up(self) -> bool:
        """Whether the row would stay compatible with any number of aqmlab's runs."""
        return self.verdict == "compatible" and abs(self.difference) + self.recorded > self.band


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity with its band, or without a verdict."""

    name: str
    share: float = BAND
    floor: float = 0.0
    judged: bool = True
    note: str = ""

    def band(self, theirs: float) -> float:
        """Half the width of the band around `theirs`: a share of it, or at least `floor`."""
        return max(self.share * abs(theirs), self.floor)


def of_interval(
    case: str,
    quantity: Quantity,
    theirs: float,
    difference: stats.Interval,
    error: float,
    recorded: float = 0.0,
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
    return replace(
        row,
        verdict=stats.agreement(difference, stats.within(-band, band)),
        chance=_chance(difference.half_width, band, error),
        recorded=recorded,
        loose=band >= LOOSE * abs(theirs),
    )


def independent(case: str, quantity: Quantity, theirs: Sequence[float], ours: Sequence[float]) -> Row:
    """Compares the means of independent runs (Welch)."""
    difference = stats.welch(ours, theirs)
    known = stats.mean_interval(theirs).half_width
    return of_interval(case, quantity, _mean(theirs), difference, difference.half_width / 1.96, known)


def paired(case: str, quantity: Quantity, theirs: Sequence[float], ours: Sequence[Sequence[float]]) -> Row:
    """Compares the means of runs with the same schedules: several of aqmlab for each of the reference."""
    count = len(theirs)
    differences = [_mean(some) - value for some, value in zip(ours, theirs, strict=True)]
    difference = stats.mean_interval(differences)
    quantile = stats.t_quantile(stats.LEVEL, max(count - 1, 1))
    error = difference.half_width / quantile
    own = math.fsum(np.var(some, ddof=1) / len(some) for some in ours if len(some) > 1) / count**2
    known = quantile * math.sqrt(max(error**2 - own, 0.0))
    return of_interval(case, quantity, _mean(theirs), difference, error, known)


def single(case: str, quantity: Quantity, theirs: float, ours: Sequence[float]) -> Row:
    """Compares one value of the reference with many of aqmlab, which show the variation of a single value.

    If both behave identically, the reference is one more sample: its difference from aqmlab's mean has the
    standard error s * sqrt(1 + 1/n) with the standard deviation s of aqmlab's n values.
    """
    spread = stats.mean_interval(ours)
    half = spread.half_width * math.sqrt(len(ours) + 1)
    value = spread.value - theirs
    difference = stats.Interval(value=value, low=value - half, high=value + half, count=len(ours))
    error = half / stats.t_quantile(stats.LEVEL, max(len(ours) - 1, 1))
    known = 1.96 * error / math.sqrt(1 + 1 / len(ours))
    return of_interval(case, quantity, theirs, difference, error, known)


def among(case: str, quantity: Quantity, theirs: float, ours: Sequence[float]) -> Row:
    """Compares one run of the reference with two percentiles of many runs of aqmlab."""
    low, high = (float(value) - theirs for value in np.quantile(ours, PERCENTILES))
    to_mean = _mean(ours) - theirs
    # One more sample: its difference from the mean of n samples has the variance s^2 (1 + 1/n).
    error = float(np.std(ours, ddof=1)) * math.sqrt(1 + 1 / len(ours))
    between = stats.Interval(value=to_mean, low=low, high=high, count=len(ours))
    row = of_interval(case, quantity, theirs, between, error, (high - low) / 2)
    if not row.judged:
        return row
    band = row.band
    chance = (_beyond(high - to_mean + band, error) + _beyond(to_mean - low + band, error)) / 2
    outside = f"outside the percentiles by {_nearest(low, high):.2g}"
    return replace(row, chance=chance, note=row.note if low <= 0 <= high else outside)


def left_out(case: str, verdict: Verdict, why: str) -> Row:
    """A recorded case that is not compared, with the reason."""
    return Row(case=case, quantity="all", theirs=math.nan, ours=math.nan, verdict=verdict, note=why)


def formula(case: str, quantity: str, exact: float, ours: Sequence[float], share: float) -> Row:
    """Compares a mean with an exact closed form: the interval decides within three standard errors; a larger
    distance is a miss for any band."""
    interval = stats.mean_interval(ours)
    error = interval.half_width / stats.t_quantile(stats.LEVEL, len(ours) - 1)
    difference = replace(
        interval, value=interval.value - exact, low=interval.low - exact, high=interval.high - exact
    )
    row = of_interval(case, Quantity(name=quantity, share=share), exact, difference, error)
    off = abs(difference.value) > FORMULA_ERRORS * error
    return replace(
        row,
        verdict="miss" if off else row.verdict,
        chance=_tail(FORMULA_ERRORS, len(ours) - 1) if error > 0 else 0.0,
        note=f"more than {FORMULA_ERRORS} standard errors off" if off else "",
    )


Recorded = Mapping[str, float | str]
"""A run of the reference by the names of the quantities, as recorded or as read."""
Measures = dict[str, float]
"""A run of aqmlab by the same names."""


def of_runs(
    case: str, quantities: Sequence[Quantity], theirs: Sequence[Recorded], ours: Sequence[Measures]
) -> list[Row]:
    """A row for each quantity of independent runs; a single run of the reference is compared by
    percentiles."""
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
    """Runs with the event counts of the warm-up, which separate runs provide, added."""
    return [
        after | {name: after[name] + before[name] for name in before}
        for after, before in zip(measured, early, strict=True)
    ]


def of_schedules(
    case: str, quantities: Sequence[Quantity], theirs: Sequence[Recorded], ours: Sequence[Sequence[Measures]]
) -> list[Row]:
    """A row for each quantity of runs with the same schedules: several of aqmlab for each of the
    reference."""
    return [
        paired(
            case,
            quantity,
            [float(run[quantity.name]) for run in theirs],
            [[run[quantity.name] for run in runs] for runs in ours],
        )
        for quantity in quantities
    ]


def exact(case: str, quantity: str, theirs: float, ours: float, tolerance: float, note: str = "") -> Row:
    """Compares two numbers that must be equal up to `tolerance`."""
    apart = ours - theirs
    interval = stats.Interval(value=apart, low=apart, high=apart, count=1)
    return Row(
        case=case,
        quantity=quantity,
        theirs=theirs,
        ours=ours,
        band=tolerance,
        verdict=stats.agreement(interval, stats.within(-tolerance, tolerance)),
        note=note,
    )


def _chance(half: float, band: float, error: float) -> float:
    """The probability of a miss if the true difference is zero: the estimate is beyond half + band.

    The estimate is assumed to be normal, which is accurate enough for a sum printed with two digits.
    """
    return 0.0 if half == 0 else _beyond(half + band, error)


def _beyond(distance: float, error: float) -> float:
    """The probability that a normal estimate with this standard error is off by more, in either direction."""
    return math.erfc(distance / error / math.sqrt(2)) if error > 0 else 0.0


def _nearest(low: float, high: float) -> float:
    """The distance of the nearer end of an interval from zero, for an interval that excludes zero."""
    return low if low > 0 else -high


def _tail(t: float, freedom: int) -> float:
    from scipy import stats as distributions

    return float(2 * distributions.t.sf(t, freedom))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
