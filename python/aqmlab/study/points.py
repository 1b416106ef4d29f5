"""Determines the points of experiments that claims need, for variants, for single claims and for the registry
of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from aqmlab._support.names import hint
from aqmlab.results.labels import PointName
from aqmlab.results.rule import AnyRule, Combined, Estimate
from aqmlab.results.table import ExperimentResults, Results
from aqmlab.results.variable import points_used
from aqmlab.study.charts import Line
from aqmlab.study.experiment import Experiment, FormName, point_values
from aqmlab.study.publication import Claim, Figure, Reading, Study, Table
from aqmlab.study.query import query
from aqmlab.study.tables import Crossed

Points = frozenset[PointName]


def without_runs(experiments: Iterable[Experiment], form: FormName) -> ExperimentResults:
    """Experiments in a given form, with the values of their axes but without runs."""
    sweeps = {one.name: one.sweep(form) for one in experiments}
    return {
        name: replace(
            Results.of_rows(rows=(), axes={axis.label: tuple(axis.values) for axis in sweep.all_axes}),
            given_points=point_values(sweep),
        )
        for name, sweep in sweeps.items()
    }


def needed(rule: AnyRule, results: ExperimentResults) -> Points:
    """Returns the points from which a rule is judged, in the form of these results."""
    if isinstance(rule, Combined):
        return frozenset[PointName]().union(*(needed(one, results) for one in rule.rules))
    estimate = rule.estimate
    return frozenset(
        point
        for labels in estimate.points(results)
        for variable in estimate.of
        for point in points_used(variable, results, labels)
    )


def needed_by(study: Study, claims: Iterable[Claim], form: FormName) -> Points:
    """Returns the points of the study's own runs that these claims need, for all readings."""
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
    """Returns the claims that are judged under variants, each with a reading and the points that the claim
    needs. A claim is included if variants run all points of the claim. In the quick form, variants run fewer
    points than the main grid, and a claim is judged from the remaining points."""
    some = [one for one in study.experiments if one.varied is not None]
    runs = without_runs(some, "varied-quick" if quick else "varied")
    whole = runs if quick else without_runs(some, "full")
    found = []
    for claim in study.claims:
        for reading in study.readings_of(claim):
            if reading.runs is not None:
                continue
            # A `KeyError` means that the claim uses an experiment or a value that no variant runs.
            with suppress(KeyError):
                points = needed(claim.rule.at(reading.labels), whole)
                if points and all(_has(runs, point) for point in points):
                    found.append((claim, reading, points))
    return found


def _has(runs: ExperimentResults, point: PointName) -> bool:
    name, values = point
    return all(value in some for value, some in zip(values, runs[name].axes.values(), strict=True))


def chosen(study: Study, claims: Sequence[str] = (), figures: Sequence[str] = ()) -> Study:
    """Returns a study that is reduced to some of its claims, figures and tables and to the experiments that
    they need, without variants. Claims are selected by ID, or by the ID without the version (`SH-4` selects
    SH-4.2). Figures and tables are selected by ID.

    If a claim, figure or table does not exist, raises `KeyError`, which suggests similar IDs.
    """
    wanted = [one for id in claims for one in _claims_of(study, id)]
    drawn = [one for one in study.figures if one.id in figures]
    tabulated = [one for one in study.tables if one.id in figures]
    known = [*(one.id for one in study.figures), *(one.id for one in study.tables)]
    for id in figures:
        if id not in known:
            raise KeyError(f"{study.name} has no figure or table `{id}`: {hint(id, known)}")
    ids = {one.id for one in wanted}
    used = {one.name for claim in wanted for variable in claim.rule.variables for one in variable.experiments}
    shown: list[Figure | Table] = [*drawn, *tabulated]
    for each in shown:
        used |= _drawn_from(study, each)
    return replace(
        study,
        claims=tuple(replace(one, figures=()) for one in study.claims if one.id in ids),
        experiments=tuple(one for one in study.experiments if one.name in used),
        figures=tuple(drawn),
        tables=tuple(tabulated),
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


def _claims_of(study: Study, id: str) -> list[Claim]:
    """Returns the claim with this ID, or the claims whose ID without the version is this ID."""
    found = [one for one in study.claims if one.id == id or one.id.rpartition(".")[0] == id]
    if not found:
        known = [one.id for one in study.claims]
        raise KeyError(f"{study.name} has no claim `{id}`: {hint(id, known, most=5)}")
    return found


def _drawn_from(study: Study, shown: Figure | Table) -> set[str]:
    """Returns the experiments whose runs a figure or table shows."""
    draws: object = shown.draws if isinstance(shown, Figure) else shown.tabulates
    if not isinstance(draws, Line | Crossed):
        return {one.name for one in shown.shows or study.experiments}
    found = set()
    for source in query(draws.shown).of:
        if isinstance(source, Estimate):
            found |= {one.name for variable in source.of for one in variable.experiments}
        else:
            found.add(source.name)
    return found


def needed_by_chosen(study: Study, form: FormName) -> Points | None:
    """Returns the points that the claims of a reduced study need, or `None` if the study shows figures or
    tables, because they need all points of their experiments."""
    return None if study.figures or study.tables else needed_by(study, study.claims, form)
