"""Rules of claims: an estimate and the band that is claimed for it, at each point of the axes left open.

The text of a rule, the labels of its numbers and its name in the committed list of rules are derived of it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aqmlab import stats
from aqmlab._support.names import hint
from aqmlab.measures import with_unit
from aqmlab.results.labels import Labels, Value, said
from aqmlab.results.variable import (
    NOTHING,
    Along,
    RunsByName,
    Variable,
    all_at,
    axes_of,
    common_values,
    measured,
    points_used,
    product,
    seeds_of,
    series,
)
from aqmlab.stats import Band, Evidence, Interval, modality

RATIO_TOLERANCE = 0.01
"""Ratios that are known to a hundredth and are not told apart from a limit get no more seeds."""

UNPAIRED = "unpaired ratio"
"""The one estimate of two variables that the same seed does not pair."""

Finds = Callable[[Sequence[Sequence[Any]], float], Interval]
"""From the values of some variables, each by seed, and a confidence level, to an interval."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """A number of the population of which replications are a sample, with its interval.

    Compared with a number it becomes a rule: `estimate < 1`, `estimate >= 0.98`, `estimate.within(0.9, 1.1)`.
    """

    how: str
    """What is estimated of the variables: `mean`, `ratio`, `difference`, or what a `statistic` is called."""
    of: tuple[Variable, ...]
    finds: Finds
    words: str
    """What it is, without where: `median object time, SHRED/RED`."""
    tolerance: float = 0.0
    """Half an interval that is narrow enough: more runs would tell nothing of use."""
    raw: bool = False
    """Whether `finds` is told what the measures are, lists and tables too, and not numbers."""
    version: int = 1
    condition: str = ""
    """SQL over labels that holds where it is judged."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of which no value is chosen: the rule is judged at each."""
        return axes_of(self.of)

    @property
    def context(self) -> str:
        """Where it is estimated: `Web-mixed, load = 0.7`."""
        told = _context(self.of, _common(self.of))
        return f"{told}, where {self.condition}" if self.condition else told

    @property
    def definition(self) -> Any:
        """What it is, as plain JSON."""
        return {
            "estimate": self.how,
            "version": self.version,
            "axes": {label: [str(value) for value in self._all_values(label)] for label in self.axes},
            "of": [variable.definition for variable in self.of],
            **({"where": self.condition} if self.condition else {}),
        }

    def _all_values(self, label: str) -> Sequence[Value]:
        experiments = [one for variable in self.of for one in variable.experiments]
        return next(one.values(label) for one in experiments if label in one.labels)

    def at(self, **labels: Value) -> Estimate:
        """The same where some axes have these values."""
        return replace(self, of=all_at(self.of, labels))

    def where(self, condition: str) -> Estimate:
        """The same, judged only where labels meet a condition in SQL: `load > 0.5 AND queue = 'red'`. Raises
        `ValueError` if the condition is no SQL, or names an axis that does not exist."""
        _check_condition(condition, (*self.axes, *self.of[0].chosen))
        return replace(
            self, condition=f"({self.condition}) AND ({condition})" if self.condition else condition
        )

    def spread(self) -> Estimate:
        """The same at each point of the axes along which it is of means; itself if it is of none."""
        of = tuple(one.of if isinstance(one, Along) and one.label in one.averages else one for one in self.of)
        return self if of == self.of else replace(self, of=of).spread()

    def points(self, results: RunsByName) -> Iterator[Labels]:
        """The labels at which it is judged, as far as the form that was run has them."""
        every_point = product({label: self.values_of(label, results) for label in self.axes})
        found = (labels for labels in every_point if all(_exists(one, results, labels) for one in self.of))
        return self._meeting(list(found)) if self.condition else found

    def _meeting(self, points: Sequence[Labels]) -> Iterator[Labels]:
        """The points whose labels, with those that were chosen of the first variable, meet the condition."""
        import polars as pl

        if points:
            table = pl.DataFrame([{**self.of[0].chosen, **labels} for labels in points]).with_row_index("at")
            yield from (points[at] for at in table.filter(pl.sql_expr(self.condition))["at"])

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        """The values of an axis at which it is judged, as far as the form that was run has them."""
        return common_values(self.of, label, results)

    def interval(self, results: RunsByName, labels: Labels = NOTHING, level: float = stats.LEVEL) -> Interval:
        """The estimate at a point."""
        return self.finds(self.samples(results, labels), level)

    def samples(self, results: RunsByName, labels: Labels = NOTHING) -> list[list[Any]]:
        """The values of each variable at a point by seed, paired by their places; those of a `statistic` as
        the measures are, others as numbers."""
        seeds = seeds_of(self.of, results)
        if self.raw:
            return [one.values(results, labels, seeds) for one in self.of]
        return [series(one, results, labels, seeds) for one in self.of]

    def apart(self, results: RunsByName, labels: Labels) -> str:
        """Which seeds there are where no seed has runs at all points that are compared; empty where one does,
        or where a point has no runs at all."""
        variables = [[one] for one in self.of] if self.how == UNPAIRED else [self.of]
        for several in variables:
            points = set().union(*(points_used(one, results, labels) for one in several))
            seeds = [set(results[name].seeds_at(point)) for name, point in points]
            if all(seeds) and not set.intersection(*seeds):
                return " and ".join(dict.fromkeys(_range(one) for one in sorted(seeds, key=min)))
        return ""

    def is_known(self, interval: Interval) -> bool:
        """Whether an interval of it is so narrow that more seeds would tell nothing of use."""
        return stats.is_known(interval, self.tolerance)

    def to_within(self, half: float) -> Estimate:
        """The same, for which no more seeds are asked where half its interval is no wider than this."""
        return replace(self, tolerance=half)

    def __lt__(self, limit: float) -> Rule:
        return self.in_band(stats.below(limit))

    def __gt__(self, limit: float) -> Rule:
        return self.in_band(stats.above(limit))

    def __le__(self, limit: float) -> Rule:
        return self.in_band(stats.at_most(limit))

    def __ge__(self, limit: float) -> Rule:
        return self.in_band(stats.at_least(limit))

    def within(self, low: float, high: float) -> Rule:
        """That it lies between the two, ends included."""
        return self.in_band(stats.within(low, high))

    def in_band(self, band: Band) -> Rule:
        """That it lies in a band."""
        return Rule(estimate=self, band=band)


def mean_of(variable: Variable) -> Estimate:
    """The mean of a variable over the seeds, or their median if they have several modes (`modality.mean`)."""
    return Estimate(
        how="mean",
        of=(variable,),
        finds=lambda values, level: modality.mean(values[0], level),
        words=with_unit(variable.name, variable.unit),
    )


def single_run(variable: Variable, standard_error: Variable, batches: int) -> Estimate:
    """The value of a variable in a single long run, with the interval that the standard error of the means of
    so many batches gives (Law, section 9.5.3)."""

    def by_batches(values: Sequence[Sequence[Any]], level: float) -> Interval:
        if not values[0]:
            return Interval(value=math.nan, low=math.nan, high=math.nan, count=0, level=level)
        value, half = values[0][0], stats.t_quantile(level, batches - 1) * values[1][0]
        return Interval(value=value, low=value - half, high=value + half, count=1, level=level)

    return Estimate(
        how=f"mean of {batches} batches",
        of=(variable, standard_error),
        finds=by_batches,
        words=with_unit(variable.name, variable.unit),
    )


def ratio(ours: Variable, theirs: Variable | None = None, **pair: tuple[Value, Value]) -> Estimate:
    """The ratio of the means of two variables, or of one at two values of an axis, `queue=("SHRED", "RED")`,
    paired by seed (`modality.paired_ratio`). Raises `ValueError` if their units differ."""
    ours, theirs = _of_one_unit("ratio", *_both(ours, theirs, pair))
    return Estimate(
        how="ratio",
        of=(ours, theirs),
        finds=lambda values, level: modality.paired_ratio(values[0], values[1], level),
        words=_compared(ours, theirs, "/", ""),
        tolerance=RATIO_TOLERANCE,
    )


def unpaired_ratio(ours: Variable, theirs: Variable) -> Estimate:
    """The ratio of the means of two variables above zero that the same seed does not pair, such as those of
    different arrivals (`modality.unpaired_ratio`). Raises `ValueError` if their units differ."""
    _of_one_unit("ratio", ours, theirs)
    return Estimate(
        how=UNPAIRED,
        of=(ours, theirs),
        finds=lambda values, level: modality.unpaired_ratio(values[0], values[1], level),
        words=_compared(ours, theirs, "/", ""),
        tolerance=RATIO_TOLERANCE,
    )


def difference(ours: Variable, theirs: Variable | None = None, **pair: tuple[Value, Value]) -> Estimate:
    """The mean difference of two variables, or of one at two values of an axis, paired by seed. Raises
    `ValueError` if their units differ."""
    ours, theirs = _of_one_unit("difference", *_both(ours, theirs, pair))
    return Estimate(
        how="difference",
        of=(ours, theirs),
        finds=lambda values, level: modality.paired_difference(values[0], values[1], level),
        words=_compared(ours, theirs, " - ", ours.unit),
    )


def compared(
    *several: Variable, by: Callable[..., Estimate] = ratio, **pair: tuple[Value | None, Sequence[Value]]
) -> list[Estimate]:
    """Each of some variables at a value of an axis compared with each of others, `queue=("SHRED", ["RED",
    "Drop Tail"])`, by their `ratio` or `difference`; without the value, at each that the axis has."""
    ((label, (ours, others)),) = pair.items()
    return [
        by(one if ours is None else one.at(**{label: ours}), one.at(**{label: other}))
        for one in several
        for other in others
    ]


def _both(
    ours: Variable, theirs: Variable | None, pair: Mapping[str, tuple[Value, Value]]
) -> tuple[Variable, Variable]:
    if theirs is not None:
        return ours, theirs
    ((label, (first, second)),) = pair.items()
    return ours.at(**{label: first}), ours.at(**{label: second})


def _of_one_unit(how: str, ours: Variable, theirs: Variable) -> tuple[Variable, Variable]:
    if ours.unit != theirs.unit:
        told = " and ".join(f"`{one.name}` is {_unit(one)}" for one in (ours, theirs))
        raise ValueError(
            f"{how}: {told}, and both need the same unit: if two units are meant, compute a variable of both "
            "(`per_seed`)"
        )
    return ours, theirs


def _unit(variable: Variable) -> str:
    return f"in {variable.unit}" if variable.unit else "a plain number"


def statistic(how: str, finds: Finds, *of: Variable, version: int = 1, unit: str = "") -> Estimate:
    """Any other estimate: `finds` is told, for each variable, the values of all seeds as the measures are."""
    return Estimate(
        how=how,
        of=of,
        finds=finds,
        words=with_unit(how, unit),
        raw=True,
        version=version,
    )


def _check_condition(condition: str, known: Sequence[str]) -> None:
    import polars as pl

    try:
        named = pl.sql_expr(condition).meta.root_names()
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise ValueError(f"where: is no condition in SQL: {condition!r} ({error})") from None
    for label in named:
        if label not in known:
            raise ValueError(f"where: no axis is called `{label}`: {hint(label, known)}")


def _context(of: Sequence[Variable], common: Labels) -> str:
    """Where variables are measured, what was chosen of it, and along what means were taken."""
    titles = list(dict.fromkeys(one.title for variable in of for one in variable.experiments))
    averages = list(dict.fromkeys(label for variable in of for label in variable.averages))
    told = [" and ".join(titles), *([said(common)] if common else [])]
    return ", ".join([*told, *(f"averaged over {label}" for label in averages)])


def _compared(ours: Variable, theirs: Variable, sign: str, unit: str) -> str:
    """What two variables differ in: `mean object time, SHRED/RED`."""
    common = _common([ours, theirs])
    told = [_apart(one, other, common) for one, other in ((ours, theirs), (theirs, ours))]
    if ours.name == theirs.name:
        return with_unit(f"{ours.name}, {sign.join(told)}", unit)
    named = [
        f"{one.name}, {apart}" if apart else one.name for one, apart in zip((ours, theirs), told, strict=True)
    ]
    return with_unit(sign.join(named), unit)


def _apart(one: Variable, other: Variable, common: Labels) -> str:
    told = [str(value) for label, value in one.chosen.items() if label not in common]
    told += [f"each {label}" for label in other.chosen if label in one.axes]
    if told or one.name != other.name:
        return " ".join(told)
    return " and ".join(experiment.title for experiment in one.experiments)


def _exists(variable: Variable, results: RunsByName, labels: Labels) -> bool:
    """Whether the runs have all points that a variable is computed of."""
    sets = {one.name: results[one.name].point_set for one in variable.experiments}
    if all(points is None for points in sets.values()):
        return True
    used = points_used(variable, results, labels)
    return all((points := sets[name]) is None or point in points for name, point in used)


def _range(seeds: Collection[int]) -> str:
    """Seeds in words: `1 to 10`; those with gaps one by one."""
    first, last = min(seeds), max(seeds)
    if len(seeds) > 2 and last - first == len(seeds) - 1:
        return f"{first} to {last}"
    return ", ".join(map(str, sorted(seeds)))


def _of_them(of: Sequence[Variable], label: str) -> str:
    """The values of an axis where not all are judged: ` of 0.5, 0.7`."""
    some = [leaf.fewer[label] for one in of for leaf in measured(one) if label in leaf.fewer]
    if not some:
        return ""
    kept = [str(value) for value in some[0] if all(value in others for others in some[1:])]
    return f" of {', '.join(kept)}"


def _common(several: Sequence[Variable]) -> Labels:
    first, *others = several
    return {
        label: value
        for label, value in first.chosen.items()
        if all(one.chosen.get(label) == value for one in others)
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """That an estimate lies in a band, at each point of the axes left open."""

    estimate: Estimate
    band: Band
    untold: frozenset[str] = frozenset()
    """Axes left open that its text does not name, as somebody else says at which values it is judged."""

    @property
    def text(self) -> str:
        """What is compared, in words."""
        return f"{self.context}: {self.phrase}"

    def without(self, *labels: str) -> Rule:
        """The same, with a text that does not name some axes."""
        return replace(self, untold=frozenset(labels))

    def where(self, condition: str) -> Rule:
        """The same, judged only where labels meet a condition in SQL: `load > 0.5`."""
        return replace(self, estimate=self.estimate.where(condition))

    @property
    def context(self) -> str:
        """Where it is judged."""
        told = (label for label in self.estimate.axes if label not in self.untold)
        each = (f"at each {label}{_of_them(self.estimate.of, label)}" for label in told)
        return ", ".join([self.estimate.context, *each])

    @property
    def phrase(self) -> str:
        """What is claimed there."""
        return f"{self.estimate.words} {self.band}"

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """What is claimed, by where."""
        return {self.context: [self.phrase]}

    @property
    def definition(self) -> Any:
        return {"claimed": str(self.band), **self.estimate.definition}

    @property
    def variables(self) -> tuple[Variable, ...]:
        return self.estimate.of

    def at(self, labels: Labels) -> Rule:
        """The same where axes that it leaves open have these values; others are ignored."""
        known = {label: value for label, value in labels.items() if label in self.estimate.axes}
        return replace(self, estimate=self.estimate.at(**known)) if known else self

    def judge(self, results: RunsByName, level: float = stats.LEVEL) -> Evidence:
        """The evidence for it at all points together (`stats.all_of`)."""
        return stats.all_of(lambda at: self.parts(results, at), level)

    def parts(self, results: RunsByName, level: float = stats.LEVEL) -> list[Evidence]:
        """The evidence at each point, by intervals of this level."""
        return [self._judged(results, labels, level) for labels in self.estimate.points(results)]

    def _judged(self, results: RunsByName, labels: Labels, level: float) -> Evidence:
        what = ", ".join([self.estimate.words, *([said(labels)] if labels else [])])
        interval = self.estimate.interval(results, labels, level)
        found = stats.judge(what, interval, self.band, self.estimate.tolerance)
        apart = "" if interval.count else self.estimate.apart(results, labels)
        lacks = ""
        if apart:
            lacks = f"the points that are compared share no seed: there are the seeds {apart}"
        elif not interval.count:
            lacks = "no run of the points that are compared has a number"
        if lacks:
            found = replace(found, lacks=lacks, measured=f"{what}: {lacks}")
        spread = replace(self, estimate=self.estimate.spread())
        average = spread.estimate is not self.estimate
        return replace(
            found,
            what=self.estimate.words,
            context=self.estimate.context,
            where=labels,
            along=tuple(spread.at(labels).parts(results, level)) if average else (),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Several:
    """Rules that shall all hold, or one of which shall."""

    rules: tuple[AnyRule, ...]
    every: bool

    def without(self, *labels: str) -> Several:
        """The same, with a text that does not name some axes."""
        return replace(self, rules=tuple(rule.without(*labels) for rule in self.rules))

    def where(self, condition: str) -> Several:
        """The same, judged only where labels meet a condition in SQL."""
        return replace(self, rules=tuple(rule.where(condition) for rule in self.rules))

    @property
    def text(self) -> str:
        """What is compared, in words."""
        told = [
            f"{context}: {'; '.join(phrases)}" if context else "; ".join(phrases)
            for context, phrases in self.groups.items()
        ]
        return ". ".join(told) if self.every else f"at some point: {' or '.join(told)}"

    @property
    def context(self) -> str:
        """Where all of it is judged, if that is one place."""
        contexts = {self._quantified(rule.context) for rule in self.rules}
        return contexts.pop() if len(contexts) == 1 else ""

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """What is claimed, by where."""
        grouped: dict[str, list[str]] = {}
        for rule in self.rules:
            grouped.setdefault(self._quantified(rule.context), []).append(rule.phrase)
        return grouped

    def _quantified(self, context: str) -> str:
        return context if self.every else context.replace("at each ", "at some ")

    @property
    def phrase(self) -> str:
        """What is claimed there."""
        if not self.context:
            return self.text
        return (" and " if self.every else " or ").join(rule.phrase for rule in self.rules)

    @property
    def definition(self) -> Any:
        parts = [rule.definition for rule in self.rules]
        return {"every": parts} if self.every else {"any": parts, "corrected": "Bonferroni"}

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(variable for rule in self.rules for variable in rule.variables)

    def at(self, labels: Labels) -> Several:
        return replace(self, rules=tuple(rule.at(labels) for rule in self.rules))

    def points(self, results: RunsByName) -> Iterator[Labels]:
        """The labels of all points of the axes that its rules leave open, as far as all of them have them."""
        return product(
            {label: common_values(self.variables, label, results) for label in axes_of(self.variables)}
        )

    def judge(self, results: RunsByName, level: float = stats.LEVEL) -> Evidence:
        """The evidence for all of them together (`stats.all_of`), or for one of them (`stats.any_of`)."""
        if self.every:
            return stats.all_of(lambda at: self.parts(results, at), level)
        return stats.any_of(lambda at: self._alternatives(results, at), self._count(results), level)

    def _alternatives(self, results: RunsByName, level: float) -> list[Evidence]:
        """The evidence at each point of each rule, one of which is to hold: of each rule the most extreme in
        the claimed direction first."""
        return [part for rule in self.rules for part in _best_first(rule, results, level)]

    def _count(self, results: RunsByName) -> int:
        """How many alternatives there are."""
        points = ((one if isinstance(one, Several) else one.estimate).points(results) for one in self.rules)
        return sum(1 for of_rule in points for _ in of_rule)

    def level_of_parts(self, results: RunsByName, level: float) -> float:
        """The level of the intervals by which each part is judged that may hold for all."""
        return level if self.every else stats.level_of_parts(level, self._count(results))

    def parts(self, results: RunsByName, level: float = stats.LEVEL) -> list[Evidence]:
        """The evidence for each rule at each point; of rules one of which is to hold, for all in one."""
        if not self.every:
            return [self.judge(results, level)]
        return [part for rule in self.rules for part in rule.parts(results, level)]


def _best_first(rule: AnyRule, results: RunsByName, level: float) -> list[Evidence]:
    """The evidence at each point of a rule that is to hold at one."""
    if isinstance(rule, Several):
        return [rule.at(labels).judge(results, level) for labels in rule.points(results)]
    return stats.best_first(rule.parts(results, level), rule.band)


AnyRule = Rule | Several


def grows(variable: Variable, /, **along: Sequence[Value]) -> AnyRule:
    """That a variable is larger at each of some values of an axis than at the one before,
    `queue=("20p", "100p", "400p")`: each ratio of two means is above 1. Raises `ValueError` unless there are
    two values or more."""
    return _each(step > 1 for step in _steps(variable, along))


def falls(variable: Variable, /, **along: Sequence[Value]) -> AnyRule:
    """That a variable is smaller at each of some values of an axis than at the one before."""
    return _each(step < 1 for step in _steps(variable, along))


def _steps(variable: Variable, along: Mapping[str, Sequence[Value]]) -> Iterator[Estimate]:
    ((label, values),) = along.items()
    if len(values) < 2:
        raise ValueError(f"{label}: needs two values or more to compare, has {len(values)}")
    for before, after in itertools.pairwise(values):
        yield ratio(variable.at(**{label: after}), variable.at(**{label: before}))


def _each(rules: Iterable[AnyRule]) -> AnyRule:
    several = tuple(rules)
    return several[0] if len(several) == 1 else every(*several)


def every(*rules: AnyRule) -> Several:
    """That all rules hold."""
    return Several(rules=rules, every=True)


def anywhere(*rules: AnyRule) -> Several:
    """That one of the rules holds at one point; those of an `every` hold at the same. Each part is judged at
    the level that Bonferroni's correction for their number gives."""
    return Several(rules=rules, every=False)


def digest(definition: Any) -> str:
    """A short name for what a rule says: changes if anything of it does."""
    text = json.dumps(definition, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
