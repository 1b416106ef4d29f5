"""What the tests of studies share: results made by hand, and what holds for every study."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl
import pytest

from aqmlab import stats
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.table import Results, Row
from aqmlab.stats import Evidence
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.publication import Claim, Study, StudyResult

Values = Callable[[Labels, int], Any] | Mapping[str, Any] | Any
"""A measure by labels and seed; by the value of the axis `queue`; or the same everywhere."""


def runs(experiment: Experiment, measured: Mapping[Measure, Values], seeds: int = 3) -> Results:
    """Made-up runs of an experiment at all its points: of numbers each seed has nearly the same."""
    sweep = experiment.sweep("full")
    rows = [
        Row(
            labels=point.labels,
            seed=seed,
            values={one.name: _value(value, point.labels, seed) for one, value in measured.items()},
        )
        for point in sweep.points()
        for seed in range(1, seeds + 1)
    ]
    return Results.of_rows(rows=tuple(rows), axes={axis.label: tuple(axis.values) for axis in sweep.all_axes})


def _value(value: Values, labels: Labels, seed: int) -> Any:
    if callable(value):
        return value(labels, seed)
    if isinstance(value, Mapping) and "queue" in labels and labels["queue"] in value:
        value = value[str(labels["queue"])]
    return value * (1 + 0.01 * (seed % 3 - 1)) if isinstance(value, int | float) else value


def judged(
    claims: tuple[Claim, ...], id: str, *several: tuple[Experiment, Results], **labels: Any
) -> Evidence:
    """The evidence for a claim from made-up runs of the experiments that it needs."""
    (claim,) = (claim for claim in claims if claim.id == id)
    return claim.rule.at(labels).judge({experiment.name: found for experiment, found in several})


def check_every_scenario(study: Study) -> None:
    """The core accepts what the experiments and every variant of them ask for."""
    for experiment in study.experiments:
        _scenarios(experiment.sweep("full"))
        if experiment.varied is not None:
            for variant in study.all_variants:
                _scenarios(experiment.sweep("varied", variant.change))


def check_variants(study: Study) -> None:
    """Each variant changes something, and no two the same."""
    digests = [
        tuple(
            digest
            for experiment in study.experiments
            if experiment.varied is not None
            for digest in _scenarios(experiment.sweep("varied-quick", change))
        )
        for change in (None, *(variant.change for variant in study.all_variants))
    ]
    assert len(set(digests)) == len(digests)


def _scenarios(sweep: Any) -> list[str]:
    return [sweep.scenario_of(point).digest for point in sweep.points()]


def cut(experiment: Experiment, duration: str, **axes: Any) -> Experiment:
    """An experiment whose quick form has runs so short, two seeds, and these values of axes: for a test from
    end to end."""
    quick = Form(seeds=2, changes={"duration": duration}, axes=axes)
    return dataclasses.replace(experiment, quick=quick, varied=None)


def check_drop_functions(table: pl.DataFrame, *points: tuple[str, int, float]) -> None:
    """The lines of a figure of drop functions go through these points: line, average queue, probability."""
    at = {
        (row["line"], int(row["average_packets"])): row["probability"] for row in table.iter_rows(named=True)
    }
    for line, average, probability in points:
        assert at[line, average] == pytest.approx(probability, abs=1e-9), (line, average)


def check_verdict_follows(found: Evidence) -> None:
    """The verdict of a claim follows from the verdicts of its parts as they are shown, and no other."""
    if not found.parts:
        return
    several = {part.verdict for part in found.parts}
    decisive, weak = ("holds", "fails") if found.one_of else ("fails", "holds")
    if decisive in several:
        assert found.verdict == decisive, found.measured
    else:
        assert found.verdict == ("undecided" if "undecided" in several else weak), found.measured
    for part in found.parts:
        check_verdict_follows(part)


def check_result(result: StudyResult, *, figures: int) -> None:
    """A study that ran has all its figures and tables, a report, and for every part of a claim a number whose
    interval and band give the verdict; what is written down is what was found."""
    assert result.failures == ()
    problems = [drawn.problem for drawn in result.drawn]
    assert problems == [""] * figures, problems
    broken = [(table.id, made) for table, made in result.tables if isinstance(made, str)]
    assert not broken, broken
    for one in result.judged:
        check_verdict_follows(one.evidence)
        missing = [part.measured for part in one.evidence.parts if not math.isfinite(part.value)]
        assert not missing, one.id
        for part in _parts(one.evidence):
            assert part.low <= part.value <= part.high, (one.id, part.measured)
            assert part.verdict == _verdict(part), (one.id, part.measured)
    written = json.loads((result.report.parent / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert [(one["id"], one["reading"], one["verdict"]) for one in written] == [
        (one.id, one.reading.name, one.evidence.verdict) for one in result.judged
    ]
    assert [one["value"] for one in written] == pytest.approx(
        [one.evidence.value for one in result.judged], 1e-5
    )
    for found, told in zip(result.judged, written, strict=True):
        parts = found.evidence.parts or (found.evidence,)
        keys = ["one_of" if part.one_of else "all_of" if part.parts else None for part in parts]
        assert [
            next((key for key in ("one_of", "all_of") if key in one), None) for one in told["parts"]
        ] == keys
    assert result.report.stat().st_size > 50_000


def _parts(evidence: Evidence) -> Iterator[Evidence]:
    """The parts of a claim that are a single number each."""
    for part in evidence.parts or (evidence,):
        yield from _parts(part) if part.parts else (part,)


def _verdict(part: Evidence) -> stats.Verdict:
    """What an interval and a band come to, said again."""
    band = part.band
    assert band is not None
    if part.count < 2 or math.isinf(part.low) or math.isinf(part.high):
        return part.verdict
    above, below = part.low - band.low, band.high - part.high
    inside = min(above, below) > 0 or (min(above, below) == 0 and not band.strict)
    over, under = part.low - band.high, band.low - part.high
    outside = max(over, under) > 0 or (max(over, under) == 0 and band.strict)
    return "holds" if inside else "fails" if outside else "undecided"
