"""What is printed and written of sensitivity analysis and of tuning."""

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
from aqmlab.results.labels import said
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.sensitivity_run import Plan, Sensitivity
from aqmlab.tuning.tune_run import AS_IT_WAS, TUNED, Comparison, Tuning, TuningResult

if TYPE_CHECKING:
    import polars as pl

WIDE = 0.3
"""An interval of a share that reaches further to each side says little."""

METHODS: Mapping[str, str] = {
    "sobol": "Sobol's shares of the variance",
    "morris": "Morris's effects of a factor's whole range",
}

_LIMIT: Mapping[stats.Verdict, str] = {
    "holds": "is kept on fresh seeds.",
    "fails": "is broken on fresh seeds: tune with a stricter one, or with more --replications.",
    "undecided": "may be kept or broken on fresh seeds: tune with a margin, or with more --replications.",
}

# Sensitivity analysis


def planned(plan: Plan, held: int) -> str:
    """How many runs there are, in words."""
    factors, seeds = len(plan.design.factors), len(plan.trials.seeds)
    return (
        f"{len(plan.samples)} samples of {_count(factors, 'factor')}, {_count(seeds, 'seed')} each: "
        f"{plan.runs} runs, {held} kept before"
    )


def print_sensitivity(found: Sensitivity) -> None:
    """A table for each measure, a row for each factor."""
    design = found.plan.design
    for one in found.measured:
        if one.name not in found.indices:
            continue
        rows = []
        for factor, row in zip(design.factors, found.indices[one.name].iter_rows(named=True), strict=True):
            rows.append([factor.path, _range(factor), *_cells(row)])
        if design.method == "sobol":
            heads = ["alone (S1)", "with interactions (ST)"]
        else:
            unit = f"\n({one.unit})" if one.unit else ""
            heads = [f"size (mu*){unit}", f"with sign (mu){unit}", f"spread (sigma){unit}"]
        title = f"{one.name}: {METHODS[design.method]}, and 95 % intervals"
        print_table(title, ["factor", "range", *heads], rows, left=2)
        noise = found.noise(one.name)
        if not math.isnan(noise):
            print(f"Chance: other seeds would change {100 * noise:.2g} % of the variance of {one.name}")
        if design.method == "sobol" and _widest(found.indices[one.name]) > WIDE:
            told = f"{one.name}: intervals are wide; take more --samples, such as {2 * design.count}"
            print(f"aqmlab: {told}", file=sys.stderr)


def _widest(indices: pl.DataFrame) -> float:
    """The most that an interval of Sobol's reaches to each side."""
    return float(max(*indices["S1_conf"], *indices["ST_conf"]))


def _cells(row: Mapping[str, Any]) -> list[str]:
    if "S1" in row:
        return [stats.plus_minus(row[name], row[f"{name}_conf"]) for name in ("S1", "ST")]
    size = stats.plus_minus(row["mu_star"], row["mu_star_conf"])
    places = stats.decimals(row["mu_star_conf"])
    return [size, f"{row['mu']:.{places}f}", f"{row['sigma']:.{places}f}"]


def sensitivity_table(found: Sensitivity) -> dict[str, Any]:
    """What `--json` prints."""
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
    """Writes the samples, the indices and a chart for each measure; returns the files worth opening."""
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
    """How many runs there are, in words."""
    scenarios, seeds = tuning.trials + 1, len(tuning.seeds)
    judged, fresh = len(tuning.rivals) + 1, len(tuning.fresh_seeds)
    return (
        f"{_count(tuning.trials, 'trial')} and the scenario as it was, {_count(seeds, 'seed')} each, and "
        f"{judged} scenarios with {fresh} fresh seeds: {scenarios * seeds + judged * fresh} runs"
    )


def print_tuning(found: TuningResult) -> None:
    """The best values, what they are worth on fresh seeds, and the command that uses them."""
    print("\n".join(_searched(found)))
    if found.best is None:
        return
    judged, rivals = found.tuning.judged, list(found.tuning.rivals)
    of = {(one.rival, one.measure.name): one for one in found.comparisons}
    heads = ["", *(f"{one.name}\n({one.unit})" if one.unit else one.name for one in judged)]
    first, last = found.tuning.fresh_seeds[0], found.tuning.fresh_seeds[-1]
    means = [[TUNED, *(_interval(of[AS_IT_WAS, one.name].tuned) for one in judged)]]
    means += [[rival, *(_interval(of[rival, one.name].other) for one in judged)] for rival in rivals]
    print_table(f"Fresh seeds {first} to {last}: mean and 95 % interval", heads, means, left=1)
    less = [
        [f"{TUNED} - {rival}", *(_interval(of[rival, one.name].difference) for one in judged)]
        for rival in rivals
    ]
    print_table("Differences, seed by seed, and their 95 % intervals", heads, less, left=1)
    print("\n".join(_judged(found)))


def _searched(found: TuningResult) -> Iterator[str]:
    """What the trials say."""
    tuning, objective = found.tuning, found.tuning.measures[0]
    kept = f"{found.feasible} of {len(found.answers)} trials kept {_limits(tuning)}" if tuning.limits else ""
    if kept:
        yield kept
    refused = len(found.problems)
    if refused:
        number, why = next(iter(found.problems.items()))
        yield f"{_count(refused, 'trial')} had no answer; trial {number + 1}: {why}"
    if found.best is None:
        yield "Nothing found: no trial keeps all limits. Widen the ranges of --vary, or relax the limits."
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
        f"Best on the seeds tuned on: trial {found.best.question.number + 1} with "
        f"{found.best.value:.4g} {objective.unit}".rstrip()
        + f", {AS_IT_WAS} {before:.4g}; the best of many is best by luck, too, and is judged on other seeds:"
    )


def _judged(found: TuningResult) -> Iterator[str]:
    """What fresh seeds say."""
    objective = found.tuning.measures[0].name
    for compared in found.comparisons:
        if compared.measure.name == objective:
            yield _sentence(found, compared)
    for name, band in found.tuning.limits.items():
        verdict = found.limit_verdict(name)
        yield f"The limit {name} {band} {_LIMIT[verdict]}"
    yield f"Best values: {said(found.settings)}"
    yield " ".join(f"--set {path}={value}" for path, value in found.settings.items())


def _sentence(found: TuningResult, compared: Comparison) -> str:
    other = "the scenario as it was" if compared.rival == AS_IT_WAS else compared.rival
    difference = f"{_interval(compared.difference)} {compared.measure.unit}".rstrip()
    by = f"{compared.measure.name} differs by {difference}"
    broken = [
        f"{name} {band}"
        for name, band in found.tuning.limits.items()
        if found.limit_verdict(name, compared.rival) == "fails"
    ]
    but = f"; but {other} does not keep {' and '.join(broken)}" if broken else ""
    outcome = found.outcome(compared)
    if outcome == "not distinguishable":
        return f"Tuned and {other} are not distinguishable: {by}, which may be nothing at all{but}."
    return f"Tuned is {outcome} than {other}: {by}{but}."


def tuning_table(found: TuningResult) -> dict[str, Any]:
    """What `--json` prints."""
    tuning = found.tuning

    def told(interval: stats.Interval) -> dict[str, Any]:
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
                    "tuned": told(one.tuned),
                    "other": told(one.other),
                    "difference": told(one.difference),
                }
            )
            for one in found.comparisons
        ],
        "failures": [str(failure) for failure in found.failures],
    }


def write_tuning(found: TuningResult, out: Path) -> list[Path]:
    """Writes the trials and a chart of them; returns the files worth opening."""
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
