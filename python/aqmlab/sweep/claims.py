"""Reads the claims of sweep files and study files: converts TOML tables to rules (`aqmlab.results.rule`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aqmlab import measures, stats
from aqmlab._support import names
from aqmlab._support.mistakes import Mistakes
from aqmlab.results.labels import Value
from aqmlab.results.rule import (
    AnyRule,
    Estimate,
    anywhere,
    difference,
    every,
    falls,
    grows,
    mean_of,
    ratio,
    single_run,
)
from aqmlab.results.variable import Measured
from aqmlab.stats import Band, Evidence
from aqmlab.sweep.sweep import Sweep, filtered

if TYPE_CHECKING:
    from aqmlab.results.table import Results

BANDS = ("below", "above", "at_most", "at_least", "within")
TRENDS = ("grows", "falls")
SEVERAL = ("all", "any")
PART_KEYS = ("measure", "ratio", "difference", "at", "where", *BANDS, *TRENDS, *SEVERAL)
KEYS = ("says", *PART_KEYS)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, which consists of a sentence and the rule that judges the sentence."""

    says: str
    rule: AnyRule


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim, and the evidence from the runs."""

    claim: Claim
    evidence: Evidence


@dataclass(frozen=True, kw_only=True, eq=False)
class Swept:
    """Represents a sweep as an experiment with axes, which is the interface that rules need.

    `written` maps the paths of axes to the values in the file, because a claim may use a value that the
    command line has excluded from this run.
    """

    sweep: Sweep
    written: Mapping[str, Sequence[Value]]

    @property
    def name(self) -> str:
        return self.sweep.name

    @property
    def title(self) -> str:
        return self.sweep.name

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(axis.label for axis in self.sweep.all_axes)

    def values(self, label: str) -> tuple[Value, ...]:
        return tuple(self._values[label])

    @cached_property
    def _values(self) -> Mapping[str, Sequence[Value]]:
        return {
            axis.label: list(dict.fromkeys([*axis.values, *self.written.get(axis.path, ())]))
            for axis in self.sweep.all_axes
        }

    def check(self, labels: Mapping[str, Any]) -> None:
        for label, value in labels.items():
            if label not in self._values:
                raise ValueError(f"no axis is named `{label}`: {names.hint(label, list(self._values))}")
            if value not in self._values[label]:
                near = names.value_hint(value, self._values[label])
                raise ValueError(f"{label} has no value {value!r}: {near}")

    def __getitem__(self, name: str) -> Measured:
        """Returns the measure with this name. Raises `ValueError` if the sweep does not measure this
        quantity."""
        known = {one.name: one for one in self.sweep.wanted}
        if name not in known:
            raise ValueError(f"`{name}` is not measured: {names.hint(name, known)}")
        return Measured(experiment=self, measure=known[name])


def judge(claims: Sequence[Claim], result: Results) -> tuple[Judged, ...]:
    """Judges every claim from the runs of a result. If `precision` determined the number of runs, the
    confidence level of the intervals is corrected for the repeated looks at the data."""
    return tuple(Judged(claim=claim, evidence=result.judge(claim.rule)) for claim in claims)


def measures_of(table: Any, path: str = "claims") -> Iterator[tuple[str, str]]:
    """Yields the names of the measures in claims, each with the path of the field that names the measure."""
    if isinstance(table, Mapping):
        for key, value in table.items():
            if key == "measure" and isinstance(value, str):
                yield f"{path}.measure", value
            elif key in (*TRENDS, *SEVERAL):
                yield from measures_of(value, f"{path}.{key}")
    elif isinstance(table, list):
        for number, one in enumerate(table):
            yield from measures_of(one, f"{path}.{number}")


def read(field: str, table: Mapping[str, Any], swept: Swept) -> Claim:
    """Reads the claim that a table contains. Raises `ValueError`, which names the field."""
    names.check_keys(field, table, KEYS)
    if not isinstance(table.get("says"), str):
        raise ValueError(f"{field}.says: must be a string")
    return Claim(says=table["says"], rule=_rule(field, table, swept))


def _rule(field: str, table: Any, swept: Swept) -> AnyRule:
    forms = [key for key in ("measure", *TRENDS, *SEVERAL) if key in table]
    if len(forms) != 1:
        raise ValueError(
            f"{field}: must have exactly one of the keys measure, {', '.join((*TRENDS, *SEVERAL))}"
        )
    (form,) = forms
    if form in SEVERAL:
        return _several(f"{field}.{form}", table, form, swept)
    if form in TRENDS:
        return _trend(f"{field}.{form}", table[form], form, swept)
    return _comparison(field, table, swept)


def _several(field: str, table: Mapping[str, Any], form: str, swept: Swept) -> AnyRule:
    _only(field, table, (form,))
    parts = table[form]
    if not isinstance(parts, list) or len(parts) < 2:
        raise ValueError(f"{field}: must be a list of at least two tables (got {parts!r})")
    mistakes = Mistakes()
    rules = []
    for number, part in enumerate(parts):
        path = f"{field}.{number}"

        def one(path: str = path, part: Any = part) -> AnyRule:
            names.check_keys(path, part, PART_KEYS)
            return _rule(path, part, swept)

        rules.append(mistakes.attempt(one))
    mistakes.finish()
    found = [rule for rule in rules if rule is not None]
    return every(*found) if form == "all" else anywhere(*found)


def _trend(field: str, table: Any, form: str, swept: Swept) -> AnyRule:
    """Returns the rule that values grow, or fall, from each point along an axis to the next point."""
    names.check_keys(field, table, ("measure", "along", "at", "where"))
    label, values = one_axis(f"{field}.along", table.get("along"), swept, 2, None)
    trend = {"grows": grows, "falls": falls}[form]
    return _where(field, table, trend(variable(field, table, swept), **{label: values}), swept)


def _comparison(field: str, table: Mapping[str, Any], swept: Swept) -> AnyRule:
    bands = [key for key in BANDS if key in table]
    if len(bands) != 1:
        raise ValueError(f"{field}: must have exactly one of the keys {', '.join(BANDS)}")
    band = _band(f"{field}.{bands[0]}", bands[0], table[bands[0]])
    how = [key for key in ("ratio", "difference") if key in table]
    if len(how) > 1:
        raise ValueError(f"{field}: must have either ratio or difference, but not both")
    measured = variable(field, table, swept)
    if how:
        label, pair = one_axis(f"{field}.{how[0]}", table[how[0]], swept, 2, 2)
        compared: Callable[..., Estimate] = ratio if how[0] == "ratio" else difference
        estimate = compared(*(measured.at(**{label: value}) for value in pair))
    else:
        estimate = _mean(measured, swept)
    return _where(field, table, estimate.in_band(band), swept)


def _mean(variable: Measured, swept: Swept) -> Estimate:
    """Returns the mean over replications or, for a single long run with batches, the mean over the
    batches."""

    from aqmlab.stats import batch_means

    error = variable.measure.name + measures.STANDARD_ERROR
    if error not in {one.name for one in swept.sweep.wanted}:
        return mean_of(variable)
    return single_run(variable, swept[error].at(**variable.chosen), batch_means.BATCHES)


def variable(field: str, table: Mapping[str, Any], swept: Swept) -> Measured:
    """Returns the measure that a table names, at the point that the table's `at` selects. Raises
    `ValueError`, which names the field."""
    if not isinstance(table.get("measure"), str):
        raise ValueError(f"{field}.measure: must be a string")
    try:
        measured = swept[table["measure"]]
    except ValueError as problem:
        raise ValueError(f"{field}.measure: {problem}") from None
    at = table.get("at", {})
    if not isinstance(at, Mapping):
        raise ValueError(f"{field}.at: must be a table such as {{ load = 0.9 }} (got {at!r})")
    try:
        return measured.at(**at)
    except ValueError as problem:
        raise ValueError(f"{field}.at: {problem}") from None


def _where(field: str, table: Mapping[str, Any], rule: AnyRule, swept: Swept) -> AnyRule:
    where = table.get("where")
    if where is None:
        return rule
    if not isinstance(where, str):
        raise ValueError(f"{field}.where: must be a string (got {where!r})")
    filtered(f"{field}.where", swept.sweep.labels.drop("point"), where)
    return rule.where(where)


def one_axis(
    field: str, given: Any, swept: Swept, least: int, most: int | None
) -> tuple[str, Sequence[Value]]:
    """Reads an axis and some of its values. The points at these values must have the same seeds."""
    example = '{ queue = ["red", "drop-tail"] }'
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ValueError(f"{field}: must be a table such as {example} (got {given!r})")
    ((label, values),) = given.items()
    if not isinstance(values, list) or len(values) < least or (most is not None and len(values) > most):
        count = "a list of two values" if most == 2 else f"a list of at least {least} values"
        raise ValueError(f"{field}.{label}: must be {count} (got {values!r})")
    for value in values:
        try:
            swept.check({label: value})
        except ValueError as problem:
            raise ValueError(f"{field}: {problem}") from None
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"{field}.{label}: the value {value!r} occurs twice")
    axis = next(one for one in swept.sweep.all_axes if one.label == label)
    if axis.path in swept.sweep.own_seeds:
        raise ValueError(
            f"{field}: points along {label} cannot be paired, because own_seeds gives them different seeds"
        )
    return label, values


def _only(field: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in table:
        if key not in ("says", *keys):
            raise ValueError(f"{field}: cannot be combined with `{key}`: write `{key}` in each part")


def _band(field: str, name: str, given: Any) -> Band:
    def is_number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

    if name == "within":
        if not isinstance(given, list) or len(given) != 2 or not all(map(is_number, given)):
            raise ValueError(f"{field}: must be two numbers (got {given!r})")
        if given[1] < given[0]:
            raise ValueError(f"{field}: must be two numbers in ascending order (got {given!r})")
        return stats.within(*given)
    if not is_number(given):
        raise ValueError(f"{field}: must be a number (got {given!r})")
    make = {"below": stats.below, "above": stats.above, "at_most": stats.at_most, "at_least": stats.at_least}
    return make[name](given)
