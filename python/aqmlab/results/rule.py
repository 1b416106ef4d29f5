"""Rules of claims: an estimate and its claimed band, at each point of the free axes.

The text of a rule, the labels of its numbers and its name in the committed list of rules are derived from the
rule.
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
from aqmlab.results.labels import Labels, Value, format_labels
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
"""Half-width of the interval of a ratio at which no further seeds are added, even if the interval contains a
limit."""

UNPAIRED = "unpaired ratio"
"""Name of the estimate whose two variables are not paired by seed."""

Finds = Callable[[Sequence[Sequence[Any]], float], Interval]
"""Function from the values of variables (one list by seed for each variable) and a confidence level to an
interval."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """An estimate of a population value from replications, with its interval.

    A comparison with a number creates a rule: `estimate < 1`, `estimate >= 0.98`, `estimate.within(0.9,
    1.1)`.
    """

    how: str
    """The kind of estimate: `mean`, `ratio`, `difference`, or the name of a `statistic`."""
    of: tuple[Variable, ...]
    finds: Finds
    words: str
    """The quantity in words, without its labels: `median object time, ratio of SHRED to RED`."""
    tolerance: float = 0.0
    """Half-width of an interval at which further runs are not useful."""
    raw: bool = False
    """Whether `finds` receives the original values of measures, including lists and tables, instead of
    numbers."""
    version: int = 1
    condition: str = ""
    """SQL condition over labels that selects the points to judge."""

    @property
    def axes(self) -> tuple[str, ...]:
        """The free axes, at each of whose values the rule is judged."""
        return axes_of(self.of)

    @property
    def context(self) -> str:
        """The labels of the estimate in words: `Web-mixed, load = 0.7`."""
        context = _context(self.of, _common(self.of))
        return f"{context}, where {self.condition}" if self.condition else context

    @property
    def definition(self) -> Any:
        """The definition as plain JSON."""
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
        """The estimate with these values of some axes."""
        return replace(self, of=all_at(self.of, labels))

    def where(self, condition: str) -> Estimate:
        """The estimate restricted to the points whose labels satisfy an SQL condition: `load > 0.5 AND queue
        = 'red'`. Raises `ValueError` if the condition is invalid SQL, or names an unknown axis."""
        _check_condition(condition, (*self.axes, *self.of[0].chosen))
        return replace(
            self, condition=f"({self.condition}) AND ({condition})" if self.condition else condition
        )

    def spread(self) -> Estimate:
        """The estimate at each point of the axes over which its variables are averaged, or the estimate
        itself if there are no such axes."""
        of = tuple(one.of if isinstance(one, Along) and one.label in one.averages else one for one in self.of)
        return self if of == self.of else replace(self, of=of).spread()

    def points(self, results: RunsByName) -> Iterator[Labels]:
        """Yields the labels of those points to judge that are part of the executed form."""
        every_point = product({label: self.values_of(label, results) for label in self.axes})
        existing = (labels for labels in every_point if all(_exists(one, results, labels) for one in self.of))
        return self._satisfying(list(existing)) if self.condition else existing

    def _satisfying(self, points: Sequence[Labels]) -> Iterator[Labels]:
        """Yields the points whose labels, together with the fixed labels of the first variable, satisfy the
        condition."""
        import polars as pl

        if points:
            table = pl.DataFrame([{**self.of[0].chosen, **labels} for labels in points]).with_row_index("at")
            yield from (points[at] for at in table.filter(pl.sql_expr(self.condition))["at"])

    def values_of(self, label: str, results: RunsByName) -> tuple[Value, ...]:
        """Those values of an axis to judge that are part of the executed form."""
        return common_values(self.of, label, results)

    def interval(self, results: RunsByName, labels: Labels = NOTHING, level: float = stats.LEVEL) -> Interval:
        """The interval at a point."""
        return self.finds(self.samples(results, labels), level)

    def samples(self, results: RunsByName, labels: Labels = NOTHING) -> list[list[Any]]:
        """The values of each variable at a point, one for each seed, in the order of seeds. The values are
        original values for a `statistic`, and numbers otherwise."""
        seeds = seeds_of(self.of, results)
        if self.raw:
            return [one.values(results, labels, seeds) for one in self.of]
        return [series(one, results, labels, seeds) for one in self.of]

    def apart(self, results: RunsByName, labels: Labels) -> str:
        """The available seeds in words, if no seed has runs at all compared points; empty if a common seed
        exists, or if a point has no runs."""
        variables = [[one] for one in self.of] if self.how == UNPAIRED else [self.of]
        for several in variables:
            points = set().union(*(points_used(one, results, labels) for one in several))
            seeds = [set(results[name].seeds_at(point)) for name, point in points]
            if all(seeds) and not set.intersection(*seeds):
                return " and ".join(dict.fromkeys(_range(one) for one in sorted(seeds, key=min)))
        return ""

    def is_known(self, interval: Interval) -> bool:
        """Whether an interval is so narrow that further seeds are not useful."""
        return stats.is_known(interval, self.tolerance)

    def to_within(self, half: float) -> Estimate:
        """The estimate with a different half-width at which no further seeds are added."""
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
        """The rule that the estimate is between two numbers, inclusive."""
        return self.in_band(stats.within(low, high))

    def in_band(self, band: Band) -> Rule:
        """The rule that the estimate is in a band."""
        return Rule(estimate=self, band=band)


def mean_of(variable: Variable) -> Estimate:
    """The mean of a variable over the seeds, or the median if the values have several modes
    (`modality.mean`)."""
    return Estimate(
        how="mean",
        of=(variable,),
        finds=lambda values, level: modality.mean(values[0], level),
        words=with_unit(variable.name, variable.unit),
    )


def single_run(variable: Variable, standard_error: Variable, batches: int) -> Estimate:
    """The value of a variable in a single long run, with the interval from the standard error of the means of
    `batches` batches (Law, section 9.5.3)."""

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
    """The ratio of the means of two variables, or of one variable at two values of an axis, `queue=("SHRED",
    "RED")`, paired by seed (`modality.paired_ratio`). Raises `ValueError` if the units differ."""
    ours, theirs = _of_one_unit("ratio", *_both(ours, theirs, pair))
    return Estimate(
        how="ratio",
        of=(ours, theirs),
        finds=lambda values, level: modality.paired_ratio(values[0], values[1], level),
        words=_ratio_words(ours, theirs),
        tolerance=RATIO_TOLERANCE,
    )


def unpaired_ratio(ours: Variable, theirs: Variable) -> Estimate:
    """The ratio of the means of two positive variables that are not paired by seed, for example with
    different arrivals (`modality.unpaired_ratio`). Raises `ValueError` if the units differ."""
    _of_one_unit("ratio", ours, theirs)
    return Estimate(
        how=UNPAIRED,
        of=(ours, theirs),
        finds=lambda values, level: modality.unpaired_ratio(values[0], values[1], level),
        words=_ratio_words(ours, theirs),
        tolerance=RATIO_TOLERANCE,
    )


def difference(ours: Variable, theirs: Variable | None = None, **pair: tuple[Value, Value]) -> Estimate:
    """The mean difference of two variables, or of one variable at two values of an axis, paired by seed.
    Raises `ValueError` if the units differ."""
    ours, theirs = _of_one_unit("difference", *_both(ours, theirs, pair))
    return Estimate(
        how="difference",
        of=(ours, theirs),
        finds=lambda values, level: modality.paired_difference(values[0], values[1], level),
        words=_difference_words(ours, theirs),
    )


def compared(
    *several: Variable, by: Callable[..., Estimate] = ratio, **pair: tuple[Value | None, Sequence[Value]]
) -> list[Estimate]:
    """Comparisons of each variable at a value of an axis with other values of the axis, `queue=("SHRED",
    ["RED", "Drop Tail"])`, by `ratio` or `difference`. `None` as the first value stands for each value of the
    axis."""
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
        units = " and ".join(f"`{one.name}` is {_unit(one)}" for one in (ours, theirs))
        raise ValueError(f"{how}: units must be equal, but {units}: combine the variables with `per_seed`")
    return ours, theirs


def _unit(variable: Variable) -> str:
    return f"in {variable.unit}" if variable.unit else "a plain number"


def statistic(
    how: str, finds: Finds, *of: Variable, version: int = 1, unit: str = "", title: str = ""
) -> Estimate:
    """Any other estimate. For each variable, `finds` receives the original values of all seeds. `how` is part
    of the rule's digest; in texts, `title` is printed instead if it is given."""
    return Estimate(
        how=how,
        of=of,
        finds=finds,
        words=with_unit(title or how, unit),
        raw=True,
        version=version,
    )


def _check_condition(condition: str, known: Sequence[str]) -> None:
    import polars as pl

    try:
        named = pl.sql_expr(condition).meta.root_names()
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise ValueError(f"where: must be an SQL condition (got {condition!r}): {error}") from None
    for label in named:
        if label not in known:
            raise ValueError(f"where: no axis is called `{label}`: {hint(label, known)}")


def _context(of: Sequence[Variable], common: Labels) -> str:
    """The labels of variables in words: experiments, fixed labels, and axes over which the variables are
    averaged."""
    titles = list(dict.fromkeys(one.title for variable in of for one in variable.experiments))
    averages = list(dict.fromkeys(label for variable in of for label in variable.averages))
    parts = [" and ".join(titles), *([format_labels(common)] if common else [])]
    return ", ".join([*parts, *(f"averaged over {label}" for label in averages)])


def _ratio_words(ours: Variable, theirs: Variable) -> str:
    """A ratio in words: `mean object time, ratio of SHRED to RED`."""
    first, second = _sides(ours, theirs)
    if ours.name == theirs.name:
        return f"{ours.name}, ratio of {first} to {second}"
    return f"{first} divided by {second}"


def _difference_words(ours: Variable, theirs: Variable) -> str:
    """A difference in words: `mean object time, SHRED minus RED (s)`."""
    first, second = _sides(ours, theirs)
    difference = f"{first} minus {second}"
    return with_unit(f"{ours.name}, {difference}" if ours.name == theirs.name else difference, ours.unit)


def _sides(ours: Variable, theirs: Variable) -> tuple[str, str]:
    """The two sides of a comparison in words: how the sides differ, with the names of the variables if the
    names also differ."""
    common = _common([ours, theirs])
    first, second = (_side(one, other, common) for one, other in ((ours, theirs), (theirs, ours)))
    if ours.name == theirs.name:
        return first, second
    return _joined(ours.name, first), _joined(theirs.name, second)


def _joined(name: str, labels: str) -> str:
    return f"{name}, {labels}" if labels else name


def _side(one: Variable, other: Variable, common: Labels) -> str:
    """How one side of a comparison differs from the other: `SHRED`, `each load`, `RIO-PS with ITO = 3 s`,
    `the value with load = 0.7`.

    A value that begins with a letter is printed without its label, because the value is a name.
    """
    own = {label: value for label, value in one.chosen.items() if label not in common}
    named = [value for value in own.values() if isinstance(value, str) and value[:1].isalpha()]
    named += [f"each {label}" for label in other.chosen if label in one.axes]
    numbers = format_labels({label: value for label, value in own.items() if value not in named})
    if numbers and not named:
        return f"the value with {numbers}" if one.name == other.name else numbers
    if named or one.name != other.name:
        return " with ".join(words for words in (" ".join(named), numbers) if words)
    titles = [experiment.title for experiment in one.experiments]
    return " and ".join(f"“{title}”" if "," in title else title for title in titles)


def _exists(variable: Variable, results: RunsByName, labels: Labels) -> bool:
    """Whether the runs contain all points from which a variable is computed."""
    sets = {one.name: results[one.name].point_set for one in variable.experiments}
    if all(points is None for points in sets.values()):
        return True
    used = points_used(variable, results, labels)
    return all((points := sets[name]) is None or point in points for name, point in used)


def _range(seeds: Collection[int]) -> str:
    """Seeds in words: `1 to 10`, or a list if there are gaps."""
    first, last = min(seeds), max(seeds)
    if len(seeds) > 2 and last - first == len(seeds) - 1:
        return f"{first} to {last}"
    return ", ".join(map(str, sorted(seeds)))


def _judged_values(of: Sequence[Variable], label: str) -> str:
    """The judged values of an axis in words, if not all values are judged: ` of 0.5, 0.7`."""
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
    """The rule that an estimate is in a band, at each point of the free axes."""

    estimate: Estimate
    band: Band
    hidden: frozenset[str] = frozenset()
    """Free axes that the text does not name, because another text contains their values."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.context}: {self.phrase}"

    def without(self, *labels: str) -> Rule:
        """The rule with a text in which these axes are not named."""
        return replace(self, hidden=frozenset(labels))

    def where(self, condition: str) -> Rule:
        """The rule restricted to the points whose labels satisfy an SQL condition: `load > 0.5`."""
        return replace(self, estimate=self.estimate.where(condition))

    @property
    def context(self) -> str:
        """The labels of the judgement in words."""
        named = (label for label in self.estimate.axes if label not in self.hidden)
        each = (f"at each {label}{_judged_values(self.estimate.of, label)}" for label in named)
        return ", ".join([self.estimate.context, *each])

    @property
    def phrase(self) -> str:
        """The claim in words, without its labels."""
        return f"{self.estimate.words} must be {self.band}"

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The claims in words, by labels."""
        return {self.context: [self.phrase]}

    @property
    def definition(self) -> Any:
        return {"claimed": str(self.band), **self.estimate.definition}

    @property
    def variables(self) -> tuple[Variable, ...]:
        return self.estimate.of

    def at(self, labels: Labels) -> Rule:
        """The rule with these values of its free axes; other labels are ignored."""
        known = {label: value for label, value in labels.items() if label in self.estimate.axes}
        return replace(self, estimate=self.estimate.at(**known)) if known else self

    def judge(self, results: RunsByName, level: float = stats.LEVEL) -> Evidence:
        """The joint evidence at all points (`stats.all_of`)."""
        return stats.all_of(lambda at: self.parts(results, at), level)

    def parts(self, results: RunsByName, level: float = stats.LEVEL) -> list[Evidence]:
        """The evidence at each point, from intervals with this confidence level."""
        return [self._judged(results, labels, level) for labels in self.estimate.points(results)]

    def _judged(self, results: RunsByName, labels: Labels, level: float) -> Evidence:
        words = self.estimate.words
        what = f"{words}, with {format_labels(labels)}" if labels else words
        interval = self.estimate.interval(results, labels, level)
        found = stats.judge(what, interval, self.band, self.estimate.tolerance)
        apart = "" if interval.count else self.estimate.apart(results, labels)
        lacks = ""
        if apart:
            lacks = f"the compared points share no seed; available seeds: {apart}"
        elif not interval.count:
            lacks = "no run at the compared points has a value"
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
class Combined:
    """A combination of rules: all must hold (`every`), or at least one."""

    rules: tuple[AnyRule, ...]
    every: bool

    def without(self, *labels: str) -> Combined:
        """The rule with a text in which these axes are not named."""
        return replace(self, rules=tuple(rule.without(*labels) for rule in self.rules))

    def where(self, condition: str) -> Combined:
        """The rules restricted to the points whose labels satisfy an SQL condition."""
        return replace(self, rules=tuple(rule.where(condition) for rule in self.rules))

    @property
    def text(self) -> str:
        """The rule in words."""
        parts = [
            f"{context}: {'; '.join(phrases)}" if context else "; ".join(phrases)
            for context, phrases in self.groups.items()
        ]
        return ". ".join(parts) if self.every else f"at some point: {' or '.join(parts)}"

    @property
    def context(self) -> str:
        """The labels of the judgement in words if all rules have the same labels, and otherwise an empty
        string."""
        contexts = {self._quantified(rule.context) for rule in self.rules}
        return contexts.pop() if len(contexts) == 1 else ""

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The claims in words, by labels."""
        grouped: dict[str, list[str]] = {}
        for rule in self.rules:
            grouped.setdefault(self._quantified(rule.context), []).append(rule.phrase)
        return grouped

    def _quantified(self, context: str) -> str:
        return context if self.every else context.replace("at each ", "at some ")

    @property
    def phrase(self) -> str:
        """The claim in words, without its labels."""
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

    def at(self, labels: Labels) -> Combined:
        return replace(self, rules=tuple(rule.at(labels) for rule in self.rules))

    def points(self, results: RunsByName) -> Iterator[Labels]:
        """Yields the labels of all points of the free axes that all rules contain."""
        return product(
            {label: common_values(self.variables, label, results) for label in axes_of(self.variables)}
        )

    def judge(self, results: RunsByName, level: float = stats.LEVEL) -> Evidence:
        """The evidence that all rules hold (`stats.all_of`), or that at least one holds (`stats.any_of`)."""
        if self.every:
            return stats.all_of(lambda at: self.parts(results, at), level)
        return stats.any_of(lambda at: self._alternatives(results, at), self._count(results), level)

    def _alternatives(self, results: RunsByName, level: float) -> list[Evidence]:
        """The evidence at each point of each rule; for each rule, the most extreme point in the claimed
        direction comes first."""
        return [part for rule in self.rules for part in _best_first(rule, results, level)]

    def _count(self, results: RunsByName) -> int:
        """The number of alternatives."""
        points = ((one if isinstance(one, Combined) else one.estimate).points(results) for one in self.rules)
        return sum(1 for of_rule in points for _ in of_rule)

    def level_of_parts(self, results: RunsByName, level: float) -> float:
        """The confidence level that the intervals of the parts need for the joint level `level`."""
        return level if self.every else stats.level_of_parts(level, self._count(results))

    def parts(self, results: RunsByName, level: float = stats.LEVEL) -> list[Evidence]:
        """The evidence for each rule at each point or, if only one of the rules must hold, a single piece of
        joint evidence."""
        if not self.every:
            return [self.judge(results, level)]
        return [part for rule in self.rules for part in rule.parts(results, level)]


def _best_first(rule: AnyRule, results: RunsByName, level: float) -> list[Evidence]:
    """The evidence at each point for a rule that must hold at a single point, beginning with the best
    evidence."""
    if isinstance(rule, Combined):
        return [rule.at(labels).judge(results, level) for labels in rule.points(results)]
    return stats.best_first(rule.parts(results, level), rule.band)


AnyRule = Rule | Combined


def grows(variable: Variable, /, **along: Sequence[Value]) -> AnyRule:
    """The rule that a variable grows from each value of an axis to the next, `queue=("20p", "100p", "400p")`:
    each ratio of two means is above 1. Raises `ValueError` for fewer than two values."""
    return _each(step > 1 for step in _steps(variable, along))


def falls(variable: Variable, /, **along: Sequence[Value]) -> AnyRule:
    """The rule that a variable falls from each value of an axis to the next. Raises `ValueError` for fewer
    than two values."""
    return _each(step < 1 for step in _steps(variable, along))


def _steps(variable: Variable, along: Mapping[str, Sequence[Value]]) -> Iterator[Estimate]:
    ((label, values),) = along.items()
    if len(values) < 2:
        raise ValueError(f"{label}: must have at least two values to compare (got {len(values)})")
    for before, after in itertools.pairwise(values):
        yield ratio(variable.at(**{label: after}), variable.at(**{label: before}))


def _each(rules: Iterable[AnyRule]) -> AnyRule:
    several = tuple(rules)
    return several[0] if len(several) == 1 else every(*several)


def every(*rules: AnyRule) -> Combined:
    """The rule that all rules hold."""
    return Combined(rules=rules, every=True)


def anywhere(*rules: AnyRule) -> Combined:
    """The rule that at least one of the rules holds at one point; the rules of an `every` must hold at a
    common point. The confidence level of each part is corrected for the number of parts by Bonferroni's
    method."""
    return Combined(rules=rules, every=False)


def digest(definition: Any) -> str:
    """A short digest of a rule's definition, which changes with any change of the definition."""
    text = json.dumps(definition, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
