"""The rule of verdict, which derives verdicts on claims from intervals (`docs/background/law-of-verdict.md`).

A claim about one number *holds* if the whole interval is in the claimed band, *fails* if the whole interval
is outside the band, and is *undecided* otherwise (`verdict`). `all_of` and `any_of` judge claims with several
parts. `agreement` judges how closely two systems agree. This module uses only intervals and bands. Rules
(`aqmlab.results.rule`) define the estimated number and the points. `aqmlab.stats.looks` computes the level
for several looks at the data.
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
"""Words for numbers of claims, as in `3 hold`."""

AGREEMENTS: Mapping[Verdict, Agreement] = {"holds": "equivalent", "undecided": "compatible", "fails": "miss"}
"""Names of verdicts on claims of equivalence."""

AGREEMENT_SIGNS: Mapping[Agreement, str] = {"equivalent": "=", "compatible": "~", "miss": "≠"}
"""Signs of agreements, for tables."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """The claimed range of a number. An infinite end means that the range has no limit on this side.
    `below(1)` excludes 1."""

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
    """Returns the band of numbers that are strictly smaller than `limit`."""
    return Band(high=limit, strict=True)


def above(limit: float) -> Band:
    """Returns the band of numbers that are strictly larger than `limit`."""
    return Band(low=limit, strict=True)


def at_most(limit: float) -> Band:
    """Returns the band of numbers that are at most `limit`."""
    return Band(high=limit)


def at_least(limit: float) -> Band:
    """Returns the band of numbers that are at least `limit`."""
    return Band(low=limit)


def within(low: float, high: float) -> Band:
    """Returns the band between two numbers, which includes both numbers."""
    return Band(low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The measured number of a claim, with the verdict on the claim.

    If the claim has several parts, the number and the description are those of the part that decides the
    verdict.
    """

    verdict: Verdict
    measured: str
    """The evidence as one line of text, including the parts."""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    count: int = 0
    """Number of replications from which the interval was computed."""
    level: float = LEVEL
    """Confidence level of the interval that decides the verdict."""
    wider: bool = False
    """Whether the confidence level is corrected for the number of parts."""
    median: bool = False
    """Whether the number is a median over replications, because the values of the replications have several
    modes."""
    what: str = ""
    """Description of the number without its context: `mean object time, ratio of SHRED to RED`."""
    context: str = ""
    """Context of the measurement: `Web beside 10 FTP flows, averaged over load`."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Point on the free axes of the rule."""
    band: Band | None = None
    """Band that the claim states for the number."""
    lacks: str = ""
    """Reason why the number is missing."""
    known_to: float = math.nan
    """Half the width of the interval of an undecided number, if the number is as precise as the rule
    requires. In this case, the number is close to the limit, and more runs would not be useful."""
    parts: tuple[Evidence, ...] = ()
    one_of: bool = False
    """Whether the claim holds if one part holds."""
    along: tuple[Evidence, ...] = ()
    """If the number is an average over points, the numbers at these points. Only the average is judged."""


# One number


def verdict(interval: Interval, band: Band) -> Verdict:
    """Returns the verdict that follows from an interval and a claimed band. The verdict is `undecided` if
    there is no interval."""
    if not interval.decided:
        return "undecided"
    if band.strict:
        # On the side of an infinite end of the band, the interval cannot be outside the band, even if the end
        # of the interval is also infinite.
        above = interval.low > band.low or math.isinf(band.low)
        inside = above and (interval.high < band.high or math.isinf(band.high))
        outside = interval.high <= band.low or interval.low >= band.high
    else:
        inside = interval.low >= band.low and interval.high <= band.high
        outside = interval.high < band.low or interval.low > band.high
    return "holds" if inside else "fails" if outside else "undecided"


def agreement(interval: Interval, band: Band) -> Agreement:
    """Returns the agreement of two measurements, which follows from a band and the interval of the
    measurements' difference or ratio.

    *Equivalent*: the whole interval is in the band, which excludes a relevant difference (two one-sided
    tests; Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987). *Compatible*: the
    interval is partly in the band, or there is no interval, so that neither equivalence nor a miss is shown.
    *Miss*: the interval is outside the band.
    """
    return AGREEMENTS[verdict(interval, band)]


def is_known(interval: Interval, tolerance: float) -> bool:
    """Returns whether half the interval's width is at most `tolerance`, so that more runs would not be
    useful."""
    return interval.decided and interval.half_width <= tolerance


def judge(what: str, interval: Interval, band: Band, tolerance: float = 0.0) -> Evidence:
    """Returns the evidence for one number, from its description `what`, its interval and the claimed band.

    If a number is undecided although its interval's half-width is at most `tolerance` (in the number's unit),
    the evidence states that the number is close to the limit.
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
"""A function that returns the evidence for all parts of a claim, with intervals at a given confidence level.
The number and the order of the parts do not depend on this level."""


def level_of_parts(level: float, count: int) -> float:
    """Returns the confidence level that the interval of one of `count` parts needs so that this part alone
    can decide the verdict (`all_of` fails, or `any_of` holds). With this confidence level, the intervals of
    all parts jointly contain the true values with at least the probability `level`."""
    return simultaneous_level(level, max(count, 1))


def all_of(parts_at: PartsAt, level: float = LEVEL) -> Evidence:
    """Returns the evidence for a claim that all parts hold.

    The claim holds if all parts hold, each with an interval at the confidence level `level`, because
    additional parts do not make this verdict more likely by chance. The claim fails if all parts fail, or if
    one part fails with an interval at the confidence level `level_of_parts`. The higher level is needed
    because one of many parts would otherwise be likely to fail by chance. A single part that decides the
    verdict is shown only with the wider interval, so that the verdict follows from the shown intervals.
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
    """Returns the evidence for a claim that at least one of `count` parts holds. The rules are the opposite
    of those of `all_of`.

    The claim holds if one part holds with an interval at the confidence level `level_of_parts`. The claim
    fails if all parts fail, each with an interval at the confidence level `level`.
    """
    wider_level = level_of_parts(level, count)
    parts = parts_at(wider_level)
    found = either(*(map(_wider, parts) if wider_level > level else parts), level=wider_level)
    if found.verdict == "undecided":
        plain = either(*parts_at(level), level=level)
        return plain if plain.verdict == "fails" else found
    return found


def together(*parts: Evidence, level: float = LEVEL) -> Evidence:
    """Returns the evidence for a claim whose parts have already been judged. The claim holds if all parts
    hold, and fails if any part fails.

    The number and the interval are those of the part that decides the verdict, which is the first of the
    parts with the worst verdict. If there are no parts, the claim is undecided at this confidence level.
    """
    if not parts:
        return _without_parts(level)
    order: dict[Verdict, int] = {"fails": 0, "undecided": 1, "holds": 2}
    worst = min(parts, key=lambda part: order[part.verdict])
    return replace(worst, measured="; ".join(part.measured for part in parts), parts=parts, one_of=False)


def either(*parts: Evidence, level: float = LEVEL) -> Evidence:
    """Returns the evidence for a claim that one of several parts holds, if the parts have already been
    judged. The claim holds if any part holds, and fails if all parts fail.

    The number and the interval are those of the part that decides the verdict, which is the first of the
    parts with the best verdict. `level` is the confidence level of the intervals. If there are no parts, the
    claim is undecided.
    """
    if not parts:
        return _without_parts(level)
    order: dict[Verdict, int] = {"holds": 0, "undecided": 1, "fails": 2}
    best = min(parts, key=lambda part: order[part.verdict])
    said = f"the best of {len(parts)}" + (f", each at {100 * level:.4g} %" if best.wider else "")
    return replace(best, measured=f"{best.measured} ({said})", parts=parts, one_of=True)


def best_first(parts: Sequence[Evidence], band: Band) -> list[Evidence]:
    """Returns the parts of one claim at several points, sorted so that the part with the most extreme number
    in the claimed direction is first. If the band has two ends, the order is unchanged."""
    if math.isfinite(band.low) and math.isfinite(band.high):
        return list(parts)
    sign = -1 if math.isfinite(band.low) else 1
    return sorted(parts, key=lambda part: sign * part.value)


def _without_parts(level: float) -> Evidence:
    return Evidence(verdict="undecided", measured="no point of these runs is compared", level=level)


def _at_level(part: Evidence, level: float) -> Evidence:
    """Returns the evidence with the confidence level of its interval included in the text."""
    return replace(_wider(part), measured=f"{part.measured} (at {100 * level:.4g} %)")


def _wider(part: Evidence) -> Evidence:
    """Returns the evidence, and the evidence of its parts, marked as having a confidence level that is
    corrected for the number of parts."""
    return replace(part, wider=True, parts=tuple(map(_wider, part.parts)))
