"""Claims in a report: the matrix of verdicts, the choices on which verdicts depend, and the detailed
evidence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from aqmlab.results.labels import format_labels
from aqmlab.results.rule import AnyRule, Combined
from aqmlab.stats import PLURALS, Band, Evidence, Interval, Verdict
from aqmlab.study.publication import Claim, Judged, Origin, Reading, StudyResult, Variant

ORIGIN_TITLES: Mapping[Origin, str] = {
    "paper": "Claims of the paper",
    "sheet": "aqmlab's interpretations of the paper",
    "ours": "Claims of aqmlab",
}


# The matrix


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A verdict on a claim, for one reading or for adjacent readings with the same verdict."""

    readings: tuple[Reading, ...]
    judged: Judged | None
    why: str = ""
    """Reason why there is no verdict."""


Counts = dict[Verdict, int]
Effect = Literal["same", "other", "turned"]


class VerdictMatrix:
    """The verdicts of a study by claim and reading, and for each variant."""

    def __init__(self, result: StudyResult) -> None:
        self.result = result
        self.claims = result.study.claims
        several = any(one.reading.name for one in result.judged)
        self.columns: tuple[Reading, ...] = result.study.readings if several else (Reading(name=""),)
        """Readings that change verdicts, or a single reading without a name if no reading changes a
        verdict."""
        self.variants = tuple(variant for variant, _ in result.sensitivity)
        self._main: dict[str, Verdict] = {one.id: one.evidence.verdict for one in result.judged}
        self._under: dict[str, list[tuple[Variant, Judged]]] = {}
        for variant, verdicts in result.sensitivity:
            for one in verdicts:
                self._under.setdefault(one.id, []).append((variant, one))

    def judged(self, claim: Claim) -> list[Judged]:
        """Returns the verdicts on a claim, beginning with the main reading."""
        return [one for one in self.result.judged if one.claim.id == claim.id]

    def under(self, id: str) -> list[tuple[Variant, Judged]]:
        """Returns the verdicts for the variants under which the claim is judged."""
        return self._under.get(id, [])

    def cells(self, claim: Claim) -> list[Cell]:
        """Returns the verdicts on a claim for each column."""
        found: list[Cell] = []
        for reading in self.columns:
            judged = self._for(claim, reading, self.judged(claim))
            if found and judged is not None and found[-1].judged is judged:
                found[-1] = Cell(judged=judged, readings=(*found[-1].readings, reading))
            else:
                why = reading.leaves_out.get(claim.id, "")
                found.append(Cell(judged=judged, readings=(reading,), why=why))
        return found

    def _for(self, claim: Claim, reading: Reading, several: Sequence[Judged]) -> Judged | None:
        used = self.result.study.reading_of(claim, reading)
        return next((one for one in several if used and one.reading.name == used.name), None)

    @property
    def by_origin(self) -> dict[str, Counts]:
        """Returns, for each origin of claims, the numbers of claims that hold, fail and remain undecided in
        the main reading."""
        if not self.result.study.paper and self.claims:
            return {"Claims": _count([self.judged(one)[0].evidence.verdict for one in self.claims])}
        found = {}
        for origin, whose in ORIGIN_TITLES.items():
            verdicts = [self.judged(one)[0].evidence.verdict for one in self.claims if one.origin == origin]
            if verdicts:
                found[whose] = _count(verdicts)
        return found

    @property
    def by_reading(self) -> list[Counts]:
        """Returns, for each column, the numbers of claims that hold, fail and remain undecided."""
        rows = [[(cell.judged, len(cell.readings)) for cell in self.cells(claim)] for claim in self.claims]
        wide = [[judged for judged, span in row for _ in range(span)] for row in rows]
        return [_count([one.evidence.verdict for one in each if one]) for each in zip(*wide, strict=True)]

    @property
    def varied(self) -> list[Claim]:
        """The claims that are judged under variants."""
        return [claim for claim in self.claims if any(self.under(one.id) for one in self.judged(claim))]

    @property
    def varied_readings(self) -> list[Reading]:
        """The columns that are judged under variants."""
        return [reading for reading in self.columns if any(any(row) for _, row in self.varied_in(reading))]

    def varied_in(self, reading: Reading) -> list[tuple[Variant, list[Judged | None]]]:
        """Returns the verdicts on the varied claims for each variant, for a reading."""
        judged = [self._for(claim, reading, self.judged(claim)) for claim in self.varied]
        rows = [dict(self._named(one.id)) if one else {} for one in judged]
        return [(variant, [row.get(variant.name) for row in rows]) for variant in self.variants]

    def _named(self, id: str) -> list[tuple[str, Judged]]:
        return [(variant.name, one) for variant, one in self.under(id)]

    def effect(self, one: Judged) -> Effect:
        """Returns text about the effect of a variant on the main verdict."""
        before, now = self._main[one.id], one.evidence.verdict
        return "same" if before == now else "turned" if {before, now} == {"holds", "fails"} else "other"

    def changes(self, claim: Claim) -> str:
        """Returns the number of variants that change a verdict on the claim as text, or an empty string
        without variants."""
        pairs = [pair for one in self.judged(claim) for pair in self.under(one.id)]
        names = {variant.name for variant, _ in pairs}
        other = {variant.name for variant, one in pairs if self.effect(one) != "same"}
        return (
            f"{len(other)} of {len(names)} differ" if other else f"all {len(names)} the same" if names else ""
        )

    def dependences(self) -> list[Dependence]:
        """Returns the claims whose verdict changes between `holds` and `fails`, with the choice that changes
        the verdict."""
        return [
            one for claim in self.claims for one in (*self._by_readings(claim), *self._by_variants(claim))
        ]

    def _by_readings(self, claim: Claim) -> Iterator[Dependence]:
        named: dict[Verdict, list[str]] = {"holds": [], "fails": [], "undecided": []}
        for one in self.judged(claim):
            named[one.evidence.verdict].append(one.reading.name)
        if named["holds"] and named["fails"]:
            text = f"holds with {listed(named['holds'])}; fails with {listed(named['fails'])}"
            yield Dependence(claim=claim, id=claim.id, text=text)

    def _by_variants(self, claim: Claim) -> Iterator[Dependence]:
        for judged in self.judged(claim):
            turned = [variant.title for variant, one in self.under(judged.id) if self.effect(one) == "turned"]
            if turned:
                before = judged.evidence.verdict
                after = "fails" if before == "holds" else "holds"
                text = f"{before} as decided; {after} with {listed(turned)}"
                yield Dependence(claim=claim, id=judged.id, text=text)


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """A verdict that depends on a choice that the source does not specify."""

    claim: Claim
    id: str
    text: str


def _count(verdicts: Sequence[Verdict]) -> Counts:
    return {verdict: verdicts.count(verdict) for verdict in get_args(Verdict)}


def listed(words: Sequence[str]) -> str:
    """Joins words in the form `a, b and c`. A word that contains a comma is quoted."""
    *others, last = [f"“{word}”" if "," in word else word for word in words]
    return f"{', '.join(others)} and {last}" if others else last


def tally(counts: Counts) -> list[tuple[int, str]]:
    """Returns the numbers of claims that hold, fail and remain undecided, each with the matching word."""
    return [(number, verdict if number == 1 else PLURALS[verdict]) for verdict, number in counts.items()]


def deciding(found: Evidence) -> str:
    """Returns text with the number of parts that have the same verdict as the claim, or an empty string if
    there is only one part."""
    alike = sum(part.verdict == found.verdict for part in found.parts)
    several = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}
    one = several | {"undecided": "is undecided", "holds": "holds", "fails": "fails"}
    verb = (one if alike == 1 else several)[found.verdict]
    return f"{alike} of {len(found.parts)} parts {verb}" if len(found.parts) > 1 else ""


def interval(found: Evidence) -> str:
    """Returns text with the number, its interval and the interval's properties, or with the reason why there
    is no interval."""
    if found.lacks:
        return found.lacks
    text = str(Interval(value=found.value, low=found.low, high=found.high, count=found.count))
    if found.median:
        text += ", median"
    if found.wider:
        text += f" at {100 * found.level:.4g} %"
    return text + (f", known to ±{found.known_to:.2g}" if math.isfinite(found.known_to) else "")


def one_is_enough(rule: AnyRule) -> bool:
    """Returns whether one of several rules is sufficient."""
    return isinstance(rule, Combined) and not rule.every


# Evidence


@dataclass(frozen=True, kw_only=True)
class Strip:
    """An interval and the claimed band, as positions from 0 (left) to 100 (right)."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A number in the evidence."""

    label: str
    evidence: Evidence
    strip: Strip | None
    judged: bool = True
    """Whether the number is judged individually, and is not only part of an average."""

    @property
    def text(self) -> str:
        """The number with its interval, as text."""
        return interval(self.evidence)


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Numbers of the same kind with the same claimed band, which are plotted on one scale."""

    what: str
    claimed: str
    average: bool
    band: tuple[float, float]
    """Position of the band, from 0 to 100."""
    ends: Sequence[tuple[float, str]]
    """Positions of the band's ends, with their labels."""
    lines: Sequence[Line]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Evidence with a common context. The group contains lines or other groups, of which either all or only
    one must hold."""

    context: str
    lines: Sequence[Lines] = ()
    inner: Sequence[Group] = ()
    evidence: Evidence


def groups(evidence: Evidence) -> list[Group]:
    """Returns all parts of the evidence in their order, grouped by context and quantity."""
    found = []
    parts = evidence.parts or (evidence,)
    for (context, nested), several in itertools.groupby(parts, lambda one: (one.context, bool(one.parts))):
        if nested:
            found += [Group(context="", inner=groups(one), evidence=one) for one in several]
        else:
            found.append(Group(context=context, lines=list(_lines(list(several))), evidence=evidence))
    return found


def _lines(parts: Sequence[Evidence]) -> Iterator[Lines]:
    for (what, band), several in itertools.groupby(parts, lambda one: (one.what, one.band)):
        if band is None:
            continue
        kept = _in_order(list(several))
        scale = _Scale.of([part for one in kept for part in (one, *one.along)], band)
        lines = []
        for one in kept:
            lines.append(Line(label=_label(one), evidence=one, strip=scale.strip(one)))
            for point in one.along:
                label = format_labels(point.where)
                lines.append(Line(label=label, evidence=point, strip=scale.strip(point), judged=False))
        yield Lines(
            what=what,
            claimed=str(band),
            average=any(one.along for one in kept),
            band=(scale.position(band.low), scale.position(band.high)),
            ends=[(scale.position(end), f"{end:.4g}") for end in (band.low, band.high) if math.isfinite(end)],
            lines=lines,
        )


def _in_order(parts: list[Evidence]) -> list[Evidence]:
    """Sorts parts along their axes if all values are numbers; otherwise keeps the order."""
    if all(isinstance(value, int | float) for one in parts for value in one.where.values()):
        return sorted(parts, key=lambda one: tuple(one.where.values()))
    return parts


def _label(part: Evidence) -> str:
    if not part.along:
        return format_labels(part.where)
    axes = [label for label in part.along[0].where if label not in part.where]
    average = f"average over {listed(axes)}"
    return f"{format_labels(part.where)}, {average}" if part.where else average


@dataclass(frozen=True, kw_only=True)
class _Scale:
    low: float
    high: float

    @classmethod
    def of(cls, parts: Sequence[Evidence], band: Band) -> _Scale:
        """Returns a scale that contains all intervals and both ends of the band, with a margin of 8 % on each
        side."""
        numbers = [number for part in parts for number in (part.value, part.low, part.high)]
        known = [number for number in (*numbers, band.low, band.high) if math.isfinite(number)]
        low, high = min(known, default=0.0), max(known, default=1.0)
        room = 0.08 * (high - low) or 1.0
        return cls(low=low - room, high=high + room)

    def position(self, number: float) -> float:
        share = (number - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 1)

    def strip(self, part: Evidence) -> Strip | None:
        if math.isnan(part.value):
            return None
        certain = not (math.isnan(part.low) or math.isnan(part.high))
        ends = (self.position(part.low), self.position(part.high)) if certain else (None, None)
        return Strip(value=self.position(part.value), low=ends[0], high=ends[1])
