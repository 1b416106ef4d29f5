"""Output of `aqmlab sensitivity` and `aqmlab tune`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab import stats
from aqmlab._support.files import write_csv
from aqmlab.charts import chart as plot
from aqmlab.cli.table_text import print_table
from aqmlab.metrics import finite
from aqmlab.results.labels import format_labels
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.sensitivity_run import Plan, Sensitivity
from aqmlab.tuning.tune_run import AS_IT_WAS, TUNED, Comparison, Tuning, TuningResult

if TYPE_CHECKING:
    import polars as pl

WIDE = 0.3
"""If the interval of a variance share has a larger half-width than this, a warning recommends more
samples."""

METHODS: Mapping[str, str] = {
    "sobol": "Sobol indices (shares of the variance)",
    "morris": "Morris effects of a parameter's whole range",
}

_LIMIT: Mapping[stats.Verdict, str] = {
    "holds": "is met on the fresh seeds.",
    "fails": "is violated on the fresh seeds: tune with a stricter limit, or with more --replications.",
    "undecided": "is undecided on the fresh seeds: tune with a margin, or with more --replications.",
}

# Sensitivity analysis


def planned(plan: Plan, held: int) -> str:
    """The number of runs, in words."""
    factors, seeds = len(plan.design.factors), len(plan.trials.seeds)
    return (
        f"{len(plan.samples)} samples of {_count(factors, 'parameter')}, {_count(seeds, 'seed')} each: "
        f"{plan.runs} runs, {held} in the store"
    )


def print_sensitivity(found: Sensitivity) -> None:
    """Prints a table for each measure, with a row for each parameter."""
    design = found.plan.design
    for one in found.measured:
        if one.name not in found.indices:
            continue
        rows = []
        for factor, row in zip(design.factors, found.indices[one.name].iter_rows(named=True), strict=True):
            rows.append([factor.path, _range(factor), *_cells(row)])
        if design.method == "sobol":
            heads = ["first order (S1)", "total (ST)"]
        else:
            unit = f"\n({one.unit})" if one.unit else ""
            heads = [f"absolute (mu*){unit}", f"signed (mu){unit}", f"spread (sigma){unit}"]
        title = f"{one.name}: {METHODS[design.method]} with 95 % intervals"
        print_table(title, ["parameter", "range", *heads], rows, left=2)
        noise = found.noise(one.name)
        if not math.isnan(noise):
            print(
                f"Random share: {100 * noise:.2g} % of the variance of {one.name} comes from the choice "
                "of seeds"
            )
        if design.method == "sobol" and _widest(found.indices[one.name]) > WIDE:
            advice = f"{one.name}: the intervals are wide; use more --samples, such as {2 * design.count}"
            print(f"aqmlab: {advice}", file=sys.stderr)


def _widest(indices: pl.DataFrame) -> float:
    """Returns the largest half-width of the Sobol indices' intervals."""
    return float(max(*indices["S1_conf"], *indices["ST_conf"]))


def _cells(row: Mapping[str, Any]) -> list[str]:
    if "S1" in row:
        return [stats.plus_minus(row[name], row[f"{name}_conf"]) for name in ("S1", "ST")]
    size = stats.plus_minus(row["mu_star"], row["mu_star_conf"])
    decimals = stats.decimals(row["mu_star_conf"])
    return [size, f"{row['mu']:.{decimals}f}", f"{row['sigma']:.{decimals}f}"]


def sensitivity_table(found: Sensitivity) -> dict[str, Any]:
    """The JSON object that `--json` prints."""
    design = found.plan.design
    return {
        "method": design.method,
        "samples": design.count,
        "seeds": list(found.plan.trials.seeds),
        "runs": found.plan.runs,
        "factors": [asdict(factor) for factor in design.factors],
        "measures": [
            {
                "name": one.name,
                "unit": one.unit,
                "noise": finite(found.noise(one.name)),
                "indices": finite(found.indices[one.name].to_dicts()),
            }
            for one in found.measured
            if one.name in found.indices
        ],
        "problems": dict(found.problems),
        "failures": [str(failure) for failure in found.failures],
    }


def write_sensitivity(found: Sensitivity, out: Path) -> list[Path]:
    """Writes the samples, the indices and a chart for each measure. Returns the paths to report to the
    user."""
    out.mkdir(parents=True, exist_ok=True)
    tables = {"samples": found.samples(), "indices": found.table()}
    for name, table in tables.items():
        write_csv(out / f"{name}.csv", table)
    pictures = [
        plot.save(found.chart(name), out, f"sensitivity-{name.replace('/', '-')}")["png"]
        for name in found.indices
    ]
    return [*(out / f"{name}.csv" for name in tables), *pictures]


# Tuning


def planned_tuning(tuning: Tuning) -> str:
    """The number of runs, in words."""
    scenarios, seeds = tuning.trials + 1, len(tuning.seeds)
    judged, fresh = len(tuning.rivals) + 1, len(tuning.fresh_seeds)
    return (
        f"{_count(tuning.trials, 'trial')} and the original scenario, {_count(seeds, 'seed')} each, and "
        f"{judged} scenarios with {fresh} fresh seeds: {scenarios * seeds + judged * fresh} runs"
    )


def print_tuning(found: TuningResult) -> None:
    """Prints the best values, the results of these values on the validation seeds, and the options that set
    these values."""
    print("\n".join(_searched(found)))
    if found.best is None:
        return
    judged, rivals = found.tuning.judged, list(found.tuning.rivals)
    of = {(one.rival, one.measure.name): one for one in found.comparisons}
    heads = ["", *(f"{one.name}\n({one.unit})" if one.unit else one.name for one in judged)]
    first, last = found.tuning.fresh_seeds[0], found.tuning.fresh_seeds[-1]
    means = [[TUNED, *(_interval(of[AS_IT_WAS, one.name].tuned) for one in judged)]]
    means += [[rival, *(_interval(of[rival, one.name].other) for one in judged)] for rival in rivals]
    print_table(f"Fresh seeds {first} to {last}: means with 95 % intervals", heads, means, left=1)
    differences = [
        [f"{TUNED} - {rival}", *(_interval(of[rival, one.name].difference) for one in judged)]
        for rival in rivals
    ]
    print_table("Paired differences with 95 % intervals", heads, differences, left=1)
    print("\n".join(_judged(found)))


def _searched(found: TuningResult) -> Iterator[str]:
    """Yields the results of the trials."""
    tuning, objective = found.tuning, found.tuning.measures[0]
    kept = f"{found.feasible} of {len(found.answers)} trials met {_limits(tuning)}" if tuning.limits else ""
    if kept:
        yield kept
    refused = len(found.problems)
    if refused:
        number, why = next(iter(found.problems.items()))
        yield f"{_count(refused, 'trial')} failed; trial {number + 1}: {why}"
    if found.best is None:
        yield "No result: no trial meets all limits. Use wider ranges in --vary, or relax the limits."
        if found.nearest is not None:
            missed = ", ".join(
                f"{name} = {found.nearest.measured[name]:.4g} (limit {band})"
                for name, band in tuning.limits.items()
            )
            yield f"Nearest to the limits: trial {found.nearest.question.number + 1}, with {missed}"
            yield " ".join(f"--set {path}={value}" for path, value in found.nearest.question.values.items())
        return
    before = found.before[objective.name]
    yield (
        f"Best on the tuning seeds: trial {found.best.question.number + 1} with "
        f"{found.best.value:.4g} {objective.unit}".rstrip()
        + f", {AS_IT_WAS} {before:.4g}; this comparison favours the best of many trials, so fresh seeds "
        "decide:"
    )


def _judged(found: TuningResult) -> Iterator[str]:
    """Yields the results on the validation seeds."""
    objective = found.tuning.measures[0].name
    for compared in found.comparisons:
        if compared.measure.name == objective:
            yield _sentence(found, compared)
    for name, band in found.tuning.limits.items():
        verdict = found.limit_verdict(name)
        yield f"The limit {name} {band} {_LIMIT[verdict]}"
    yield f"Best values: {format_labels(found.settings)}"
    yield " ".join(f"--set {path}={value}" for path, value in found.settings.items())


def _sentence(found: TuningResult, compared: Comparison) -> str:
    other = "the original scenario" if compared.rival == AS_IT_WAS else compared.rival
    difference = f"{_interval(compared.difference)} {compared.measure.unit}".rstrip()
    by = f"{compared.measure.name} differs by {difference}"
    violated = [
        f"{name} {band}"
        for name, band in found.tuning.limits.items()
        if found.limit_verdict(name, compared.rival) == "fails"
    ]
    but = f", but {other} violates {' and '.join(violated)}" if violated else ""
    outcome = found.outcome(compared)
    if outcome == "not distinguishable":
        return f"Tuned and {other} are not distinguishable: {by}, an interval that contains 0{but}."
    return f"Tuned is {outcome} than {other}: {by}{but}."


def tuning_table(found: TuningResult) -> dict[str, Any]:
    """The JSON object that `--json` prints."""
    tuning = found.tuning

    def ends(interval: stats.Interval) -> dict[str, Any]:
        return {key: getattr(interval, key) for key in ("value", "low", "high")}

    return {
        "goal": tuning.goal,
        "objective": tuning.objective,
        "limits": {name: str(band) for name, band in tuning.limits.items()},
        "factors": [asdict(factor) for factor in tuning.factors],
        "trials": len(found.answers),
        "feasible": found.feasible,
        "problems": {number + 1: why for number, why in found.problems.items()},
        "seeds": list(tuning.seeds),
        "fresh_seeds": list(tuning.fresh_seeds),
        "best": finite(
            {
                "trial": found.best.question.number + 1,
                "values": dict(found.settings),
                "measured": dict(found.best.measured),
            }
        )
        if found.best
        else None,
        "nearest": finite(
            {
                "trial": found.nearest.question.number + 1,
                "values": dict(found.nearest.question.values),
                "measured": dict(found.nearest.measured),
            }
        )
        if found.nearest
        else None,
        "outcome": found.outcome(found.verdict) if found.verdict else None,
        "limits_on_fresh_seeds": {name: found.limit_verdict(name) for name in tuning.limits}
        if found.best
        else {},
        "comparisons": [
            finite(
                {
                    "measure": one.measure.name,
                    "unit": one.measure.unit,
                    "rival": one.rival,
                    "tuned": ends(one.tuned),
                    "other": ends(one.other),
                    "difference": ends(one.difference),
                }
            )
            for one in found.comparisons
        ],
        "failures": [str(failure) for failure in found.failures],
    }


def write_tuning(found: TuningResult, out: Path) -> list[Path]:
    """Writes the trials and a chart of the trials. Returns the paths to report to the user."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "trials.csv", found.trials())
    return [out / "trials.csv", plot.save(found.chart(), out, "tuning")["png"]]


def _limits(tuning: Tuning) -> str:
    return " and ".join(f"{name} {band}" for name, band in tuning.limits.items())


def _interval(interval: stats.Interval) -> str:
    return stats.plus_minus(interval.value, interval.half_width)


def _range(factor: Factor) -> str:
    scale = ", log" if factor.scale == "log" else ""
    return f"{factor.written(factor.low)} to {factor.written(factor.high)}{scale}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
