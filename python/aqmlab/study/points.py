"""Which points of experiments claims need: for variants, for a single claim, for the registry of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from aqmlab.results.labels import PointName
from aqmlab.results.rule import AnyRule, Several
from aqmlab.results.table import ExperimentResults, Results
from aqmlab.results.variable import points_used
from aqmlab.study.experiment import Experiment, FormName
from aqmlab.study.publication import Claim, Reading, Study

Points = frozenset[PointName]


def without_runs(experiments: Iterable[Experiment], form: FormName) -> ExperimentResults:
    """Experiments in a form, with the values of their axes and no runs."""
    return {
        one.name: Results.of_rows(
            rows=(), axes={axis.label: tuple(axis.values) for axis in one.sweep(form).all_axes}
        )
        for one in experiments
    }


def needed(rule: AnyRule, results: ExperimentResults) -> Points:
    """The points of which a rule is judged, in the form of these results."""
    if isinstance(rule, Several):
        return frozenset[PointName]().union(*(needed(one, results) for one in rule.rules))
    estimate = rule.estimate
    return frozenset(
        point
        for labels in estimate.points(results)
        for variable in estimate.of
        for point in points_used(variable, results, labels)
    )


def needed_by(study: Study, claims: Iterable[Claim], form: FormName) -> Points:
    """The points that some claims need of the study's own runs, for all readings."""
    results = without_runs(study.experiments, form)
    return frozenset[PointName]().union(
        *(
            needed(claim.rule.at(reading.labels), results)
            for claim in claims
            for reading in study.readings_of(claim)
            if reading.runs is None
        )
    )


def varied(study: Study, *, quick: bool) -> list[tuple[Claim, Reading, Points]]:
    """The claims that are judged under variants, with the readings for which they are and the points that
    they need: those of which every point is run under variants. In the quick form, whose variants run fewer
    points than its main grid, those that are left of them."""
    some = [one for one in study.experiments if one.varied is not None]
    runs = without_runs(some, "varied-quick" if quick else "varied")
    whole = runs if quick else without_runs(some, "full")
    found = []
    for claim in study.claims:
        for reading in study.readings_of(claim):
            if reading.runs is not None:
                continue
            # A claim about an experiment or a value that no variant runs.
            with suppress(KeyError):
                points = needed(claim.rule.at(reading.labels), whole)
                if points and all(_has(runs, point) for point in points):
                    found.append((claim, reading, points))
    return found


def _has(runs: ExperimentResults, point: PointName) -> bool:
    name, values = point
    return all(value in some for value, some in zip(values, runs[name].axes.values(), strict=True))


def only(study: Study, ids: Sequence[str]) -> Study:
    """A study of some of its claims: with the experiments that they need, and without figures, tables and
    variants. Raises `KeyError` if there is no such claim."""
    by_id = {claim.id: claim for claim in study.claims}
    claims = []
    for id in ids:
        if id not in by_id:
            raise KeyError(f"{study.name} has no claim `{id}`: there is {', '.join(by_id)}")
        claims.append(replace(by_id[id], figures=()))
    used = {one.name for claim in claims for variable in claim.rule.variables for one in variable.experiments}
    return replace(
        study,
        claims=tuple(claims),
        experiments=tuple(one for one in study.experiments if one.name in used),
        figures=(),
        tables=(),
        decisions=(),
        variants=(),
        readings=tuple(
            replace(one, leaves_out={id: why for id, why in one.leaves_out.items() if id in ids})
            for one in study.readings
        ),
        answer=lambda _: [],
        checks=lambda _: [],
        floors=lambda *_: (),
    )
