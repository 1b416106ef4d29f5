"""The rule of verdict, from intervals of runs to verdicts on claims (`docs/background/law-of-verdict.md`).

For one number, a claim *holds* if the whole interval is in the claimed band, *fails* if the whole interval is
outside, and is *undecided* otherwise (`verdict`). `all_of` and `any_of` judge claims of several parts.
`agreement` judges how close two systems are. This module only uses intervals and bands. Rules
(`aqmlab.results.rule`) define the estimated number and the points, and `aqmlab.stats.looks` the level for
several looks.
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
"""Signs of verdicts, for tables."""

PLURALS: Mapping[Verdict, str] = {"holds": "hold", "fails": "fail", "undecided": "undecided"}
"""Words for several claims: `3 hold`."""

AGREEMENTS: Mapping[Verdict, Agreement] = {"holds": "equivalent", "undecided": "compatible", "fails": "miss"}
"""Names of verdicts on claims of equivalence."""

AGREEMENT_SIGNS: Mapping[Agreement, str] = {"equivalent": "=", "compatible": "~", "miss": "≠"}
"""Signs of agreements, for tables."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """The claimed range of a number. An infinite end is open; `below(1)` excludes 1."""

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
    """A band of numbers strictly smaller than `limit`."""
    return Band(high=limit, strict=True)


def above(limit: float) -> Band:
    """A band of numbers strictly larger than `limit`."""
    return Band(low=limit, strict=True)


def at_most(limit: float) -> Band:
    """A band of numbers not larger than `limit`."""
    return Band(high=limit)


def at_least(limit: float) -> Band:
    """A band of numbers not smaller than `limit`."""
    return Band(low=limit)


def within(low: float, high: float) -> Band:
    """A band between two numbers, including both."""
    return Band(low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The measured number of a claim, with the verdict.

    For several parts, the number and its description are those of the part that decides.
    """

    verdict: Verdict
    measured: str
    """The evidence as one line of text, including parts."""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    count: int = 0
    """Number of replications of the interval."""
    level: float = LEVEL
    """Level of the interval that decides."""
    wider: bool = False
    """Whether the level allows for the number of parts."""
    median: bool = False
    """Whether the number is a median over replications, because these have several modes."""
    what: str = ""
    """Description of the number without its context: `mean object time, ratio of SHRED to RED`."""
    context: str = ""
    """Context of the measurement: `Web beside 10 FTP flows, averaged over load`."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Point on the axes that the rule leaves open."""
    band: Band | None = None
    """Claimed band of the number."""
    lacks: str = ""
    """Reason for a missing number."""
    known_to: float = math.nan
    """Half the width of the interval of an undecided number that is as precise as the rule requires. The
    number is close to the limit, and more runs would not be useful."""
    parts: tuple[Evidence, ...] = ()
    one_of: bool = False
    """Whether one part that holds is sufficient."""
    along: tuple[Evidence, ...] = ()
    """The averaged numbers, point by point, if the number is an average; only the average is judged."""


# One number


def verdict(interval: Interval, band: Band) -> Verdict:
    """The verdict of an interval on a claimed band; `undecided` if there is no interval."""
    if not interval.decided:
        return "undecided"
    if band.strict:
        # An infinite end of the band excludes nothing, not even an infinite end of an interval.
        above = interval.low > band.low or math.isinf(band.low)
        inside = above and (interval.high < band.high or math.isinf(band.high))
        outside = interval.high <= band.low or interval.low >= band.high
    else:
        inside = interval.low >= band.low and interval.high <= band.high
        outside = interval.high < band.low or interval.low > band.high
    return "holds" if inside else "fails" if outside else "undecided"


def agreement(interval: Interval, band: Band) -> Agreement:
    """The agreement of two measurements, from the interval of their difference or ratio and a band.

    *Equivalent*: the whole interval is in the band, which excludes a relevant difference (two one-sided
    tests; Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987). *Compatible*: the
    interval is partly in the band, or there is no interval, so that neither is shown. *Miss*: the interval is
    outside the band.
    """
    return AGREEMENTS[verdict(interval, band)]


def is_known(interval: Interval, tolerance: float) -> bool:
    """Whether half the interval's width is at most `tolerance`, so that more runs would not be useful."""
    return interval.decided and interval.half_width <= tolerance


def judge(what: str, interval: Interval, band: Band, tolerance: float = 0.0) -> Evidence:
    """Evidence for one number from its description `what`, its interval, and the claimed band.

    An undecided number that is known to the `tolerance`, in the unit of the number, is close to the limit.
    """
    found = verdict(interval, band)
    measured = f"{what}: {interval}{' (median over replications)' if interval.median else ''}, claimed {band}"
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
"""The evidence for all parts of a claim, with intervals of a given level. The number and order of parts do
not depend on the level."""


def level_of_parts(level: float, count: int) -> float:
    """The level of the interval by which one of `count` parts may decide the verdict: `all_of` fails or
    `any_of` holds. The intervals of all parts jointly hold with at least the probability `level`."""
    return simultaneous_level(level, max(count, 1))


def all_of(parts_at: PartsAt, level: float = LEVEL) -> Evidence:
    """Evidence for a claim that all parts hold.

    The claim holds if all parts hold, each with an interval of this level: more parts do not make this
    verdict more likely by chance. It fails if all parts fail, or if one fails with an interval of
    `level_of_parts`, because one of many parts would fail by chance. A part that decides for all is shown
    with this wider interval only, so that the verdict follows from the intervals shown.
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
    """Evidence for a claim that at least one of `count` parts holds: the mirror image of `all_of`.

    The claim holds if one part holds with an interval of `level_of_parts`, and fails if all parts fail, each
    with an interval of this level.
    """
    wider_level = level_of_parts(level, count)
    parts = parts_at(wider_level)
    found = either(*(map(_wider, parts) if wider_level > level else parts), level=wider_level)
    if found.verdict == "undecided":
        plain = either(*parts_at(level), level=level)
        return plain if plain.verdict == "fails" else found
    return found


def together(*parts: Evidence, level: float = LEVEL) -> Evidence:
    """Evidence for a claim from parts that are judged already: holds if all hold, fails if any fails.

    The number and interval are those of the part that decides, the first of the worst parts. Without parts
    the claim is undecided, at this level.
    """
    if not parts:
        return _without_parts(level)
    order: dict[Verdict, int] = {"fails": 0, "undecided": 1, "holds": 2}
    worst = min(parts, key=lambda part: order[part.verdict])
    return replace(worst, measured="; ".join(part.measured for part in parts), parts=parts, one_of=False)


def either(*parts: Evidence, level: float = LEVEL) -> Evidence:
    """Evidence for a claim that one of several parts holds, from parts that are judged already: holds if any
    part holds, fails if all fail.

    The number and interval are those of the part that decides, the first of the best parts; `level` is that
    of the intervals. Without parts the claim is undecided.
    """
    if not parts:
        return _without_parts(level)
    order: dict[Verdict, int] = {"holds": 0, "undecided": 1, "fails": 2}
    best = min(parts, key=lambda part: order[part.verdict])
    said = f"the best of {len(parts)}" + (f", each at {100 * level:.4g} %" if best.wider else "")
    return replace(best, measured=f"{best.measured} ({said})", parts=parts, one_of=True)


def best_first(parts: Sequence[Evidence], band: Band) -> list[Evidence]:
    """The parts of one claim at several points, sorted so that the most extreme one in the claimed direction
    is first; unchanged if the band has two ends."""
    if math.isfinite(band.low) and math.isfinite(band.high):
        return list(parts)
    sign = -1 if math.isfinite(band.low) else 1
    return sorted(parts, key=lambda part: sign * part.value)


def _without_parts(level: float) -> Evidence:
    return Evidence(verdict="undecided", measured="no point of these runs is compared", level=level)


def _at_level(part: Evidence, level: float) -> Evidence:
    """Evidence whose text includes the level of its interval."""
    return replace(_wider(part), measured=f"{part.measured} (at {100 * level:.4g} %)")


def _wider(part: Evidence) -> Evidence:
    """Evidence whose level, and that of its parts, allows for the number of parts."""
    return replace(part, wider=True, parts=tuple(map(_wider, part.parts)))
