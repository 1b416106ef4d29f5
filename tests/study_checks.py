"""What the tests of studies share: results made by hand, and what holds for every study."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from aqmlab.grid import Row, Runs
from aqmlab.publication import Study, StudyResult
from aqmlab.scenario import Scenario


def runs(values: dict[str, dict[str, list[Any]]], **labels: Any) -> Runs:
    """Runs given by queue, metric and seed."""
    rows = [
        Row(
            labels={"queue": queue, **labels}, seed=seed + 1, values={k: v[seed] for k, v in measured.items()}
        )
        for queue, measured in values.items()
        for seed in range(len(next(iter(measured.values()))))
    ]
    return Runs(rows=tuple(rows))


def together(*parts: Runs) -> Runs:
    """All rows of some runs."""
    return Runs(rows=tuple(row for part in parts for row in part.rows))


def check_every_scenario(study: Study) -> None:
    """The core accepts what the sweeps and every variant of them ask for."""
    files = [one.id for one in (*study.figures, *study.tables)]
    assert len(set(files)) == len(files), "figures and tables lie in one folder"
    for sweep in study.sweeps:
        for labels in sweep.points():
            Scenario.from_dict(sweep.scenario(**labels))
    for variant in study.sensitivity:
        for sweep in study.sensitivity_sweeps:
            for labels in sweep.points():
                Scenario.from_dict(variant.change(sweep.scenario(**labels)))


def check_variants(study: Study) -> None:
    """Each variant changes something, no two the same, and the first nothing."""
    scenarios = [
        sweep.scenario(**labels) for sweep in study.sensitivity_sweeps for labels in sweep.points(quick=True)
    ]
    digests = [
        [Scenario.from_dict(variant.change(sweep.scenario(**labels))).digest
         for sweep in study.sensitivity_sweeps for labels in sweep.points(quick=True)]
        for variant in study.sensitivity
    ]  # fmt: skip
    assert digests[0] == [Scenario.from_dict(table).digest for table in scenarios]
    assert len({tuple(found) for found in digests}) == len(digests)


def check_drop_functions(table: pl.DataFrame, *points: tuple[str, int, float]) -> None:
    """The lines of a figure of drop functions go through these points: line, average queue, probability."""
    at = {
        (row["line"], int(row["average_packets"])): row["probability"] for row in table.iter_rows(named=True)
    }
    for line, average, probability in points:
        assert at[line, average] == pytest.approx(probability, abs=1e-9), (line, average)


def check_result(result: StudyResult, *, figures: int) -> None:
    """A study that ran has all its figures and tables, a number for every part of a claim, and a report."""
    assert result.failures == ()
    assert [drawn.problem for drawn in result.drawn] == [""] * figures
    assert all(isinstance(frame, pl.DataFrame) for _, frame in result.tables)
    for judged in result.judged:
        missing = [part.measured for part in judged.evidence.parts if not math.isfinite(part.value)]
        assert not missing, judged.claim.id
    assert result.report.stat().st_size > 50_000
