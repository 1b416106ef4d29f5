"""The law of verdict: what the intervals of runs say of a claim (`docs/background/law-of-verdict.md`).

One number: a claim *holds* when the whole interval lies in the band that is claimed, *fails* when the whole
interval lies outside, and is *undecided* otherwise (`verdict`). Several parts: `all_of` and `any_of`. How
near two systems are: `agreement`. The law sees intervals and bands only: rules (`aqmlab.results.rule`) say
which number is estimated and at which points, and `aqmlab.stats.looks` how the level allows for looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from aqmlab.stats.intervals import LEVEL, Interval, simultaneous_level

Verdict = Literal["holds", "fails", "undecided"]
Agreement = Literal["equivalent", "compatible", "miss"]

SIGNS: Mapping[Verdict, str] = {"holds": "✓", "fails": "✗", "undecided": "?"}
"""The sign of each verdict, where there is no room for the word."""

PLURALS: Mapping[Verdict, str] = {"holds": "hold", "fails": "fail", "undecided": "undecided"}
"""The word for several claims: `3 hold`."""

AGREEMENTS: Mapping[Verdict, Agreement] = {"holds": "equivalent", "undecided": "compatible", "fails": "miss"}
"""What the verdict on a claim of equivalence is called."""

AGREEMENT_SIGNS: Mapping[Agreement, str] = {"equivalent": "=", "compatible": "~", "miss": "≠"}
"""The sign of each, where there is no room for the word."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """Where a claim says a number lies. An end that is infinite is open: `below(1)` excludes 1."""

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"{'below' if self.strict else 'at most'} {self.high:g}"
        if math.isinf(self.high):
            return f"{'above' if self.strict else 'at least'} {self.low:g}"
        return f"in [{self.low:g}, {self.high:g}]"


def below(limit: float) -> Band:
    """Strictly smaller than `limit`."""
    return Band(high=limit, strict=True)


def above(limit: float) -> Band:
    """Strictly larger than `limit`."""
    return Band(low=limit, strict=True)


def at_most(limit: float) -> Band:
    """Not larger than `limit`."""
    return Band(high=limit)


def at_least(limit: float) -> Band:
    """Not smaller than `limit`."""
    return Band(low=limit)


def within(low: float, high: float) -> Band:
    """Between the two, ends included."""
    return Band(low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured for a claim, and what it says of it.

    Of several parts, the number and what it is are those of the part that decides.
    """

    verdict: Verdict
    measured: str
    """All of it in a line, parts included."""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    count: int = 0
    """Of how many replications the interval is."""
    level: float = LEVEL
    """The level of the interval, which is the one that decides."""
    wider: bool = False
    """Whether that level allows for the number of parts."""
    median: bool = False
    """Whether the number is a median over replications, as these have several modes."""
    what: str = ""
    """What the number is, without where: `mean object time, SHRED/RED`."""
    context: str = ""
    """Where it was measured: `Web beside 10 FTP flows, averaged over load`."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """At which point of the axes that the rule leaves open."""
    band: Band | None = None
    """What is claimed of the number."""
    lacks: str = ""
    """Why there is no number."""
    known_to: float = math.nan
    """Half the interval of an undecided number that is known as well as the rule asks: the number is near the
    limit, and more runs would tell nothing of use."""
    parts: tuple[Evidence, ...] = ()
    one_of: bool = False
    """Whether one part that holds is enough."""
    along: tuple[Evidence, ...] = ()
    """Of an average, what it is of, point by point; for information, as the average alone is judged."""


# One number


def verdict(interval: Interval, band: Band) -> Verdict:
    """What an interval says of a claim that the number lies in a band; nothing is decided without one."""
    if not interval.decided:
        return "undecided"
    if band.strict:
        # An end of the band that is infinite excludes nothing, no end of an interval that is infinite either.
        above = interval.low > band.low or math.isinf(band.low)
        inside = above and (interval.high < band.high or math.isinf(band.high))
        outside = interval.high <= band.low or interval.low >= band.high
    else:
        inside = interval.low >= band.low and interval.high <= band.high
        outside = interval.high < band.low or interval.low > band.high
    return "holds" if inside else "fails" if outside else "undecided"


def agreement(interval: Interval, band: Band) -> Agreement:
    """How near two measurements are, by the interval of their difference or ratio and a band.

    *Equivalent*: the whole interval lies in the band, so that a difference that matters is ruled out (two
    one-sided tests; Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987). *Compatible*:
    it meets the band and reaches beyond, so that none is shown; a number without an interval is no more.
    *Miss*: it lies outside.
    """
    return AGREEMENTS[verdict(interval, band)]


def is_known(interval: Interval, tolerance: float) -> bool:
    """Whether half the interval is no longer than `tolerance`: more runs would tell nothing of use."""
    return interval.decided and interval.half_width <= tolerance


def judge(what: str, interval: Interval, band: Band, tolerance: float = 0.0) -> Evidence:
    """Evidence for one number: `what` it is, its interval, and the band claimed for it.

    An undecided number that is known to the `tolerance`, in the unit of the number, is near the limit.
    """
    found = verdict(interval, band)
    measured = f"{what} {interval}{' (median over replications)' if interval.median else ''}, claimed {band}"
    known_to = math.nan
    if found == "undecided" and is_known(interval, tolerance):
        known_to = interval.half_width
        measured += f", undecided: near the limit, known to ±{known_to:.2g}"
    return Evidence(
        verdict=found,
        measured=measured,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        count=interval.count,
        level=interval.level,
        median=interval.median,
        what=what,
        band=band,
        known_to=known_to,
    )


# Several parts

PartsAt = Callable[[float], Sequence[Evidence]]
"""The evidence for all parts of a claim, by intervals of a level: as many parts, in the same order, whatever
the level."""


def level_of_parts(level: float, count: int) -> float:
    """The level of the interval by which one of `count` parts may decide for all: it makes `all_of` fail, or
    `any_of` hold. The intervals of all parts hold together with at least the probability `level`."""
    return simultaneous_level(level, max(count, 1))


def all_of(parts_at: PartsAt, level: float = LEVEL) -> Evidence:
    """Evidence for a claim that all parts hold.

    It holds if all do, each by an interval of this level: more parts do not make that likelier by chance. It
    fails if all parts fail, or if one does by an interval of `level_of_parts`: of many parts one would fail
    by chance. A part that would fail for all is shown with that wider interval and by no other, so that the
    verdict follows from the intervals that are shown.
    """
    parts = parts_at(level)
    failing = [part.verdict == "fails" for part in parts]
    if not any(failing) or all(failing):
        return together(*parts, level=level)
    wider_level = level_of_parts(level, len(parts))
    return together(
        *(
            _at_level(wide, wider_level) if fails else part
            for part, wide, fails in zip(parts, parts_at(wider_level), failing, strict=True)
        )
    )


def any_of(parts_at: PartsAt, count: int, level: float = LEVEL) -> Evidence:
    """Evidence for a claim that one of `count` parts holds, or several do: the mirror image of `all_of`.

    It holds if one part does by an interval of `level_of_parts`, and fails if all parts fail, each by an
    interval of this level.
    """
    wider_level = level_of_parts(level, count)
    parts = parts_at(wider_level)
    found = either(*(map(_wider, parts) if wider_level > level else parts), level=wider_level)
    if found.verdict == "undecided":
        plain = either(*parts_at(level), level=level)
        return plain if plain.verdict == "fails" else found
    return found


def together(*parts: Evidence, level: float = LEVEL) -> Evidence:
    """Evidence for a claim of parts that are judged already: holds if all do, fails if any does.

    The number and interval are those of the part that decides: the first of the worst ones. Without parts the
    claim is undecided, at this level.
    """
    if not parts:
        return _nothing(level)
    order: dict[Verdict, int] = {"fails": 0, "undecided": 1, "holds": 2}
    worst = min(parts, key=lambda part: order[part.verdict])
    return replace(worst, measured="; ".join(part.measured for part in parts), parts=parts, one_of=False)


def either(*parts: Evidence, level: float = LEVEL) -> Evidence:
    """Evidence for a claim that something is so somewhere, of parts that are judged already: holds if any
    part does, fails if all do.

    The number and interval are those of the part that decides: the first of the best ones; `level` is that of
    the intervals. Without parts the claim is undecided.
    """
    if not parts:
        return _nothing(level)
    order: dict[Verdict, int] = {"holds": 0, "undecided": 1, "fails": 2}
    best = min(parts, key=lambda part: order[part.verdict])
    said = f"the best of {len(parts)}" + (f", each at {100 * level:.4g} %" if best.wider else "")
    return replace(best, measured=f"{best.measured} ({said})", parts=parts, one_of=True)


def best_first(parts: Sequence[Evidence], band: Band) -> list[Evidence]:
    """The parts of one claim at several points, the most extreme in the claimed direction first; as they are
    if the band has two ends."""
    if math.isfinite(band.low) and math.isfinite(band.high):
        return list(parts)
    sign = -1 if math.isfinite(band.low) else 1
    return sorted(parts, key=lambda part: sign * part.value)


def _nothing(level: float) -> Evidence:
    return Evidence(verdict="undecided", measured="no point of these runs is compared", level=level)


def _at_level(part: Evidence, level: float) -> Evidence:
    """Evidence whose line says the level of its interval."""
    return replace(_wider(part), measured=f"{part.measured} (at {100 * level:.4g} %)")


def _wider(part: Evidence) -> Evidence:
    """Evidence whose level, and that of its parts, allows for the number of parts."""
    return replace(part, wider=True, parts=tuple(map(_wider, part.parts)))
